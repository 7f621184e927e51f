"""Rows as packed entries, and how far an entry list is from a row laid out in a table: codes for sparse rows of many features.

A feature and its sign are hashed into 2**16 slots, its weight is rounded to 16 bits; both make one 32-bit entry. Rounding is
accounted for, and features that share a slot only come nearer: a distance less both errors is a lower bound, as for codes of bytes.

Rows are compared in one of two ways. *Shapes* are divided by their sums, and compared in L1: weights of one slot are added up. *Unit
rows* (kernels that are functions of a cosine, or of one of roots) are divided by their lengths, and compared in L2: a slot weighs the
length of what is in it. So the products of the slots are at least those of the rows (Cauchy and Schwarz; features of different signs
have no slot in common), lengths stay as they are, and no two codes are farther apart than their rows.

A packed code, in words of 32 bits: the number of quads (of 4 words, these two among them), the sum of the weights (of unit rows that of
their squares), entries (weight in the upper half), zeros up to a whole quad.
A table: 2**16 weights of 16 bits by slot, then the same sum in 32 bits.
"""

# mypy: disable-error-code="no-untyped-def,assignment,arg-type"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.jit import inline, strict
from kinbin.native.memory import u16_at, u32_at, u64_at
from kinbin.rows.asked import asked_of

__all__ = [
    "QUAD", "UNIT_STEP", "clear_entries", "clear_slots", "entry_distance", "entry_square_distance", "fill_entries", "fill_slots", "pack",
    "packed_slot", "packing_by",
]  # fmt: skip

U64 = np.uint64
QUAD = 4
"""Words; a packed code is whole quads."""
_PACKED_SLOTS = 1 << 16
_MOST_WEIGHT = 65535.0
_MIX = U64(0x9E3779B97F4A7C15)
_SUM = U64(2 * _PACKED_SLOTS)
UNIT_STEP = 1.0 / 32_767.0
"""Of unit rows. Squares of two whole codes fit 32 bits; 100 weights are off by 1e-4 in L2, all together."""


class Packing(NamedTuple):
    """How rows are packed, as compiled code sees it."""

    step: Any
    units: Any
    """Whether rows are divided by their lengths, and compared in L2."""
    roots: Any
    """Whether unit rows are the square roots of shapes."""


@inline
def packing_by(coder):
    """What a record (of a coder, or of a graph) says of packing."""
    return Packing(coder.step, coder.units != 0, coder.roots != 0)


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
def fill_slots(packing, features, values, norm, table):
    """Lay a row, of this norm, out in a clear table. Returns its error: at least what rounding changed, in L1 or, of unit rows, in L2."""
    if packing.units:
        return _fill_unit(packing, features, values, norm, table)
    scale = 1.0 / norm
    error = 0.0
    total = 0
    for x in range(len(features)):
        weight = abs(values[x]) * scale
        slot = packed_slot(features[x], values[x] < 0)
        had = np.int64(table[slot])
        rounded = min(np.int64(np.rint(min(weight / packing.step, _MOST_WEIGHT))), np.int64(_MOST_WEIGHT) - had)
        table[slot] = np.uint16(had + rounded)
        total += rounded
        error += abs(weight - packing.step * rounded)
    _put_sum(table, total)
    return np.float32(error * 1.000001 + 1e-9)


@inline
def _fill_unit(packing, features, values, norm, table):
    """`fill_slots` of a unit row.

    A weight that comes to an empty slot is off by its r, and so is what was rounded to nothing there before: all of them together,
    over all slots, by √Σ r². One that joins others adds its r at most (no length changes by more than what it is the length of).
    """
    squares = 0.0
    for x in range(len(features)):
        squares += np.float64(values[x]) * np.float64(values[x])
    scale = 1.0 / norm if packing.roots else 1.0 / np.sqrt(squares)
    first = 0.0
    joined = 0.0
    total = 0
    for x in range(len(features)):
        share = abs(np.float64(values[x])) * scale
        weight = (np.sqrt(share) if packing.roots else share) / packing.step
        slot = packed_slot(features[x], values[x] < 0)
        had = np.int64(table[slot])
        length = weight if had == 0 else np.sqrt(np.float64(had * had) + weight * weight)
        rounded = np.int64(np.rint(min(length, _MOST_WEIGHT)))
        table[slot] = np.uint16(rounded)
        total += rounded * rounded - had * had
        off = abs(length - rounded)
        first += off * off if had == 0 else 0.0
        joined += off if had != 0 else 0.0
    _put_sum(table, total)
    return np.float32(packing.step * (np.sqrt(first) + joined) * 1.000001 + 1e-7)


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


@inline
def entry_square_distance(address, quads, table):
    """Σ (a − b)² of the same, of unit rows. Cost: as `entry_distance`."""
    shared = U64(0)
    for x in range(1, 2 * quads):
        pair = u64_at(address + U64(8 * x))
        first = pair & U64(0xFFFFFFFF)
        second = pair >> U64(32)
        shared += (first >> U64(16)) * U64(u16_at(table + U64(2) * (first & U64(0xFFFF))))
        shared += (second >> U64(16)) * U64(u16_at(table + U64(2) * (second & U64(0xFFFF))))
    squares = np.int64(u32_at(address + U64(4))) + np.int64(u32_at(table + _SUM))
    return np.uint32(min(max(squares - 2 * np.int64(shared), 0), 0xFFFFFFFF))


@strict
def pack(coder, rows, table, words, offsets, errors):
    """Packed codes of n rows end to end in words; returns how many words.

    table (TABLE_WORDS,) uint16 zero (left zero). words uint32: room for 5 words a row and one a nonzero. Writes offsets (n,) uint32,
    the quad at which each begins, and errors (n,) float32. Cost: 5 ns a nonzero.
    """
    packing = packing_by(coder[0])
    indptr, features, values, norms = asked_of(rows[0])
    place = 0
    for i in range(len(norms)):
        a, b = indptr[i], indptr[i + 1]
        errors[i] = fill_slots(packing, features[a:b], values[a:b], norms[i], table)
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
