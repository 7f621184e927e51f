"""Texts of the same set of shingles: found by a hash of it, and compared byte by byte."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inner, strict

__all__ = ["note_first"]

_SORTED = 1 << 21
"""Hashes that are sorted at a time: 48 MB."""


def note_first(records: NDArray[np.uint8], ends: NDArray[np.uint64], content: NDArray[np.uint64], out: NDArray[np.uint32]) -> None:
    """Write to out (n,) of each text the first of the same record; a text without one is its own.

    records: end to end, those of text i up to ends[i]. content: (n,) hashes of them. Cost: 0.3 µs a text.
    """
    n = len(ends)
    parts = max(1, -(-n // _SORTED))
    for part in range(parts):
        places, hashes = _in_part(content, part, parts)
        order = np.argsort(hashes, kind="stable")
        _note(records, ends, hashes[order], places[order], out)


def _in_part(content: NDArray[np.uint64], part: int, parts: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The places and hashes of one part of the range of hashes."""
    if parts == 1:
        return np.arange(len(content)), np.asarray(content)
    places, hashes = [], []
    for start in range(0, len(content), _SORTED):
        some = np.asarray(content[start : start + _SORTED])
        here = np.flatnonzero((some >> np.uint64(40)) % np.uint64(parts) == part)
        places.append(here + start)
        hashes.append(some[here])
    return np.concatenate(places), np.concatenate(hashes)


@strict
def _note(records, ends, hashes, places, out):
    """The same of texts in the order of their hashes, and of their numbers among equal ones."""
    i = 0
    while i < len(places):
        j = i
        while j < len(places) and hashes[j] == hashes[i]:
            out[places[j]] = np.uint32(places[j])
            # Records of equal hashes are nearly always equal: each is held against the firsts before it.
            for x in range(i, j):
                if out[places[x]] == places[x] and _equal(records, ends, places[x], places[j]):
                    out[places[j]] = np.uint32(places[x])
                    break
            j += 1
        i = j


@inner
def _equal(records, ends, one, other):
    a = ends[one - 1] if one > 0 else np.uint64(0)
    b = ends[other - 1] if other > 0 else np.uint64(0)
    size = ends[one] - a
    if size == np.uint64(0) or ends[other] - b != size:
        return False
    x = np.int64(0)
    while x < np.int64(size) and records[np.int64(a) + x] == records[np.int64(b) + x]:
        x += 1
    return x == np.int64(size)
