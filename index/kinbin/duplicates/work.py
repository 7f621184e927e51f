"""A folder of work that goes on where it was killed: stages whose files are complete, or made anew.

A file of a stage is written under another name and renamed when it is on disk; what is noted of the job is one small file, replaced
as a whole. So after a kill, or a power failure, each stage is done or is not; the first notes how much of it is.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.bands.build import reserve
from kinbin.errors import InvalidInput
from kinbin.storage.errors import translated

__all__ = ["Appended", "Work"]

_NOTES = "job.json"


class Work:
    """The folder of one job, of one process at a time.

    Raises:
        InvalidInput: another process works in it, or it is of another job.
    """

    def __init__(self, folder: Path, job: dict[str, Any]) -> None:
        """job: what has to be the same for the work to go on, as plain data."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._lock = (folder / "lock").open("wb")
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInput.of("bad_parameter", f"another process works in {folder}", field="work") from None
            self.notes: dict[str, Any] = self._read(job)
        except BaseException:
            self._lock.close()
            raise

    def _read(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            notes: dict[str, Any] = orjson.loads((self.folder / _NOTES).read_bytes())
        except FileNotFoundError:
            self.notes = {"job": job}
            self.note()
            return self.notes
        differing = sorted(name for name in job.keys() | notes["job"].keys() if job.get(name) != notes["job"].get(name))
        if differing:
            text = f"{self.folder} holds the work of another job ({', '.join(differing)}): remove it, or name another folder"
            raise InvalidInput.of("bad_parameter", text, field="work")
        return notes

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
        """Remove the folder, whose work is done."""
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()
        self.close()


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
