from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.errors import CorruptData, ItemConflict, StorageFull
from kinbin.storage.format import Part
from kinbin.storage.group import Edit, GroupCommit
from kinbin.storage.lookups import RUNS
from kinbin.storage.store import Store
from kinbin.storage.transactions import Writer

LONG = 30.0
THREADS = 40


class Log:
    """A transaction that is a list; `hold` keeps the first group open until all others wait behind it."""

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []
        self.inside = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def commit(self, edits: list[Edit[Any]]) -> None:
        """Apply a group, once it may."""
        self.inside.set()
        assert self.go.wait(LONG)
        group: list[Any] = []
        for edit in edits:
            try:
                edit.result = edit.apply(group)
            except ItemConflict as error:
                edit.error = error
        self.groups.append(group)


def put(value: Any) -> Callable[[list[Any]], Any]:
    """An edit that appends a value and gives it back."""

    def apply(group: list[Any]) -> Any:
        group.append(value)
        return value

    return apply


def together(log: Log, writes: GroupCommit, edits: list[Callable[[list[Any]], Any]]) -> list[Any]:
    """Results or errors of edits that all wait while another one is being committed."""
    log.go.clear()
    log.inside.clear()
    with ThreadPoolExecutor(len(edits) + 1) as threads:
        first = threads.submit(writes.submit, put("first"))
        assert log.inside.wait(LONG)
        waiting = []
        for edit in edits:
            waiting.append(threads.submit(writes.submit, edit))
            while len(writes._waiting) < len(waiting):
                threading.Event().wait(0.001)
        log.go.set()
        assert first.result(LONG) == "first"
        return [future.exception(LONG) or future.result(LONG) for future in waiting]


def test_edits_that_wait_share_a_transaction() -> None:
    """Edits that arrive during a commit make up the next one, in the order they came, each with its own result."""
    log = Log()
    assert together(log, GroupCommit(log.commit), [put(i) for i in range(THREADS)]) == list(range(THREADS))
    assert log.groups == [["first"], list(range(THREADS))]


def test_a_group_has_a_largest_size() -> None:
    """More edits than a group takes make several groups; none is left waiting and none is done twice."""
    log = Log()
    assert together(log, GroupCommit(log.commit, most=7), [put(i) for i in range(THREADS)]) == list(range(THREADS))
    assert [len(group) for group in log.groups] == [1, 7, 7, 7, 7, 7, 5]
    assert [value for group in log.groups[1:] for value in group] == list(range(THREADS))


def test_a_refused_edit_does_not_touch_its_group() -> None:
    """An edit that is refused raises in its own caller only; the others of its group take place."""
    log = Log()

    def refuse(_: list[Any]) -> None:
        raise ItemConflict("no", ("x",))

    outcome = together(log, GroupCommit(log.commit), [put(1), refuse, put(2)])
    assert outcome[0] == 1
    assert isinstance(outcome[1], ItemConflict)
    assert outcome[2] == 2
    assert log.groups == [["first"], [1, 2]]


def test_a_failed_transaction_fails_every_edit_of_it() -> None:
    """If the transaction fails, every caller gets its error, and the next group is not affected."""
    log = Log()
    writes = GroupCommit(log.commit)

    def break_it(_: list[Any]) -> None:
        raise StorageFull("full")

    outcome = together(log, writes, [put(1), break_it, put(2)])
    assert [type(error) for error in outcome] == [StorageFull] * 3
    assert log.groups == [["first"]]
    assert writes.submit(put(3)) == 3


# -- the same through a collection


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[kinbin.Collection]:
    """An empty collection without background work."""
    with kinbin.open(tmp_path) as database:
        created = database.create_collection("c", dim=8, bands=8, rows=1, seed=1)
        created._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        yield created


@contextmanager
def counted_writes(store: Store, count: list[Writer], first: threading.Event, go: threading.Event) -> Iterator[None]:
    """Count write transactions; the first one waits inside until `go`."""
    original = store.write

    @contextmanager
    def write() -> Iterator[Writer]:
        with original() as writer:
            count.append(writer)
            if len(count) == 1:
                first.set()
                assert go.wait(LONG)
            yield writer

    store.write = write  # type: ignore[method-assign]
    try:
        yield
    finally:
        store.write = original  # type: ignore[method-assign]


def add_together(collection: kinbin.Collection, calls: list[Callable[[], Any]]) -> tuple[list[Any], int]:
    """Outcomes of calls that were all begun while one transaction was held open, and the number of transactions."""
    writers: list[Writer] = []
    first, go = threading.Event(), threading.Event()
    with counted_writes(collection._store, writers, first, go), ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(calls[0])]
        assert first.wait(LONG)
        for call in calls[1:]:
            futures.append(threads.submit(call))
            while len(collection._writes._waiting) < len(futures) - 1:
                threading.Event().wait(0.001)
        go.set()
        return [future.exception(LONG) or future.result(LONG) for future in futures], len(writers)


