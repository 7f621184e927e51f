"""Rows as packed entries, and how far an entry list is from a row laid out in a table: codes for sparse rows of many features.

A feature and its sign are hashed into 2**16 slots, its weight is rounded to 16 bits; both make one 32-bit entry. Rounding is
accounted for, and features that share a slot only come nearer: a distance less both errors is a lower bound, as for codes of bytes.

A packed code, in words of 32 bits: the number of quads (of 4 words, these two among them), the sum of the weights,
entries (weight in the upper half), zeros up to a whole quad.
A table: 2**16 weights of 16 bits by slot, then their sum in 32 bits.
"""

# mypy: disable-error-code="no-untyped-def,assignment,arg-type"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, strict
from kinbin.native.memory import u16_at, u32_at, u64_at
from kinbin.rows.asked import asked_of

__all__ = ["QUAD", "clear_entries", "clear_slots", "entry_distance", "fill_entries", "fill_slots", "pack", "packed_slot"]

U64 = np.uint64
QUAD = 4
"""Words; a packed code is whole quads."""
_PACKED_SLOTS = 1 << 16
_MOST_WEIGHT = 65535.0
_MIX = U64(0x9E3779B97F4A7C15)
_SUM = U64(2 * _PACKED_SLOTS)


@inline
def packed_slot(feature, negative):
    """The slot of a feature of this sign: 16 bits of a hash."""
    return np.int64(((feature * U64(2) + U64(negative)) * _MIX) >> U64(48))


@inline
def _put_sum(table, total):
    """Write the sum of a table's weights."""
    table[_PACKED_SLOTS] = np.uint16(total & 0xFFFF)
    table[_PACKED_SLOTS + 1] = np.uint16(total >> 16)


@inline
def fill_slots(features, values, norm, step, table):
    """Lay a row, divided by its norm, out in a clear table. Returns its error: at least what rounding changed, in L1."""
    scale = 1.0 / norm
    error = 0.0
    total = 0
    for x in range(len(features)):
        weight = abs(values[x]) * scale
        slot = packed_slot(features[x], values[x] < 0)
        had = np.int64(table[slot])
        rounded = min(np.int64(np.rint(min(weight / step, _MOST_WEIGHT))), np.int64(_MOST_WEIGHT) - had)
        table[slot] = np.uint16(had + rounded)
        total += rounded
        error += abs(weight - step * rounded)
    _put_sum(table, total)
    return np.float32(error * 1.000001 + 1e-9)


@inline
def clear_slots(features, values, table):
    """Undo `fill_slots`."""
    for x in range(len(features)):
        table[packed_slot(features[x], values[x] < 0)] = 0


@inline
def fill_entries(address, quads, table):
    """Lay a packed code out in a clear table."""
    for x in range(2, QUAD * quads):
        entry = u32_at(address + U64(4 * x))
        table[entry & np.uint32(0xFFFF)] |= np.uint16(entry >> np.uint32(16))
    _put_sum(table, np.int64(u32_at(address + U64(4))))


@inline
def clear_entries(address, quads, table):
    """Undo `fill_entries`."""
    for x in range(2, QUAD * quads):
        table[u32_at(address + U64(4 * x)) & np.uint32(0xFFFF)] = 0


@inline
def entry_distance(address, quads, table):
    """Σ |a − b| of a packed code and what lies in the table at an address. Cost: about 1 ns an entry."""
    shared = U64(0)
    for x in range(1, 2 * quads):
        pair = u64_at(address + U64(8 * x))
        first = pair & U64(0xFFFFFFFF)
        second = pair >> U64(32)
        shared += min(first >> U64(16), U64(u16_at(table + U64(2) * (first & U64(0xFFFF)))))
        shared += min(second >> U64(16), U64(u16_at(table + U64(2) * (second & U64(0xFFFF)))))
    sums = np.int64(u32_at(address + U64(4))) + np.int64(u32_at(table + _SUM))
    # Of damaged codes the sum may be anything.
    return np.uint32(min(max(sums - 2 * np.int64(shared), 0), 0xFFFFFFFF))


@strict
def pack(step, rows, table, words, offsets, errors):
    """Packed codes of n rows, each divided by its norm, end to end in words; returns how many words.

    table (TABLE_WORDS,) uint16 zero (left zero). words uint32: room for 5 words a row and one a nonzero. Writes offsets (n,) uint32,
    the quad at which each begins, and errors (n,) float32. Cost: 5 ns a nonzero.
    """
    indptr, features, values, norms = asked_of(rows[0])
    place = 0
    for i in range(len(norms)):
        a, b = indptr[i], indptr[i + 1]
        errors[i] = fill_slots(features[a:b], values[a:b], norms[i], step, table)
        start = place
        offsets[i] = np.uint32(start // QUAD)
        words[place + 1] = np.uint32(table[_PACKED_SLOTS]) | (np.uint32(table[_PACKED_SLOTS + 1]) << np.uint32(16))
        place = _pack_entries(features[a:b], values[a:b], table, words, place + 2)
        words[start] = np.uint32((place - start) // QUAD)
    return place


@inline
def _pack_entries(features, values, table, words, place):
    """Move a row's weights from the table, which is left clear, to words from a place on. Returns the place after them."""
    for x in range(len(features)):
        slot = packed_slot(features[x], values[x] < 0)
        if table[slot] != 0:
            words[place] = (np.uint32(table[slot]) << np.uint32(16)) | np.uint32(slot)
            table[slot] = 0
            place += 1
    while place % QUAD != 0:
        words[place] = 0
        place += 1
    return place
