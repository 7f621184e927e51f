"""Sketches of the objects of a run: 64 bytes each, by which scans pass over most that are too far (`spaces.space.Objects`)."""

# mypy: disable-error-code="no-untyped-def,arg-type"
from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from kinbin.native.calls import call_score
from kinbin.native.jit import strict
from kinbin.native.memory import u32_at
from kinbin.rows.record import HEADER, record_bytes
from kinbin.segments.run import Run
from kinbin.spaces.space import Space

__all__ = ["SKETCH", "sketches_of"]

U64 = np.uint64
SKETCH = 64
"""Bytes of one."""
_MAKING = threading.Lock()


@strict
def _sketch_rows(space, addresses, rooms, out, sizes):
    """Write the sketch of each row, (n, 64), and its size, (n,); zeros of one that does not fit its room."""
    base = U64(out.ctypes.data)
    for i in range(len(addresses)):
        if rooms[i] < HEADER:
            continue
        nnz = np.int64(u32_at(addresses[i] + U64(8)))
        if nnz < 1 or record_bytes(nnz, False) > rooms[i]:
            continue
        values = addresses[i] + U64(HEADER + (2 * nnz + 3) // 4 * 4)
        call_score(space[0].sketch, values, nnz, base + U64(SKETCH * i))
        sizes[i] = np.uint8(min(nnz, 255))


def sketches_of(run: Run, space: Space) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """(rows, 64) the sketches of a run's rows, and their sizes, kept with the run; both are zeros up to a multiple of 64 rows.

    Cost: 0.2 µs a string of 60 characters, once in a process; 65 bytes a row.
    """
    if "sizes" not in run.made:
        with _MAKING:
            if "sizes" not in run.made:
                padded = -(-run.rows // 64) * 64
                sketches, sizes = np.zeros((padded, SKETCH), np.uint8), np.zeros(padded, np.uint8)
                _sketch_rows(space.record, *run.places(np.arange(run.rows)), sketches, sizes)
                run.made["sketches"], run.made["sizes"] = sketches, sizes
    return run.made["sketches"], run.made["sizes"]
