"""Stored rows as sources of new runs: which live, where their records lie, and reading them back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.hashing import Sampler
from kinbin.rows.record import records_nnz, unpack_rows
from kinbin.rows.rows import Rows
from kinbin.segments.fresh import Fresh
from kinbin.segments.run import Run
from kinbin.spaces.space import Space
from kinbin.storage.workspace import IN_MEMORY, WorkSpace, pieces

__all__ = ["CHUNK", "Recipe", "Source", "gather", "iterate_rows", "read_records"]

CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all runs of a collection have in common; r and bands None: chosen for each run."""

    space: Space
    sampler: Sampler
    wide: bool
    r: int | None
    bands: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The live rows that a new run takes, by ascending row number: where their records lie."""

    row_numbers: NDArray[np.uint64]
    addresses: NDArray[np.uint64]
    rooms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row_numbers)

    def taken(self, which: NDArray[np.int64], room: WorkSpace = IN_MEMORY) -> Source:
        """Some of the rows, in this order."""
        out = Source(room.empty(len(which), np.uint64), room.empty(len(which), np.uint64), room.empty(len(which), np.int64))
        for first, past in pieces(len(which)):
            some = which[first:past]
            out._put(first, self.row_numbers[some], self.addresses[some], self.rooms[some])
        return out

    def _put(self, place: int, numbers: NDArray[np.uint64], addresses: NDArray[np.uint64], rooms: NDArray[np.int64]) -> int:
        """Write rows from a place on. Returns the place after them."""
        past = place + len(numbers)
        self.row_numbers[place:past], self.addresses[place:past], self.rooms[place:past] = numbers, addresses, rooms
        return past


def gather(runs: tuple[Run, ...], fresh: Fresh | None, room: WorkSpace = IN_MEMORY) -> Source:
    """The live rows of some neighbouring runs and, at the end, of the journal. room: for 24 bytes a row."""
    count = sum(run.live for run in runs) + (fresh.dead.live if fresh is not None else 0)
    out = Source(room.empty(count, np.uint64), room.empty(count, np.uint64), room.empty(count, np.int64))
    place = 0
    for run in runs:
        for first, past in pieces(run.rows):
            alive = run.dead.living(first, past)
            addresses, rooms = run.places(alive)
            place = out._put(place, run.row_numbers[alive], addresses, rooms)
    if fresh is not None:
        alive = fresh.dead.living()
        out._put(place, fresh.row_numbers[alive], fresh.addresses[alive], fresh.rooms[alive].astype(np.int64))
    return out


def read_records(addresses: NDArray[np.uint64], rooms: NDArray[np.int64], wide: bool) -> Rows:
    """Records as canonical rows, each checked.

    Raises:
        CorruptData: a record does not fit its block or fails its check.
    """
    indptr = records_nnz(addresses, rooms, wide)
    if indptr[-1] < 0:
        raise CorruptData("a stored row does not fit its block, or stands in the place of another")
    features = np.empty(indptr[-1], np.uint64)
    values = np.empty(indptr[-1], np.float32)
    norms = np.empty(len(addresses))
    if unpack_rows(addresses, wide, indptr, features, values, norms) >= 0:
        raise CorruptData("a stored row fails its check")
    return Rows(indptr, features, values, norms)


def iterate_rows(source: Source, wide: bool) -> Iterator[tuple[int, Rows]]:
    """The source's rows in turn, at most 4,096 at once, each checked: (place of the first, rows)."""
    for start in range(0, len(source), CHUNK):
        stop = min(start + CHUNK, len(source))
        yield start, read_records(source.addresses[start:stop], source.rooms[start:stop], wide)
