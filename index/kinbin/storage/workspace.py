"""Work space of builds: arrays in memory up to so many bytes, beyond that in files without a name that are mapped.

The system writes pages of a file out and takes their memory back when others need it, so what a build takes of its own is bounded
whatever the number of rows. A file has no name (where the system knows such files; else it loses it at once), so nothing of it is left
when the process ends in any way. All its room on the disk is taken before it is handed out: a disk that is full fails the build there,
with an error. (To write to a page of a map that the disk has no room for would end the process.)
"""

from __future__ import annotations

import errno
import math
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kinbin.storage.errors import translated

__all__ = ["IN_MEMORY", "PIECE", "Growing", "WorkSpace", "pieces", "reserve"]

PIECE = 65_536
"""Rows that are worked on at once, so that what is between is small."""
_NOT_RESERVED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
_ZEROS = 1 << 20


class WorkSpace:
    """Arrays of one piece of work. They may be made and let go of in any thread."""

    def __init__(self, folder: Path | None, most: float) -> None:
        """folder: where files lie. most: bytes in memory at once; an array that does not fit beside those that are held is in a file."""
        self._folder, self._most = folder, most
        self._held = 0
        # An array may be let go of by the garbage collector, while another is made in the same thread.
        self._lock = threading.RLock()

    @property
    def left(self) -> float:
        """Bytes that still fit into memory."""
        return self._most - self._held

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array of anything, to be written.

        Raises:
            StorageFull: the disk has no room for its file. StorageError: it cannot be mapped.
        """
        size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        if size <= max(0, self.left):
            return self.held(np.empty(shape, dtype))
        with translated(), self.file() as file:
            reserve(file.fileno(), size)
            return _mapped(file, size, dtype).reshape(shape)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """The same of zeros."""
        array = self.empty(shape, dtype)
        if isinstance(_owner(array), np.ndarray):
            array[...] = 0
        return array

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        """A copy of an array of one dimension, to be written."""
        out = self.empty(array.shape, array.dtype)
        out[...] = array
        return out

    def numbers(self, count: int) -> NDArray[np.int64]:
        """0 … count-1."""
        out = self.empty(count, np.int64)
        for first, past in pieces(count):
            out[first:past] = np.arange(first, past)
        return out

    def file(self) -> BinaryIO:
        """An empty file without a name."""
        return tempfile.TemporaryFile(dir=self._folder)

    def held(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array that lies in memory: it counts until it is let go of."""
        with self._lock:
            self._held += array.nbytes
        weakref.finalize(array, self._let_go, array.nbytes).atexit = False
        return array

    def _let_go(self, size: int) -> None:
        with self._lock:
            self._held -= size


IN_MEMORY = WorkSpace(None, math.inf)
"""For what is small, or bounded by whoever calls."""


class Growing:
    """An array whose length is not known yet: in memory as long as it fits there, then in a file."""

    def __init__(self, room: WorkSpace, dtype: DTypeLike) -> None:
        self._room, self._dtype = room, np.dtype(dtype)
        self._bytes = bytearray()
        self._file: BinaryIO | None = None
        self.size = 0
        """Bytes so far."""

    def append(self, array: NDArray[Any]) -> None:
        """Add numbers at the end.

        Raises:
            StorageFull: the disk has no room for them.
        """
        body = np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
        self.size += len(body)
        # A bytearray that grows has some room to spare, an eighth.
        if self._file is None and self.size * 9 // 8 <= self._room.left:
            self._bytes += body
            return
        with translated():
            if self._file is None:
                self._file = self._room.file()
                # Of a build that was given up nobody asks for the array.
                weakref.finalize(self, self._file.close).atexit = False
                self._file.write(self._bytes)
                self._bytes = bytearray()
            self._file.write(body)

    def array(self) -> NDArray[Any]:
        """All of it, not to be added to any more."""
        if self._file is None:
            return self._room.held(np.frombuffer(self._bytes, self._dtype) if self._bytes else np.empty(0, self._dtype))
        with translated(), self._file as file:
            file.flush()
            return _mapped(file, self.size, self._dtype)


def _owner(array: NDArray[Any]) -> object:
    """What holds an array's bytes: an array itself, or a map."""
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array


def _mapped(file: BinaryIO, size: int, dtype: DTypeLike) -> NDArray[Any]:
    """(n,) a file of so many bytes, all of which has its room on the disk; what is written to it is written to the file."""
    return np.frombuffer(mmap.mmap(file.fileno(), size), dtype)


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """(first, past) of the pieces of so many rows."""
    for first in range(0, count, PIECE):
        yield first, min(first + PIECE, count)


def reserve(descriptor: int, size: int) -> None:
    """Take room on disk for an empty file, all or an error of the operating system."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in _NOT_RESERVED:
                raise
        else:
            return
    # macOS, some C libraries and some file systems cannot reserve: what is written has its room.
    zeros = memoryview(bytes(_ZEROS))
    place = 0
    while place < size:
        place += os.pwrite(descriptor, zeros[: size - place], place)
