"""The list of free pages, of which LMDB takes what it writes to: one of an earlier state is what a lost write leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from linked import still
from nursery import Nursery
from stale import DIM, commit
from torture.pages import PAGE, PageMap

pytestmark = pytest.mark.durability

COMMITS = 24
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


def test_without_a_look_it_is(nursery: Nursery, history: History, tmp_path: Path) -> None:
    """These lists do harm: the test sees it."""
    assert any(wrong for _, wrong in uses(nursery, history, tmp_path, looks=False))
