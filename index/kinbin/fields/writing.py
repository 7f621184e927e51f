"""Writes of a collection with fields: rows into the fields, then the commit, then superseded rows out of the fields.

    1  rows are added to every field under numbers that no item names: nobody sees them
    2  one transaction of the first store names them (id → number, payload) and lists the numbers that are superseded: the commit
    3  superseded rows die in the fields

Of a crash after 1 there are rows beyond the first store's next number; of one after 2, superseded rows that live. Neither is ever
answered (`moment` hides both), and whoever writes next removes them. One process at a time writes, elected by a file lock that dies with
its holder; its threads share commits.

Each field keeps the number of the commit that was last written for in it. A first store that is more than one commit behind is an older
copy: nothing is answered or written then.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.collection import Collection
from kinbin.edits import NewItems, append_rows, bury_rows, living_rows
from kinbin.errors import CorruptData, KinbinError, StorageBusy
from kinbin.fields.moment import check_not_older, pending_rows
from kinbin.query.filters import Predicate
from kinbin.query.view import View
from kinbin.records import AddResult, DeleteResult
from kinbin.storage import answered
from kinbin.storage.answered import Answered
from kinbin.storage.format import Commit, State
from kinbin.storage.group import Edit
from kinbin.storage.notes import put_notes
from kinbin.storage.quota import Quota, put_quota, quota_of
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader, Writer
from kinbin.terms import Known, Versions, following, refuse_conflicts, refuse_versions
from kinbin.upkeep.election import elected
from kinbin.upkeep.indexing import put_declared, redeclared
from kinbin.upkeep.sealing import current

__all__ = ["Prepared", "Writing"]

log = logging.getLogger("kinbin.upkeep")


_TRIES = 8
"""Commits that are begun again."""


class _Behind(StorageBusy):
    """What a batch was made of is not what is stored.

    Nobody else writes meanwhile. But where `lock.mdb` was removed while somebody wrote, that commit is seen only by whoever writes next
    (`Store.write`), not by reads before.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A validated batch: ids, payloads, and the rows of every field."""

    ids: list[bytes]
    payloads: list[bytes]
    rows: Mapping[str, NewItems]

    def only(self, which: Sequence[int]) -> Prepared:
        """Some of the items."""
        ids, payloads = [self.ids[i] for i in which], [self.payloads[i] for i in which]
        return Prepared(ids, payloads, {name: rows.only(which) for name, rows in self.rows.items()})

    def digest(self, *, named: bool = True) -> str:
        """Of ids, unless they are not to count, payloads and rows."""
        of_payloads = b"".join(len(data).to_bytes(8, "little") + data for data in self.payloads)
        parts = [f"{name} {rows.digest(named=named)}" for name, rows in sorted(self.rows.items())]
        return hashlib.blake2b(" ".join(parts).encode() + of_payloads, digest_size=16).hexdigest()


class Writing:
    """The writer of one collection."""

    def __init__(self, name: str, store: Store, fields: Mapping[str, Collection]) -> None:
        self._name = name
        self._store = store
        self._fields = fields
        self._lock = store.path / "write.lock"
        self.logs = False
        """Whether payload indexes wanted to know what the last commit touched."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from writing."""
        with elected(self._lock, wait=True):
            yield

    def commit(self, edits: list[Edit[Any]]) -> None:
        """Apply a group of edits, all in one commit; one that is refused does not touch the others."""
        with self._alone():
            for _ in range(_TRIES):
                with suppress(_Behind):
                    self._commit_once(edits)
                    return
        raise StorageBusy("the files are made anew faster than they can be written to: nothing was written, try again")

    def _commit_once(self, edits: list[Edit[Any]]) -> None:
        """The three steps, for what is stored now.

        Raises:
            _Behind: it was not what is stored: nobody sees what was written.
        """
        self._sweep()
        with self._store.read() as reader:
            batch = Batch(reader, self._fields, self._first(reader), self._used_bytes)
            for edit in edits:
                edit.error = None
                try:
                    edit.result = edit.apply(batch)
                except KinbinError as error:
                    if batch.writing:
                        raise
                    edit.error = error
        if batch.changed:
            for name, field in self._fields.items():
                self._append(field, name, batch)
            self._name_them(batch)
            self._sweep_quietly()

    def _used_bytes(self) -> int:
        """Bytes of all pages in use, of all stores."""
        return sum(store.used_bytes() for store in (self._store, *(field._store for field in self._fields.values())))

    def _first(self, first: Reader) -> int:
        """The first number that no store has used. first: of the first one."""
        used = [first.state().next_row]
        for field in self._fields.values():
            with field._store.read() as reader:
                used.append(reader.state().next_row)
        return max(used)

    @staticmethod
    def _append(field: Collection, name: str, batch: Batch) -> None:
        """Step 1, for one field."""
        if batch.new:
            with field._store.write() as writer:
                if writer.state().next_row > batch.first:
                    raise _Behind("rows came meanwhile")
                writer.put_written_for(batch.committed + 1)
                for numbers, items, which in batch.new:
                    append_rows(writer, numbers, items.rows[name], which)

    def _name_them(self, batch: Batch) -> None:
        """Step 2: the commit."""
        with self._store.write() as writer:
            state = writer.state()
            if state.sequence != batch.committed:
                raise _Behind("a commit came meanwhile")
            if batch.kinds is not None:
                put_declared(writer, batch.kinds, state.sequence)
            declared = writer.declared_indexes()
            self.logs = declared is not None and bool(declared.kinds)
            touched = _touched(writer, list(batch.items)) if self.logs else []
            writer.put_items((key, *item) for key, item in batch.items.items() if item is not None)
            writer.delete_items(key for key, item in batch.items.items() if item is None)
            writer.put_owners(batch.owners())
            # What earlier commits superseded was removed before this one began.
            writer.trim_journal(state.sequence)
            dead = np.array(sorted(batch.superseded), np.uint64)
            nothing = np.zeros(1, np.int64), np.empty(0, np.uint64), np.empty((0, 128), np.uint16), np.empty(0, np.uint8)
            writer.append_commit(state.sequence + 1, Commit(batch.first, dead, *nothing))
            for key, (kept, now) in batch.answers.items():
                answered.put(writer, key, kept, now)
            put_notes(writer, batch.notes)
            if batch.quota is not None:
                put_quota(writer, batch.quota)
            if self.logs:
                # A record for each commit, also of one that touches no item: a log with a gap is none.
                writer.append_changes(state.sequence + 1, touched)
            writer.put_state(state.with_(sequence=state.sequence + 1, next_row=batch.next, items=batch.count))

    def _sweep_quietly(self) -> None:
        """Step 3. The commit stands, whatever becomes of this."""
        try:
            self._sweep()
        except KinbinError as error:
            log.warning("%s: superseded rows stay until the next write: %s", self._name, error)

    def _sweep(self) -> None:
        """Remove rows of the fields that no item names: those of writes that were not committed, and superseded ones."""
        # Or the rows of a commit that a reader may miss (`_Behind`) would be removed.
        self._store.catch_up()
        with self._store.read() as reader:
            state, pending = reader.state(), pending_rows(reader)
        for name, field in self._fields.items():
            with field._reading() as (at, view):
                check_not_older(state, name, at)
                unwanted = np.concatenate([_from_on(view, state), living_rows(view, pending)])
            if len(unwanted):
                with field._store.write() as writer:
                    writer.put_written_for(state.sequence + 1)
                    bury_rows(writer, current(field._views, writer), unwanted)


