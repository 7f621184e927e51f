"""Graphs of nearest neighbours: against a sort of the kernel matrix, and through scikit-learn's users of graphs."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, SpectralClustering
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE, Isomap
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline

import kinbin
from kinbin.features import KinbinTransformer, pairwise

Loader = Callable[[str], dict[str, NDArray[Any]]]


@pytest.fixture(scope="module")
def digits(data_set: Loader) -> NDArray[np.float64]:
    """Three hundred pictures of digits."""
    return data_set("digits")["X_train"][:300].astype(np.float64)


def lines(graph: Any, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Columns and values of a graph with as many entries in each line."""
    assert isinstance(graph, sp.csr_array)
    assert (np.diff(graph.indptr) == count).all()
    return graph.indices.reshape(-1, count).astype(np.int64), graph.data.reshape(-1, count)


@pytest.mark.parametrize("kernel", sorted(kinbin.KERNELS))
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_is_a_sort_of_the_kernel(kernel: str, sparse: bool, digits: NDArray[np.float64]) -> None:
    """Each line holds the nearest training rows, nearest first, and their distances are what the kernel falls short of a row itself."""
    X: Any = sp.csr_array(digits) if sparse else digits
    transformer = KinbinTransformer(kernel, n_neighbors=7).fit(X[:200])
    places, distances = lines(transformer.transform(X[200:]), 8)
    wanted = pairwise(digits[:1], kernel=kernel)[0, 0] - pairwise(digits[200:], digits[:200], kernel=kernel)
    assert np.abs(distances - np.take_along_axis(wanted, places, axis=1)).max() < 1e-6
    assert np.abs(distances - np.sort(wanted, axis=1)[:, :8]).max() < 1e-6
    assert (np.diff(distances, axis=1) >= 0.0).all()


def test_rows_come_first_in_their_own_lines(digits: NDArray[np.float64]) -> None:
    """In the graph of the training rows each is its own nearest at distance 0, though many be the same."""
    X = np.concatenate([digits[:20]] * 9)
    graph = KinbinTransformer(n_neighbors=4).fit_transform(X)
    places, distances = lines(graph, 5)
    assert np.array_equal(places[:, 0], np.arange(180))
    assert not distances.any()
    assert all(len(set(line)) == 5 and {place % 20 for place in line} == {line[0] % 20} for line in places.tolist())
    fitted = KinbinTransformer(n_neighbors=4).fit(digits)
    assert np.array_equal(fitted.fit_transform(digits).toarray(), fitted.transform(digits).toarray())


def test_graphs_count_neighbours_as_scikit_learn_does(digits: NDArray[np.float64]) -> None:
    """Both modes have the shape, the entries of a line and the refusals of KNeighborsTransformer."""
    for mode in ("distance", "connectivity"):
        ours, theirs = (
            make.fit(digits[:50]).transform(digits)
            for make in (KinbinTransformer(n_neighbors=3, mode=mode), KNeighborsTransformer(n_neighbors=3, mode=mode))
        )
        assert ours.shape == theirs.shape
        assert np.array_equal(ours.indptr, theirs.indptr)
        assert mode == "distance" or (ours.data == 1.0).all()
    for make in (KinbinTransformer(n_neighbors=50), KNeighborsTransformer(n_neighbors=50)):
        with pytest.raises(ValueError, match="Expected n_neighbors <= n_samples_fit, but n_neighbors = 51, n_samples_fit = 50"):
            make.fit(digits[:50]).transform(digits)
    assert KinbinTransformer(n_neighbors=50, mode="connectivity").fit_transform(digits[:50]).nnz == 2500


def test_roots_are_distances_in_the_feature_space(digits: NDArray[np.float64]) -> None:
    """With "root" neighbours are the same, and distances those of the kernel's feature space."""
    plain, roots = (KinbinTransformer(n_neighbors=5, distance=name).fit_transform(digits) for name in ("difference", "root"))
    assert np.array_equal(plain.indices, roots.indices)
    assert np.abs(roots.data - np.sqrt(2.0 * plain.data)).max() < 1e-12


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_zeros_are_near_each_other_only(sparse: bool, digits: NDArray[np.float64]) -> None:
    """Rows of zeros are at distance 0 from others of them, at 1 from all else, and every line is full."""
    X: Any = np.concatenate([digits[:6], np.zeros((3, 64))])
    X = sp.csr_array(X) if sparse else X
    places, distances = lines(KinbinTransformer(n_neighbors=8).fit_transform(X), 9)
    assert all(sorted(line) == list(range(9)) for line in places.tolist())
    assert np.array_equal(distances[6:], [[0.0] * 3 + [1.0] * 6] * 3)
    assert {frozenset(line[:3]) for line in places[6:].tolist()} == {frozenset((6, 7, 8))}
    assert (distances[:6, 6:] == 1.0).all()
    nothing, ones = lines(KinbinTransformer(n_neighbors=2).fit(np.zeros((4, 3))).transform(np.array([[0.0] * 3, [1.0] * 3])), 3)
    assert nothing.tolist() == [[0, 1, 2]] * 2
    assert ones.tolist() == [[0.0] * 3, [1.0] * 3]


