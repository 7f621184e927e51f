"""The list of free pages, of which LMDB takes what it writes to: one of an earlier state is what a lost write leaves."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from kinbin.errors import CorruptData
from kinbin.storage.free import check_free, listed_pages
from kinbin.storage.mapped import _mapped, look_at
from kinbin.storage.survey import TREES, survey
from kinbin.storage.trees import Meta, Pages
from linked import still
from nursery import Nursery
from stale import DIM, commit, rows_of
from torture.pages import PAGE, PageMap, newest_meta

pytestmark = pytest.mark.durability

COMMITS = 24
LAST_PAGE_AT = 16 + 24 + 96
"""Of a meta page."""
History = tuple[Path, dict[str, bytes], list[bytes]]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A database, its vectors by id, and the leaves that the list of free pages had after each commit."""
    folder = tmp_path_factory.mktemp("history") / "data"
    there: dict[str, bytes] = {}
    leaves: list[bytes] = []
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=DIM, seed=1, bands=3, rows=1)
        for number in range(COMMITS):
            there |= commit(collection, number)
            if number % 5 == 4:
                collection.compact()
            gone = sorted(there)[:: 9 + number % 5]
            collection.delete(gone)
            for one in gone:
                del there[one]
            leaves.append(leaf_of((folder / "collections" / "c" / "data.mdb").read_bytes())[1])
    return folder, there, leaves


def leaf_of(data: bytes) -> tuple[int, bytes]:
    """The number and the bytes of the only leaf of the list of free pages."""
    (number,) = PageMap.of(data).leaves["freelist"]
    return number, data[number * PAGE :][:PAGE]


def uses(nursery: Nursery, history: History, work: Path, *, looks: bool) -> Iterator[tuple[bool, list[str]]]:
    """What becomes of a database whose list is that of an earlier commit, for each of these; a process that dies is wrong as well."""
    folder, there, leaves = history
    child = None
    for leaf in leaves[:-1]:
        target = work / "harmed"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder, target)
        file = target / "collections" / "c" / "data.mdb"
        data = bytearray(file.read_bytes())
        number, own = leaf_of(bytes(data))
        data[number * PAGE : (number + 1) * PAGE] = own[:8] + leaf[8:]
        file.write_bytes(data)
        child = child or nursery.start("stale:use", there, looks)
        child.connection.send(target)
        try:
            yield child.receive()
        except EOFError:
            child.wait()
            child = None
            yield False, ["the process died"]
    if child is not None:
        child.kill()


def test_a_page_in_use_is_not_given_away(nursery: Nursery, history: History, tmp_path: Path) -> None:
    """Whichever earlier list it is: writes are refused, or do no harm but that pages are never used again."""
    outcomes = list(uses(nursery, history, tmp_path, looks=True))
    assert sum(refused for refused, _ in outcomes) > COMMITS // 2
    for refused, wrong in outcomes:
        assert [one for one in wrong if refused or "neither used nor free" not in one] == []


@pytest.fixture(scope="module")
def long_list(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a collection whose list of free pages has several leaves, and lists on pages of their own."""
    folder = tmp_path_factory.mktemp("list") / "data"
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=DIM, seed=1)
        collection.add([f"large {i}" for i in range(1_000)], rows_of(999, 1_000), [{"text": "y" * 3_000} for _ in range(1_000)])
        collection.delete([f"large {i}" for i in range(0, 1_000, 2)])
        with collection._store.read():
            # What it sees is listed, and not used again.
            for number in range(150):
                commit(collection, number)
    return (folder / "collections" / "c" / "data.mdb").read_bytes()


@pytest.mark.slow
def test_writers_refuse_what_check_finds_of_the_list(long_list: bytes, tmp_path: Path) -> None:
    """Bits of the heads of its pages, slots and nodes, and of the heads of large values, its own and those of trees.

    LMDB moves nodes by their sizes, and frees as many pages as a value says that it has. Pages that are lost are only room.
    """
    pages = PageMap.of(long_list)
    nodes = [node for leaf in pages.leaves["freelist"] for node in pages.nodes(leaf)]
    assert len(pages.leaves["freelist"]) > 1
    large = [node for node in nodes if node.big]
    assert large
    large += [node for tree in ("items", "journal") for leaf in pages.leaves[tree][:3] for node in pages.nodes(leaf) if node.big][:4]
    places = [range(node.value_at - 16, node.value_at) for node in large]
    for page in (*pages.leaves["freelist"], *pages.by_kind()["freelist:branch"]):
        offsets = pages.node_offsets(page)
        places += [range(page * PAGE, page * PAGE + 16 + 2 * len(offsets))]
        places += [range(page * PAGE + offset, page * PAGE + offset + 16) for offset in offsets]
    refused = 0
    rng = random.Random(1)
    for place in rng.sample([place for span in places for place in span], 300):
        where = f"byte {place % PAGE} of page {place // PAGE}"
        data = bytearray(long_list)
        data[place] ^= 1 << rng.randrange(8)
        (tmp_path / "data.mdb").write_bytes(data)
        told = survey_of(tmp_path)
        if is_refused(tmp_path):
            refused += 1
            assert told, where
        else:
            assert [problem for problem in told if "neither used nor free" not in problem] == [], where
    assert refused > 200


def test_a_list_is_not_looked_for_behind_the_files_end(long_list: bytes, tmp_path: Path) -> None:
    """Two flipped bits that agree, of the last page's number and of the pages of a large entry, cost no memory: it was 17 s and 3 GB."""
    pages = PageMap.of(long_list)
    data = bytearray(long_list)
    data[newest_meta(long_list) * PAGE + LAST_PAGE_AT + 3] ^= 1 << 3
    (head, *_) = [node.value_at - 16 for leaf in pages.leaves["freelist"] for node in pages.nodes(leaf) if node.big]
    data[head + 12 + 3] ^= 1 << 2
    (tmp_path / "data.mdb").write_bytes(data)
    with (tmp_path / "data.mdb").open("rb") as file:
        meta = next(meta for meta in Pages.metas(file.fileno()) if isinstance(meta, Meta) and meta.last_page > 1 << 26)
        visited: list[int] = []
        with pytest.raises(CorruptData, match="the file ends before page"):
            list(listed_pages(Pages(file.fileno(), meta.page_bytes, meta.last_page), meta, visited.append))
    assert len(visited) < len(data) // PAGE


def survey_of(folder: Path) -> list[str]:
    """What `check` finds."""
    with (folder / "data.mdb").open("rb") as file:
        found = survey(file.fileno(), None, TREES)
    assert found is not None
    return found.problems


def is_refused(folder: Path) -> bool:
    """Whether whoever writes refuses the file."""
    file, _ = look_at(folder)
    try:
        with _mapped(file) as trees:
            check_free(file.descriptor, trees)
    except CorruptData:
        return True
    finally:
        file.close()
    return False


def test_without_a_look_it_is(nursery: Nursery, history: History, tmp_path: Path) -> None:
    """These lists do harm: the test sees it."""
    assert any(wrong for _, wrong in uses(nursery, history, tmp_path, looks=False))
