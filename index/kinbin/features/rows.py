"""Matrices as `kinbin.features` takes them: dense or CSR, checked once, cut into scaled blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_array

from kinbin.errors import InvalidInput
from kinbin.limits import limit
from kinbin.rows.matrices import Fault, check_sparse
from kinbin.spaces.pairwise import Sum

__all__ = ["Matrix", "SparseBlock", "narrowed", "refuse_broken", "refuse_negative"]

_MOST_COLUMNS = 1 << 22
"""A row is laid out over all columns; of wider matrices, over those that occur."""
_DTYPES = (np.float64, np.float32)

SparseBlock = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def refuse_negative(X: Any, what: str) -> None:
    """Raise InvalidInput if a matrix has a value below 0."""
    values = X.data if sp.issparse(X) else X
    if values.size and values.min() < 0:
        raise InvalidInput.of("negative_value", f"Negative values in data: {what} takes values of 0 and more", field="vector")


def refuse_broken(X: Any) -> None:
    """Refuse what neither scikit-learn nor SciPy looks at: a sparse matrix whose places lie outside of it, and masked values.

    Raises:
        InvalidInput: codes "bad_vector", "out_of_range". Cost: 0.5 ns a place.
    """
    if isinstance(X, np.ma.MaskedArray):
        raise InvalidInput.of("bad_vector", "masked arrays are not taken: fill the mask, or drop what is masked", field="vector")
    if sp.issparse(X):
        try:
            check_sparse(X)
        except Fault as fault:
            raise InvalidInput.of(fault.code, fault.detail, field="vector") from None


@dataclass(frozen=True)
class Matrix:
    """n rows of d columns that are right: finite, within the library's limit of a value."""

    X: Any
    """(n, d) float64 or float32 array, or CSR with ascending columns in each row."""

    @classmethod
    def of(cls, X: Any) -> Matrix:
        """A matrix that was checked.

        Raises:
            ValueError: not two-dimensional, no rows or columns, NaN or infinite; InvalidInput, which is one: see
            `refuse_broken`, and values beyond the limit `value`.
        """
        refuse_broken(X)
        try:
            X = check_array(X, accept_sparse="csr", dtype=_DTYPES, accept_large_sparse=True)
        except TypeError as error:
            raise InvalidInput.of("bad_vector", f"rows are numbers: {error}", field="vector") from None
        values = X.data if sp.issparse(X) else X
        most = limit("value")
        if values.size and max(values.max(), -values.min()) > most:
            raise InvalidInput.of("out_of_range", f"values are at most {most:g} in magnitude", field="vector")
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        return cls(X)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether it is CSR."""
        return bool(sp.issparse(self.X))

    def as_sparse(self) -> Matrix:
        """The same as CSR."""
        return self if self.sparse else Matrix(sp.csr_array(self.X))

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """(n,) sums of the values' magnitudes."""
        return self._reduced(np.abs)

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """(n,) Euclidean lengths."""
        return np.sqrt(self._reduced(np.square))

    def _reduced(self, function: Any) -> NDArray[np.float64]:
        if self.sparse:
            owner = np.repeat(np.arange(len(self)), np.diff(self.X.indptr))
            return np.bincount(owner, function(self.X.data.astype(np.float64)), len(self)).astype(np.float64)
        step = max(1, (1 << 18) // max(1, self.X.shape[1]))
        parts = [function(self.X[i : i + step].astype(np.float64)).sum(axis=1) for i in range(0, len(self), step)]
        return np.concatenate(parts)

    def divisors(self, scale: str) -> NDArray[np.float64]:
        """(n,) what rows are divided by: 1 for rows that are 0 (or as good as that)."""
        if scale == "none":
            return np.ones(len(self))
        norms = self.sums if scale == "sum" else self.lengths
        return np.where(norms > limit("value_min"), norms, np.inf)

    def dense_block(self, one: Sum, rows: slice, multiple: int = 1) -> NDArray[np.float64]:
        """(count, d) float64 scaled rows, with rows of zeros up to a multiple."""
        count = rows.stop - rows.start
        block = np.zeros((-(-count // multiple) * multiple, self.X.shape[1]))
        np.divide(self.X[rows], self.divisors(one.scale)[rows, None], out=block[:count])
        return np.sqrt(block, out=block) if one.roots else block

    def halved_block(self, one: Sum, rows: slice, multiple: int = 1) -> NDArray[np.float64]:
        """`dense_block`, of half the values."""
        block = self.dense_block(one, rows, multiple)
        block *= 0.5
        return block

    def sparse_block(self, one: Sum, rows: slice) -> SparseBlock:
        """Starts, columns and scaled values of rows."""
        starts = self.X.indptr[rows.start : rows.stop + 1].astype(np.int64)
        span = slice(starts[0], starts[-1])
        values = self.X.data[span] / np.repeat(self.divisors(one.scale)[rows], np.diff(starts))
        return starts - starts[0], self.X.indices[span].astype(np.int64), np.sqrt(values) if one.roots else values.astype(np.float64)


def narrowed(left: Matrix, right: Matrix) -> tuple[Matrix, Matrix]:
    """The same two CSR matrices with fewer columns, if there are very many: those of the right one, and one for the rest."""
    width = left.X.shape[1]
    if width <= _MOST_COLUMNS:
        return left, right
    columns = np.unique(right.X.indices)

    def renumbered(X: Any) -> Matrix:
        at = np.searchsorted(columns, X.indices)
        known = (at < len(columns)) & (columns[np.minimum(at, len(columns) - 1)] == X.indices) if len(columns) else np.zeros(len(at), bool)
        places = np.where(known, at, len(columns))
        return Matrix(sp.csr_array((X.data, places, X.indptr), shape=(X.shape[0], len(columns) + 1)))

    return renumbered(left.X), renumbered(right.X)
