"""Applying: the entries of a shard's log, in order, into the shard's local collection, many in one transaction.

    entries ──▶ room (bytes that wait) ──▶ decode, validate, pack ──▶ one transaction: edits, verdicts, the last sequence

One thread for each replica. The note `applied` is written by the transaction of the edits, so each entry counts once, whatever ends the
process and however often it is read again. What is decided depends on the entries before and on nothing else: no clock, no size of files,
no grouping. Entries that cannot be decoded here, being of a later version, stop the replica; malformed ones are refused by all alike.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import kinbin
from kinbin_cluster.message import BadMessage, Edit, TooNew, decoded
from kinbin_cluster.progress import Progress
from kinbin_cluster.verdicts import NOTES, Verdict, Verdicts, told

__all__ = ["APPLIED", "Applier", "Entry", "applied_of", "apply", "stored_of"]

APPLIED = b"applied"
"""The note that holds the last applied sequence, in 8 bytes."""
STORED = b"stored"
"""The note that holds when the servers stored that entry, a float64: it tells it from another one of its sequence."""
TERM = b"term"
"""The note that holds the latest term by which settings were changed, in 8 bytes."""
MOST_ENTRIES, GROUP_BYTES = 64, 4 * 1_048_576
"""Of a transaction: entries, and bytes of their messages beyond which no other one is added."""
WAITING_BYTES = 16 * 1_048_576
"""Of messages that wait to be applied: beyond it reading pauses."""
SAME_TIME = 3_600.0
"""Entries are applied together if they were stored at most so many seconds apart: what has expired is looked for in what was there
before a transaction."""
RETRY_SECONDS = 0.5

log = logging.getLogger("kinbin.cluster.applying")


class Entry(Protocol):
    """An entry of the log, as far as it is needed here."""

    @property
    def sequence(self) -> int:
        """Of its last message."""

    @property
    def time(self) -> float:
        """The servers' clock when it was stored."""

    @property
    def parts(self) -> list[bytes]:
        """What its messages hold."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """An entry that was decoded; or why it cannot be."""

    sequence: int
    edit: Edit | BadMessage
    time: float


def applied_of(collection: Any) -> int:
    """The last sequence whose entry a collection, or a pinned one, has applied; 0: none."""
    note = collection.note(APPLIED)
    return 0 if note is None else int.from_bytes(note, "big")


def stored_of(collection: Any) -> float | None:
    """When the servers stored the last entry that a collection has applied; None: not known, as of versions that did not note it."""
    note = collection.note(STORED)
    return None if note is None else float(struct.unpack(">d", note)[0])


def apply(
    collection: kinbin.Collection, taken: Sequence[tuple[int, Edit | BadMessage]], verdicts: Verdicts, stored: float | None = None
) -> list[tuple[int, Verdict]]:
    """Apply entries in one transaction: their edits, their verdicts, and the sequence of the last, with the time when that was stored.

    Raises:
        kinbin.StorageError: nothing was done; StorageBusy: it may have been, `applied_of` tells.
    """
    group = collection.together()
    term, wrong = _terms(collection, [edit for _, edit in taken])
    for place, (_, edit) in enumerate(taken):
        if place in wrong or isinstance(edit, BadMessage):
            group.nothing()
        else:
            _APPEND[edit.op](group, edit)
    made: list[tuple[int, Verdict]] = []
    noted: dict[bytes, bytes | None] = {}

    def notes(outcomes: list[Any]) -> dict[bytes, bytes | None]:
        made[:] = [
            (sequence, told(wrong.get(place, edit if isinstance(edit, BadMessage) else outcome)))
            for place, ((sequence, edit), outcome) in enumerate(zip(taken, outcomes, strict=True))
        ]
        noted.update(verdicts.noting(made))
        of_term = {} if term is None else {TERM: term.to_bytes(8, "big")}
        return noted | of_term | {APPLIED: taken[-1][0].to_bytes(8, "big"), STORED: None if stored is None else struct.pack(">d", stored)}

    group.commit(notes)
    verdicts.noted(made, noted)
    return made


def _terms(collection: kinbin.Collection, edits: Sequence[Edit | BadMessage]) -> tuple[int | None, dict[int, kinbin.KinbinError]]:
    """The latest term of what changes settings, None if nothing here does; by place what is of an earlier term than was seen before it."""
    latest: int | None = None
    late: dict[int, kinbin.KinbinError] = {}
    for place, edit in enumerate(edits):
        term = None if isinstance(edit, BadMessage) else edit.more.get("term")
        if not isinstance(term, int) or not 0 <= term < 1 << 63:
            continue
        if latest is None:
            note = collection.note(TERM)
            latest = 0 if note is None else int.from_bytes(note, "big")
        if term < latest:
            text = "another request changed settings meanwhile: look at them, and send it again; nothing was written"
            late[place] = kinbin.StorageBusy(text)
        latest = max(latest, term)
    return latest, late


def _add(group: kinbin.Together, edit: Edit) -> None:
    asked: dict[str, Any] = {"on_error": edit.on_error, "if_versions": edit.versions, "idempotency_key": edit.idempotency_key}
    named = {name: value for name, value in asked.items() if value is not None}
    payloads = [b""] * len(edit.ids) if edit.payloads is None else edit.payloads
    group.add(edit.ids, edit.rows, payloads, edit.mode, now=edit.now, positions=edit.positions, first=edit.first, **named)


def _payloads(mode: str) -> Callable[[kinbin.Together, Edit], object]:
    return lambda group, edit: group.write_payloads(edit.ids, edit.payloads or [b""] * len(edit.ids), mode, if_versions=edit.versions)


_APPEND: dict[str, Callable[[kinbin.Together, Edit], object]] = {
    "add": _add,
    "delete": lambda group, edit: group.delete(edit.ids, if_versions=edit.versions),
    "delete_by_filter": lambda group, edit: group.delete_matching(edit.filter),
    "set_payload": _payloads("replace"),
    "patch_payload": _payloads("merge"),
    "indexes": lambda group, edit: group.change_indexes(edit.more.get("add", {}), edit.more.get("drop", ())),
    "limits": lambda group, edit: group.set_limits(items=edit.more.get("items")),
    "compact": lambda group, _: group.nothing(),
    "mark": lambda group, _: group.nothing(),
}


class Applier:
    """The thread that applies one shard's entries. Made on the event loop of the service; `feed` and `stop` are awaited there."""

    def __init__(
        self, collection: kinbin.Collection, loop: asyncio.AbstractEventLoop, reached: Callable[[Edit, int], object] | None = None
    ) -> None:
        """reached: called in the thread with each mark and compaction right after it was applied, before anything later is."""
        self._collection = collection
        self._loop = loop
        self._reached = reached
        self.verdicts = Verdicts(collection.notes(NOTES))
        self.progress = Progress(applied_of(collection), loop)
        self.items = collection.count()
        self.problem: str | None = None
        """Why it does not go on just now."""
        self.failure: Exception | None = None
        """What ended it for good."""
        self.ended = asyncio.Event()
        self.entries = 0
        self.seconds = 0.0
        """What was applied so far, and what that took."""
        self._grouped = not isinstance(collection, kinbin.FieldsCollection)
        """With fields the same content twice in one transaction is decided otherwise than in two."""
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._some = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"kinbin-apply-{collection.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def feed(self, entry: Entry) -> None:
        """Hand over the next entry; waits while too many bytes wait to be applied."""
        await self._room.wait()
        with self._some:
            self._waiting.append(entry)
            self._bytes += _size(entry)
            if self._bytes > WAITING_BYTES:
                self._room.clear()
            self._some.notify()

    async def stop(self) -> None:
        """End the thread after the transaction at hand."""
        with self._some:
            self._stopped = True
            self._some.notify()
        self.progress.give_up()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    # ------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        try:
            while (group := self._group()) is not None:
                self._apply(group)
        except (kinbin.KinbinError, BadMessage) as error:
            # Whoever follows the log tells it, once.
            self.failure = error
        except Exception as error:
            log.exception("%s: applying has ended", self._collection.name)
            self.failure = error
        finally:
            self._tell(self.ended.set)

    def _tell(self, what: Callable[[], object]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)

    def _group(self) -> list[_Taken] | None:
        """The entries of the next transaction; None: it is time to end."""
        with self._some:
            while not self._waiting and not self._stopped:
                self._some.wait()
            if self._stopped:
                return None
        taken: list[_Taken] = []
        size = 0
        while len(taken) < MOST_ENTRIES and size < GROUP_BYTES:
            with self._some:
                entry = self._waiting[0] if self._waiting else None
            if entry is None:
                break
            try:
                one = _Taken(entry.sequence, _decoded(entry), entry.time)
            except BadMessage:
                # What comes before it is applied first.
                if taken:
                    break
                raise
            if taken and not self._together(taken[0], one):
                break
            taken.append(one)
            size += _size(entry)
            self._pop(_size(entry))
            if _ends(one):
                break
        return taken

    def _pop(self, size: int) -> None:
        with self._some:
            self._waiting.popleft()
            self._bytes -= size
            if self._bytes <= WAITING_BYTES and not self._room.is_set():
                self._tell(self._room.set)

    def _together(self, first: _Taken, other: _Taken) -> bool:
        if not self._grouped:
            return False
        if isinstance(first.edit, BadMessage) or isinstance(other.edit, BadMessage):
            return True
        return other.edit.op != "indexes" and abs(first.edit.now - other.edit.now) <= SAME_TIME

    def _apply(self, group: list[_Taken]) -> None:
        """Apply a group, again and again while the disk is full or others keep the writer."""
        while group and not self._stopped:
            self.progress.begin(group[-1].sequence)
            started = time.perf_counter()
            try:
                made = apply(self._collection, [(one.sequence, one.edit) for one in group], self.verdicts, group[-1].time)
            except (kinbin.StorageFull, kinbin.StorageBusy) as error:
                self.problem = str(error)
                log.warning("%s: entries are not applied yet: %s", self._collection.name, error)
                time.sleep(RETRY_SECONDS)
                group = self._left(group)
            else:
                self.entries += len(group)
                self.seconds += time.perf_counter() - started
                self._applied(group, made)
                return

    def _left(self, group: list[_Taken]) -> list[_Taken]:
        """What is still to do of a group whose transaction failed, and may be on disk all the same."""
        if applied_of(self._collection) < group[-1].sequence:
            return group
        self.verdicts = Verdicts(self._collection.notes(NOTES))
        self._applied(group, [])
        return []

    def _applied(self, group: list[_Taken], made: list[tuple[int, Verdict]]) -> None:
        self.problem = None
        counts = [verdict["done"]["count"] for _, verdict in made if "count" in verdict.get("done", {})]
        self.items = counts[-1] if counts else self.items if made else self._collection.count()
        self.progress.end(group[-1].sequence)
        last = group[-1]
        if self._reached is not None and isinstance(last.edit, Edit) and last.edit.op in {"mark", "compact"}:
            self._reached(last.edit, last.sequence)


def _decoded(entry: Entry) -> Edit | BadMessage:
    try:
        # When it was stored is one clock for all gateways, and the same for all replicas.
        return replace(decoded(entry.parts), now=entry.time)
    except TooNew:
        raise
    except BadMessage as error:
        return error


def _ends(taken: _Taken) -> bool:
    """Whether nothing may follow an entry in its transaction."""
    return isinstance(taken.edit, Edit) and taken.edit.op in {"mark", "compact", "indexes"}


def _size(entry: Entry) -> int:
    return sum(map(len, entry.parts))
