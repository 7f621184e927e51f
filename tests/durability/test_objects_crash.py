"""SIGKILL of whoever stores strings, or builds their pool index: nothing acknowledged is lost, and answers are whole."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kinbin
from crashing_objects import perform, stored_after, strings_of
from naive_strings import distances
from nursery import Nursery, until
from pooled import pools_at_once

pytestmark = pytest.mark.durability

KILLS = 30


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


def contents(collection: kinbin.Collection) -> dict[str, str]:
    """All strings by id."""
    found: dict[str, str] = {}
    after = None
    while True:
        page = collection.scroll(after, limit=1_000, include=("vector",))
        found |= {item.id: item.object for item in page.items}
        after = page.next
        if after is None:
            return found


def findings(collection: kinbin.Collection, expected: dict[str, str]) -> list[str]:
    """Every way in which a collection is not what it should be."""
    out = [*collection.check().problems]
    if collection.count() != len(expected):
        out.append(f"{collection.count()} items, not {len(expected)}")
    if expected:
        query = strings_of(2)[3] + "?"
        true = np.sort(distances(query, list(expected.values())))[:5]
        answer = collection.query(query, k=5, mode="exact")
        if answer.scores.tolist() != true.tolist():
            out.append(f"answered {answer.scores.tolist()}, not {true.tolist()}")
        walked = collection.query(query, k=5, mode="links")
        if [expected.get(one) for one in walked.ids].count(None) or (np.diff(walked.scores) < 0).any():
            out.append(f"a pool answered {walked.ids}, {walked.scores.tolist()}")
    return out


@pytest.mark.slow
@pytest.mark.disk
def test_killed_at_any_moment(words: Path, nursery: Nursery) -> None:
    """Whenever a writer of strings is killed, with its upkeep and its pool index, nothing acknowledged is lost and no step is half done."""
    moments = random.Random(random.SystemRandom().randrange(10**9))
    done = 0
    for kill in range(KILLS):
        child = nursery.start("crashing_objects:work", str(words), done)
        assert child.receive() == "open"
        # Every other one is killed as soon as that, however little it has done; the others only after three steps, on any machine.
        acknowledged = [child.receive() for _ in range(3)] if kill % 2 else []
        time.sleep(moments.uniform(0.002, 0.08))
        child.kill()
        done = max([done, *(number + 1 for number in (*acknowledged, *child.rest()))])
        with kinbin.open(words) as database:
            collection = database.collection("c")
            there = contents(collection)
            if there != stored_after(done):
                # The commit was there, the acknowledgement was not.
                done += 1
                assert there == stored_after(done), f"kill {kill}, step {done}"
            if kill % 10 == 9:
                assert findings(collection, there) == [], f"kill {kill}"
                # The children extend the index that is made here, if they live long enough.
                collection.link()
                assert collection.stats()["pools"]["covered"] == len(there)
                assert findings(collection, there) == [], f"kill {kill}, covered"
    assert done > KILLS, "the children did too little to prove anything"


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
