"""All pairs of the rows of a source that score at least so much, or the clusters that these pairs make.

    rows ──▶ hashed: L keys a row ──▶ sorted: buckets of rows that share a key ──▶ joined: pairs of a bucket are scored, each once

Memory: 28 bytes a row, 8 bytes a row and band that are not alone in their bucket (up to `Budget.places` of them at a time, otherwise
in several passes), and 4 bytes a row and band for the keys, which lie in a file once they pass `Budget.keys`.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.duplicates.buckets import Buckets, all_pairs, buckets_of
from kinbin.duplicates.joining import COMPARED, DONE, FLAGS, FOUND, LISTED, MOST_SCORED, join_rows
from kinbin.duplicates.planning import Plan
from kinbin.errors import CorruptData, SearchCancelled
from kinbin.hashing import band_keys
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.source import CHUNK, Source, iterate_rows, read_records
from kinbin.spaces.space import Space
from kinbin.storage.errors import translated
from kinbin.storage.workspace import reserve

__all__ = ["Budget", "Join", "Pairs", "chunks_of", "folded_keys"]

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
"""Rows a < b, by their places in the source, and what each pair scores."""
Codes = Callable[[Rows, int, int], NDArray[np.uint32]]
"""(rows, r, bands) → codes (n, r, bands)."""
Progress = Callable[[str, int, int], object]
"""Told of (stage, rows done, rows)."""
Zeros = Callable[[int, Any], NDArray[Any]]
"""(size, dtype) → zeros."""
_ROOM = 65_536
"""Pairs that are told at a time."""
_SLICE = 500_000
"""Pairs that are scored before somebody is asked whether to go on: some 50 ms, of vectors."""
_LOOKED_AT = 1 << 20
_FOLD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a join may hold in memory, besides some bytes a row."""

    places: int = 16_000_000
    """Places in buckets, of 8 bytes; twice that while they are listed."""
    keys: int = 256 << 20
    """Bytes of keys; more of them lie in a file."""
    row_bytes: int | None = None
    """Bytes of rows that are read at a time, where the rooms of a source are the sizes of its rows. None: 4,096 rows."""
    zeros: Zeros = np.zeros
    """Makes what grows with the number of rows."""


def folded_keys(codes: NDArray[np.uint32], plan: Plan) -> NDArray[np.uint32]:
    """Keys (n, bands) of codes (n, r, bands · fold): `fold` neighbouring bands of r hashes make one."""
    keys = band_keys(codes, plan.r, plan.bands * plan.fold)
    if plan.fold == 1:
        return keys
    parts = keys.reshape(len(keys), plan.bands, plan.fold).astype(np.uint64)
    out = parts[:, :, 0]
    for x in range(1, plan.fold):
        out = (out * _FOLD) ^ (parts[:, :, x] << np.uint64(32)) ^ (out >> np.uint64(29))
    return ((out * _FOLD) >> np.uint64(32)).astype(np.uint32)


def chunks_of(which: NDArray[np.int64], rooms: NDArray[np.int64], budget: Budget) -> Iterator[NDArray[np.int64]]:
    """Rows in turn, so many that they may be read at a time: at least one."""
    first = 0
    while first < len(which):
        some = which[first : first + CHUNK]
        if budget.row_bytes is not None:
            some = some[: max(1, int(np.searchsorted(np.cumsum(rooms[some]), budget.row_bytes, "right")))]
        yield some
        first += len(some)


