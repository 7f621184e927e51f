"""A scan that may be given up: its rows are cut into parts of a tenth of a second, and it is looked between them who still waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import event_now, look
from kinbin.native.records import Record
from kinbin.segments.scan import scan
from kinbin.spaces.space import Space

__all__ = ["scan_in_parts"]

_PART_SECONDS = 0.1
_FIRST_ROWS, _FIRST_OBJECTS = 16_384, 128
"""Scores of the first part, whose time tells how many rows the next ones may have; of objects, any of whose distances may take long."""
_MOST_GROWTH = 16


def scan_in_parts(
    space: Space, segments: Record, asked: Record, scratch: Record, answers: Record, cancel: threading.Event | None = None
) -> int:
    """As `scan`, which it calls: the answers are the same. cancel: looked at beside that of the thread; without any, it is one call.

    Cost: 10 µs a part.

    Raises:
        SearchCancelled: the work space is not clean then.
    """
    if cancel is None and event_now() is None:
        return int(scan(space.record, segments, asked, scratch, answers))
    flags, more = 0, int(asked["more"][0])
    for part in _parts(segments, int(asked["count"][0]), _FIRST_ROWS if space.objects is None else _FIRST_OBJECTS):
        look(cancel)
        flags |= int(scan(space.record, part, asked, scratch, answers))
        # What the parts before found stays.
        asked["more"] = 1
    asked["more"] = more
    return flags


def _parts(segments: Record, queries: int, first: int) -> Iterator[Record]:
    """The segments with some of their rows, part after part, none left out. first: scores of the first; the time of each sizes the next."""
    begins = segments["first"].astype(np.int64)
    counts = np.maximum(segments["rows"].astype(np.int64) - begins, 0)
    total, at, size = int(counts.sum()), 0, max(1, first // max(1, queries))
    if total <= size:
        yield segments
        return
    starts = np.cumsum(counts) - counts
    while at < total:
        began = time.perf_counter()
        yield _between(segments, begins, np.clip(at - starts, 0, counts), np.clip(at + size - starts, 0, counts))
        at += size
        size = max(1, int(size * min(_MOST_GROWTH, _PART_SECONDS / max(time.perf_counter() - began, 1e-9))))


def _between(segments: Record, begins: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> Record:
    """Of each segment the rows from one on and before another; others are passed over, and what was answered before stays within."""
    out = segments.copy()
    empty = high <= low
    out["first"] = np.where(empty, segments["rows"], begins + low)
    out["rows"] = np.where(empty, segments["rows"], begins + high)
    # As far as it tells whether most rows are masked.
    out["live"] = segments["live"] * out["rows"] // np.maximum(segments["rows"], 1)
    return out
