"""The memory that this process may use: what the machine has, or less where a container or a service is given less."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

__all__ = ["usable_memory"]

_UNKNOWN = 4 << 30
"""Bytes that are taken to be there where the system does not tell."""


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes: the least of what the machine has and of the limits of the control groups that the process is in (Linux, versions 1 and 2).

    root: where `proc` and `sys` lie. Cost: a few small files are read.
    """
    limits = [_machine()]
    for path in _limits(root):
        # A file that is not there, or says "max", limits nothing.
        with suppress(OSError, ValueError):
            limits.append(int(path.read_text("ascii")))
    return min(limits)


def _machine() -> int:
    """What the machine has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def _limits(root: Path) -> Iterator[Path]:
    """The files in which limits would stand: of the process's group and of those that it lies in."""
    groups = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            folder, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # A container sees its own group as the root of the file system, or by its whole path: what is not there is passed over.
        inner = PurePosixPath(group.lstrip("/"))
        for each in (inner, *inner.parents):
            yield folder / each / name
