"""Which threads of a server get a processor first, where there are fewer processors than threads.

An answer passes from the event loop to a thread and back. Beside a bulk load each of these waits for the scheduler's next look at who
runs, 4 ms and more; so a query of a millisecond takes ten. What hands work on, and what answers, is to run as soon as it can, for a
moment; what writes, and what is done in the background, has no hurry.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from contextlib import suppress
from typing import NamedTuple

__all__ = ["FIRST", "LOOP", "READS", "WRITES", "Priority", "prefer"]


class Priority(NamedTuple):
    """Of a thread."""

    less: int
    """By so much less than the process it wants a processor (`nice`)."""
    slice_us: int
    """Microseconds that it asks for at a time: who asks for few is let in before others have used up theirs. 0: the system's own."""


LOOP = Priority(0, 200)
"""It refuses, and tells of health, while all others compute."""
FIRST = Priority(0, 200)
"""A read that is alone: it takes no more than its share, for those beside it have less."""
READS = Priority(5, 200)
WRITES = Priority(10, 0)

_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The system call, by machine; Python has none for it."""
_ATTRIBUTES = struct.Struct("<IIQiIQQQ")
"""`struct sched_attr` of Linux: its size, policy, flags, nice, priority, runtime, deadline, period."""
_RESET_ON_FORK = 1
"""Threads that this one starts ask for nothing."""


def prefer(priority: Priority, base: int) -> None:
    """Give the calling thread a priority. base: `nice` of the process.

    Only on Linux do threads have one of their own. Slices are heard from Linux 6.12 on, and passed over before; whatever is refused
    (by a sandbox) is done without. Cost: two system calls.
    """
    if sys.platform != "linux":
        return
    nice = base + priority.less
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
    number = _SCHED_SETATTR.get(platform.machine())
    if priority.slice_us and number is not None:
        told = _ATTRIBUTES.pack(_ATTRIBUTES.size, 0, _RESET_ON_FORK, nice, 0, 1_000 * priority.slice_us, 0, 0)
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, 0, told, 0)
