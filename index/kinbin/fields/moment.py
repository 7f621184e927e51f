"""One moment of all stores of a collection with fields: snapshots that fit together, and what is known of them.

The order of writes is: rows into the fields, items into the first store (the commit), superseded rows out of the fields. So whoever
opens the fields between two looks at the first store that see the same commit has every row of that commit. Rows that are not of it
(already written, or not yet removed) are hidden: their numbers are known from the first store's state and journal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.collection import Collection
from kinbin.edits import living_rows
from kinbin.errors import CollectionNotFound, CorruptData
from kinbin.inspection import Findings
from kinbin.query.filters import compile_filter
from kinbin.query.matching import Filters, key_of, masks_of
from kinbin.query.search import Masks
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.segments.source import read_records
from kinbin.storage.datafile import DATA
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import State
from kinbin.storage.headers import Identity
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader

__all__ = ["Moment", "Moments", "Part", "check_not_older", "check_pending", "pending_rows", "places_of", "refuse_strange"]

_PATIENCE = 8
"""So many moments are missed before writers are kept out while the stores are opened."""
_OLDER = (
    "put its own file back; or set items and fields back to one moment (`kinbin recover NAME/FIELD`), or restore a snapshot; "
    "`kinbin repair` saves what is whole of both"
)
_FILTERS = 4
"""Filters that are remembered."""

Places = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Addresses and rooms of rows' records."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One field at a moment."""

    field: Collection
    reader: Reader
    view: View
    masks: Masks
    """Hide the rows that are not of the moment; None: those that live are just its rows."""

    def verify_rows(self, cancel: threading.Event | None) -> None:
        """See that rows are what was written, as `View.verify_rows` does.

        Raises:
            CorruptData, SearchCancelled.
        """
        with self.telling():
            self.view.verify_rows(self.reader, cancel)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let damage that is found inside tell which field it is."""
        try:
            yield
        except CorruptData as error:
            self.field._store.tell_whose(error)
            raise


class Known:
    """What is worked out of one state of all stores, once. Holds no snapshot; places are used inside of one of the same state."""

    def __init__(self, record: bytes, state: State, pending: NDArray[np.uint64], views: Mapping[str, View], asked: Filters) -> None:
        """asked: what knows which items a filter lets through."""
        self.record = record
        self._asked = asked
        self.state = state
        self.views = dict(views)
        self.masks = {name: _hiding(view, state, pending) for name, view in views.items()}
        self._filters: dict[bytes, NDArray[np.uint64]] = {}
        self._numbers: NDArray[np.uint64] | None = None
        self._everything: dict[str, Places] = {}
        self._whole: set[str] = set()

    def numbers(self) -> NDArray[np.uint64]:
        """(n,) the numbers of all items, ascending."""
        if self._numbers is None:
            name, view = next(iter(self.views.items()))
            masks = self.masks[name] or [*(run.dead for run in view.runs), view.fresh.dead]
            found = [numbers[mask.living()] for (numbers, _), mask in zip(_sources(view), masks, strict=True)]
            self._numbers = np.sort(np.concatenate(found))
        return self._numbers

    def check_whole(self, name: str) -> None:
        """See that a field has as many rows as there are items.

        Raises:
            CorruptData: it has not.
        """
        if name in self._whole:
            return
        view, masks = self.views[name], self.masks[name]
        rows = view.live_rows if masks is None else sum(len(mask.living()) for mask in masks)
        if rows != self.state.items:
            has = f"field {name!r} has {rows:,} rows for {self.state.items:,} items"
            raise CorruptData(f"{has}: an older copy of one of the two files was put in its place, or rows are lost", _OLDER)
        self._whole.add(name)

    def everything(self, name: str) -> Places:
        """Where the rows of all items lie in one field. Kept: 16 bytes an item and field."""
        known = self._everything.get(name)
        if known is None:
            known = self._everything[name] = places_of(self.views[name], self.numbers())
        return known

    def matching(self, reader: Reader, filter: Any) -> NDArray[np.uint64]:
        """The numbers of the items that a filter lets through, ascending. Cost: as of `Filters.matching`, once."""
        predicate = compile_filter(filter)
        key = key_of(filter)
        known = self._filters.get(key)
        if known is None:
            if len(self._filters) >= _FILTERS:
                self._filters.clear()
            known = self._filters[key] = self._asked.rows(reader, predicate, key)[1]
        return known


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """All stores at one commit."""

    reader: Reader
    """Of the items."""
    known: Known
    parts: dict[str, Part]

    @property
    def state(self) -> State:
        """Of the items."""
        return self.known.state

    def rows(self, name: str, numbers: NDArray[np.uint64]) -> Rows:
        """Stored rows of one field, checked."""
        part = self.parts[name]
        return read_records(*places_of(part.view, numbers), part.field._wide)

    def masks(self, name: str, passing: NDArray[np.uint64] | None) -> Masks:
        """What hides all rows of a field but the given ones; None: but those of the moment."""
        part = self.parts[name]
        return part.masks if passing is None else masks_of(part.view, passing)


class Moments:
    """Opens moments of one collection. Thread-safe."""

    def __init__(self, store: Store, fields: Mapping[str, Collection], asked: Filters) -> None:
        """asked: what knows which items of the first store a filter lets through."""
        self._store = store
        self._fields = fields
        self._asked = asked
        self._lock = threading.Lock()
        self._newest: Known | None = None

    @contextmanager
    def open(self) -> Iterator[Moment]:
        """The newest moment, for the block.

        Raises:
            CollectionNotFound: the collection was removed.
        """
        with ExitStack() as stack:
            for _ in range(_PATIENCE):
                moment = self._try(stack)
                if moment is not None:
                    break
                stack.close()
            else:
                # One write after the other: nobody commits while this transaction is open, and it changes nothing.
                with self._store.write():
                    moment = self._try(stack)
                assert moment is not None, "nobody else commits"
            yield moment

    def _try(self, stack: ExitStack) -> Moment | None:
        """Open all stores; None if there was a commit meanwhile."""
        with self._store.read() as reader:
            before = reader.state_record()
            _check_there(reader)
        opened = {name: stack.enter_context(field._reading()) for name, field in self._fields.items()}
        reader = stack.enter_context(self._store.read())
        if reader.state_record() != before:
            return None
        readers = {name: one for name, (one, _) in opened.items()}
        known = self._known(reader, before, {name: view for name, (_, view) in opened.items()}, readers)
        parts = {
            name: Part(self._fields[name], one, view, known.masks[name]) for name, (one, view) in opened.items()
        }  # fmt: skip
        return Moment(reader, known, parts)

    def _known(self, reader: Reader, record: bytes, views: Mapping[str, View], readers: Mapping[str, Reader]) -> Known:
        newest = self._newest
        if newest is None or newest.record != record or any(newest.views[name] is not view for name, view in views.items()):
            newest = Known(record, _check_there(reader), pending_rows(reader), views, self._asked)
            for name, field in readers.items():
                check_not_older(newest.state, name, field)
            with self._lock:
                self._newest = newest
        return newest


def _check_there(reader: Reader) -> State:
    state = reader.state()
    if state.dropped:
        raise CollectionNotFound("the collection was removed")
    return state


def check_not_older(state: State, name: str, field: Reader) -> None:
    """See that a field was not written for a commit that the first store has not seen come. Cost: 3 µs.

    Raises:
        CorruptData: it was: the first store's file is an older copy. One that is older by one commit, of which no row was buried yet, is
            not told: a write that did not end leaves the same.
    """
    written = field.written_for()
    if written > state.sequence + 1:
        raise CorruptData(
            f"{DATA} of the items is at commit {state.sequence}, and field {name!r} was written for commit {written}: "
            "an older copy was put in its place",
            _OLDER,
        )


def refuse_strange(items: Identity | None, field: Store) -> None:
    """See that a field's files are those of a field of these items.

    Raises:
        CorruptData: another collection of this name has them: its numbers are those of other items.
    """
    whose = field.whose()
    if items is not None and whose is not None and not items.has(whose):
        error = CorruptData(
            "these files, or those of the items, are those of another collection of this name: they were put in the place of its own",
            "put each file back into the directory of its collection",
        )
        field.tell_whose(error)
        raise error


def pending_rows(reader: Reader) -> NDArray[np.uint64]:
    """The rows that the last commit superseded: they may live in the fields still."""
    entries = [commit.dead for _, commit in reader.journal(0)]
    return np.concatenate([np.empty(0, np.uint64), *entries])


def check_pending(reader: Reader, findings: Findings) -> None:
    """See that the first store's journal has no entry but that of the last commit, and that each number has one id."""
    sequence = reader.state().sequence
    if any(number != sequence for number, _ in reader.journal(0)):
        findings.add("the journal of the items has an entry that is not of the last commit")
    if more := sum(len(ids) > 1 for _, ids in reader.scan_owners()):
        findings.add(f"{more} numbers have several ids")


