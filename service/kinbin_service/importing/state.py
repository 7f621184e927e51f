"""What an import remembers between runs: one small file per source file, replaced atomically after every acknowledged batch.

The state says how far the file was acknowledged, and of which file and with which options it speaks. It is trusted only when

1. the file is the same: size, modification time and a digest of its first bytes; or it was changed only behind what was
   acknowledged (a bad row was corrected), which a digest of everything before, kept when a run ends early, proves;
2. the options that decide what a row means are the same;
3. the last acknowledged item is still in the collection (the caller asks; a dropped collection starts over).

Otherwise the import starts over, which is harmless: adds are upserts. A finished file keeps its state until all files of the
command are finished, so that the same command, run again after an interruption, skips what is done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinbin_service.importing.batches import Position
from kinbin_service.importing.images import image_files

__all__ = ["PREFIX_BYTES", "FileIdentity", "ImportState", "Resumed", "load", "remove", "resume", "save", "state_path"]

_VERSION = 1
_HEAD_BYTES = 65_536
_CHUNK = 1 << 20

PREFIX_BYTES = 4 << 30
"""Longest prefix that is digested, some seconds of reading; a bad row further back in a file means to start over once it is corrected."""


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What tells one content of a file from another without reading all of it; of a folder, names, sizes and times of its images."""

    size: int
    mtime_ns: int
    head: str

    @classmethod
    def of(cls, path: Path) -> FileIdentity:
        """The identity of a file as it is now."""
        if path.is_dir():
            listed = [(name, (path / name).stat()) for name in image_files(path)]
            told = json.dumps([(name, one.st_size, one.st_mtime_ns) for name, one in listed]).encode()
            return cls(len(listed), max((one.st_mtime_ns for _, one in listed), default=0), hashlib.sha256(told).hexdigest())
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, digest_of(path, _HEAD_BYTES))


@dataclass(frozen=True, slots=True)
class ImportState:
    """How far one file was imported into one collection."""

    source: str
    target: str
    collection: str
    identity: FileIdentity
    options: dict[str, Any]
    position: Position = field(default_factory=Position)
    last_id: str | None = None
    finished: bool = False
    under_way: bool = False
    """A batch behind `position` may have been written: false only after an orderly end."""
    prefix: str | None = None
    """Digest of the bytes before `position`, kept when a run ends on a bad row."""

    def advanced(self, position: Position, last_id: str | None) -> ImportState:
        """The state after a batch was acknowledged."""
        return dataclasses.replace(self, position=position, last_id=last_id, under_way=True, prefix=None)


@dataclass(frozen=True, slots=True)
class Resumed:
    """The state to go on from, and what to tell the user about it (None: nothing to tell)."""

    state: ImportState
    note: str | None


def state_path(folder: Path, source: str, target: str, collection: str) -> Path:
    """Where the state of this file, database and collection lies."""
    key = json.dumps([source, target, collection]).encode()
    return folder / f"{hashlib.sha256(key).hexdigest()[:32]}.json"


def resume(kept: ImportState | None, fresh: ImportState) -> Resumed:
    """The kept state when it speaks of the same import, otherwise the fresh one with the reason."""
    if kept is None:
        return Resumed(fresh, None)
    if kept.options != fresh.options:
        return Resumed(fresh, "the options differ from the interrupted import's: starting from the first row")
    if kept.identity == fresh.identity:
        return Resumed(kept, None)
    if kept.prefix and fresh.identity.size >= kept.position.offset and digest_of(Path(kept.source), kept.position.offset) == kept.prefix:
        return Resumed(dataclasses.replace(kept, identity=fresh.identity, finished=False), None)
    return Resumed(fresh, "the file has changed since the interrupted import: starting from the first row")


def load(path: Path) -> ImportState | None:
    """The state in a file; None when there is none, or none that this version wrote."""
    try:
        held = json.loads(path.read_bytes())
        if held.pop("version") != _VERSION:
            return None
        held["identity"] = FileIdentity(**held["identity"])
        held["position"] = Position(**held["position"])
        return ImportState(**held)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(path: Path, state: ImportState) -> None:
    """Replace the state file: written aside, flushed to disk, renamed, and the folder flushed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with aside.open("w", encoding="utf-8") as file:
            json.dump({"version": _VERSION, **dataclasses.asdict(state)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Forget a state."""
    path.unlink(missing_ok=True)


def digest_of(path: Path, length: int) -> str:
    """SHA-256 of the first `length` bytes of a file, or of all when it is shorter."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while length > 0 and (chunk := file.read(min(_CHUNK, length))):
            digest.update(chunk)
            length -= len(chunk)
    return digest.hexdigest()