def test_rows_of_zeros_are_nearer_than_opposites() -> None:
    """Where values are negative, a row of zeros is nearer than a row of the opposite direction."""
    X = np.array([[1.0, 0.0], [2.0, 0.1], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    places, distances = lines(KinbinTransformer("cosine", n_neighbors=4).fit_transform(X), 5)
    assert places[0].tolist() == [0, 1, 3, 4, 2]
    assert np.abs(distances[0] - [0.0, 0.00125, 1.0, 1.0, 2.0]).max() < 1e-5


def test_rows_that_share_nothing_fill_lines() -> None:
    """Where fewer rows than neighbours have anything in common, the rest of a line is at distance 1."""
    places, distances = lines(KinbinTransformer(n_neighbors=3, target_recall=0.9).fit_transform(np.eye(5)), 4)
    assert np.array_equal(places[:, 0], np.arange(5))
    assert all(len(set(line)) == 4 for line in places.tolist())
    assert np.array_equal(distances, [[0.0, 1.0, 1.0, 1.0]] * 5)


def test_a_path_keeps_the_collection(tmp_path: Path, digits: NDArray[np.float64]) -> None:
    """With a path, the database stays there, a pickled estimator opens it without its rows, and fitting again replaces it."""
    transformer = KinbinTransformer(n_neighbors=3, path=tmp_path / "graph").fit(digits)
    wanted = transformer.transform(digits[:9])
    stored = pickle.dumps(transformer)
    assert len(stored) < 5000
    again = pickle.loads(stored)
    assert np.array_equal(again.transform(digits[:9]).toarray(), wanted.toarray())
    del transformer, again
    gc.collect()
    with kinbin.open(tmp_path / "graph") as database:
        assert [database.collection(name).count() for name in database.collections()] == [300]
    small = KinbinTransformer(n_neighbors=3, path=tmp_path / "graph").fit(digits[:10])
    assert small.transform(digits[:9]).shape == (9, 10)


def test_temporary_databases_go_with_their_estimators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: NDArray[np.float64]) -> None:
    """Without a path, nothing is left once the estimator is gone or fitted again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    transformer = KinbinTransformer(n_neighbors=3).fit(digits)
    assert len(list(tmp_path.iterdir())) == 1
    transformer.fit(digits)
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    del transformer
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_target_below_one_finds_nearly_all(data_set: Loader) -> None:
    """With a target of recall of 0.9, nine in ten neighbours are found, and distances of those are right."""
    X = data_set("photographs")["X_train"][:3000]
    _, distances = lines(KinbinTransformer("chi2", n_neighbors=9, target_recall=0.9, random_state=1).fit_transform(X), 10)
    wanted = np.sort(1.0 - pairwise(X[:300], X, kernel="chi2"), axis=1)[:, 9]
    assert (distances[:300] <= wanted[:, None] + 1e-6).mean() > 0.9


@pytest.mark.filterwarnings("ignore:Number of connected components", "ignore:.*precomputed.*")
def test_users_of_graphs_take_it() -> None:
    """Clustering, embedding and classification of scikit-learn work on the graph, and find what is there to be found."""
    every = load_digits()
    chosen = np.concatenate([np.flatnonzero(every.target == label)[:40] for label in (0, 1)])
    X, labels = every.data[chosen], every.target[chosen]
    graph = KinbinTransformer(n_neighbors=15).fit_transform(X)
    classified = make_pipeline(KinbinTransformer(n_neighbors=15), KNeighborsClassifier(5, metric="precomputed")).fit(X, labels)
    assert classified.score(X, labels) > 0.9
    assert set(DBSCAN(eps=0.9, min_samples=4, metric="precomputed").fit_predict(graph).tolist()) >= {0}
    assert TSNE(metric="precomputed", init="random", perplexity=4.0, max_iter=250).fit_transform(graph).shape == (80, 2)
    assert Isomap(n_neighbors=15, metric="precomputed").fit_transform(graph).shape == (80, 2)
    found = SpectralClustering(2, affinity="precomputed_nearest_neighbors", n_neighbors=15, random_state=0).fit_predict(graph)
    assert max((found == labels).mean(), (found != labels).mean()) > 0.9


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": "nothing"}, "kernel is one of"),
        ({"mode": "both"}, "mode is one of distance, connectivity"),
        ({"distance": "square"}, "distance is one of difference, root"),
        ({"n_neighbors": 0}, "n_neighbors is a whole number from 1 on"),
        ({"n_neighbors": 1000}, "n_neighbors is at most 999"),
        ({"target_recall": 0.0}, "target_recall is a number above 0 and up to 1"),
        ({"target_recall": "all"}, "target_recall is a number above 0"),
        ({"parameters": {"gamma": 1.0}}, "has no parameter"),
    ],
)
def test_options_that_make_no_graph_are_refused(options: dict[str, Any], text: str, digits: NDArray[np.float64]) -> None:
    """fit raises a ValueError that names the option, and stores nothing."""
    with pytest.raises(ValueError, match=text):
        KinbinTransformer(**options).fit(digits)
    with pytest.raises(ValueError, match="Negative values in data"):
        KinbinTransformer("chi2").fit(-digits)
