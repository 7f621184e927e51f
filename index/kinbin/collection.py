"""A collection: the front of one store. Validation, hashing and packing happen here, outside the writer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from kinbin.browsing import Browsed
from kinbin.chunks import chunks, distinct_ids, new_ids
from kinbin.duplicates.stream import Duplicated, Opened
from kinbin.edits import NewItems, Transaction
from kinbin.errors import CollectionNotFound, CorruptData, KinbinError
from kinbin.explaining.asked import Explained
from kinbin.front import Entry, Front, check_adding
from kinbin.hashing import content_hash, make_sampler
from kinbin.hashing.roots import RootSampler
from kinbin.inspection import check_store, describe
from kinbin.layouts.mapping import Mapped
from kinbin.pinned import Pinned
from kinbin.query.alone import Alone
from kinbin.query.answers import Names
from kinbin.query.contents import Contents
from kinbin.query.matching import Filters
from kinbin.query.plan import plan_query
from kinbin.query.reading import Reading
from kinbin.query.search import Searcher, fresh_keys
from kinbin.query.view import View, Views
from kinbin.records import (
    AddResult,
    CheckReport,
    CollectionConfig,
    CompactReport,
    Item,
    SnapshotInfo,
)
from kinbin.rows.identity import encode_payloads
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.searching import Searched
from kinbin.segments.source import Recipe
from kinbin.storage.group import Edit, GroupCommit
from kinbin.storage.store import Store
from kinbin.storage.survey import NOT_LOOKED, survey_store
from kinbin.storage.transactions import Reader
from kinbin.stored import configuration_of, what_is_stored
from kinbin.terms import Asked as TermsAsked
from kinbin.terms import Terms
from kinbin.together import check_rows
from kinbin.tuning.tuned import Tuned
from kinbin.upkeep.background import LinkThread, UpkeepThread
from kinbin.upkeep.indexing import Indexing
from kinbin.upkeep.linking import Linker, Progress, is_enough
from kinbin.upkeep.pooling import PoolIndex
from kinbin.upkeep.sealing import Upkeep

__all__ = ["Collection"]


class Collection(Browsed, Duplicated, Searched, Explained, Mapped, Tuned, Front[tuple[Reader, View]]):
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
            self._kind, self._space, self._form = what_is_stored(data)
        except BaseException:
            self._store.close()
            raise
        dim = self._form.dim
        self.config = CollectionConfig(data.kernel, dim, data.sampler, data.bands, data.r, dict(self._form.parameters), data.items,
                                       data.feature_names)  # fmt: skip
        self._wide = self._kind.wide(self._form)
        sampler = make_sampler(data.sampler, seed=data.seed, normalise=self._space.shapes, dim=data.dim)
        if self._space.roots:
            sampler = RootSampler(sampler)
        self._sampler = sampler
        self._views = Views(self._space.geometry)
        self._searcher = Searcher(self._space, sampler, self._wide)
        recipe = self._recipe = Recipe(self._space, sampler, self._wide, data.r, data.bands)
        self._upkeep = Upkeep(self._store, self._views, recipe)
        self._linker = Linker(self._store, self._views, recipe, data.dim, self._upkeep)
        self._names = Names()
        self._alone = Alone(self._searcher, self._names)
        self._duplicates = Opened()
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
                raise CorruptData("the files are behind what was read from them before: nothing was written", "open the database again")
            transaction = Transaction(writer, view)
            for edit in edits:
                try:
                    edit.result = edit.apply(transaction)
                except KinbinError as error:
                    if transaction.writing:
                        raise
                    self._store.tell_whose(error)
                    edit.error = error
            transaction.finish()
        self._views.written(writer)
        if transaction.logs:
            self._indexing.wake()

    def _rows(self, X: Any) -> Rows:
        """A batch of objects, vectors or others, as canonical rows; what a `Schema` of it made such already, as it is."""
        return X if isinstance(X, Rows) else self._space.rows_of(self._kind.rows(X, self._form))

    def _one(self, x: Any) -> Rows:
        """One object as a canonical row."""
        return self._space.rows_of(self._kind.row(x, self._form))

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
                return CheckReport(False, 0, 0, 0, [*problems, NOT_LOOKED])
            with self._store.read() as reader:
                report = check_store(reader, self._recipe, progress)
            return report.with_problems(self._indexing.problems() + ([] if self._pools is None else self._pools.problems()))
        except CorruptData as error:
            return CheckReport.of(error)

    def link(self, progress: Progress | None = None) -> None:
        """Seal and merge everything, and link every row, now; waits for whoever is at it. progress(linked, to link) is told of it.

        Cost: 60 to 90 µs a row that is not linked yet (165 beyond 131,072 rows). Raises Closed if the collection is closed meanwhile.
        """
        with self._store.telling():
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
        with self._store.telling():
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
        self._duplicates.close()
        self._store.close()

    def _backlog(self) -> int:
        """Fresh rows that wait to be sealed."""
        with self._reading() as (_, view):
            return view.fresh.rows
