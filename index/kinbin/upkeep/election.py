"""One worker at a time over all processes: a file lock that dies with its holder.

Who holds it in the background asks `is_wanted` from time to time and lets go, so that a caller does not wait for low priority.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kinbin.errors import CollectionNotFound, CorruptData, StorageError
from kinbin.storage.errors import translated

__all__ = ["elected", "is_wanted"]

_LOCKS: set[int] = set()
"""Open lock files of this process."""
_NONE = -1
_WANTED: Counter[Path] = Counter()
"""Threads of this process that wait for a lock file."""
_WANTED_LOCK = threading.Lock()


def _leave_locks_to_parent() -> None:
    """In a forked child: close the lock files, or a lock would outlive the parent that holds it. Nobody waits here."""
    global _WANTED_LOCK  # noqa: PLW0603 - another thread may have held it at the fork
    _WANTED_LOCK = threading.Lock()
    _WANTED.clear()
    while _LOCKS:
        os.close(_LOCKS.pop())


os.register_at_fork(after_in_child=_leave_locks_to_parent)


@contextmanager
def elected(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file at `path`; False if another process or thread holds it (and not `wait`).

    Raises:
        CollectionNotFound: its directory was removed meanwhile: before the block, or under it, where files that are gone fail work.
        StorageError: the file cannot be opened or locked.
    """
    descriptor = _opened(path)
    try:
        try:
            _take(descriptor, path, wait=wait)
            while not _is_named(descriptor, path):
                # Its directory was removed, and maybe made anew, while it was waited for: others lock another file.
                _LOCKS.remove(descriptor)
                os.close(descriptor)
                # Another thread may have its number from now on.
                descriptor = _NONE
                descriptor = _opened(path)
                _take(descriptor, path, wait=wait)
        except BlockingIOError:
            yield False
            return
        try:
            with _in(path.parent):
                yield True
        finally:
            if descriptor in _LOCKS:
                # A forked child may have the file open as well: closing it here would not let go.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        if descriptor in _LOCKS:
            _LOCKS.remove(descriptor)
            os.close(descriptor)


def _opened(path: Path) -> int:
    with translated():
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            # The file is made where it is not there: its directory is gone.
            raise CollectionNotFound("the collection was removed") from None
    _LOCKS.add(descriptor)
    return descriptor


def _is_named(descriptor: int, path: Path) -> bool:
    """Whether an open lock file is the one that others find at `path`."""
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


@contextmanager
def _in(folder: Path) -> Iterator[None]:
    """A block of work on a collection's files. Raises CollectionNotFound where it fails and the folder is gone."""
    try:
        yield
    except CorruptData:
        raise
    except (OSError, StorageError):
        with translated():
            there = folder.exists()
        if there:
            raise
        raise CollectionNotFound("the collection was removed") from None


def _take(descriptor: int, path: Path, *, wait: bool) -> None:
    """Lock an open lock file.

    Raises:
        BlockingIOError: another one holds it, and not `wait`. StorageError: the file system has no locks.
    """
    try:
        if wait:
            with _wanting(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        with translated():
            raise


@contextmanager
def _wanting(path: Path) -> Iterator[None]:
    with _WANTED_LOCK:
        _WANTED[path] += 1
    try:
        yield
    finally:
        with _WANTED_LOCK:
            _WANTED[path] -= 1


def is_wanted(path: Path) -> bool:
    """Whether a thread of this process waits for the lock file at `path`."""
    return _WANTED[path] > 0
