"""Collections of series and of point sets: exact distances in every state of the store, what is refused, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import naive_objects as naive
from background import no_background
from kinbin.distances.dtw import most_warping_words, warping_words
from kinbin.distances.hausdorff import most_points_words, points_words
from kinbin.items.kind import Form
from kinbin.items.kinds import KINDS
from kinbin.spaces.registry import OBJECT_KERNELS
from objects_scored import scores_of
from refusals import refused

Twin = Callable[[Any, Any], float]
MODES = ("auto", "links", "exact")
CASES: dict[str, tuple[dict[str, Any], Twin]] = {
    "dtw": ({"items": "series", "distance": "dtw", "dim": 2}, lambda x, y: naive.dtw(x, y, 0.1)),
    "dtw, any window": ({"items": "series", "distance": "dtw", "parameters": {"window": 1}, "dim": 2}, lambda x, y: naive.dtw(x, y, 1)),
    "euclidean": (
        {"items": "series", "distance": "euclidean", "parameters": {"length": 9}, "dim": 2},
        lambda x, y: float(np.linalg.norm(x.astype(np.float64) - y)),
    ),
    "hausdorff": ({"items": "points", "distance": "hausdorff", "dim": 2}, naive.hausdorff),
    "modified_hausdorff": ({"items": "points", "distance": "modified_hausdorff", "dim": 2}, naive.modified_hausdorff),
}


def _objects(rng: np.random.Generator, name: str, count: int) -> list[np.ndarray]:
    """Walks in the plane, of many lengths where that is allowed; among them some that stand still at 0."""
    sizes = np.full(count, 9) if name == "euclidean" else rng.integers(1, 18, count)
    made = [np.cumsum(rng.normal(size=(size, 2)), axis=0).astype(np.float32) for size in sizes]
    made[5][:] = 0.0
    return made


def _check(collection: kinbin.Collection, stored: Mapping[str, np.ndarray], queries: list[np.ndarray], twin: Twin, k: int = 7) -> None:
    """Answers in every mode are complete, ascend, and name items that are so far away."""
    ids = list(stored)
    for query in queries:
        true = np.array([twin(query, one) for one in stored.values()])
        for mode in MODES:
            answer = collection.query(query, k=k, mode=mode)
            assert answer.distances is not None
            np.testing.assert_allclose(answer.distances, np.sort(true)[:k], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose([true[ids.index(one)] for one in answer.ids], answer.distances, rtol=1e-9, atol=1e-12)
            assert (answer.recall_lower_bound, answer.mode) == (1.0, "exact")
    batch = collection.query_batch(queries, k=k)
    assert batch.distances is not None
    for row, query in zip(batch.distances, queries, strict=True):
        np.testing.assert_allclose(row, np.sort([twin(query, one) for one in stored.values()])[:k], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_answers_are_exact_in_every_state(name: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Fresh, sealed, partly both, after updates and deletes, and reopened: every mode gives the nearest with their exact distances."""
    settings, twin = CASES[name]
    objects = _objects(rng, name, 150)
    queries = [objects[3], objects[5], *_objects(rng, name, 6)[:2]]
    with no_background():
        collection = db.create_collection("c", **settings)
        stored = {f"s{i}": one for i, one in enumerate(objects[:100])}
        collection.add(list(stored), list(stored.values()))
        _check(collection, stored, queries, twin)
        collection.compact()
        _check(collection, stored, queries[:2], twin)
        more = {f"s{i}": one for i, one in enumerate(objects[100:], 90)}
        stored |= more
        collection.add(list(more), list(more.values()))
        collection.delete(["s0", "s7", "s120"])
        for key in ("s0", "s7", "s120"):
            del stored[key]
        _check(collection, stored, queries, twin)
        assert collection.check().ok
        with kinbin.open(db.path) as again:
            same = again.collection("c")
            assert same.config == collection.config
            _check(same, stored, queries[:2], twin)
            for item in same.get(sorted(stored)):
                assert item is not None
                np.testing.assert_array_equal(item.object, stored[item.id])
        collection.compact()
        _check(collection, stored, queries[:2], twin)
        assert collection.check().ok