class Join:
    """One job over the rows of a source, which stay readable meanwhile. For one thread."""

    def __init__(
        self, source: Source, space: Space, wide: bool, plan: Plan, least: float, *, budget: Budget | None = None,
        cancel: threading.Event | None = None, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """least: the score that pairs have, or more."""
        self.plan = plan
        self.compared = 0
        self._source, self._space, self._wide = source, space, wide
        self._least = least
        self._budget = budget or Budget()
        self._cancel = cancel
        self._progress = progress
        self._counts = np.zeros(5, np.int64)
        self._found = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64), np.empty(_ROOM), self._counts

    @contextmanager
    def hashed(self, codes: Codes, folder: Path | None) -> Iterator[NDArray[np.uint32]]:
        """The keys (bands, n) of all rows, each of which is proved on the way. folder: of the file that keys lie in that are too many."""
        plan, n = self.plan, len(self._source)
        with _work_space(plan.bands, n, self._budget.keys, folder) as keys:
            for start, rows in iterate_rows(self._source, self._wide):
                if plan.bands:
                    keys[:, start : start + len(rows)] = folded_keys(codes(rows, plan.r, plan.bands * plan.fold), plan).T
                self._tell("hashing", start + len(rows))
            yield keys

    def pairs(self, keys: NDArray[np.uint32]) -> Iterator[Pairs]:
        """Every pair that is found, once."""
        for buckets in self._passes(keys):
            for a, b, scores in self._joined(buckets, np.empty(0, np.uint32)):
                # Who shares a band of an earlier pass was told then.
                fresh = np.ones(len(a), np.bool_)
                for band in range(buckets.bands.start):
                    fresh &= keys[band][a] != keys[band][b]
                yield a[fresh], b[fresh], scores[fresh]

    def clusters(self, keys: NDArray[np.uint32], parents: NDArray[np.uint32]) -> Iterator[Pairs]:
        """Pairs that join the clusters of their rows: n less the number of clusters. parents (n,): each row's own number at first.

        At the end following parents leads each row to the first row of its cluster.
        """
        for buckets in self._passes(keys, whole=False):
            yield from self._joined(buckets, parents)

    def _passes(self, keys: NDArray[np.uint32], *, whole: bool = True) -> Iterator[Buckets]:
        if len(self._source) < 2:
            return
        if not self.plan.bands:
            yield all_pairs(len(self._source))
            return
        yield from buckets_of(keys, self._budget.places, whole=whole, zeros=self._budget.zeros)

    def _joined(self, buckets: Buckets, parents: NDArray[np.uint32]) -> Iterator[Pairs]:
        """What one pass finds."""
        source = self._source
        scratch = Scratch(self._wide)
        marks = self._budget.zeros(len(source), np.uint32), parents, np.empty(LISTED, np.int64)
        lists = buckets.starts, buckets.of_rows, buckets.bounds, buckets.members, buckets.merged
        for some in self._walked(buckets.starts):
            rows = read_records(source.addresses[some], source.rooms[some], self._wide)
            scratch.look_up(rows.most_nonzeros)
            if self._space.objects is not None:
                scratch.work(self._space.objects.room(rows))
            queries = queries_record(rows)
            self._counts[DONE] = 0
            while self._counts[DONE] < len(some):
                self._counts[MOST_SCORED] = self._counts[COMPARED] + _SLICE
                at = source.addresses, source.rooms, some
                join_rows(self._space.record, queries, at, lists, marks, self._least, scratch.record, self._found)
                self.compared = int(self._counts[COMPARED])
                if self._counts[FLAGS]:
                    self._space.raise_failure()
                    raise CorruptData("a stored row is damaged")
                count = int(self._counts[FOUND])
                a, b, scores, _ = self._found
                if count:
                    yield a[:count].copy(), b[:count].copy(), scores[:count].copy()
                self._tell("comparing", int(some[min(int(self._counts[DONE]), len(some) - 1)]) + 1)

    def _walked(self, starts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The rows that are in a bucket, some at a time."""
        for first in range(0, len(starts) - 1, _LOOKED_AT):
            which = first + np.flatnonzero(np.diff(starts[first : first + _LOOKED_AT + 1])).astype(np.int64)
            yield from chunks_of(which, self._source.rooms, self._budget)

    def _tell(self, stage: str, done: int) -> None:
        if self._progress is not None:
            self._progress(stage, done, len(self._source))
        if self._cancel is not None and self._cancel.is_set():
            raise SearchCancelled("the search for duplicates was cancelled")


@contextmanager
def _work_space(bands: int, n: int, most: int, folder: Path | None) -> Iterator[NDArray[np.uint32]]:
    """(bands, n) uint32, in memory or in an unnamed file.

    Raises:
        StorageFull: the disk has no room for it.
    """
    if 4 * bands * n <= most:
        yield np.empty((bands, n), np.uint32)
        return
    with ExitStack() as stack:
        with translated():
            file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            reserve(file.fileno(), 4 * bands * n)
            keys = np.memmap(file, np.uint32, "r+", shape=(bands, n))
        yield keys
