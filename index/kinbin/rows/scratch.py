"""Work space of kernels: one record, whatever is searched and in whatever way."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline
from kinbin.native.memory import address_of, f64_array, u8_array, u32_array, u64_array
from kinbin.native.records import Layout, Record
from kinbin.rows.lookup import LOOKUP, LookupSpace

__all__ = [
    "BLOCK", "BYTES", "MOST_CODE_BYTES", "MOST_LINKS", "PACKED", "SCRATCH", "STRAY", "TABLE_WORDS", "UNITS", "Counting", "Scratch", "Table",
    "Walk", "coding_of", "counting_of", "walk_of",
]  # fmt: skip

MOST_LINKS = 255
"""A node of a graph never has more links."""
MOST_CODE_BYTES = 1024
"""Bytes that a code has at most."""
TABLE_WORDS = (1 << 16) + 2
"""uint16 of the table in which a packed code is laid out."""
BYTES, PACKED, UNITS = "bytes", "packed", "units"
"""Layouts of codes: folded bytes that are compared in L1, packed entries, and projections of unit rows that are compared in L2."""
Table = NDArray[np.uint16] | NDArray[np.float32] | None
"""What kernels are handed for a layout, and compiled for: None for bytes, (TABLE_WORDS,) uint16 for packed entries, and for projections
(1, MOST_CODE_BYTES) float32, in which a query is projected."""
_LISTED = 262_144
"""Nodes that a walk may meet: as many as the widest pool has links."""
_FOUND = 2 * MOST_LINKS + 2
BLOCK = 8
"""Keys of a pool that are moved at once: there is room for a whole number of blocks, and they begin with a cache line."""
STRAY = 65_536 + 63
"""Counts behind those of the rows: for postings of two bytes that are damaged, and for looks at 64 at a time."""

SCRATCH = Layout(
    "SCRATCH",
    # A look-up comes first, with the very fields of one: spaces are handed the address of either.
    **LOOKUP.fields,
    rows=("count", "rows that bands can be counted for"),
    counts=("u8[]", "(rows + STRAY,) zero: bands that each row shares"),
    listed_rows=("u32[]", "(rows,)"),
    order=("u32[]", "(rows,)"),
    sums=("f64[]", "(1024,) buckets of a row that is folded"),
    code=("u8[]", "(1024,) its code"),
    pool_size=("count", ""),
    pool=("u64[]", "keys of the nearest nodes, ascending"),
    visited_size=("count", ""),
    visited=("u8[]", "a bit a node, zero: whether a walk has met it"),
    listed_size=("count", ""),
    listed=("u64[]", "keys of the nodes a walk has met"),
    found=("u64[]", "(512,)"),
)


class Counting(NamedTuple):
    """Work space of a search by bands."""

    counts: Any
    listed: Any
    order: Any


class Walk(NamedTuple):
    """Work space of a walk."""

    pool: Any
    visited: Any
    listed: Any
    found: Any


@inline
def counting_of(scratch, rows):
    """What bands are counted in."""
    return Counting(u8_array(scratch.counts, rows + STRAY), u32_array(scratch.listed_rows, rows), u32_array(scratch.order, rows))


@inline
def walk_of(scratch):
    """What a walk is made in."""
    return Walk(
        u64_array(scratch.pool, scratch.pool_size),
        u8_array(scratch.visited, scratch.visited_size),
        u64_array(scratch.listed, scratch.listed_size),
        u64_array(scratch.found, _FOUND),
    )


@inline
def coding_of(scratch):
    """What a row is folded in: sums and code."""
    return f64_array(scratch.sums, MOST_CODE_BYTES), u8_array(scratch.code, MOST_CODE_BYTES)


class Scratch:
    """Work space of one kernel call at a time; kernels leave it as they found it.

    Bands take 9 bytes a row, walks a bit a node and at most 2 MB, a wide look-up 16 bytes a nonzero and 0.3 MB.
    """

    def __init__(self, wide: bool, nonzeros: int = 1) -> None:
        self.record: Record = SCRATCH.zeros()
        self.nonzeros = self.nodes = self.pool = self.words = 0
        self.rows = -1
        self._wide = wide
        self._kept: dict[str, Any] = {}
        self._tables: dict[str, Table] = {BYTES: None}
        self.look_up(nonzeros)

    def look_up(self, nonzeros: int) -> None:
        """Have room for queries of so many nonzeros."""
        if self.nonzeros < nonzeros:
            space = self._kept["lookup"] = LookupSpace(self._wide, 1 << max(8, nonzeros.bit_length()))
            self.nonzeros = space.nonzeros
            SCRATCH.fill(self.record, **space.fields())

    def work(self, words: int) -> None:
        """Have room for what a space of objects makes of a query."""
        if self.words < words:
            self.words = words + words // 4
            self._keep(work=np.empty(self.words, np.uint64), sketch=np.zeros(64 + 4 * 256, np.uint8))
            SCRATCH.fill(self.record, work_size=self.words)

    def count(self, rows: int) -> None:
        """Have room for bands over so many rows."""
        if self.rows < rows:
            self.rows = rows + rows // 8
            self._keep(
                counts=np.zeros(self.rows + STRAY, np.uint8),
                listed_rows=np.empty(self.rows, np.uint32),
                order=np.empty(self.rows, np.uint32),
            )
            SCRATCH.fill(self.record, rows=self.rows)

    def walk(self, nodes: int, pool: int, layout: str) -> Table:
        """Have room for walks over so many nodes, with such a pool. layout: of codes. Returns `table_for` them."""
        if self.nodes < nodes or self.pool < pool:
            self.nodes, self.pool = nodes + nodes // 8, pool
            visited, listed = (self.nodes >> 3) + 1, min(self.nodes, _LISTED) + 2 * MOST_LINKS + 2
            self._keep(
                sums=np.empty(MOST_CODE_BYTES, np.float64),
                code=np.empty(MOST_CODE_BYTES, np.uint8),
                pool=_in_blocks(pool),
                visited=np.zeros(visited, np.uint8),
                listed=np.empty(listed, np.uint64),
                found=np.empty(_FOUND, np.uint64),
            )
            SCRATCH.fill(self.record, pool_size=pool, visited_size=visited, listed_size=listed)
        return self.table_for(layout)

    def table_for(self, layout: str) -> Table:
        """The table that codes of a layout need, clear: kernels are compiled for each kind of it."""
        if layout not in self._tables:
            packed = layout == PACKED
            self._tables[layout] = np.zeros(TABLE_WORDS, np.uint16) if packed else np.zeros((1, MOST_CODE_BYTES), np.float32)
        return self._tables[layout]

    def _keep(self, **arrays: NDArray[Any]) -> None:
        self._kept |= arrays
        SCRATCH.fill(self.record, **arrays)


def _in_blocks(count: int) -> NDArray[np.uint64]:
    """Room for so many keys of a pool, and for the rest of the last block."""
    size = count + -count % BLOCK
    room = np.empty(size + BLOCK, np.uint64)
    first = -(address_of(room) // 8) % BLOCK
    return room[first : first + size]