def _touched(writer: Writer, keys: list[bytes]) -> list[tuple[bytes, int | None]]:
    """Items that are about to change or go, each with the number that it has until then."""
    return [(key, None if old is None else old[0]) for key, old in zip(keys, writer.items(keys), strict=True)]


def _from_on(view: View, state: State) -> NDArray[np.uint64]:
    """Living rows of a field beyond the numbers that were ever named."""
    if view.state.next_row <= state.next_row:
        return np.empty(0, np.uint64)
    known = *(run.row_numbers for run in view.runs), view.fresh.row_numbers[: view.fresh.rows]
    return living_rows(view, np.concatenate([numbers[numbers >= state.next_row] for numbers in known]))


class Batch:
    """The edits of one commit, one after the other; each sees what the ones before it did. Nothing is written here."""

    def __init__(self, reader: Reader, fields: Mapping[str, Collection], first: int, used_bytes: Callable[[], int]) -> None:
        self.writing = False
        """Whether nothing may stand if an edit fails; of most edits that fail nothing is left."""
        self._reader = reader
        self._used_bytes = used_bytes
        self._more = 0
        self._fields = fields
        self.first = self.next = first
        state = reader.state()
        self.count = state.items
        self.committed = state.sequence
        """Commits before this one."""
        self.items: dict[bytes, tuple[int, bytes] | None] = {}
        """By id, number and payload as the commit leaves them; None: it goes."""
        self.new: list[tuple[list[int], Prepared, list[int]]] = []
        """Numbers, batch, and which of its items have new rows."""
        self.superseded: set[int] = set()
        self.answers: dict[bytes, tuple[Answered, float]] = {}
        """Of adds with an idempotency key, and when they were done."""
        self.notes: dict[bytes, bytes | None] = {}
        self.quota: Quota | None = None
        """What the collection may hold from now on."""
        self.kinds: dict[str, str] | None = None
        """The payload indexes from now on, by field; None: no edit names any."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.items or self.answers or self.notes or self.quota) or self.kinds is not None

    @property
    def sequence(self) -> int:
        """Number of the last commit; one more if edits before changed something."""
        return self._reader.state().sequence + bool(self.items)

    def known(self, ids: list[bytes]) -> list[Known]:
        """Number and payload of each id, as the edits so far leave them."""
        stored = self._reader.items(ids)
        return [self.items.get(key, item) if key in self.items else item for key, item in zip(ids, stored, strict=True)]

    def all_items(self) -> Iterator[tuple[bytes, int, bytes]]:
        """All items, as the edits so far leave them."""
        for key, number, payload in self._reader.scan_items(None):
            if key not in self.items:
                yield key, number, payload
        yield from ((key, *item) for key, item in self.items.items() if item is not None)

    def answered(self, key: bytes, now: float) -> Answered | None:
        """The answer that is kept for an idempotency key; refuses where no more can be kept."""
        if key in self.answers:
            return self.answers[key][0]
        kept = answered.find(self._reader, key, now)
        if kept is None:
            answered.refuse_more(self._reader, now)
        return kept

    def answer(self, key: bytes, kept: Answered, now: float) -> None:
        """Keep the answer of the add that was just done."""
        self.answers[key] = kept, now

    def put_notes(self, notes: Mapping[bytes, bytes | None]) -> None:
        """Write notes of the program's own."""
        self.notes |= notes

    def put_quota(self, quota: Quota) -> None:
        """Set what the collection may hold; held against the edits that follow."""
        self.quota = quota

    def change_indexes(self, add: Mapping[str, str], drop: Sequence[str]) -> None:
        """Drop and declare payload indexes.

        Raises:
            InvalidInput: one is malformed, is to be dropped and not there, or has another kind.
        """
        before = self.kinds
        if before is None:
            declared = self._reader.declared_indexes()
            before = {} if declared is None else declared.kinds
        self.kinds = redeclared(before, add, drop)

    def put_payloads(self, changed: list[tuple[bytes, int, bytes]]) -> None:
        """Replace the payloads of items: (id, number, payload)."""
        self._refuse_over(0, sum(len(payload) for _, _, payload in changed))
        self.items |= {key: (number, payload) for key, number, payload in changed}

    def _refuse_over(self, indexed: int, more: int) -> None:
        """Refuse an edit after which the collection would hold more than it may. more: bytes that it brings."""
        (self.quota or quota_of(self._reader)).refuse(self.count + indexed, indexed, more, lambda: self._used_bytes() + self._more)
        self._more += more

    def owners(self) -> list[tuple[int, list[bytes]]]:
        """The ids of all numbers that gain or lose theirs."""
        gone: dict[int, list[bytes]] = {number: [] for number in self.superseded}
        return sorted((gone | {item[0]: [key] for key, item in self.items.items() if item is not None}).items())

    @property
    def next_row(self) -> int:
        """A number beyond those of all items that there ever were, as the edits so far leave them."""
        return self.next

    def add(self, prepared: Prepared, mode: str, versions: Versions = None, numbers: Sequence[int] | None = None) -> AddResult:
        """Insert, update or upsert a batch. numbers: of the items, where they are new or change, as `terms.following` takes them.

        Raises:
            ItemConflict: insert of an id that is there, or update of one that is not. VersionConflict: see `Collection.add`.
            InvalidInput: code "over_limit", the collection would hold more than it may.
        """
        known = self.known(prepared.ids)
        refuse_versions(prepared.ids, known, versions)
        refuse_conflicts(prepared.ids, known, mode)
        same = self._same(prepared, known)
        fresh = [i for i, one in enumerate(same) if not one]
        more = sum(len(rows.record(i)) for rows in prepared.rows.values() for i in fresh)
        self._refuse_over(sum(old is None for old in known), more + sum(map(len, prepared.payloads)))
        wanted = following(numbers, self.next)
        given = list(range(self.next, self.next + len(fresh))) if wanted is None else [wanted[i] for i in fresh]
        number_of = dict(zip(fresh, given, strict=True))
        indexed = updated = 0
        for i, (key, payload, old) in enumerate(zip(prepared.ids, prepared.payloads, known, strict=True)):
            number = number_of.get(i, -1 if old is None else old[0])
            if old == (number, payload):
                continue
            indexed, updated = indexed + (old is None), updated + (old is not None)
            self.items[key] = number, payload
            if old is not None and old[0] != number:
                self.superseded.add(old[0])
        if fresh:
            self.new.append((given, prepared, fresh))
            self.next = given[-1] + 1
        self.count += indexed
        return AddResult(indexed, updated, len(known) - indexed - updated, self.count)

    def delete(self, ids: list[bytes], matches: Predicate | None = None) -> DeleteResult:
        """Remove items; ids that are not there are passed over, and those whose payload does not match now."""
        deleted = 0
        for key, old in zip(ids, self.known(ids), strict=True):
            if old is not None and (matches is None or matches(old[1])):
                self.items[key] = None
                self.superseded.add(old[0])
                deleted += 1
        self.count -= deleted
        return DeleteResult(deleted, self.count)

    def _same(self, prepared: Prepared, known: list[tuple[int, bytes] | None]) -> list[bool]:
        """Whether each item has just these vectors already. What this commit adds itself counts as new."""
        same = [old is not None and old[0] < self.first for old in known]
        for name, field in self._fields.items() if any(same) else ():
            with field._reading() as (_, view):
                for i, old in enumerate(known):
                    if same[i] and old is not None:
                        same[i] = _is_stored(view, old[0], prepared.rows[name].record(i))
        return same


def _is_stored(view: View, number: int, record: bytes) -> bool:
    """Whether a row has just this record."""
    try:
        _, address, room = view.find(number)
    except CorruptData:
        # It is replaced by what came.
        return False
    return len(record) <= room and ctypes.string_at(address, len(record)) == record
