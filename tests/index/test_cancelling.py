"""Giving up: reads of every kind end when their event is set, writes do not, and scans in parts answer as whole ones do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.query import scanning

pytestmark = pytest.mark.usefixtures("quiet")

N = 900


class Nth(threading.Event):
    """An event that is set from the n-th look on."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.left = n

    def is_set(self) -> bool:
        """Whether it was looked at so often."""
        self.left -= 1
        return self.left < 0


def sealed(collection: kinbin.Collection) -> None:
    """What is fresh becomes a run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kinbin.upkeep.sealing.SEAL_ROWS", 10)
        assert collection._upkeep.step()


@pytest.fixture
def collection(db: kinbin.Database, rng: np.random.Generator) -> kinbin.Collection:
    """Two runs and fresh rows, some of them dead."""
    X = rng.random((N, 12)).astype(np.float32)
    made = db.create_collection("c", dim=12, seed=1)
    for start in (0, 400, 800):
        some = range(start, min(start + 400, N))
        made.add([f"i{i}" for i in some], X[some.start : some.stop], [{"n": i % 7, "big": i} for i in some])
        if start < 800:
            sealed(made)
    made.delete([f"i{i}" for i in range(0, N, 9)])
    return made


READS: dict[str, Callable[[kinbin.Collection], Any]] = {
    "count": lambda c: c.count({"n": 3}),
    "facets": lambda c: c.facets("n"),
    "a page": lambda c: c.scroll(limit=1_000, include=("vector", "payload")),
    "a page in the order of a field": lambda c: c.scroll(order_by="big"),
    "get": lambda c: c.get([f"i{i}" for i in range(N)]),
    "a query with a filter": lambda c: c.query([1.0] * 12, filter={"n": 2}),
    "an exact query": lambda c: c.query([1.0] * 12, mode="exact"),
    "a batch": lambda c: c.query_batch(np.ones((20, 12)), mode="exact"),
    "a query by id": lambda c: c.query_id("i1", mode="exact"),
    "examples": lambda c: c.query_examples(list(np.eye(12) + 0.1), mode="exact"),
}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("looks", [0, 1])
def test_a_read_ends_when_its_event_is_set(collection: kinbin.Collection, kind: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read that may take long looks at the event of its thread, more than once; it is whole again afterwards."""
    monkeypatch.setattr(scanning, "_FIRST_ROWS", 50)
    monkeypatch.setattr("kinbin.query.contents._AT_ONCE", 300)
    with pytest.raises(kinbin.SearchCancelled), kinbin.cancelled_by(Nth(looks)):
        READS[kind](collection)
    with kinbin.cancelled_by(threading.Event()):
        watched = READS[kind](collection)
    assert _told(READS[kind](collection)) == _told(watched)


def test_many_examples_look_as_often_as_they_score(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks lie so many scores, whether of many rows or of many examples."""
    monkeypatch.setattr("kinbin.query.ranking._SLICE", N)
    looks = {}
    for count in (2, 48):
        looking = Nth(10_000)
        with kinbin.cancelled_by(looking):
            collection.query_examples(list(np.eye(12) + 0.1) * (count // 12) or [[1.0] * 12, [2.0] + [1.0] * 11], mode="exact")
        looks[count] = 10_000 - looking.left
    assert looks[48] > looks[2] + 40


def test_an_event_of_a_query_ends_its_filter(collection: kinbin.Collection) -> None:
    """The `cancel` of a query is looked at while payloads are read for its filter."""
    with pytest.raises(kinbin.SearchCancelled):
        collection.query([1.0] * 12, filter={"n": 4}, cancel=Nth(1))
    assert len(collection.query([1.0] * 12, filter={"n": 4})) == 10


def test_writes_do_not_look(collection: kinbin.Collection) -> None:
    """What writes is finished, whatever the event of its thread says."""
    gone = threading.Event()
    gone.set()
    with kinbin.cancelled_by(gone):
        collection.add(["x"], [[1.0] * 12])
        collection.set_payload(["x"], [{"n": 9}])
        assert collection.delete(["x"]).deleted == 1
    with kinbin.cancelled_by(gone), kinbin.cancelled_by(None):
        assert collection.count({"n": 3}) > 0


def test_another_thread_is_not_told(collection: kinbin.Collection) -> None:
    """A block counts for the thread that is in it, and ends with it."""
    found: list[int] = []
    gone = threading.Event()
    gone.set()
    with kinbin.cancelled_by(gone):
        other = threading.Thread(target=lambda: found.append(collection.count({"n": 3})))
        other.start()
        other.join()
    assert found == [collection.count({"n": 3})]


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 7, 64, 10_000])
@pytest.mark.parametrize("filtered", [None, {"n": 3}, {"n": {"$in": [1, 2, 3, 4]}}])
def test_a_scan_in_parts_answers_as_a_whole_one(
    collection: kinbin.Collection, rng: np.random.Generator, first: int, filtered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut anywhere, over runs, fresh and dead rows and filters: the same ids, scores and numbers of rows, for one query and for several."""
    Q = rng.random((3, 12)).astype(np.float32)
    asked: dict[str, Any] = {"k": 25, "mode": "exact", "filter": filtered}
    whole = [_told(collection.query(q, **asked)) for q in Q] + [_told(collection.query_batch(Q, **asked))]
    monkeypatch.setattr(scanning, "_FIRST_ROWS", first)
    monkeypatch.setattr(scanning, "_PART_SECONDS", 1e-6)
    with kinbin.cancelled_by(threading.Event()):
        assert [_told(collection.query(q, **asked)) for q in Q] + [_told(collection.query_batch(Q, **asked))] == whole


def test_a_scan_of_objects_in_parts_answers_as_a_whole_one(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of strings, too; their sketches spare more rows where parts begin. An event ends it in the midst."""
    words = db.create_collection("w", items="strings", distance="levenshtein")
    listed = [f"{i:04d}{'ab' * (i % 11)}" for i in range(700)]
    words.add(listed, listed)
    sealed(words)
    whole = [_told(words.query(one, k=12, mode="exact"))[:2] for one in ("0123abab", "a", "zzz")]
    monkeypatch.setattr(scanning, "_FIRST_OBJECTS", 70)
    monkeypatch.setattr(scanning, "_PART_SECONDS", 1e-6)
    with kinbin.cancelled_by(threading.Event()):
        assert [_told(words.query(one, k=12, mode="exact"))[:2] for one in ("0123abab", "a", "zzz")] == whole
    with pytest.raises(kinbin.SearchCancelled):
        words.query("0123abab", mode="exact", cancel=Nth(4))


def _told(found: Any) -> Any:
    """What an answer says, as something to compare."""
    if isinstance(found, kinbin.Answer):
        return found.ids, found.scores.tolist(), found.verified, found.candidates, found.recall_lower_bound
    if isinstance(found, kinbin.AnswerBatch):
        return found.ids.tolist(), found.scores.tolist()
    if isinstance(found, kinbin.Page):
        return [item.id for item in found.items], found.next
    return [None if one is None else one.id for one in found] if isinstance(found, list) else found
