"""Maps: what lies near is near by the kernel, the same call draws the same map, and what cannot be drawn is refused."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import fielded
import kinbin
import naive
from kinbin.layouts.methods import METHODS, laid_out
from linked import still
from naive_strings import levenshtein


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nothing happens in the background."""
    with still():
        yield


def groups(rng: np.random.Generator, n: int = 90, dim: int = 30) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Histograms of three groups, and which each is of."""
    which = np.arange(n) % 3
    centres = rng.gamma(0.3, size=(3, dim)) * 20
    return rng.poisson(centres[which] + 0.2).astype(np.float32) + np.eye(1, dim, dtype=np.float32), which


def plane(told: kinbin.Map) -> NDArray[np.float64]:
    """(n, 2) the points."""
    return np.array([(point.x, point.y) for point in told.points])


def apart(points: NDArray[np.float64], which: NDArray[np.int64]) -> float:
    """Share of the points whose nearest centre is that of their own group."""
    centres = np.array([points[which == one].mean(axis=0) for one in range(3)])
    nearest = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    return float((nearest == which).mean())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["ngmm", "chi2", "cosine", "rbf", "mm_acos", "gmm*acos"])
def test_groups_lie_together(kernel: str, method: str, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Groups of histograms are groups in the plane, whatever the kernel and method; fresh, sealed and linked alike."""
    X, which = groups(rng)
    collection = db.create_collection("c", kernel=kernel, dim=X.shape[1], seed=1)
    collection.add([f"{i:03}" for i in range(len(X))], X, [{"group": int(one), "more": 1} for one in which])
    fresh = collection.map(method=method, fields=["group"])
    assert (fresh.method, fresh.kernel, fresh.sample, fresh.rows) == (method, collection.config.kernel, 90, 90)
    assert [point.id for point in fresh.points] == [f"{i:03}" for i in range(len(X))]
    assert [point.payload for point in fresh.points] == [{"group": int(one)} for one in which]
    assert apart(plane(fresh), which) > 0.95
    collection.link()
    np.testing.assert_allclose(plane(collection.map(method=method)), plane(fresh), atol=1e-7)
    again = plane(collection.map(method=method))
    assert (again[np.abs(again).argmax(axis=0), [0, 1]] > 0).all()


def test_kernel_pca_is_that_of_the_definition(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Coordinates are the first two principal components of the twin's centred kernel matrix, and `explained` their shares."""
    X, _ = groups(rng, 40)
    collection = db.create_collection("c", kernel="chi2", dim=X.shape[1])
    collection.add([f"{i:02}" for i in range(40)], X)
    K = np.array([naive.dense_scores("chi2", x, X) for x in X])
    centre = np.eye(40) - 1 / 40
    values, vectors = np.linalg.eigh(centre @ K @ centre)
    expected = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
    told = collection.map()
    found = plane(told)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=1e-5)
    assert told.explained == pytest.approx(tuple(values[[-1, -2]] / values.sum()), abs=1e-6)


def test_shares_of_distances_are_shares(db: kinbin.Database) -> None:
    """Of distances that no points in a space have, `explained` are shares of the positive eigenvalues: together at most 1."""
    texts = sorted({"a" * i + "b" * j + "ab" * k for i in range(4) for j in range(4) for k in range(4)} - {""})
    collection = db.create_collection("c", items="strings", distance="levenshtein")
    collection.add([f"{i:02}" for i in range(len(texts))], texts)
    D = np.array([[levenshtein(one, other) for other in texts] for one in texts])
    centre = np.eye(len(texts)) - 1 / len(texts)
    values = np.linalg.eigvalsh(centre @ (-0.5 * D * D) @ centre)
    assert values[0] < -0.01 * values[-1], "no points are so far apart"
    told = collection.map().explained
    assert told == pytest.approx(tuple(values[[-1, -2]] / values[values > 0].sum()), abs=1e-6)
    assert sum(told or ()) <= 1.0


