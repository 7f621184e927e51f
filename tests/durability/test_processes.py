"""Several processes on one database: what one acknowledged, all others answer at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.bands import build
from kinbin.errors import Closed, CollectionNotFound
from kinbin.upkeep import sealing as upkeep
from nursery import Child, Nursery
from workload import DIM, Stored, Workload, findings

pytestmark = pytest.mark.durability

SEED = 21
MOMENT = 0.15
LONG = 30.0

Pair = tuple[Child, Child]


@pytest.fixture
def pair(nursery: Nursery, folder: Path) -> Pair:
    """Two processes that have the collection open, without background work."""
    children = nursery.start("nursery:serve_database", str(folder), "c"), nursery.start("nursery:serve_database", str(folder), "c")
    for child in children:
        assert child.receive() == "open"
        child.call("run", "sharing:be_quiet")
    return children


def differences(child: Child, expected: Stored) -> Any:
    """How what a process sees differs from what must be stored."""
    return child.call("run", "sharing:find_differences", expected)


FORKING = """
import os, sys, time, kinbin
database = kinbin.open(sys.argv[1])
with database.collection("c")._store.write():
    child = os.fork()
    if not child:
        time.sleep(120)
        os._exit(0)
    print(child, flush=True)
    time.sleep(120)
"""


def test_a_lock_of_a_writer_does_not_live_on_in_a_child(folder: Path) -> None:
    """A process forks while it writes, and is killed: the child keeps nobody from writing."""
    writer = subprocess.Popen([sys.executable, "-c", FORKING, str(folder)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    child = int(writer.stdout.readline())
    try:
        writer.kill()
        writer.wait()
        with kinbin.open(folder) as database, ThreadPoolExecutor(1) as pool:
            vector = np.ones((1, DIM), np.float32)
            adding = pool.submit(database.collection("c").add, ["x"], vector)
            try:
                assert adding.result(LONG).indexed == 1
            finally:
                # Or the add would wait for it.
                os.kill(child, signal.SIGKILL)
    finally:
        writer.stdout.close()


def test_what_one_acknowledged_the_other_finds(pair: Pair) -> None:
    """An item added in one process is answered, got and counted by the other at once, in both directions."""
    rng = np.random.default_rng(SEED)
    for number in range(40):
        here, there = pair[number % 2], pair[1 - number % 2]
        vector = rng.random((1, DIM)).astype(np.float32) + np.float32(0.01)
        assert here.call("add", [f"i{number}"], vector, [{"n": number}]).count == number + 1
        for mode in ("bands", "exact"):
            assert there.call("query", vector[0], k=1, mode=mode).ids == [f"i{number}"]
        assert there.call("count") == number + 1
        (item,) = there.call("get", [f"i{number}"])
        np.testing.assert_array_equal(item.vector, vector[0])
        assert item.payload == {"n": number}
        assert there.call("count", {"n": number}) == 1


def test_what_one_replaced_or_deleted_the_other_answers_no_more(pair: Pair) -> None:
    """After the acknowledgement of an update or a delete the other process never answers with the old vector, sealed or fresh."""
    one, two = pair
    rng = np.random.default_rng(SEED)
    vectors = rng.random((60, DIM)).astype(np.float32) + np.float32(0.01)
    one.call("add", [f"i{i}" for i in range(60)], vectors)
    for round_ in range(2):
        for i in range(round_ * 20, round_ * 20 + 20):
            here, there = (one, two) if i % 3 else (two, one)
            old, mode = vectors[i].copy(), "exact" if i % 4 > 1 else "bands"
            if i % 2:
                here.call("delete", [f"i{i}"])
                assert f"i{i}" not in there.call("query", old, k=60, mode=mode).ids
                assert there.call("get", [f"i{i}"]) == [None]
            else:
                vectors[i] = rng.random(DIM) + 0.01
                here.call("add", [f"i{i}"], vectors[i : i + 1], mode="update")
                answer = there.call("query", old, k=60, mode=mode)
                assert answer.scores[0] < 0.99, "nobody has the old vector"
                answer = there.call("query", vectors[i], k=60, mode=mode)
                assert (answer.ids[0], answer.scores[0] > 1 - 1e-6) == (f"i{i}", True)
        # The second round meets the same rows in a run.
        one.call("compact")
    expected = {f"i{i}": (vectors[i], None) for i in range(60) if i >= 40 or not i % 2}
    for child in pair:
        assert differences(child, expected) == []  # type: ignore[arg-type]


def test_the_other_follows_every_seal_and_merge(pair: Pair) -> None:
    """Whatever runs one process seals, merges and compacts, the other goes on answering what is stored, without opening anew."""
    one, two = pair
    workload = Workload(SEED, "s")
    for number in range(60):
        pair[number % 2].call("run", "sharing:do_step", SEED, "s", number)
        if number % 9 == 8:
            one.call("compact")
            assert two.call("stats")["runs"], "the other sees the run"
        if number % 5 == 4:
            assert differences(two, workload.after(number + 1)) == [], f"step {number}"
    two.call("compact")
    assert differences(one, workload.after(60)) == []


@pytest.mark.slow
def test_two_writers_lose_nothing(nursery: Nursery, folder: Path) -> None:
    """Two processes with three writing threads each, group commit and upkeep in both: every step of all six took place, once."""
    prefixes = [["a", "b", "c"], ["d", "e", "f"]]
    children = [nursery.start("sharing:do_steps", str(folder), SEED, mine, 60) for mine in prefixes]
    for child in children:
        assert child.receive() == "open"
    for child in children:
        child.connection.send("go")
    for child in children:
        assert child.receive() == "done"
        assert child.wait() == 0
    expected: Stored = {}
    for prefix in chain(*prefixes):
        expected |= Workload(SEED, prefix).after(60)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        assert findings(collection, expected) == []
        assert collection.stats()["commits"] > 0
        assert collection.stats()["runs"], "runs were sealed meanwhile"
        collection.compact()
        assert findings(collection, expected) == []


def test_a_true_new_interpreter_sees_it_too(folder: Path) -> None:
    """A process started from nothing, as a server's worker is, answers what this one added, and this one what it added."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        collection.add(["here"], np.ones((1, DIM)))
        program = (
            "import sys, kinbin, numpy\n"
            "with kinbin.open(sys.argv[1]) as database:\n"
            "    collection = database.collection('c')\n"
            "    print(collection.query(numpy.ones(24)).ids)\n"
            "    collection.add(['there'], numpy.arange(1.0, 25.0)[None])\n"
        )
        environment = {"PYTHONPATH": str(Path(kinbin.__file__).parent.parent)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False, timeout=100, env=environment
        )
        assert done.stdout == "['here']\n", done.stderr
        assert collection.query(np.arange(1.0, 25.0), k=1).ids == ["there"]


