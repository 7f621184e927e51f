"""What one process knows of a collection at one moment: runs read in place, fresh rows mirrored.

A `View` is immutable once made and belongs to one state of the store: it may be used by any number of
threads, each inside a read snapshot of that very state (the addresses lie in the store's map). `Views`
keeps the newest and brings it forward cheaply: after a commit it reads the new journal entries only;
after a seal or a merge it reads the headers of the runs that are new.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.kernels._memory import address_of
from kinbin.search._bandkernel import FRESH_BANDS
from kinbin.search._rundata import FIELDS, RUN_WIDTH
from kinbin.search.links import Links, LinkSet
from kinbin.storage.format import SMALLEST_VALUE, VALUE_HEADER, Commit, Part, State
from kinbin.storage.transactions import Reader

__all__ = ["Fresh", "Run", "View", "Views"]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A sealed run: its rows and tables lie in the store's map, its dead bits are a copy."""

    number: int
    header: dict[str, Any]
    rows: int
    offsets: NDArray[np.uint32]
    row_numbers: NDArray[np.uint64]
    content: NDArray[np.uint64]
    content_rows: NDArray[np.uint32]
    blocks: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    tables: NDArray[np.uint64]
    dead: NDArray[np.uint8]
    live: int
    plans: dict[float, object]
    """What `plan` has worked out for this run, by target."""

    @classmethod
    def load(cls, reader: Reader, number: int) -> Run:
        """Read a run's header and places.

        What tells which row is whose is verified here, once: a row's own check could not see that it is
        answered in place of another. Cost: about 2 µs a block and band, 8 ns a row;
        blocks and tables themselves are not read.
        """
        header = reader.run_header(number)
        rows = int(header["rows"])
        blocks, lengths = reader.run_places(number, Part.BLOCK)
        tables, sizes = reader.run_places(number, Part.BAND)
        if len(tables) != header["bands"] or len(blocks) != -(-rows >> header["block_shift"]):
            raise CorruptData(f"run {number} has {len(tables)} bands and {len(blocks)} blocks, its header says otherwise")
        table_bytes = 4 * ((1 << header["slot_bits"]) + 1) + header["posting_bytes"] * rows
        if (sizes != max(table_bytes, SMALLEST_VALUE - VALUE_HEADER)).any():
            raise CorruptData(f"a band of run {number} has not the size its header gives")
        dead = reader.run_dead(number, rows)
        return cls(
            number,
            header,
            rows,
            np.frombuffer(_sized(reader.run_part(number, Part.OFFSETS, verify=True), 4 * rows), "<u4"),
            np.frombuffer(_sized(reader.run_part(number, Part.ROW_NUMBERS, verify=True), 8 * rows), "<u8"),
            np.frombuffer(_sized(reader.run_part(number, Part.CONTENT), 8 * rows), "<u8"),
            np.frombuffer(_sized(reader.run_part(number, Part.CONTENT_ROWS), 4 * rows), "<u4"),
            blocks,
            lengths,
            tables,
            dead,
            rows - int(np.bitwise_count(dead).sum()),
            {},
        )

    def with_dead(self, local: NDArray[np.int64]) -> Run:
        """A copy in which these local rows are dead as well."""
        dead = self.dead.copy()
        np.bitwise_or.at(dead, local >> 3, np.left_shift(1, local & 7).astype(np.uint8))
        return self.replaced(dead)

    def replaced(self, dead: NDArray[np.uint8]) -> Run:
        """A copy with other dead bits."""
        return Run(
            self.number, self.header, self.rows, self.offsets, self.row_numbers, self.content, self.content_rows,
            self.blocks, self.lengths, self.tables, dead, self.rows - int(np.bitwise_count(dead).sum()), self.plans,
        )  # fmt: skip

    def local(self, row: int) -> int:
        """The place of a row number in this run, or -1."""
        place = int(np.searchsorted(self.row_numbers, np.uint64(row)))
        return place if place < self.rows and int(self.row_numbers[place]) == row else -1

    def is_dead(self, local: int) -> bool:
        """Whether the row at this place must not be answered."""
        return bool(self.dead[local >> 3] >> (local & 7) & 1)

    def place(self, local: int) -> tuple[int, int]:
        """Address of a row's record and the bytes left in its block."""
        block = local >> self.header["block_shift"]
        offset = int(self.offsets[local])
        return int(self.blocks[block]) + offset, int(self.lengths[block]) - offset

    def places(self, locals_: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses and rooms of many rows."""
        block = locals_ >> self.header["block_shift"]
        offset = self.offsets[locals_].astype(np.uint64)
        rooms = self.lengths[block].astype(np.int64) - offset.astype(np.int64)
        return self.blocks[block] + offset, rooms


def _sized(body: memoryview, size: int) -> memoryview:
    if len(body) != size:
        raise CorruptData(f"a part of a run has {len(body)} bytes, its header gives {size}")
    return body


class Fresh:
    """A mirror of the rows that are in the journal only.

    Arrays grow in place beyond `rows`, so that older views, which know fewer rows, stay right.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.live = 0
        self.keys = np.zeros((64, FRESH_BANDS), np.uint16)
        self.addresses = np.zeros(64, np.uint64)
        self.rooms = np.zeros(64, np.uint64)
        self.row_numbers = np.zeros(64, np.uint64)
        self.hashes = np.zeros(64, np.uint64)
        self.zeros = np.zeros(64, np.uint32)
        self.dead = np.zeros(8, np.uint8)
        self._records: list[NDArray[np.uint8]] = []

    def extended(self, commits: list[Commit]) -> Fresh:
        """A mirror with the rows and deaths of more commits; shares its arrays with this one."""
        out = Fresh.__new__(Fresh)
        out.__dict__.update(self.__dict__)
        out._records = self._records.copy()
        for commit in commits:
            out._append(commit)
        gone = np.concatenate([commit.dead for commit in commits]) if commits else np.empty(0, np.uint64)
        local = out.locals(gone)
        if len(local):
            out.dead = out.dead.copy()
            np.bitwise_or.at(out.dead, local >> 3, np.left_shift(1, local & 7).astype(np.uint8))
        out.live = out.rows - int(np.bitwise_count(out.dead).sum())
        return out

    def _append(self, commit: Commit) -> None:
        more = len(commit)
        if not more:
            return
        if len(commit.records) != commit.offsets[-1]:
            raise CorruptData("a journal entry's rows have not the size it gives")
        stop = self.rows + more
        if stop > len(self.hashes):
            self._grow(max(stop, 2 * len(self.hashes)))
        records = commit.records
        here = slice(self.rows, stop)
        self.keys[here] = commit.keys
        self.addresses[here] = np.uint64(records.__array_interface__["data"][0]) + commit.offsets[:-1].astype(np.uint64)
        self.rooms[here] = np.diff(commit.offsets)
        self.row_numbers[here] = np.arange(commit.first_row, commit.first_row + more, dtype=np.uint64)
        self.hashes[here] = commit.hashes
        self._records.append(records)
        self.rows = stop

    def _grow(self, capacity: int) -> None:
        capacity = -(-capacity // 64) * 64
        for name in ("keys", "addresses", "rooms", "row_numbers", "hashes", "zeros", "dead"):
            old = getattr(self, name)
            size = capacity // 8 if name == "dead" else capacity
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def locals(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Places of those of the given row numbers that are fresh."""
        known = self.row_numbers[: self.rows]
        place = np.searchsorted(known, rows)
        inside = place < self.rows
        inside[inside] = known[place[inside]] == rows[inside]
        found: NDArray[np.int64] = place[inside]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The collection at one state. `descriptors` tells kernels of all runs, the fresh rows last."""

    state: State
    runs: tuple[Run, ...]
    fresh: Fresh
    descriptors: NDArray[np.uint64]
    links: Links | None
    """None: not built, or damaged (`check` tells)."""
    live_rows: int
    """Distinct vectors that can be answered."""
    total_rows: int
    """Rows in the runs and the journal, dead ones included."""
    plans: dict[float, object] = field(default_factory=dict)
    """What `plan` has worked out, by target."""

    @classmethod
    def of(cls, state: State, runs: tuple[Run, ...], fresh: Fresh, links: Links | None) -> View:
        """Describe runs and fresh rows for the kernels."""
        table = np.zeros((len(runs) + 1, RUN_WIDTH), np.uint64)
        base = 0
        for row, run in zip(table, runs, strict=False):
            header = run.header
            _describe(
                row, rows=run.rows, r=header["r"], bands=header["bands"], slot_bits=header["slot_bits"],
                posting_bytes=header["posting_bytes"], block_shift=header["block_shift"], offsets=address_of(run.offsets),
                blocks=address_of(run.blocks), lengths=address_of(run.lengths), tables=address_of(run.tables), mask=address_of(run.dead),
                collect=1, base=base, live=run.live,
            )  # fmt: skip
            base += run.rows
        _describe(
            table[-1], rows=fresh.rows, r=1, bands=FRESH_BANDS, block_shift=0, offsets=address_of(fresh.zeros),
            blocks=address_of(fresh.addresses), lengths=address_of(fresh.rooms), mask=address_of(fresh.dead), collect=1, base=base,
            fresh_keys=address_of(fresh.keys), live=fresh.live,
        )  # fmt: skip
        return cls(state, runs, fresh, table, links, sum(run.live for run in runs) + fresh.live, base + fresh.rows)

    @property
    def unlinked_rows(self) -> int:
        """Rows in runs that no link set covers, dead ones included."""
        tails = (0,) * len(self.runs) if self.links is None else self.links.tails
        return sum(run.rows - tail for run, tail in zip(self.runs, tails, strict=True))

    def bases(self) -> list[tuple[Run, int]]:
        """Each run, with the rows of the runs before it."""
        return [(run, int(base)) for run, base in zip(self.runs, self.descriptors[:, FIELDS["base"]], strict=False)]

    def addresses(self, places: NDArray[np.integer[Any]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses and rooms of sealed rows given by their places: rows of the runs before, plus the local row."""
        addresses, rooms = np.empty(len(places), np.uint64), np.empty(len(places), np.int64)
        signed = places.astype(np.int64)
        for run, base in self.bases():
            here = (signed >= base) & (signed < base + run.rows)
            addresses[here], rooms[here] = run.places(signed[here] - base)
        return addresses, rooms

    def find(self, row: int) -> tuple[int, int, int]:
        """Of a row number: the place of its run in `runs` (len(runs): fresh), its address and its room.

        Raises:
            CorruptData: no run has it.
        """
        for i, run in enumerate(self.runs):
            if int(run.row_numbers[0]) <= row <= int(run.row_numbers[-1]):
                local = run.local(row)
                if local >= 0:
                    return i, *run.place(local)
        local_fresh = self.fresh.locals(np.array([row], np.uint64))
        if len(local_fresh):
            return len(self.runs), int(self.fresh.addresses[local_fresh[0]]), int(self.fresh.rooms[local_fresh[0]])
        raise CorruptData(f"row {row} is in no run: the files are damaged; restore a copy")


def _describe(row: NDArray[np.uint64], **fields: int) -> None:
    for name, value in fields.items():
        row[FIELDS[name]] = value


class Views:
    """The newest view of one store, brought forward on demand. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: tuple[int, bytes, View] | None = None
        """Opening of the files, state record, view."""

    def at(self, reader: Reader) -> View | None:
        """The view of the reader's state; None if this process has already moved past it (read again)."""
        record = reader.state_record()
        newest = self._newest
        if newest is not None and newest[1] == record and newest[0] == reader.opening:
            return newest[2]
        state = reader.state()
        with self._lock:
            newest = self._newest
            # Addresses of another opening are void.
            view = newest[2] if newest is not None and newest[0] == reader.opening else None
            if view is not None:
                if view.state == state:
                    return view
                if view.state.sequence > state.sequence or view.state.manifest > state.manifest:
                    return None
            view = _advanced(view, reader, state) if view is not None else _loaded(None, reader, state)
            self._newest = reader.opening, record, view
            return view


def _advanced(view: View, reader: Reader, state: State) -> View:
    """The view brought forward to a later state."""
    if view.state.manifest != state.manifest:
        return _loaded(view, reader, state)
    commits = _commits(reader, view.state.sequence, state)
    gone = np.concatenate([np.empty(0, np.uint64), *(commit.dead for commit in commits)])
    return View.of(state, tuple(_bury(run, gone) for run in view.runs), view.fresh.extended(commits), view.links)


def _bury(run: Run, gone: NDArray[np.uint64]) -> Run:
    """The run with those of the gone rows that are in it dead."""
    inside = gone[(gone >= run.row_numbers[0]) & (gone <= run.row_numbers[-1])]
    if not len(inside):
        return run
    place = np.searchsorted(run.row_numbers, inside)
    return run.with_dead(place[run.row_numbers[place] == inside])


def _loaded(view: View | None, reader: Reader, state: State) -> View:
    """A view read from the manifest; runs that are known keep their places."""
    known = {run.number: run for run in view.runs} if view is not None else {}
    runs = []
    for number in reader.manifest():
        run = known.get(number)
        runs.append(Run.load(reader, number) if run is None else run.replaced(reader.run_dead(number, run.rows)))
    fresh = Fresh().extended(_commits(reader, state.sealed, state))
    return View.of(state, tuple(runs), fresh, _links(view, reader, tuple(run.row_numbers for run in runs)))


def _links(view: View | None, reader: Reader, runs: tuple[NDArray[np.uint64], ...]) -> Links | None:
    """The link set, placed in these runs. One that is damaged is done without: bands and scans need no links."""
    try:
        for number in reader.link_sets():
            known = view.links.set if view is not None and view.links is not None and view.links.set.number == number else None
            return Links.of(known or LinkSet.load(reader, number), runs)
    except (CorruptData, KeyError, TypeError, ValueError):
        return None
    return None


def _commits(reader: Reader, after: int, state: State) -> list[Commit]:
    """The commits after one number, up to the state's: each of them has its journal entry.

    Raises:
        CorruptData: one is missing.
    """
    entries = list(reader.journal(after))
    if [number for number, _ in entries] != list(range(after + 1, state.sequence + 1)):
        raise CorruptData(f"the journal has not just the commits {after + 1} to {state.sequence}: the files are damaged; restore a copy")
    return [commit for _, commit in entries]
