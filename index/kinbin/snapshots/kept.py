"""The snapshots that a database keeps: DIR/COLLECTION/ID.kinbin, and beside each what is told of it without reading it.

A snapshot is there once its file has its name; what a crash leaves before that is hidden, and removed when the next one is made.
Those of a collection that is dropped stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from kinbin.errors import CorruptData, KinbinError, SnapshotNotFound
from kinbin.parameters import whole
from kinbin.records import SnapshotInfo, SnapshotReport
from kinbin.rows.identity import check_name
from kinbin.snapshots.file import SnapshotReader
from kinbin.snapshots.making import proved
from kinbin.storage.directories import sync_directory, sync_path
from kinbin.storage.errors import translated

__all__ = ["Snapshots", "foreign_to"]

_ID = re.compile(r"\d{8}T\d{9}Z-[0-9a-f]{6}", re.ASCII)
_FILE, _TOLD = ".kinbin", ".json"
_CHECK = "crc32"
"""Of all else that a file tells of a snapshot."""
_ABANDONED_SECONDS = 60.0
"""A draft that nobody holds is removed when it is so old: between its making and its lock it is nobody's as well."""

log = logging.getLogger("kinbin.snapshots")


class Snapshots:
    """The kept snapshots of one database, `Database.snapshots`. Thread-safe; other processes may make and delete some meanwhile."""

    def __init__(self, folder: Path, opened: Callable[[str], Any], named: Callable[[str], str]) -> None:
        """folder: need not be there. opened: gives a collection by its name. named: the collection that a name, or alias, leads to."""
        self.folder = folder
        self._opened = opened
        self._named = named

    def create(self, name: str, keep: int | None = None, *, cancel: threading.Event | None = None) -> SnapshotInfo:
        """Make a snapshot of a collection, while others read and write it: see `Collection.snapshot`.

        keep: so many of this collection stay, the newest; older ones are deleted once this one is whole. None: all stay.

        Raises:
            CollectionNotFound. CorruptData: something is damaged, and no snapshot is kept. StorageFull, StorageBusy, Closed.
        """
        if keep is not None:
            whole("keep", keep)
        collection = self._opened(name)
        name = collection.name
        folder = self.folder / name
        with translated():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            sync_path(folder)
        _remove_abandoned(folder)
        now = datetime.now(UTC)
        last = self.newest(name)
        if last is not None and last >= now - timedelta(milliseconds=1):
            # Ids tell the order, by milliseconds.
            now = last + timedelta(milliseconds=1)
        number = f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}Z-{secrets.token_hex(3)}"
        with collection.pinned() as pinned:
            made: SnapshotInfo = pinned.snapshot(folder / f"{number}{_FILE}", cancel=cancel, id=number)
        self._tell(made)
        if keep is not None:
            # One that is damaged is none of those that are kept, and is left for whoever looks at it.
            for old in [one for one in self.list(name) if not one.problem][:-keep]:
                with contextlib.suppress(SnapshotNotFound):
                    self.delete(name, str(old.id))
        return made

    def list(self, name: str) -> list[SnapshotInfo]:
        """The snapshots of a collection, which need not be there any more, the oldest first; damaged ones have a `problem`."""
        told = [self._told(place, number) for number, place in sorted(self._found(name))]
        return [one for one in told if one is not None]

    def newest(self, name: str) -> datetime | None:
        """When the newest snapshot of a collection was begun, as its id says; None: there is none. Reads no file."""
        found = [number for number, _ in self._found(name)]
        return datetime.strptime(max(found).partition("Z")[0] + "000", "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC) if found else None

    def info(self, name: str, id: str) -> SnapshotInfo:
        """What is told of one snapshot.

        Raises:
            SnapshotNotFound: there is none.
        """
        told = self._told(self.path(name, id).parent.name, id)
        if told is None:
            raise _not_found(name)
        return told

    def path(self, name: str, id: str) -> Path:
        """The file of one snapshot.

        Raises:
            SnapshotNotFound.
        """
        if isinstance(id, str) and _ID.fullmatch(id):
            for place in self._places(name):
                path = self.folder / place / f"{id}{_FILE}"
                if path.is_file():
                    return path
        raise _not_found(name)

    def delete(self, name: str, id: str) -> None:
        """Remove one snapshot.

        Raises:
            SnapshotNotFound.
        """
        path = self.path(name, id)
        try:
            with translated():
                path.unlink()
        except KinbinError:
            if path.exists():
                raise
            raise _not_found(name) from None
        with translated():
            path.with_suffix(_TOLD).unlink(missing_ok=True)
            sync_directory(path.parent)

    def verify(self, name: str, id: str) -> SnapshotReport:
        """Read one snapshot, and prove every record in it, and that the file is the one that was made.

        Raises:
            SnapshotNotFound.
        """
        path = self.path(name, id)
        place = path.parent.name
        known = self._told(place, id)
        try:
            found = proved(path)
        except KinbinError as error:
            return SnapshotReport(False, 0, [str(error)])
        if known is not None and known.sha256 not in ("", found.sha256):
            return SnapshotReport(False, found.items, ["its SHA-256 is another than when it was made"])
        if foreign := foreign_to(path, found):
            return SnapshotReport(False, found.items, [f"it is {foreign}"])
        return SnapshotReport(True, found.items, [])

    @contextlib.contextmanager
    def draft(self) -> Iterator[tuple[BinaryIO, Path]]:
        """A new file, and its path, to write a snapshot into that arrives from elsewhere and is to be restored; removed at the end.

        What a crash leaves of it is removed when the next one is made.
        """
        with translated():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_abandoned(self.folder)
            path = self.folder / f".new-{secrets.token_hex(8)}"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield file, path
        finally:
            path.unlink(missing_ok=True)

    def _places(self, name: str) -> Sequence[str]:
        """The collections, under whose names snapshots lie, that a name may mean: itself, though it is there no more, and what it leads to.

        A collection that was damaged is dropped, and its name led to another one: its snapshots stay those of the name.
        """
        check_name(name)
        try:
            return tuple(dict.fromkeys((name, self._named(name))))
        except CorruptData:
            # Of the list of aliases, which those that lie here do not need.
            if not (self.folder / name).is_dir():
                raise
            return (name,)

    def _found(self, name: str) -> Sequence[tuple[str, str]]:
        """The ids of snapshots, and the collection that each is of."""
        with translated():
            folders = [folder for place in self._places(name) if (folder := self.folder / place).is_dir()]
            return [(entry.stem, folder.name) for folder in folders for entry in folder.glob(f"*{_FILE}") if _ID.fullmatch(entry.stem)]

    def _told(self, name: str, number: str) -> SnapshotInfo | None:
        """What is told of a snapshot; read from the file itself where it is not told. None: it is gone, or has no head."""
        path = self.folder / name / f"{number}{_FILE}"
        try:
            told = SnapshotInfo(**_proved(orjson.loads(path.with_suffix(_TOLD).read_bytes())))
        except (OSError, ValueError, TypeError, KeyError):
            return self._read(path, name, number)
        if (told.collection, told.id) != (name, number):
            return self._read(path, name, number)
        try:
            size = path.stat().st_size
            problem = f"it has {size:,} bytes, and had {told.bytes:,} when it was made" if told.bytes != size else _of_head(path, size)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
        # What is told stays as it was: it says what the file was.
        return replace(told, problem=problem) if problem else told

    def _read(self, path: Path, name: str, number: str) -> SnapshotInfo | None:
        """The same from the file itself; None: it is gone."""
        try:
            with path.open("rb") as file:
                reader = SnapshotReader(file, path.stat().st_size)
                head, digest = reader.head, reader.skim()
        except FileNotFoundError:
            return None
        except (OSError, KinbinError) as error:
            log.warning("the snapshot %s of %s cannot be read: %s", number, name, error)
            size = path.stat().st_size if path.exists() else 0
            return SnapshotInfo(name, number, "", 0, size, "", problem=str(error))
        found = SnapshotInfo(head.collection, number, head.created, head.items, path.stat().st_size, digest)
        if foreign := foreign_to(path, replace(found, id=head.id)):
            return replace(found, collection=name, problem=f"it is {foreign}")
        self._tell(found)
        return found

    def _tell(self, made: SnapshotInfo) -> None:
        """Write down what is told of a snapshot. If that cannot be done, it is read from the file another time."""
        path = self.folder / made.collection / f"{made.id}{_TOLD}"
        draft = path.with_name(f".new-{path.name}-{secrets.token_hex(8)}")
        try:
            told = asdict(made)
            draft.write_bytes(orjson.dumps(told | {_CHECK: _check(told)}))
            draft.rename(path)
        except OSError as error:
            log.warning("what is told of the snapshot %s could not be written: %s", made.id, error)
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)