# -- one maintainer, one writer


@pytest.mark.slow
def test_one_maintainer_which_dies_with_its_process(nursery: Nursery, folder: Path, pair: Pair) -> None:
    """While one process keeps the collection up no other does; when it is killed the next takes over at once."""
    one, _ = pair
    one.call("add", [f"i{i}" for i in range(100)], np.random.default_rng(1).random((100, DIM)) + 0.01)
    holder = nursery.start("sharing:hold_upkeep", str(folder))
    assert holder.receive() is True
    rival = nursery.start("sharing:hold_upkeep", str(folder))
    assert rival.receive() is False
    rival.kill()
    one.begin("compact")
    assert not one.connection.poll(MOMENT), "it waits for the maintainer"
    holder.kill()
    one.result()
    assert [run["rows"] for run in one.call("stats")["runs"]] == [100]


def test_a_forked_child_does_not_inherit_the_upkeep(nursery: Nursery, folder: Path, pair: Pair) -> None:
    """When a maintainer dies the next takes over, though a child that it forked lives on and has its files open."""
    one, _ = pair
    one.call("add", [f"i{i}" for i in range(100)], np.random.default_rng(1).random((100, DIM)) + 0.01)
    holder = nursery.start("sharing:hold_upkeep_and_fork", str(folder))
    assert holder.receive() is True
    holder.kill()
    one.call("compact")
    assert [run["rows"] for run in one.call("stats")["runs"]] == [100]
    holder.connection.send("are you there?")
    assert holder.receive() == "still here"


