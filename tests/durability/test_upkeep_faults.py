"""Sealing and merging that fail at any point, or meet edits: the old runs or the new one, and never anything else."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from crashing import failing_write
from kinbin.errors import Closed, CorruptData, KinbinError, StorageFull
from kinbin.storage.format import Part
from kinbin.upkeep import sealing as upkeep_module
from nursery import until
from workload import Stored, Workload, findings

pytestmark = [pytest.mark.durability, pytest.mark.usefixtures("small_runs")]

LONG = 30.0
upkeep: Any = upkeep_module


class Fault(Exception):
    """A mistake, as opposed to an error that Kinbin knows."""


@pytest.fixture
def collection(folder: Path) -> Iterator[kinbin.Collection]:
    """A collection whose upkeep is done when the test says so."""
    with kinbin.open(folder) as database:
        opened = database.collection("c")
        opened._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        yield opened


def grown(collection: kinbin.Collection, steps: int = 70, merges_at: int = 45) -> Stored:
    """Runs, fresh rows and dead rows of both; returns what is stored."""
    workload = Workload(9, "u")
    for number in range(steps):
        workload.step(number).perform(collection)
        if number == merges_at:
            assert collection._upkeep.step()
    return workload.after(steps)


def runs_of(collection: kinbin.Collection) -> tuple[set[int], list[int]]:
    """Runs that have values, and runs that are listed."""
    with collection._store.read() as reader:
        return reader.run_numbers(), reader.manifest()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "in", "after"])
@pytest.mark.parametrize("action", ["seal", "compact"])
def test_every_transaction_of_upkeep_may_fail(collection: kinbin.Collection, action: str, where: str) -> None:
    """An error at each transaction in turn leaves the old runs or the new, the same answers, and files that are sound."""
    errors: list[type[BaseException]] = [StorageFull, CorruptData, Fault, MemoryError, KeyboardInterrupt]
    work: Callable[[], Any] = collection._upkeep.step if action == "seal" else collection.compact
    stored = grown(collection)
    swapped = 0
    for number in range(50):
        # Some work for every attempt: a fresh row more, and enough of them to seal.
        rows = 70 if action == "seal" else 1
        vectors = (np.random.default_rng(number).random((rows, 24), np.float32) + 0.01) * (number + 1)
        names = [f"x{i}" for i in range(rows)]
        collection.add(names, vectors)
        stored |= {name: (vectors[i], None) for i, name in enumerate(names)}  # type: ignore[misc]
        old = runs_of(collection)[1]
        error = errors[number % len(errors)]
        with failing_write(number, where, error("planted")) as count:
            raised = None
            try:
                work()
            except error as caught:
                raised = caught
        assert (raised is not None) == (count[0] > number)
        present, listed = runs_of(collection)
        assert set(listed) <= present
        swapped += listed != old
        assert findings(collection, stored) == [], f"transaction {number}"
        if count[0] <= number:
            break
    else:
        pytest.fail("upkeep never came to an end")
    assert number >= 4, "a number, parts, a header and a swap"
    assert swapped == (2 if where == "after" else 1), "only the last transaction swaps"
    collection.compact()
    present, listed = runs_of(collection)
    assert len(listed) == 1
    assert present == {*listed}
    assert findings(collection, stored) == []


def test_an_unfinished_run_is_removed_by_the_next_upkeep(collection: kinbin.Collection) -> None:
    """Values of a run that no manifest lists are nobody's: they are not answered from, and the next build removes them."""
    stored = grown(collection)
    with failing_write(2, "before", StorageFull("planted")), pytest.raises(StorageFull):
        collection.compact()
    present, listed = runs_of(collection)
    (orphan,) = present - set(listed)
    assert findings(collection, stored) == []
    collection.compact()
    present, listed = runs_of(collection)
    assert present == set(listed)
    assert orphan not in present, "the number is not used again"
    assert findings(collection, stored) == []


