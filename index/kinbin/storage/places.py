"""Where LMDB keeps a large value, without touching it.

py-lmdb reads one byte of every page of a value before it hands out a view of it. For the runs of a large
collection that would read all files at every opening. A value on pages of its own is named by its node,
though: eight bytes before the key stand its size and flags, behind the key the number of its first page,
and the page of the node begins with its own number, so that the place follows by arithmetic
(`MDB_node`, `MDB_page` of LMDB 0.9). Whoever uses this compares one place with the view of the same value
first, and takes views where the two differ: another engine version costs time, never truth.
"""

from __future__ import annotations

import ctypes
import struct

import numpy as np

__all__ = ["address_of", "place_of"]

_NODE = struct.Struct("<HHHH")
"""Before a key: lower and upper half of the value's size, flags, size of the key."""
_ON_OWN_PAGES = 0x01
_LEAF = 0x02
_PAGE_FLAGS = 10
"""Offset of a page's flags, u16; its number, u64, comes first."""
_PAGE_HEADER = 16


def address_of(value: memoryview) -> int:
    """Where a view lies in this process's memory."""
    return int(np.frombuffer(value, np.uint8).__array_interface__["data"][0]) if len(value) else 0


def place_of(key: memoryview, page_bytes: int) -> tuple[int, int] | None:
    """Address and size of the value of a key, both in the map; None if it has no pages of its own."""
    here = address_of(key)
    page = here - here % page_bytes
    low, high, flags, key_bytes = _NODE.unpack(ctypes.string_at(here - _NODE.size, _NODE.size))
    page_flags = int.from_bytes(ctypes.string_at(page + _PAGE_FLAGS, 2), "little")
    if key_bytes != len(key) or not flags & _ON_OWN_PAGES or not page_flags & _LEAF:
        return None
    own = int.from_bytes(ctypes.string_at(page, 8), "little")
    first = int.from_bytes(ctypes.string_at(here + key_bytes, 8), "little")
    return page + (first - own) * page_bytes + _PAGE_HEADER, low | high << 16
