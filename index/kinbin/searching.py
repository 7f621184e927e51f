"""How a collection answers queries: one, many alike, many of their own, and examples; each from one snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from kinbin.cancelling import look
from kinbin.errors import CorruptData, InvalidInput
from kinbin.items.kind import Kind
from kinbin.options import AllOptions, QueryOptions, check_cancel, options_of, options_of_more
from kinbin.options import Asked as OptionsAsked
from kinbin.parameters import at_most
from kinbin.query.alone import Alone
from kinbin.query.answers import Names, answer_batch, answer_one, limit_of, row_numbers_of
from kinbin.query.asking import answer_in, one_of_kind, shaped_in
from kinbin.query.contents import Contents
from kinbin.query.each import answer_each, read_each
from kinbin.query.matching import Filters
from kinbin.query.plan import Plan, plan_query
from kinbin.query.route import Wanted, scores_matches
from kinbin.query.search import Masks, Searcher
from kinbin.query.shaping import as_batch
from kinbin.query.times import told_times
from kinbin.query.view import View
from kinbin.records import Answer, AnswerBatch, Query
from kinbin.rows.identity import check_ids
from kinbin.rows.rows import Rows
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader
from kinbin.upkeep.background import LinkThread, UpkeepThread
from kinbin.upkeep.linking import is_due
from kinbin.upkeep.pooling import PoolIndex
from kinbin.upkeep.sealing import must_seal

__all__ = ["Searched"]

_Planned = tuple[Plan, Wanted, Masks, Any]


class Searched:
    """The part of a `Collection` that answers queries. What they saw of rows that wait for upkeep wakes the background threads."""

    _kind: Kind
    _space: Space
    _searcher: Searcher
    _names: Names
    _alone: Alone
    _contents: Contents
    _filters: Filters
    _pools: PoolIndex | None
    _upkeep_thread: UpkeepThread
    _link_thread: LinkThread
    _looked_at: View | None

    @property
    def _seed(self) -> int:
        """Of the hashes."""
        raise NotImplementedError

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Rows:
        """A batch of objects, vectors or others, as canonical rows."""
        raise NotImplementedError

    def _one(self, x: Any) -> Rows:
        """One object as a canonical row."""
        raise NotImplementedError

    def query(
        self, x: Any, k: int = 10, target_recall: float = 0.9, *, cancel: threading.Event | None = None,
        options: QueryOptions | None = None, **asked: Unpack[OptionsAsked],
    ) -> Answer:  # fmt: skip
        """The k nearest items of one vector, with exact scores. See `query_batch`."""
        return self._query_one(self._one(x), options_of(options, k, target_recall, asked), cancel)

    def query_id(
        self, id: str | int, k: int = 10, target_recall: float = 0.9, *, cancel: threading.Event | None = None,
        options: QueryOptions | None = None, **asked: Unpack[OptionsAsked],
    ) -> Answer:  # fmt: skip
        """The k nearest items of a stored item's vector: without itself, unless `include_self` keeps it.

        Raises:
            InvalidInput: code "unknown_id": there is no such item.
        """
        (key,) = check_ids([id])
        return self._query_one(key, options_of(options, k, target_recall, asked), cancel)

    def query_batch(
        self, Q: Any, k: int = 10, target_recall: float = 0.9, *, cancel: threading.Event | None = None,
        options: QueryOptions | None = None, **asked: Unpack[OptionsAsked],
    ) -> AnswerBatch:  # fmt: skip
        """The k nearest items of each of m vectors, from one snapshot, in one kernel call for each thread (`kinbin.set_threads`).

        k, target_recall, asked: see `kinbin.QueryOptions`. options: all of them in one, instead. cancel: looked at every few queries
        (those that a scan takes 0.2 s for, at least 16); once it is set, the search ends.

        Raises:
            InvalidInput: a query or a parameter is malformed. CorruptData: a stored row is damaged. SearchCancelled: see cancel.
        """
        shape = getattr(Q, "shape", None)
        if isinstance(shape, tuple) and len(shape) == 2:
            # Told by the shape, before it is read: it may be larger than memory.
            at_most("batch_queries", shape[0], "queries")
        rows = self._rows(Q)
        at_most("batch_queries", len(rows), "queries")
        wanted = options_of(options, k, target_recall, asked)
        check_cancel(cancel)
        look(cancel)
        with self._reading() as (reader, view):
            if wanted.is_shaped and len(rows):
                each = [shaped_in(self, (reader, view), rows.take(np.array([i])), wanted, cancel) for i in range(len(rows))]
                answer = as_batch(each, wanted.k)
            else:
                answer = self._search(reader, view, rows, wanted, cancel)
            if wanted.include:
                ids = [identifier for row in answer.ids.tolist() for identifier in row if identifier is not None]
                answer = replace(answer, items=self._contents.of(reader, view, ids, tuple(wanted.include)))
        self._look_after(view, wanted.mode)
        return answer

    def query_each(self, queries: Iterable[Query], cancel: threading.Event | None = None) -> list[Answer]:
        """The answers to many queries, each with options of its own, all from one snapshot.

        Cost: what each takes alone; `query_batch` shares work between vectors that are asked for alike.

        Raises:
            InvalidInput: with the position of the query that is malformed.
        """
        check_cancel(cancel)
        listed = read_each(queries, partial(one_of_kind, self))
        with self._reading() as (reader, view):
            answers = answer_each(listed, lambda about, asked: answer_in(self, (reader, view), about, asked, cancel))
        for mode in {asked.mode for _, asked in listed}:
            self._look_after(view, mode)
        return answers

    def query_examples(
        self, positive: Iterable[Any], negative: Iterable[Any] = (), cancel: threading.Event | None = None, *,
        options: QueryOptions | None = None, **more: Unpack[AllOptions],
    ) -> Answer:  # fmt: skip
        """The k items of the greatest mean score with the positive examples, less their mean score with the negative ones.

        Examples are ids of stored items (strings), or vectors; objects stand under their key, as {"string": "kitten"}. Where the kernel
        prints distances, so is the result, and the least is the nearest. Scores are exact. Items that are examples are left out,
        unless `include_self` keeps them. min_score, max_distance: of the result.

        `auto` scores all rows with all examples where that takes some 20 ms, otherwise the nearest rows of each positive one: the bound is
        1, or None where nothing is proved. exact, certify: all rows. A single positive example is a query like any other.

        Raises:
            InvalidInput: code "unknown_id": an example is not stored; field "positive" or "negative", with its position.
        """
        asked = options_of_more(options, more)
        return self.query_each([Query(positive=positive, negative=negative, options=asked)], cancel)[0]  # type: ignore[arg-type]  # any

    def _query_one(self, query: Rows | bytes, asked: QueryOptions, cancel: threading.Event | None) -> Answer:
        """One query: a vector, or the id of a stored item."""
        if cancel is not None:
            check_cancel(cancel)
        look(cancel)
        with self._reading() as (reader, view):
            answer = answer_in(self, (reader, view), query, asked, cancel)
        self._look_after(view, asked.mode)
        return answer

    def _plan(self, reader: Reader, view: View, asked: QueryOptions, limit: float | None, cancel: threading.Event | None) -> _Planned:
        """What is asked, in the terms of a search: (plan, wanted, masks, ids that a filter lets through). limit: see `limit_of`."""
        if asked.mode == "bands" and self._space.objects is not None:
            text = f"{self._space.called} has no bands, since no hash tells how near two items are: take auto, links or exact"
            raise InvalidInput.of("bad_parameter", text, field="mode")
        # A hair less, because turning a printed score into a score rounds; the answers compare the printed ones.
        least = 0.0 if limit is None else self._space.score_of(limit) * (1.0 - 1e-14)
        matching, passing = (None, None) if asked.filter is None else self._filters.matching(reader, view, asked.filter, cancel)
        share = 1.0 if matching is None else matching.rows / max(1, view.live_rows)
        wanted = Wanted(max(1, min(asked.k, view.live_rows)), least, float(asked.target_recall), asked.mode, asked.certify, share, cancel)
        wanted.times = [] if asked.debug else None
        plan = plan_query(view, self._space, wanted.target)
        if matching is not None and wanted.mode == "auto" and scores_matches(plan, wanted, matching.rows):
            wanted.mode = "exact"
        return plan, wanted, None if matching is None else matching.masks, passing

    def _search_one(self, reader: Reader, view: View, query: Rows, asked: QueryOptions, cancel: threading.Event | None) -> Answer:
        """Search for one validated query, and put ids to the rows found."""
        # A walk alone takes some 0.1 ms: `cancel` has been looked at, and is looked at again where more has to be done.
        begun = self._alone.answer(reader, view, query, asked) if self._pools is None else None
        if isinstance(begun, Answer):
            return begun
        began = time.perf_counter() if asked.debug else 0.0
        limit = limit_of(self._space, asked)
        plan, wanted, masks, passing = self._plan(reader, view, asked, limit, cancel)
        try:
            found = None if self._pools is None else self._pools.search_one((reader, view), plan, query, wanted, masks)
            if found is None:
                found = self._searcher.search_one((reader, view), plan, query, wanted, masks, begun)
        except CorruptData:
            self._space.raise_failure()
            raise
        named = self._names.of_one(reader, view, found), row_numbers_of(view, found)
        answer = answer_one(found, named, asked.k, limit, passing, self._space)
        return told_times(answer, wanted.times, began) if asked.debug else answer

    def _search(
        self, reader: Reader, view: View, queries: Rows, asked: QueryOptions, cancel: threading.Event | None, *, named: bool = True
    ) -> AnswerBatch:
        """The same for m queries. named: False where rows have no ids here, as those of a field: all are called the same."""
        limit = limit_of(self._space, asked)
        plan, wanted, masks, passing = self._plan(reader, view, asked, limit, cancel)
        try:
            found = None if self._pools is None else self._pools.search((reader, view), plan, queries, wanted, masks)
            if found is None:
                found = self._searcher.search((reader, view), plan, queries, wanted, masks)
        except CorruptData:
            self._space.raise_failure()
            raise
        if named:
            names = self._names.of(reader, view, found)
        else:
            names = np.full(found.answers.rows.shape, None, object)
            names[found.answers.rows >= 0] = ""
        return answer_batch(found, names, asked.k, limit, passing, self._space)

    def _look_after(self, view: View, mode: str) -> None:
        """Wake the background threads for what a query in auto mode has seen: whoever wrote these rows may be gone."""
        if mode == "auto" and self._looked_at is not view:
            self._looked_at = view
            if must_seal(view) or view.unlisted:
                self._upkeep_thread.look()
            if self._pools is not None:
                self._pools.look(view)
            elif is_due(view, quiet=True):
                self._link_thread.wake()
