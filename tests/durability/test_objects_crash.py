"""SIGKILL of whoever stores objects, or builds their pool index: nothing acknowledged is lost, and answers are whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from crashing_objects import perform, stored_after, strings_of
from nursery import Nursery, until
from pooled import pools_at_once
from torture.objects import findings, object_campaign

pytestmark = pytest.mark.durability

KILLS = 16
"""`make torture ARGS="objects --kills 100"` kills more."""


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A closed database with an empty collection "c" of strings."""
    with kinbin.open(tmp_path / "data") as database:
        database.create_collection("c", items="strings", seed=3)
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing is done in the background of the test itself."""
    with pools_at_once():
        yield


@pytest.mark.slow
@pytest.mark.disk
def test_killed_at_any_moment(tmp_path: Path, nursery: Nursery) -> None:
    """Whenever a writer of objects of all kinds is killed, with its upkeep, nothing acknowledged is lost and no step is half done."""
    found = object_campaign(nursery, tmp_path, random.SystemRandom().randrange(10**6), KILLS)
    assert found.wrong == []
    assert found.good == KILLS


@pytest.mark.disk
def test_what_was_acknowledged_too_early_is_told(tmp_path: Path, nursery: Nursery) -> None:
    """Of a writer that acknowledges steps before it does them, objects are found missing."""
    found = object_campaign(nursery, tmp_path, 1, 2, late=True)
    assert [one for one in found.wrong if "lost or half done" in one], found.table()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "in", "after"])
def test_killed_at_every_transaction_of_building(words: Path, nursery: Nursery, when: str) -> None:
    """Building a pool index that is killed leaves none or a whole one; objects stay, and the next `link` makes it and cleans up."""
    with kinbin.open(words) as database:
        collection = database.collection("c")
        for number in range(7):
            perform(collection, number)
    expected = stored_after(7)
    killed = 0
    for write in range(40):
        child = nursery.start("crashing_objects:crash_while_pooling", str(words), write, when)
        status = child.wait()
        with kinbin.open(words) as database:
            assert findings(database.collection("c"), expected) == [], f"write {write}"
        if status == 0:
            break
        killed += 1
    else:
        pytest.fail("building took more transactions than are tried")
    assert killed > 4
    with kinbin.open(words) as database:
        collection = database.collection("c")
        collection.link()
        assert collection.stats()["pools"]["covered"] == len(expected)
        folder = words / "collections" / "c" / "pools"
        assert len(list(folder.iterdir())) == 2, "one generation and the record of it"


def test_other_processes_find_the_index(words: Path, nursery: Nursery) -> None:
    """An index that one process builds answers the queries of another that had the collection open before."""
    with kinbin.open(words) as database:
        collection = database.collection("c")
        for number in range(7):
            perform(collection, number)
        assert collection.query(strings_of(1)[2], k=5, mode="links").mode == "exact"
        child = nursery.start("crashing_objects:crash_while_pooling", str(words), 10**6, "before")
        assert child.receive() == "done"
        # It looks for indexes of others a few times a second.
        until(lambda: collection.query(strings_of(1)[2], k=5, mode="links").mode == "pool")
        assert collection.query(strings_of(1)[2], k=5, mode="links").ids[0] == "00001-02"
        child.kill()
