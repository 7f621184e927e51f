"""A collection under many threads, with its background work going on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.upkeep.sealing
from background import no_background
from nursery import until

A, B = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]


@pytest.fixture
def collection(db: kinbin.Database) -> kinbin.Collection:
    """An empty collection of dimension 3."""
    return db.create_collection("c", dim=3, seed=1)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in so many threads that begin together, and raise the first failure."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait(30)
            work(number)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_a_conflict_does_not_touch_the_adds_beside_it(collection: kinbin.Collection) -> None:
    """Of adds that wait for the writer together, those that are refused do not keep the others from being written."""
    collection.add(["taken"], [A])
    outcomes: list[str] = []

    def add(number: int) -> None:
        try:
            collection.add(["taken" if number % 2 else f"new {number}"], [B], mode="insert")
            outcomes.append("added")
        except kinbin.ItemConflict:
            outcomes.append("conflict")

    in_threads(16, add)
    assert sorted(outcomes) == ["added"] * 8 + ["conflict"] * 8
    assert [item.id for item in collection.scroll().items] == sorted(["taken", *(f"new {number}" for number in range(0, 16, 2))])
    assert collection.query(A, k=1).ids == ["taken"]


def in_one_commit(collection: kinbin.Collection, edits: list[Callable[[], Any]]) -> list[Any]:
    """The results (or errors) of edits that wait for the writer together and share a transaction, in this order."""
    results: list[Any] = [None] * len(edits)

    def run(number: int) -> None:
        try:
            results[number] = edits[number]()
        except kinbin.KinbinError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(edits))]
    with collection._writes._lead:
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda number=number: len(collection._writes._waiting) > number)
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("merged", [False, True], ids=["journal", "run"])
def test_edits_of_one_commit_see_each_other(merged: bool, collection: kinbin.Collection) -> None:
    """Edits that share a transaction have the results, and leave the items, that they have one after the other."""
    collection.add(["old", "twin"], [A, A])
    if merged:
        collection.compact()
    commits = collection.stats()["commits"]
    C = [0.0, 5.0, 0.5]
    results = in_one_commit(
        collection,
        [
            lambda: collection.delete(["old", "twin"]),
            lambda: collection.add(["again"], [A]),
            lambda: collection.add(["b"], [B]),
            lambda: collection.add(["b"], [C], mode="insert"),
            lambda: collection.add(["b"], [C], [{"n": 1}], mode="update"),
            lambda: collection.add(["c", "same as b"], [B, C]),
            lambda: collection.add(["b"], [C], [{"n": 1}]),
            lambda: collection.delete(["c"]),
            lambda: collection.add(["d"], [B]),
        ],
    )
    assert isinstance(results[3], kinbin.ItemConflict)
    assert results[:3] == [kinbin.DeleteResult(2, 0), kinbin.AddResult(1, 0, 0, 1), kinbin.AddResult(1, 0, 0, 2)]
    assert results[4:7] == [kinbin.AddResult(0, 1, 0, 2), kinbin.AddResult(2, 0, 0, 4), kinbin.AddResult(0, 0, 1, 4)]
    assert results[7:] == [kinbin.DeleteResult(1, 3), kinbin.AddResult(1, 0, 0, 4)]
    for _ in range(2):
        assert {item.id for item in collection.scroll().items} == {"again", "b", "same as b", "d"}
        for vector, names in ((A, {"again"}), (C, {"b", "same as b"}), (B, {"d"})):
            for mode in ("exact", "bands"):
                assert set(collection.query(vector, min_score=1.0, mode=mode).ids) == names
        assert collection.stats()["rows"] == 3
        assert collection.check().ok
        collection.compact()
    assert collection.stats()["commits"] > commits


def test_one_of_many_inserts_of_an_id_wins(collection: kinbin.Collection) -> None:
    """Of threads that insert the same id at once, one succeeds, and its vector is the one that is stored."""
    for turn in range(10):
        winners: list[int] = []

        def insert(number: int, turn: int = turn, winners: list[int] = winners) -> None:
            try:
                collection.add([f"{turn}"], [[1.0, 0.0, 1.0 + number]], mode="insert")
                winners.append(number)
            except kinbin.ItemConflict:
                pass

        in_threads(8, insert)
        (winner,) = winners
        (item,) = collection.get([f"{turn}"])
        assert item is not None
        assert isinstance(item.vector, np.ndarray)
        assert item.vector[2] == 1.0 + winner


def test_threads_may_use_a_collection_at_once(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread finds its own items as it left them, and an old one too, through adds, deletes, seals and merges of all threads."""
    monkeypatch.setattr(kinbin.upkeep.sealing, "SEAL_ROWS", 24)
    collection.add(["anchor"], [A])

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for turn in range(15):
            ids = [f"{number}-{turn}-{i}" for i in range(4)]
            X = rng.random((4, 3)) + 0.01
            assert collection.add(ids, X).indexed == 4
            assert collection.query(X[0], k=1).scores[0] == 1.0
            assert collection.query(A, k=1, mode="bands").ids == ["anchor"]
            assert collection.delete(ids[1:]).deleted == 3
            assert [item is None for item in collection.get(ids)] == [False, True, True, True]
            if turn % 5 == number % 5:
                collection.compact()

    in_threads(6, work)
    assert collection.count() == 1 + 6 * 15
    assert collection.check().ok


def test_background_work_seals_and_merges(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being asked, fresh rows become runs and runs are merged, and close waits for what is going on."""
    monkeypatch.setattr(kinbin.upkeep.sealing, "SEAL_ROWS", 50)
    collection = db.create_collection("c", dim=8)
    X = np.random.default_rng(1).random((1_000, 8)) + 0.01
    for start in range(0, 1_000, 25):
        collection.add([str(i) for i in range(start, start + 25)], X[start : start + 25])
    until(lambda: (stats := collection.stats())["fresh_rows"] < 50 and 1 <= len(stats["runs"]) < 8)
    assert collection.check().ok
    assert collection.query_batch(X, k=1, mode="exact").ids[:, 0].tolist() == [str(i) for i in range(1_000)]


def test_rows_that_a_dead_process_left_are_sealed_by_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where as many rows as make a run are fresh, and nobody writes any more, the first query has them sealed."""
    rows = np.random.default_rng(0).random((300, 3)) + 0.01
    with no_background(), kinbin.open(tmp_path) as database:
        database.create_collection("c", dim=3, seed=1).add([str(i) for i in range(300)], rows)
    monkeypatch.setattr(kinbin.upkeep.sealing, "SEAL_ROWS", 200)
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        assert not collection.stats()["runs"]
        assert collection.query(rows[7], k=1).ids == ["7"]
        until(lambda: not collection.stats()["fresh_rows"])
        assert collection.query(rows[7], k=1).ids == ["7"]
