"""One query of one snapshot, from what it is about to the answer with its contents: what collections do for each of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from kinbin.errors import InvalidInput
from kinbin.items.kind import Kind
from kinbin.options import QueryOptions, deeper
from kinbin.query.answers import limit_of
from kinbin.query.contents import Contents
from kinbin.query.cursors import mark_of
from kinbin.query.examples import Examples, ExampleSearch, How, stored_row
from kinbin.query.plan import Plan
from kinbin.query.ranking import MOST_SEARCHED
from kinbin.query.route import Wanted
from kinbin.query.search import Masks, Searcher
from kinbin.query.shaping import Source, leave_out, shaped
from kinbin.query.times import timed
from kinbin.query.view import View
from kinbin.records import Answer
from kinbin.rows.rows import Rows
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader

__all__ = ["Parts", "answer_in", "one_of_kind", "shaped_in"]

At = tuple[Reader, View]
Cancel = threading.Event | None


class Parts(Protocol):
    """What a collection has to answer by."""

    _kind: Kind
    _space: Space
    _searcher: Searcher
    _contents: Contents

    @property
    def _seed(self) -> int: ...

    def _one(self, x: Any) -> Rows: ...

    def _plan(
        self, reader: Reader, view: View, asked: QueryOptions, limit: float | None, cancel: Cancel
    ) -> tuple[Plan, Wanted, Masks, Any]: ...

    def _search_one(self, reader: Reader, view: View, query: Rows, asked: QueryOptions, cancel: Cancel) -> Answer: ...


def one_of_kind(parts: Parts, key: str, given: Any) -> Rows:
    """One vector or object as a canonical row. key: "x"; or "positive" and "negative", where objects stand under their own key.

    Raises:
        InvalidInput.
    """
    if key == "x" or parts._kind.one == "vector":
        return parts._one(given)
    if not isinstance(given, Mapping) or set(given) != {parts._kind.one}:
        raise InvalidInput.of("bad_parameter", f'an example is an id, or {{"{parts._kind.one}": …}}', field=key)
    return parts._one(given[parts._kind.one])


def answer_in(parts: Parts, at: At, query: Rows | bytes | Examples, asked: QueryOptions, cancel: Cancel) -> Answer:
    """The answer to one query in a snapshot, with what is included. query: a row, the id of a stored item, or examples."""
    if isinstance(query, Examples) or asked.is_shaped:
        answer = shaped_in(parts, at, query, asked, cancel)
    elif isinstance(query, Rows):
        answer = parts._search_one(*at, query, asked, cancel)
    else:
        # What nearly all queries by id are: `shaped_in` does the same in twice the time.
        row = parts._contents.rows(at[1], [stored_row(at[0], query)])
        answer = parts._search_one(*at, row, deeper(asked, asked.k + 1), cancel)
        leave_out(answer, query.decode(), asked.k)
    if not asked.include:
        return answer
    began = time.perf_counter()
    items = parts._contents.of(*at, answer.ids, tuple(asked.include))
    answer = replace(answer, items=[items[identifier] for identifier in answer.ids])
    return answer if answer.times is None else timed(answer, "read contents", began)


def shaped_in(parts: Parts, at: At, query: Rows | bytes | Examples, asked: QueryOptions, cancel: Cancel) -> Answer:
    """The same, shaped as is asked for, and without contents."""
    reader, view = at
    about = Examples.of(query).read(reader, lambda numbers: parts._contents.rows(view, numbers))

    def find(k: int) -> Answer:
        plain = deeper(asked, k)
        if about.is_single and k <= MOST_SEARCHED:
            return parts._search_one(reader, view, about.positive, plain, cancel)
        limit = limit_of(parts._space, asked, less=about.negative is not None)
        # What is least wanted of a mean says nothing of its parts.
        limit = limit if about.is_single else None
        plan, wanted, masks, passing = parts._plan(reader, view, plain, limit, cancel)
        return ExampleSearch(parts._searcher, at, How(plain, plan, wanted, masks, passing), about).first(k)

    return shaped(Source(find, reader, lambda: mark_of([parts._seed], about.rows, asked), about.own, cancel), asked)