def test_threads_of_one_process_are_rivals_too(folder: Path) -> None:
    """The upkeep lock keeps two threads of one process apart as it does two processes."""
    with kinbin.open(folder) as database:
        upkeep = database.collection("c")._upkeep
        with upkeep.elected(wait=False) as first, upkeep.elected(wait=False) as second:
            assert first
            assert not second
        with upkeep.elected(wait=False) as third:
            assert third


def test_a_writer_that_dies_leaves_nothing_and_holds_nobody_up(nursery: Nursery, folder: Path, pair: Pair) -> None:
    """While one process is inside a transaction others read, and write when it is killed; its own edits are gone."""
    one, two = pair
    one.call("add", ["a"], np.ones((1, DIM)))
    holder = nursery.start("sharing:hold_writer", str(folder))
    assert holder.receive() == "inside"
    one.begin("add", ["b"], np.arange(1.0, DIM + 1)[None])
    assert not one.connection.poll(MOMENT)
    assert two.call("query", np.ones(DIM)).ids == ["a"]
    assert two.call("get", ["half"]) == [None]
    holder.kill()
    assert one.result().count == 2
    assert two.call("get", ["half"]) == [None]
    assert two.call("check").ok


def test_a_reader_that_dies_leaves_no_slot(nursery: Nursery, folder: Path) -> None:
    """The reader slot of a killed process is freed while others go on writing: otherwise the file would grow for ever."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        reader = nursery.start("sharing:hold_reader", str(folder))
        assert reader.receive() == 0
        assert str(reader.pid) in collection._store.files.env.readers()
        reader.kill()
        for number in range(65):
            collection.add(["a"], np.arange(1.0, DIM + 1)[None] + number)
        assert str(reader.pid) not in collection._store.files.env.readers()


# -- writers and a long merge


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["in a build", "before the swap"])
def test_writers_go_on_during_a_merge(pair: Pair, folder: Path, monkeypatch: pytest.MonkeyPatch, hold: str) -> None:
    """While a merge is held up, adds in this process and in another one are done, and found; none waits for the merge."""
    one, _ = pair
    reached, go = threading.Event(), threading.Event()
    owner, name = (build.Parts, "flush") if hold == "in a build" else (upkeep, "write_run")
    original: Callable[..., Any] = getattr(owner, name)

    def held(*arguments: Any) -> Any:
        result = original(*arguments)
        reached.set()
        assert go.wait(LONG)
        return result

    monkeypatch.setattr(owner, name, held)
    rng = np.random.default_rng(2)
    vectors = rng.random((160, DIM)).astype(np.float32) + np.float32(0.01)
    expected: Stored = {f"i{i}": (vectors[i], None) for i in range(160)}  # type: ignore[misc]
    with kinbin.open(folder) as database, ThreadPoolExecutor(1) as threads:
        collection = database.collection("c")
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        collection.add([f"i{i}" for i in range(100)], vectors[:100])
        merging = threads.submit(collection.compact)
        assert reached.wait(LONG)
        for i in range(100, 160):
            if i % 2:
                collection.add([f"i{i}"], vectors[i : i + 1])
            else:
                one.call("add", [f"i{i}"], vectors[i : i + 1])
        assert not merging.done()
        assert findings(collection, expected) == []
        assert differences(one, expected) == []
        go.set()
        merging.result(LONG)
        assert findings(collection, expected) == []
        assert differences(one, expected) == []
        assert collection.stats()["runs"][0]["rows"] == 100
        assert collection.stats()["fresh_rows"] == 60


# -- creation and removal


def test_creating_the_same_collection_at_once(nursery: Nursery, tmp_path: Path) -> None:
    """Of processes that create a collection at the same moment one does, the others find it there, and all write into the same one."""
    names = [f"n{i}" for i in range(12)]
    with kinbin.open(tmp_path / "data") as database:
        children = [nursery.start("sharing:create_at_once", str(tmp_path / "data"), names) for _ in range(3)]
        for child in children:
            assert child.receive() == "open"
        for child in children:
            child.connection.send("go")
        outcomes = [child.receive() for child in children]
        for per_name in zip(*outcomes, strict=True):
            assert sorted(per_name) == ["created", "there", "there"]
        assert database.collections() == sorted(names)
        for name in names:
            assert database.collection(name).count() == 3
    assert not list((tmp_path / "data" / "collections").glob(".*"))


def test_dropping_the_same_collection_at_once(nursery: Nursery, tmp_path: Path) -> None:
    """Of processes that drop a collection at the same moment one does, and the others are told that it is gone."""
    names = [f"n{i}" for i in range(12)]
    with kinbin.open(tmp_path / "data") as database:
        for name in names:
            database.create_collection(name, dim=4)
        children = [nursery.start("sharing:drop_at_once", str(tmp_path / "data"), names) for _ in range(3)]
        for child in children:
            assert child.receive() == "open"
        for child in children:
            child.connection.send("go")
        outcomes = [child.receive() for child in children]
        for per_name in zip(*outcomes, strict=True):
            assert sorted(per_name) == ["dropped", "gone", "gone"]
        assert database.collections() == []
    assert not list((tmp_path / "data" / "collections").iterdir())


USES: dict[str, tuple[Any, ...]] = {
    "query": (np.ones(DIM),),
    "query_batch": (np.ones((2, DIM)),),
    "query_id": ("a",),
    "get": (["a"],),
    "scroll": (),
    "count": (),
    "stats": (),
    "add": (["b"], np.ones((1, DIM))),
    "delete": (["a"],),
    "check": (),
    "compact": (),
}


def test_a_collection_dropped_elsewhere_is_refused(pair: Pair, folder: Path) -> None:
    """Once one process has dropped a collection every use of it in another is refused, and its files are gone."""
    one, two = pair
    one.call("add", ["a"], np.ones((1, DIM)))
    assert two.call("count") == 1
    one.call("database.drop_collection", "c")
    for name, arguments in USES.items():
        with pytest.raises(CollectionNotFound):
            two.call(name, *arguments)
    with pytest.raises(CollectionNotFound):
        two.call("again")
    assert two.call("database.collections") == []
    with pytest.raises((CollectionNotFound, Closed)):
        one.call("count")
    assert list((folder / "collections").iterdir()) == []


def test_a_collection_made_anew_is_another_one(pair: Pair) -> None:
    """A collection made anew after a drop is empty and usable everywhere; who held the old one has to ask again."""
    one, two = pair
    one.call("add", ["a"], np.ones((1, DIM)))
    assert two.call("query", np.ones(DIM)).ids == ["a"]
    one.call("database.drop_collection", "c")
    one.call("database.create_collection", "c", dim=DIM)
    with pytest.raises(CollectionNotFound):
        two.call("query", np.ones(DIM))
    two.call("again")
    assert two.call("count") == 0
    assert two.call("query", np.ones(DIM)).ids == []
    two.call("add", ["b"], np.ones((1, DIM)))
    one.call("again")
    assert one.call("query", np.ones(DIM)).ids == ["b"]


def test_a_drop_that_was_cut_short_is_finished(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process dies between marking a collection as dropped and removing it, the next one to ask finishes that."""
    for use in ("collection", "create", "drop"):
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            collection.add(["a"], np.ones((1, DIM)))
            collection._mark_dropped()
        with kinbin.open(folder) as database:
            if use == "create":
                database.create_collection("c", dim=DIM)
            else:
                with pytest.raises(CollectionNotFound):
                    (database.collection if use == "collection" else database.drop_collection)("c")
                assert database.collections() == []
                database.create_collection("c", dim=DIM)
            assert database.collection("c").count() == 0
            assert [entry.name for entry in (folder / "collections").iterdir()] == ["c"]


def test_what_a_crash_left_of_a_drop_is_removed(folder: Path) -> None:
    """Files of a removed collection that a crash left are removed when the database is opened; fresh drafts of others are not touched."""
    left = folder / "collections" / ".dropped-x-0123"
    left.mkdir()
    (left / "data.mdb").write_bytes(bytes(10_000))
    draft = folder / "collections" / ".new-y-0123"
    draft.mkdir()
    with kinbin.open(folder) as database:
        assert database.collections() == ["c"]
        assert not left.exists()
        assert draft.exists()


# -- forks
