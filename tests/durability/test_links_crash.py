"""Linking that is killed, fails, or meets edits, merges and other processes: the old link set or the new one, and all rows."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.upkeep.background
from crashing import failing_write
from kinbin.errors import Closed, CollectionNotFound, CorruptData, StorageFull
from kinbin.upkeep.election import elected
from linked import link_findings, link_sets, orphans, still
from nursery import Nursery, until
from workload import DIM, Stored, Workload

pytestmark = [pytest.mark.durability, pytest.mark.usefixtures("small_runs")]

LONG = 30.0
SEED = 31
KILLS = 8


@pytest.fixture
def quiet() -> Iterator[None]:
    """Nothing is done in the background."""
    with still():
        yield


@pytest.fixture
def collection(folder: Path, quiet: None) -> Iterator[kinbin.Collection]:
    """A collection whose upkeep and links are done when the test says so."""
    with kinbin.open(folder) as database:
        yield database.collection("c")


def grown(collection: kinbin.Collection, *, link_at: int | None = 30, steps: int = 60) -> Stored:
    """Linked rows, of which some are dead, and sealed and fresh ones; returns what is stored."""
    workload = Workload(SEED, "l")
    for number in range(steps):
        workload.step(number).perform(collection)
        if number == link_at:
            collection.link()
        if number == steps - 10:
            collection.compact()
    return workload.after(steps)


def all_linked(collection: kinbin.Collection) -> bool:
    """Whether a walk can meet every row, and no dead one."""
    stats = collection.stats()
    links = stats["links"]
    return links is not None and links["rows"] == stats["rows"] and links["unlinked_rows"] == 0 and not orphans(collection)


# ---------------------------------------------------------------------------------------------- killed


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "in", "after"])
@pytest.mark.usefixtures("quiet")
def test_killed_at_every_transaction_of_linking(folder: Path, nursery: Nursery, when: str) -> None:
    """link() killed at each of its transactions in turn leaves all rows, right answers, and nothing that the next does not clean up."""
    with kinbin.open(folder) as database:
        expected = grown(database.collection("c"))
    left_behind = 0
    for write in range(50):
        child = nursery.start("linked:crash_while_linking", str(folder), write, when)
        status = child.wait()
        if status == 0:
            assert child.rest() == ["done"]
            break
        assert status == -9
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            assert link_findings(collection, expected) == [], f"transaction {write}"
            assert len(link_sets(collection)) == 1, "the old one or the new one"
            left_behind += len(orphans(collection))
            # Something to merge and to link for the next attempt.
            vector = (1.0 + np.arange(DIM) * (write + 1)).astype(np.float32)
            collection.add([f"l{write:03}"], vector[None])
            expected |= {f"l{write:03}": (vector, None)}  # type: ignore[dict-item]
    else:
        pytest.fail("linking never came to an end")
    assert write >= 7, "a merge and a link set have a number, parts, a header and a swap each"
    assert left_behind > 0, "no build was ever cut short"
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.link()
        assert all_linked(collection)
        assert link_findings(collection, expected) == []


@pytest.mark.usefixtures("quiet")
def test_killed_before_anything_is_written(folder: Path, nursery: Nursery) -> None:
    """Killed while it links in memory, a process leaves the old link set and a lock that nobody holds; the next link() works."""
    with kinbin.open(folder) as database:
        expected = grown(database.collection("c"))
        before = link_sets(database.collection("c"))
    child = nursery.start("linked:link_step_by_step", str(folder))
    done, total = child.receive()
    assert (done, total > 0) == (0, True)
    child.kill()
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        assert link_sets(collection) == before
        assert link_findings(collection, expected) == []
        collection.link()
        assert link_sets(collection) != before
        assert all_linked(collection)
        assert link_findings(collection, expected) == []


@pytest.mark.slow
@pytest.mark.disk
def test_killed_at_any_moment(folder: Path, nursery: Nursery) -> None:
    """Whenever a process that writes, merges and links all the time is killed: every acknowledged step is there, in every mode."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails: it replays every step, if not the moments
    moments = random.Random(seed)
    workload = Workload(seed, "l")
    done = linked = 0
    for kill in range(KILLS):
        child = nursery.start("linked:work_and_link", str(folder), seed, done)
        assert child.receive() == "open"
        # Every other one is killed as soon as that, however little it has done; the others only after some steps, on any machine.
        acknowledged = [child.receive() for _ in range(3)] if kill % 2 else []
        time.sleep(moments.uniform(0.05, 0.6))
        child.kill()
        done = max([done, *(number + 1 for number in (*acknowledged, *child.rest()))])
        with still(), kinbin.open(folder) as database:
            collection = database.collection("c")
            # The commit may be there without its acknowledgement.
            found = [link_findings(collection, workload.after(steps)) for steps in (done, done + 1)]
            assert [] in found, f"kill {kill}: {found[0]}"
            linked += len(link_sets(collection))
            if kill % 3 == 2:
                collection.link()
                assert not orphans(collection)
    assert done > KILLS, "the children did too little to prove anything"
    assert linked > KILLS // 2, "hardly anything was linked"


