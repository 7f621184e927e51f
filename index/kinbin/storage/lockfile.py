"""LMDB's table of readers, `lock.mdb`: a file that every process maps and writes to by address.

LMDB makes it as a hole. A page of it that the disk has no room for when somebody writes there ends the process (SIGBUS), so its room is
taken before LMDB sees it: a full disk is an error then.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from kinbin.storage.workspace import reserve

__all__ = ["LOCK", "MAX_READERS", "last_commit", "make_lock_file"]

LOCK = "lock.mdb"
MAX_READERS = 2048
_BYTES = 64 * MAX_READERS + 128
"""As LMDB makes it: a line of the processor's cache for each reader, and what stands before them."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_MAGIC = 0xBEEFC0DE
_COMMIT_AT = {"x86_64": 48, "aarch64": 56}
"""Where the number of the last commit stands, by machine: behind a lock of the C library."""
_READ: dict[tuple[int, int], int] = {}
"""Descriptors of tables that were read here. They are never closed: LMDB's own lock on a table would go with any of them."""


def make_lock_file(folder: Path) -> None:
    """Make the table of a store that has none, with room on disk for all of it. One that is there is left as it is.

    It gets its name when it is whole, and is never opened under it: LMDB's own lock on it would go with the descriptor.

    Raises:
        OSError: the disk is full. Whatever else hinders it is left to LMDB to tell.
    """
    if (folder / LOCK).exists():
        return
    draft = folder / f".new-lock-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            reserve(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        # Another process may have been faster: its table has readers in it already.
        os.link(draft, folder / LOCK)
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def last_commit(folder: Path) -> int | None:
    """The last transaction that was committed, by the table of readers; None: there is none, or it does not tell.

    A commit is written there when it is in the file, and one that failed is not. While LMDB opens a store that nobody else has open it is
    0, and then what the file says: so it is to be asked before; 0 is what an opening left that was killed, or failed, and had looked.

    Raises:
        OSError: it cannot be read.
    """
    at = _COMMIT_AT.get(os.uname().machine)
    try:
        found = (folder / LOCK).stat()
        descriptor = _READ.get((found.st_dev, found.st_ino))
        if descriptor is None:
            descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            found = os.fstat(descriptor)
            _READ[found.st_dev, found.st_ino] = descriptor
    except FileNotFoundError:
        return None
    head = os.pread(descriptor, 64, 0)
    if at is None or len(head) < 64 or int.from_bytes(head[:4], "little") != _MAGIC:
        return None
    return int.from_bytes(head[at : at + 8], "little")
