"""Pairs of real rows with their similarities, for tests of how often codes agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashing_rows import rows_of_csr, rows_of_dense
from kinbin.rows.rows import Rows

Loader = Callable[[str], dict[str, NDArray[Any]]]

ROWS = 120
PAIRS = 200


@dataclass(frozen=True)
class Pairs:
    """Pairs (left[p], right[p]) of rows, their exact similarities, and the nonzeros of the smaller row."""

    rows: Rows
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    similarity: NDArray[np.float64]
    nonzeros: NDArray[np.int64]

    def agreement(self, codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which hashes agree: (pairs, hashes), hashes in the order (x, j)."""
        flat = codes.reshape(len(self.rows), -1)
        agree: NDArray[np.bool_] = flat[self.left] == flat[self.right]
        return agree


def load_rows(data_set: Loader, name: str) -> Rows:
    """120 rows of a data set."""
    arrays = data_set(name.removesuffix(" signed"))
    if "train_indptr" in arrays:
        return rows_of_csr(arrays["train_data"], arrays["train_indices"], arrays["train_indptr"], range(0, 30 * ROWS, 30))
    X = arrays["X_train"][:: len(arrays["X_train"]) // ROWS][:ROWS].astype(np.float64)
    if name.endswith(" signed"):
        X = X[:, X.std(axis=0) > 0]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return rows_of_dense(X)


def matrix_of(rows: Rows, split: bool) -> NDArray[np.float64]:
    """Values as a dense matrix over the features that occur; split: magnitudes over the split features."""
    features = 2 * rows.features.astype(object) + (rows.values < 0) if split else rows.features
    seen, column = np.unique(features.astype(np.uint64), return_inverse=True)
    matrix = np.zeros((len(rows), seen.size))
    row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    matrix[row, column] = np.abs(rows.values.astype(np.float64)) if split else rows.values
    return matrix


def minmax_of(rows: Rows, normalise: bool) -> NDArray[np.float64]:
    """The min-max kernel of all pairs (n, n)."""
    weights = matrix_of(rows, split=True)
    if normalise:
        weights /= rows.norms[:, None]
    least = np.stack([np.minimum(one, weights).sum(axis=1) for one in weights])
    norms = weights.sum(axis=1)
    kernel: NDArray[np.float64] = least / (norms[:, None] + norms - least)
    return kernel


def cosine_of(rows: Rows) -> NDArray[np.float64]:
    """The cosine of all pairs (n, n)."""
    matrix = matrix_of(rows, split=False)
    matrix /= np.linalg.norm(matrix, axis=1)[:, None]
    kernel: NDArray[np.float64] = matrix @ matrix.T
    return kernel


def chi2_of(rows: Rows) -> NDArray[np.float64]:
    """Σ 2uv / (u + v) of all pairs (n, n) of non-negative rows, divided by their sums."""
    weights = matrix_of(rows, split=True) / rows.norms[:, None]
    return np.stack([np.sum(2 * one * weights / np.maximum(one + weights, 1e-300), axis=1) for one in weights])


def spread_pairs(rows: Rows, similarity: NDArray[np.float64]) -> Pairs:
    """200 pairs whose similarities (n, n) are spread over all that occur, half of them the nearest."""
    left, right = np.triu_indices(len(rows), 1)
    values = similarity[left, right]
    order = np.argsort(values)
    near = order[-PAIRS // 2 :]
    spread = order[np.linspace(0, len(order) - 1 - PAIRS // 2, PAIRS // 2).astype(np.int64)]
    picked = np.concatenate([near, spread])
    nonzeros = np.diff(rows.indptr)
    return Pairs(rows, left[picked], right[picked], values[picked], np.minimum(nonzeros[left[picked]], nonzeros[right[picked]]))


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of independent numbers and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def scatter(agree: NDArray[np.bool_], k: int = 64) -> dict[str, tuple[float, float]]:
    """The variance of estimates from k hashes over p(1 - p)/k, with its error, by how the k are picked: 1 if they are independent.

    agree: (pairs, seeds, hashes), hashes in the order (x, j) of 8 sketches of 256.
    """
    share = agree.mean(axis=(1, 2))
    picked = (share > 0.02) & (share < 0.98)
    agree, share = agree[picked], share[picked]
    groupings = {
        "along j": agree,
        "along x": agree.reshape(-1, 8, 32, 8).transpose(0, 2, 1, 3),
        "apart": agree.reshape(-1, k, agree.shape[2] // k).transpose(0, 2, 1),
    }
    found = {}
    for grouping, grouped in groupings.items():
        estimates = grouped.reshape(share.size, -1, k).mean(axis=2)
        groups = estimates.shape[1]
        expected = share * (1 - share) / k * (1 - 1 / groups)
        found[grouping] = mean_and_error(((estimates - share[:, None]) ** 2 / expected[:, None]).mean(axis=0))
    return found
