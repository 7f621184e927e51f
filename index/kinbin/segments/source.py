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


def gather(runs: tuple[Run, ...], fresh: Fresh | None) -> Source:
    """The live rows of some neighbouring runs and, at the end, of the journal."""
    numbers, addresses, rooms = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for run in runs:
        alive = run.dead.living()
        places, room = run.places(alive)
        numbers.append(run.row_numbers[alive])
        addresses.append(places)
        rooms.append(room)
    if fresh is not None:
        alive = fresh.dead.living()
        numbers.append(fresh.row_numbers[alive])
        addresses.append(fresh.addresses[alive])
        rooms.append(fresh.rooms[alive].astype(np.int64))
    return Source(np.concatenate(numbers), np.concatenate(addresses), np.concatenate(rooms))


def read_records(addresses: NDArray[np.uint64], rooms: NDArray[np.int64], wide: bool) -> Rows:
    """Records as canonical rows, each checked.

    Raises:
        CorruptData: a record does not fit its block or fails its check.
    """
    indptr = records_nnz(addresses, rooms, wide)
    if indptr[-1] < 0:
        raise CorruptData("a stored row does not fit its block: the files are damaged; restore a copy")
    features = np.empty(indptr[-1], np.uint64)
    values = np.empty(indptr[-1], np.float32)
    norms = np.empty(len(addresses))
    if unpack_rows(addresses, wide, indptr, features, values, norms) >= 0:
        raise CorruptData("a stored row fails its check: the files are damaged; restore a copy")
    return Rows(indptr, features, values, norms)


def iterate_rows(source: Source, wide: bool) -> Iterator[tuple[int, Rows]]:
    """The source's rows in turn, at most 4,096 at once, each checked: (place of the first, rows)."""
    for start in range(0, len(source), CHUNK):
        stop = min(start + CHUNK, len(source))
        yield start, read_records(source.addresses[start:stop], source.rooms[start:stop], wide)
