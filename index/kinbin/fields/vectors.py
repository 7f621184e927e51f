"""Vectors of several fields: whose error is whose, and parts that hold the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kinbin.errors import InvalidInput, Problem
from kinbin.rows.rows import Rows

__all__ = ["aligned", "in_field", "taking"]


def in_field(name: str, error: InvalidInput) -> InvalidInput:
    """The error with the field in which its problems are."""
    problems = []
    for one in error.problems:
        field = f"vectors/{name}" if one.field == "vector" else one.field
        problems.append(Problem(one.code, f"field {name!r}: {one.detail}", one.position, field, one.limit))
    return InvalidInput(problems)


def taking(name: str, rows_of: Callable[[Any], Rows]) -> Callable[[Any], Rows]:
    """The same, with errors that name the field."""

    def take(X: Any) -> Rows:
        try:
            return rows_of(X)
        except InvalidInput as error:
            raise in_field(name, error) from None

    return take


def aligned(waiting: dict[str, Rows], sources: Mapping[str, Iterator[Rows]]) -> Iterator[dict[str, Rows]]:
    """Parts of the same items from sources that are cut at different places. waiting: the first of each."""
    while True:
        size = min(len(rows) for rows in waiting.values())
        yield {name: rows.slice(0, size) for name, rows in waiting.items()}
        for name, rows in waiting.items():
            rest = rows.slice(size, len(rows)) if len(rows) > size else next(sources[name], None)
            if rest is None:
                return
            waiting[name] = rest
