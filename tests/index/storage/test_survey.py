"""The survey of all pages: sound files pass, also beside a writer; whatever a harm changes in how the trees read is found."""

from __future__ import annotations

import os
import random
import struct
import threading
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from kinbin.errors import CorruptData
from kinbin.storage.free import check_free
from kinbin.storage.mapped import _mapped, look_at
from kinbin.storage.survey import TREES, Survey, survey, survey_store
from kinbin.storage.trees import Meta, Pages, Tree, TreeRecord, walk
from torture.harm import HARMS, Harm, flips
from torture.pages import PAGE, PageMap
from torture.specimen import build

SEED = 4


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a database in all states."""
    path = tmp_path_factory.mktemp("sound") / "data"
    build(path, SEED)
    return (path / "collections" / "c" / "data.mdb").read_bytes()


def surveyed(data: bytes, path: Path) -> Survey:
    """The survey of a file with this content."""
    path.write_bytes(data)
    with path.open("rb", buffering=0) as file:
        found = survey(file.fileno(), None, TREES)
    assert found is not None
    return found


def contents(data: bytes) -> dict[str, list[tuple[bytes, int, int]]]:
    """By tree, every key in order, where its value lies, and its size, by the reader of the tests.

    Of a value on pages of its own the size is left out: nothing but the value's own head can tell it.
    """
    pages = PageMap.of(data)
    return {
        tree: [(node.key, node.value_at, 0 if node.big else node.size) for leaf in leaves for node in pages.nodes(leaf)]
        for tree, leaves in pages.leaves.items()
    }


def places(entries: dict[str, list[tuple[bytes, int, int]]]) -> dict[str, list[tuple[int, int]]]:
    """The same without keys."""
    return {tree: [(value_at, size) for _, value_at, size in some] for tree, some in entries.items()}


def test_a_sound_file_has_nothing_wrong(sound: bytes, tmp_path: Path) -> None:
    """Nothing is found in a sound file, every tree is counted, and each page is what another reader says."""
    found = surveyed(sound, tmp_path / "file")
    assert found.problems == []
    pages = PageMap.of(sound)
    assert found.transaction == pages.transaction
    assert {tree: found.entries[tree] for tree in TREES} == {
        tree: len(entries) for tree, entries in contents(sound).items() if tree in TREES
    }


# A value in the place of another is sound in itself: its pages do not tell.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["flip", *sorted(HARMS.keys() - {"swapped values", "copied value"})])
def test_what_reads_otherwise_is_found(sound: bytes, tmp_path: Path, name: str) -> None:
    """A file that a survey passes reads as it did: keys ascend, and each value is at its place."""
    rng = random.Random(f"{SEED} {name}")
    pages = PageMap.of(sound)
    harms: list[Harm] = flips(pages, rng, 120) if name == "flip" else [HARMS[name](pages, rng) for _ in range(12)]
    expected = contents(sound)
    found = 0
    for harm in harms:
        data = harm.done_to(sound)
        problems = surveyed(data, tmp_path / "file").problems
        found += bool(problems)
        if not problems:
            assert places(contents(data)) == places(expected), harm.where
            assert all(entries == sorted(entries) for tree, entries in contents(data).items() if tree in TREES), harm.where
    assert found >= len(harms) // 8, "hardly anything was found: the test proves little"


def lost(data: bytes, tree: str) -> int:
    """How many keys of a tree of two levels are not found by who goes by the separators, as look-ups do."""
    pages = PageMap.of(data)
    (branch,) = pages.by_kind()[f"{tree}:branch"]
    separators, children = [], []
    for offset in pages.node_offsets(branch):
        low, high, top, size = struct.unpack_from("<HHHH", data, branch * PAGE + offset)
        separators.append(data[branch * PAGE + offset + 8 :][:size])
        children.append(low | high << 16 | top << 32)
    keys = {child: [node.key for node in pages.nodes(child)] for child in children}
    return sum(key not in keys[children[bisect_right(separators, key, lo=1) - 1]] for child in children for key in keys[child])


@pytest.mark.parametrize("tree", ["items", "owners", "runs"])
def test_a_separator_that_is_moved_is_found(sound: bytes, tmp_path: Path, tree: str) -> None:
    """Whenever a key of a branch page sends look-ups to the wrong leaf that is found, though every leaf is whole."""
    pages = PageMap.of(sound)
    (branch,) = pages.by_kind()[f"{tree}:branch"]
    assert lost(sound, tree) == 0
    seen = 0
    for offset in pages.node_offsets(branch)[1:]:
        at = branch * PAGE + offset
        size = struct.unpack_from("<H", sound, at + 6)[0]
        for bit in range(8):
            data = bytearray(sound)
            data[at + 8 + size - 1] ^= 1 << bit
            if lost(bytes(data), tree):
                seen += 1
                assert surveyed(bytes(data), tmp_path / "file").problems
    assert seen


def test_a_free_page_that_is_in_use_is_found(sound: bytes, tmp_path: Path) -> None:
    """A list of free pages that gives away a page of a tree is found: the next commit would write over it."""
    pages = PageMap.of(sound)
    victim = pages.by_kind()["items:leaf"][0]
    node = next(node for leaf in pages.leaves["freelist"] for node in pages.nodes(leaf) if node.size >= 16)
    data = bytearray(sound)
    count = struct.unpack_from("<Q", data, node.value_at)[0]
    listed = struct.unpack_from(f"<{count}Q", data, node.value_at + 8)
    struct.pack_into(f"<{count}Q", data, node.value_at + 8, *sorted((victim, *listed[1:]), reverse=True))
    assert any(f"page {victim} serves two ends" in problem for problem in surveyed(bytes(data), tmp_path / "file").problems)


def refused_by_writers(data: bytes, folder: Path) -> bool:
    """Whether whoever writes refuses the list of free pages of a file with this content."""
    (folder / "data.mdb").write_bytes(data)
    file, _ = look_at(folder)
    with _mapped(file) as trees:
        try:
            check_free(file.descriptor, trees)
        except CorruptData:
            return True
    return False


@pytest.mark.slow
def test_what_writers_refuse_of_the_free_pages_is_found(sound: bytes, tmp_path: Path) -> None:
    """Every bit of the heads of that list's pages and nodes, and some of what they list: no writer refuses what check passes."""
    pages, rng = PageMap.of(sound), random.Random(SEED)
    places: list[int] = []
    for leaf in pages.leaves["freelist"]:
        start = leaf * PAGE
        places += range(start, start + 16)
        for offset in pages.node_offsets(leaf):
            places += range(start + offset, start + offset + 16)
        places += [node.value_at + rng.randrange(node.size) for node in pages.nodes(leaf) for _ in range(6)]
    refused = 0
    for place in places:
        for bit in range(8):
            data = bytearray(sound)
            data[place] ^= 1 << bit
            if refused_by_writers(bytes(data), tmp_path):
                refused += 1
                assert surveyed(bytes(data), tmp_path / "file").problems, f"byte {place % PAGE} of page {place // PAGE}, bit {bit}"
    assert refused > 2 * len(places)


