"""A query string laid out as bit patterns: of each of its characters, where it stands, 64 places a word.

(Myers 1999, "A fast bit-vector algorithm for approximate string matching based on dynamic programming"; in blocks, Hyyrö 2003.)
Distances of strings differ in what they do with the words; all of them lay the query out as this says, in 8-byte words:

    0            characters of the query, m
    1            words a pattern, b = ⌈m / 64⌉
    2            the number of patterns, the first of which is that of characters that the query has not: zeros
    3            cells of the table of other characters, a power of two
    8            u32 × 256: the pattern of each value below 256
    136          two words a block, which a distance may use as it likes
    136 + 2 b    the table: value << 32 | pattern, 0 where a cell is free (linear probing)
    …            the patterns, b words each

A character's value is its code point plus 1 (`items.strings`). Damaged rows may hold any float32: what is no value has the first pattern.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.jit import inline, strict
from kinbin.native.memory import f32_array, item, pointer_f32, pointer_u32, pointer_u64, u8_array, u32_array, u64_array, u64_at
from kinbin.rows.lookup import work_at
from kinbin.rows.record import HEADER
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import farthest_for
from kinbin.spaces.space import Objects, Sketch

__all__ = ["LAID_OUT", "SKETCHED", "Patterns", "pattern_of", "patterns_at", "patterns_end", "room_of", "text_at"]

U64 = np.uint64
_SMALL, _STATE = 8, 136
_FEW_VALUES = 256
_MOST_VALUE = np.float32(2.0**21)
"""Above the value of every character."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_LONG = 512
"""Queries up to this length have room for as many patterns as characters."""


class Patterns(NamedTuple):
    """A query that is laid out, as compiled code sees it: pointers, for `item`."""

    length: Any
    words: Any
    cells: Any
    small: Any
    table: Any
    bits: Any
    state: Any
    """Address of two words a block."""


@inline
def _cells_for(m):
    """Cells of the table for m characters: at most half of them are taken."""
    cells = 2
    while cells < 2 * m:
        cells *= 2
    return cells


@inline
def patterns_at(looked_up):
    """The query that is laid out in the look-up at an address."""
    work = work_at(looked_up)
    words = np.int64(u64_at(work + U64(8)))
    cells = np.int64(u64_at(work + U64(24)))
    table = work + U64(8) * U64(_STATE + 2 * words)
    return Patterns(
        np.int64(u64_at(work)), words, cells, pointer_u32(work + U64(8 * _SMALL)), pointer_u64(table),
        pointer_u64(table + U64(8) * U64(cells)), work + U64(8 * _STATE),
    )  # fmt: skip


@inline
def patterns_end(patterns, count):
    """The address behind the last of so many patterns."""
    return patterns.state + U64(8) * U64(2 * patterns.words + patterns.cells + patterns.words * count)


