"""Damage that comes while a process has the file open: what it has verified it keeps, and nothing of it is written down as sound."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.storage.format as fmt
from linked import link_sets, still
from torture.pages import PAGE, Node, PageMap
from torture.specimen import seal

ROWS, DIM = 300, 8
X = (np.random.default_rng(4).random((ROWS, DIM)) + 0.01).astype(np.float32)
IDS = [f"i{row:03d}" for row in range(ROWS)]
Open = tuple[Any, Path]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """A collection of two runs, that lacks every fourth item, opened anew and read once; and its file."""
    with still():
        with kinbin.open(tmp_path) as database:
            made = database.create_collection("c", dim=DIM, seed=1)
            for first in (0, ROWS // 2):
                made.add(IDS[first : first + ROWS // 2], X[first : first + ROWS // 2])
                made.delete(IDS[first : first + ROWS // 2 : 4])
                seal(made)
        with kinbin.open(tmp_path) as database:
            collection = database.collection("c")
            collection.query(X[1], mode="exact")
            yield collection, tmp_path / "collections" / "c" / "data.mdb"


def left() -> list[int]:
    """The rows whose items were not deleted."""
    return [row for row in range(ROWS) if row % (ROWS // 2) % 4]


def numbers_of(file: Path) -> list[Node]:
    """Where the row numbers of the runs lie."""
    pages = PageMap.of(file.read_bytes())
    return [node for leaf in pages.leaves["runs"] for node in pages.nodes(leaf) if node.key[4:5] == fmt.Part.ROW_NUMBERS]


def write(file: Path, at: int, content: bytes) -> None:
    """Change the file in place."""
    with file.open("r+b") as out:
        out.seek(at)
        out.write(content)


def holds(collection: Any, rows: list[int]) -> None:
    """See that these rows are stored, each with its own vector, and nothing else."""
    assert collection.count() == len(rows)
    for row in rows:
        assert np.array_equal(collection.get([IDS[row]])[0].vector, X[row])
        assert list(collection.query(X[row], k=1, mode="exact").ids) == [IDS[row]]


def one_bit(seed: int, file: Path) -> None:
    """Flip a bit of the row numbers of the first run."""
    rng = np.random.default_rng(seed)
    node = numbers_of(file)[0]
    at = node.value_at + fmt.VALUE_HEADER + 8 * int(rng.integers(ROWS // 2 - ROWS // 8)) + int(rng.integers(2))
    write(file, at, bytes([file.read_bytes()[at] ^ 1 << int(rng.integers(8))]))


def exchanged(file: Path) -> None:
    """Let the row numbers of two runs change places."""
    data = file.read_bytes()
    one, other = numbers_of(file)
    assert one.size == other.size
    write(file, one.value_at, data[other.value_at : other.value_at + other.size])
    write(file, other.value_at, data[one.value_at : one.value_at + one.size])


HARMS: dict[str, Callable[[Path], None]] = {f"one bit, {seed}": partial(one_bit, seed) for seed in range(6)}
HARMS["exchanged"] = exchanged


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_row_numbers_are_those_that_were_verified(opened: Open, harm: Callable[[Path], None]) -> None:
    """Row numbers that are damaged under a process cost it nothing, and what it merges is right for whoever opens it next."""
    collection, file = opened
    rows = left()
    harm(file)
    holds(collection, rows)
    collection.delete([IDS[row] for row in rows[5:60:3]])
    rows = [row for row in rows if row not in rows[5:60:3]]
    holds(collection, rows)
    collection.compact()
    holds(collection, rows)
    collection.close()
    with kinbin.open(file.parents[2]) as database:
        again = database.collection("c")
        holds(again, rows)
        assert again.check().ok


def zeroed(data: bytes, page: int, _: int) -> bytes:
    """Nothing but zeros."""
    return bytes(PAGE)


def copied(data: bytes, page: int, other: int) -> bytes:
    """Another page, under this one's number."""
    return data[page * PAGE : page * PAGE + 8] + data[other * PAGE + 8 : (other + 1) * PAGE]


