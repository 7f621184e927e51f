"""What embeddings of series and point sets have in common: dense rows, medians of distances, numbers as text.

Exponentials may differ in their last digits from one machine to another; that moves no neighbour.
"""

from __future__ import annotations

import base64

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.ragged import Ragged
from kinbin.items.embedding import Measure
from kinbin.rows.dense import dense_rows
from kinbin.rows.rows import Rows

__all__ = ["median_distance", "packed", "points_of", "rows_of", "unpacked"]

_LEAST = 1e-30
"""Smaller numbers are left out of a row: no kernel sees them."""
_PAIRS = 48
"""So many objects are compared with as many others where a median is wanted."""


def rows_of(dense: NDArray[np.float32], *, signed: bool = False) -> Rows:
    """Canonical rows of a matrix (n, d) whose rows are not 0 everywhere. Small values in it are set to 0."""
    dense[np.abs(dense) < _LEAST] = 0.0
    rows = dense_rows(dense, dim=dense.shape[1], signed=signed)
    assert rows is not None, "an embedding gives every row a number"
    return rows


def points_of(objects: Rows, dims: int) -> Ragged:
    """The series, or point sets, of rows that were made of them (views)."""
    return Ragged(objects.values.reshape(-1, dims), objects.indptr // dims)


def median_distance(objects: Rows, measure: Measure) -> float:
    """The median distance of pairs among the first 96 objects; 1 where it is 0."""
    half = min(_PAIRS, max(1, len(objects) // 2))
    first, last = min(half, len(objects) - 1), min(2 * half, len(objects))
    return float(np.median(measure(objects.slice(0, half), objects.slice(first, last)))) or 1.0


def packed(values: NDArray[np.float32]) -> str:
    """Numbers as text: base64 of little-endian float32."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def unpacked(text: str) -> NDArray[np.float32]:
    """The numbers (n,) of such a text."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)
