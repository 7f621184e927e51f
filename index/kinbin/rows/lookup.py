"""A query laid out so that stored rows find its features: one look for each nonzero of the row, and no branch.

*Narrow* rows (dim ≤ 65,536): `cells`, float32 by feature, hold the query's values.
*Wide* ones: `cells`, a power of two of them by a hash of the feature, hold the uint32 place of the feature in `keys` (uint64) and
`weights` (float32); place 0 is no feature's, and weighs nothing. A feature lies in one of two cells (cuckoo hashing, Pagh and Rodler
2004). The second is looked at only if some feature lies there: of a few hundred features none does, with the first or second hash
that is tried. Hashes depend on all features of the query, so that nobody can choose features that get in each other's way.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.jit import inline, inner
from kinbin.native.memory import f32_array, float64_at, u32_array, u64_array, u64_at
from kinbin.native.records import Layout

__all__ = [
    "LOOKUP",
    "NARROW_DIMENSION",
    "Lookup",
    "LookupSpace",
    "clear_lookup",
    "context_at",
    "cutoff_at",
    "fill_lookup",
    "lookup_at",
    "lookup_of",
    "narrow_weight",
    "norm_at",
    "squares_at",
    "wide_of",
    "wide_weight",
    "work_at",
]

NARROW_DIMENSION = 65_536
U64 = np.uint64
_NO_FEATURE = np.uint64(0xFFFFFFFFFFFFFFFF)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_EXTRA = 4
"""Of `keys` beyond the features: place 0, and at the end the query's hash: its factor, its shift, and whether second cells are used."""
_MOST_TURNS = 64
"""Features that may be turned out of their cells for one that comes."""
_TRIES = 4
"""Hashes that are tried in order to do without second cells."""


LOOKUP = Layout(
    "LOOKUP",
    wide=("count", "whether features are looked up by a hash"),
    cells=("f32[]", "or u32 places, by feature or by hash"),
    cell_count=("count", "a power of two"),
    keys=("u64[]", "features by place; then factor, shift, and whether second cells are used"),
    key_count=("count", ""),
    weights=("f32[]", "by place"),
    weight_count=("count", ""),
    norm=("number", "what the sum of the query that is laid out is; set with it"),
    squares=("number", "the sum of its squares, where a space has a score of its own; set with it"),
    context=("address", "what the space's functions are handed besides; set with it"),
    work=("u64[]", "room for what a space of objects makes of the query"),
    work_size=("count", "words of it"),
    sketch=("u8[]", "(64,) that of the query, where a space has such; then work: how many of a sample are so far apart, (256,) uint32"),
    cutoff=("number", "scores below it need not be exact: 0 stands for all of them; set before rows are scored"),
)


class Lookup(NamedTuple):
    """A look-up as compiled code sees it."""

    wide: Any
    cells: Any
    keys: Any
    weights: Any


class LookupSpace:
    """A clear look-up for queries of at most so many nonzeros."""

    def __init__(self, wide: bool, nonzeros: int) -> None:
        self.wide = wide
        self.nonzeros = nonzeros if wide else NARROW_DIMENSION
        cells = max(NARROW_DIMENSION, 1 << (4 * nonzeros - 1).bit_length()) if wide else NARROW_DIMENSION
        self.cells = np.zeros(cells, np.float32)
        self.keys = np.zeros(nonzeros + _EXTRA if wide else 0, np.uint64)
        self.weights = np.zeros(nonzeros + 1 if wide else 0, np.float32)

    def fields(self) -> dict[str, Any]:
        """What kernels are told (`LOOKUP`)."""
        return {
            "wide": int(self.wide), "cells": self.cells, "cell_count": len(self.cells), "keys": self.keys, "key_count": len(self.keys),
            "weights": self.weights, "weight_count": len(self.weights),
        }  # fmt: skip


@inline
def lookup_of(record):
    """The look-up of a record."""
    return Lookup(
        record.wide != 0,
        f32_array(record.cells, record.cell_count),
        u64_array(record.keys, record.key_count),
        f32_array(record.weights, record.weight_count),
    )


_WIDE, _CELLS, _CELL_COUNT, _KEYS, _KEY_COUNT, _WEIGHTS, _WEIGHT_COUNT = (
    U64(LOOKUP.offset(name)) for name in ("wide", "cells", "cell_count", "keys", "key_count", "weights", "weight_count")
)


@inline
def lookup_at(address):
    """The look-up of the record at an address: what functions see that kernels call by their address."""
    return Lookup(
        u64_at(address + _WIDE) != U64(0),
        f32_array(u64_at(address + _CELLS), np.int64(u64_at(address + _CELL_COUNT))),
        u64_array(u64_at(address + _KEYS), np.int64(u64_at(address + _KEY_COUNT))),
        f32_array(u64_at(address + _WEIGHTS), np.int64(u64_at(address + _WEIGHT_COUNT))),
    )


_NORM, _SQUARES, _CONTEXT, _WORK, _CUTOFF = (U64(LOOKUP.offset(name)) for name in ("norm", "squares", "context", "work", "cutoff"))


