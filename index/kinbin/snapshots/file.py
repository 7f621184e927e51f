"""The file of a snapshot: blocks behind checksums, and at the end the SHA-256 of all before (index/FORMAT.md).

It holds records, not pages: whatever page size, LMDB or machine reads it makes files of its own from them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kinbin.errors import CorruptData, FormatMismatch, InvalidInput
from kinbin.storage.copying import Record
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated

__all__ = ["Head", "SnapshotReader", "SnapshotWriter"]

MAGIC = b"KINBINS1"
VERSION, NAMELESS = 2, 1
"""Of snapshots that say their id, and of those that have none, or were made before."""
HEAD, STORE, RECORDS, END = b"H", b"S", b"R", b"E"
"""Kinds of blocks; they never change."""
_BLOCK = struct.Struct("<cIQ")
"""Kind, CRC-32 of the content, its bytes."""
_RECORD = struct.Struct("<BHQ")
"""Tree, bytes of the key, bytes of the value; then both."""
_BLOCK_BYTES, _BLOCK_RECORDS = 1 << 20, 128
_HEAD_BYTES = 1 << 20
"""A head that says it is longer is damaged: a list of snapshots reads no more of each."""
_SYNC_BYTES = 32 << 20
"""What is written before it is put on disk: so that a commit's own sync need not wait for all of a snapshot."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a snapshot is of."""

    collection: str
    created: str
    items: int
    fields: list[str] | None
    """Names of the fields of a collection that has some."""
    hash_version: int
    id: str | None = None
    """Among those that a database keeps; None: it is none of them, or was made before ids were said."""
    version: int = NAMELESS

    def encode(self) -> bytes:
        """The first block."""
        told = asdict(self)
        if self.id is None:
            del told["id"]
        return json.dumps(told).encode()

    @classmethod
    def decode(cls, content: bytes) -> Head:
        """From the first block.

        Raises:
            FormatMismatch: it is of a newer format. CorruptData: it is none.
        """
        told = _json(content)
        if isinstance(told.get("version"), int) and told["version"] > VERSION:
            raise FormatMismatch(f"the snapshot has format {told['version']}, this Kinbin reads format {VERSION}")
        kinds = {"collection": str, "created": str, "items": int, "hash_version": int, "version": int}
        if told.get("version") == VERSION:
            kinds["id"] = str
        fields = told.get("fields")
        right = fields is None or (isinstance(fields, list) and all(isinstance(name, str) for name in fields))
        if not right or any(type(told.get(name)) is not kind for name, kind in kinds.items()) or told.keys() != {*kinds, "fields"}:
            raise _damaged("its head is malformed")
        return cls(**told)


def _json(content: bytes) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise _damaged("a block is malformed")
    return told


def _damaged(what: str) -> CorruptData:
    return CorruptData(f"the snapshot is damaged: {what}", "take another one")


class SnapshotWriter:
    """Writes a new file, under another name until it is whole. As a context: what is not `finish`ed is gone at the end."""

    def __init__(self, path: Path, draft: Path) -> None:
        """draft: the name that it has meanwhile, in the same directory.

        Raises:
            InvalidInput: there is such a file. StorageError: it cannot be made.
        """
        self._path, self._draft = path, draft
        if path.exists():
            raise InvalidInput.of("bad_parameter", f"{path} is there: a snapshot overwrites nothing", field="path")
        with translated():
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        with suppress(OSError):
            # Who removes what crashes left sees that this is none. Without locks on this file system, drafts stay.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._digest = hashlib.sha256()
        self.bytes = self._synced = 0
        self._records: list[bytes] = []
        self._size = 0

    def __enter__(self) -> SnapshotWriter:
        try:
            self._write(MAGIC)
        except BaseException:
            # A context that was not entered is not left.
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)

    def head(self, head: Head) -> None:
        """Say what it is of; first of all."""
        self._block(HEAD, head.encode())

    def store(self, field: str) -> None:
        """Begin the records of a store: that of the items (""), or of a field."""
        self._flush()
        self._block(STORE, json.dumps({"field": field}).encode())

    def put(self, record: Record) -> bool:
        """Add a record. Returns whether that ended a block: a moment to let others work."""
        tree, key, value = record
        self._records += _RECORD.pack(tree, len(key), len(value)), key, value
        self._size += len(value)
        if self._size < _BLOCK_BYTES and len(self._records) < 3 * _BLOCK_RECORDS:
            return False
        self._flush()
        return True

    def finish(self) -> str:
        """End it, put it on disk and give it its name. Returns the SHA-256 of the file."""
        self._flush()
        self._block(END, json.dumps({"sha256": self._digest.hexdigest()}).encode())
        with translated():
            os.fsync(self._file.fileno())
            self._draft.rename(self._path)
            sync_directory(self._path.parent)
        return self._digest.hexdigest()

    def _flush(self) -> None:
        if self._records:
            self._block(RECORDS, b"".join(self._records))
            self._records, self._size = [], 0

    def _block(self, kind: bytes, content: bytes) -> None:
        self._write(_BLOCK.pack(kind, zlib.crc32(content), len(content)))
        self._write(content)
        if self.bytes - self._synced > _SYNC_BYTES:
            with translated():
                os.fdatasync(self._file.fileno())
                # Nobody reads it soon: what queries read stays in memory.
                os.posix_fadvise(self._file.fileno(), 0, self.bytes, os.POSIX_FADV_DONTNEED)
            self._synced = self.bytes

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self.bytes += len(data)
        left = memoryview(data)
        with translated():
            while left:
                left = left[self._file.write(left) :]