# ----------------------------------------------------------------------------------------------- fails


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "in", "after"])
def test_every_transaction_of_linking_may_fail(collection: kinbin.Collection, where: str) -> None:
    """An error at each transaction in turn reaches the caller and leaves a link set, all rows and right answers."""
    errors: list[type[BaseException]] = [StorageFull, CorruptData, MemoryError, KeyboardInterrupt]
    expected = grown(collection)
    for number in range(50):
        vector = (1.0 + np.arange(DIM) * (number + 1)).astype(np.float32)
        collection.add(["x"], vector[None])
        expected |= {"x": (vector, None)}  # type: ignore[dict-item]
        error = errors[number % len(errors)]
        raised = False
        with failing_write(number, where, error("planted")) as count:
            try:
                collection.link()
            except error:
                raised = True
        assert raised == (count[0] > number)
        assert len(link_sets(collection)) == 1
        assert link_findings(collection, expected) == [], f"transaction {number}"
        if not raised:
            break
    else:
        pytest.fail("linking never came to an end")
    assert number >= 7
    assert all_linked(collection)


# ------------------------------------------------------------------------------------------- meanwhile


def once(work: Callable[[], Any]) -> Callable[[int, int], None]:
    """A progress that does something when linking begins."""
    told: list[int] = []

    def progress(done: int, _total: int) -> None:
        if not told:
            told.append(done)
            work()

    return progress


@pytest.mark.parametrize("merge", [False, True], ids=["edits", "edits and a merge"])
def test_edits_and_merges_go_on_while_rows_are_linked(collection: kinbin.Collection, merge: bool) -> None:
    """Whatever is added, replaced, deleted and merged while rows are linked is right before and after the swap, in every mode."""
    grown(collection, link_at=None)
    workload = Workload(SEED, "l")

    def meanwhile() -> None:
        for number in range(60, 90):
            workload.step(number).perform(collection)
        if merge:
            collection.compact()
        assert link_findings(collection, workload.after(90)) == []

    collection.link(once(meanwhile))
    assert len(link_sets(collection)) == 1
    assert link_findings(collection, workload.after(90)) == []
    assert not all_linked(collection), "what came meanwhile is not linked yet"
    collection.link()
    assert all_linked(collection)
    assert link_findings(collection, workload.after(90)) == []


def test_everything_may_die_while_rows_are_linked(collection: kinbin.Collection) -> None:
    """If all rows are deleted, and merged away, while they are linked, nothing is answered afterwards, and new rows are."""
    stored = grown(collection, link_at=None)

    def meanwhile() -> None:
        collection.delete(list(stored))
        collection.compact()

    collection.link(once(meanwhile))
    for mode in ("links", "auto", "exact"):
        assert collection.query(np.ones(DIM), mode=mode).ids == []
    collection.add(["again"], np.ones((1, DIM)))
    for mode in ("links", "auto", "exact"):
        assert collection.query(np.ones(DIM), mode=mode).ids == ["again"]
    collection.link()
    assert all_linked(collection)


