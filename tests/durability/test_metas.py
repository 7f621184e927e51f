"""The two meta pages, which carry no checksum: under a process that writes, and of a file that nobody has open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinbin
from linked import still

pytestmark = pytest.mark.durability

PAGE, ROWS = 4096, 60
MAGIC, VERSION, NUMBER, FLAGS = 16, 20, 0, 10


def zeroed(page: bytearray) -> None:
    """All of it."""
    page[:] = bytes(PAGE)


def flipped(at: int) -> Callable[[bytearray], None]:
    """One bit."""

    def flip(page: bytearray) -> None:
        page[at] ^= 2

    return flip


HARMS: dict[str, Callable[[bytearray], None]] = {
    "zeroed": zeroed, "magic": flipped(MAGIC), "version": flipped(VERSION), "number": flipped(NUMBER), "flags": flipped(FLAGS),
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the collection "c" of a database "data" lies."""
    return tmp_path / "data" / "collections" / "c" / "data.mdb"


def transaction(page: bytearray) -> int:
    """Of a meta page."""
    return int.from_bytes(page[16 + 24 + 96 + 8 :][:8], "little")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("commits", [1, 2])
def test_nothing_is_acknowledged_into_a_damaged_meta_page(file: Path, rng: np.random.Generator, harm: str, commits: int) -> None:
    """The next commit is written over the older of the two, and only a part of it: it would not be found again."""
    rows = rng.random((ROWS, 4)) + 0.1
    ids = [f"i{i}" for i in range(ROWS)]
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", dim=4)
        for _ in range(commits):
            collection.add(ids[:20], rows[:20])
            rows = rows[::-1]
        sound = file.read_bytes()
        pages = [bytearray(sound[at : at + PAGE]) for at in (0, PAGE)]
        older = min((0, 1), key=lambda which: transaction(pages[which]))
        HARMS[harm](pages[older])
        with file.open("r+b") as opened:
            opened.seek(older * PAGE)
            opened.write(pages[older])
        for _ in range(2):
            with pytest.raises(kinbin.CorruptData, match="a meta page is damaged"):
                collection.add(ids[20:], rows[20:])
        assert collection.count() == 20
        with file.open("r+b") as opened:
            opened.seek(older * PAGE)
            opened.write(sound[older * PAGE : (older + 1) * PAGE])
        collection.add(ids[20:], rows[20:])
    with kinbin.open(file.parents[2]) as database:
        assert database.collection("c").count() == ROWS


def test_exchanged_meta_pages_cost_nothing(file: Path, rng: np.random.Generator) -> None:
    """Each in the place of the other: every use is refused as damage, and all is saved."""
    rows = rng.random((ROWS, 4)) + 0.1
    with kinbin.open(file.parents[2]) as database:
        database.create_collection("c", dim=4).add([f"i{i}" for i in range(ROWS)], rows)
    sound = file.read_bytes()
    file.write_bytes(sound[PAGE : 2 * PAGE] + sound[:PAGE] + sound[2 * PAGE :])
    with kinbin.open(file.parents[2]) as database:
        with pytest.raises(kinbin.CorruptData, match="both meta pages"):
            database.collection("c")
        assert not database.check()["c"].ok
        report = database.repair("c")
        assert (report.items, report.lost) == (ROWS, 0)
        assert database.collection("c-repaired").count() == ROWS


@pytest.mark.parametrize("left", [1, 100, 143, 4096, 8191])
def test_what_is_left_of_a_file_is_damage_and_no_other_version(file: Path, left: int) -> None:
    """Nobody is sent to look for another version of Kinbin; nothing is made of it."""
    with kinbin.open(file.parents[2]) as database:
        database.create_collection("c", dim=4).add(["a"], [[1.0, 2, 3, 4]])
    file.write_bytes(file.read_bytes()[:left])
    with kinbin.open(file.parents[2]) as database:
        for use in (lambda: database.collection("c"), lambda: database.repair("c")):
            with pytest.raises(kinbin.CorruptData):
                use()
        assert not database.check()["c"].ok
        assert database.collections() == ["c"]


def test_lost_meta_pages_leave_no_empty_collection(file: Path, rng: np.random.Generator) -> None:
    """Without a root no item is found: nothing is made, and the last state record tells how many there were, not the first one."""
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", dim=4)
        collection.add([f"i{i}" for i in range(ROWS)], rng.random((ROWS, 4)) + 0.1)
    file.write_bytes(bytes(2 * PAGE) + file.read_bytes()[2 * PAGE :])
    with kinbin.open(file.parents[2]) as database:
        with pytest.raises(kinbin.CorruptData, match=f"nothing can be saved.*{ROWS} more items were stored"):
            database.repair("c")
        assert database.collections() == ["c"]