def torn(data: bytes, page: int, _: int) -> bytes:
    """Half of it zeros, where the records lie."""
    return data[page * PAGE : page * PAGE + PAGE // 2] + bytes(PAGE // 2)


@pytest.mark.parametrize("harmed", [zeroed, copied, torn])
def test_a_list_of_trees_that_is_damaged_is_told_as_damage(opened: Open, harmed: Callable[[bytes, int, int], bytes]) -> None:
    """Writes of a process that has not written before are refused as damage, each of them, and reads go on or say the same."""
    collection, file = opened
    data = file.read_bytes()
    pages = PageMap.of(data)
    page = pages.leaves["main"][0]
    write(file, page * PAGE, harmed(data, page, pages.leaves["items"][0]))
    writes: tuple[Callable[[], object], ...] = (
        lambda: collection.add(["new"], X[:1]),
        lambda: collection.set_payload([IDS[1]], [{"a": 1}]),
        lambda: collection.delete([IDS[1]]),
    )
    for one in writes * 2:
        with pytest.raises(kinbin.CorruptData):
            one()
    assert np.array_equal(collection.get([IDS[1]])[0].vector, X[1])


@pytest.mark.parametrize(
    ("part", "content"),
    [(fmt.Part.ROW_NUMBERS, np.uint64(701).tobytes()), (fmt.Part.ERRORS, np.full(2, 123, "<f4").tobytes())],
    ids=["row numbers", "errors"],
)
def test_links_that_are_extended_are_those_that_were_verified(tmp_path: Path, part: bytes, content: bytes) -> None:
    """What is damaged of a link set under a process is not copied into the next one: this is built anew from the rows."""
    rng = np.random.default_rng(5)
    rows = (rng.random((3_000, DIM)) + 0.01).astype(np.float32)
    ids = [f"r{row}" for row in range(len(rows))]
    with still(), kinbin.open(tmp_path) as database:
        made = database.create_collection("c", dim=DIM)
        made.add(ids[:2_000], rows[:2_000])
        made.compact()
        made.link()
        made.query(rows[0])
        file = tmp_path / "collections" / "c" / "data.mdb"
        pages = PageMap.of(file.read_bytes())
        (number,) = link_sets(made)
        (node,) = (
            node
            for leaf in pages.leaves["runs"]
            for node in pages.nodes(leaf)
            if node.key[:4] == number.to_bytes(4, "big") and node.key[4:5] == part
        )
        harmed = node.value_at + fmt.VALUE_HEADER + 8 * 700
        write(file, harmed, content)
        made.add(ids[2_000:], rows[2_000:])
        seal(made)
        made.link()
    with kinbin.open(tmp_path) as database:
        again = database.collection("c")
        assert again.check().problems == []
        assert again.stats()["links"]["rows"] == len(rows)
        for row in range(0, len(rows), 50):
            assert list(again.query(rows[row], k=1, mode="exact").ids) == [ids[row]]


@pytest.fixture
def of_format_2(tmp_path: Path) -> Iterator[Open]:
    """A collection that an older release wrote, whose runs list no checks of their rows, opened and read; and its file."""
    with tarfile.open(Path(__file__).parents[1] / "data" / "format_v2.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    with still(), kinbin.open(tmp_path) as database:
        collection = database.collection("dense")
        collection.query(np.ones(collection.config.dim), mode="exact")
        yield collection, tmp_path / "collections" / "dense" / "data.mdb"


def test_rows_of_older_runs_are_verified_at_each_merge(of_format_2: Open) -> None:
    """Two rows that change places under a process are sound in themselves: a merge refuses them, and changes nothing."""
    collection, file = of_format_2
    with collection._store.read() as reader:
        (run,) = collection._views.at(reader).runs
        assert not len(run.checks)
    ends = np.append(run.offsets, run.lengths[0]).astype(int)
    one, other = next((i, j) for i in range(run.rows) for j in range(i) if ends[i + 1] - ends[i] == ends[j + 1] - ends[j])
    size = ends[one + 1] - ends[one]
    pages = PageMap.of(file.read_bytes())
    (node,) = [node for leaf in pages.leaves["runs"] for node in pages.nodes(leaf) if node.key[4:5] == fmt.Part.BLOCK]
    places = [node.value_at + fmt.VALUE_HEADER + ends[row] for row in (one, other)]
    records = [file.read_bytes()[place : place + size] for place in places]
    assert records[0] != records[1]
    for place, record in zip(places, reversed(records), strict=True):
        write(file, place, record)
    collection.delete([collection.scroll(limit=1).items[0].id])
    harmed = file.read_bytes()
    with pytest.raises(kinbin.CorruptData):
        collection.compact()
    assert PageMap.of(file.read_bytes()).leaves["runs"] == PageMap.of(harmed).leaves["runs"]
