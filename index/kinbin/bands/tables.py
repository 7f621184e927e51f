"""Building a run's tables: one direct-address hash table for each band."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import strict

__all__ = ["fill_table"]


@strict
def fill_table(keys, slot_bits, offsets, postings):
    """One band's table: rows in the order of their key's top bits.

    keys (n,) uint32. Writes offsets (2**slot_bits + 1,) uint32 and postings (n,) uint16 or uint32: the
    rows of slot s are postings[offsets[s]:offsets[s+1]], ascending. Cost: about 6 ns a row.
    """
    shift = np.uint32(32 - slot_bits)
    slots = 1 << slot_bits
    for s in range(slots + 1):
        offsets[s] = 0
    for row in range(len(keys)):
        offsets[(keys[row] >> shift) + 1] += 1
    for s in range(slots):
        offsets[s + 1] += offsets[s]
    for row in range(len(keys)):
        slot = keys[row] >> shift
        postings[offsets[slot]] = row
        offsets[slot] += 1
    for s in range(slots, 0, -1):
        offsets[s] = offsets[s - 1]
    offsets[0] = 0
