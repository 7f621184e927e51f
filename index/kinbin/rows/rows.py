"""The one canonical form of vectors inside Kinbin: compressed sparse rows of signed float32 values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rows"]


@dataclass(frozen=True, slots=True)
class Rows:
    """n canonical vectors, validated: safe for every kernel.

    Row i is `features[indptr[i]:indptr[i+1]]`, strictly ascending, with `values` of the same
    place: finite, not zero, signed as they came. The sign split of the papers (2f for a positive
    value of feature f, 2f+1 for a negative one) is made where it is needed, never stored.
    """

    indptr: NDArray[np.int64]
    """(n+1,) ascending, from 0."""
    features: NDArray[np.uint64]
    """(nnz,) feature ids below 2**63."""
    values: NDArray[np.float32]
    """(nnz,)"""
    norms: NDArray[np.float64]
    """(n,) sum of absolute values, summed sequentially in float64: positive, finite."""

    def __len__(self) -> int:
        return len(self.norms)

    @property
    def most_nonzeros(self) -> int:
        """Of any row; 1 if there is none."""
        return int(np.diff(self.indptr).max(initial=1))

    def row(self, i: int) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Features and values of one row (views)."""
        start, stop = self.indptr[i], self.indptr[i + 1]
        return self.features[start:stop], self.values[start:stop]

    def slice(self, start: int, stop: int) -> Rows:
        """Rows start … stop-1 (views but for indptr)."""
        low, high = self.indptr[start], self.indptr[stop]
        return Rows(self.indptr[start : stop + 1] - low, self.features[low:high], self.values[low:high], self.norms[start:stop])

    def take(self, which: NDArray[np.int64]) -> Rows:
        """Some of the rows, copied."""
        every = np.diff(self.indptr)
        sizes = every[which]
        indptr = np.zeros(len(which) + 1, np.int64)
        np.cumsum(sizes, out=indptr[1:])
        if len(every) and (every == every[0]).all():
            # Rows of one length are copied whole: a fifth of the time.
            shape = len(every), int(every[0])
            features, values = self.features[: self.indptr[-1]].reshape(shape)[which], self.values[: self.indptr[-1]].reshape(shape)[which]
            return Rows(indptr, features.reshape(-1), values.reshape(-1), self.norms[which])
        places = np.repeat(self.indptr[which] - indptr[:-1], sizes) + np.arange(indptr[-1])
        return Rows(indptr, self.features[places], self.values[places], self.norms[which])