def _of_head(path: Path, size: int) -> str:
    """What the beginning of a file shows to be wrong with it; "": nothing. Reads no more than that."""
    try:
        with path.open("rb") as file:
            head = SnapshotReader(file, size).head
    except KinbinError as error:
        return str(error)
    foreign = foreign_to(path, SnapshotInfo(head.collection, head.id, head.created, head.items, size, ""))
    return f"it is {foreign}" if foreign else ""


def foreign_to(path: Path, found: SnapshotInfo) -> str:
    """Which snapshot lies at a path, as it says of itself, if another one belongs there; "": it is the one, or says no id."""
    if found.collection != path.parent.name:
        return f"one of the collection {found.collection!r}"
    return f"the snapshot {found.id}" if found.id not in (None, path.stem) else ""


def _proved(told: Any) -> dict[str, Any]:
    """What is told of a snapshot, if its checksum holds; else ValueError."""
    if not isinstance(told, dict) or told.pop(_CHECK) != _check(told):
        raise ValueError("what is told of a snapshot fails its checksum")
    return told


def _check(told: dict[str, Any]) -> int:
    return zlib.crc32(orjson.dumps(told, option=orjson.OPT_SORT_KEYS))


def _not_found(name: str) -> SnapshotNotFound:
    return SnapshotNotFound(f"the collection {name!r} has no such snapshot: list those that there are")


def _remove_abandoned(folder: Path) -> None:
    """Remove what a crash left of snapshots: drafts whose lock nobody holds, and what is told of files that were deleted."""
    for entry in folder.glob(".new-*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - entry.stat().st_mtime > _ABANDONED_SECONDS:
                    entry.unlink()
            finally:
                os.close(descriptor)
    for entry in folder.glob(f"*{_TOLD}"):
        # It is written once the file is there, and deleted behind it.
        if _ID.fullmatch(entry.stem) and not entry.with_suffix(_FILE).exists():
            with contextlib.suppress(OSError):
                entry.unlink()
