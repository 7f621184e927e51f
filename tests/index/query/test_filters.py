"""Filters on payloads against the slow twin: which items pass, and that no search misses one that does."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbin
import naive
from background import no_background
from kinbin.query.filters import OPERATORS, compile_filter

pytestmark = pytest.mark.usefixtures("quiet")

PAYLOADS: dict[str, Any] = {
    "none": None,
    "empty": {},
    "null": {"x": None},
    "one": {"x": 1},
    "one as a fraction": {"x": 1.0},
    "true": {"x": True},
    "false": {"x": False},
    "zero": {"x": 0},
    "two": {"x": 2},
    "minus": {"x": -2.5},
    "text": {"x": "b"},
    "other text": {"x": "B"},
    "digits": {"x": "1"},
    "empty text": {"x": ""},
    "list": {"x": [1, "b", None]},
    "empty list": {"x": []},
    "lists": {"x": [[1], {"y": 1}]},
    "object": {"x": {"y": 1}},
    "deeper": {"x": {"y": {"z": "b"}}},
    "dotted": {"x.y": 1},
    "two fields": {"x": 2, "w": "b"},
    "huge": {"x": 2**63},
    "day": {"x": "2026-01-31"},
    "noon": {"x": "2026-01-31T13:00:00.5+01:00"},
    "later": {"x": ["2026-01-31T12:00:00.5Z", "b", "2026-02-30"]},
    "berlin": {"x": {"lat": 52.52, "lon": 13.405}},
    "places": {"x": [{"lat": -17.7, "lon": 178.8}, {"lat": 48.85, "lon": 2.35}, {"lat": 91, "lon": 0}]},
}

FILTERS: list[tuple[Any, str]] = [
    ({"x": 1}, "one, one as a fraction, list"),
    ({"x": {"$eq": 1}}, "one, one as a fraction, list"),
    ({"x": 1.0}, "one, one as a fraction, list"),
    ({"x": True}, "true"),
    ({"x": False}, "false"),
    ({"x": 0}, "zero"),
    ({"x": None}, "null, list"),
    ({"x": "b"}, "text, list, later"),
    ({"x": "1"}, "digits"),
    ({"x": ""}, "empty text"),
    ({"x": 2**63}, "huge"),
    ({"x": {"$gt": 1}}, "two, two fields, huge"),
    ({"x": {"$gte": 1}}, "one, one as a fraction, two, list, two fields, huge"),
    ({"x": {"$lt": 0}}, "minus"),
    ({"x": {"$lte": 0}}, "zero, minus"),
    ({"x": {"$gt": "B"}}, "text, list, later"),
    ({"x": {"$lte": "B"}}, "other text, digits, empty text, day, noon, later"),
    ({"x": {"$gt": None}}, ""),
    ({"x": {"$gte": True}}, ""),
    ({"x": {"$gte": 0, "$lt": 2}}, "one, one as a fraction, zero, list"),
    ({"x": {"$in": [2, "b", None]}}, "null, two, text, list, two fields, later"),
    ({"x": {"$in": []}}, ""),
    ({"x": {"$in": [True, 0]}}, "true, zero"),
    ({"x": {"$exists": False}}, "none, empty, dotted"),
    ({"x": {"$exists": True, "$lt": 1}}, "zero, minus"),
    ({"x.y": 1}, "object"),
    ({"x.y": {"$exists": True}}, "object, deeper"),
    ({"x.y.z": {"$gte": "a"}}, "deeper"),
    ({"x": 2, "w": "b"}, "two fields"),
    ({"$and": [{"x": {"$gte": 1}}, {"x": {"$lte": 1}}]}, "one, one as a fraction, list"),
    ({"$or": [{"x": True}, {"w": {"$exists": True}}, {"x": {"$in": ["B"]}}]}, "true, other text, two fields"),
    ({"$or": [{"x": True}], "x": {"$exists": True}}, "true"),
    ({"x": {"$prefix": "2026-01-31T"}}, "noon, later"),
    ({"x": {"$prefix": ""}}, "text, other text, digits, empty text, list, day, noon, later"),
    ({"x": {"$eq": {"$date": "2026-01-31T12:00:00.5Z"}}}, "noon, later"),
    ({"x": {"$date": "2026-01-31T00:00:00Z"}}, "day"),
    ({"x": {"$gt": {"$date": "2026-01-31"}}}, "noon, later"),
    ({"x": {"$lte": {"$date": "2026-01-31T01:00:00+01:00"}}}, "day"),
    ({"x": {"$in": [{"$date": "2026-01-31"}, 2]}}, "day, two, two fields"),
    ({"x": {"$geo_radius": {"lat": 52.5, "lon": 13.4, "meters": 3000}}}, "berlin"),
    ({"x": {"$geo_radius": {"lat": 52.5, "lon": 13.4, "meters": 900_000}}}, "berlin, places"),
    ({"x": {"$geo_box": {"south": -20, "west": 170, "north": 0, "east": -170}}}, "places"),
    ({"x": {"$geo_box": {"south": 50, "west": 10, "north": 55, "east": 15}}}, "berlin"),
]


def passing(filter: Any) -> set[str]:
    """Names of the payloads above that a filter lets through, by the library."""
    test = compile_filter(filter)
    return {name for name, payload in PAYLOADS.items() if test(b"" if payload is None else orjson.dumps(payload))}


@pytest.mark.parametrize(("filter", "expected"), FILTERS, ids=lambda x: str(x)[:40])
def test_what_a_filter_lets_through(filter: Any, expected: str) -> None:
    """Every operator lets through just the listed payloads, its opposite just the others; the twin agrees."""
    names = {name for name in expected.split(", ") if name}
    assert passing(filter) == names
    assert passing({"$not": filter}) == PAYLOADS.keys() - names
    assert {name for name, payload in PAYLOADS.items() if naive.matches(filter, payload)} == names


@pytest.mark.parametrize(("one", "other"), [("$ne", "$eq"), ("$nin", "$in")])
def test_negated_operators_are_true_where_the_plain_ones_are_not(one: str, other: str) -> None:
    """$ne and $nin let through just what $eq and $in do not, absent fields among it."""
    for value in (1, True, None, "b", ""):
        wanted = [value] if other == "$in" else value
        assert passing({"x": {one: wanted}}) == PAYLOADS.keys() - passing({"x": {other: wanted}}) >= {"none", "empty"}


LISTED: list[Any] = [True, False, 1, 0, 1.0, -0.0, 2, -2.5, 2**53 + 1, float(2**53), 2**63, float(2**63), None, "", "1", "b", "B", "true"]


@pytest.mark.parametrize("one", LISTED, ids=repr)
def test_a_listed_value_matches_what_it_equals(one: Any) -> None:
    """$in lets through just what $eq lets through for one of the listed: 1 is 1.0 and is not true."""
    values = [*LISTED, *([value] for value in LISTED), [[1]], {"y": 1}, [{"y": 1}, "b"], []]
    for value in values:
        payload = orjson.dumps({"x": value})
        expected = compile_filter({"x": one})(payload)
        assert compile_filter({"x": {"$in": ["another", one]}})(payload) is expected, value
        assert compile_filter({"x": {"$nin": [one, -7]}})(payload) is not expected, value


def test_a_list_is_looked_up_not_gone_through() -> None:
    """Whether a value is listed is one look-up: a value is compared with none of the listed that differ from it."""
    compared = []

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    listed = [Counted(f"listed {i}") for i in range(200)]
    test = compile_filter({"x": {"$in": listed}})
    assert [i for i in range(400) if test(orjson.dumps({"x": f"listed {i}"}))] == [*range(200)]
    assert len(compared) <= 2 * 200


def test_every_operator_is_tested() -> None:
    """The lists above use all operators that there are."""
    used = str(FILTERS) + "$ne $nin $not"
    assert [operator for operator in OPERATORS if operator not in used] == []


scalars = st.one_of(st.integers(-2, 2), st.sampled_from([0.5, 1.0, -1.5]), st.booleans(), st.none(), st.sampled_from(["", "a", "b"]))
fields = st.sampled_from(["x", "y", "x.y", "x.y.x"])
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xy"), inner, max_size=2)), max_leaves=6
)
payloads = st.one_of(st.none(), st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2))
conditions = st.one_of(
    scalars,
    st.dictionaries(st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), scalars, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=3), min_size=1),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
filters = st.recursive(
    st.dictionaries(fields, conditions, min_size=1, max_size=2),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$not": inner}),
        st.dictionaries(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3), min_size=1),
    ),
    max_leaves=5,
)


@given(filter=filters, payload=payloads)
def test_filters_are_those_of_the_twin(filter: Any, payload: Any) -> None:
    """Any filter decides about any payload as the twin does."""
    assert compile_filter(filter)(b"" if payload is None else orjson.dumps(payload)) is naive.matches(filter, payload)


# --------------------------------------------------------------------------------- filters in searches

COUNT = 3_000


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """3,000 items in a run and 200 in the journal; field n is the number, some share a vector."""
    with no_background(), kinbin.open(tmp_path_factory.mktemp("filters")) as db:
        made = db.create_collection("c", dim=16, seed=3)
        X = vectors()
        made.add([f"{i:04}" for i in range(COUNT)], X[:COUNT], [{"n": i, "even": i % 2 == 0} for i in range(COUNT)])
        made.compact()
        made.add([f"{i:04}" for i in range(COUNT, COUNT + 200)], X[COUNT:], [{"n": i} for i in range(COUNT, COUNT + 200)])
        made.delete([f"{i:04}" for i in range(0, COUNT, 10)])
        yield made


def vectors() -> Any:
    """The vectors; every seventh is that of the number before."""
    X = np.random.default_rng(4).gamma(0.5, size=(COUNT + 200, 16)).astype(np.float32) + 0.01
    X[7::7] = X[6:-1:7]
    return X


SEARCHED: list[Any] = [
    {"n": {"$lt": 5}},
    {"n": {"$gte": COUNT}},
    {"n": {"$in": [1, 2, 3]}},
    {"n": 10},
    {"n": -1},
    {"even": True},
    {"even": {"$exists": False}},
    {"n": {"$ne": 17}},
    {"$or": [{"n": {"$lt": 200}}, {"n": {"$gte": COUNT + 100}}]},
]


@pytest.mark.parametrize("mode", ["auto", "exact", "bands"])
@pytest.mark.parametrize("filter", SEARCHED, ids=str)
def test_a_filter_never_gives_too_few(filter: Any, mode: str, collection: kinbin.Collection) -> None:
    """Answers hold matching items only; exact ones are the best of them, auto ones are k (or all), bands say so when they are fewer."""
    X = vectors()
    alive = [i for i in range(COUNT + 200) if i >= COUNT or i % 10]
    allowed = [i for i in alive if naive.matches(filter, {"n": i, "even": i % 2 == 0} if i < COUNT else {"n": i})]
    assert collection.count(filter=filter) == len(allowed)
    for q in X[[1, 7, 100, COUNT + 5]]:
        scores = naive.dense_scores("ngmm", q, X)
        truth = {f"{i:04}": float(scores[i]) for i in allowed}
        answer = collection.query(q, k=12, filter=filter, mode=mode, target_recall=0.9)
        assert set(answer.ids) <= truth.keys()
        assert all(abs(score - truth[identifier]) < naive.SCORE_ERROR for identifier, score in zip(answer.ids, answer.scores, strict=True))
        if answer.mode == "exact":
            naive.assert_answers(answer.ids, answer.scores, truth, 12)
        if mode != "bands":
            assert len(answer) == min(12, len(truth))
            assert answer.recall_lower_bound is not None
            assert answer.recall_lower_bound >= 0.9
        elif len(answer) < 12:
            assert answer.no_bound == "fewer than k items were found"


def test_a_narrow_filter_scores_just_what_it_lets_through(collection: kinbin.Collection) -> None:
    """In auto mode, the few rows that a filter lets through are scored and nothing else is looked at."""
    answer = collection.query(vectors()[1], k=12, filter={"n": {"$in": [1, 2, 3, 100, COUNT + 7]}})
    assert (answer.mode, len(answer), answer.verified, answer.candidates, answer.recall_lower_bound) == ("exact", 4, 4, 4, 1.0)


def test_ids_that_share_a_vector_are_filtered_one_by_one(db: kinbin.Database) -> None:
    """Of items with one vector, a filter lets through those whose own payload matches."""
    collection = db.create_collection("c", dim=3)
    collection.add(list("abc"), np.ones((3, 3)), [{"n": 1}, {"n": 2}, None])
    for mode in ("auto", "exact", "bands"):
        assert collection.query([1, 1, 1], filter={"n": 2}, mode=mode).ids == ["b"]
        assert collection.query([1, 1, 1], filter={"n": {"$ne": 2}}, mode=mode).ids == ["a", "c"]


@pytest.mark.parametrize("k", [1, 2, 4, 9])
@pytest.mark.parametrize("filter", [None, {"n": {"$ne": 2}}])
def test_a_batch_in_which_some_answers_have_items_with_one_vector(k: int, filter: dict[str, Any] | None, db: kinbin.Database) -> None:
    """Each answer of a batch is that of the query alone, whether items share a vector in all, some or none of its rows."""
    collection = db.create_collection("c", dim=8)
    vectors = np.eye(8)[[0, 0, 0, 1, 2, 3, 3, 4]] + 0.01
    vectors[:3, 1] += 0.5
    collection.add(list("abcdefgh"), vectors, [{"n": n} for n in range(8)])
    queries = np.vstack([np.eye(8)[:6] + 0.01, np.eye(8)[[0]] + np.eye(8)[[3]]])
    for compacted in (False, True):
        if compacted:
            collection.compact()
        batch = collection.query_batch(queries, k=k, filter=filter)
        for query, answer in zip(queries, batch, strict=True):
            alone = collection.query(query, k=k, filter=filter)
            assert alone.ids == answer.ids
            np.testing.assert_array_equal(alone.scores, answer.scores)
        assert any(set("ab") <= set(answer.ids) for answer in batch) == (k > 1)


def test_a_filter_sees_every_change(db: kinbin.Database) -> None:
    """The same filter, asked again, knows of payloads that were added, replaced and deleted since, and of merges."""
    collection = db.create_collection("c", dim=3)
    filter = {"n": {"$gt": 1}}
    collection.add(list("abc"), np.eye(3), [{"n": 1}, {"n": 2}, {"n": 3}])
    assert collection.count(filter=filter) == 2
    collection.add(["a"], [[1, 0, 0]], [{"n": 9}])
    assert set(collection.query([1, 1, 1], filter=filter).ids) == set("abc")
    collection.delete(["b"])
    assert set(collection.query([1, 1, 1], filter=filter).ids) == set("ac")
    collection.compact()
    collection.add(["b", "c"], [[0, 1, 0], [0, 0, 1]], [{"n": 5}, {"n": 0}])
    assert set(collection.query([1, 1, 1], filter=filter).ids) == set("ab")
    assert [item.id for item in collection.scroll(filter=filter).items] == ["a", "b"]


@pytest.mark.slow
def test_a_remembered_filter_is_a_bit_a_row(db: kinbin.Database, rng: np.random.Generator) -> None:
    """What is kept of a filter grows by a bit with each row, however long ids are; of many filters the last four are kept."""
    collection = db.create_collection("c", dim=3)
    for start in range(0, 40_000, 10_000):
        names = [f"{i:05}" + "x" * 200 for i in range(start, start + 10_000)]
        collection.add(names, rng.random((10_000, 3)) + 0.1, [{"n": i} for i in range(start, start + 10_000)])
    collection.compact()
    for most in range(1, 8):
        assert collection.count(filter={"n": {"$lt": 5_000 * most}}) == 5_000 * most
    kept = list(collection._filters._known.values())
    assert len(kept) == 4
    for matching in kept:
        assert len(pickle.dumps(matching)) <= 2 * 40_000 // 8


def test_filters_that_print_alike_are_told_apart(db: kinbin.Database) -> None:
    """1, 1.0, true, "1" and null are asked for one after the other, and answered each for itself."""
    collection = db.create_collection("c", dim=3)
    payloads = {"one": 1, "true": True, "text": "1", "null": None, "null text": "null"}
    collection.add(list(payloads), np.ones((5, 3)), [{"x": value} for value in payloads.values()])
    for _ in range(2):
        for value, expected in ((1, {"one"}), (1.0, {"one"}), (True, {"true"}), ("1", {"text"}), (None, {"null"}), ("null", {"null text"})):
            assert set(collection.query([1, 1, 1], filter={"x": value}).ids) == expected
            assert collection.count(filter={"x": {"$ne": value}}) == 4
