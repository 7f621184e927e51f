"""Dead rows: a bit a row, against sets of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin.errors import CorruptData
from kinbin.storage.creation import create_store
from kinbin.storage.dead import DeadRows
from kinbin.storage.format import DEAD_ROWS, Part
from kinbin.storage.store import Store
from stored_headers import CONFIGURATION

ROWS = st.integers(0, 300)


@st.composite
def some_dead(draw: st.DrawFn) -> tuple[int, set[int]]:
    """A number of rows, and which of them are dead."""
    rows = draw(ROWS)
    return rows, draw(st.sets(st.integers(0, rows - 1))) if rows else set()


def made(rows: int, gone: set[int]) -> DeadRows:
    """Rows of which some are dead."""
    return DeadRows.of(rows).with_dead(np.array(sorted(gone), np.int64))


@given(some_dead())
def test_each_row_is_dead_or_alive(case: tuple[int, set[int]]) -> None:
    """The dead rows are just those that were marked, whoever asks; the bits are those of the format."""
    rows, gone = case
    dead = made(rows, gone)
    assert dead.gone().tolist() == sorted(gone)
    assert dead.living().tolist() == sorted(set(range(rows)) - gone)
    assert (dead.count, dead.live) == (len(gone), rows - len(gone))
    alive = [row for row in range(rows) if row not in gone]
    assert dead.living().tolist() == alive
    for first in range(0, rows, 24):
        assert dead.living(first, first + 24).tolist() == [row for row in alive if first <= row < first + 24]
    assert [dead.is_dead(row) for row in range(rows)] == [row in gone for row in range(rows)]
    assert int.from_bytes(dead.bits.tobytes(), "little") == sum(1 << row for row in gone)


@given(some_dead(), some_dead(), st.integers(-20, 320), st.integers(-20, 320))
def test_more_rows_die(case: tuple[int, set[int]], more: tuple[int, set[int]], first: int, past: int) -> None:
    """Marks add up, by number, by range, by place; what was there before stays as it was."""
    rows, gone = case
    dead = made(rows, gone)
    before = dead.bits.tobytes()
    others = {row for row in more[1] if row < rows}
    inside = {row for row in range(max(first, 0), max(past, 0)) if row < rows}
    assert dead.with_dead(np.array(sorted(others), np.int64)).gone().tolist() == sorted(gone | others)
    assert dead.with_range(first, past).gone().tolist() == sorted(gone | inside)
    assert dead.hiding(np.isin(np.arange(rows), sorted(others))).gone().tolist() == sorted(gone | others)
    assert dead.bits.tobytes() == before


@given(some_dead(), ROWS)
def test_rows_that_come_are_alive(case: tuple[int, set[int]], more: int) -> None:
    """More rows are added alive, and nobody rises."""
    rows, gone = case
    grown = made(rows, gone).grown(rows + more)
    assert grown.rows == rows + more
    assert grown.gone().tolist() == sorted(gone)
    assert 8 * len(grown.bits) >= max(1, rows + more)


@pytest.mark.parametrize(("index", "size"), [(1, DEAD_ROWS // 8), (0, DEAD_ROWS // 8 - 1), (0, 0)], ids=["another chunk", "short", "none"])
def test_dead_bits_that_no_row_has_are_damage(tmp_path: Path, index: int, size: int) -> None:
    """A chunk beyond the rows of its run, or of another length, is told as damage."""
    create_store(tmp_path / "store", CONFIGURATION)
    store = Store(tmp_path / "store")
    with store.write() as writer:
        writer.put_run_part(1, Part.DEAD, index, bytes(size))
    with store.read() as reader, pytest.raises(CorruptData, match="dead"):
        reader.run_dead(1, DEAD_ROWS)
