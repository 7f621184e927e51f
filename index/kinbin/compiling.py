"""A process that compiles kernels (`warmup/pool.py` starts it): it imports what declares them, and no more of the library."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

from kinbin.codes.folded import CODER
from kinbin.native.specialisations import known
from kinbin.rows.scratch import SCRATCH
from kinbin.spaces.native import SPACE

__all__ = ["HANDED", "work"]

HANDED = (CODER, SCRATCH, SPACE)
"""Layouts of records that kernels take whose modules do not import them."""
_GARBAGE = 100_000
"""Objects between two collections of garbage: compiling makes many that stay for a while."""


def work() -> None:
    """Read places in the table, compile those kernels, say so. Of the first group somebody waits for; the others have time."""
    # What was imported stays: no collection needs to look through it.
    gc.freeze()
    gc.enable()
    gc.set_threshold(_GARBAGE, 20, 20)
    table = known()
    patient = False
    for line in sys.stdin:
        if not patient and table[int(line)].group != table[0].group:
            os.nice(10)
            patient = True
        # What does not compile is told to whoever calls it.
        with contextlib.suppress(Exception):
            table[int(line)].compile()
        sys.stdout.write("\n")
        sys.stdout.flush()
