"""SIGKILL at any moment: what was acknowledged is there, what was not is there wholly or not at all."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import kinbin
from nursery import Nursery
from workload import Stored, Workload, findings, same, stored_items

pytestmark = pytest.mark.durability

KILLS = 24
PREFIXES = ("a", "b", "c")


def runs_on_disk(collection: kinbin.Collection) -> tuple[set[int], set[int]]:
    """Numbers of the runs that have values, and of those that are listed."""
    with collection._store.read() as reader:
        return reader.run_numbers(), set(reader.manifest())


@pytest.mark.slow
@pytest.mark.disk
@pytest.mark.usefixtures("small_runs")
def test_killed_at_any_moment(folder: Path, nursery: Nursery) -> None:
    """Whenever a writer with three threads and its upkeep is killed, nothing acknowledged is lost and no step is half done."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails: it replays every step, if not the moments
    moments = random.Random(seed)
    workloads = {prefix: Workload(seed, prefix) for prefix in PREFIXES}
    done = dict.fromkeys(PREFIXES, 0)
    sealed = 0
    for kill in range(KILLS):
        child = nursery.start("crashing:work", str(folder), seed, done)
        assert child.receive() == "open"
        # Every other one is killed as soon as that, however little it has done; the others only after some steps, on any machine.
        acknowledged = [child.receive() for _ in range(4)] if kill % 2 else []
        time.sleep(moments.uniform(0.005, 0.25))
        child.kill()
        for prefix, number in (*acknowledged, *child.rest()):
            done[prefix] = number + 1
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            stored = stored_items(collection)
            expected: Stored = {}
            for prefix, workload in workloads.items():
                mine = {key: value for key, value in stored.items() if key.startswith(prefix)}
                if not same(mine, workload.after(done[prefix])):
                    # The commit was there, the acknowledgement was not: the step in hand is whole. It is done again.
                    assert same(mine, workload.after(done[prefix] + 1)), f"kill {kill}: {prefix} after step {done[prefix]}"
                expected |= mine
            assert findings(collection, expected) == [], f"kill {kill}"
            sealed += collection.stats()["runs"] != []
            if kill % 4 == 3:
                # What the killed build left behind is removed by the next one.
                collection.compact()
                present, listed = runs_on_disk(collection)
                assert present == listed
                assert findings(collection, expected) == [], f"kill {kill}, compacted"
    assert sum(done.values()) > KILLS, "the children did too little to prove anything"
    assert sealed > KILLS // 4, "hardly any run was sealed"


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "in", "after"])
@pytest.mark.usefixtures("small_runs")
def test_killed_at_every_transaction_of_a_merge(folder: Path, nursery: Nursery, when: str) -> None:
    """A merge killed at each of its transactions in turn leaves the old runs or the new one, and the next merge cleans up."""
    expected = Workload(3, "m").after(60)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        for number in range(60):
            Workload(3, "m").step(number).perform(collection)
    orphans = 0
    for write in range(50):
        child = nursery.start("crashing:crash_while_merging", str(folder), write, when)
        status = child.wait()
        if status == 0:
            assert child.rest() == ["done"]
            break
        assert status == -9
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            assert findings(collection, expected) == [], f"transaction {write}"
            present, listed = runs_on_disk(collection)
            orphans += len(present - listed)
            # A new row and a death, so that the next merge has something to do and to drop.
            collection.add(["mx"], expected["m000" if "m000" in expected else next(iter(expected))][0][None] + write + 1.0)
            collection.delete(["mx"])
    else:
        pytest.fail("the merge never came to an end")
    assert write >= 3, "a merge has at least a number, its parts, its header and the swap"
    assert orphans > 0, "no build was ever cut short"
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.compact()
        present, listed = runs_on_disk(collection)
        assert present == listed
        assert len(listed) == 1
        assert findings(collection, expected) == []
