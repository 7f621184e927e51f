"""What the right answer is: exact `ngmm` scores in float64 with NumPy alone, and recall counted by score.

Nothing of what is measured is used here. An answered row counts as found when its exact score reaches the
score of the k-th true neighbour, less 1e-6: among rows that tie, every choice is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["TOLERANCE", "Exact", "Judge", "rows_answered"]

TOLERANCE = 1e-6
_CHUNK = 1 << 15
"""Nonzeros scored at a time: they and what is made of them stay in the cache."""
_PART = 1 << 25
"""Nonzeros held in memory at a time, with their features and weights 24 bytes each."""


class Exact:
    """Rows (a matrix or CSR) with their signs split and their weights divided by the row's sum, scored without shortcuts."""

    def __init__(self, rows: Any) -> None:
        matrix = scipy.sparse.csr_matrix(rows, dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        sizes = np.diff(matrix.indptr)
        assert sizes.min() > 0, "a row without a value has no neighbours"
        self.indptr = matrix.indptr.astype(np.int64)
        self.width = 2 * matrix.shape[1]
        self.features = 2 * matrix.indices.astype(np.int64) + (matrix.data < 0)
        sums = np.add.reduceat(np.abs(matrix.data), self.indptr[:-1])
        self.weights = np.abs(matrix.data) / np.repeat(sums, sizes)
        # Whole rows, about _CHUNK nonzeros at a time.
        steps = np.searchsorted(self.indptr, np.arange(_CHUNK, self.indptr[-1], _CHUNK))
        self._cuts = np.unique(np.concatenate([[0], steps, [len(self)]]))

    def __len__(self) -> int:
        return int(self.indptr.shape[0]) - 1

    def row(self, i: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Split features and weights of a row."""
        here = slice(self.indptr[i], self.indptr[i + 1])
        return self.features[here], self.weights[here]

    def all_scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) scores of all rows to the query whose weight by split feature is `weights` (width,)."""
        shared = np.empty(len(self))
        for first, last in zip(self._cuts[:-1], self._cuts[1:], strict=True):
            start, stop = self.indptr[first], self.indptr[last]
            least = np.minimum(weights[self.features[start:stop]], self.weights[start:stop])
            shared[first:last] = np.add.reduceat(least, self.indptr[first:last] - start)
        return shared / (2.0 - shared)

    def some_scores(self, weights: NDArray[np.float64], which: NDArray[np.int64]) -> NDArray[np.float64]:
        """Scores of a few rows."""
        shared = np.array([np.minimum(weights[features], own).sum() for features, own in map(self.row, which)])
        return shared / (2.0 - shared)


class Judge:
    """Queries with their true neighbours among some rows: says what an answer is worth.

    Rows are a matrix or CSR, and may be mapped from files: so many are held in memory at a time as make `_PART` nonzeros or so.
    """

    def __init__(self, rows: Any, queries: Any, k: int) -> None:
        self._rows, self._queries, self._k = scipy.sparse.csr_matrix(rows), Exact(queries), k
        self._kth = self._kth_scores()

    def _kth_scores(self) -> NDArray[np.float64]:
        """(m,) the score of each query's k-th true neighbour: part by part, the k best of each with those of the parts before."""
        step = max(self._k, int(_PART / max(1.0, self._rows.nnz / self._rows.shape[0])))
        best = np.full((len(self._queries), self._k), -np.inf)
        weights = np.zeros(self._queries.width)
        for first in range(0, self._rows.shape[0], step):
            part = Exact(self._rows[first : first + step])
            for i in range(len(self._queries)):
                features, own = self._queries.row(i)
                weights[features] = own
                scores = np.concatenate([best[i], part.all_scores(weights)])
                best[i] = np.partition(scores, len(scores) - self._k)[len(scores) - self._k :]
                weights[features] = 0.0
        kth: NDArray[np.float64] = best.min(axis=1)
        return kth

    def recalls(self, answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """(m,) share of each query's k true neighbours among the answered row numbers (m, k), -1 where there is none."""
        reached = self.scores(answers) >= self._kth[:, None] - TOLERANCE
        recalls: NDArray[np.float64] = reached.sum(axis=1) / self._k
        return recalls

    def scores(self, answers: NDArray[np.int64]) -> NDArray[np.float64]:
        """(m, k) exact scores of the distinct rows that were answered (m, k), the best first, then -inf."""
        assert answers.shape == (len(self._queries), self._k)
        out = np.full(answers.shape, -np.inf)
        wanted = np.unique(answers[answers >= 0])
        if not len(wanted):
            return out
        rows, weights = Exact(self._rows[wanted]), np.zeros(self._queries.width)
        for i in range(len(out)):
            features, own = self._queries.row(i)
            weights[features] = own
            answered = np.searchsorted(wanted, np.unique(answers[i][answers[i] >= 0]))
            out[i, : len(answered)] = np.sort(rows.some_scores(weights, answered))[::-1]
            weights[features] = 0.0
        return out


def rows_answered(ids: NDArray[np.object_]) -> NDArray[np.int64]:
    """The row numbers (m, k) of an answer's ids, -1 for None."""
    return np.array([[-1 if identifier is None else int(identifier) for identifier in row] for row in ids], np.int64).reshape(ids.shape)