@contextmanager
def held_build(monkeypatch: pytest.MonkeyPatch, *, before: bool) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Builds stop before or after their work, between the look at the old runs and the swap, until told to go on."""
    reached, go = threading.Event(), threading.Event()
    original = upkeep.write_run

    def write_run(*arguments: Any) -> Any:
        number = None if before else original(*arguments)
        reached.set()
        assert go.wait(LONG)
        return original(*arguments) if before else number

    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "write_run", write_run)
        yield reached, go


@pytest.mark.parametrize("before", [True, False], ids=["held before it is built", "held before it is swapped in"])
@pytest.mark.parametrize("action", ["seal", "compact"])
def test_edits_go_on_while_a_run_is_built(
    collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch, action: str, before: bool
) -> None:
    """While a build is held up edits and queries are done; the swap takes in every death and leaves every new row."""
    workload = Workload(9, "u")
    grown(collection)
    work: Callable[[], Any] = collection._upkeep.step if action == "seal" else collection.compact
    if action == "seal":
        vectors = np.random.default_rng(1).random((80, 24), np.float32) + np.float32(0.01)
        collection.add([f"v{i}" for i in range(80)], vectors)
        extra: Stored = {f"v{i}": (vectors[i], None) for i in range(80)}  # type: ignore[misc]
    else:
        extra = {}
    with held_build(monkeypatch, before=before) as (reached, go), ThreadPoolExecutor(1) as threads:
        building = threads.submit(work)
        assert reached.wait(LONG)
        for number in range(70, 100):
            workload.step(number).perform(collection)
        for name in list(extra)[::3]:
            collection.delete([name])
            del extra[name]
        stored = workload.after(100) | extra
        assert findings(collection, stored) == [], "while the build is held up"
        assert not building.done()
        go.set()
        building.result(LONG)
    assert findings(collection, stored) == [], "after the swap"
    with collection._store.read() as reader:
        assert 25 <= len(list(reader.journal(0))) <= 60, "what came meanwhile is still in the journal"
    collection.compact()
    assert findings(collection, stored) == [], "and after another"


def test_everything_may_die_while_a_run_is_built(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all rows of a build die before its swap, the new run holds dead rows only, and the next merge drops it."""
    stored = grown(collection)
    with held_build(monkeypatch, before=False) as (reached, go), ThreadPoolExecutor(1) as threads:
        building = threads.submit(collection.compact)
        assert reached.wait(LONG)
        collection.delete(list(stored))
        go.set()
        building.result(LONG)
    assert findings(collection, {}) == []
    assert collection.stats()["runs"][0]["live"] == 0
    collection.compact()
    assert runs_of(collection) == (set(), [])
    assert findings(collection, {}) == []
    collection.add(["again"], np.ones((1, 24)))
    assert collection.query(np.ones(24)).ids == ["again"]


def test_a_reader_keeps_its_runs(collection: kinbin.Collection) -> None:
    """A snapshot that was open before a merge goes on reading the old runs' bytes after it."""
    grown(collection)
    with collection._store.read() as reader:
        (run, *_) = reader.manifest()
        blocks = reader.run_parts(run, Part.BLOCK)
        before = [bytes(block) for block in blocks]
        collection.compact()
        for number in range(20):
            Workload(4, "r").step(number).perform(collection)
        collection.compact()
        assert [bytes(block) for block in blocks] == before
        assert reader.run_parts(run, Part.BLOCK, verify=True) == blocks
    with collection._store.read() as reader:
        assert run not in reader.run_numbers()


def test_closing_ends_a_build(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """close() in one thread ends compact() in another: with Closed, soon, and with nothing swapped in."""
    stored = grown(collection)
    old = runs_of(collection)[1]
    with held_build(monkeypatch, before=True) as (reached, go), ThreadPoolExecutor(2) as threads:
        building = threads.submit(collection.compact)
        assert reached.wait(LONG)
        closing = threads.submit(collection.close)
        while not collection._store._closed:
            threading.Event().wait(0.002)
        go.set()
        with pytest.raises(Closed):
            building.result(LONG)
        closing.result(LONG)
    with kinbin.open(collection._store.path.parent.parent) as database:
        again = database.collection("c")
        assert runs_of(again)[1] == old
        assert findings(again, stored) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [StorageFull("planted"), CorruptData("planted"), OSError(28, "planted"), MemoryError()], ids=lambda error: type(error).__name__
)
def test_background_work_survives_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """An error in the background reaches no caller and does not end background work: the next write has it tried again."""
    failures: list[Exception] = []
    original = upkeep.write_run

    def write_run(*arguments: Any) -> Any:
        if len(failures) < 1:
            failures.append(error)
            raise error
        return original(*arguments)

    monkeypatch.setattr(upkeep, "write_run", write_run)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        vectors = np.random.default_rng(1).random((200, 24)) + 0.01
        collection.add([f"v{i}" for i in range(100)], vectors[:100])
        more = itertools.cycle(range(100, 200))

        def written_and_sealed() -> bool:
            i = next(more)
            collection.add([f"v{i}"], vectors[i : i + 1])
            return bool(collection.stats()["runs"])

        until(written_and_sealed)
        assert failures == [error]
        assert collection.check().ok


def test_a_write_that_is_on_disk_is_not_refused_for_what_comes_after(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the look at the backlog after a commit fails, the add is acknowledged all the same: it is on disk."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")

        def busy() -> int:
            raise KinbinError("no slot")

        monkeypatch.setattr(collection._upkeep_thread, "_backlog", busy)
        assert collection.add(["a"], np.ones((1, 24))).indexed == 1
        assert collection.delete(["a"]).deleted == 1