def test_forty_threads_share_few_transactions(collection: kinbin.Collection, rng: np.random.Generator) -> None:
    """Forty threads that each add one item are all acknowledged, all found, and paid for with two transactions."""
    vectors = rng.random((THREADS, 8)) + 0.01

    def adding(i: int) -> Callable[[], Any]:
        return lambda: collection.add([f"i{i}"], vectors[i : i + 1])

    results, transactions = add_together(collection, [adding(i) for i in range(THREADS)])
    assert transactions == 2
    assert [result.indexed for result in results] == [1] * THREADS
    assert sorted(result.count for result in results) == list(range(1, THREADS + 1))
    assert collection.count() == THREADS
    assert [answer.ids for answer in collection.query_batch(vectors, k=1)] == [[f"i{i}"] for i in range(THREADS)]
    assert collection.check().ok


def test_a_refused_add_does_not_touch_the_adds_of_its_group(collection: kinbin.Collection) -> None:
    """An insert of an id that is there fails alone: the items of its group are stored, counted and searchable, its own are not."""
    collection.add(["there"], [[1.0] * 8])
    calls: list[Callable[[], Any]] = [
        lambda: collection.add(["a"], [[1.0, 2, 0, 0, 0, 0, 0, 0]]),
        lambda: collection.add(["b"], [[0, 1.0, 2, 0, 0, 0, 0, 0]], mode="insert"),
        lambda: collection.add(["new", "there"], [[0, 0, 1.0, 2, 0, 0, 0, 0], [2.0] * 8], mode="insert"),
        lambda: collection.add(["none"], [[0, 0, 0, 1.0, 2, 0, 0, 0]], mode="update"),
        lambda: collection.delete(["b"]),
        lambda: collection.add(["c"], [[0, 0, 0, 0, 1.0, 2, 0, 0]]),
    ]
    outcome, transactions = add_together(collection, calls)
    assert transactions == 2
    assert [type(one) for one in outcome] == [
        kinbin.AddResult,
        kinbin.AddResult,
        ItemConflict,
        ItemConflict,
        kinbin.DeleteResult,
        kinbin.AddResult,
    ]
    assert outcome[2].ids == ("there",)
    assert outcome[3].ids == ("none",)
    assert [outcome[i].count for i in (0, 1, 4, 5)] == [2, 3, 2, 3]
    assert [item.id for item in collection.scroll().items] == ["a", "c", "there"]
    assert collection.query([0, 0, 1.0, 2, 0, 0, 0, 0], k=5).ids.count("new") == 0
    assert collection.check() == kinbin.CheckReport(True, 3, 3, 0)


def test_edits_of_a_group_see_each_other(collection: kinbin.Collection) -> None:
    """Adds, updates and deletes of the same ids and vectors in one transaction leave what they leave one by one."""
    one, two = [1.0] * 8, [1.0, 2, 3, 4, 5, 6, 7, 8]
    calls: list[Callable[[], Any]] = [
        lambda: collection.add(["x"], [one]),
        lambda: collection.add(["y", "z"], [one, two]),
        lambda: collection.add(["x"], [two], mode="update"),
        lambda: collection.delete(["y"]),
        lambda: collection.add(["w"], [one], mode="insert"),
        lambda: collection.add(["z"], [two]),
        lambda: collection.delete(["x", "z"]),
        lambda: collection.add(["v"], [two]),
    ]
    outcome, transactions = add_together(collection, calls)
    assert transactions == 2
    assert [(r.indexed, r.updated, r.unchanged) for r in outcome if isinstance(r, kinbin.AddResult)] == [
        (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 0),
    ]  # fmt: skip
    assert [r.deleted for r in outcome if isinstance(r, kinbin.DeleteResult)] == [1, 2]
    assert [item.id for item in collection.scroll().items] == ["v", "w"]
    assert collection.query(one, k=5).ids == ["w", "v"]
    assert collection.query(two, k=5).ids == ["v", "w"]
    assert collection.check().ok


def test_an_edit_that_fails_halfway_takes_its_group_with_it(collection: kinbin.Collection, rng: np.random.Generator) -> None:
    """If damage is met after an edit began to write, nothing of its transaction is written: neither its half nor its group."""
    vectors = rng.random((6, 8)) + 0.01
    collection.add([f"i{i}" for i in range(6)], vectors)
    collection.compact()
    assert collection.count() == 6, "the view is read before the damage is done"
    with collection._store.write() as writer:
        (run,) = writer.manifest()
        writer._put(RUNS, run.to_bytes(4, "big") + Part.DEAD + bytes(4), b"damaged" * 600)
    calls: list[Callable[[], Any]] = [
        lambda: collection.add(["a"], [[1.0, 2, 0, 0, 0, 0, 0, 0]]),
        lambda: collection.add(["b"], [[0, 1.0, 2, 0, 0, 0, 0, 0]]),
        lambda: collection.delete(["i3"]),
        lambda: collection.add(["c"], [[0, 0, 1.0, 2, 0, 0, 0, 0]]),
    ]
    outcome, _ = add_together(collection, calls)
    assert isinstance(outcome[0], kinbin.AddResult)
    assert [type(error) for error in outcome[1:]] == [CorruptData] * 3
    with collection._store.read() as reader:
        assert reader.state().items == 7
        assert [key for key, _, _ in reader.scan_items(None)] == [b"a", *(b"i%d" % i for i in range(6))]
        assert [number for number, _ in reader.journal(0)] == [reader.state().sequence]
        assert [ids for _, ids in reader.scan_owners()] == [*([b"i%d" % i] for i in range(6)), [b"a"]]
