"""SciPy's sparse matrices → features and values. SciPy trusts what stands in its arrays, so they are checked before its code reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fault", "check_sparse", "sparse_rows"]

_COLUMN, _ROW = "column", "row"


class Fault(Exception):
    """One vector cannot be taken; `position` is where in a batch it stands, None: the batch as a whole is wrong."""

    def __init__(self, code: str, detail: str, over: str | None = None, position: int | None = 0) -> None:
        super().__init__(detail)
        self.code, self.detail, self.over, self.position = code, detail, over, position


def sparse_rows(matrix: Any) -> tuple[NDArray[Any], NDArray[np.uint64], NDArray[Any]]:
    """Row starts (n + 1,), feature ids and values of a sparse matrix or array of any format; one of one dimension is one row.

    Entries that a matrix has twice are added up, as SciPy does wherever it reads one. The matrix stays as it was.

    Raises:
        Fault: the values are no numbers, or the matrix contradicts itself.
    """
    if matrix.dtype.kind not in "fiu":
        raise Fault("bad_vector", f"vectors are numbers, this matrix has dtype {matrix.dtype}")
    check_sparse(matrix)
    try:
        csr = (matrix.reshape(1, -1) if matrix.ndim == 1 else matrix).tocsr()
        if csr is not matrix:
            check_sparse(csr)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise _inconsistent(matrix, str(error)) from None
    return csr.indptr, csr.indices.astype(np.uint64), csr.data


def _inconsistent(matrix: Any, why: str) -> Fault:
    return Fault("bad_vector", f"this {matrix.format} matrix contradicts itself: {why}; build it anew", position=None)


def check_sparse(matrix: Any) -> None:
    """Refuse places outside of the shape, and lists of different lengths.

    Raises:
        Fault: codes "bad_vector", "out_of_range".
    """
    rows, columns = matrix.shape if matrix.ndim == 2 else (1, matrix.shape[-1])
    if matrix.format in ("csr", "csc", "bsr"):
        height, width = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        _check_compressed(matrix, rows // height, columns // width)
    elif matrix.format == "coo":
        sides = ((_ROW, rows), (_COLUMN, columns))[-matrix.ndim :]
        for (side, length), places in zip(sides, matrix.coords, strict=True):
            if len(places) != len(matrix.data):
                raise _inconsistent(matrix, f"{len(places)} places came with {len(matrix.data)} values")
            _check_places(places, side, length, None)


def _check_compressed(matrix: Any, rows: int, columns: int) -> None:
    major, side, minor = (columns, _ROW, rows) if matrix.format == "csc" else (rows, _COLUMN, columns)
    starts, places, count = matrix.indptr, matrix.indices, len(matrix.data)
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or len(starts) != major + 1:
        raise _inconsistent(matrix, f"indptr is {starts.size} of {starts.dtype}, not {major + 1} whole numbers")
    if places.ndim != 1 or len(places) != count or (matrix.format != "bsr" and matrix.data.ndim != 1):
        raise _inconsistent(matrix, f"{places.size} indices came with {count} values")
    if starts[0] != 0:
        raise _inconsistent(matrix, f"indptr begins with {starts[0]}, not with 0")
    if (starts[1:] < starts[:-1]).any():
        raise _inconsistent(matrix, "indptr descends")
    if starts[-1] != count:
        hint = " (matrix.prune() drops the rest)" if starts[-1] < count else ""
        raise _inconsistent(matrix, f"indptr ends at {starts[-1]}, and there are {count} values{hint}")
    _check_places(places, side, minor, starts if matrix.format == "csr" else None)


def _check_places(places: NDArray[Any], side: str, length: int, starts: NDArray[Any] | None) -> None:
    """Refuse an index that is not one; `starts` of rows tell in which of them it is."""
    if places.dtype.kind not in "iu":
        raise Fault("bad_vector", f"indices are whole numbers, those of this matrix have dtype {places.dtype}", position=None)
    if not len(places) or (places.min() >= 0 and places.max() < length):
        return
    at = int(np.flatnonzero((places < 0) | (places >= length))[0])
    position = None if starts is None else int(np.searchsorted(starts, at, "right")) - 1
    raise Fault(
        "out_of_range",
        f"a {side} index of a matrix of {length} {side}s is from 0 to {length - 1}, this one has {places[at]}",
        position=position,
    )
