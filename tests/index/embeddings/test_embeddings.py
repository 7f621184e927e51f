from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import naive_objects as naive
from kinbin.distances.named import matrix_of
from kinbin.distances.ragged import Ragged, ragged
from kinbin.embeddings.anchors import ANCHORS
from kinbin.embeddings.dense import median_distance, points_of
from kinbin.embeddings.landmarks import LANDMARKS, RANDOM_SETS, uniform_numbers
from kinbin.embeddings.parts import PARTS_OF_TIME
from kinbin.items.embedding import Embedder, Embedding, Measure, Sample
from kinbin.items.kind import Form, sequence_rows
from kinbin.rows.rows import Rows

DTW = {"window": 0.2}
CASES: dict[str, tuple[Embedding, str, Mapping[str, float], int]] = {
    "parts": (PARTS_OF_TIME, "dtw", DTW, 2),
    "anchors": (ANCHORS, "hausdorff", {}, 2),
    "landmarks of series": (LANDMARKS, "dtw", DTW, 2),
    "landmarks of sets": (LANDMARKS, "modified_hausdorff", {}, 2),
    "random sets": (RANDOM_SETS, "hausdorff", {}, 5),
}


def _rows_of(objects: Ragged) -> Rows:
    return sequence_rows(objects.values.reshape(-1), objects.sizes * objects.dims)


def _measure(distance: str, of: Mapping[str, float], dims: int) -> Measure:
    matrix = matrix_of(distance, of)
    return lambda left, right: matrix(points_of(left, dims), points_of(right, dims))


def _chosen(embedding: Embedding, objects: Ragged, distance: str, of: Mapping[str, float]) -> tuple[Embedder, dict[str, Any]]:
    """The embedding with the settings that it chooses for these objects, after a way through JSON; and the settings."""
    form, measure = Form(objects.dims, True, of), _measure(distance, of, objects.dims)
    settings = embedding.choose(Sample(_rows_of(objects), form, measure, np.random.default_rng(3)))
    assert settings is not None
    settings = json.loads(json.dumps(settings))
    return embedding.embedder(settings, form, measure), settings


def _dense(rows: Rows, dim: int | None) -> np.ndarray:
    out = np.zeros((len(rows), dim or 0))
    for i in range(len(rows)):
        features, values = rows.row(i)
        out[i, features.astype(np.int64)] = values
    return out


def _objects(rng: np.random.Generator, dims: int, count: int = 30) -> Ragged:
    return ragged([np.cumsum(rng.normal(size=(size, dims)), axis=0) for size in rng.integers(1, 40, count)])


@pytest.mark.parametrize("name", CASES)
def test_an_object_has_one_row_whatever_it_comes_with(rng: np.random.Generator, name: str) -> None:
    """The row of an object alone is that of it among others, canonical, and never empty, far as the object may be from the sample."""
    embedding, distance, of, dims = CASES[name]
    embedder, settings = _chosen(embedding, _objects(rng, dims), distance, of)
    again = embedding.embedder(settings, Form(dims, True, of), _measure(distance, of, dims))
    new = _objects(rng, dims)
    for objects in (_rows_of(new), _rows_of(Ragged(new.values + np.float32(1e4), new.offsets))):
        together = embedder.rows(objects)
        assert np.diff(together.indptr).min() > 0
        assert int(together.features.max()) < (embedder.dim or 0)
        for i in range(len(objects)):
            features, values = together.row(i)
            alone = again.rows(objects.slice(i, i + 1))
            assert alone.features.tobytes() == features.tobytes()
            assert alone.values.tobytes() == values.tobytes()
            assert (np.diff(features.astype(np.int64)) > 0).all()


@pytest.mark.parametrize(("embedding", "dims"), [(ANCHORS, 4), (RANDOM_SETS, 3)])
def test_what_serves_other_dimensions_says_so(rng: np.random.Generator, embedding: Embedding, dims: int) -> None:
    """Anchors are for one to three dimensions, random sets for more."""
    measure = _measure("hausdorff", {}, dims)
    assert embedding.choose(Sample(_rows_of(_objects(rng, dims)), Form(dims), measure, rng)) is None