def _sources(view: View) -> Sequence[tuple[NDArray[np.uint64], DeadRows]]:
    """Row numbers and dead rows of each run, and of the fresh rows."""
    fresh = view.fresh
    return [*((run.row_numbers, run.dead) for run in view.runs), (fresh.row_numbers[: fresh.rows], fresh.dead)]


def _hiding(view: View, state: State, pending: NDArray[np.uint64]) -> Masks:
    """Masks of a field that hide rows which are not of a commit; None where no such row lives."""
    superseded = living_rows(view, pending)
    if view.state.next_row <= state.next_row and not len(superseded):
        return None
    late = np.uint64(state.next_row)
    return [dead.hiding((numbers >= late) | np.isin(numbers, superseded)) for numbers, dead in _sources(view)]


def places_of(view: View, numbers: NDArray[np.uint64]) -> Places:
    """Where the rows of these numbers lie.

    Raises:
        CorruptData: one of them is not there.

    Cost: 20 ns a row and run.
    """
    addresses, rooms = np.zeros(len(numbers), np.uint64), np.full(len(numbers), -1, np.int64)
    for run in view.runs:
        place = np.minimum(np.searchsorted(run.row_numbers, numbers), run.rows - 1)
        here = run.row_numbers[place] == numbers
        addresses[here], rooms[here] = run.places(place[here])
    fresh = view.fresh
    if fresh.rows:
        known = fresh.row_numbers[: fresh.rows]
        place = np.minimum(np.searchsorted(known, numbers), fresh.rows - 1)
        here = known[place] == numbers
        addresses[here], rooms[here] = fresh.addresses[place[here]], fresh.rooms[place[here]].astype(np.int64)
    if (rooms < 0).any():
        raise CorruptData("an item has no row in one of its fields")
    return addresses, rooms
