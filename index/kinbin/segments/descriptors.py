"""What kernels are told of a run, and how a local row number becomes an address.

The fresh rows are described in the same form (blocks of one row each), so that every kernel treats them as one more run.
Numbers read from stored bytes are checked here before they are used.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline
from kinbin.native.memory import prefetch, u8_at, u32_at, u64_at
from kinbin.native.records import Layout
from kinbin.rows.record import CHECK_AT, HEADER, four_are_sound

__all__ = ["CORRUPT", "FRESH_BANDS", "RUN", "answers_are_sound", "is_masked", "prefetch_offset", "prefetch_row", "row_place"]

U64 = np.uint64
FRESH_BANDS = 128
"""Bands of one hash by whose keys fresh rows are searched."""
CORRUPT = 1
"""A flag of kernels: a stored number is out of bounds, or an answered row fails its check."""
_MOST_LINES = U64(15)
"""Cache lines to ask for at once, besides the first."""

RUN = Layout(
    "RUN",
    rows=("count", "rows in the run"),
    live=("count", "rows that are not masked"),
    first=("count", "rows before this one are not scanned"),
    base=("count", "rows in the runs before"),
    r=("count", "hashes a band"),
    bands=("count", "bands"),
    slot_bits=("bits", "a band's table has 2**slot_bits slots"),
    posting_bytes=("bits", "2 or 4"),
    block_shift=("bits", "a block holds 2**block_shift rows"),
    offsets=("u32[]", "offset of each row in its block"),
    checks=("u32[]", "check of each row's record; 0: they are not listed"),
    blocks=("u64[]", "address of each block"),
    lengths=("u64[]", "bytes of each block"),
    tables=("u64[]", "address of each band's table"),
    mask=("u8[]", "one bit a row, set for rows that must not be answered"),
    keys=("count", "column of the run's first band key in the key matrix of the queries"),
    collect=("count", "rows with at least so many shared bands are collected while counting"),
    sketches=("u8[]", "64 bytes a row, where a space has such: see `segments.sketches`"),
    frame=("f64[]", "what they are made with; 0: nothing"),
    sizes=("u8[]", "with them: how many numbers each row has, 255 for more; zeros up to a multiple of 64"),
    fresh_keys=("u16[]", "keys of the fresh rows, 128 a row (fresh run only)"),
)


@inline
def is_masked(run, row):
    """Whether the row is deleted, replaced or filtered out."""
    return (u8_at(run.mask + U64(row >> 3)) >> np.uint8(row & 7)) & 1 != 0


@inline
def row_place(run, row):
    """Address of the row's record and the bytes left in its block (0 if its offset is out of bounds)."""
    block = U64(row) >> run.block_shift
    offset = U64(u32_at(run.offsets + U64(4 * row)))
    length = u64_at(run.lengths + U64(8) * block)
    room = np.int64(length) - np.int64(offset)
    return u64_at(run.blocks + U64(8) * block) + offset, room if room >= 16 else 0


@inline
def _listed_place(run, row):
    """The same; 0 bytes as well where another row's record is."""
    address, room = row_place(run, row)
    if run.checks != U64(0) and room >= HEADER and u32_at(address + U64(CHECK_AT)) != u32_at(run.checks + U64(4 * row)):
        return address, np.int64(0)
    return address, room


@inline
def prefetch_offset(run, row):
    """Ask for the row's offset."""
    prefetch(run.offsets + U64(4 * row))


@inline
def prefetch_row(run, row):
    """Ask for as much of the row's record (its offset should have arrived) as records of its block have in the mean."""
    block = U64(row) >> run.block_shift
    address = u64_at(run.blocks + U64(8) * block) + U64(u32_at(run.offsets + U64(4 * row)))
    lines = (u64_at(run.lengths + U64(8) * block) >> run.block_shift) >> U64(6)
    for line in range(1 + np.int64(min(lines, _MOST_LINES))):
        prefetch(address + U64(64 * line))


@inline
def answers_are_sound(segments, wide, best):
    """Whether the record of every answered row has the check it was written with, and is that of its row."""
    runs, rows = best.runs, best.rows
    last = len(runs) - 1
    while last >= 0 and runs[last] < 0:
        last -= 1
    for x in range(0, last + 1, 4):
        # Of an answer that is no multiple of four the last row is looked at more than once.
        a, b, c, d = x, min(x + 1, last), min(x + 2, last), min(x + 3, last)
        places = (
            _listed_place(segments[runs[a]], rows[a]),
            _listed_place(segments[runs[b]], rows[b]),
            _listed_place(segments[runs[c]], rows[c]),
            _listed_place(segments[runs[d]], rows[d]),
        )
        if not four_are_sound(places, wide):
            return False
    return True
