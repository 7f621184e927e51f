"""The parameters of GCWS, generated on a feature's first use and kept in a bounded table.

A parameter is a function of (seed, split feature, x, j) alone, so the table is a cache: it may be
emptied at any time without a change in any hash.

A `ParameterTable` is grown or emptied by making another one; the arrays of a table that some thread
still sweeps are never overwritten. `resolve` writes only slots that nobody was given yet and runs
under the sampler's lock, whose release makes the new slots visible to the next holder.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import GAMMA, mix64, ordered_log, split_feature, unit
from kinbin.native.jit import inline, strict

__all__ = ["ParameterTable", "resolve"]

_LANES: Final = 16
"""Widths are multiples of this many float32 (64 bytes, one cache line)."""

_FIRST_CAPACITY: Final = 64


class ParameterTable:
    """Parameters of up to `capacity` split features, for sketches x < `rows` and hashes j < `width`.

    parameters  (capacity, rows, 3, width) float32, 64-byte aligned: r, beta, log c - r
    ids         (capacity,) uint64: the split feature of each slot
    levels      (capacity,) int64: sketches x < levels[slot] are filled
    index       (2^m,) int32: open addressing over the split feature's hash; -1 is free
    used        (1,) int64: slots given away
    """

    __slots__ = ("capacity", "ids", "index", "levels", "parameters", "rows", "used", "width")

    def __init__(self, rows: int, width: int, capacity: int) -> None:
        self.rows = rows
        self.width = -(-width // _LANES) * _LANES
        self.capacity = capacity
        self.parameters = _aligned(capacity, rows, self.width)
        self.ids = np.empty(capacity, np.uint64)
        self.levels = np.zeros(capacity, np.int64)
        self.index = np.full(1 << (2 * capacity - 1).bit_length(), -1, np.int32)
        self.used = np.zeros(1, np.int64)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What kernels are handed."""
        return self.parameters, self.ids, self.levels, self.index, self.used

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.parameters.nbytes + self.ids.nbytes + self.levels.nbytes + self.index.nbytes

    @staticmethod
    def most_slots(rows: int, width: int, limit_bytes: int) -> int:
        """How many slots of this shape fit `limit_bytes` (at least 16: a table has to hold something)."""
        slot = rows * 3 * (-(-width // _LANES) * _LANES) * 4 + 32
        return max(16, limit_bytes // slot)

    @classmethod
    def shaped(cls, rows: int, width: int, most: int) -> ParameterTable:
        """An empty table of the first size."""
        return cls(rows, width, min(most, _FIRST_CAPACITY))

    def grown(self, most: int) -> ParameterTable:
        """A copy with twice the slots, at most `most`."""
        other = ParameterTable(self.rows, self.width, min(most, 2 * self.capacity))
        used = int(self.used[0])
        other.parameters[:used] = self.parameters[:used]
        other.ids[:used] = self.ids[:used]
        other.levels[:used] = self.levels[:used]
        other.used[0] = used
        return other

    def reindex(self, slot_key: np.uint64) -> None:
        """Rebuild the index of a grown copy."""
        _reindex(self.ids, self.used[0], self.index, slot_key)


def _aligned(capacity: int, rows: int, width: int) -> NDArray[np.float32]:
    """An uninitialised (capacity, rows, 3, width) array whose rows start on cache lines."""
    count = capacity * rows * 3 * width
    block = np.empty(count + _LANES, np.float32)
    skip = (-block.ctypes.data // 4) % _LANES
    return block[skip : skip + count].reshape(capacity, rows, 3, width)


@inline
def _home(split, slot_key, mask):  # type: ignore[no-untyped-def]
    """Where the search for a split feature begins; keyed, so that chosen ids cannot pile up."""
    return np.int64(mix64(split ^ slot_key) & mask)


@strict
def _reindex(ids, used, index, slot_key):  # type: ignore[no-untyped-def]
    mask = np.uint64(index.shape[0] - 1)
    for slot in range(used):
        at = _home(ids[slot], slot_key, mask)
        while index[at] >= 0:
            at = (at + 1) & np.int64(mask)
        index[at] = slot


@strict
def _fill(target, key):  # type: ignore[no-untyped-def]
    """Write r, beta and log c - r of one (split feature, x): target (3, width) float32. HASHING.md, section 3."""
    for j in range(target.shape[1]):
        h = key + np.uint64(5 * j) * GAMMA
        r = -ordered_log(unit(mix64(h)) * unit(mix64(h + GAMMA)))
        c = -ordered_log(unit(mix64(h + np.uint64(2) * GAMMA)) * unit(mix64(h + np.uint64(3) * GAMMA)))
        target[0, j] = np.float32(r)
        target[1, j] = np.float32(unit(mix64(h + np.uint64(4) * GAMMA)))
        target[2, j] = np.float32(ordered_log(c) - r)


@strict
def resolve(features, values, r, table, sketch_keys, slot_key, budget, slots):  # type: ignore[no-untyped-def]
    """Give every nonzero a slot whose sketches x < r are filled; return the first one not done.

    slots int32 receives the slot of each. Stops early when the table is full or `budget` (split feature, x) pairs were
    generated, whichever comes first. Mutates the table (`ParameterTable.arrays`): the caller holds the sampler's lock.
    Feature ids and values are canonical; about 3 ns a nonzero that is there.
    """
    parameters, ids, levels, index, used = table
    mask = np.uint64(index.shape[0] - 1)
    capacity = ids.shape[0]
    for p in range(len(features)):
        split = split_feature(features[p], values[p])
        at = _home(split, slot_key, mask)
        slot = index[at]
        while slot >= 0 and ids[slot] != split:
            at = (at + 1) & np.int64(mask)
            slot = index[at]
        level = levels[slot] if slot >= 0 else 0
        if level < r:
            if budget < r - level:
                return p
            if slot < 0:
                if used[0] == capacity:
                    return p
                slot = np.int32(used[0])
                used[0] += 1
                ids[slot] = split
                index[at] = slot
            for x in range(level, r):
                _fill(parameters[slot, x], mix64(sketch_keys[x] ^ (split * GAMMA)))
            levels[slot] = r
            budget -= r - level
        slots[p] = slot
    return len(features)