@pytest.mark.parametrize("name", CASES)
def test_limits_and_filters(name: str, db: kinbin.Database, rng: np.random.Generator, quiet: None) -> None:
    """Of what is farther than `max_distance`, or does not pass the filter, nothing is answered, and all that is within it is."""
    settings, twin = CASES[name]
    objects = _objects(rng, name, 120)
    collection = db.create_collection("c", **settings)
    collection.add([str(i) for i in range(120)], objects, [{"even": i % 2 == 0} for i in range(120)])
    true = np.array([twin(objects[3], one) for one in objects])
    for limit in np.sort(true)[[0, 1, 5, 40]] * (1 + 1e-9):
        found = collection.query(objects[3], k=120, max_distance=float(limit))
        np.testing.assert_allclose(found.scores, np.sort(true[true <= limit]), rtol=1e-9, atol=1e-12)
    passing = collection.query(objects[3], k=5, filter={"even": True}, include=("vector",))
    np.testing.assert_allclose(passing.scores, np.sort(true[::2])[:5], rtol=1e-9, atol=1e-12)
    for hit in passing:
        np.testing.assert_array_equal(hit.object, objects[int(hit.id)])


@pytest.mark.slow
def test_what_lies_on_the_limit_is_within_it(db: kinbin.Database, quiet: None) -> None:
    """A distance that is `max_distance`, to the bit, is answered, and none is printed that is more: in whole numbers, and in any."""
    apart = np.concatenate([np.arange(1, 300), np.random.default_rng(3).uniform(0, 9, 300).astype(np.float32)])
    for items, distance in (("points", "hausdorff"), ("points", "modified_hausdorff"), ("series", "dtw")):
        collection = db.create_collection(distance, items=items, distance=distance, dim=1)
        collection.add([str(i) for i in range(len(apart))], apart[:, None, None])
        for sealed in (False, True):
            if sealed:
                collection.compact()
            for limit in apart.tolist():
                found = collection.query([[0.0]], k=600, max_distance=limit)
                assert len(found.ids) == (apart <= limit).sum()
                assert found.scores.max() <= limit
        both = collection.query_batch([[[0.0]]] * 2, k=600, max_distance=49.0)
        assert (both.scores == 49.0).sum() == 2


def test_series_of_one_dimension_are_flat(db: kinbin.Database, quiet: None) -> None:
    """Without `dim` a series is an array (n,), comes back as one, and may come as (n, 1) or as whole numbers."""
    collection = db.create_collection("c", items="series")
    collection.add(["a", "b", "c"], [[1.0, 2.0], np.array([[1], [2], [3]]), np.arange(4, dtype=np.int16)])
    assert [item.object.tolist() for item in collection.get(["a", "b", "c"]) if item is not None] == [[1, 2], [1, 2, 3], [0, 1, 2, 3]]
    assert (collection.config.kernel, collection.config.dim, collection.config.parameters) == ("dtw", 1, {"window": 0.1})
    assert collection.query([1.0, 2.0], k=2).ids == ["a", "b"]
    assert collection.query_id("c", k=1, include_self=True).ids == ["c"]
    with refused("bad_object", "a series of this collection is an array (steps,), this one has shape ()", field="series"):
        collection.query(5)


def test_the_number_of_points_counts(db: kinbin.Database, quiet: None) -> None:
    """The same points twice are another object than once: the modified distance sees the difference, the Hausdorff distance does not."""
    once, twice = [[0, 0], [3, 0]], [[0, 0], [0, 0], [3, 0]]
    for distance, apart in (("hausdorff", 2.0), ("modified_hausdorff", 4 / 3)):
        collection = db.create_collection(distance, items="points", distance=distance, dim=2)
        collection.add(["once", "twice"], [once, twice])
        assert collection.stats()["rows"] == 2
        assert collection.query([[2, 0]], k=2).scores.tolist() == pytest.approx([2.0, 2.0] if apart == 2.0 else [1.5, 5 / 3])