class SnapshotReader:
    """Reads a file from its beginning to its end, and proves it on the way.

    Every method raises CorruptData where it is damaged or cut off, and FormatMismatch if it is no snapshot, or a newer one's.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        """size: of the file, in bytes."""
        self._file, self._left, self.bytes = file, size, size
        self._digest = hashlib.sha256()
        if self._read(min(len(MAGIC), size)) != MAGIC:
            raise FormatMismatch("this is no snapshot of Kinbin")
        kind, content = self._block(_HEAD_BYTES)
        if kind != HEAD:
            raise _damaged("it has no head")
        self.head = Head.decode(content)
        self.sha256: str | None = None
        """Of the whole file, once it was read to its end."""

    def stores(self) -> Iterator[tuple[str, Iterator[Record]]]:
        """(field, records) of each store; the records of one are read before the next store is asked for."""
        wanted = ["", *(self.head.fields or ())]
        self._kind, self._content = self._block()
        for field in wanted:
            if self._kind != STORE or _json(self._content) != {"field": field}:
                raise _damaged("a store is missing")
            yield field, self._records()
        self._end()

    def skim(self) -> str:
        """The SHA-256 of the file, all of which is read, and has checksums that hold; its records are not looked at."""
        self._kind, self._content = self._block()
        while self._kind in (STORE, RECORDS):
            self._kind, self._content = self._block()
        return self._end()

    def _end(self) -> str:
        if self._kind != END or _json(self._content) != {"sha256": self._before}:
            raise _damaged("its SHA-256 is another")
        if self._left:
            raise _damaged("something follows its end")
        self.sha256 = self._digest.hexdigest()
        return self.sha256

    def _records(self) -> Iterator[Record]:
        while True:
            self._kind, self._content = self._block()
            if self._kind != RECORDS:
                return
            yield from _split(self._content)

    def _block(self, most: int | None = None) -> tuple[bytes, bytes]:
        self._before = self._digest.hexdigest()
        if self._left < _BLOCK.size:
            raise _damaged("it was cut off")
        kind, crc, size = _BLOCK.unpack(self._read(_BLOCK.size))
        if size > self._left:
            raise _damaged("it was cut off")
        if most is not None and size > most:
            raise _damaged("a block is longer than it can be")
        content = self._read(size)
        if zlib.crc32(content) != crc:
            raise _damaged("a block fails its checksum")
        return kind, content

    def _read(self, size: int) -> bytes:
        with translated():
            data = self._file.read(size)
        if len(data) != size:
            raise _damaged("it was cut off")
        self._left -= size
        self._digest.update(data)
        return data


def _split(content: bytes) -> Iterator[Record]:
    """The records of a block."""
    at, end = 0, len(content)
    while at < end:
        if end - at < _RECORD.size:
            raise _damaged("a record is cut off")
        tree, key_bytes, size = _RECORD.unpack_from(content, at)
        key = at + _RECORD.size
        at = key + key_bytes + size
        if at > end:
            raise _damaged("a record is cut off")
        yield tree, content[key : key + key_bytes], content[key + key_bytes : at]