def test_distances_become_a_plane(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Of points in a plane under a Euclidean distance the map is that plane, but for a motion: all distances are kept."""
    X = rng.normal(size=(30, 1, 2))
    collection = db.create_collection("c", items="points", kernel="hausdorff", dim=2)
    collection.add([f"{i:02}" for i in range(30)], X)
    told = collection.map()
    found = plane(told)
    np.testing.assert_allclose(
        np.linalg.norm(found[:, None] - found[None], axis=2), np.linalg.norm(X - X[:, 0][None], axis=2), atol=1e-5
    )  # fmt: skip
    assert told.explained is not None
    assert sum(told.explained) == pytest.approx(1.0)


def test_axes_point_to_what_is_farthest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever signs a method gives, on each axis the item that is farthest out has a positive place."""
    monkeypatch.setitem(METHODS, "kernel_pca", lambda *_: (np.array([[-3.0, 1.0], [1.0, -2.0], [2.0, 1.0]]), None))
    points, _ = laid_out("kernel_pca", np.eye(3), False, 0)
    assert points.tolist() == [[3.0, -1.0], [-1.0, 2.0], [-2.0, -1.0]]


def test_a_line_stays_in_order(db: kinbin.Database) -> None:
    """The first axis of a spectral layout has points of a line in their order, under a distance as under a kernel."""
    line = np.linspace(0, 1, 25)
    collection = db.create_collection("points", items="points", kernel="hausdorff", dim=2)
    collection.add([f"{i:02}" for i in range(25)], np.stack([line, 2 * line], axis=1)[:, None])
    kernels = db.create_collection("vectors", kernel="cosine", dim=2)
    kernels.add([f"{i:02}" for i in range(25)], np.stack([np.cos(line), np.sin(line)], axis=1))
    for one in (collection, kernels):
        steps = np.diff(plane(one.map(method="spectral"))[:, 0])
        assert (steps > 0).all() or (steps < 0).all()


def test_the_sample_is_drawn_by_the_seed(db: kinbin.Database, rng: np.random.Generator) -> None:
    """The same seed draws the same items and the same map, another seed others; a filter and a smaller sample are kept to."""
    X, which = groups(rng, 300)
    collection = db.create_collection("c", dim=X.shape[1])
    collection.add([f"{i:03}" for i in range(300)], X, [{"group": int(one)} for one in which])
    collection.delete(["000", "003"])
    one, same, other = (collection.map(50, seed=seed, fields=["group"]) for seed in (1, 1, 2))
    assert [point.id for point in one.points] == [point.id for point in same.points] != [point.id for point in other.points]
    np.testing.assert_allclose(plane(one), plane(same), atol=1e-7)
    assert (one.sample, one.rows) == (50, 298)
    collection.add(["late"], X[:1] + 7)
    before = [point.id for point in collection.map(50, seed=1).points]
    for stage in (collection.compact, collection.link):
        stage()
        assert [point.id for point in collection.map(50, seed=1).points] == before
    collection.delete(["late"])
    assert {point.payload["group"] for point in one.points if point.payload} == {0, 1, 2}
    some = collection.map(50, filter={"group": 1}, fields=["group"])
    assert {point.payload["group"] for point in some.points if point.payload} == {1}
    assert some.rows == 100
    drawn = {point.id for seed in range(12) for point in collection.map(50, seed=seed).points}
    assert len(drawn) > 240
    assert not drawn & {"000", "003"}
    assert all(point.payload is None for point in collection.map(5).points)


@pytest.mark.parametrize("method", METHODS)
def test_few_items(method: str, db: kinbin.Database) -> None:
    """None, one, two, and items that are all the same are drawn, or refused in words; nothing fails."""
    collection = db.create_collection("c", dim=3)
    assert collection.map(method=method).points == []
    for i, vector in enumerate([[1, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 1], [0, 0, 1]]):
        collection.add([str(i)], [vector])
        if method == "spectral" and i >= 3:
            with pytest.raises(kinbin.InvalidInput, match="a spectral layout takes 5 items"):
                collection.map(method=method)
            continue
        told = collection.map(method=method)
        # Items that share a vector are one point.
        assert [point.id for point in told.points] == [str(j) for j in range(i + 1) if j != 1]
        assert np.isfinite(plane(told)).all()


def test_one_field_of_several(db: kinbin.Database, rng: np.random.Generator) -> None:
    """A field has its own map, with the items' ids, and only of those that a filter lets through."""
    X = fielded.vectors(rng, 40)
    collection = fielded.filled(db, X)
    for name in X:
        told = collection.map(field=name)
        assert {point.id for point in told.points} == {item.id for item in collection.scroll(limit=100).items}
    ids = [item.id for item in collection.scroll(limit=3).items]
    collection.set_payload(ids, [{"here": 1}] * 3)
    assert [point.id for point in collection.map(field=name, filter={"here": 1}).points] == sorted(ids)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "method": ({"method": "umap"}, "method is one of kernel_pca, spectral"),
    "sample": ({"sample": 0}, "sample is a whole number"),
    "large sample": ({"sample": 2_001}, "sample: at most 2000"),
    "fields": ({"fields": "label"}, "fields is a list"),
    "field": ({"fields": ["a..b"]}, "fields names a field"),
    "seed": ({"seed": -1}, "seed is a whole number"),
    "filter": ({"filter": {"$x": 1}}, "x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, db: kinbin.Database) -> None:
    """What is malformed is refused by name."""
    given, text = REFUSED[case]
    with pytest.raises(kinbin.InvalidInput, match=text):
        db.create_collection("c", dim=3).map(**given)


def test_without_scikit_learn(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where scikit-learn is not installed, the refusal says what to install."""
    collection = db.create_collection("c", dim=3)
    collection.add(["a", "b"], [[1, 2, 3], [3, 2, 1]])
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(kinbin.InvalidInput, match=r"pip install --find-links dist 'kinbin\[features\]'"):
        collection.map()


def test_a_map_is_given_up(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Once `cancel` is set, no map is drawn."""
    X, _ = groups(rng, 20)
    collection = db.create_collection("c", dim=X.shape[1])
    collection.add([str(i) for i in range(20)], X)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(kinbin.SearchCancelled):
        collection.map(cancel=cancel)
