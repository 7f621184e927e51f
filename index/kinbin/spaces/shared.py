"""The min-max similarity of a stored row, and what bounds it."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, reassoc
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16, pointer_u64
from kinbin.rows.lookup import narrow_weight, wide_of, wide_weight
from kinbin.rows.record import HEADER

__all__ = ["SAME", "farthest_shapes", "most_similar", "shared_similarity"]

U64 = np.uint64
SAME = 1.0 - 4e-7
"""Above this, a similarity is 1 but for rounding: scale and products are float32, and the ratio doubles their errors."""


@inline
def _least(q, v):
    """The smaller of two values of the same sign; 0 if their signs differ."""
    least = min(abs(q), abs(v))
    return np.float64(least if (q < 0) == (v < 0) else np.float32(0.0))


@reassoc
def shared_narrow(address, nnz, scale, cells):
    """Σ min over features on which the signs agree; the row's values times `scale` against the look-up.

    address: of the row's features and values. float32 products and minima, summed in float64: relative error below 2e-7.
    """
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    if np.int64(item(features, nnz - 1)) == nnz - 1:
        # Features ascend: these are all there are, and cells need not be looked up. (A damaged row of none looked at its header.)
        for x in range(nnz):
            total += _least(cells[x], item(values, x) * scale)
        return total
    for x in range(nnz):
        total += _least(narrow_weight(cells, item(features, x)), item(values, x) * scale)
    return total


@reassoc
def shared_wide(address, nnz, scale, cells, keys, weights):
    """As `shared_narrow`, for wide rows. Cost: 1.5 to 2.5 ns a nonzero; as much again if second cells are used."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    wide = wide_of(cells, keys, weights)
    total = 0.0
    for x in range(nnz):
        total += _least(wide_weight(wide, item(features, x), False), item(values, x) * scale)
    if keys[-1] != 0:
        for x in range(nnz):
            total += _least(wide_weight(wide, item(features, x), True), item(values, x) * scale)
    return total


@inline
def shared_similarity(address, nnz, shapes, query_norm, lookup):
    """The min-max similarity of the query in the look-up and the record at `address`.

    shapes: the row is divided by its sum, as the query was. query_norm: the sum of the query as it stands in the look-up. Rows that
    are the same, or of the same shape where only shapes count, are exactly 1.0.
    """
    norm = float64_at(address)
    scale = np.float32(1.0 / norm) if shapes else np.float32(1.0)
    body = address + U64(HEADER)
    if lookup.wide:
        shared = shared_wide(body, nnz, scale, lookup.cells, lookup.keys, lookup.weights)
    else:
        shared = shared_narrow(body, nnz, scale, lookup.cells)
    whole = 2.0 if shapes else query_norm + norm
    similarity = shared / (whole - shared)
    return 1.0 if similarity > SAME else similarity


@inline
def most_similar(distance, left_norm, right_norm):
    """The min-max similarity that rows of these norms can have at most, if their shapes are `distance` apart in L1.

    With s = 1 − distance / 2 the shared part of the shapes: Σ min(a p, b q) ≤ min(a, b, max(a, b) s). For norms that
    are equal, for multiples of one row and for sets, it is just that.
    """
    shared = max(0.0, 1.0 - 0.5 * distance)
    least = min(left_norm, right_norm)
    most = max(left_norm, right_norm)
    both = min(least, most * shared)
    return both / (left_norm + right_norm - both)


@inline
def farthest_shapes(similarity):
    """The L1 distance of shapes at which two rows that sum to 1 are so similar."""
    return 2.0 * (1.0 - similarity) / (1.0 + similarity)
