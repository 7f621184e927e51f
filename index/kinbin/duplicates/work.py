"""A folder of work that goes on where it was killed: stages whose files are complete, or made anew.

A file of a stage is written under another name and renamed when it is on disk; what is noted of the job is one small file, replaced
as a whole. So after a kill, or a power failure, each stage is done or is not; the first notes how much of it is. When work is removed
the notes go first: files without notes are those of nobody.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated
from kinbin.storage.workspace import reserve

__all__ = ["Appended", "Work"]

_NOTES = "job.json"
_LOCK = "kinbin-dedup.lock"
"""A name that nobody else gives a file: it says whose folder this is."""


class Work:
    """The folder of one job, of one process at a time. Files in it that are none of a job's are never touched.

    Raises:
        InvalidInput: field "folder": another process works in it, or it holds something else; field "work": it is of another job.
    """

    def __init__(self, folder: Path, job: dict[str, Any], names: Iterable[str]) -> None:
        """job: what has to be the same for the work to go on, as plain data. names: of the files of its stages."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ours = _ours(names)
        self._lock = _locked(folder)
        try:
            self.notes: dict[str, Any] = self._read(job)
        except BaseException:
            self._lock.close()
            raise

    @classmethod
    def discard(cls, folder: Path, names: Iterable[str]) -> None:
        """Remove what a job left in a folder, and the folder if nothing else is in it. No folder: nothing is done.

        Raises:
            InvalidInput: field "folder": another process works in it, or it holds no work.
        """
        if folder.exists():
            with _locked(folder) as lock:
                _unlink(folder, _ours(names))
                # Beside what is somebody else's the lock stays: it says that work may lie here.
                if [one.name for one in folder.iterdir()] == [_LOCK]:
                    _remove(folder, frozenset(), lock)

    def _read(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            notes: dict[str, Any] = orjson.loads((self.folder / _NOTES).read_bytes())
        except FileNotFoundError:
            # Work that was removed but for some files: a stage that is there would be taken for one of this job.
            _unlink(self.folder, self._ours)
            self.notes = {"job": job}
            self.note()
            return self.notes
        differing = sorted(name for name in job.keys() | notes["job"].keys() if job.get(name) != notes["job"].get(name))
        if differing:
            text = f"{self.folder} holds the work of another job ({', '.join(differing)}): remove it, or name another folder"
            raise InvalidInput.of("bad_parameter", text, field="work")
        if short := sorted(name for name, size in notes.get("sizes", {}).items() if self._size(name) < size):
            text = f"{self.folder} lacks a part of {short[0]!r}, so this work cannot go on: remove it"
            raise InvalidInput.of("bad_parameter", text, field="work")
        return notes

    def _size(self, name: str) -> int:
        """Bytes of a file; 0 if it is not there."""
        path = self.folder / name
        return path.stat().st_size if path.exists() else 0

    def note(self, **more: Any) -> None:
        """Note what is done, on disk."""
        self.notes |= more
        draft = self.folder / f"{_NOTES}.part"
        with translated(), draft.open("wb") as file:
            file.write(orjson.dumps(self.notes))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / _NOTES)

    def made(self, name: str, size: int, dtype: Any, make: Callable[[NDArray[Any]], None]) -> NDArray[Any]:
        """The array of a stage that is done, or that `make` writes into zeros now. It lies in a file, and is read only."""
        path = self.folder / name
        if not path.exists():
            draft = self.folder / f"{name}.part"
            array = self._file(draft, size, dtype)
            make(array)
            _flush(array)
            draft.replace(path)
        return _mapped(path, dtype)

    def scratch(self, size: int, dtype: Any) -> NDArray[Any]:
        """Zeros in a file without a name: memory that the system may take back."""
        path = self.folder / "scratch.part"
        array = self._file(path, size, dtype)
        path.unlink()
        return array

    def _file(self, path: Path, size: int, dtype: Any) -> NDArray[Any]:
        if not size:
            path.write_bytes(b"")
            return np.zeros(0, dtype)
        with translated(), path.open("w+b") as file:
            # Writing to a page of a map that the disk has no room for ends the process (SIGBUS): all room is taken now.
            reserve(file.fileno(), size * np.dtype(dtype).itemsize)
            return np.memmap(file, dtype, "r+", shape=(size,))

    def array(self, name: str, dtype: Any) -> NDArray[Any]:
        """A file of numbers."""
        return _mapped(self.folder / name, dtype)

    def close(self) -> None:
        """Let others work here."""
        self._lock.close()

    def remove(self) -> None:
        """Remove the work, which is done, and the folder if nothing else is in it."""
        if self._lock.closed:
            self._lock = _locked(self.folder)
        _remove(self.folder, self._ours, self._lock)


class Appended:
    """A file that grows; what is behind the length that was noted last is forgotten."""

    def __init__(self, work: Work, name: str) -> None:
        path = work.folder / name
        self.size = int(work.notes.get("sizes", {}).get(name, 0))
        path.touch()
        os.truncate(path, self.size)
        self._file: BinaryIO = path.open("ab")

    def write(self, data: NDArray[Any]) -> None:
        """Add an array."""
        with translated():
            self._file.write(data.tobytes())
        self.size += data.nbytes

    def sync(self) -> None:
        """Have all of it on disk."""
        with translated():
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _mapped(path: Path, dtype: Any) -> NDArray[Any]:
    if not path.stat().st_size:
        return np.zeros(0, dtype)
    return np.memmap(path, dtype, "r")


def _flush(array: NDArray[Any]) -> None:
    if isinstance(array, np.memmap):
        array.flush()


def _ours(names: Iterable[str]) -> frozenset[str]:
    """Files that a job makes, but for the lock."""
    listed = [_NOTES, "scratch", *names]
    return frozenset([*listed, *(f"{name}.part" for name in listed)])


def _locked(folder: Path) -> BinaryIO:
    """The lock of a folder, held; the folder is empty, or has been a job's."""
    path = folder / _LOCK
    if not path.exists() and (there := sorted(one.name for one in folder.iterdir())):
        text = f"{folder} holds {there[0]!r}, which is no work of deduplication: name an empty folder, or one that is not there"
        raise InvalidInput.of("bad_parameter", text, field="folder")
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise InvalidInput.of("bad_parameter", f"another process works in {folder}: wait until it is done", field="folder") from None
        # Whoever held it may have removed it meanwhile.
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                return lock
        lock.close()


def _unlink(folder: Path, ours: frozenset[str]) -> None:
    """Remove a job's files. Its notes go first, on disk as well: with them, files that are gone would be taken for what was done."""
    (folder / _NOTES).unlink(missing_ok=True)
    with translated():
        sync_directory(folder)
    for name in sorted(ours):
        (folder / name).unlink(missing_ok=True)


def _remove(folder: Path, ours: frozenset[str], lock: BinaryIO) -> None:
    """Remove what is a job's: last the lock, by which others know that the rest is of a job."""
    _unlink(folder, ours)
    (folder / _LOCK).unlink()
    with suppress(OSError):
        folder.rmdir()
    lock.close()
