"""The two meta pages, which carry no checksum: under a process that writes, and of a file that nobody has open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinbin
from linked import still
from torture.pages import list_pages, newest_meta

pytestmark = pytest.mark.durability

PAGE, ROWS = 4096, 60
MAGIC, VERSION, NUMBER, FLAGS = 16, 20, 0, 10
PAGE_SIZE_AT, LAST_PAGE_AT, META_BYTES = 40, 136, 152
OTHER = """
import sys, kinbin
with kinbin.open(sys.argv[1]) as database:
    database.collection("c").add(["b"], [[1.0, 2, 3, 4]])
"""
"""Another process that writes."""


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


@pytest.mark.slow
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


def test_a_lost_root_leaves_no_empty_collection(file: Path, rng: np.random.Generator) -> None:
    """Without meta pages and lists of trees nothing is made, and the last state record tells how many items there were, not the first."""
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", dim=4)
        collection.add([f"i{i}" for i in range(ROWS)], rng.random((ROWS, 4)) + 0.1)
    sound = file.read_bytes()
    lists = list_pages(sound)
    pages = [bytes(PAGE) if page < 2 or page in lists else sound[page * PAGE :][:PAGE] for page in range(len(sound) // PAGE)]
    file.write_bytes(b"".join(pages))
    with kinbin.open(file.parents[2]) as database:
        with pytest.raises(kinbin.CorruptData, match=f"nothing can be saved.*which was found, counted {ROWS} items"):
            database.repair("c")
        assert database.collections() == ["c"]


def flip(file: Path, bit: int, *, number: int) -> None:
    """One bit of a meta page, 0 or 1, of a file that may be open."""
    with file.open("r+b") as opened:
        opened.seek(number * PAGE + bit // 8)
        byte = opened.read(1)[0]
        opened.seek(number * PAGE + bit // 8)
        opened.write(bytes([byte ^ 1 << bit % 8]))


@pytest.mark.slow
@pytest.mark.parametrize("seen", [True, False])
def test_no_commit_goes_on_from_a_damaged_meta_page(file: Path, rng: np.random.Generator, seen: bool) -> None:
    """LMDB takes most of the next meta page from the newest: whatever bit of that one flips, nothing is acknowledged until it is whole."""
    rows = rng.random((ROWS, 4)) + 0.1
    ids = [f"i{i}" for i in range(ROWS)]
    bits = [8 * at + int(rng.integers(8)) for at in range(META_BYTES)] + [8 * at + bit for at in (40, 41, 42, 43) for bit in range(8)]
    with kinbin.open(file.parents[2]) as database:
        database.create_collection("c", dim=4)
    for bit in bits:
        with still(), kinbin.open(file.parents[2]) as database:
            collection = database.collection("c")
            collection.add(ids[:20], rows[bit % 20 :][:20])
            if seen:
                assert collection.count() == 20
            number = newest_meta(file.read_bytes())
            flip(file, bit, number=number)
            for _ in range(2):
                with pytest.raises(kinbin.CorruptData):
                    collection.add(ids[20:40], rows[20:40])
            flip(file, bit, number=number)
    with kinbin.open(file.parents[2]) as database:
        collection = database.collection("c")
        assert collection.count() == 20
        collection.add(ids, rows)
        assert collection.count() == ROWS
        assert database.check()["c"].ok


@pytest.mark.slow
@pytest.mark.parametrize("harm", [(40, 0), (40, 31), (32, 12), (136, 0)], ids=["page size", "page size", "map", "last page"])
def test_a_meta_page_that_another_process_left_is_looked_at(file: Path, rng: np.random.Generator, harm: tuple[int, int]) -> None:
    """What one process wrote, and harm befell before another one saw it, is held against the file and the page before."""
    at, bit = harm
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", dim=4)
        collection.add(["a"], rng.random((1, 4)))
        subprocess.run([sys.executable, "-c", OTHER, str(file.parents[2])], check=True)
        content = file.read_bytes()
        number = newest_meta(file.read_bytes())
        last = int.from_bytes(content[number * PAGE + LAST_PAGE_AT :][:8], "little")
        if at == LAST_PAGE_AT:
            # The highest bit that makes it less than what the other page says, and leaves the pages of the trees.
            bit = last.bit_length() - 1
        flip(file, at * 8 + bit, number=number)
        with pytest.raises(kinbin.CorruptData):
            collection.add(["c"], rng.random((1, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("which", ["the newest", "both"])
@pytest.mark.parametrize("bit", [0, 5, 12, 31])
def test_meta_pages_with_a_wrong_page_size_cost_nothing(file: Path, rng: np.random.Generator, which: str, bit: int) -> None:
    """All is saved: the place of the second meta page tells the size."""
    rows = rng.random((ROWS, 4)) + 0.1
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", dim=4)
        collection.add([f"i{i}" for i in range(20)], rows[:20])
        collection.compact()
        collection.add([f"i{i}" for i in range(20, ROWS)], rows[20:])
    newest = newest_meta(file.read_bytes())
    for number in (0, 1) if which == "both" else (newest,):
        flip(file, PAGE_SIZE_AT * 8 + bit, number=number)
    with kinbin.open(file.parents[2]) as database:
        assert not database.check()["c"].ok
        report = database.repair("c")
        assert (report.items, report.lost) == (ROWS, 0)


@pytest.mark.slow
@pytest.mark.parametrize("larger", [False, True])  # whether the last commit made the file so
@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("fields", [False, True])
def test_a_last_transaction_that_is_told_as_the_one_before_the_last(
    file: Path, rng: np.random.Generator, *, fields: bool, table: bool, larger: bool
) -> None:
    """One flipped bit of its number, and the two still follow each other.

    All is saved, and no older state is opened in its place.
    """
    of = {"fields": {"a": {"dim": 4}}} if fields else {"dim": 4}
    rows = rng.random((ROWS, 4)) + 0.1
    with still(), kinbin.open(file.parents[2]) as database:
        collection = database.create_collection("c", **of)
        for i in range(ROWS):
            collection.add([f"i{i}"], {"a": rows[i : i + 1]} if fields else rows[i : i + 1])
            content, newest = file.read_bytes(), newest_meta(file.read_bytes())
            ends = [int.from_bytes(content[number * PAGE + LAST_PAGE_AT :][:8], "little") for number in (newest, 1 - newest)]
            if (ends[0] > ends[1]) == larger and transaction(bytearray(content[newest * PAGE :][:PAGE])) & 2:
                break
        else:
            pytest.fail("no commit did so")
        count = collection.count()
    number = newest_meta(file.read_bytes())
    flip(file, 8 * (LAST_PAGE_AT + 8) + 1, number=number)
    assert newest_meta(file.read_bytes()) != number
    if not table:
        # It would tell of the commit.
        file.with_name("lock.mdb").unlink()
    with kinbin.open(file.parents[2]) as database:
        for _ in range(2):
            with pytest.raises(kinbin.CorruptData, match="which state is the last is not known"):
                database.collection("c")
        assert not database.check()["c"].ok
        report = database.repair("c")
        assert (report.items, report.lost) == (count, 0)
    if not fields:
        assert kinbin.open(file.parents[2]).recoverable("c")[0].items == count
