"""Features of objects from their distances."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import kinbin
import naive_objects as naive
from kinbin.features import D2KEFeatures
from kinbin.query.threads import threads_set
from naive_strings import levenshtein
from refusals import refused


def _walks(rng: np.random.Generator, count: int, dims: int = 2) -> list[np.ndarray]:
    return [np.cumsum(rng.normal(size=(size, dims)), axis=0).astype(np.float32) for size in rng.integers(2, 20, count)]


def _texts(rng: np.random.Generator, count: int) -> list[str]:
    return ["".join(rng.choice(list("acgt"), size)) for size in rng.integers(1, 30, count)]


CASES: dict[str, tuple[dict[str, Any], Callable[..., list[Any]], Callable[[Any, Any], float]]] = {
    "levenshtein": ({}, _texts, levenshtein),
    "dtw": ({"parameters": {"window": 1.0}}, _walks, lambda x, y: naive.dtw(x, y, 1.0)),
    "hausdorff": ({}, _walks, naive.hausdorff),
    "modified_hausdorff": ({"parameters": None}, _walks, naive.modified_hausdorff),
}


@pytest.mark.parametrize("sampler", ["random", "data"])
@pytest.mark.parametrize("distance", CASES)
def test_features_are_those_of_the_definition(rng: np.random.Generator, distance: str, sampler: str) -> None:
    """Each feature is exp(−γ d) / √R of the distance from one of the objects; their inner products are a positive definite kernel."""
    options, draw, twin = CASES[distance]
    objects = draw(rng, 40)
    features = D2KEFeatures(distance, n_features=12, gamma=0.3, max_length=9, sampler=sampler, random_state=1, **options)
    found = features.fit_transform(objects)
    expected = np.array([[np.exp(-0.3 * twin(x, w)) for w in features.objects_] for x in objects]) / np.sqrt(12)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
    assert np.linalg.eigvalsh(found @ found.T).min() > -1e-12
    assert len(features.get_feature_names_out()) == 12


def test_random_objects_are_like_the_training_objects(rng: np.random.Generator) -> None:
    """Strings have the alphabet, series mean and deviation of the training values, sets lie on a sphere; sizes are uniform."""
    texts = D2KEFeatures("levenshtein", n_features=2_000, max_length=5, random_state=0).fit(_texts(rng, 50)).objects_
    assert set("".join(texts)) == set("acgt")
    counts = np.bincount([len(one) for one in texts], minlength=6)
    assert (len(counts), counts[0]) == (6, 0)
    assert (abs(counts[1:] - 400) < 100).all()
    letters = np.array([sum(one.count(letter) for one in texts) for letter in "acgt"])
    assert (abs(letters / letters.sum() - 0.25) < 0.02).all()

    walks = [one * [1.0, 5.0] + [3.0, 0.0] for one in _walks(rng, 50)]
    values = np.concatenate(walks)
    drawn = np.concatenate(D2KEFeatures("dtw", n_features=2_000, scale=2.0, random_state=0).fit(walks).objects_)
    assert (abs(drawn.mean(axis=0) - values.mean(axis=0)) < 0.1 * values.std(axis=0)).all()
    np.testing.assert_allclose(drawn.std(axis=0), 2.0 * values.std(axis=0), rtol=0.02)

    points = np.concatenate(D2KEFeatures("hausdorff", n_features=500, scale=0.5, random_state=0).fit(walks).objects_)
    radius = np.quantile(np.linalg.norm(values - values.mean(axis=0), axis=1), 0.9)
    np.testing.assert_allclose(np.linalg.norm(points - values.mean(axis=0), axis=1), 0.5 * radius, rtol=1e-3)


@pytest.mark.parametrize("sampler", ["random", "data"])
def test_series_of_one_length_are_compared_with_such(rng: np.random.Generator, sampler: str) -> None:
    """Under the Euclidean distance the random series have the length that was said, whatever `max_length` is."""
    series = rng.normal(size=(20, 40, 2)).astype(np.float32)
    features = D2KEFeatures("euclidean", n_features=6, gamma=0.1, sampler=sampler, parameters={"length": 40}, random_state=0)
    found = features.fit_transform(list(series))
    assert [one.shape for one in features.objects_] == [(40, 2)] * 6
    expected = [[np.exp(-0.1 * np.linalg.norm(x.astype(np.float64) - w)) for w in features.objects_] for x in series]
    np.testing.assert_allclose(found, np.array(expected) / np.sqrt(6), rtol=1e-6)


def test_gamma_is_chosen_from_the_distances(rng: np.random.Generator) -> None:
    """Without γ it is one over the median distance: half of all features are at least 1 / e / √R, about."""
    features = D2KEFeatures("dtw", n_features=50, random_state=0)
    found = features.fit_transform(_walks(rng, 80)) * np.sqrt(50)
    assert np.median(found) == pytest.approx(np.exp(-1), rel=1e-6)
    same = ["a"] * 5
    assert D2KEFeatures("levenshtein", n_features=3, sampler="data", random_state=0).fit(same).gamma_ == 1.0


def test_seeds_threads_copies_and_pickles_change_nothing(rng: np.random.Generator) -> None:
    """The same seed gives the same features, on any number of threads, of a clone, and after pickling; another seed does not."""
    objects = _texts(rng, 200)
    features = D2KEFeatures("levenshtein", n_features=20, random_state=7)
    found = features.fit_transform(objects)
    before = threads_set()
    try:
        for threads in (1, 3):
            kinbin.set_threads(threads)
            np.testing.assert_array_equal(clone(features).fit(objects).transform(objects), found)
    finally:
        kinbin.set_threads(before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(features)).transform(objects), found)
    assert not np.array_equal(clone(features).set_params(random_state=8).fit_transform(objects), found)


def test_representatives_are_training_objects(rng: np.random.Generator) -> None:
    """With the sampler "data" the objects are different training objects, all of them where there are fewer than features."""
    objects = [f"s{i}" for i in range(30)]
    some = D2KEFeatures(n_features=10, sampler="data", random_state=0).fit(objects).objects_
    assert len(set(some)) == 10
    assert set(some) <= set(objects)
    everything = D2KEFeatures(n_features=100, sampler="data", random_state=0).fit(objects)
    assert everything.objects_ == objects
    assert everything.transform(["s1"]).shape == (1, 30)


def test_a_search_finds_parameters(rng: np.random.Generator) -> None:
    """In a pipeline the features separate walks from noise, and scikit-learn's search tries their parameters."""
    noise = [rng.normal(size=(20, 1)) for _ in range(60)]
    labels = np.repeat([0, 1], 60)
    objects = [np.cumsum(one, axis=0) for one in noise] + noise
    model = make_pipeline(D2KEFeatures("dtw", n_features=40, random_state=0), LogisticRegression(C=100))
    search = GridSearchCV(model, {"d2kefeatures__gamma": [0.01, 0.3], "d2kefeatures__max_length": [5, 20]}, cv=3)
    search.fit(objects[::2], labels[::2])
    assert search.score(objects[1::2], labels[1::2]) > 0.85


