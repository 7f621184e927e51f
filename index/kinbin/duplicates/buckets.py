"""Buckets of two rows or more: the rows that share a key, band by band, as joins walk them.

Most rows are alone with their key in most bands, and are left out. What is kept takes 8 bytes a row and band that is not; bands are
taken until that passes the memory they may have, and the rest in a later pass.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import strict

__all__ = ["Buckets", "all_pairs", "buckets_of"]

_BUFFER_ROWS = 1 << 22
"""Rows whose keys are sorted at a time: 32 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Buckets of some bands, and of each row the buckets that it is in."""

    bands: range
    starts: NDArray[np.int64]
    """(n + 1,) of each row its first place in `of_rows`."""
    of_rows: NDArray[np.uint32]
    bounds: NDArray[np.int64]
    """(buckets + 1,) of each bucket its first place in `members`."""
    members: NDArray[np.uint32]
    """Rows, ascending within a bucket."""
    merged: NDArray[np.uint8]
    """(buckets,) whether all its rows are known to be of one cluster."""


def all_pairs(n: int) -> Buckets:
    """One bucket of all rows."""
    rows = np.arange(n, dtype=np.uint32)
    bounds = np.array([0, n], np.int64)
    return Buckets(range(0), np.arange(n + 1), np.zeros(n, np.uint32), bounds, rows, np.zeros(1, np.uint8))


def buckets_of(
    keys: NDArray[np.uint32], most: int, *, whole: bool = True, zeros: Callable[[int, Any], NDArray[Any]] = np.zeros
) -> Iterator[Buckets]:
    """The buckets of keys (bands, n), several bands at a time, in order: about `most` rows in all their buckets, or one band.

    whole: bands are not cut; otherwise what is beyond `most` may be a part of a band. zeros(size, dtype) makes what grows with n.
    Cost: 15 to 25 ns a key.
    """
    bands, n = keys.shape
    first = 0
    parts: list[tuple[NDArray[np.uint32], NDArray[np.int64]]] = []
    held = 0
    for band in range(bands):
        for members, sizes in _band(keys[band]):
            parts.append((members, sizes))
            held += len(members)
            if not whole and held >= most:
                yield _listed(range(first, band + 1), parts, n, zeros)
                first, parts, held = band, [], 0
        if band + 1 == bands or held >= most:
            yield _listed(range(first, band + 1), parts, n, zeros)
            first, parts, held = band + 1, [], 0


def _band(keys: NDArray[np.uint32]) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """(rows, sizes of their buckets) of one band: of a part of the keys at a time, so that sorting takes no more than a buffer."""
    n = len(keys)
    parts = max(1, -(-n // _BUFFER_ROWS))
    for part in range(parts):
        packed = _packed(keys, part, parts)
        packed.sort()
        members = np.empty(len(packed), np.uint32)
        sizes = np.empty(len(packed) // 2, np.int64)
        count, buckets = _shared_keys(packed, members, sizes)
        yield members[:count].copy(), sizes[:buckets].copy()


def _packed(keys: NDArray[np.uint32], part: int, parts: int) -> NDArray[np.uint64]:
    """Key and row of the keys of one part of the range."""
    low, high = (part << 32) // parts, ((part + 1) << 32) // parts
    found = []
    for start in range(0, len(keys), _BUFFER_ROWS):
        some = keys[start : start + _BUFFER_ROWS].astype(np.uint64)
        here = np.flatnonzero((some >= low) & (some < high))
        found.append((some[here] << np.uint64(32)) | (here + start).astype(np.uint64))
    return np.concatenate(found)


@strict
def _shared_keys(packed, members, sizes):
    """Write the rows of keys that two rows or more have, and how many have each. Returns how many of both."""
    count = 0
    buckets = 0
    i = 0
    while i < len(packed):
        key = packed[i] >> np.uint64(32)
        j = i + 1
        while j < len(packed) and packed[j] >> np.uint64(32) == key:
            j += 1
        if j - i > 1:
            for x in range(i, j):
                members[count] = np.uint32(packed[x] & np.uint64(0xFFFFFFFF))
                count += 1
            sizes[buckets] = j - i
            buckets += 1
        i = j
    return count, buckets


def _listed(
    bands: range, parts: list[tuple[NDArray[np.uint32], NDArray[np.int64]]], n: int, zeros: Callable[[int, Any], NDArray[Any]]
) -> Buckets:
    members = np.concatenate([np.empty(0, np.uint32), *(part[0] for part in parts)])
    sizes = np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])
    parts.clear()
    bounds = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    starts = zeros(n + 1, np.int64)
    of_rows = np.empty(len(members), np.uint32)
    _list_by_row(bounds, members, starts, of_rows)
    return Buckets(bands, starts, of_rows, bounds, members, np.zeros(max(1, len(sizes)), np.uint8))


@strict
def _list_by_row(bounds, members, starts, of_rows):
    """Fill starts (n + 1,), zeros before, and of_rows: the buckets of each row, ascending."""
    for member in members:
        starts[member] += 1
    total = 0
    for row in range(len(starts)):
        total += starts[row]
        starts[row] = total
    for bucket in range(len(bounds) - 2, -1, -1):
        for place in range(bounds[bucket], bounds[bucket + 1]):
            row = members[place]
            starts[row] -= 1
            of_rows[starts[row]] = bucket
