"""Canonical rows for the tests of the hashing layer, made without the library's own validation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.rows.rows import Rows
from naive_hashing import Row, float32, norm

AWKWARD: list[Row] = [
    [(0, 1.0)],
    [(2**63 - 1, -3.0)],
    [(0, float32(1e-30)), (1, float32(1e15))],
    [(0, float32(-1e15)), (7, float32(1e-30)), (8, float32(-1e-30))],
    [(2**62, 1.0), (2**63 - 2, 1.0), (2**63 - 1, 1.0)],
    [(feature, 1.0) for feature in range(4)],
    [(feature, -1.0) for feature in range(5)],
    [(3 * feature, (-1.0) ** feature * (feature + 1)) for feature in range(11)],
    [(3 * feature, (-1.0) ** feature * (feature + 1)) for feature in range(12)],
    [(3 * feature, (-1.0) ** feature * (feature + 1)) for feature in range(13)],
    [(3 * feature, (-1.0) ** feature * (feature + 1)) for feature in range(13)],
    [(2**40 * feature, float32(1.0 / (1 + feature))) for feature in range(67)],
]
"""One nonzero, the largest ids, huge beside tiny, ties, sizes about the unroll widths (4, 12), a repeated row, a long one."""


def rows_of(rows: Sequence[Row]) -> Rows:
    """Rows of (feature, value) lists that are ascending and exact in float32."""
    indptr = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    features = np.array([feature for row in rows for feature, _ in row], np.uint64)
    values = np.array([value for row in rows for _, value in row], np.float32)
    return Rows(indptr, features, values, np.array([norm(row) for row in rows]))


def rows_of_dense(X: NDArray[Any]) -> Rows:
    """Rows of a dense matrix; rows that are all zero are left out."""
    X = X.astype(np.float32)
    X = X[np.any(X != 0, axis=1)]
    _, features = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(X, axis=1))]).astype(np.int64)
    values = X[X != 0]
    norms = np.array([sum(np.abs(row[row != 0]).astype(np.float64).tolist()) for row in X])
    return Rows(indptr, features.astype(np.uint64), values, norms)


def rows_of_csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], picked: Iterable[int]) -> Rows:
    """The picked rows of a CSR matrix; empty ones are left out."""
    rows: list[Row] = []
    for i in picked:
        span = slice(indptr[i], indptr[i + 1])
        row = sorted((int(f), float(np.float32(v))) for f, v in zip(indices[span], data[span], strict=True) if v != 0)
        if row:
            rows.append(row)
    return rows_of(rows)


def random_rows(rng: np.random.Generator, count: int, most: int, features: int = 10_000) -> Rows:
    """Signed rows of 1 … `most` nonzeros with weights over six orders of magnitude."""
    rows: list[Row] = []
    for _ in range(count):
        size = int(rng.integers(1, most + 1))
        picked = np.sort(rng.choice(features, size, replace=False))
        weights = (10.0 ** rng.uniform(-3, 3, size) * rng.choice([-1.0, 1.0], size)).astype(np.float32)
        rows.append([(int(f), float(v)) for f, v in zip(picked, weights, strict=True)])
    return rows_of(rows)


def lists_of(rows: Rows) -> list[Row]:
    """The rows as the plain twin takes them."""
    return [[(int(f), float(v)) for f, v in zip(*rows.row(i), strict=True)] for i in range(len(rows))]