@pytest.mark.parametrize(
    ("options", "field", "detail"),
    [
        ({"distance": "ngmm"}, "distance", "distance is one of levenshtein"),
        ({"n_features": 0}, "n_features", "n_features is"),
        ({"n_features": 70_000}, "n_features", "n_features is at most 65536, not 70000"),
        ({"gamma": 0.0}, "gamma", "gamma is a number above 0, not 0.0"),
        ({"gamma": float("nan")}, "gamma", "gamma is a number above 0, not nan"),
        ({"scale": -1.0}, "scale", "scale is a number above 0, not -1.0"),
        ({"sampler": "grid"}, "sampler", "sampler is one of random, data"),
        ({"max_length": 0}, "max_length", "max_length is"),
        ({"parameters": {"window": 0.1}}, "parameters", "kernel levenshtein has no parameter 'window'"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_parameters_that_make_no_sense_are_refused(options: dict[str, Any], field: str, detail: str) -> None:
    """What is out of range is named before anything is drawn."""
    with pytest.raises(kinbin.InvalidInput) as caught:
        D2KEFeatures(**options).fit(["abc", "abd"])
    (problem,) = caught.value.problems
    assert (problem.code, problem.field) == ("bad_parameter", field)
    assert problem.detail.startswith(detail)


def test_objects_that_are_none_are_refused() -> None:
    """Nothing, objects of another kind, and a transform before fit."""
    with refused("bad_object", "there is no training object", field="string"):
        D2KEFeatures().fit([])
    with pytest.raises(kinbin.InvalidInput, match="a string is expected here, this is int"):
        D2KEFeatures().fit(["a", 5])
    with pytest.raises(kinbin.InvalidInput, match=r"this one has shape \(3, 3\)"):
        D2KEFeatures("dtw").fit([np.zeros((3, 2)), np.zeros((3, 3))])
    with pytest.raises(NotFittedError):
        D2KEFeatures().transform(["a"])
