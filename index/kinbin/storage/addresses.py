"""The address space that a store's file is mapped in: a process has 128 TiB for all that it has open, so a small file takes little."""

from __future__ import annotations

__all__ = ["MAP_SIZE", "is_outgrown", "map_for"]

MAP_SIZE = 1 << 40
"""Bytes of address space, not of disk, that a file may ever be mapped in: no file is larger. New files say it in their meta pages."""
_LEAST = 1 << 34
"""8,000 of these fit into the address space of a process."""
_TIMES = 4
_SOME, _NEARLY = 1 / _TIMES, 7 / 8
"""Of the map. A merge that begins below the first share stays below the second: it writes what there is once more."""


def map_for(file_bytes: int) -> int:
    """What a file of so many bytes is mapped in, when it is opened: four times its size at least, rounded up to a power of two."""
    return min(MAP_SIZE, max(_LEAST, 1 << (_TIMES * file_bytes - 1).bit_length()))


def is_outgrown(file_bytes: int, map_bytes: int, *, alone: bool) -> bool:
    """Whether a file is to be opened anew, in a larger map, before more is written to it.

    alone: nobody reads in the process just now, so that nobody is waited for: that is done early.
    """
    return map_bytes < MAP_SIZE and file_bytes > map_bytes * (_SOME if alone else _NEARLY)
