"""A collection: the front of one store. Validation, hashing and packing happen here, outside the writer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack
from weakref import WeakSet

import numpy as np

from kinbin.browsing import Browsed
from kinbin.chunks import chunks, distinct_ids, new_ids
from kinbin.duplicates.stream import Duplicated, Duplicates
from kinbin.edits import NewItems, Transaction
from kinbin.errors import CollectionNotFound, CorruptData, InvalidInput, KinbinError
from kinbin.explaining.asked import Explained
from kinbin.front import Entry, Front, check_adding
from kinbin.hashing import content_hash, make_sampler
from kinbin.hashing.roots import RootSampler
from kinbin.inspection import check_store, describe
from kinbin.layouts.mapping import Mapped
from kinbin.options import AllOptions, QueryOptions, check_cancel, options_of, options_of_more
from kinbin.options import Asked as OptionsAsked
from kinbin.parameters import at_most
from kinbin.pinned import Pinned
from kinbin.query.alone import Alone
from kinbin.query.answers import Names, answer_batch, answer_one, limit_of
from kinbin.query.asking import answer_in, one_of_kind, shaped_in
from kinbin.query.contents import Contents
from kinbin.query.each import answer_each, read_each
from kinbin.query.filters import Filter
from kinbin.query.matching import Filters
from kinbin.query.plan import Plan, plan_query
from kinbin.query.reading import Reading
from kinbin.query.route import Wanted, scores_matches
from kinbin.query.search import Masks, Searcher, fresh_keys
from kinbin.query.shaping import as_batch
from kinbin.query.times import told_times
from kinbin.query.view import View, Views
from kinbin.records import (
    AddResult,
    Answer,
    AnswerBatch,
    CheckReport,
    CollectionConfig,
    CompactReport,
    Item,
    Query,
    SnapshotInfo,
)
from kinbin.rows.identity import check_ids, encode_payloads
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.segments.source import Recipe
from kinbin.storage.group import Edit, GroupCommit
from kinbin.storage.store import Store
from kinbin.storage.survey import survey_store
from kinbin.storage.transactions import Reader
from kinbin.stored import configuration_of, what_is_stored
from kinbin.terms import Asked as TermsAsked
from kinbin.terms import Terms
from kinbin.together import check_rows
from kinbin.tuning.tuned import Tuned
from kinbin.upkeep.background import LinkThread, UpkeepThread
from kinbin.upkeep.indexing import Indexing
from kinbin.upkeep.linking import Linker, Progress, is_due, is_enough
from kinbin.upkeep.pooling import PoolIndex
from kinbin.upkeep.sealing import Upkeep, must_seal

__all__ = ["Collection"]

_Planned = tuple[Plan, Wanted, Masks, Any]


class Collection(Browsed, Duplicated, Explained, Mapped, Tuned, Front[tuple[Reader, View]]):
    """Items with an id, a vector and a payload, searched by one kernel.

    Threads: every method may be called from any thread; kernels release the GIL. Processes: several may
    open the same database; what one has acknowledged the others answer at once. Not across a fork.

    Durability: `add` and `delete` return when their transactions are on disk; each of these is atomic.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._store = Store(path)
        try:
            data = configuration_of(self._store)
        except BaseException:
            self._store.close()
            raise
        self._kind, self._space, self._form = what_is_stored(data)
        dim = self._form.dim
        self.config = CollectionConfig(data.kernel, dim, data.sampler, data.bands, data.r, dict(self._form.parameters), data.items,
                                       data.feature_names)  # fmt: skip
        self._wide = self._kind.wide(self._form)
        sampler = make_sampler(data.sampler, seed=data.seed, normalise=self._space.shapes, dim=data.dim)
        if self._space.roots:
            sampler = RootSampler(sampler)
        self._sampler = sampler
        self._views = Views()
        self._searcher = Searcher(self._space, sampler, self._wide)
        recipe = self._recipe = Recipe(self._space, sampler, self._wide, data.r, data.bands)
        self._upkeep = Upkeep(self._store, self._views, recipe)
        self._linker = Linker(self._store, self._views, recipe, data.dim, self._upkeep)
        self._names = Names()
        self._alone = Alone(self._searcher, self._names)
        self._open_duplicates = WeakSet[Duplicates]()
        self._looked_at: View | None = None
        self._writes = GroupCommit(self._commit)
        self._indexing = Indexing(name, self._store)
        self._filters = Filters(self._indexing.at)
        self._contents = Contents(self._kind, self._form, self._space)
        self._upkeep_thread = UpkeepThread(name, self._keep_up, self._backlog)
        self._link_thread = LinkThread(name, self._linker.step, self._upkeep_thread.look)
        self._pools: PoolIndex | None = None
        """Of objects, what finds near ones without scoring all: whoever opens the collection sets it (`kinbin.pools`)."""

    # -- writing

    def add(
        self, ids: Sequence[str | int] | None, X: Any, payloads: Sequence[Any] | None = None, mode: str = "upsert", *, atomic: bool = False,
        progress: Callable[[int, int], object] | None = None, **terms: Unpack[TermsAsked],
    ) -> AddResult:  # fmt: skip
        """Add or replace items; durable and searchable by every process on return.

        ids: n strings or 64-bit integers (5 is "5"), each once; None: made here (`ids` of the result), for one transaction.
        X: (n, d) array, scipy CSR, n vectors (see `rows.canonical`), or `Rows` of a `Schema`. payloads: n JSON objects or None.
        mode: "upsert", "insert" (no id may be there) or "update" (all must be). The same content again changes nothing, but "insert" of
        what is there is refused. Identical vectors are stored once.

        Up to 10,000 items and 16,777,216 nonzeros (limits `batch_items`, `batch_nonzeros`) are one transaction: all or none. More
        go in several of them, in order; `acknowledged` of an error tells how many items were stored before it, and with "upsert"
        the whole call may be repeated. atomic: refuse instead what does not fit one transaction. progress(done, n) is called after each.

        terms ask for one transaction. on_error: "skip" leaves bad items out instead of refusing all (`skipped` and `problems`
        of the result). if_versions: of each item the version it must have (`Item.version`, `versions`), 0 where it must not be
        there, None where that does not matter. idempotency_key: the same add may come again for a day with the same key, and gets the
        answer of the first; the key is stored by the transaction of the add.

        Raises:
            InvalidInput, ItemConflict, VersionConflict, KeyReused, StorageError: nothing of the transaction at hand was written.

        Cost: about 20 µs an item in batches of 1,000, and one fsync a transaction.
        """
        check_adding(atomic, progress)
        ids = new_ids(X) if ids is None else ids
        on = Terms.of(ids, mode, terms)
        if not on.plain:
            return self._add_on_terms(on, ids, X, payloads)
        keys = distinct_ids(ids)
        parts = chunks(X, len(keys), self._rows, atomic=atomic, what=self._kind.name)

        def write(keys: list[bytes], payloads: list[bytes], rows: Rows) -> AddResult:
            return self._add(self._prepare(keys, payloads, rows), mode)

        return self._add_parts(parts, keys, payloads, len, write, progress)

    def _add(self, items: NewItems, mode: str) -> AddResult:
        """One transaction of an add."""
        result: AddResult = self._writes.submit(lambda transaction: transaction.add(items, mode))
        self._wake(result.count)
        return result

    def _prepared(self, ids: Sequence[Any], X: Any, payloads: Sequence[Any] | None) -> NewItems:
        keys = distinct_ids(ids)
        rows = next(chunks(X, len(keys), self._rows, atomic=True, what=self._kind.name))
        return self._prepare(keys, encode_payloads(payloads, len(keys)), rows)

    def _packed(self, ids: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows]) -> NewItems:
        return self._prepare(ids, payloads, check_rows(rows, "", len(ids), self._kind, self._form))

    def _check_vectors(self, X: Any) -> Rows:
        return self._rows(X)

    def _ids_of(self, reader: Reader, matches: Filter, filter: Any) -> list[bytes]:
        return self._filters.ids(reader, matches, filter)

    def _wake(self, items: int) -> None:
        """Tell the background threads of a write."""
        self._upkeep_thread.wake()
        if self._pools is not None:
            self._pools.wake()
        elif is_enough(items):
            self._link_thread.wake()

    def _keep_up(self, quiet: bool) -> bool:
        """One step of upkeep; what it sealed may be linked then."""
        done = self._upkeep.step(quiet)
        if done and is_enough(self.count()):
            self._link_thread.wake()
        return done

    def _prepare(self, keys: list[bytes], payloads: list[bytes], rows: Rows) -> NewItems:
        """Pack and hash a batch, outside the writer."""
        self._store.refuse_fork()
        offsets = record_offsets(rows.indptr, self._wide)
        records = np.zeros(int(offsets[-1]), np.uint8)
        pack_rows(rows.indptr, rows.features, rows.values, rows.norms, self._wide, offsets, records)
        return NewItems(keys, payloads, offsets, records, content_hash(rows), fresh_keys(self._space, self._sampler, rows))

    def _commit(self, edits: list[Edit[Any]]) -> None:
        """One transaction for a group of edits; an edit that is refused does not touch the others."""
        with self._store.write() as writer:
            view = self._views.at(writer)
            if view is None:
                raise CorruptData("the files are behind what was read from them before: nothing was written; open them again")
            transaction = Transaction(writer, view)
            for edit in edits:
                try:
                    edit.result = edit.apply(transaction)
                except KinbinError as error:
                    if transaction.writing:
                        raise
                    edit.error = error
            transaction.finish()
        if transaction.logs:
            self._indexing.wake()

    # -- searching

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
        with self._reading() as (reader, view):
            answer = answer_in(self, (reader, view), query, asked, cancel)
        self._look_after(view, asked.mode)
        return answer

    def _rows(self, X: Any) -> Rows:
        """A batch of objects, vectors or others, as canonical rows; what a `Schema` of it made such already, as it is."""
        return X if isinstance(X, Rows) else self._space.rows_of(self._kind.rows(X, self._form))

    def _one(self, x: Any) -> Rows:
        """One object as a canonical row."""
        return self._space.rows_of(self._kind.row(x, self._form))

    def _plan(self, reader: Reader, view: View, asked: QueryOptions, limit: float | None, cancel: threading.Event | None) -> _Planned:
        """What is asked, in the terms of a search: (plan, wanted, masks, ids that a filter lets through). limit: see `limit_of`."""
        if asked.mode == "bands" and self._space.objects is not None:
            text = f"{self._space.name} has no bands, since no hash tells how near two items are: take auto, links or exact"
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
        begun = self._alone.answer(reader, view, query, asked) if cancel is None and self._pools is None else None
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
        answer = answer_one(found, self._names.of_one(reader, view, found), asked.k, limit, passing, self._space)
        return told_times(answer, wanted.times, began) if asked.debug else answer

    def _search(self, reader: Reader, view: View, queries: Rows, asked: QueryOptions, cancel: threading.Event | None) -> AnswerBatch:
        """The same for m queries."""
        limit = limit_of(self._space, asked)
        plan, wanted, masks, passing = self._plan(reader, view, asked, limit, cancel)
        try:
            found = None if self._pools is None else self._pools.search((reader, view), plan, queries, wanted, masks)
            if found is None:
                found = self._searcher.search((reader, view), plan, queries, wanted, masks)
        except CorruptData:
            self._space.raise_failure()
            raise
        return answer_batch(found, self._names.of(reader, view, found), asked.k, limit, passing, self._space)

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

    # -- reading

    def stats(self) -> dict[str, Any]:
        """Sizes, runs and predictions, and what failed in the background of this process, as plain data."""
        background = self.background()
        with self._reading() as (reader, view):
            # Another process may have rebuilt it.
            self.config = replace(self.config, bands=reader.configuration().bands, rows=reader.configuration().r)
            told = describe(self.name, self.config, view, plan_query(view, self._space, 0.9), self._store.size_on_disk())
            if self._pools is not None:
                told["pools"] = self._pools.describe(view)
            told["indexes"] = self._indexing.describe()
            return told | {"background": background}

    def background(self) -> dict[str, Any]:
        """What failed in the background of this process, as plain data: `upkeep`, `links`, `indexes`. Reads nothing that is stored."""
        links = self._link_thread if self._pools is None else self._pools
        return {"upkeep": self._upkeep_thread.report(), "links": links.report(), "indexes": self._indexing.report()}

    def check(self, progress: Callable[[str], None] | None = None) -> CheckReport:
        """Verify every page, every checksum, every posting against its row, every item against its row. Reads everything once.

        Pages come first, by a reader of their own: of a store whose trees are damaged nothing else is looked at.
        """
        try:
            with self._store.read() as reader:
                if reader.state().dropped:
                    raise CollectionNotFound("the collection was removed")
            if problems := survey_store(self._store):
                return CheckReport(False, 0, 0, 0, problems)
            with self._store.read() as reader:
                report = check_store(reader, self._recipe, progress)
            return report.with_problems(self._indexing.problems())
        except CorruptData as error:
            return CheckReport(False, 0, 0, 0, [str(error)])

    def link(self, progress: Progress | None = None) -> None:
        """Seal and merge everything, and link every row, now; waits for whoever is at it. progress(linked, to link) is told of it.

        Cost: 60 to 90 µs a row that is not linked yet (165 beyond 131,072 rows). Raises Closed if the collection is closed meanwhile.
        """
        self._upkeep.merge_all()
        if self._pools is not None:
            self._pools.build(progress)
        self._linker.link_all(progress)

    def snapshot(self, path: str | os.PathLike[str], *, cancel: threading.Event | None = None) -> SnapshotInfo:
        """Write everything, as it is at this moment, to a new file, while others read and write (`Database.restore` takes it).

        Every record is proved on the way. Pool indexes are left out: they are built anew. Who has the file has all data, and the
        hashes' seed. cancel: once it is set, the snapshot is given up.

        Raises:
            InvalidInput: there is such a file. CorruptData: something is damaged. StorageFull. StorageBusy: the collection's files
            grew by more than 1 GiB, and more than they had, meanwhile: while it is made, no page that it reads is used again.

        Cost: one thread, about 18 µs an item, most of it pauses; others wait for it half a millisecond at a time.
        """
        with self.pinned() as pinned:
            return pinned.snapshot(path, cancel=cancel)

    def pinned(self) -> Pinned:
        """The collection as it is at this moment, for the block of a `with` statement: see `Pinned`. Meanwhile no page is used again."""
        reading = self._reading()
        reader, view = reading.__enter__()
        return Pinned(self.name, [(self._store, reader, view)], ("",), reading)

    def compact(self, *, shrink: bool = False) -> CompactReport:
        """Seal and merge everything into one run now; deleted rows leave the files, whose pages are used again.

        shrink: give the disk that nothing uses back as well, while others read and write: what lives is copied into a new file.
        Writers wait for 6 µs an item. The old file's space is free once every process that has it open has used the collection again.
        Needs free disk for the copy.

        Raises:
            StorageFull, CorruptData: the old file stays.
        """
        with self._reading():
            before = self._store.size_on_disk()
        self._upkeep.merge_all()
        if shrink:
            self._upkeep.shrink()
        return CompactReport(before, self._store.size_on_disk())

    def _reading(self) -> Reading:
        """A snapshot and the view of its state, for the block of a `with` statement."""
        return Reading(self._store, self._views)

    def _reader(self, at: tuple[Reader, View]) -> Reader:
        return at[0]

    def _items(self, at: tuple[Reader, View], entries: list[Entry], wanted: Sequence[str]) -> list[Item]:
        return self._contents.items(at[1], entries, wanted)

    # -- life

    @property
    def _seed(self) -> int:
        """Of the hashes; secret, unless it was given, and so no part of what users see."""
        return self._sampler.seed

    def close(self) -> None:
        """Stop background work and let go of the files. A merge at hand is given up; it begins anew another time."""
        self._upkeep.stop.set()
        self._linker.stop.set()
        self._indexing.close()
        if self._pools is not None:
            self._pools.close()
        self._link_thread.stop()
        self._upkeep_thread.stop()
        self._close_duplicates()
        self._store.close()

    def _backlog(self) -> int:
        """Fresh rows that wait to be sealed."""
        with self._reading() as (_, view):
            return view.fresh.rows