FAULTS: list[tuple[str, Any, str, str]] = [
    ("series", [], "bad_object", "a series has at least one step, this one is empty; leave it out"),
    ("series", np.zeros((0, 2)), "bad_object", "a series has at least one step, this one is empty; leave it out"),
    ("series", np.zeros((9, 2)), "over_limit", "a series has at most 16 numbers, this one has 18; take every n-th step, or means"),
    ("series", [[0, np.nan]], "non_finite", "the numbers of a series are finite, this one has a NaN or an infinity"),
    ("series", [[0, np.inf]], "non_finite", "the numbers of a series are finite, this one has a NaN or an infinity"),
    ("series", [[0, 1e16]], "out_of_range", "the numbers of a series are between -1e+15 and 1e+15; rescale it"),
    ("series", np.zeros((4, 3)), "dimension_mismatch", "a series of this collection is an array (steps, 2), this one has shape (4, 3)"),
    ("series", np.zeros(4), "bad_object", "a series of this collection is an array (steps, 2), this one has shape (4,)"),
    ("series", np.zeros((2, 2, 2)), "bad_object", "a series of this collection is an array (steps, 2), this one has shape (2, 2, 2)"),
    ("series", "abc", "bad_object", "a series is an array of numbers of equal lengths, this one has dtype <U3"),
    ("series", None, "bad_object", "a series is an array of numbers of equal lengths, this one has dtype object"),
    ("series", [[1, 2], [3]], "bad_object", "a series is an array of numbers: its lists have as many numbers each, not 1 and 2"),
    ("series", [[10**400, 1]], "out_of_range", "the numbers of a series are between -1e+15 and 1e+15; rescale it"),
    ("points", [], "bad_object", "a point set has at least one point, this one is empty; leave it out"),
    ("points", np.zeros((0, 2)), "bad_object", "a point set has at least one point, this one is empty; leave it out"),
    ("points", np.zeros((9, 2)), "over_limit", "a point set has at most 16 numbers, this one has 18; draw some of its points"),
    ("points", [[0, np.nan]], "non_finite", "the numbers of a point set are finite, this one has a NaN or an infinity"),
    ("points", np.zeros((4, 3)), "dimension_mismatch", "a point set of this collection is an array (points, 2), this one has shape (4, 3)"),
    (
        "points", np.zeros(2), "bad_object",
        "a point set of this collection is an array (points, 2), this one has shape (2,); put a single point into a list",
    ),
    ("points", 5, "bad_object", "a point set of this collection is an array (points, 2), this one has shape ()"),
]  # fmt: skip


@pytest.mark.parametrize(("items", "bad", "code", "detail"), FAULTS, ids=lambda value: repr(value)[:24])
def test_what_is_no_object_is_refused_and_nothing_written(
    items: str, bad: Any, code: str, detail: str, db: kinbin.Database, set_limit: Callable[[str, int], None], quiet: None
) -> None:
    """Add, query and query_batch refuse it with its place; the good objects of the batch are not stored either."""
    limit = f"{items}_numbers"
    set_limit(limit, 16)
    collection = db.create_collection("c", items=items, dim=2)
    collection.add(["there"], [np.ones((3, 2))])
    named = limit if code == "over_limit" else None
    good = [[1.0, 2.0]]
    for position, ask in (
        (1, lambda: collection.add(["a", "b"], [good, bad])), (1, lambda: collection.query_batch([good, bad])),
        (None, lambda: collection.query(bad)),
    ):  # fmt: skip
        with pytest.raises(kinbin.InvalidInput) as caught:
            ask()
        (problem,) = caught.value.problems
        assert (problem.code, problem.position, problem.field, problem.limit) == (code, position, items, named)
        assert problem.detail.startswith(detail)
    assert (collection.count(), collection.stats()["commits"]) == (1, 1)


def test_euclidean_series_have_one_length(db: kinbin.Database, quiet: None) -> None:
    """A series of another length is refused, and nothing is written; a query of another length too."""
    collection = db.create_collection("c", items="series", distance="euclidean", parameters={"length": 4})
    detail = "series of this collection have 4 steps, this one has 5; dtw compares any lengths"
    with refused("bad_object", detail, position=1, field="series"):
        collection.add(["a", "b"], [np.zeros(4), np.zeros(5)])
    with refused("bad_object", detail, field="series"):
        collection.query(np.zeros(5))
    assert (collection.count(), collection.stats()["commits"]) == (0, 0)


