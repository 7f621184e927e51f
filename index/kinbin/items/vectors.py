"""Vectors: dense, sparse, or bags of tokens. Their rows hold what is not 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinbin.errors import InvalidInput
from kinbin.items.kind import Form, Kind
from kinbin.records import Sparse
from kinbin.rows.canonical import canonical_rows
from kinbin.rows.dense import dense_row, dense_rows
from kinbin.rows.lookup import NARROW_DIMENSION
from kinbin.rows.rows import Rows

__all__ = ["VECTORS", "is_wide"]


def is_wide(dim: int | None) -> bool:
    """Whether rows of vectors carry 64-bit feature ids (otherwise 16-bit ones)."""
    return dim is None or dim > NARROW_DIMENSION


def _rows(X: Any, form: Form) -> Rows:
    """Vectors of any form as canonical rows."""
    plain = not isinstance(X, np.ma.MaskedArray)
    rows = dense_rows(X, dim=form.dim, signed=form.signed) if plain else None
    return canonical_rows(X, dim=form.dim, signed=form.signed) if rows is None else rows


def _row(x: Any, form: Form) -> Rows:
    if isinstance(x, np.ndarray) and x.ndim == 2:
        raise InvalidInput.of("bad_vector", "query takes one vector, this is a matrix; use query_batch", field="vector")
    if isinstance(x, list) and x and isinstance(x[0], list | tuple | np.ndarray):
        text = f"query takes one vector, this is a list of {len(x)}; use query_batch, or leave the outer brackets out"
        raise InvalidInput.of("bad_vector", text, field="vector")
    if hasattr(x, "tocsr") and x.ndim == 2 and x.shape[0] != 1:
        text = f"query takes one vector, this matrix has {x.shape[0]} rows; use query_batch"
        raise InvalidInput.of("bad_vector", text, field="vector")
    masked = isinstance(x, np.ma.MaskedArray)
    row = None if masked else dense_row(x, dim=form.dim, signed=form.signed)
    if row is not None:
        return row
    dense = not masked and isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype.kind in "fiu"
    try:
        return canonical_rows(x.reshape(1, -1) if dense else [x], dim=form.dim, signed=form.signed)
    except InvalidInput as error:
        # There is one vector, and no position to name.
        raise InvalidInput([replace(problem, position=None) for problem in error.problems]) from None


def _item(rows: Rows, i: int, form: Form) -> Any:
    features, values = rows.row(i)
    if form.dim is None:
        return Sparse(features.copy(), values.copy())
    out = np.zeros(form.dim, np.float32)
    out[features] = values
    return out


_NO_NAMES: Sequence[str] = ()

VECTORS = Kind("vectors", "vector", _NO_NAMES, lambda dim: dim, _rows, _row, _item, vectors=True, wide=lambda form: is_wide(form.dim))
"""Searched by every kernel of `spaces.registry.KERNELS` and their products."""
