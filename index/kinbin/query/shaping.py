"""What is answered of what a search finds: without some ids, from an offset or a cursor on, in groups.

A search goes so much deeper that k items are left. What is certified of its answer, that each of so many true nearest was found with
some probability, holds for the part that is kept as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinbin.cancelling import look
from kinbin.limits import limit
from kinbin.options import QueryOptions
from kinbin.query.cursors import Cursor, page_behind
from kinbin.query.grouping import grouped
from kinbin.records import Answer, AnswerBatch
from kinbin.storage.transactions import Reader

__all__ = ["Find", "Source", "as_batch", "leave_out", "shaped", "stored_of"]

Find = Callable[[int], Answer]
"""The k nearest of one query, for any k, always from the same snapshot."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One query of one snapshot."""

    find: Find
    reader: Reader
    mark: Callable[[], bytes]
    """What signs its cursors (`cursors.mark_of`)."""
    own: frozenset[str] = frozenset()
    """The items that the query is about, which are left out unless `include_self` keeps them."""
    cancel: threading.Event | None = None
    """Once set, what takes long ends with SearchCancelled."""

    def look(self) -> None:
        """Raise SearchCancelled if that was asked for."""
        look(self.cancel)


def shaped(source: Source, asked: QueryOptions) -> Answer:
    """The answer that is asked for.

    Cost: that of a search for k, and what comes before it, and the excluded items that are stored, together.

    Raises:
        InvalidInput, CursorExpired: see `cursors`.
    """
    excluded = stored_of(source.reader, asked.exclude)
    if not asked.include_self:
        excluded |= source.own
    if asked.group_by is not None:
        return grouped(source.find, source.reader, asked.group_by, excluded, source.look)
    if asked.cursor is not None:
        return _page(source, asked, excluded)
    found = source.find(asked.k + asked.offset + len(excluded))
    if not excluded and not asked.offset:
        return found
    left = [place for place, identifier in enumerate(found.ids) if identifier not in excluded]
    return _kept(found, left[asked.offset : asked.offset + asked.k])


def _page(source: Source, asked: QueryOptions, excluded: set[str]) -> Answer:
    assert asked.cursor is not None
    mark, sequence = source.mark(), source.reader.state().sequence
    cursor = Cursor.read(asked.cursor, mark, sequence)
    found, places, more = page_behind(cursor, source.find, asked.k, excluded)
    page = _kept(found, places)
    if not more:
        return page
    behind = Cursor(sequence, cursor.answered + len(places), float(page.scores[-1]), page.ids[-1])
    return replace(page, next=behind.text(mark))


def leave_out(answer: Answer, own: str, k: int) -> None:
    """Take one item out of an answer that nobody has seen yet; of those that are left, k stay."""
    place = answer.ids.index(own) if own in answer.ids else k
    ids, scores = answer.ids[:place] + answer.ids[place + 1 :], np.concatenate([answer.scores[:place], answer.scores[place + 1 :]])
    # A copy of all its fields would take as long as everything else here.
    object.__setattr__(answer, "ids", ids[:k])
    object.__setattr__(answer, "scores", scores[:k])
    rows = answer.row_numbers
    object.__setattr__(answer, "row_numbers", None if rows is None else np.concatenate([rows[:place], rows[place + 1 :]])[:k])


def stored_of(reader: Reader, ids: Iterable[Any]) -> set[str]:
    """Those of some ids (strings, as options keep them) that are stored: what no item has costs nothing. Cost: 3 µs an id."""
    if not ids:
        return set()
    keys = {one: key for one in ids if 0 < len(key := one.encode("utf-8", "surrogatepass")) <= limit("id_bytes")}
    return {one for one, known in zip(keys, reader.items(list(keys.values())), strict=True) if known is not None}


def _kept(answer: Answer, places: Sequence[int]) -> Answer:
    """The answer with the hits at these places alone."""
    which = np.array(places, np.int64)
    parts = None if answer.parts is None else {name: scores[which] for name, scores in answer.parts.items()}
    rows = None if answer.row_numbers is None else answer.row_numbers[which]
    return replace(answer, ids=[answer.ids[place] for place in places], scores=answer.scores[which], parts=parts, row_numbers=rows)


def as_batch(answers: Sequence[Answer], k: int) -> AnswerBatch:
    """The answers to m queries, one at least, as arrays of k columns, or of as many as the longest has hits. Their items are left out."""
    m, width = len(answers), max(k, *map(len, answers))
    ids, scores = np.full((m, width), None, object), np.full((m, width), np.nan)
    names = answers[0].parts
    parts = None if names is None else {name: np.full((m, width), np.nan) for name in names}
    for i, one in enumerate(answers):
        ids[i, : len(one)], scores[i, : len(one)] = one.ids, one.scores
        for name, of in (one.parts or {}).items():
            assert parts is not None
            parts[name][i, : len(one)] = of
    bounds = np.array([np.nan if one.recall_lower_bound is None else one.recall_lower_bound for one in answers])
    return AnswerBatch(
        ids, scores, bounds, [one.no_bound for one in answers], np.array([one.verified for one in answers]),
        np.array([one.candidates for one in answers]), [one.truncated for one in answers], [one.mode for one in answers],
        [one.steps for one in answers], np.array([one.out_of_distribution for one in answers], np.bool_),
        ascending=answers[0].ascending, parts=parts, shapes=[(one.groups, one.next, one.times) for one in answers],
    )  # fmt: skip
