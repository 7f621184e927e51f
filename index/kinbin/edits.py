"""What an add or a delete does inside a write transaction.

Everything is looked up and decided first; the writes come last, so an edit that is refused leaves
nothing behind and the others of its group go on.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.query.filters import Predicate
from kinbin.query.view import View
from kinbin.records import AddResult, DeleteResult
from kinbin.segments.run import Run
from kinbin.storage import answered
from kinbin.storage.answered import Answered
from kinbin.storage.format import FRESH_BANDS, Commit, State
from kinbin.storage.notes import put_notes
from kinbin.storage.quota import Quota, put_quota, quota_of
from kinbin.storage.transactions import Writer
from kinbin.terms import Known, Versions, following, refuse_conflicts, refuse_versions
from kinbin.upkeep.indexing import declare

__all__ = ["NewItems", "Transaction", "append_rows", "bury_rows", "living_rows"]

_FEW = 16
"""Below so many new rows, fresh content hashes are compared one by one rather than sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class NewItems:
    """A validated batch, ready to be written: rows are packed and hashed before the writer is asked for."""

    ids: list[bytes]
    payloads: list[bytes]
    offsets: NDArray[np.int64]
    records: NDArray[np.uint8]
    hashes: NDArray[np.uint64]
    band_keys: NDArray[np.uint16]

    def record(self, i: int) -> bytes:
        """The record of row i."""
        return self.records[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def only(self, which: Sequence[int]) -> NewItems:
        """Some of the items."""
        chosen = np.array(which, np.int64)
        ids, payloads = [self.ids[i] for i in which], [self.payloads[i] for i in which]
        offsets, records = _records(self, which)
        return NewItems(ids, payloads, offsets, records, self.hashes[chosen], self.band_keys[chosen])

    def digest(self, *, named: bool = True) -> str:
        """Of ids, unless they are not to count, payloads and rows. Cost: 5 ns a byte."""
        ids = self.ids if named else [b""] * len(self.ids)
        lengths = [(len(key), len(data)) for key, data in zip(ids, self.payloads, strict=True)]
        found = hashlib.blake2b(np.array(lengths, "<i8").tobytes())
        for part in (*ids, *self.payloads, self.offsets.astype("<i8").tobytes(), self.records.tobytes()):
            found.update(part)
        return found.hexdigest()[:32]


class Transaction:
    """The edits of one group commit, one after the other; each sees what the ones before it did."""

    def __init__(self, writer: Writer, view: View) -> None:
        self._writer = writer
        self._view = view
        self._state: State = writer.state()
        if self._state.rows is None:
            # Files of format 1 do not count their rows.
            self._state = self._state.with_(rows=view.live_rows)
        self._new: dict[int, list[tuple[int, bytes]]] = {}
        self._dead: set[int] = set()
        self._changed = False
        self._quota: Quota | None = None
        declared = writer.declared_indexes()
        self.logs = declared is not None and bool(declared.kinds)
        """Whether payload indexes want to know what commits touch."""
        self.writing = False
        """Whether an edit has begun to write and not ended: if it fails now, the whole transaction has to."""

    def finish(self) -> None:
        """Write the state, once, if anything changed."""
        if self._changed:
            self._writer.put_state(self._state)

    @property
    def sequence(self) -> int:
        """Number of the last commit, those of the edits before among them."""
        return self._state.sequence

    @property
    def count(self) -> int:
        """Items, as the edits so far leave them."""
        return self._state.items

    def known(self, ids: list[bytes]) -> list[Known]:
        """Row and payload of each id, as the edits so far leave them."""
        return self._writer.items(ids)

    def all_items(self) -> Iterator[tuple[bytes, int, bytes]]:
        """All items, as the edits so far leave them. Cost: 1 µs each."""
        return self._writer.scan_items(None)

    def answered(self, key: bytes, now: float) -> Answered | None:
        """The answer that is kept for an idempotency key; refuses where no more can be kept."""
        kept = answered.find(self._writer, key, now)
        if kept is None:
            answered.refuse_more(self._writer, now)
        return kept

    def answer(self, key: bytes, kept: Answered, now: float) -> None:
        """Keep the answer of the add that was just done: if that fails, all of the transaction has to."""
        self.writing = True
        answered.put(self._writer, key, kept, now)
        self.writing = False

    def put_notes(self, notes: Mapping[bytes, bytes | None]) -> None:
        """Write notes of the program's own: if that fails, all of the transaction has to."""
        self.writing = True
        put_notes(self._writer, notes)
        self.writing = False

    def put_quota(self, quota: Quota) -> None:
        """Set what the collection may hold; held against the edits that follow."""
        self.writing = True
        put_quota(self._writer, quota)
        self._quota, self.writing = quota, False

    def change_indexes(self, add: Mapping[str, str], drop: Sequence[str]) -> None:
        """Drop and declare payload indexes.

        Raises:
            InvalidInput: one is malformed, is to be dropped and not there, or has another kind.
        """
        kinds = declare(self._writer, add, drop, self._state.sequence)
        self.logs = bool(kinds)

    def put_payloads(self, changed: list[tuple[bytes, int, bytes]]) -> None:
        """Replace the payloads of items: (id, row, payload)."""
        self._refuse_over(0, sum(len(payload) for _, _, payload in changed))
        self._write(changed, [(key, row) for key, row, _ in changed], {}, None, {}, 0)

    @property
    def next_row(self) -> int:
        """A number beyond those of all rows that there ever were, as the edits so far leave them."""
        return self._state.next_row

    def add(self, items: NewItems, mode: str, versions: Versions = None, numbers: Sequence[int] | None = None) -> AddResult:
        """Insert, update or upsert a batch. numbers: of the items' rows, where these are new, as `terms.following` takes them.

        Raises:
            ItemConflict: insert of an id that is there, or update of one that is not. VersionConflict: see `Collection.add`.
            InvalidInput: code "over_limit", the collection would hold more than it may.
        """
        known = self._writer.items(items.ids)
        refuse_versions(items.ids, known, versions)
        refuse_conflicts(items.ids, known, mode)
        rows, fresh = self._place_rows(items, following(numbers, self._state.next_row))
        if len(fresh) == len(rows) and not any(known):
            return self._add_new(items, rows, fresh)
        changed: list[tuple[bytes, int, bytes]] = []
        touched: list[tuple[bytes, int | None]] = []
        moved: list[tuple[bytes, int | None, int | None]] = []
        for key, row, payload, old in zip(items.ids, rows, items.payloads, known, strict=True):
            if old == (row, payload):
                continue
            left = None if old is None else old[0]
            changed.append((key, row, payload))
            touched.append((key, left))
            if left != row:
                moved.append((key, row, left))
        indexed = sum(left is None for _, left in touched)
        owners = self._owners_after(moved, fresh)
        more = sum(len(items.record(i)) for i in fresh.values()) if len(fresh) < len(items.ids) else len(items.records)
        self._refuse_over(indexed, more + sum(len(key) + len(payload) for key, _, payload in changed))
        self._write(changed, touched, owners, items, fresh, indexed)
        return AddResult(indexed, len(changed) - indexed, len(items.ids) - len(changed), self._state.items)

    def _add_new(self, items: NewItems, rows: list[int], fresh: dict[int, int]) -> AddResult:
        """Write items that are all new, each with a row of its own: what most adds are, without a list for each row."""
        count = len(rows)
        self._refuse_over(count, len(items.records) + sum(map(len, items.ids)) + sum(map(len, items.payloads)))
        changed = list(zip(items.ids, rows, items.payloads, strict=True))
        touched: list[tuple[bytes, int | None]] = [(key, None) for key in items.ids] if self.logs else []
        self._write(changed, touched, dict(zip(rows, zip(items.ids, strict=True), strict=True)), items, fresh, count)
        return AddResult(count, 0, 0, self._state.items)

    def delete(self, ids: list[bytes], matches: Predicate | None = None) -> DeleteResult:
        """Remove items; ids that are not there are passed over, and those whose payload does not match now."""
        known = self._writer.items(ids)
        gone: list[tuple[bytes, int | None]] = [
            (key, old[0]) for key, old in zip(ids, known, strict=True) if old is not None and (matches is None or matches(old[1]))
        ]
        owners = self._owners_after([(key, None, row) for key, row in gone], {})
        self._write([], gone, owners, None, {}, -len(gone))
        return DeleteResult(len(gone), self._state.items)

    def _refuse_over(self, indexed: int, more: int) -> None:
        """Refuse an edit after which the collection would hold more than it may. more: bytes that it brings."""
        if self._quota is None:
            self._quota = quota_of(self._writer)
        self._quota.refuse(self._state.items + indexed, indexed, more, self._writer.used_bytes)

    def _owners_after(self, moved: Sequence[tuple[bytes, int | None, int | None]], fresh: Mapping[int, int]) -> dict[int, list[bytes]]:
        """The ids of each row that gains or loses some, as the edit leaves them.

        moved: an id, the row that it gets or None, the row that it leaves or None. fresh: the new rows, which nobody had.
        """
        held = list(dict.fromkeys(row for _, *both in moved for row in both if row is not None and row not in fresh))
        owners = dict(zip(held, self._writer.owners(held), strict=True))
        if not all(owners.values()):
            raise _lost_owners()
        owners |= {row: [] for row in fresh}
        for key, row, left in moved:
            if row is not None:
                owners[row].append(key)
            if left is not None:
                if key not in owners[left]:
                    raise _lost_owners()
                owners[left].remove(key)
        return owners

    def _write(
        self,
        changed: list[tuple[bytes, int, bytes]],
        touched: list[tuple[bytes, int | None]],
        owners: Mapping[int, Sequence[bytes]],
        items: NewItems | None,
        fresh: dict[int, int],
        gained: int,
    ) -> None:
        """Write items, owners, the journal entry and the dead bits of one edit. gained: how many more items there are than before.

        touched: the items that are changed or, where none are, removed; each with its row before. What is only new need not be there
        where changes are not logged.
        """
        if not (touched or changed):
            return
        self.writing = True
        writer = self._writer
        writer.put_items(changed)
        if not changed:
            writer.delete_items([key for key, _ in touched])
        only_new = owners.keys() == fresh.keys()
        writer.put_owners(owners.items() if only_new else sorted(owners.items()))
        dead = np.array([] if only_new else sorted(row for row, ids in owners.items() if not ids), np.uint64)
        self._dead.update(dead.tolist())
        first, past = (next(iter(fresh)), next(reversed(fresh)) + 1) if fresh else (self._state.next_row, self._state.next_row)
        renamed = not only_new and any(ids and row not in fresh for row, ids in owners.items())
        self._state = self._state.with_(
            sequence=self._state.sequence + 1, next_row=past, renames=self._state.renames + renamed,
            rows=(self._state.rows or 0) + len(fresh) - len(dead), items=self._state.items + gained,
        )  # fmt: skip
        writer.append_commit(self._state.sequence, _commit(list(fresh) or [first], dead, items, list(fresh.values())))
        if self.logs:
            writer.append_changes(self._state.sequence, touched)
        for run in self._view.runs:
            place = _places(run, dead)
            if len(place):
                writer.mark_dead(run.number, place)
        if items is not None:
            for row, i in fresh.items():
                self._new.setdefault(int(items.hashes[i]), []).append((row, items.record(i)))
        self._changed = True
        self.writing = False

    def _place_rows(self, items: NewItems, numbers: Sequence[int] | None) -> tuple[list[int], dict[int, int]]:
        """The row of each item: one that holds the same vector already, or a new one, of its number or, if None, the next.

        Returns the rows, and the new ones with the item whose vector they get, in order.
        """
        rows = self._identical_rows(items)
        fresh: dict[int, int] = {}
        batch: dict[tuple[int, bytes], int] = {}
        seen: set[int] = set()
        next_row = self._state.next_row
        hashes = items.hashes.tolist()
        repeated = len(set(hashes)) < len(hashes)
        for i, row in enumerate(rows):
            if row >= 0:
                continue
            if repeated and hashes[i] in seen:
                same = batch.get((hashes[i], items.record(i)))
                if same is not None:
                    rows[i] = same
                    continue
            rows[i] = number = next_row + len(fresh) if numbers is None else numbers[i]
            fresh[number] = i
            if repeated:
                seen.add(hashes[i])
                batch[hashes[i], items.record(i)] = number
        return rows, fresh

    def _identical_rows(self, items: NewItems) -> list[int]:
        """For each item a living row with exactly its vector, or -1."""
        out = [-1] * len(items.ids)
        for i, row, address, room in self._same_hash(items.hashes):
            if out[i] < 0 and row not in self._dead:
                record = items.record(i)
                if len(record) <= room and ctypes.string_at(address, len(record)) == record:
                    out[i] = row
        if self._new:
            for i, value in enumerate(items.hashes.tolist()):
                for row, record in self._new.get(value, ()):
                    if out[i] < 0 and row not in self._dead and record == items.record(i):
                        out[i] = row
        return out

    def _same_hash(self, hashes: NDArray[np.uint64]) -> list[tuple[int, int, int, int]]:
        """(item, row number, address, room) of living rows of the view whose content hash is that of an item."""
        out = []
        for run in self._view.runs:
            place = np.searchsorted(run.content, hashes)
            for i in np.flatnonzero(run.content[np.minimum(place, run.rows - 1)] == hashes):
                at = int(place[i])
                while at < run.rows and run.content[at] == hashes[i]:
                    local = int(run.content_rows[at])
                    if local >= run.rows:
                        raise CorruptData(f"run {run.number} lists a row that it does not have")
                    if not run.dead.is_dead(local):
                        out.append((int(i), int(run.row_numbers[local]), *run.place(local)))
                    at += 1
        fresh = self._view.fresh
        known = fresh.hashes[: fresh.rows]
        for item, at in _matches(known, hashes):
            if not fresh.dead.is_dead(at):
                out.append((item, int(fresh.row_numbers[at]), int(fresh.addresses[at]), int(fresh.rooms[at])))
        return out


def append_rows(writer: Writer, numbers: Sequence[int], items: NewItems, which: Sequence[int]) -> None:
    """Add rows under numbers of the caller's own: for a store of rows that have no ids. which: of the items.

    The numbers ascend, and must be greater than all that the store has.
    """
    state = writer.state()
    assert numbers[0] >= state.next_row, "numbers ascend"
    count = state.items + len(which)
    state = state.with_(sequence=state.sequence + 1, next_row=numbers[-1] + 1, items=count, rows=count)
    writer.append_commit(state.sequence, _commit(numbers, np.empty(0, np.uint64), items, which))
    writer.put_state(state)


def bury_rows(writer: Writer, view: View, rows: NDArray[np.uint64]) -> int:
    """Let rows of a store of rows without ids die, those of them that live. Returns how many these are."""
    dead = living_rows(view, rows)
    if len(dead):
        state = writer.state()
        state = state.with_(sequence=state.sequence + 1, items=state.items - len(dead), rows=state.items - len(dead))
        writer.append_commit(state.sequence, _commit([state.next_row], dead, None, ()))
        for run in view.runs:
            place = _places(run, dead)
            if len(place):
                writer.mark_dead(run.number, place)
        writer.put_state(state)
    return len(dead)


def living_rows(view: View, rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Those of these row numbers that are alive, ascending."""
    wanted = np.unique(rows)
    found = [run.row_numbers[place[~run.dead.are_dead(place)]] for run in view.runs if len(place := _places(run, wanted))]
    fresh = view.fresh.locals(wanted)
    found.append(view.fresh.row_numbers[fresh[~view.fresh.dead.are_dead(fresh)]])
    return np.concatenate(found)


def _matches(known: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> list[tuple[int, int]]:
    """(place in wanted, place in known) of equal hashes."""
    if len(wanted) < _FEW:
        return [(i, int(place)) for i in range(len(wanted)) for place in np.flatnonzero(known == wanted[i])]
    order = np.argsort(known)
    ranked = known[order]
    low, high = np.searchsorted(ranked, wanted, "left"), np.searchsorted(ranked, wanted, "right")
    return [(int(i), int(order[at])) for i in np.flatnonzero(high > low) for at in range(low[i], high[i])]


def _lost_owners() -> CorruptData:
    return CorruptData("the owners of a living row are missing or wrong; nothing was written")


def _places(run: Run, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Local places of those row numbers that the run has."""
    if not len(rows) or rows[-1] < run.row_numbers[0] or rows[0] > run.row_numbers[-1]:
        return np.empty(0, np.int64)
    place = np.minimum(np.searchsorted(run.row_numbers, rows), run.rows - 1)
    found: NDArray[np.int64] = place[run.row_numbers[place] == rows]
    return found


def _commit(numbers: Sequence[int], dead: NDArray[np.uint64], items: NewItems | None, which: Sequence[int]) -> Commit:
    """The journal entry of one edit. numbers: of its new rows, ascending; where there is none, the next one."""
    if items is None or not which:
        return Commit(
            numbers[0], dead, np.zeros(1, np.int64), np.empty(0, np.uint64), np.empty((0, FRESH_BANDS), np.uint16), np.empty(0, np.uint8)
        )
    gaps = np.array(numbers, np.uint64) if numbers[-1] - numbers[0] + 1 > len(numbers) else None
    if len(which) == len(items.ids):
        return Commit(numbers[0], dead, items.offsets, items.hashes, items.band_keys, items.records, gaps)
    chosen = np.array(which)
    offsets, records = _records(items, which)
    return Commit(numbers[0], dead, offsets, items.hashes[chosen], items.band_keys[chosen], records, gaps)


def _records(items: NewItems, which: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and records of some items, laid end to end."""
    offsets = np.zeros(len(which) + 1, np.int64)
    np.cumsum(np.diff(items.offsets)[np.array(which, np.int64)], out=offsets[1:])
    parts = [items.records[items.offsets[i] : items.offsets[i + 1]] for i in which]
    return offsets, np.concatenate(parts) if parts else np.empty(0, np.uint8)
