"""What the feature maps have in common: checked input, tags, names of features, and one-hot codes as CSR."""

# mypy: disable-error-code="misc"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from kinbin.errors import InvalidInput
from kinbin.features.rows import Matrix, refuse_broken, refuse_negative
from kinbin.limits import limit
from kinbin.parameters import arrived, one_of, whole
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.dense import dense_rows
from kinbin.rows.rows import Rows
from kinbin.spaces.registry import KERNELS, space_of
from kinbin.spaces.space import Space

__all__ = [
    "FeatureMap",
    "hashed_space",
    "one_hot",
    "projected",
    "rows_with_values",
    "seed_of",
    "size_of",
    "takes_negative",
    "where_nonzero",
]

_DTYPES = (np.float64, np.float32)
_CELLS = 1 << 22
"""Values that are projected at a time: 32 MB."""


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map of rows whose inner products are a kernel, or nearly so."""

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """X (n, d) as a float64 or float32 array or CSR with ascending columns, within the library's limits.

        Raises:
            ValueError: as scikit-learn's estimators; InvalidInput, which is one: negative values where none are taken.
        """
        refuse_broken(X)
        X = Matrix.of(validate_data(self, X, accept_sparse="csr", dtype=_DTYPES, reset=reset)).X
        if not self._signed():
            refuse_negative(X, type(self).__name__)
        return X

    def _signed(self) -> bool:
        """Whether negative values are taken."""
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = not self._signed()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def takes_negative(kernel: object) -> bool:
    """Whether a kernel takes negative values; what is no kernel is refused elsewhere."""
    try:
        return space_of(kernel).signed
    except InvalidInput:
        return True


def hashed_space(kernel: object, parameters: Mapping[str, Any] | None = None) -> Space:
    """The space of a kernel whose score is the min-max similarity, which samplers hash by.

    Raises:
        InvalidInput: there is no such kernel, or its score is another.
    """
    if not isinstance(kernel, str) or (kernel not in KERNELS and "*" not in kernel and kernel != "nested"):
        one_of("kernel", kernel, [name for name, space in KERNELS.items() if space.code is None])
    space = space_of(kernel, parameters)
    if space.code is not None:
        text = f"the kernel {space.name} has no weighted sampling: choose one of the min-max family, as ngmm or gmm"
        raise InvalidInput.of("bad_parameter", text, field="kernel")
    return space


def size_of(name: str, value: object, most: int) -> int:
    """A whole number from 1 to `most`."""
    number = whole(name, value)
    if number > most:
        raise InvalidInput.of("bad_parameter", f"{name} is at most {most}, not {number}", field=name)
    return number


def seed_of(random_state: Any) -> int:
    """A seed from 0 to 2**64 - 1: a whole number is the seed itself, as that of a collection."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if not 0 <= random_state < 2**64:
            raise InvalidInput.of("bad_parameter", f"random_state is from 0 to 2**64 - 1, not {random_state}", field="random_state")
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(0, 2**63 - 1, dtype=np.int64))
    except ValueError:
        text = f"random_state is a whole number, a RandomState or None, not {arrived(random_state)}"
        raise InvalidInput.of("bad_parameter", text, field="random_state") from None


def where_nonzero(X: Any) -> NDArray[np.intp]:
    """Which rows of X (n, d), as `FeatureMap` checks it, have any values."""
    least = limit("value_min")
    if not sp.issparse(X):
        return np.flatnonzero((np.abs(X) >= least).any(axis=1))
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    return np.flatnonzero(np.bincount(owner, np.abs(X.data) >= least, X.shape[0]))


def rows_with_values(X: Any, signed: bool) -> tuple[Rows, NDArray[np.intp]]:
    """Canonical rows of those rows of X that have any values, and which they are. X: as `FeatureMap` checks it."""
    kept = where_nonzero(X)
    some = X if len(kept) == X.shape[0] else X[kept]
    rows = None if sp.issparse(some) else dense_rows(some, dim=None, signed=signed)
    return canonical_rows(some, dim=None, signed=signed) if rows is None else rows, kept


def projected(X: Any, directions: NDArray[np.float64], rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(len(rows), k) whether the projections of rows of X (n, d) onto directions (d, k) are at least 0; a few rows at a time."""
    out = np.empty((len(rows), directions.shape[1]), np.bool_)
    step = max(1, _CELLS // directions.shape[1])
    for first in range(0, len(rows), step):
        out[first : first + step] = X[rows[first : first + step]] @ directions >= 0.0
    return out


def one_hot(symbols: NDArray[Any], cells: int, rows: NDArray[np.intp], count: int, dtype: Any) -> sp.csr_array:
    """Codes as columns of ones over √k: the inner product of two rows is the share of samples in which they agree.

    symbols (len(rows), k): each from 0 to cells - 1, of the rows named; the other ones of `count` rows stay empty.
    Returns (count, k * cells) CSR; column j * cells + symbol stands for sample j. Cost: 12 bytes a sample (16 past 2**31 columns).
    """
    k = symbols.shape[1]
    kind = np.int32 if max(k * cells, symbols.size) < 2**31 else np.int64
    columns = symbols.astype(kind)
    columns += (cells * np.arange(k)).astype(kind)
    sizes = np.zeros(count + 1, kind)
    sizes[rows + 1] = k
    values = np.full(columns.size, 1.0 / np.sqrt(k), dtype)
    return sp.csr_array((values, columns.reshape(-1), np.cumsum(sizes, dtype=kind)), shape=(count, k * cells))