def test_closing_ends_linking(collection: kinbin.Collection) -> None:
    """close() ends link() with Closed: nothing is swapped in, and the database opened again is as it was."""
    stored = grown(collection)
    before = link_sets(collection)
    with pytest.raises(Closed):
        collection.link(once(collection.close))
    with kinbin.open(collection._store.path.parent.parent) as database:
        again = database.collection("c")
        assert link_sets(again) == before
        assert link_findings(again, stored) == []


def test_a_collection_may_be_dropped_while_it_is_linked(folder: Path, quiet: None) -> None:
    """link() of a collection that is dropped meanwhile ends with an error that says so; the next of that name is not affected."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        grown(collection)
        with pytest.raises((Closed, CollectionNotFound)):
            collection.link(once(lambda: database.drop_collection("c")))
        database.create_collection("c", dim=2).add(["a"], [[1.0, 2.0]])
        database.collection("c").link()
        assert database.collection("c").query([1.0, 2.0], mode="links").ids == ["a"]


def test_links_outlive_seals_and_merges(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows linked in several runs stay linked, all of them, when those are merged into one; answers are the same."""
    monkeypatch.setattr("kinbin.upkeep.linking.LEAST_ROWS", 64)
    vectors = (np.random.default_rng(SEED).random((300, DIM)) + 0.01).astype(np.float32)
    for start in range(0, 300, 100):
        collection.add([f"v{i}" for i in range(start, start + 100)], vectors[start : start + 100])
        assert collection._upkeep.step()
    assert len(collection.stats()["runs"]) == 3
    assert collection._linker.step(quiet=True)
    assert all_linked(collection)
    before = [(answer.ids, answer.scores.tolist()) for answer in collection.query_batch(vectors, k=5, mode="links")]
    collection.delete([f"v{i}" for i in range(0, 300, 10)])
    collection.add([f"v{i}" for i in range(0, 300, 10)], vectors[::10])
    collection.compact()
    assert collection.stats()["links"]["rows"] == 270
    collection.delete([f"v{i}" for i in range(0, 300, 10)])
    collection.compact()
    stats = collection.stats()
    assert (len(stats["runs"]), stats["links"]["rows"], stats["links"]["unlinked_rows"]) == (1, 270, 0)
    after = collection.query_batch(vectors, k=5, mode="links")
    assert after.mode == "links"
    for (ids, scores), answer in zip(before, after, strict=True):
        stayed = [(one, score) for one, score in zip(ids, scores, strict=True) if int(one[1:]) % 10]
        assert list(zip(answer.ids, answer.scores.tolist(), strict=True))[: len(stayed)] == stayed


# ------------------------------------------------------------------------------------ several processes


