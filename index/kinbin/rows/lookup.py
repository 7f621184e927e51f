"""A query laid out so that stored rows find its features: one look for each nonzero of the row, and no branch.

*Narrow* rows (dim ≤ 65,536): `cells`, float32 by feature, hold the query's values.
*Wide* ones: `cells`, a power of two of them by a hash of the feature, hold the uint32 place of the feature in `keys` (uint64) and
`weights` (float32); place 0 is no feature's, and weighs nothing. A feature lies in one of two cells (cuckoo hashing, Pagh and Rodler
2004). The second is looked at only if some feature lies there: of a few hundred features none does, with the first or second hash
that is tried. Hashes depend on all features of the query, so that nobody can choose features that get in each other's way.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline, reassoc, strict
from kinbin.native.memory import item, pointer_f32, pointer_u16, pointer_u64

__all__ = ["NARROW_DIMENSION", "clear_lookup", "fill_lookup", "lookup_space", "shared_narrow", "shared_wide"]

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


def lookup_space(wide: bool, nonzeros: int) -> tuple[NDArray[np.float32], NDArray[np.uint64], NDArray[np.float32]]:
    """Clear cells, keys and weights for queries of at most so many nonzeros."""
    if not wide:
        return np.zeros(NARROW_DIMENSION, np.float32), np.empty(0, np.uint64), np.empty(0, np.float32)
    cells = max(NARROW_DIMENSION, 1 << (4 * nonzeros - 1).bit_length())
    return np.zeros(cells, np.float32), np.zeros(nonzeros + _EXTRA, np.uint64), np.zeros(nonzeros + 1, np.float32)


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


@strict
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


@strict
def fill_lookup(wide, features, values, scale, cells, keys, weights):
    """Lay a query, times `scale`, out in clear cells (`lookup_space`). Cost, if wide: 5 ns a nonzero, to be cleared included."""
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
    index = cells.view(np.uint32)
    second = -1
    tries = 0
    # A damaged row may have a feature three times, which no hash can place.
    while second < 0 and tries < 8 * _TRIES:
        factor = (factor ^ (factor >> U64(32))) * _MIX | U64(1)
        # Of more features than that, two are likely to meet in one cell: no use in trying.
        second = _place(index, keys, count, factor, shift, tries < _TRIES and count * count <= 2 * len(cells))
        tries += 1
    keys[-3], keys[-2], keys[-1] = factor, shift, U64(max(second, 0))


@strict
def clear_lookup(wide, features, cells, keys):
    """Undo `fill_lookup`."""
    if not wide:
        for x in range(len(features)):
            cells[features[x]] = np.float32(0.0)
        return
    _clear(features, keys[-3], keys[-2], cells.view(np.uint32))


@inline
def _least(q, v):
    """The smaller of two values of the same sign; 0 if their signs differ."""
    least = min(abs(q), abs(v))
    return np.float64(least if (q < 0) == (v < 0) else np.float32(0.0))


@reassoc
def shared_narrow(address, nnz, scale, cells):
    """Σ min over features on which the signs agree; the row's values times `scale` against the look-up.

    address: of the row's features and values. float32 products and minima, summed in float64: relative error below 2e-7.
    """
    features = pointer_u16(address)
    values = pointer_f32(address + U64((2 * nnz + 3) // 4 * 4))
    total = 0.0
    if np.int64(item(features, nnz - 1)) == nnz - 1:
        # Features ascend: these are all there are, and cells need not be looked up. (A damaged row of none looked at its header.)
        for x in range(nnz):
            total += _least(cells[x], item(values, x) * scale)
        return total
    for x in range(nnz):
        total += _least(cells[item(features, x)], item(values, x) * scale)
    return total


@reassoc
def shared_wide(address, nnz, scale, cells, keys, weights):
    """As `shared_narrow`, for wide rows. Cost: 1.5 to 2.5 ns a nonzero; as much again if second cells are used."""
    features = pointer_u64(address)
    values = pointer_f32(address + U64(8 * nnz))
    index = cells.view(np.uint32)
    factor, shift = keys[-3], keys[-2]
    total = 0.0
    for x in range(nnz):
        feature = item(features, x)
        place = index[_first_cell(feature, factor, shift)]
        total += _least(weights[place] if keys[place] == feature else np.float32(0.0), item(values, x) * scale)
    if keys[-1] != 0:
        for x in range(nnz):
            feature = item(features, x)
            place = index[_second_cell(feature, factor, shift)]
            total += _least(weights[place] if keys[place] == feature else np.float32(0.0), item(values, x) * scale)
    return total
