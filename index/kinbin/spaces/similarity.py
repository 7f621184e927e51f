"""The min-max similarity as code that is called by its address, in float64, of values as they are: what products are made of.

`spaces.shared` has the same, inlined, of values that are scaled before: searches by the min-max similarity alone use that.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, reassoc, strict
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import lookup_at, narrow_weight, norm_at, wide_of, wide_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.rounding import snapped
from kinbin.spaces.shared import SAME, most_similar

__all__ = ["best_of_rows", "best_of_shapes", "similarity_of_rows", "similarity_of_shapes"]

U64 = np.uint64


@inline
def _least(q, v, left, right):
    """The smaller of q `left` and v `right`, of the same sign; 0 if their signs differ."""
    return 0.0 if (q < 0) != (v < 0) else min(abs(np.float64(q)) * left, abs(np.float64(v)) * right)


@reassoc
def _narrow(address, nnz, left, right, cells):
    """Σ min over the nonzeros of a narrow row on which the signs agree. Cost: 1 ns a nonzero."""
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    for x in range(nnz):
        total += _least(narrow_weight(cells, item(features, x)), item(values, x), left, right)
    return total


@reassoc
def _wide(address, nnz, left, right, lookup):
    """The same of a wide row."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    cells = wide_of(lookup.cells, lookup.keys, lookup.weights)
    total = 0.0
    for x in range(nnz):
        total += _least(wide_weight(cells, item(features, x), False), item(values, x), left, right)
    if cells.keys[-1] != 0:
        for x in range(nnz):
            total += _least(wide_weight(cells, item(features, x), True), item(values, x), left, right)
    return total


@inline
def _shared(row, nnz, looked_up, left, right):
    """Σ min of the query's values, times `left`, and the row's, times `right`."""
    lookup = lookup_at(looked_up)
    body = row + U64(HEADER)
    if not lookup.wide:
        return _narrow(body, nnz, left, right, lookup.cells)
    return _wide(body, nnz, left, right, lookup)


@strict
def similarity_of_shapes(row, nnz, looked_up):
    """J of a stored row and the query in the look-up, each divided by its sum."""
    own, norm = norm_at(looked_up), float64_at(row)
    shared = _shared(row, nnz, looked_up, norm, own) / (own * norm)
    # A multiple of a row is one but for rounding to float32: as in `spaces.shared`, where it is that of products.
    similarity = shared / (2.0 - shared)
    return 1.0 if similarity > SAME else similarity


@strict
def similarity_of_rows(row, nnz, looked_up):
    """J of both as they are."""
    shared = _shared(row, nnz, looked_up, 1.0, 1.0)
    return snapped(shared / (norm_at(looked_up) + float64_at(row) - shared), nnz)


@strict
def best_of_shapes(_context, distance, _norm, _other):
    """The J of shapes that are so far apart in L1."""
    return most_similar(distance, 1.0, 1.0)


@strict
def best_of_rows(_context, distance, norm, other):
    """The most of rows of these norms, whose shapes are so far apart."""
    return most_similar(distance, norm, other)
