"""Sketches of the objects of a run: 64 bytes each, by which scans pass over most that are too far (`spaces.space.Sketch`)."""

# mypy: disable-error-code="no-untyped-def,arg-type"
from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.native.calls import call_sketch
from kinbin.native.jit import inner, strict
from kinbin.native.memory import address_of, float32_at, u32_at
from kinbin.rows.record import HEADER, record_bytes
from kinbin.segments.run import Run
from kinbin.spaces.space import Space

__all__ = ["SKETCH", "Sketches", "sketches_of"]

U64 = np.uint64
SKETCH = 64
"""Bytes of one."""
_SAMPLED, _MOST_NUMBERS = 256, 1_024
"""Rows that a frame is made of, and numbers of each."""
_MAKING = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Sketches:
    """Those of a run's rows; zeros up to a multiple of 64 rows."""

    values: NDArray[np.uint8]
    """(rows, 64)."""
    sizes: NDArray[np.uint8]
    """(rows,) how many numbers each has, 255 for more."""
    frame: NDArray[np.float64]
    """What they were made with; empty: nothing."""

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of the three; 0: there is no frame."""
        return address_of(self.values), address_of(self.sizes), address_of(self.frame) if len(self.frame) else 0


@inner
def _numbers(address, room):
    """(where the numbers of a record begin, how many there are); 0 of one that does not fit its room."""
    if room < HEADER:
        return U64(0), 0
    nnz = np.int64(u32_at(address + U64(8)))
    if nnz < 1 or record_bytes(nnz, False) > room:
        return U64(0), 0
    return address + U64(HEADER + (2 * nnz + 3) // 4 * 4), nnz


@strict
def _sketch_rows(space, addresses, rooms, frame, out, sizes):
    """Write the sketch of each row, (n, 64), and its size, (n,); zeros of one that does not fit its room."""
    base = U64(out.ctypes.data)
    for i in range(len(addresses)):
        values, nnz = _numbers(addresses[i], rooms[i])
        if nnz > 0:
            call_sketch(space[0].sketch, values, nnz, U64(frame), base + U64(SKETCH * i))
            sizes[i] = np.uint8(min(nnz, 255))


@strict
def _sample(addresses, rooms, out, starts):
    """Lay the first numbers of some rows end to end; starts (rows + 1,)."""
    past = 0
    for i in range(len(addresses)):
        starts[i] = past
        values, nnz = _numbers(addresses[i], rooms[i])
        for x in range(min(nnz, _MOST_NUMBERS)):
            out[past] = float32_at(values + U64(4 * x))
            past += 1
    starts[len(addresses)] = past


def _frame_of(run: Run, space: Space) -> NDArray[np.float64]:
    """What sketches of a run are made with."""
    made = space.objects.sketch.frame  # type: ignore[union-attr]
    if made is None:
        return np.empty(0)
    chosen = np.unique(np.linspace(0, run.rows - 1, min(run.rows, _SAMPLED)).astype(np.int64))
    values, starts = np.empty(len(chosen) * _MOST_NUMBERS, np.float32), np.empty(len(chosen) + 1, np.int64)
    _sample(*run.places(chosen), values, starts)
    return made(values[: starts[-1]], starts)


def sketches_of(run: Run, space: Space) -> Sketches:
    """Sketches of a run, kept with it.

    Cost: 0.2 µs a string of 60 characters, 1 µs a set of 40 points, once in a process; 65 bytes a row.
    """
    if "sketches" not in run.made:
        with _MAKING:
            if "sketches" not in run.made:
                padded = -(-run.rows // 64) * 64
                sketches, sizes = np.zeros((padded, SKETCH), np.uint8), np.zeros(padded, np.uint8)
                frame = _frame_of(run, space)
                found = Sketches(sketches, sizes, frame)
                _sketch_rows(space.record, *run.places(np.arange(run.rows)), found.addresses[2], sketches, sizes)
                run.made["sketches"] = found
    known: Sketches = run.made["sketches"]
    return known