def test_one_process_links_at_a_time(folder: Path, nursery: Nursery, quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process links, others find the work taken, in every collection of the database, and link() waits for it."""
    monkeypatch.setattr("kinbin.upkeep.linking.LEAST_ROWS", 16)
    with kinbin.open(folder) as database, ThreadPoolExecutor(1) as threads:
        collection = database.collection("c")
        expected = grown(collection, link_at=None)
        other = database.create_collection("other", dim=DIM)
        other.add([f"o{i}" for i in range(90)], np.random.default_rng(1).random((90, DIM)) + 0.01)
        other.compact()
        child = nursery.start("linked:link_step_by_step", str(folder))
        assert child.receive()[0] == 0
        assert not collection._linker.step(quiet=True)
        assert not other._linker.step(quiet=True)
        assert link_sets(collection) == link_sets(other) == []
        waiting = threads.submit(other.link)
        time.sleep(0.15)
        assert not waiting.done()
        child.connection.send("go on")
        while child.receive() != "done":
            child.connection.send("go on")
        waiting.result(LONG)
        assert all_linked(other)
        assert all_linked(collection), "what the other process linked is seen here"
        assert link_findings(collection, expected) == []
        (mine,) = link_sets(collection)
        collection.link()
        assert link_sets(collection) == [mine], "there was nothing left to link"


def test_the_lock_dies_with_its_holder(folder: Path, nursery: Nursery, quiet: None) -> None:
    """When the process that links is killed, whoever waits for its lock links."""
    with kinbin.open(folder) as database, ThreadPoolExecutor(1) as threads:
        collection = database.collection("c")
        expected = grown(collection, link_at=None)
        child = nursery.start("linked:link_step_by_step", str(folder))
        assert child.receive()[0] == 0
        with elected(folder / "linker.lock", wait=False) as mine:
            assert not mine
        waiting = threads.submit(collection.link)
        time.sleep(0.15)
        assert not waiting.done()
        child.kill()
        waiting.result(LONG)
        assert all_linked(collection)
        assert link_findings(collection, expected) == []


def test_the_other_process_answers_by_links(folder: Path, nursery: Nursery, quiet: None) -> None:
    """A process that had the collection open before it was linked answers by links afterwards, and by each link set that follows."""
    child = nursery.start("nursery:serve_database", str(folder), "c")
    assert child.receive() == "open"
    child.call("run", "sharing:be_quiet")
    workload = Workload(SEED, "l")
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        for number in range(0, 60, 20):
            for step in range(number, number + 20):
                workload.step(step).perform(collection)
            assert child.call("run", "linked:link_findings", workload.after(number + 20)) == []
            collection.link()
            assert child.call("query", np.ones(DIM), mode="links").mode == "links"
            assert child.call("stats")["links"] == collection.stats()["links"]
            assert child.call("run", "linked:link_findings", workload.after(number + 20)) == []


# ------------------------------------------------------------------------------------------ by themselves


def test_rows_are_linked_in_the_background(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough rows are linked by themselves when writes pause, those that come later too, and closing waits for no build."""
    monkeypatch.setattr("kinbin.upkeep.linking.LEAST_ROWS", 64)
    monkeypatch.setattr("kinbin.upkeep.background.QUIET_SECONDS", 0.02)
    vectors = (np.random.default_rng(SEED).random((400, DIM)) + 0.01).astype(np.float32)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.add([f"v{i}" for i in range(300)], vectors[:300])
        # A query in auto mode that could have done with links asks for them: the rows may have been sealed after the pause.
        until(lambda: len(collection.query(vectors[0])) and link_sets(collection))
        until(lambda: len(collection.query(vectors[0])) and collection.stats()["links"]["unlinked_rows"] == 0)
        (first,) = link_sets(collection)
        collection.add([f"v{i}" for i in range(300, 400)], vectors[300:])
        until(lambda: len(collection.query(vectors[0])) and link_sets(collection) != [first])
        until(lambda: len(collection.query(vectors[0])) and collection.stats()["links"]["unlinked_rows"] == 0)
        assert [answer.ids[0] for answer in collection.query_batch(vectors, k=1, mode="links")] == [f"v{i}" for i in range(400)]


def test_background_linking_survives_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while rows are linked in the background reaches nobody and does not end it: the next write or query has it tried again."""
    monkeypatch.setattr("kinbin.upkeep.linking.LEAST_ROWS", 64)
    monkeypatch.setattr("kinbin.upkeep.background.QUIET_SECONDS", 0.02)
    failures: list[threading.Thread] = []
    original = kinbin.upkeep.linking.Linker._write

    def write(self: Any, *arguments: Any) -> int:
        if not failures:
            failures.append(threading.current_thread())
            raise StorageFull("planted")
        return original(self, *arguments)

    monkeypatch.setattr(kinbin.upkeep.linking.Linker, "_write", write)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        vectors = np.random.default_rng(1).random((400, DIM)) + 0.01
        collection.add([f"v{i}" for i in range(200)], vectors[:200])
        until(lambda: len(collection.query(vectors[0])) and failures)
        collection.add([f"v{i}" for i in range(200, 400)], vectors[200:])
        until(lambda: len(collection.query(vectors[0])) and link_sets(collection), 60.0)
        assert collection.check().ok
