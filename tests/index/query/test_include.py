"""Contents that come with answers: what was asked for, from the very snapshot that was searched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinbin

pytestmark = pytest.mark.usefixtures("quiet")

X = np.array([[1, 2, 3], [3, 2, 1], [0, 5, 0.5], [3, 2, 1]], np.float32)
PAYLOADS = [{"n": 0}, {"n": 1}, None, {"n": 3}]


@pytest.fixture(params=[False, True], ids=["fresh", "merged"])
def collection(request: pytest.FixtureRequest, db: kinbin.Database) -> kinbin.Collection:
    """Four items, two of which share a vector."""
    made = db.create_collection("c", dim=3, seed=1)
    made.add(list("abcd"), X, PAYLOADS)
    if request.param:
        made.compact()
    return made


def then(monkeypatch: pytest.MonkeyPatch, collection: kinbin.Collection, happens: Callable[[], Any]) -> None:
    """Something happens after the next search has found its rows, and before the answer is put together."""

    def search_then(search: Callable[..., Any], *arguments: Any) -> Any:
        found = search(*arguments)
        monkeypatch.undo()
        happens()
        return found

    for name in ("search", "search_one"):
        search = getattr(collection._searcher, name)
        monkeypatch.setattr(collection._searcher, name, functools.partial(search_then, search))


def replace_everything(collection: kinbin.Collection) -> None:
    """Items get each other's vectors and other payloads, or go; everything is laid out anew."""
    collection.add(["a", "b"], X[[2, 0]], [{"n": 100}, {"n": 101}])
    collection.delete(["c", "d"])
    collection.compact()


def test_contents_are_those_of_the_items(collection: kinbin.Collection) -> None:
    """What is included is what `get` gives, one item for each id in its place; without include there is nothing."""
    for include in ((), ("payload",), ("vector",), ["vector", "payload"], "payload"):
        batch = collection.query_batch(X, k=3, include=include)
        alone = [collection.query(x, k=3, include=include) for x in X]
        by_id = [collection.query_id(identifier, k=3, include=include) for identifier in "abcd"]
        for answer in [*batch, *alone, *by_id]:
            if not include:
                assert answer.items is None
                continue
            assert answer.items is not None
            expected = [item for item in collection.get(answer.ids, include=include) if item is not None]
            assert [item.id for item in answer.items] == answer.ids == [item.id for item in expected]
            assert [item.payload for item in answer.items] == [item.payload for item in expected]
            for item, other in zip(answer.items, expected, strict=True):
                np.testing.assert_array_equal(item.vector, other.vector)


def test_sparse_vectors_are_included(db: kinbin.Database) -> None:
    """A vector of a collection without a dimension comes as its features and values."""
    collection = db.create_collection("s")
    collection.add(["a"], [{3: 1.5, 70_001: 2.0}])
    (item,) = collection.query({3: 1.0}, include=["vector"]).items or []
    assert isinstance(item.vector, kinbin.Sparse)
    assert np.asarray(item.vector.indices).tolist() == [3, 70_001]
    assert np.asarray(item.vector.values).tolist() == [1.5, 2.0]


def test_an_empty_answer_includes_nothing(collection: kinbin.Collection) -> None:
    """An answer without ids has no items, and a batch of none neither."""
    assert collection.query(X[0], filter={"n": 7}, include=["payload"]).items == []
    assert collection.query_batch(np.empty((0, 3)), include=["payload"]).items == {}


@pytest.mark.parametrize("include", ["vectors", ["payload", "id"], 7, [None]])
def test_unknown_contents_are_refused(include: Any, collection: kinbin.Collection) -> None:
    """What cannot be included is refused by every kind of query, with the names of what can."""
    for ask in (lambda **more: collection.query(X[0], **more), lambda **more: collection.query_id("a", **more),
                lambda **more: collection.query_batch(X, **more)):  # fmt: skip
        with pytest.raises(kinbin.InvalidInput, match="include lists some of vector, payload"):
            ask(include=include)


@pytest.mark.parametrize("ask", ["query", "query_id", "query_batch"])
def test_contents_come_from_the_snapshot_that_was_searched(
    ask: str, collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items that are replaced or deleted after they were found come with the vector and payload that were searched."""
    then(monkeypatch, collection, lambda: replace_everything(collection))
    options: dict[str, Any] = {"k": 4, "mode": "exact", "include": ("payload", "vector")}
    if ask == "query_batch":
        answer = collection.query_batch(X[:1], **options)[0]
    else:
        answer = collection.query_id("a", include_self=True, **options) if ask == "query_id" else collection.query(X[0], **options)
    assert collection.count() == 2, "it has happened"
    assert sorted(answer.ids) == list("abcd")
    assert answer.items is not None
    for item in answer.items:
        place = "abcd".index(item.id)
        assert item.payload == PAYLOADS[place]
        np.testing.assert_array_equal(item.vector, X[place])


@pytest.mark.parametrize("batch", [False, True])
def test_a_filter_decides_in_the_snapshot_that_was_searched(
    batch: bool, collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of items with one vector, a filter lets those through that matched when the vector was found, whatever they became."""
    then(monkeypatch, collection, lambda: collection.add(["b", "d"], X[[1, 3]], [{"n": 3}, {"n": 1}]))
    options: dict[str, Any] = {"k": 4, "filter": {"n": 3}, "include": ["payload"]}
    answer = collection.query_batch(X[1:2], **options)[0] if batch else collection.query(X[1], **options)
    assert answer.ids == ["d"]
    assert answer.items is not None
    assert answer.items[0].payload == {"n": 3}
    assert collection.query(X[1], filter={"n": 3}).ids == ["b"], "it has happened"


def test_the_vector_of_a_query_by_id_is_that_of_the_snapshot(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is replaced while it is asked for is found by the vector that is searched for, with score 1."""
    read = collection._contents.rows

    def read_then(*arguments: Any) -> Any:
        rows = read(*arguments)
        monkeypatch.undo()
        replace_everything(collection)
        return rows

    monkeypatch.setattr(collection._contents, "rows", read_then)
    answer = collection.query_id("a", k=1, include_self=True)
    assert (answer.ids, answer.scores.tolist()) == (["a"], [1.0])