def test_a_value_on_pages_of_another_kind_is_found(sound: bytes, tmp_path: Path) -> None:
    """Each bit of the kind of the first page of a large value: LMDB refuses to free such pages, so that links cannot be made anew."""
    pages = PageMap.of(sound)
    nodes = [node for leaf in pages.leaves["runs"] for node in pages.nodes(leaf)]
    large = [node.value_at // PAGE for node in nodes if node.big][:4]
    assert large
    for number in large:
        for bit in range(16):
            data = bytearray(sound)
            data[number * PAGE + 10 + bit // 8] ^= 1 << bit % 8
            assert surveyed(bytes(data), tmp_path / "file").problems, f"page {number}, bit {bit}"


def test_no_false_alarm_beside_a_writer(tmp_path: Path) -> None:
    """Surveys of a store that is written to all the while find nothing wrong."""
    with kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", dim=4, seed=1)

        def write() -> None:
            for number in range(150):
                collection.add([f"i{number % 40}"], [[1.0, 2.0, 3.0, 1.0 + number]])

        writer = threading.Thread(target=write)
        writer.start()
        surveys = []
        while writer.is_alive():
            surveys.append(survey_store(collection._store))
        writer.join()
        assert len(surveys) >= 5
        assert surveys == [[]] * len(surveys)


@pytest.fixture
def items(sound: bytes, tmp_path: Path) -> Iterator[tuple[Pages, TreeRecord]]:
    """The pages of a sound file, and the record of its tree of items."""
    (tmp_path / "sound").write_bytes(sound)
    descriptor = os.open(tmp_path / "sound", os.O_RDONLY)
    meta = max((meta for meta in Pages.metas(descriptor) if isinstance(meta, Meta)), key=lambda meta: meta.transaction)
    pages = Pages(descriptor, meta.page_bytes, meta.last_page)
    found = {node.key: node.value for _, leaf, _, _ in walk(pages, meta.main) for node in leaf.nodes}
    yield pages, TreeRecord.decode(found[b"items"])
    os.close(descriptor)


def test_a_scan_begins_where_it_is_told(sound: bytes, items: tuple[Pages, TreeRecord]) -> None:
    """A scan gives all keys beyond a given one, whether that is there or not, in order, with their values."""
    keys = [key for key, _, _ in contents(sound)["items"]]
    tree = Tree(*items)
    everything = list(tree.scan())
    assert [key for key, _ in everything] == keys
    for after in (b"", keys[0], keys[40], keys[40] + b"x", keys[-2], keys[-1], b"zzz"):
        assert list(tree.scan(after)) == [(key, value) for key, value in everything if key > after]


def test_a_missing_entry_ends_a_scan(items: tuple[Pages, TreeRecord]) -> None:
    """A scan that finds fewer entries than the tree's record says raises instead of ending."""
    pages, record = items
    short = TreeRecord(
        record.flags, record.depth, record.branch_pages, record.leaf_pages, record.own_pages, record.entries + 1, record.root
    )
    with pytest.raises(CorruptData, match="entries"):
        list(Tree(pages, short).scan())