SETTINGS: list[tuple[dict[str, Any], str, str]] = [
    ({"items": "points"}, "dim", "dim is the numbers of a point, from 1 to 1024; none is given: say dim=2 for points in the plane"),
    ({"items": "points", "dim": 1025}, "dim", "dim is the numbers of a point, from 1 to 1024; not 1025"),
    ({"items": "series", "dim": 1025}, "dim", "dim is the numbers of a step, from 1 to 1024, not 1025"),
    ({"items": "points", "dim": 2, "distance": "dtw"}, "distance", "distance is one of hausdorff, modified_hausdorff"),
    ({"items": "series", "kernel": "hausdorff"}, "kernel", "kernel is one of dtw, euclidean"),
    ({"items": "series", "parameters": {"window": 1.5}}, "parameters", "the parameter window is a number from 0 to 1, not 1.5"),
    ({"items": "series", "distance": "euclidean"}, "parameters", "the Euclidean distance is of series of one length: say it"),
    ({"items": "series", "distance": "euclidean", "parameters": {"length": 2.5}}, "parameters", "the parameter length is a whole"),
    (
        {"items": "series", "distance": "euclidean", "dim": 8, "parameters": {"length": 5_000}}, "parameters",
        "the Euclidean distance is of series",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "field", "text"), SETTINGS, ids=lambda value: repr(value)[:40])
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], field: str, text: str, db: kinbin.Database) -> None:
    """Dimensions, distances and their parameters have to fit the items; nothing is made otherwise."""
    with pytest.raises(kinbin.InvalidInput) as caught:
        db.create_collection("c", **settings)
    (problem,) = caught.value.problems
    assert (problem.code, problem.field) == ("bad_parameter", field)
    assert problem.detail.startswith(text)
    assert db.collections() == []


def test_parameters_are_kept(db: kinbin.Database, tmp_path: Path) -> None:
    """A window is told by `config`, found again after reopening, and compared by `exist_ok`."""
    made = db.create_collection("c", items="series", parameters={"window": 0.25}, dim=3)
    assert made.config.parameters == {"window": 0.25}
    with kinbin.open(db.path) as again:
        assert again.collection("c").config == made.config
    assert db.create_collection("c", items="series", parameters={"window": 0.25}, dim=3, exist_ok=True) is made
    with pytest.raises(kinbin.CollectionExists, match="parameters"):
        db.create_collection("c", items="series", dim=3, exist_ok=True)


def test_room_for_a_query_is_enough_in_any_dimension() -> None:
    """What is asked for without knowing the dimensions is at least what laying out takes with each."""
    for numbers in (1, 7, 64, 1_000, 32_768):
        for dims in (1, 2, 3, 7, 64, 1_000, 1_024):
            if dims <= numbers:
                steps, room = numbers // dims, 32_768 // dims
                assert most_warping_words(numbers, 32_768, 1_024) >= warping_words(steps, dims, room)
                assert most_points_words(numbers, 32_768, 1_024) >= points_words(steps, dims, room)


@pytest.mark.parametrize("name", ["dtw", "euclidean", "hausdorff", "modified_hausdorff"])
def test_damaged_rows_are_no_numbers(name: str, rng: np.random.Generator) -> None:
    """A stored row whose count fits no object of the collection scores NaN, and a query of such a row is laid out within its values."""
    kind = KINDS["points" if "hausdorff" in name else "series"]
    space = OBJECT_KERNELS[name]
    space = space.of({"length": 4.0}).sized(3) if name == "euclidean" and space.of else space.sized(3)  # type: ignore[misc]
    form = Form(3, True, space.parameters)
    whole = kind.rows([np.ones((4, 3)), np.zeros((4, 3))], form)
    broken = kind.rows([np.ones((7, 1))], Form(1, True, {}))
    assert np.isnan(scores_of(space, whole, broken)).all()
    assert np.isfinite(scores_of(space, whole, whole)).all()
    scores_of(space, broken, whole)
    scores_of(space, kind.rows([np.ones((1, 1))], Form(1, True, {})), whole)
