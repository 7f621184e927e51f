"""Many queries, each with options of its own: judged before anything is searched, and answered one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinbin.errors import InvalidInput
from kinbin.limits import limit
from kinbin.options import QueryOptions
from kinbin.parameters import arrived, id_as_text
from kinbin.query.examples import Examples
from kinbin.records import Answer, Query
from kinbin.rows.identity import check_ids
from kinbin.rows.rows import Rows

__all__ = ["answer_each", "read_each"]

About = Rows | bytes | Examples
ReadOne = Callable[[str, Any], Rows]
"""Makes a row of what stands under "x", "positive" or "negative"."""


def read_each(queries: Iterable[Query], read: ReadOne) -> list[tuple[About, QueryOptions]]:
    """What each query is about, and its options.

    Raises:
        InvalidInput: one is malformed; its position is told.
    """
    if isinstance(queries, str | bytes | Mapping):
        raise InvalidInput.of("bad_parameter", f"queries are a list of Query, not {arrived(queries)}", field="queries")
    most, listed = int(limit("batch_queries")), []
    try:
        each = iter(queries)
    except TypeError:
        raise InvalidInput.of("bad_parameter", f"queries are a list of Query, not {arrived(queries)}", field="queries") from None
    for position, one in enumerate(each):
        if position == most:
            raise InvalidInput.of("over_limit", f"queries: at most {most}", field="queries", limit="batch_queries")
        try:
            listed.append((_about(one, read), one.options))
        except InvalidInput as error:
            raise _at(position, error) from None
    return listed


def answer_each(listed: Sequence[tuple[About, QueryOptions]], answer: Callable[[About, QueryOptions], Answer]) -> list[Answer]:
    """The answers, in the order of the queries."""
    answers = []
    for position, (about, asked) in enumerate(listed):
        try:
            answers.append(answer(about, asked))
        except InvalidInput as error:
            raise _at(position, error) from None
    return answers


def _at(position: int, error: InvalidInput) -> InvalidInput:
    """The error with the position of its query, and of its example in the name of the field."""
    return InvalidInput([
        replace(one, position=position, field=one.field if one.position is None else f"{one.field}/{one.position}")
        for one in error.problems
    ])  # fmt: skip


def _about(query: Query, read: ReadOne) -> About:
    if not isinstance(query, Query) or not isinstance(query.options, QueryOptions):
        raise InvalidInput.of("bad_parameter", f"queries are a list of Query with QueryOptions, not {arrived(query)}", field="queries")
    if sum(one is not None for one in (query.x, query.id, query.positive)) != 1:
        raise InvalidInput.of("bad_parameter", "a query has just one of x, id and positive")
    if query.id is not None:
        return check_ids([query.id])[0]
    if query.x is not None:
        return read("x", query.x)
    positive, negative = (_examples(name, getattr(query, name), read) for name in ("positive", "negative"))
    if not positive:
        raise InvalidInput.of("bad_parameter", "positive has at least one example", field="positive")
    if len(positive) + len(negative) > limit("examples"):
        most = int(limit("examples"))
        raise InvalidInput.of("over_limit", f"positive and negative: at most {most} examples", field="positive", limit="examples")
    return Examples(positive, negative)


def _examples(name: str, given: Any, read: ReadOne) -> list[bytes | Rows]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise InvalidInput.of("bad_parameter", f"{name} is a list of examples: ids, or vectors", field=name)
    out: list[bytes | Rows] = []
    for position, one in enumerate(given):
        try:
            out.append(check_ids([one])[0] if isinstance(id_as_text(one), str) else read(name, one))
        except InvalidInput as error:
            raise InvalidInput([replace(problem, position=position, field=name) for problem in error.problems]) from None
    return out
