"""Which rows of a run, or of the journal, must not be answered: one bit a row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["DeadRows"]


@dataclass(frozen=True, slots=True, eq=False)
class DeadRows:
    """One bit a row, set for rows that are deleted, replaced or filtered out. It never changes; what changes it makes a copy.

    Kernels read the bits at `bits`; whoever hands them the address keeps this object.
    """

    rows: int
    bits: NDArray[np.uint8]
    """At least one bit a row: row i is bit i mod 8, of value 2**(i mod 8), of byte i div 8. Bits beyond `rows` are 0."""
    count: int = field(init=False)
    """How many rows are dead."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", int(np.bitwise_count(self.bits).sum()))

    @classmethod
    def of(cls, rows: int) -> DeadRows:
        """So many rows, all alive."""
        return cls(rows, np.zeros(_bytes(rows), np.uint8))

    @property
    def live(self) -> int:
        """How many rows are alive."""
        return self.rows - self.count

    def is_dead(self, local: int) -> bool:
        """Whether one row is dead."""
        return bool(self.bits[local >> 3] >> (local & 7) & 1)

    def are_dead(self, locals_: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows is dead."""
        dead: NDArray[np.bool_] = (self.bits[locals_ >> 3] >> (locals_ & 7).astype(np.uint8) & 1).astype(np.bool_)
        return dead

    def living(self, first: int = 0, past: int | None = None) -> NDArray[np.int64]:
        """The rows that are alive, ascending: all, or those from `first`, a multiple of 8, to past-1."""
        past = self.rows if past is None else min(past, self.rows)
        flags = np.unpackbits(self.bits[first >> 3 : (past + 7) >> 3], count=past - first, bitorder="little")
        living: NDArray[np.int64] = np.flatnonzero(flags == 0)
        return living + first if first else living

    def gone(self) -> NDArray[np.int64]:
        """The rows that are dead, ascending."""
        return np.flatnonzero(self._flags())

    def _flags(self) -> NDArray[np.bool_]:
        return np.unpackbits(self.bits, count=self.rows, bitorder="little").view(np.bool_)

    def grown(self, rows: int) -> DeadRows:
        """The same of at least as many rows; those that are added are alive. Cost: a copy of the bits, where there is no room for them."""
        bits = self.bits
        if len(bits) < _bytes(rows):
            bits = np.zeros(_bytes(rows), np.uint8)
            bits[: len(self.bits)] = self.bits
        # As many are dead as were: no bit is counted again.
        out = object.__new__(DeadRows)
        for name, value in (("rows", rows), ("bits", bits), ("count", self.count)):
            object.__setattr__(out, name, value)
        return out

    def with_dead(self, locals_: NDArray[np.int64]) -> DeadRows:
        """The same with these rows dead as well, each of them below `rows`."""
        if not len(locals_):
            return self
        bits = self.bits.copy()
        np.bitwise_or.at(bits, locals_ >> 3, np.left_shift(1, locals_ & 7).astype(np.uint8))
        return DeadRows(self.rows, bits)

    def with_range(self, first: int, past: int) -> DeadRows:
        """The same with the rows first … past-1 dead as well, as far as there are such rows."""
        first, past = (min(max(place, 0), self.rows) for place in (first, past))
        bits = self.bits.copy()
        for byte in {first >> 3, past >> 3} if first < past else ():
            inside = np.arange(8 * byte, 8 * byte + 8)
            bits[byte : byte + 1] |= np.packbits((inside >= first) & (inside < past), bitorder="little")
        bits[(first >> 3) + 1 : past >> 3] = 0xFF
        return DeadRows(self.rows, bits)

    def hiding(self, hidden: NDArray[np.bool_]) -> DeadRows:
        """The same without the rows whose place in hidden (rows,) is true. Cost: 0.2 ns a row."""
        bits = self.bits.copy()
        packed = np.packbits(hidden, bitorder="little")
        bits[: len(packed)] |= packed
        return DeadRows(self.rows, bits)


def _bytes(rows: int) -> int:
    """Whole words of 8 bytes, and at least one: an array of none has no address."""
    return 8 * max(1, -(-rows // 64))
