"""Where tests write: a file system in memory, if there is one with room, so that commits do not wait for a disk.

`make test` asks this file, and hands its answer on as TMPDIR. Tests that are marked `disk` write to the disk all the same (`DISK`).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
DISK = Path("/var/tmp")
"""A place that outlives a restart of the machine, and so lies on a disk."""

ROOM = 3 << 30
"""Bytes that must be free: all tests together hold less than half of it at a time."""


def scratch(memory: Path = MEMORY) -> Path:
    """`memory`, where it takes files, lets programs start from them, and has room; otherwise the system's own place."""
    try:
        system = os.statvfs(memory)
    except OSError:
        return Path(tempfile.gettempdir())
    usable = os.access(memory, os.W_OK) and not system.f_flag & os.ST_NOEXEC
    return memory if usable and min(system.f_bavail * system.f_frsize, _memory_available()) >= ROOM else Path(tempfile.gettempdir())


def _memory_available() -> int:
    """Bytes that the machine could still give; 0 if it does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1_024 for line in lines if line.startswith("MemAvailable:"))


if __name__ == "__main__":
    print(scratch())  # noqa: T201 - for the Makefile
