"""A file without meta pages: the last state is found by the list of its trees, or nothing is said to be it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import kinbin
from kinbin.storage import rootless
from linked import still
from torture.pages import PAGE, PageMap
from workload import stored_items

FILE = Path("collections") / "c" / "data.mdb"
HEAD, RECORD = 16, 48


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background."""
    with still():
        yield


def lose_metas(file: Path) -> None:
    """Zero both."""
    file.write_bytes(bytes(2 * PAGE) + file.read_bytes()[2 * PAGE :])


def told(items: Mapping[str, tuple[np.ndarray, object]]) -> dict[str, tuple[bytes, object]]:
    """What two collections are compared by."""
    return {name: (vector.tobytes(), payload) for name, (vector, payload) in items.items()}


def a_life(collection: kinbin.Collection, seed: int) -> None:
    """A few edits and merges: names are written again and again, so that earlier states have other items under them."""
    rng = random.Random(seed)
    vectors = np.random.default_rng(seed)
    for _ in range(rng.randrange(1, 40)):
        names = list(dict.fromkeys(f"i{rng.randrange(200)}" for _ in range(rng.choice([1, 3, 60]))))
        what = rng.random()
        if what < 0.7:
            collection.add(names, vectors.random((len(names), 6)) + 0.1, [{"n": rng.random()} for _ in names])
        elif what < 0.85:
            collection.delete(names)
        else:
            collection.compact()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_the_last_state_is_found(tmp_path: Path, seed: int) -> None:
    """All of it is saved, as it was last, whatever came before; that it may not be the last is said."""
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=6)
        a_life(collection, seed)
        expected = told(stored_items(collection))
    lose_metas(tmp_path / FILE)
    with kinbin.open(tmp_path) as database:
        with pytest.raises(kinbin.CorruptData, match="both meta pages"):
            database.collection("c")
        if not expected:
            return
        report = database.repair("c")
        assert (report.items, report.lost, report.bare) == (len(expected), 0, 0)
        assert any("both meta pages are damaged" in problem for problem in report.problems)
        assert told(stored_items(database.collection(report.name))) == expected


@pytest.fixture
def sound(tmp_path: Path) -> bytes:
    """The file of a collection of one run and a few fresh rows."""
    vectors = np.random.default_rng(4).random((500, 6)) + 0.1
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=6)
        collection.add([f"i{i}" for i in range(480)], vectors[:480])
        collection.compact()
        collection.add([f"i{i}" for i in range(470, 500)], vectors[470:])
    return (tmp_path / FILE).read_bytes()


def with_another_list(data: bytes, tree: bytes, record: bytes) -> bytes:
    """The file with one page more: the list of its last state, in which one tree has another record."""
    (found,) = PageMap.of(data).leaves["main"]
    page = bytearray(data[found * PAGE :][:PAGE])
    page[:8] = (len(data) // PAGE).to_bytes(8, "little")
    at = page.index(bytes([len(tree), 0]) + tree, HEAD) + 2 + len(tree)
    page[at : at + RECORD] = record
    return data + bytes(page)


def record_of(data: bytes, tree: bytes) -> bytes:
    """The record of a tree in the list of the last state."""
    (found,) = PageMap.of(data).leaves["main"]
    (node,) = (node for node in PageMap.of(data).nodes(found) if node.key == tree)
    return data[node.value_at :][:RECORD]


EMPTY = bytes(RECORD - 8) + b"\xff" * 8


@pytest.mark.parametrize("tree", [b"items", b"owners", b"journal", b"runs"])
@pytest.mark.parametrize("others", [False, True])
def test_of_two_lists_that_lead_to_one_state_the_false_one_is_told(tmp_path: Path, sound: bytes, tree: bytes, others: bool) -> None:
    """It lacks a tree that is not empty, or has another one's pages, which then serve two ends."""
    record = record_of(sound, b"meta" if tree != b"items" else b"owners") if others else EMPTY
    (tmp_path / FILE).write_bytes(with_another_list(sound, tree, record))
    lose_metas(tmp_path / FILE)
    with kinbin.open(tmp_path) as database:
        report = database.repair("c")
        assert (report.items, report.lost) == (500, 0)


def test_where_nothing_tells_which_list_is_the_last_none_is_taken(tmp_path: Path, sound: bytes) -> None:
    """Both lack a page, and list other items: none of these is given back as what was stored last."""
    two = with_another_list(sound, b"items", record_of(sound, b"owners"))
    journal = PageMap.of(sound).leaves["journal"][0]
    (tmp_path / FILE).write_bytes(two[: journal * PAGE] + bytes(PAGE) + two[(journal + 1) * PAGE :])
    lose_metas(tmp_path / FILE)
    with kinbin.open(tmp_path) as database:
        with pytest.raises(kinbin.CorruptData, match="nothing can be saved"):
            database.repair("c")
        assert database.collections() == ["c"]


def test_the_list_is_taken_though_its_trees_are_damaged(tmp_path: Path, sound: bytes) -> None:
    """What is whole is saved: here all but the new rows of the last add."""
    journal = PageMap.of(sound).leaves["journal"][0]
    (tmp_path / FILE).write_bytes(sound[: journal * PAGE] + bytes(PAGE) + sound[(journal + 1) * PAGE :])
    lose_metas(tmp_path / FILE)
    with kinbin.open(tmp_path) as database:
        report = database.repair("c")
        assert (report.items, report.lost) == (480, 20)


def test_other_bytes_in_the_place_of_both_are_told_as_that(tmp_path: Path, sound: bytes) -> None:
    """The rest of the file is that of a store: `repair` is the advice, and saves all."""
    (tmp_path / FILE).write_bytes(np.random.default_rng(1).bytes(2 * PAGE) + sound[2 * PAGE :])
    with kinbin.open(tmp_path) as database:
        with pytest.raises(kinbin.CorruptData, match=r"both meta pages.*kinbin repair"):
            database.collection("c")
        assert database.repair("c").items == 500


@pytest.mark.parametrize("size", [512, 4096, 16_384, 65_536])
def test_the_size_of_pages_is_told_by_their_numbers(tmp_path: Path, size: int) -> None:
    """Of pages that carry their own number in their first bytes, as LMDB's do, amid some that do not."""
    file = tmp_path / "pages"
    file.write_bytes(b"".join((number if number % 3 else 0).to_bytes(8, "little") + bytes(size - 8) for number in range(40)))
    with file.open("rb") as opened:
        assert rootless.likely_page_bytes(opened.fileno(), 40 * size) == size
