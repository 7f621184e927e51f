"""Work space of builds: in memory as far as it fits there, in files without a name beyond, and a full disk is an error in time."""

from __future__ import annotations

import errno
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin.errors import StorageFull
from kinbin.storage.workspace import IN_MEMORY, PIECE, Growing, WorkSpace, pieces


def is_in_file(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's bytes are those of a file."""
    base: Any = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def test_what_does_not_fit_into_memory_is_in_a_file(tmp_path: Path) -> None:
    """Arrays are in memory as long as all that are held fit there, then in files, and in memory again when others were let go of."""
    room = WorkSpace(tmp_path, 1_000)
    first = room.empty(100, np.uint64)
    assert (is_in_file(first), room.left) == (False, 200)
    second, third = room.empty((10, 5), np.float64), room.empty(50, np.uint32)
    assert (is_in_file(second), is_in_file(third), room.left) == (True, False, 0)
    assert second.shape == (10, 5)
    assert second.dtype == np.float64
    part = first[10:20]
    del first
    assert room.left == 0, "a view holds the whole array"
    del part
    assert room.left == 800
    assert not is_in_file(room.empty(100, np.uint64))


def test_files_leave_nothing_in_the_folder(tmp_path: Path) -> None:
    """A file has no name while it is used, and is gone with its array."""
    room = WorkSpace(tmp_path, 0)
    array = room.empty(100_000, np.uint64)
    growing = Growing(room, np.uint32)
    growing.append(np.arange(1_000, dtype=np.uint32))
    assert list(tmp_path.iterdir()) == []
    assert is_in_file(array)
    assert is_in_file(growing.array())


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_arrays_hold_what_they_should(tmp_path: Path, most: int) -> None:
    """Zeros are zeros, copies are copies, numbers count; all can be written, of no length, too."""
    room = WorkSpace(tmp_path, most)
    for count in (0, 1, 3 * PIECE + 5):
        zeros = room.zeros((count, 2), np.uint16)
        assert zeros.shape == (count, 2)
        assert not zeros.any()
        numbers = room.numbers(count)
        np.testing.assert_array_equal(numbers, np.arange(count))
        copied = room.copy(numbers)
        copied[:] += 1
        np.testing.assert_array_equal(numbers, np.arange(count))
        np.testing.assert_array_equal(copied, np.arange(1, count + 1))
        assert is_in_file(copied) == (most == 0 and count > 0)


@pytest.mark.parametrize("most", [0, 700, 5_000, 1 << 30])
def test_an_array_that_grows(tmp_path: Path, most: int) -> None:
    """What is appended comes back in order, in memory or in a file, and counts as held while it is there."""
    room = WorkSpace(tmp_path, most)
    growing = Growing(room, np.uint32)
    parts = [np.arange(count, dtype=np.uint32).reshape(-1, 4) for count in (0, 40, 400, 4_000)]
    for part in parts:
        growing.append(part)
    array = growing.array()
    np.testing.assert_array_equal(array, np.concatenate(parts).reshape(-1))
    assert is_in_file(array) == (most < 4 * 4_440 * 9 // 8)
    assert room.left == most - (0 if is_in_file(array) else 4 * 4_440)
    del array, growing
    assert room.left == most
    assert len(Growing(room, np.uint32).array()) == 0


def test_a_file_that_nobody_asks_for_is_closed(tmp_path: Path) -> None:
    """What was appended and is not wanted any more, as after an error, leaves no open file."""
    growing = Growing(WorkSpace(tmp_path, 0), np.uint32)
    growing.append(np.arange(100, dtype=np.uint32))
    file = growing._file
    assert file is not None
    assert not file.closed
    del growing
    assert file.closed


@given(st.integers(0, 4 * PIECE))
def test_pieces_follow_each_other(count: int) -> None:
    """Pieces are all rows, each once, in order."""
    bounds = list(pieces(count))
    assert [first for first, _ in bounds] == [0, *(past for _, past in bounds)][: len(bounds)]
    assert sum(past - first for first, past in bounds) == count
    assert all(0 < past - first <= PIECE for first, past in bounds)


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk has no room for an array, making it raises StorageFull: writing to it later would end the process."""
    room = WorkSpace(tmp_path, 100)

    def refuse(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", refuse)
        with pytest.raises(StorageFull):
            room.empty(1_000, np.uint64)
        assert len(room.empty(10, np.uint64)) == 10, "what fits into memory needs no disk"
    array = room.empty(1_000, np.uint64)
    array[:] = 7
    assert is_in_file(array)


def test_memory_has_no_bound_where_none_is_wanted() -> None:
    """Work space in memory never asks for a file."""
    assert not is_in_file(IN_MEMORY.empty(1 << 20, np.uint64))
