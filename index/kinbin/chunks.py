"""What one add takes: ids that are there once, and vectors of any number, cut into transactions that are read and written in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kinbin.errors import InvalidInput, Problem
from kinbin.limits import limit
from kinbin.parameters import arrived, at_most, id_as_text, sequence_of
from kinbin.rows.identity import NewIds, check_ids
from kinbin.rows.rows import Rows

__all__ = ["chunks", "distinct_ids", "new_ids"]


def distinct_ids(ids: Any) -> list[bytes]:
    """The ids of an add as UTF-8.

    Raises:
        InvalidInput: codes "bad_parameter", "bad_id", "duplicate_id"; the first 8 are named.
    """
    listed = sequence_of("ids", ids)
    try:
        return check_ids(listed)
    except InvalidInput as error:
        raise InvalidInput([_naming(listed, one) for one in error.problems]) from None


def new_ids(X: Any) -> NewIds:
    """Ids for the vectors of a batch that came without; of several fields, for those of the first.

    Raises:
        InvalidInput: code "bad_parameter", their number cannot be told.
    """
    one = next(iter(X.values()), ()) if isinstance(X, Mapping) else X
    shape = getattr(one, "shape", None)
    if not (isinstance(shape, tuple) and shape) and not (isinstance(one, Sequence) and not isinstance(one, str | bytes)):
        raise InvalidInput.of("bad_parameter", "ids are made for an array, or a list of vectors", field="ids")
    count = int(shape[0]) if isinstance(shape, tuple) and shape else len(one)
    at_most("batch_items", count, "ids")
    return NewIds(count)


def _naming(ids: Sequence[Any], problem: Problem) -> Problem:
    """A duplicate with its id: in a batch of ten thousand a position says little."""
    if problem.code != "duplicate_id" or problem.position is None:
        return problem
    named = [id_as_text(one) for one in ids]
    identifier = named[problem.position]
    return replace(problem, detail=f"the id {arrived(identifier)} is at position {named.index(identifier)} already; send each id once")


def chunks(X: Any, n: int, rows_of: Callable[[Any], Rows], *, atomic: bool, what: str = "vectors") -> Iterator[Rows]:
    """The n vectors of a batch as canonical rows, in parts of at most `batch_items` rows and `batch_nonzeros` nonzeros; one part if n is 0.

    X: any form of a batch; matrices and lists are read a part at a time. rows_of: makes canonical rows of a form. atomic: refuse
    what is more than one part. what: how messages name the objects.

    Raises:
        InvalidInput: code "bad_parameter" where there are not n vectors, before the first part; "over_limit" where one part is wanted
            and too large; what `rows_of` raises, its positions counted from the start of the batch.
    """
    if atomic:
        at_most("batch_items", n, "ids")
    start = 0
    for part in _parts(X, n, what):
        try:
            rows = rows_of(part)
        except InvalidInput as error:
            raise InvalidInput([_counted_from(one, start) for one in error.problems]) from None
        if part is X:
            _check_number(len(rows), n, what)
        if atomic:
            at_most("batch_nonzeros", len(rows.values), what)
        yield from _cut(rows)
        start += len(rows)


def _counted_from(problem: Problem, start: int) -> Problem:
    """A problem of a part that begins at this place of the batch."""
    return problem if problem.position is None else replace(problem, position=problem.position + start)


def _parts(X: Any, n: int, what: str) -> Iterator[Any]:
    """The batch, or slices of it. What cannot be sliced comes as a whole."""
    size = int(limit("batch_items"))
    shape = getattr(X, "shape", None)
    matrix = isinstance(shape, tuple) and len(shape) == 2
    if isinstance(shape, tuple) and matrix:
        # Told by the shape, before it is read: it may be larger than memory.
        _check_number(shape[0], n, what)
    if n <= size or not (matrix or (isinstance(X, Sequence) and not isinstance(X, str | bytes))):
        yield X
        return
    if not matrix:
        _check_number(len(X), n, what)
    # A data frame's own slices may go by labels.
    sliced = X.tocsr() if hasattr(X, "tocsr") else getattr(X, "iloc", X)
    if not matrix and not isinstance(X, list | tuple):
        # Not every sequence has slices.
        sliced = list(X)
    for start in range(0, n, size):
        yield sliced[start : start + size]


def _check_number(objects: int, ids: int, what: str) -> None:
    if objects != ids:
        raise InvalidInput.of("bad_parameter", f"{objects} {what} came with {ids} ids; send one for each", field="ids")


def _cut(rows: Rows) -> Iterator[Rows]:
    """The rows in parts whose nonzeros and number are within their limits."""
    most, size = int(limit("batch_nonzeros")), int(limit("batch_items"))
    if len(rows) <= size and len(rows.values) <= most:
        yield rows
        return
    start = 0
    while start < len(rows):
        fitting = int(np.searchsorted(rows.indptr, rows.indptr[start] + most, "right")) - 1
        stop = min(max(fitting, start + 1), start + size)
        yield rows.slice(start, stop)
        start = stop
