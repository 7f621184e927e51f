"""Collections under a distance that is a Python function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from kinbin.query.threads import threads_set
from linked import still
from nursery import Nursery


def l1(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The distance of two arrays."""
    return float(np.abs(a - b).sum())


def length_apart(a: str, b: str) -> float:
    """The distance of two strings: of their lengths."""
    return abs(len(a) - len(b))


def differing_bytes(a: bytes, b: bytes) -> float:
    """The distance of two byte strings of one length."""
    return sum(x != y for x, y in zip(a, b, strict=True))


def distances_of(answer: kinbin.Answer) -> list[float]:
    """As plain numbers, so that lists of them are compared."""
    assert answer.distances is not None
    return [float(one) for one in answer.distances]


class Interval:
    """An object of a user's own."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high


def encoded(one: Interval) -> NDArray[Any]:
    """An interval as an array."""
    return np.array([one.low, one.high])


def decoded(stored: NDArray[Any]) -> Interval:
    """And back."""
    return Interval(*stored.tolist())


def apart(a: Interval, b: Interval) -> float:
    """Of two intervals, how far their ends are from each other."""
    return max(abs(a.low - b.low), abs(a.high - b.high))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[kinbin.Database]:
    """An empty one."""
    with kinbin.open(tmp_path) as opened:
        yield opened


def test_answers_are_the_nearest_by_the_function(database: kinbin.Database, rng: np.random.Generator) -> None:
    """Scans print what the function returns, nearest first, in every way to ask, and take filters and distances."""
    X = rng.integers(0, 9, (60, 4)).astype(float)
    c = database.create_collection("c", items="objects", distance=l1, encoder=np.asarray)
    c.add([str(i) for i in range(60)], list(X), [{"even": i % 2 == 0} for i in range(60)])
    query = rng.integers(0, 9, 4).astype(float)
    truth = np.abs(X - query).sum(axis=1)
    answer = c.query(query, k=5)
    assert distances_of(answer) == sorted(truth.tolist())[:5]
    assert [truth[int(name)] for name in answer.ids] == distances_of(answer)
    assert (answer.recall_lower_bound, answer.mode) == (1.0, "exact")
    assert distances_of(c.query_batch([query, X[3]], k=5)[1])[0] == 0.0
    assert distances_of(c.query_id("3", k=1, include_self=True)) == [0.0]
    assert distances_of(c.query(query, k=5, filter={"even": True})) == sorted(truth[::2].tolist())[:5]
    within = c.query(query, k=60, max_distance=9.0)
    assert distances_of(within) == sorted(truth[truth <= 9.0].tolist())
    np.testing.assert_array_equal(c.get(["7"])[0].object, X[7].astype(np.float32))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "objects", "query", "distances"),
    [
        ({"items": "strings", "distance": length_apart}, ["a", "abc", "äöü€"], "ab", [1.0, 1.0, 2.0]),
        ({"items": "series", "distance": l1, "dim": 2}, [[[0, 1], [2, 3]], [[0, 0], [0, 0]]], [[0, 1], [2, 4]], [1.0, 7.0]),
        ({"items": "points", "distance": l1, "dim": 2}, [[[0, 1]], [[5, 5]]], [[0, 0]], [1.0, 10.0]),
        ({"items": "objects", "distance": differing_bytes, "encoder": bytes}, [b"abc", b"\x00\xff\x01"], b"abd", [1.0, 3.0]),
        (
            {"items": "objects", "distance": apart, "encoder": encoded, "decoder": decoded},
            [Interval(0, 1), Interval(2, 5)], Interval(0, 2), [1.0, 3.0],
        ),
    ],
    ids=["strings", "series", "points", "bytes", "a class"],
)  # fmt: skip
def test_kinds_of_objects(
    database: kinbin.Database, options: dict[str, Any], objects: list[Any], query: Any, distances: list[float]
) -> None:
    """The function is handed objects as the kind returns them, or as the decoder does; get returns the same."""
    c = database.create_collection("c", **options)
    c.add([str(i) for i in range(len(objects))], objects)
    assert distances_of(c.query(query)) == distances
    (item,) = c.get(["0"])
    assert item is not None
    assert type(item.object) is type(objects[0]) or isinstance(item.object, np.ndarray)


@pytest.mark.slow
def test_pools_are_calibrated_and_found_again(database: kinbin.Database, tmp_path: Path, rng: np.random.Generator) -> None:
    """A pool index of landmarks finds the nearest at the recall that is asked for, and is used again after reopening."""
    X = rng.normal(size=(510, 3)) + 5 * rng.integers(0, 6, (510, 1))
    with still():
        c = database.create_collection("c", items="objects", distance=l1, encoder=np.asarray, seed=1)
        c.add([str(i) for i in range(510)], list(X))
        c.link()
        told = c.stats()["pools"]
        assert (told["embedding"], told["covered"]) == ("landmarks", 510)
        recalls = []
        for mode in ("links", "auto"):
            answers = c.query_batch(list(X[:30]), k=10, mode=mode)
            truth = np.sort(np.abs(X[:30].astype(np.float32)[:, None] - X.astype(np.float32)).sum(axis=2), axis=1)[:, 9]
            recalls.append(
                float(np.mean([(np.array(one.distances) <= far + 1e-5).mean() for one, far in zip(answers, truth, strict=True)]))
            )
        assert min(recalls) >= 0.9
        pooled = c.query(X[0], mode="links")
        assert (pooled.mode, pooled.recall_lower_bound, pooled.no_bound) == ("pool", None, "calibrated")
        assert pooled.verified < 510
        database.close()
        with kinbin.open(tmp_path) as again:
            reopened = again.collection("c", distance=l1, encoder=np.asarray)
            assert distances_of(reopened.query(X[0], mode="links")) == distances_of(pooled)
            assert reopened.query(X[0], mode="links").mode == "pool"


def test_without_its_function(database: kinbin.Database, tmp_path: Path) -> None:
    """Who opens it without functions reads, counts and deletes, and is told what is missing by whatever needs one."""
    c = database.create_collection("c", items="objects", distance=differing_bytes, encoder=bytes)
    c.add(["a", "b"], [b"xy", b"zz"])
    database.close()
    with kinbin.open(tmp_path) as again:
        plain = again.collection("c")
        assert plain.count() == 2
        assert plain.get(["a"])[0].object == b"xy"  # type: ignore[union-attr]
        assert plain.check().ok
        assert plain.stats()["kernel"] == "callable"
        for call in (lambda: plain.query(b"xy"), lambda: plain.query_id("a"), lambda: plain.add(["c"], [b"aa"])):
            with pytest.raises(kinbin.InvalidInput, match=r"open it in the library by collection\(name, distance=f\)") as caught:
                call()
            assert caught.value.problems[0].code == "distance_missing"
        assert plain.delete(["b"]).deleted == 1
        bound = again.collection("c", distance=differing_bytes, encoder=bytes)
        assert distances_of(bound.query(b"xz")) == [1.0]
        assert distances_of(again.collection("c").query(b"xz")) == [1.0]
        assert again.check()["c"].ok
        again.drop_collection("c")
        assert again.collections() == []


def test_there_are_no_bands(database: kinbin.Database) -> None:
    """No hash is known of a function, and the refusal calls it one."""
    c = database.create_collection("c", items="strings", distance=length_apart)
    c.add(["a"], ["aa"])
    with pytest.raises(kinbin.InvalidInput, match="a function of your own has no bands"):
        c.query("b", mode="bands")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "vectors": ({"distance": l1}, "a function compares items"),
    "images": ({"items": "images", "distance": l1}, "a function compares items"),
    "no encoder": ({"items": "objects", "distance": l1}, "give distance=f and encoder=g"),
    "no distance": ({"items": "objects", "encoder": bytes}, "give distance=f and encoder=g"),
    "a name": ({"items": "objects", "distance": "levenshtein", "encoder": bytes}, "give distance=f and encoder=g"),
    "an encoder of strings": ({"items": "strings", "distance": length_apart, "encoder": str.encode}, "and no encoder"),
    "an encoder alone": ({"items": "strings", "encoder": str.encode}, "and no encoder"),
    "no function": ({"items": "objects", "distance": l1, "encoder": 3}, "encoder is a function, not int"),
    "a kernel": ({"items": "strings", "distance": length_apart, "kernel": "indel"}, "kernel came beside a function"),
    "parameters": ({"items": "strings", "distance": length_apart, "parameters": {}}, "parameters came beside a function"),
    "a dimension": ({"items": "strings", "distance": length_apart, "dim": 2}, "leave it out"),
}


@pytest.mark.parametrize("label", REFUSED)
def test_what_is_refused(label: str, database: kinbin.Database) -> None:
    """What cannot be compared by a function is refused, and nothing is made."""
    options, text = REFUSED[label]
    with pytest.raises(kinbin.InvalidInput, match=re.escape(text)):
        database.create_collection("c", **options)
    assert database.collections() == []


def test_one_function_at_a_time(database: kinbin.Database) -> None:
    """Another function than the one that is open is refused, as is any where the distance is stored."""
    c = database.create_collection("c", items="strings", distance=length_apart)
    assert database.collection("c", distance=length_apart) is c
    assert database.create_collection("c", items="strings", distance=length_apart, exist_ok=True) is c
    with pytest.raises(kinbin.InvalidInput, match="open with other functions"):
        database.collection("c", distance=lambda a, b: 0.0)
    with pytest.raises(kinbin.CollectionExists, match="kernel callable, not levenshtein"):
        database.create_collection("c", items="strings", exist_ok=True)
    database.create_collection("words", items="strings")
    with pytest.raises(kinbin.InvalidInput, match="compared by levenshtein, which is stored"):
        database.collection("words", distance=length_apart)
    database.create_collection("fields", fields={"a": {}})
    with pytest.raises(kinbin.InvalidInput, match="compared by several fields"):
        database.collection("fields", distance=length_apart)


@pytest.mark.parametrize(
    ("returned", "code", "text"),
    [
        (float("nan"), "bad_distance", "returned nan"),
        (-1.0, "bad_distance", "returned -1.0"),
        ("far", "distance_failed", "could not convert"),
    ],
)
def test_a_function_that_fails(database: kinbin.Database, returned: Any, code: str, text: str) -> None:
    """What is no distance, or raises, is the error of the query, no damage; the next query is answered."""
    fails = [True]
    c = database.create_collection("c", items="strings", distance=lambda a, b: returned if fails[0] else 1.0)
    c.add(["a"], ["x"])
    for call in (lambda: c.query("y"), lambda: c.query_batch(["y", "z"])):
        with pytest.raises(kinbin.InvalidInput, match=text) as caught:
            call()
        assert caught.value.problems[0].code == code
    fails[0] = False
    assert distances_of(c.query("y")) == [1.0]
    assert c.check().ok


def test_an_error_of_the_function_is_the_cause(database: kinbin.Database) -> None:
    """The user's own exception is told with the error that the query raises; an encoder's with the position of the object."""

    def broken(a: str, b: str) -> float:
        raise LookupError("no such word")

    c = database.create_collection("c", items="strings", distance=broken)
    c.add(["a"], ["x"])
    with pytest.raises(kinbin.InvalidInput, match="the distance raised LookupError: no such word") as caught:
        c.query("y")
    assert isinstance(caught.value.__cause__, LookupError)
    o = database.create_collection("o", items="objects", distance=l1, encoder=lambda one: np.array(one, float))
    with pytest.raises(kinbin.InvalidInput, match="the encoder raised ValueError") as told:
        o.add(["a", "b"], [[1.0], ["x"]])
    assert told.value.problems[0].position == 1
    assert o.count() == 0


@pytest.mark.parametrize("given", [b"\x00", b"", np.zeros(3), np.arange(6).reshape(1, 2, 3), [[-1.5]]], ids=repr)
def test_stored_forms_come_back(database: kinbin.Database, given: Any) -> None:
    """Bytes come back as bytes, arrays with their shapes, zeros and signs."""
    c = database.create_collection("c", items="objects", distance=lambda a, b: 0.0, encoder=lambda one: one)
    c.add(["a"], [given])
    (item,) = c.get(["a"])
    assert item is not None
    np.testing.assert_array_equal(np.asarray(item.object), np.asarray(given))
    assert isinstance(item.object, bytes) is isinstance(given, bytes)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (np.zeros(0), "not empty"),
        (3.0, "not empty"),
        ("text", r"an encoder returns bytes or an array .* returned a str: encode that"),
        ([None], "an encoded object is an array of numbers"),
        (bytes(40_000), "at most 32768"),
        ([np.nan], "finite"),
    ],
)
def test_encoded_objects_that_are_refused(database: kinbin.Database, given: Any, text: str) -> None:
    """What no row can hold is refused by its position, and nothing is written."""
    c = database.create_collection("c", items="objects", distance=l1, encoder=lambda one: one)
    with pytest.raises(kinbin.InvalidInput, match=text):
        c.add(["a", "b"], [[1.0], given])
    assert c.count() == 0


@pytest.mark.slow
def test_another_process_without_the_function(database: kinbin.Database, tmp_path: Path, nursery: Nursery) -> None:
    """A program that does not know the function lists and reads the collection."""
    c = database.create_collection("c", items="strings", distance=length_apart)
    c.add(["a"], ["kitten"])
    other = nursery.start("nursery:serve_database", str(tmp_path), "c")
    assert other.receive() == "open"
    assert other.call("database.collections") == ["c"]
    assert other.call("get", ["a"])[0].object == "kitten"


@pytest.mark.slow
def test_who_asks_is_told_of_his_own_error(database: kinbin.Database) -> None:
    """Queries that fail side by side have an error each, that of their own query; so do batches, whose parts have threads."""

    def apart(left: str, right: str) -> float:
        if left.startswith("!"):
            raise ValueError(left)
        return float(abs(len(left) - len(right)))

    collection = database.create_collection("c", items="strings", distance=apart)
    collection.add([str(i) for i in range(20)], ["a" * (i + 1) for i in range(20)])

    def asked(query: str) -> Counter[tuple[str, str]]:
        told = Counter[tuple[str, str]]()
        for turn in range(40):
            try:
                if turn % 4:
                    collection.query(query)
                else:
                    collection.query_batch(["aa"] * 150 + [query])
                told["", ""] += 1
            except kinbin.InvalidInput as error:
                told[error.code, str(error.__cause__)] += 1
        return told

    before = threads_set()
    kinbin.set_threads(2)
    try:
        with ThreadPoolExecutor(4) as threads:
            told = list(threads.map(asked, ["!1", "!2", "!3", "aaa"]))
    finally:
        kinbin.set_threads(before)
    assert told == [{("distance_failed", name): 40} for name in ("!1", "!2", "!3")] + [{("", ""): 40}]