@inline
def text_at(row, nnz):
    """The characters of a stored row, for `item`."""
    return pointer_f32(row + U64(HEADER + (2 * nnz + 3) // 4 * 4))


@inline
def _first_cell(value, cells):
    """Where the search for a value begins."""
    return np.int64((U64(value) * _MIX) >> U64(32)) & (cells - 1)


@inline
def pattern_of(patterns, value):
    """The place of a character's first word among the patterns."""
    if not (value >= np.float32(1.0) and value < _MOST_VALUE):
        return np.int64(0)
    whole = np.int64(value)
    if whole < _FEW_VALUES:
        return np.int64(item(patterns.small, whole)) * patterns.words
    cell = _first_cell(whole, patterns.cells)
    while True:
        entry = item(patterns.table, cell)
        if entry == U64(0):
            return np.int64(0)
        if np.int64(entry >> U64(32)) == whole:
            return np.int64(entry & U64(0xFFFFFFFF)) * patterns.words
        cell = (cell + 1) & (patterns.cells - 1)


@inline
def _named(small, table, cells, value, fresh):
    """The pattern of a query's character; `fresh`, the next free one, if it has none so far."""
    if value < _FEW_VALUES:
        if small[value] == 0:
            small[value] = np.uint32(fresh)
        return np.int64(small[value])
    cell = _first_cell(value, cells)
    while table[cell] != U64(0) and np.int64(table[cell] >> U64(32)) != value:
        cell = (cell + 1) & (cells - 1)
    if table[cell] == U64(0):
        table[cell] = U64(value) << U64(32) | U64(fresh)
    return np.int64(table[cell] & U64(0xFFFFFFFF))


@strict
def _prepare(values, m, looked_up):
    """Lay a query out. Cost: 0.1 µs and 2 ns a character."""
    words, cells = (m + 63) // 64, _cells_for(m)
    work = work_at(looked_up)
    table_at = work + U64(8) * U64(_STATE + 2 * words)
    head, small = u64_array(work, _SMALL), u32_array(work + U64(8 * _SMALL), _FEW_VALUES)
    table = u64_array(table_at, cells)
    text = f32_array(values, m)
    small[:] = np.uint32(0)
    table[:] = U64(0)
    bits = u64_array(table_at + U64(8) * U64(cells), words * (m + 1))
    bits[:words] = U64(0)
    count = 1
    for t in range(m):
        # Of a stored row that is damaged, and asked for by its id, a value may be anything.
        value = np.int64(text[t]) if text[t] >= np.float32(1.0) and text[t] < _MOST_VALUE else np.int64(1)
        pattern = _named(small, table, cells, value, count)
        if pattern == count:
            bits[words * pattern : words * (pattern + 1)] = U64(0)
            count += 1
        bits[words * pattern + t // 64] |= U64(1) << U64(t % 64)
    head[0], head[1], head[2], head[3] = U64(m), U64(words), U64(count), U64(cells)
    return 0.0


def room_of(rows: Rows) -> int:
    """Words that the longest of these queries takes."""
    most = 0
    for i in range(len(rows)) if rows.most_nonzeros > _LONG else ():
        _, values = rows.row(i)
        if len(values) > _LONG:
            most = max(most, _room(len(values), len(np.unique(values))))
    short = min(rows.most_nonzeros, _LONG)
    return max(most, _room(short, short))


def _room(m: int, different: int) -> int:
    words = -(-m // 64)
    return _STATE + 2 * words + max(2, 1 << (2 * m - 1).bit_length()) + words * (different + 1)


def _row_ns(characters: float) -> float:
    """Measured: 5 ns a character and block of the query, which is as long as the row in the mean."""
    return 20.0 + 5.0 * characters * max(1.0, characters / 64.0)


@strict
def _sketch(values, n, _frame, out):
    """Counts of pairs of characters in a row, with a mark before the first and behind the last, in 64 cells by a hash.

    An edit takes 2 pairs away at most, and puts 2 at most in their place (Ukkonen 1992): the counts of two strings are at most four times
    their distance apart. Cells that several pairs share, and counts that end at 255, bring them no farther apart.
    """
    cells = u8_array(out, 64)
    cells[:] = np.uint8(0)
    text = pointer_f32(values)
    before = U64(0)
    for t in range(n + 1):
        value = item(text, t) if t < n else np.float32(0.0)
        here = U64(np.int64(value)) if value >= np.float32(1.0) and value < _MOST_VALUE else U64(0)
        cell = (((before << U64(21)) | here) * _MIX) >> U64(58)
        cells[cell] += np.uint8(cells[cell] < 255)
        before = here
    return 0.0


@strict
def _sketch_reach(_frame, score):
    """Of a pair that scores so much."""
    return 4.0 * np.floor(farthest_for(score))


@strict
def _size_reach(_frame, score):
    """Each edit changes the length by 1 at most."""
    return np.floor(farthest_for(score))


SKETCHED = Sketch(_sketch, _sketch_reach, _size_reach)
LAID_OUT = Objects(_prepare, room_of, _row_ns, SKETCHED)
"""How a query is laid out, and what sketches say, for distances that count insertions, deletions and replacements."""
