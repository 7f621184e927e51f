"""A child that admits work as a user without rights."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from multiprocessing.connection import Connection

from kinbin_service.admission import Admission

__all__ = ["as_nobody"]

NOBODY = 65_534


def as_nobody(connection: Connection) -> None:
    """Sends by how much reads, writes and the event loop have a lower priority than this process began with."""
    os.setresuid(NOBODY, NOBODY, NOBODY)
    connection.send(asyncio.run(_found()))


async def _found() -> list[int]:
    own = _of_this_thread()
    # The second waits, and is handed on by the thread of the first.
    admission = Admission(1, 20, 30.0)
    write, read = [admission.run(_of_this_thread, writes=writes, gone=asyncio.Event().wait) for writes in (True, False)]
    found = [*reversed(await asyncio.gather(write, read)), _of_this_thread()]
    await admission.close()
    return [one - own for one in found]


def _of_this_thread() -> int:
    # So long that the next one waits.
    time.sleep(0.05)
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
