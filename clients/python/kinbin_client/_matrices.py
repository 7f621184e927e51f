"""SciPy's sparse matrices → rows. SciPy trusts what stands in its arrays, so they are checked before its code reads them.

Written with what the arrays themselves offer: neither SciPy nor NumPy is imported. The rules and words are the library's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from kinbin_client.errors import InvalidArgument

__all__ = ["sparse_rows"]


def sparse_rows(matrix: Any) -> Iterator[dict[str, Any]]:
    """The rows of a sparse matrix (or its only one) as the service takes them, entries that it has twice added up."""
    if getattr(matrix.dtype, "kind", "f") not in "fiu":
        raise InvalidArgument(f"vectors are numbers, this matrix has dtype {matrix.dtype}", 0, "bad_vector")
    _check(matrix)
    try:
        csr = (matrix.reshape(1, -1) if len(matrix.shape) == 1 else matrix).tocsr()
        if csr is not matrix:
            _check(csr)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise _inconsistent(matrix, str(error)) from None
    starts, places, values = csr.indptr.tolist(), csr.indices, csr.data
    return ({"indices": places[start:stop].tolist(), "values": values[start:stop].tolist()} for start, stop in pairwise(starts))


def _inconsistent(matrix: Any, why: str) -> InvalidArgument:
    return InvalidArgument(f"this {matrix.format} matrix contradicts itself: {why}; build it anew", None, "bad_vector")


def _check(matrix: Any) -> None:
    """Refuse places outside of the shape, and lists of different lengths."""
    rows, columns = matrix.shape if len(matrix.shape) == 2 else (1, matrix.shape[-1])
    if matrix.format in ("csr", "csc", "bsr"):
        height, width = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        _check_compressed(matrix, rows // height, columns // width)
    elif matrix.format == "coo":
        sides = (("row", rows), ("column", columns))[-len(matrix.shape) :]
        for (side, length), places in zip(sides, matrix.coords, strict=True):
            if len(places) != len(matrix.data):
                raise _inconsistent(matrix, f"{len(places)} places came with {len(matrix.data)} values")
            _check_places(places, side, length, None)


def _check_compressed(matrix: Any, rows: int, columns: int) -> None:
    major, side, minor = (columns, "row", rows) if matrix.format == "csc" else (rows, "column", columns)
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


def _check_places(places: Any, side: str, length: int, starts: Any) -> None:
    """Refuse an index that is not one; `starts` of rows tell in which of them it is."""
    if places.dtype.kind not in "iu":
        raise InvalidArgument(f"indices are whole numbers, those of this matrix have dtype {places.dtype}", None, "bad_vector")
    if not len(places) or (places.min() >= 0 and places.max() < length):
        return
    at = int(((places < 0) | (places >= length)).nonzero()[0][0])
    position = None if starts is None else int(starts.searchsorted(at, "right")) - 1
    text = f"a {side} index of a matrix of {length} {side}s is from 0 to {length - 1}, this one has {places[at]}"
    raise InvalidArgument(text, position, "out_of_range")
