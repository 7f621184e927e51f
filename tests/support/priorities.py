"""A child that admits work as a user without rights."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from functools import partial
from multiprocessing.connection import Connection

from kinbin_service.admission import Admission

__all__ = ["as_nobody"]

NOBODY = 65_534


def as_nobody(connection: Connection) -> None:
    """Sends by how much a read, one beside it, writes and the event loop have a lower priority than this process began with."""
    os.setresuid(NOBODY, NOBODY, NOBODY)
    connection.send(asyncio.run(_found()))


async def _found() -> list[int]:
    own = _of_this_thread()
    # The second read waits, and is handed on by the thread of the write, while the first one runs.
    admission = Admission(2, 20, 30.0)
    calls = ((True, 0.05), (False, 0.5), (False, 0.0))
    write, *reads = [
        admission.run(partial(_of_this_thread, seconds), writes=writes, gone=asyncio.Event().wait) for writes, seconds in calls
    ]
    last, *found = await asyncio.gather(write, *reads)
    found.append(last)
    found.append(_of_this_thread())
    await admission.close()
    return [one - own for one in found]


def _of_this_thread(seconds: float = 0.0) -> int:
    # So long that the next one waits.
    time.sleep(seconds)
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