def test_parts_of_time_are_those_of_the_definition(rng: np.random.Generator) -> None:
    """Means, greatest and least values of sixteen parts, less the least value of the sample, and taken from the greatest."""
    objects = _objects(rng, 3)
    embedding, _ = _chosen(PARTS_OF_TIME, objects, "dtw", DTW)
    low, high = objects.values.min(axis=0), objects.values.max(axis=0)
    expected = [naive.parts_of_time(objects.one(i), low, high) for i in range(len(objects))]
    np.testing.assert_allclose(_dense(embedding.rows(_rows_of(objects)), embedding.dim), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dims", "side"), [(1, 64), (2, 16), (3, 8)])
def test_anchors_are_those_of_the_definition(rng: np.random.Generator, dims: int, side: int) -> None:
    """Features fall with the distance from the middle of each cell of a grid over the sample's box."""
    objects = _objects(rng, dims)
    embedding, settings = _chosen(ANCHORS, objects, "hausdorff", {})
    low, high = objects.values.min(axis=0), objects.values.max(axis=0)
    expected = [naive.anchored(objects.one(i), low, high, side, settings["median"]) for i in range(len(objects))]
    np.testing.assert_allclose(_dense(embedding.rows(_rows_of(objects)), embedding.dim), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("distance", "of", "twin"),
    [
        ("dtw", DTW, lambda x, y: naive.dtw(x, y, 0.2)),
        ("hausdorff", {}, naive.hausdorff),
        ("modified_hausdorff", {}, naive.modified_hausdorff),
    ],
)
def test_landmarks_are_those_of_the_definition(
    rng: np.random.Generator, distance: str, of: Mapping[str, float], twin: Callable[[Any, Any], float]
) -> None:
    """Features are e to the minus four times the distance from each of the chosen objects, over the median, but for a factor a row."""
    objects = _objects(rng, 2, 12)
    embedding, _ = _chosen(LANDMARKS, objects, distance, of)
    apart = np.array([[twin(objects.one(i), objects.one(j)) for j in range(12)] for i in range(12)])
    expected = np.exp(-4.0 * apart / np.median(apart[:6, 6:]))
    np.testing.assert_allclose(
        _dense(embedding.rows(_rows_of(objects)), 12), expected / expected.max(axis=1, keepdims=True), rtol=1e-5, atol=1e-7
    )


def test_random_sets_lie_on_the_sphere(rng: np.random.Generator) -> None:
    """They have 1 to 15 points, at the same distance from the sample's mean, in all directions."""
    objects = _objects(rng, 4)
    fixed = getattr(_chosen(RANDOM_SETS, objects, "hausdorff", {})[0], "fixed")  # noqa: B009
    sets = points_of(fixed, 4)
    away = sets.values - objects.values.mean(axis=0, dtype=np.float64)
    radius = np.quantile(np.linalg.norm(objects.values - objects.values.mean(axis=0, dtype=np.float64), axis=1), 0.9)
    assert len(sets) == 512
    assert sorted(set(sets.sizes.tolist())) == list(range(1, 16))
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), radius, rtol=1e-4)
    assert np.linalg.norm(away.mean(axis=0)) < 0.1 * radius


def test_random_numbers_are_the_same_everywhere() -> None:
    """The numbers of a seed never change: stored rows were made with them."""
    np.testing.assert_array_equal(uniform_numbers(7, 2), [0.625095466604667, 0.8972138009695755])


def test_objects_that_are_all_alike_have_a_median() -> None:
    """Where no two objects differ nothing is divided by 0."""
    for count in (1, 4):
        objects = ragged([np.ones((3, 2))] * count)
        assert median_distance(_rows_of(objects), _measure("hausdorff", {}, 2)) == 1.0
        for embedding in (PARTS_OF_TIME, LANDMARKS, ANCHORS):
            values = _chosen(embedding, objects, "hausdorff", {})[0].rows(_rows_of(objects)).values
            assert np.isfinite(values).all()


def test_settings_are_small(rng: np.random.Generator) -> None:
    """Landmarks are fewer where objects are long, so that their text stays below 100 kB."""
    long = ragged([rng.normal(size=(3_000, 1)) for _ in range(20)])
    embedder, settings = _chosen(LANDMARKS, long, "euclidean", {})
    assert embedder.dim == 5
    assert len(json.dumps(settings)) < 100_000


def _recall(objects: Ragged, embedding: Embedding, distance: str, of: Mapping[str, float], pool: int) -> float:
    """The share of the ten nearest of the first 50 objects that are among the pool nearest by the rows' min-max similarity."""
    embedder, matrix = _chosen(embedding, objects, distance, of)[0], matrix_of(distance, of)
    rows = _dense(embedder.rows(_rows_of(objects)), embedder.dim)
    if embedding.kernel == "gmm":
        rows = np.hstack([np.maximum(rows, 0), np.maximum(-rows, 0)])
    else:
        rows /= rows.sum(axis=1, keepdims=True)
    exact = matrix(objects.taken(np.arange(50)), objects)
    found = 0.0
    for i in range(50):
        similar = np.minimum(rows[i], rows).sum(axis=1) / np.maximum(rows[i], rows).sum(axis=1)
        exact[i, i], similar[i] = np.inf, -1.0
        nearest = np.partition(exact[i], 9)[9]
        found += min(10, int((exact[i, np.argsort(-similar)[:pool]] <= nearest).sum())) / 10
    return found / 50


@pytest.mark.recall
@pytest.mark.parametrize("distance", ["hausdorff", "modified_hausdorff"])
def test_anchors_order_digits_as_the_distance_does(data_set: Callable[[str], dict[str, np.ndarray]], distance: str) -> None:
    """Of 1,000 digits as point sets, the 100 of the most similar rows hold nearly all of the ten nearest."""
    images = data_set("digits")["X_train"][:1000].reshape(-1, 8, 8)
    objects = ragged([np.argwhere(image >= 8).astype(np.float64) for image in images])
    assert _recall(objects, ANCHORS, distance, {}, 100) > 0.95
    assert _recall(objects, LANDMARKS, distance, {}, 100) > 0.75


@pytest.mark.recall
def test_parts_order_series_as_warping_does(rng: np.random.Generator) -> None:
    """Of 600 walks that are warped copies of 40, the 60 of the most similar rows hold nearly all of the ten nearest."""
    shapes = np.cumsum(rng.normal(size=(40, 64, 2)), axis=1)
    warps = [np.sort(rng.integers(0, 64, 64)) for _ in range(600)]
    objects = ragged([shapes[i % 40][warp] + rng.normal(size=(64, 2)) * 0.3 for i, warp in enumerate(warps)])
    assert _recall(objects, PARTS_OF_TIME, "dtw", DTW, 60) > 0.95
    assert _recall(objects, LANDMARKS, "dtw", DTW, 60) > 0.9
