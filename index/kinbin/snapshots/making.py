"""Making a snapshot of stores that are written to meanwhile, proving one, and making a collection's files of it."""

from __future__ import annotations

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from kinbin.errors import Closed, CorruptData, FormatMismatch, StorageBusy
from kinbin.hashing import HASH_VERSION
from kinbin.records import SnapshotInfo
from kinbin.snapshots.file import NAMELESS, VERSION, Head, SnapshotReader, SnapshotWriter
from kinbin.storage.copying import Record, Tally, make_store, records
from kinbin.storage.creation import FIELDS
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.format import State
from kinbin.storage.headers import CONFIG, Configuration, FieldNames, Identity
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader

__all__ = ["MOST_GROWTH", "Source", "proved", "restored", "write_snapshot"]

MOST_GROWTH = 1 << 30
"""Bytes that the files of a collection may grow by while a snapshot is made, or as many as they had, where that is more."""
_PAUSE = 0.0005
"""Seconds after each block: other threads of the process wait for half a millisecond at most, not for the whole copy."""

Source = tuple[str, Store, Reader]
"""A store at the moment of a snapshot: the field whose it is ("": the items'), the store, a reader."""


def draft_name(path: Path) -> Path:
    """The name of a file that is being made."""
    return path.with_name(f".new-{path.name}-{secrets.token_hex(8)}")


def write_snapshot(
    name: str, sources: Sequence[Source], path: Path, cancel: threading.Event | None = None, id: str | None = None
) -> SnapshotInfo:
    """Write the snapshot of a collection to a new file. The readers are of one moment, and stay open until it is done.

    id: what the file says that it is among those that the database keeps; None: it is none of them.

    Raises:
        InvalidInput: there is such a file. CorruptData: something is damaged: no snapshot is kept. StorageBusy: the files grew too
        much meanwhile. StorageFull, StorageError. Closed: cancel was set.

    Cost: one thread, which pauses after each 128 records.
    """
    with SnapshotWriter(path, draft_name(path)) as writer:
        return _written(name, sources, writer, cancel, id)


def _written(name: str, sources: Sequence[Source], writer: SnapshotWriter, cancel: threading.Event | None, id: str | None) -> SnapshotInfo:
    items = sources[0][2].state()
    fields = [field for field, _, _ in sources[1:]] or None
    created = datetime.now(UTC).isoformat(timespec="seconds")
    writer.head(Head(name, created, items.items, fields, HASH_VERSION, id, NAMELESS if id is None else VERSION))
    before = _size(sources)
    for field, _, reader in sources:
        writer.store(field)
        for record in records(reader, Tally(reader.salt)):
            if writer.put(record):
                _let_others_work(sources, before, cancel)
    digest = writer.finish()
    return SnapshotInfo(name, id, created, items.items, writer.bytes, digest, max(0, _size(sources) - before))


def _let_others_work(sources: Sequence[Source], before: int, cancel: threading.Event | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Closed("the snapshot was given up")
    grown = _size(sources) - before
    if grown > max(MOST_GROWTH, before):
        raise StorageBusy(
            f"the files grew by {grown:,} bytes while the snapshot was made, as pages that it still reads cannot be used again: "
            "it was given up; make it when less is written"
        )
    time.sleep(_PAUSE)


def _size(sources: Sequence[Source]) -> int:
    return sum(store.size_on_disk() for _, store, _ in sources)


@contextmanager
def _reading(path: Path) -> Iterator[SnapshotReader]:
    with translated(), path.open("rb") as file:
        reader = SnapshotReader(file, path.stat().st_size)
        if reader.head.hash_version != HASH_VERSION:
            told = f"the snapshot has hash version {reader.head.hash_version}, this Kinbin computes version {HASH_VERSION}"
            raise FormatMismatch(told)
        yield reader


def proved(path: Path, judge: Callable[[Configuration], object] | None = None) -> SnapshotInfo:
    """Read a snapshot to its end, and prove every record of it. Returns what it says of itself; its id is None where it says none.

    judge: raises what is against the configuration of one of its stores.

    Raises:
        CorruptData: it is damaged. FormatMismatch: it is none, or of hashes or a format that this Kinbin does not know.

    Cost: as much as making it.
    """
    with _reading(path) as reader:
        for field, given in reader.stores():
            proof = _Proof(reader.head, field)
            for _ in proof.passing(given):
                pass
            proof.whole(judge)
        assert reader.sha256 is not None
        head = reader.head
        return SnapshotInfo(head.collection, head.id, head.created, head.items, reader.bytes, reader.sha256)


class _Proof:
    """Of one store of a snapshot: its records, as they pass, and at the end that it is whole, and what the head tells."""

    def __init__(self, head: Head, field: str) -> None:
        self._head, self._field = head, field
        self._tally = Tally()

    def passing(self, given: Iterator[Record]) -> Iterator[Record]:
        """The same records, each proved."""
        for record in given:
            self._tally.pass_on(record)
            yield record

    def whole(self, judge: Callable[[Configuration], object] | None = None) -> State:
        """The state of the store, once all records have passed.

        Raises:
            CorruptData: some are missing, or they are another collection's.
        """
        state, head = self._tally.finish(), self._head
        config, names = self._tally.json(CONFIG), None
        if not self._field and head.fields is not None:
            names = list(FieldNames.decode(config).names)
        else:
            told = Configuration.decode(config)
            if judge is not None:
                judge(told)
        if state.dropped or (not self._field and (names != head.fields or state.items != head.items)):
            raise CorruptData("the snapshot is damaged: its head tells of another collection", "take another one")
        return state


@contextmanager
def restored(path: Path, target: Path, cancel: threading.Event | None = None) -> Iterator[Path]:
    """The files of a new collection, made of a snapshot that was `proved`, under another name than `target`; for the block.

    Raises:
        CorruptData, FormatMismatch: as `proved`. StorageFull, StorageError. Closed: cancel was set.
    """
    draft, identity = draft_name(target), Identity.new(target.name)
    try:
        with _reading(path) as reader:
            for field, given in reader.stores():
                proof = _Proof(reader.head, field)
                whose = identity.field(field) if field else identity
                make_store(draft / FIELDS / field if field else draft, _until(cancel, proof.passing(given)), whose, proof.whole)
        with translated():
            if (draft / FIELDS).exists():
                sync_directory(draft / FIELDS)
            sync_directory(draft)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _until(cancel: threading.Event | None, given: Iterator[Record]) -> Iterator[Record]:
    for record in given:
        if cancel is not None and cancel.is_set():
            raise Closed("restoring was given up")
        yield record
