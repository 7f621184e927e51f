"""The rows of one state: its runs and the rows that are fresh, as kernels are told of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.native.records import Record
from kinbin.segments.descriptors import FRESH_BANDS, RUN
from kinbin.segments.fresh import Fresh
from kinbin.segments.run import Run

__all__ = ["Segments"]


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Runs and fresh rows."""

    runs: tuple[Run, ...]
    fresh: Fresh
    live_rows: int
    """Distinct vectors that can be answered."""
    total_rows: int
    """Rows in the runs and the journal, dead ones included."""
    _described: list[Record] = field(default_factory=list, init=False)

    @property
    def descriptors(self) -> Record:
        """What kernels are told of all runs, and of the fresh rows behind them. Made when a search first asks: writers need none."""
        if not self._described:
            # Two threads may make it at once; they are the same.
            self._described.append(_described(self.runs, self.fresh))
        return self._described[0]

    def bases(self) -> list[tuple[Run, int]]:
        """Each run, with the rows of the runs before it."""
        return [(run, int(base)) for run, base in zip(self.runs, self.descriptors["base"], strict=False)]

    def addresses(self, places: NDArray[np.integer[Any]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Addresses and rooms of sealed rows given by their places: rows of the runs before, plus the local row."""
        addresses, rooms = np.empty(len(places), np.uint64), np.empty(len(places), np.int64)
        signed = places.astype(np.int64)
        for run, base in self.bases():
            here = (signed >= base) & (signed < base + run.rows)
            addresses[here], rooms[here] = run.places(signed[here] - base)
        return addresses, rooms

    def find(self, row: int) -> tuple[int, int, int]:
        """Of a row number: the place of its run in `runs` (len(runs): fresh), its address and its room.

        Raises:
            CorruptData: no run has it.
        """
        for i, run in enumerate(self.runs):
            if int(run.row_numbers[0]) <= row <= int(run.row_numbers[-1]):
                local = run.local(row)
                if local >= 0:
                    return i, *run.place(local)
        local_fresh = self.fresh.locals(np.array([row], np.uint64))
        if len(local_fresh):
            return len(self.runs), int(self.fresh.addresses[local_fresh[0]]), int(self.fresh.rooms[local_fresh[0]])
        raise CorruptData(f"row {row} is in no run")


def _described(runs: tuple[Run, ...], fresh: Fresh) -> Record:
    """What kernels are told of runs, and of the fresh rows behind them."""
    table = RUN.zeros(len(runs) + 1)
    base = 0
    for place, run in enumerate(runs):
        header = run.header
        RUN.fill(
            table[place:], rows=run.rows, live=run.live, base=base, r=header.r, bands=header.bands, slot_bits=header.slot_bits,
            posting_bytes=header.posting_bytes, block_shift=header.block_shift, offsets=run.offsets, blocks=run.blocks,
            lengths=run.lengths, tables=run.tables, mask=run.dead.bits, collect=1, checks=run.checks if len(run.checks) else 0,
        )  # fmt: skip
        base += run.rows
    RUN.fill(
        table[-1:], rows=fresh.rows, live=fresh.live, base=base, r=1, bands=FRESH_BANDS, offsets=fresh.zeros, blocks=fresh.addresses,
        lengths=fresh.rooms, mask=fresh.dead.bits, collect=1, fresh_keys=fresh.keys,
    )  # fmt: skip
    return table
