"""A space that prints distances, for the tests of the seam: the L1 distance of rows as they are, found by codes, without hashes."""

from __future__ import annotations

import numpy as np

from kinbin.native.jit import strict
from kinbin.native.memory import float64_at, item, pointer_f32, pointer_u16
from kinbin.rows.lookup import LOOKUP, lookup_at, narrow_weight
from kinbin.rows.record import HEADER
from kinbin.spaces.ordered import distance_of, distance_score
from kinbin.spaces.space import Code, Space

__all__ = ["MANHATTAN"]

_NORM = LOOKUP.offset("norm")


@strict
def _score(row, nnz, looked_up):  # type: ignore[no-untyped-def]
    """What is not in the row counts as its distance from 0."""
    lookup = lookup_at(looked_up)
    features = pointer_u16(row + np.uint64(HEADER))
    values = pointer_f32(row + np.uint64(HEADER + (2 * nnz + 3) // 4 * 4))
    distance = float64_at(looked_up + np.uint64(_NORM))
    for x in range(nnz):
        weight = np.float64(narrow_weight(lookup.cells, item(features, x)))
        distance += abs(weight - np.float64(item(values, x))) - abs(weight)
    return distance_score(max(distance, 0.0))


@strict
def _best(_context, distance, norm, other):  # type: ignore[no-untyped-def]
    """Rows of such norms, whose shapes are so far apart, are at least so far from each other."""
    apart = abs(norm - other)
    return distance_score(max(apart, max(norm, other) * distance - apart) * (1.0 - 1e-6))


@strict
def _farthest(_context, _score):  # type: ignore[no-untyped-def]
    return 2.0


@strict
def _least(_context, _score):  # type: ignore[no-untyped-def]
    return 0.0


MANHATTAN = Space(
    "manhattan", "Manhattan distance", "Σ |u − v|", shapes=False, signed=True, code=Code(_score, _best, _farthest, _least),
    hashes=False, printed=distance_of, score_of=distance_score.py_func,
    ascending=True, printed_range=(0.0, float("inf")),
)  # fmt: skip
