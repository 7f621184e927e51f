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

__all__ = ["LOCK", "MAX_READERS", "make_lock_file"]

LOCK = "lock.mdb"
MAX_READERS = 2048
_BYTES = 64 * MAX_READERS + 128
"""As LMDB makes it: a line of the processor's cache for each reader, and what stands before them."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


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
