"""A collection with several fields: the front of one store of items and one of rows for each field."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from kinbin.browsing import Indexed
from kinbin.chunks import chunks, distinct_ids, new_ids
from kinbin.collection import Collection
from kinbin.duplicates.stream import Opened
from kinbin.errors import CorruptData, InvalidInput
from kinbin.fields.combining import Combination, all_fields, combination_of
from kinbin.fields.depths import FEW, MOST_NEIGHBOURS, Depths
from kinbin.fields.duplicates import DuplicatedFields
from kinbin.fields.explaining import ExplainedFields
from kinbin.fields.found import CUT, NO_BOUND, SHORT, Found
from kinbin.fields.mapping import MappedFields
from kinbin.fields.moment import Moment, Moments, check_pending, refuse_strange
from kinbin.fields.refusing import OfOneVector
from kinbin.fields.search import Search
from kinbin.fields.shaping import answers_shaped
from kinbin.fields.tuning import TunedFields
from kinbin.fields.vectors import aligned, taking
from kinbin.fields.writing import Prepared, Writing
from kinbin.front import Entry, Front, check_adding
from kinbin.inspection import MOST_PROBLEMS, Findings, check_items, check_records, check_store
from kinbin.options import Asked, QueryOptions, check_cancel, deeper, options_of
from kinbin.parameters import arrived, at_most
from kinbin.pinned import Pinned
from kinbin.query.contents import payload_reader, versioned
from kinbin.query.matching import Filters
from kinbin.query.route import Wanted
from kinbin.records import AddResult, Answer, AnswerBatch, CheckReport, CompactReport, FieldsConfig, Item, SnapshotInfo
from kinbin.rows.identity import check_ids, encode_payloads
from kinbin.rows.rows import Rows
from kinbin.rows.topk import NOTHING
from kinbin.storage.creation import FIELDS
from kinbin.storage.group import Edit, GroupCommit
from kinbin.storage.shrinking import shrink as shrink_store
from kinbin.storage.store import Store
from kinbin.storage.survey import NOT_LOOKED, survey_store
from kinbin.storage.transactions import Reader
from kinbin.stored import field_names_of
from kinbin.terms import Asked as TermsAsked
from kinbin.terms import Terms
from kinbin.together import check_rows
from kinbin.upkeep.election import elected
from kinbin.upkeep.indexing import Indexing
from kinbin.upkeep.linking import Progress

__all__ = ["FieldsCollection"]


class FieldsCollection(ExplainedFields, MappedFields, DuplicatedFields, TunedFields, OfOneVector, Indexed, Front[Moment]):
    """Items with an id, a payload and several vectors, each searched by a kernel of its own.

    Threads and processes: as with a `Collection`. Durability: `add` and `delete` return when their commits are on disk; each is
    atomic over all fields: no reader ever sees an item with vectors of two versions, or with some of them missing.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._store = Store(path)
        self._fields: dict[str, Collection] = {}
        try:
            for field in field_names_of(self._store):
                self._fields[field] = Collection(f"{name}/{field}", path / FIELDS / field)
                refuse_strange(self._store.whose(), self._fields[field]._store)
            self.config = FieldsConfig({field: one.config for field, one in self._fields.items()})
            self._spaces = {field: one._space for field, one in self._fields.items()}
            self._indexing = Indexing(name, self._store)
            self._filters = Filters(self._indexing.at)
            self._moments = Moments(self._store, self._fields, self._filters)
            self._writing = Writing(name, self._store, self._fields)
            self._writes = GroupCommit(self._commit)
            self._depths = Depths(self._store)
            self._duplicates = Opened()
        except BaseException:
            self.close()
            raise

    # -- writing

    def _commit(self, edits: list[Edit[Any]]) -> None:
        """Apply a group of edits; payload indexes hear of it."""
        self._writing.commit(edits)
        if self._writing.logs:
            self._indexing.wake()

    def add(
        self, ids: Sequence[str | int] | None, vectors: Mapping[str, Any], payloads: Sequence[Any] | None = None, mode: str = "upsert", *,
        atomic: bool = False, progress: Callable[[int, int], object] | None = None, **terms: Unpack[TermsAsked],
    ) -> AddResult:  # fmt: skip
        """Add or replace items; durable and searchable by every process on return.

        vectors: for every field of the collection n vectors, in any form that `Collection.add` takes. An item has a vector in every
        field: what lacks one is refused. All else is as for `Collection.add`.

        Raises:
            InvalidInput, ItemConflict, VersionConflict, KeyReused, StorageError: nothing of the transaction at hand was written.

        Cost: for each field what an add takes, and one fsync more; where rows are replaced, one for each field again.
        """
        check_adding(atomic, progress)
        ids = new_ids(vectors) if ids is None else ids
        on = Terms.of(ids, mode, terms)
        if not on.plain:
            return self._add_on_terms(on, ids, vectors, payloads)
        all_fields(self._spaces, vectors, "vectors")
        keys = distinct_ids(ids)
        parts = self._chunks(vectors, len(keys), atomic=atomic)

        def write(keys: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows]) -> AddResult:
            return self._add(keys, payloads, rows, mode)

        return self._add_parts(parts, keys, payloads, lambda rows: len(next(iter(rows.values()))), write, progress)

    def _chunks(self, vectors: Mapping[str, Any], n: int, *, atomic: bool) -> Iterator[dict[str, Rows]]:
        """The vectors as canonical rows, in parts that hold the same items of every field."""
        sources = {name: chunks(vectors[name], n, taking(name, field._rows), atomic=atomic) for name, field in self._fields.items()}
        waiting = {name: next(source) for name, source in sources.items()}
        yield from aligned(waiting, sources)

    def _add(self, keys: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows], mode: str) -> AddResult:
        """One transaction of an add."""
        prepared = self._prepare(keys, payloads, rows)
        result: AddResult = self._writes.submit(lambda batch: batch.add(prepared, mode))
        self._wake(result.count)
        return result

    def _prepare(self, keys: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows]) -> Prepared:
        """Pack and hash a batch, outside the writer."""
        self._store.refuse_fork()
        nothing = [b""] * len(keys)
        return Prepared(keys, payloads, {name: field._prepare(keys, nothing, rows[name]) for name, field in self._fields.items()})

    def _prepared(self, ids: Sequence[Any], X: Any, payloads: Sequence[Any] | None) -> Prepared:
        all_fields(self._spaces, X, "vectors")
        keys = distinct_ids(ids)
        encoded = encode_payloads(payloads, len(keys))
        return self._prepare(keys, encoded, next(self._chunks(X, len(keys), atomic=True)))

    def _packed(self, ids: list[bytes], payloads: list[bytes], rows: Mapping[str, Rows]) -> Prepared:
        good = {name: check_rows(rows, name, len(ids), field._kind, field._form) for name, field in self._fields.items()}
        return self._prepare(ids, payloads, good)

    def _check_vectors(self, X: Any) -> object:
        return [taking(name, field._rows)(X[name]) for name, field in self._fields.items()]

    def _wake(self, items: int) -> None:
        for field in self._fields.values():
            field._wake(items)

    # -- searching

    def query(
        self, vectors: Mapping[str, Any], weights: Mapping[str, float] | None = None, combine: str = "sum", k: int = 10,
        target_recall: float = 0.9, *, cancel: threading.Event | None = None, options: QueryOptions | None = None, **asked: Unpack[Asked],
    ) -> Answer:  # fmt: skip
        """The k nearest items by the combined score of some fields. vectors: one for each. See `query_batch`."""
        wanted = self._asked(options_of(options, k, target_recall, asked))
        combination = combination_of(self._spaces, vectors, weights, combine)
        queries = {name: taking(name, self._fields[name]._one)(vectors[name]) for name in combination.names}
        return self._answer(combination, queries, wanted, cancel)[0]

    def query_id(
        self, id: str | int, weights: Mapping[str, float] | None = None, combine: str = "sum", k: int = 10, target_recall: float = 0.9, *,
        cancel: threading.Event | None = None, fields: Iterable[str] | None = None, options: QueryOptions | None = None,
        **asked: Unpack[Asked],
    ) -> Answer:  # fmt: skip
        """The k nearest items of a stored item's vectors: without itself, unless `include_self` keeps it.

        fields: those to compare; None: those that `weights` names, or all.

        Raises:
            InvalidInput: code "unknown_id": there is no such item.
        """
        wanted = self._asked(options_of(options, k, target_recall, asked))
        (key,) = check_ids([id])
        if fields is not None:
            fields = _names_of(fields)
        named = dict.fromkeys(fields if fields is not None else weights if isinstance(weights, Mapping) else self._spaces)
        return self._answer(combination_of(self._spaces, named, weights, combine), key, wanted, cancel)[0]

    def query_batch(
        self, vectors: Mapping[str, Any], weights: Mapping[str, float] | None = None, combine: str = "sum", k: int = 10,
        target_recall: float = 0.9, *, cancel: threading.Event | None = None, options: QueryOptions | None = None, **asked: Unpack[Asked],
    ) -> AnswerBatch:  # fmt: skip
        """The k items of greatest combined score for each of m queries, from one moment.

        vectors: for some of the fields, m vectors each; fields that are left out do not count. combine: "sum": Σ w_f K_f, with `weights`
        by field (from 0 on, used as they are; None: 1 / number of fields that are asked for), or "product": Π K_f. Scores are exact, and
        `parts` tells what each field's kernel prints. Ties go to the item that was written earlier.

        k, target_recall, asked: see `kinbin.QueryOptions`; min_score is one of the combined score. auto: candidates of every field that
        weighs something, as deep as measured on stored items for `target_recall` (`fields.depths`), or every item where that is faster.
        certify: prove the target by bands, or score everything.

        Raises:
            InvalidInput: a query or a parameter is malformed. CorruptData: a stored row is damaged. SearchCancelled: see cancel.
        """
        wanted = self._asked(options_of(options, k, target_recall, asked))
        combination = combination_of(self._spaces, vectors, weights, combine)
        return self._answer(combination, self._asked_rows(combination, vectors), wanted, cancel)

    def _asked_rows(self, combination: Combination, vectors: Mapping[str, Any]) -> dict[str, Rows]:
        queries: dict[str, Rows] = {}
        for name in combination.names:
            shape = getattr(vectors[name], "shape", None)
            if isinstance(shape, tuple) and len(shape) == 2:
                at_most("batch_queries", shape[0], "queries")
            queries[name] = taking(name, self._fields[name]._rows)(vectors[name])
            at_most("batch_queries", len(queries[name]), "queries")
        if len({len(rows) for rows in queries.values()}) > 1:
            told = ", ".join(f"{len(rows)} for {name}" for name, rows in queries.items())
            raise InvalidInput.of("bad_parameter", f"fields have vectors of different numbers of queries: {told}", field="vectors")
        return queries

    def _find(self, moment: Moment, combination: Combination, queries: Mapping[str, Rows], asked: QueryOptions, cancel: Any) -> Answer:
        return self._told(moment, combination, self._search(moment, combination, queries, asked, None, cancel), asked)[0]

    @staticmethod
    def _asked(asked: QueryOptions) -> QueryOptions:
        if asked.max_distance is not None:
            raise InvalidInput.of("bad_parameter", "fields print scores: use min_score, not max_distance", field="max_distance")
        return asked

    def _answer(
        self, combination: Combination, queries: Mapping[str, Rows] | bytes, asked: QueryOptions, cancel: threading.Event | None
    ) -> AnswerBatch:
        """The answers to validated queries, or to a stored item's vectors."""
        check_cancel(cancel)
        with self._moments.open() as moment:
            own = queries.decode() if isinstance(queries, bytes) else None
            if isinstance(queries, bytes):
                queries = self._stored(moment, queries, combination)
            passing = None if asked.filter is None else moment.known.matching(moment.reader, asked.filter)

            def find(k: int, some: Mapping[str, Rows]) -> AnswerBatch:
                plain = deeper(asked, k)
                return self._told(moment, combination, self._search(moment, combination, some, plain, passing, cancel), plain)

            if own is not None or (asked.is_shaped and len(next(iter(queries.values())))):
                seeds = [field._seed for field in self._fields.values()]
                answer = answers_shaped(moment.reader, find, (combination, queries, seeds), asked, (own, cancel))
            else:
                answer = find(asked.k, queries)
            answer = self._with_contents(moment, answer, asked)
        if asked.mode == "auto":
            for name in combination.searched:
                self._fields[name]._look_after(moment.parts[name].view, "auto")
        return answer

    def _with_contents(self, moment: Moment, answer: AnswerBatch, asked: QueryOptions) -> AnswerBatch:
        """The answers with what was asked for of their items."""
        if not asked.include:
            return answer
        keys = list(dict.fromkeys(answer.ids[answer.ids != None].tolist()))  # noqa: E711 - element by element
        known = moment.reader.items([key.encode() for key in keys])
        entries = [(key.encode(), *item) for key, item in zip(keys, known, strict=True) if item is not None]
        return replace(answer, items={item.id: item for item in self._items(moment, entries, tuple(asked.include))})

    @staticmethod
    def _stored(moment: Moment, key: bytes, combination: Combination) -> dict[str, Rows]:
        (known,) = moment.reader.items([key])
        if known is None:
            raise InvalidInput.of("unknown_id", "no item of this collection has the id of the query", field="id")
        return {name: moment.rows(name, np.array([known[0]], np.uint64)) for name in combination.names}

    def _search(
        self, moment: Moment, combination: Combination, queries: Mapping[str, Rows], asked: QueryOptions,
        passing: NDArray[np.uint64] | None, cancel: threading.Event | None,
    ) -> Found:  # fmt: skip
        """Choose a way and take it."""
        items = moment.state.items
        there = items if passing is None else len(passing)
        least = NOTHING if asked.min_score is None else float(asked.min_score)
        wanted = Wanted(max(1, min(asked.k, there)), least, float(asked.target_recall), asked.mode, asked.certify, 1.0, cancel)
        wanted.share = there / max(1, items)
        search = Search(moment, combination, queries, wanted, passing)
        everyone = np.arange(search.m)
        depth = None
        # Depths are measured without filters, and for so many neighbours.
        unknown = asked.mode == "auto" and (passing is not None or wanted.k > MOST_NEIGHBOURS)
        if asked.mode != "exact" and items > FEW and there and not unknown:
            depth = self._depths.of(moment, combination, wanted)
        few = there <= FEW or depth is None or depth.scans
        if asked.mode == "exact" or (asked.mode == "auto" and few):
            found = search.everything(everyone)
        else:
            found, lists = search.near(4 * wanted.k if depth is None else depth.depth, asked.mode)
            if asked.certify or asked.mode == "bands":
                search.certify(found, lists)
            if asked.mode == "auto":
                short = np.isneginf(found.last) & (asked.min_score is None)
                unsure = np.flatnonzero(short | found.truncated | (asked.certify & ~(found.bounds >= asked.target_recall)))
                if len(unsure):
                    found.put(unsure, search.everything(unsure))
        if asked.min_score is not None:
            found.cut_below(least)
        return found

    def _told(self, moment: Moment, combination: Combination, found: Found, asked: QueryOptions) -> AnswerBatch:
        """Ids and reasons for what was found."""
        m, k = len(found.modes), asked.k
        numbers = _of_width(found.numbers, -1, k)
        scores = np.where(numbers >= 0, _of_width(found.scores, NOTHING, k), np.nan)
        named = np.unique(numbers[numbers >= 0])
        owners = moment.reader.owners(named.tolist())
        if not all(owners):
            raise CorruptData("the owner of a number is missing; it was not answered from")
        names = np.full(len(named) + 1, None, object)
        names[:-1] = [ids[0].decode() for ids in owners]
        ids = names[np.where(numbers >= 0, np.searchsorted(named, numbers), len(named))]
        bounds = found.bounds.copy()
        short = (ids[:, -1] == None) & (asked.min_score is None) & ~(np.array(found.modes) == "exact")  # noqa: E711 - element by element
        bounds[short] = np.nan
        reasons = [
            None if not np.isnan(bound) else CUT if cut else SHORT if few else NO_BOUND
            for bound, cut, few in zip(bounds.tolist(), found.truncated.tolist(), short.tolist(), strict=True)
        ]
        parts = {name: _of_width(part, np.nan, k) for name, part in zip(combination.names, found.parts, strict=True)}
        cut = [["postings"] if cut else [] for cut in found.truncated.tolist()]
        return AnswerBatch(
            ids.reshape(m, k), scores, bounds, reasons, found.verified, found.candidates, cut, found.modes, found.steps, found.far,
            parts=parts,
        )  # fmt: skip

    # -- reading

    def _reading(self) -> AbstractContextManager[Moment]:
        return self._moments.open()

    def _reader(self, at: Moment) -> Reader:
        return at.reader

    def _items(self, at: Moment, entries: list[Entry], wanted: Sequence[str]) -> list[Item]:
        """Items of (id, number, payload), with what is wanted of them."""
        vectors: list[dict[str, Any] | None] = [None] * len(entries)
        if "vector" in wanted and entries:
            numbers = np.array([number for _, number, _ in entries], np.uint64)
            rows = {name: field._space.vectors_of(at.rows(name, numbers)) for name, field in self._fields.items()}
            vectors = [
                {name: field._kind.item(rows[name], i, field._form) for name, field in self._fields.items()} for i in range(len(entries))
            ]  # fmt: skip
        payload = payload_reader(wanted)
        items = [Item(key.decode(), None, payload(data), by_field) for (key, _, data), by_field in zip(entries, vectors, strict=True)]
        return versioned(items, entries) if "version" in wanted else items

    def count(self, filter: Any = None) -> int:
        """How many items there are, or how many a filter matches."""
        with self._moments.open() as moment:
            return moment.state.items if filter is None else len(moment.known.matching(moment.reader, filter))

    def stats(self) -> dict[str, Any]:
        """Sizes, and by field what `Collection.stats` tells, as plain data. depths: what was measured for which way to ask."""
        fields = {name: field.stats() for name, field in self._fields.items()}
        with self._moments.open() as moment:
            return {
                "name": self.name, "count": moment.state.items, "commits": moment.state.sequence, "fields": fields,
                "bytes": self._store.size_on_disk() + sum(one["bytes"] for one in fields.values()),
                "depths": self._depths.told(), "indexes": self._indexing.describe(), "background": self.background(),
            }  # fmt: skip

    def background(self) -> dict[str, Any]:
        """What failed in the background of this process, by work and field ("upkeep colour"). Reads nothing that is stored."""
        told = [(work, name, one) for name, field in self._fields.items() for work, one in field.background().items()]
        # Payloads are kept with the items, and fields have none to index.
        return {f"{work} {name}": one for work, name, one in told if work != "indexes"} | {"indexes": self._indexing.report()}

    def check(self, progress: Callable[[str], None] | None = None) -> CheckReport:
        """Verify every checksum, that each field has a row for each item and no others, and what `Collection.check` does of each field.

        Reads everything.
        """
        problems: list[str] = []
        advice = ""
        rows = runs = items = 0
        try:
            problems = survey_store(self._store)
            for name, field in self._fields.items():
                problems += [f"field {name}: {problem}" for problem in survey_store(field._store)]
            if problems:
                return CheckReport(False, 0, 0, 0, [*problems[:MOST_PROBLEMS], NOT_LOOKED])
            with self._moments.open() as moment:
                if progress is not None:
                    progress("items")
                findings = Findings()
                numbers, items = check_items(moment.reader, findings), moment.state.items
                check_records(moment.reader, findings)
                check_pending(moment.reader, findings)
                problems += findings.problems
                for name, part in moment.parts.items():
                    try:
                        moment.known.check_whole(name)
                    except CorruptData as error:
                        problems.append(error.what)
                        advice = error.own_advice
                    told = None if progress is None else lambda text, name=name: progress(f"{name}: {text}")
                    report = check_store(part.reader, part.field._recipe, told, numbers)
                    problems += [f"field {name}: {problem}" for problem in report.problems]
                    rows, runs = rows + report.rows, runs + report.runs
            problems += self._indexing.problems()
        except CorruptData as error:
            problems, advice = [*problems[: MOST_PROBLEMS - 1], *CheckReport.of(error).problems], error.own_advice
        return CheckReport(not problems, items, rows, runs, problems[:MOST_PROBLEMS], advice=advice)

    def link(self, progress: Progress | None = None) -> None:
        """Seal, merge and link every field, now: see `Collection.link`. progress tells of one field after the other."""
        for field in self._fields.values():
            field.link(progress)

    def snapshot(self, path: str | os.PathLike[str], *, cancel: threading.Event | None = None) -> SnapshotInfo:
        """Write everything, of all fields, as it is at this moment, to a new file: see `Collection.snapshot`."""
        with self.pinned() as pinned:
            return pinned.snapshot(path, cancel=cancel)

    def pinned(self) -> Pinned:
        """The collection as it is at this moment, for the block of a `with` statement: see `Pinned`."""
        opened = self._moments.open()
        moment = opened.__enter__()
        parts = [(part.field._store, part.reader, part.view) for part in moment.parts.values()]
        return Pinned(self.name, [(self._store, moment.reader, None), *parts], ("", *moment.parts), opened)

    def compact(self, *, shrink: bool = False) -> CompactReport:
        """Seal and merge every field into one run now; deleted rows leave the files. shrink: see `Collection.compact`."""
        with self._moments.open():
            before = self._store.size_on_disk()
        reports = [field.compact(shrink=shrink) for field in self._fields.values()]
        if shrink:
            with elected(self._store.path / "upkeep.lock", wait=True):
                shrink_store(self._store)
        after = self._store.size_on_disk() + sum(one.after_bytes for one in reports)
        return CompactReport(before + sum(one.before_bytes for one in reports), after)

    # -- life

    def _mark_dropped(self) -> None:
        """Refuse every further use, in every process."""
        super()._mark_dropped()
        for field in self._fields.values():
            field._mark_dropped()

    def close(self) -> None:
        """Stop background work and let go of the files."""
        # What was not opened to its end has none.
        getattr(self, "_duplicates", Opened()).close()
        if hasattr(self, "_indexing"):
            self._indexing.close()
        for field in self._fields.values():
            field._store.removed |= self._store.removed
            field.close()
        self._store.close()


def _names_of(fields: object) -> list[str]:
    """Names of fields as they were given.

    Raises:
        InvalidInput: they are no names.
    """
    names = list(fields) if isinstance(fields, Iterable) and not isinstance(fields, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidInput.of("bad_parameter", f"fields is a list of names of fields, not {arrived(fields)}", field="fields")
    return names


def _of_width(values: NDArray[Any], filler: object, k: int) -> NDArray[Any]:
    """(m, k) the first k columns, padded."""
    m, width = values.shape
    return values[:, :k] if width >= k else np.concatenate([values, np.full((m, k - width), filler, values.dtype)], axis=1)