@inline
def norm_at(address):
    """The sum of the query that is laid out in the look-up at an address."""
    return float64_at(address + _NORM)


@inline
def squares_at(address):
    """The sum of its squares."""
    return float64_at(address + _SQUARES)


@inline
def context_at(address):
    """The address of what the space's functions are handed besides."""
    return u64_at(address + _CONTEXT)


@inline
def work_at(address):
    """The address of the room in which a space of objects lays out the query: 8-byte words, as many as its `room` asked for."""
    return u64_at(address + _WORK)


@inline
def cutoff_at(address):
    """The score that is looked for: of a row that scores less, 0 may be returned at once."""
    return float64_at(address + _CUTOFF)


@inline
def _first_cell(feature, factor, shift):
    """The top bits of a product with an odd factor."""
    return (feature * factor) >> shift


@inline
def _second_cell(feature, factor, shift):
    """Another cell than the first: that one's number is changed in its lowest bit at least."""
    hashed = feature * factor
    bits = U64(64) - shift
    return (hashed >> shift) ^ (((hashed << bits) >> shift) | U64(1))


@inner
def _place(index, keys, count, factor, shift, alone):
    """Give each feature its cell; alone: only first cells. Returns 0 or 1, whether second cells are used; -1 (all clear) if it failed."""
    second = 0
    for x in range(1, count + 1):
        cell = _first_cell(keys[x], factor, shift)
        if index[cell] == 0:
            index[cell] = np.uint32(x)
            continue
        place = np.uint32(x)
        cell = _second_cell(keys[x], factor, shift)
        turns = 0
        while place != 0 and not alone and turns < _MOST_TURNS:
            out = index[cell]
            index[cell] = place
            place = out
            first = _first_cell(keys[place], factor, shift)
            cell = _second_cell(keys[place], factor, shift) if cell == first else first
            turns += 1
        second = 1
        if place != 0:
            _clear(keys[1 : x + 1], factor, shift, index)
            return -1
    return second


@inline
def _clear(features, factor, shift, index):
    """Clear the cells of some features."""
    for x in range(len(features)):
        index[_first_cell(features[x], factor, shift)] = 0
        index[_second_cell(features[x], factor, shift)] = 0


@inner
def fill_lookup(lookup, features, values, scale):
    """Lay a query, times `scale`, out in clear cells. Cost, if wide: 5 ns a nonzero, to be cleared included."""
    wide, cells, keys, weights = lookup
    if not wide:
        for x in range(len(features)):
            cells[features[x]] = np.float32(values[x] * scale)
        return
    count = len(features)
    factor = U64(count)
    for x in range(count):
        keys[1 + x] = features[x]
        weights[1 + x] = np.float32(values[x] * scale)
        factor = (factor ^ features[x]) * _MIX
        factor ^= factor >> U64(29)
    keys[0] = _NO_FEATURE
    weights[0] = np.float32(0.0)
    bits = 0
    while 1 << bits < len(cells):
        bits += 1
    shift = U64(64 - bits)
    index = u32_array(U64(cells.ctypes.data), len(cells))
    second = -1
    tries = 0
    # A damaged row may have a feature three times, which no hash can place.
    while second < 0 and tries < 8 * _TRIES:
        factor = (factor ^ (factor >> U64(32))) * _MIX | U64(1)
        # Of more features than that, two are likely to meet in one cell: no use in trying.
        second = _place(index, keys, count, factor, shift, tries < _TRIES and count * count <= 2 * len(cells))
        tries += 1
    keys[-3], keys[-2], keys[-1] = factor, shift, U64(max(second, 0))


@inner
def clear_lookup(lookup, features):
    """Undo `fill_lookup`."""
    wide, cells, keys, _ = lookup
    if not wide:
        for x in range(len(features)):
            cells[features[x]] = np.float32(0.0)
        return
    _clear(features, keys[-3], keys[-2], u32_array(U64(cells.ctypes.data), len(cells)))


@inline
def narrow_weight(cells, feature):
    """What the query weighs at a feature, in a narrow look-up."""
    return cells[feature]


class Wide(NamedTuple):
    """A wide look-up, as what looks up many features sees it."""

    index: Any
    """Cells as uint32: places in keys and weights, 0 where there is no feature."""
    keys: Any
    weights: Any
    factor: Any
    shift: Any


@inline
def wide_of(cells, keys, weights):
    """The wide look-up of these arrays."""
    return Wide(u32_array(U64(cells.ctypes.data), len(cells)), keys, weights, keys[-3], keys[-2])


@inline
def wide_weight(wide, feature, second):
    """The same in a wide one, by its first or second cells; it is 0 in all but one of them.

    second: a constant where it is called, so that loops over features become vectors. They go over second cells in a loop of their own.
    """
    place = wide.index[_second_cell(feature, wide.factor, wide.shift) if second else _first_cell(feature, wide.factor, wide.shift)]
    # Read before it is known to count: a branch would be guessed wrong for every fifth feature, which took twice the time.
    weight = wide.weights[place]
    return weight if wide.keys[place] == feature else np.float32(0.0)
