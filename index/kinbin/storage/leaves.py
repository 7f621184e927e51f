"""Where the entries of a damaged leaf lie: by its slots, and by going from one entry to the next, since they lie end to end."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from kinbin.storage.trees import HEAD

__all__ = ["NODE_BYTES", "NUMBER_BYTES", "Covered", "all_spans_of", "slots_of", "spans_of"]

NUMBER_BYTES, NODE_BYTES = 8, 8
"""Of a page's number, with which it begins; of the head of an entry."""
_BIG = 0x01


def slots_of(page: bytes) -> list[int]:
    """Where entries begin, by the slots of a page."""
    size = len(page)
    lower, upper = struct.unpack_from("<HH", page, 12)
    count = (min(lower, size) - HEAD) // 2 if lower >= HEAD else 0
    least = max(HEAD, upper if upper <= size else 0)
    return [slot for slot in struct.unpack_from(f"<{count}H", page, HEAD) if least <= slot <= size - NODE_BYTES]


def spans_of(page: bytes) -> list[tuple[int, int]]:
    """(begin, end) of what may be entries of a leaf: by its slots, and end to end from the first one on."""
    known = sorted(set(slots_of(page)))
    return _between({*known, *_walked(page, known, known)}, page)


def all_spans_of(page: bytes) -> list[tuple[int, int]]:
    """The same, and those of slots alone, and of going from entry to entry alone: what is wrong of the one leaves the other whole."""
    count = (min(int.from_bytes(page[12:14], "little"), len(page)) - HEAD) // 2
    told = {slot for slot in struct.unpack_from(f"<{max(count, 0)}H", page, HEAD) if HEAD <= slot <= len(page) - NODE_BYTES}
    ways = (spans_of(page), _between(told, page), _between(_walked(page, sorted(told), ()), page))
    return list(dict.fromkeys(span for spans in ways for span in spans))


class Covered:
    """The bytes of a leaf that are those of entries which are proved."""

    def __init__(self, page: bytes) -> None:
        self._is = bytearray(len(page))

    def has(self, at: int) -> bool:
        """Whether a byte is."""
        return bool(self._is[at])

    def add(self, begin: int, entry: tuple[bytes, bytes, int]) -> None:
        """An entry (key, value, first page of a large value or 0) that begins there."""
        key, value, first = entry
        size = NODE_BYTES + len(key) + (NUMBER_BYTES if first else len(value))
        self._is[begin : begin + size] = bytes(size * b"\1")[: len(self._is) - begin]


def _between(starts: Iterable[int], page: bytes) -> list[tuple[int, int]]:
    """From each start to the next, the last one to the end of the page."""
    return list(pairwise([*sorted(starts), len(page)]))


def _walked(page: bytes, known: Sequence[int], bounds: Sequence[int]) -> Iterator[int]:
    """Where entries begin, by their sizes, from the first one on. known: begins, ascending. bounds: those that no entry goes beyond."""
    upper = int.from_bytes(page[14:16], "little")
    at = upper if HEAD <= upper < len(page) else min(known, default=len(page))
    while at <= len(page) - NODE_BYTES:
        yield at
        low, high, flags, key_bytes = struct.unpack_from("<HHHH", page, at)
        size = NODE_BYTES + key_bytes + (NUMBER_BYTES if flags & _BIG else low | high << 16)
        after = bisect_right(bounds, at)
        at = min(at + size + size % 2, bounds[after] if after < len(bounds) else len(page))
