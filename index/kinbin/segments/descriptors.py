"""What kernels are told of a run: one row of 17 uint64, and how a local row number becomes an address.

The fresh rows are described in the same form (blocks of one row each), so that every kernel below
treats them as one more run. Numbers read from stored bytes are checked here before they are used.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline
from kinbin.native.memory import prefetch, u8_at, u32_at, u64_at
from kinbin.rows.record import four_are_sound

__all__ = ["CORRUPT", "FIELDS", "FRESH_BANDS", "RUN_WIDTH"]

U64 = np.uint64
FRESH_BANDS = 128
"""Bands of one hash by whose keys fresh rows are searched."""
CORRUPT = 1
"""A flag of kernels: a stored number is out of bounds, or an answered row fails its check."""
_MOST_LINES = U64(15)
"""Cache lines to ask for at once, besides the first."""

FIELDS = {
    name: place
    for place, name in enumerate(
        (
            "rows",  # rows in the run
            "r",  # hashes a band
            "bands",  # bands
            "slot_bits",  # a band's table has 2**slot_bits slots
            "posting_bytes",  # 2 or 4
            "block_shift",  # a block holds 2**block_shift rows
            "offsets",  # address: u32 offset of each row in its block
            "blocks",  # address: u64 address of each block
            "lengths",  # address: u64 bytes of each block
            "tables",  # address: u64 address of each band's table
            "mask",  # address: one bit a row, set for rows that must not be answered
            "keys",  # column of the run's first band key in the key matrix of the queries
            "collect",  # rows with at least so many shared bands are collected while counting
            "base",  # rows in the runs before
            "fresh_keys",  # address: u16 keys of the fresh rows, 128 a row (fresh run only)
            "live",  # rows that are not masked
            "first",  # rows before this one are not scanned
        )
    )
}
RUN_WIDTH = 17

ROWS, R, BANDS, SLOT_BITS, POSTING_BYTES, SHIFT, OFFSETS, BLOCKS = range(8)
LENGTHS, TABLES, MASK, KEYS, COLLECT, BASE, FRESH_KEYS, LIVE, FIRST = range(8, 17)


@inline
def is_masked(run, row):
    """Whether the row is deleted, replaced or filtered out."""
    return (u8_at(run[MASK] + U64(row >> 3)) >> np.uint8(row & 7)) & 1 != 0


@inline
def row_place(run, row):
    """Address of the row's record and the bytes left in its block (0 if its offset is out of bounds)."""
    block = U64(row) >> run[SHIFT]
    offset = U64(u32_at(run[OFFSETS] + U64(4 * row)))
    length = u64_at(run[LENGTHS] + U64(8) * block)
    room = np.int64(length) - np.int64(offset)
    return u64_at(run[BLOCKS] + U64(8) * block) + offset, room if room >= 16 else 0


@inline
def prefetch_offset(run, row):
    """Ask for the row's offset."""
    prefetch(run[OFFSETS] + U64(4 * row))


@inline
def prefetch_row(run, row):
    """Ask for as much of the row's record (its offset should have arrived) as records of its block have in the mean."""
    block = U64(row) >> run[SHIFT]
    address = u64_at(run[BLOCKS] + U64(8) * block) + U64(u32_at(run[OFFSETS] + U64(4 * row)))
    lines = (u64_at(run[LENGTHS] + U64(8) * block) >> run[SHIFT]) >> U64(6)
    for line in range(1 + np.int64(min(lines, _MOST_LINES))):
        prefetch(address + U64(64 * line))


@inline
def answers_are_sound(descriptors, wide, runs, rows):
    """Whether the record of every answered row has the check it was written with."""
    last = len(runs) - 1
    while last >= 0 and runs[last] < 0:
        last -= 1
    for x in range(0, last + 1, 4):
        # Of an answer that is no multiple of four the last row is looked at more than once.
        b, c, d = min(x + 1, last), min(x + 2, last), min(x + 3, last)
        address_a, room_a = row_place(descriptors[runs[x]], rows[x])
        address_b, room_b = row_place(descriptors[runs[b]], rows[b])
        address_c, room_c = row_place(descriptors[runs[c]], rows[c])
        address_d, room_d = row_place(descriptors[runs[d]], rows[d])
        if not four_are_sound(address_a, address_b, address_c, address_d, room_a, room_b, room_c, room_d, wide):
            return False
    return True
