"""Parameters of features, generated on a feature's first use and kept in a bounded table.

A parameter is a function of (seed, feature, x, j) alone, so the table is a cache: it may be
emptied at any time without a change in any hash.

A `ParameterTable` is grown or emptied by making another one; the arrays of a table that some thread
still sweeps are never overwritten. Slots are filled under the lock of the `ParameterCache`, only those that nobody
was given yet, and the lock's release makes them visible to the next holder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.arithmetic import mix64
from kinbin.native.jit import inline, strict
from kinbin.rows.rows import Rows

__all__ = ["CHUNK", "DEFAULT_TABLE_BYTES", "ParameterCache", "ParameterTable", "Resolve", "find"]

DEFAULT_TABLE_BYTES: Final = 256 * 2**20
"""Default memory limit of one sampler's parameters: 18,000 split features of GCWS at r = 6, L = 200."""

CHUNK: Final = 16_384
"""Nonzeros looked up under one hold of the lock (some 50 µs when all are known)."""

_LANES: Final = 16
"""Widths are multiples of this many float32 (64 bytes, one cache line)."""

_FIRST_CAPACITY: Final = 64

Resolve = Callable[[NDArray[np.uint64], NDArray[np.float32], int, "ParameterTable", NDArray[np.int32]], int]
"""Give the nonzeros (features, values) slots of the table whose sketches x < r are filled; return how many were done.

Fewer than all were done where the table is full, or enough was generated for one hold of the lock; none only where it is full."""


class ParameterTable:
    """Parameters of up to `capacity` features, for sketches x < `rows` and `planes` × `width` numbers of each.

    parameters  (capacity, rows, planes, width) float32, 64-byte aligned
    ids         (capacity,) uint64: the (split) feature of each slot
    levels      (capacity,) int64: sketches x < levels[slot] are filled
    index       (2^m,) int32: open addressing over the feature's hash; -1 is free
    used        (1,) int64: slots given away
    """

    __slots__ = ("capacity", "ids", "index", "levels", "parameters", "planes", "rows", "used", "width")

    def __init__(self, rows: int, planes: int, width: int, capacity: int) -> None:
        self.rows = rows
        self.planes = planes
        self.width = _padded(width)
        self.capacity = capacity
        self.parameters = _aligned(capacity, rows, planes, self.width)
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
    def most_slots(rows: int, planes: int, width: int, limit_bytes: int) -> int:
        """How many slots of this shape fit `limit_bytes` (at least 16: a table has to hold something)."""
        slot = rows * planes * _padded(width) * 4 + 32
        return max(16, limit_bytes // slot)

    @classmethod
    def shaped(cls, rows: int, planes: int, width: int, most: int) -> ParameterTable:
        """An empty table of the first size."""
        return cls(rows, planes, width, min(most, _FIRST_CAPACITY))

    def grown(self, most: int) -> ParameterTable:
        """A copy with twice the slots, at most `most`."""
        other = ParameterTable(self.rows, self.planes, self.width, min(most, 2 * self.capacity))
        used = int(self.used[0])
        other.parameters[:used] = self.parameters[:used]
        other.ids[:used] = self.ids[:used]
        other.levels[:used] = self.levels[:used]
        other.used[0] = used
        return other

    def reindex(self, slot_key: np.uint64) -> None:
        """Rebuild the index of a grown copy."""
        _reindex(self.ids, self.used[0], self.index, slot_key)


class ParameterCache:
    """The table that a sampler uses now, and the lock it is filled under. Safe for concurrent callers.

    Memory: at most `limit_bytes`, and as much again for a moment while the table grows or is emptied under readers.
    """

    def __init__(self, resolve: Resolve, slot_key: np.uint64, *, planes: int, most_features: int, limit_bytes: int) -> None:
        """resolve: fills a table, as `Resolve` says. most_features: the most slots that can be of use."""
        self._resolve = resolve
        self._slot_key = slot_key
        self._planes = planes
        self._most_features = most_features
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        # Made at the first use: whoever only opens a collection does not wait for it.
        self._table: ParameterTable | None = None

    @property
    def nbytes(self) -> int:
        """Memory that the parameters take now."""
        return 0 if self._table is None else self._table.nbytes

    def parameters(
        self, rows: Rows, span: tuple[int, int], r: int, width: int, slots: NDArray[np.int32]
    ) -> tuple[NDArray[np.float32], int]:
        """Parameters for nonzeros start … stop-1 of a span (start, end), and that stop: past start, at most end. Writes their slots."""
        start, end = span
        features, values = rows.features[start:end], rows.values[start:end]
        with self._lock:
            table = self._table
            if table is None:
                table = self._table = self._empty(r, width)
            elif table.rows < r or table.width < width:
                table = self._table = self._empty(max(r, table.rows), max(width, table.width))
            done = self._resolve(features, values, r, table, slots)
            while not done:
                table = self._table = self._roomier(table)
                done = self._resolve(features, values, r, table, slots)
            return table.parameters, start + done

    def _most_slots(self, rows: int, width: int) -> int:
        return min(self._most_features, ParameterTable.most_slots(rows, self._planes, width, self._limit_bytes))

    def _empty(self, rows: int, width: int) -> ParameterTable:
        return ParameterTable.shaped(rows, self._planes, width, self._most_slots(rows, width))

    def _roomier(self, table: ParameterTable) -> ParameterTable:
        """A table with a free slot: grown while the limit allows it, else an empty one (nothing is lost but time)."""
        most = self._most_slots(table.rows, table.width)
        if table.capacity >= most:
            return ParameterTable(table.rows, table.planes, table.width, table.capacity)
        table = table.grown(most)
        table.reindex(self._slot_key)
        return table


def _padded(width: int) -> int:
    """The next multiple of a cache line's float32."""
    return -(-width // _LANES) * _LANES


def _aligned(*shape: int) -> NDArray[np.float32]:
    """An uninitialised array whose last dimension, a multiple of cache lines, begins on one."""
    count = int(np.prod(shape))
    block = np.empty(count + _LANES, np.float32)
    skip = (-block.ctypes.data // 4) % _LANES
    return block[skip : skip + count].reshape(shape)


@inline
def find(feature, ids, index, slot_key):  # type: ignore[no-untyped-def]
    """(place in the index, slot or -1) of a feature. Keyed, so that chosen ids cannot pile up."""
    mask = np.uint64(index.shape[0] - 1)
    at = np.int64(mix64(feature ^ slot_key) & mask)
    slot = index[at]
    while slot >= 0 and ids[slot] != feature:
        at = (at + 1) & np.int64(mask)
        slot = index[at]
    return at, slot


@strict
def _reindex(ids, used, index, slot_key):  # type: ignore[no-untyped-def]
    for slot in range(used):
        at, _ = find(ids[slot], ids, index, slot_key)
        index[at] = slot
