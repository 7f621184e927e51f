"""The payload indexes of one collection: declared, built and kept on disk in the background, brought up to date by whoever asks.

Built from all payloads of one snapshot when there is none, or one lacks a declared field; one process does that at a time, elected by
a file lock, and the others wait for its file. A query brings the index forward to its own snapshot by the log of what commits touched
(`storage.changes`); where that is long, or missing, it reads payloads instead and leaves the index to the background. The file is
written anew when one item in eight was touched since, and the log before it is removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kinbin.errors import CollectionNotFound, CorruptData, InvalidInput, StorageError, suggestion
from kinbin.indexes.file import load, save, saved_sequence
from kinbin.indexes.index import Index
from kinbin.indexes.kinds import INDEX_KINDS
from kinbin.indexes.segment import Entry
from kinbin.limits import limit
from kinbin.parameters import arrived, field_name
from kinbin.storage.changes import Declared
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader, Writer
from kinbin.upkeep.background import IndexThread
from kinbin.upkeep.election import elected

__all__ = ["FILE", "Indexing", "checked_kinds", "declare", "put_declared", "redeclared"]

FILE = "indexes.bin"
"""Of a collection, beside its store."""
_VERSIONS = 3
"""Of the index that are kept: snapshots that began before the last commit are still searched."""
_LEAST_BACKLOG, _BACKLOG_SHARE = 2_048, 8
"""A query brings the index forward over so many touched items, or one in so many of all; more are left to the background."""
_LOOKS = 20
"""Files that `check` looks at while others put newer ones in their place."""
_LEAST_UNSAVED, _UNSAVED_SHARE = 4_096, 8
"""Touched items, or one in so many of all, after which the file is written anew."""

log = logging.getLogger("kinbin.upkeep")


def checked_kinds(indexes: object) -> dict[str, str]:
    """Declarations, checked: {"year": "number"}.

    Raises:
        InvalidInput: codes "bad_parameter", "over_limit".
    """
    if not isinstance(indexes, Mapping):
        text = f'indexes are a mapping of fields to kinds, as {{"year": "number"}}, not {arrived(indexes)}'
        raise InvalidInput.of("bad_parameter", text, field="indexes")
    for name, kind in indexes.items():
        field_name(name, "indexes")
        if not isinstance(kind, str) or kind not in INDEX_KINDS:
            text = f"the kind of an index is one of {', '.join(INDEX_KINDS)}{suggestion(kind, INDEX_KINDS)}"
            raise InvalidInput.of("bad_parameter", text, field="indexes")
    if len(indexes) > limit("indexes"):
        raise InvalidInput.of("over_limit", f"a collection has at most {limit('indexes')} indexes", field="indexes", limit="indexes")
    return dict(indexes)


def declare(writer: Writer, add: Mapping[str, str], drop: Sequence[str], sequence: int) -> dict[str, str]:
    """Drop and declare indexes inside of a transaction; returns those that are declared then. sequence: of the last commit in it.

    Raises:
        InvalidInput: see `Indexing.change`. Nothing is changed then.
    """
    known = writer.declared_indexes()
    after = redeclared({} if known is None else known.kinds, add, drop)
    put_declared(writer, after, sequence)
    return after


def redeclared(before: Mapping[str, str], add: Mapping[str, str], drop: Sequence[str]) -> dict[str, str]:
    """What is declared after a change of `before`.

    Raises:
        InvalidInput: see `Indexing.change`.
    """
    wanted = checked_kinds(add)
    for field in drop:
        if field not in before:
            there = f"indexed are {', '.join(before)}" if before else "no field is indexed"
            text = f"drop names a field that has an index ({there}){suggestion(field, before)}"
            raise InvalidInput.of("bad_parameter", text, field="drop")
    kept = {field: kind for field, kind in before.items() if field not in drop}
    for field, kind in wanted.items():
        if kept.get(field, kind) != kind:
            text = f"{field!r} is indexed as {kept[field]}; drop that index first"
            raise InvalidInput.of("bad_parameter", text, field="indexes")
    return checked_kinds({**kept, **wanted})


def put_declared(writer: Writer, kinds: Mapping[str, str], sequence: int) -> None:
    """Declare these indexes and no others; what is so already stays untouched. sequence: of the last commit in the transaction."""
    known = writer.declared_indexes()
    if kinds == ({} if known is None else known.kinds):
        return
    writer.put_declared_indexes(Declared.of(kinds))
    if not kinds:
        writer.trim_changes(sequence + 1)


class Indexing:
    """See the head of this file. Methods may be called from any thread."""

    def __init__(self, name: str, store: Store) -> None:
        self._name = name
        self._store = store
        self._lock = threading.Lock()
        self._versions: list[Index] = []
        self._stop = threading.Event()
        self._done = 0
        """Items that the building at hand has read."""
        self._thread = IndexThread(name, self._step)

    @property
    def _file(self) -> Path:
        return self._store.path / FILE

    @property
    def _lock_file(self) -> Path:
        return self._store.path / "indexes.lock"

    # -- declaring

    def change(self, add: Mapping[str, str], drop: Sequence[str] = ()) -> None:
        """Drop and declare indexes, in one transaction; what is declared already stays as it is.

        Raises:
            InvalidInput: one is malformed, is to be dropped and not there, or has another kind. Nothing is changed then.
        """
        if checked_kinds(add) or drop:
            with self._store.write() as writer:
                declare(writer, add, drop, writer.state().sequence)
            self.wake()

    def kinds(self) -> dict[str, str]:
        """The declared indexes, by field."""
        with self._store.read() as reader:
            return _declared(reader)

    # -- asking

    def at(self, reader: Reader) -> tuple[Index, dict[str, str]] | None:
        """The index at a snapshot, and what is declared; None: there is none, or it is too far behind. Cost: 2 µs without commits."""
        kinds = _declared(reader)
        if not kinds:
            return None
        sequence = reader.state().sequence
        with self._lock:
            for version in reversed(self._versions):
                if version.sequence == sequence:
                    self._wake_unless(version.covers(kinds))
                    return version, kinds
            newest = self._versions[-1] if self._versions else None
            index = None if newest is None else self._advanced(newest, reader, patient=False)
            if index is not None:
                self._keep(index)
        self._wake_unless(index is not None and index.covers(kinds))
        return None if index is None else (index, kinds)

    def _wake_unless(self, well: bool) -> None:
        if not well:
            self.wake()

    def _advanced(self, index: Index, reader: Reader, *, patient: bool) -> Index | None:
        """An index brought forward to a snapshot; None if its log is missing, or (not patient) long."""
        sequence = reader.state().sequence
        try:
            if index.sequence > sequence or reader.change_mark(index.sequence) != index.mark:
                return None
            if not patient and reader.changed_items(index.sequence) > max(_LEAST_BACKLOG, index.items // _BACKLOG_SHARE):
                return None
            entries = list(reader.changes(index.sequence))
            if [number for number, _ in entries] != list(range(index.sequence + 1, sequence + 1)):
                return None
            return index.advanced(reader, entries)
        except CorruptData as error:
            log.warning("%s: the payload indexes are built anew: %s", self._name, error)
            return None

    def _keep(self, index: Index) -> None:
        """Let an index be asked; the lock is held."""
        if not self._versions or self._versions[-1].sequence <= index.sequence:
            self._versions = [*self._versions[-(_VERSIONS - 1) :], index]

    # -- building

    def wake(self) -> None:
        """Look in the background whether there is something to do."""
        self._thread.wake()

    def _step(self) -> bool:
        """Build, load, bring forward or save. Returns whether there is nothing left to do."""
        with self._store.read() as reader:
            kinds = _declared(reader)
            index = self._usable(reader, kinds) if kinds else None
        if not kinds:
            with self._lock:
                self._versions = []
            self._file.unlink(missing_ok=True)
            return True
        if index is None:
            return self._build(kinds)
        self._adopt(index)
        return self._save_if_due(index) if self._is_unsaved(index) else True

    def _usable(self, reader: Reader, kinds: dict[str, str]) -> Index | None:
        """The newest index, or the one on disk, brought forward; None: it has to be built."""
        with self._lock:
            newest = self._versions[-1] if self._versions else None
        for known in (newest, None):
            index = load(self._file) if known is None else known
            if index is not None and index.covers(kinds):
                index = self._advanced(index, reader, patient=True)
                if index is not None:
                    return index.compacted() if index.scattered else index
        return None

    def _adopt(self, index: Index) -> None:
        with self._lock:
            if self._versions and self._versions[-1].sequence == index.sequence:
                self._versions[-1] = index
            else:
                self._keep(index)

    def _build(self, kinds: dict[str, str]) -> bool:
        """Index all payloads, if this process is elected. Returns whether it was."""
        with elected(self._lock_file, wait=False) as mine:
            if not mine:
                return False
            began = time.monotonic()
            with self._store.read() as reader:
                # What another process has built meanwhile is taken.
                index = self._usable(reader, kinds)
                if index is None:
                    index = Index.built(reader, kinds, self._entries(reader))
                    with self._lock:
                        # What was there has other fields, or cannot be brought forward.
                        self._versions = []
            self._adopt(index)
            self._save(index)
            log.info("%s: payload indexes of %d items in %.2f s", self._name, index.items, time.monotonic() - began)
        return True

    def _entries(self, reader: Reader) -> Iterator[Entry]:
        """All items of a snapshot, decoded."""
        try:
            for self._done, (key, row, payload) in enumerate(reader.all_items(), 1):
                if self._done % 1_024 == 0 and self._stop.is_set():
                    raise self._store.over()
                yield key, row, orjson.loads(payload) if payload else {}
        finally:
            self._done = 0

    def _is_unsaved(self, index: Index) -> bool:
        """Whether the file is missing, or so many items were touched since that it should be written anew."""
        saved = saved_sequence(self._file)
        if saved is None or saved > index.sequence:
            return True
        with self._store.read() as reader:
            return reader.changed_items(saved) > max(_LEAST_UNSAVED, index.items // _UNSAVED_SHARE)

    def _save_if_due(self, index: Index) -> bool:
        with elected(self._lock_file, wait=False) as mine:
            if mine and self._is_unsaved(index):
                self._save(index)
            return mine

    def _save(self, index: Index) -> None:
        """Write the file, and remove the log that it makes needless."""
        whole = index if len(index.parts) == 1 and not index.last and index.parts[0][1].all() else index.compacted()
        try:
            save(whole, self._file)
        except StorageError:
            if self._file.parent.exists():
                raise
            # Dropped meanwhile: nobody asks for it any more.
            raise CollectionNotFound("the collection was removed") from None
        if whole is not index:
            self._adopt_compacted(whole)
        with self._store.write() as writer:
            writer.trim_changes(whole.sequence)

    def _adopt_compacted(self, index: Index) -> None:
        """Take a compacted index if nobody has gone past it."""
        with self._lock:
            if self._versions and self._versions[-1].sequence == index.sequence:
                self._versions[-1] = index

    # -- telling

    def problems(self) -> list[str]:
        """What is wrong with the file and the log, as sentences: both are derived, and are built anew. Cost: as of building.

        The file is read before a snapshot is opened, so that it is of no later commit. Where others put a newer one in its place
        meanwhile, and cut the log behind it, the newer one is looked at.
        """
        before: tuple[int, bytes] | None = None
        for _ in range(_LOOKS):
            there = self._file.exists()
            index = load(self._file)
            with self._store.read() as reader:
                kinds = _declared(reader)
                if not kinds or not there:
                    return []
                if index is None:
                    return [f"the payload indexes on disk ({FILE}) are damaged: nothing is answered from them, they are built anew"]
                if not index.covers(kinds):
                    return []
                now = self._advanced(index, reader, patient=True)
                if now is not None and now.compacted().equals(Index.built(reader, now.kinds, self._entries(reader))):
                    return []
            if now is not None:
                return ["the payload indexes are not those of the payloads: drop them and add them again"]
            if before == (index.sequence, index.mark):
                break
            before = index.sequence, index.mark
        return ["the log of the payload indexes does not continue what is on disk: they are built anew"]

    def describe(self) -> dict[str, Any] | None:
        """What `stats` tells; None: no index is declared."""
        with self._store.read() as reader:
            kinds = _declared(reader)
            items, sequence = reader.state().items, reader.state().sequence
            with self._lock:
                index = self._versions[-1] if self._versions else None
            behind = 0 if index is None or index.sequence >= sequence else reader.changed_items(index.sequence)
        if not kinds:
            return None
        fields = {name: {"kind": kind, "ready": index is not None and index.kinds.get(name) == kind} for name, kind in kinds.items()}
        ready = all(one["ready"] for one in fields.values())
        return {
            "fields": fields, "ready": ready, "progress": 1.0 if ready else round(min(1.0, self._done / max(1, items)), 3),
            "behind": behind, "bytes": self._file.stat().st_size if self._file.exists() else 0,
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        """What failed in the background of this process."""
        return self._thread.report()

    def wait(self, seconds: float = 600.0) -> None:
        """Wait until all declared indexes are built here.

        Raises:
            StorageError: they are not within the time.
        """
        deadline = time.monotonic() + seconds
        self.wake()
        while (told := self.describe()) is not None and not told["ready"]:
            if time.monotonic() > deadline:
                raise StorageError(f"the payload indexes were not built within {seconds:g} s: {self.report()['last_failure']}")
            self._stop.wait(0.01)
            if self._stop.is_set():
                raise self._store.over()

    def close(self) -> None:
        """Stop building."""
        self._stop.set()
        self._thread.stop()


def _declared(reader: Reader) -> dict[str, str]:
    """What is declared; nothing where that cannot be read: then payloads are."""
    try:
        declared = reader.declared_indexes()
    except CorruptData:
        return {}
    return {} if declared is None else declared.kinds
