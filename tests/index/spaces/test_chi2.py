"""The chi-squared kernel: its bounds hold for all pairs, its scores are the twin's, and it is searched like every other kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from background import no_background
from bundled import photographs
from kinbin.spaces.chi2 import CHI2
from linked import still, true_scores

K = 10
Rows = NDArray[np.float64]


def pairs(rng: np.random.Generator) -> list[tuple[Rows, Rows]]:
    """Pairs of rows that sum to 1: random, sparse, nearly the same, nearly disjoint, and those that attain the bounds."""
    made = []
    for _ in range(300):
        u, v = (rng.random(20) ** rng.integers(1, 9) * (rng.random(20) < rng.choice([0.2, 1.0])) + 1e-12 for _ in range(2))
        made += [(u, v), (u, u * (1.0 + rng.choice([1e-3, 0.1, 1.0]) * rng.random(20))), (u, v * (rng.random(20) < 0.1) + 1e-12)]
        share = rng.random()
        half = np.where(np.arange(20) % 2 == 0, 1.0 + share, 1.0 - share)
        made += [(half, half[::-1].copy()), (np.append(u, 1.0 - share), np.append(u, 1.0 + share))]
    return [(u / u.sum(), v / v.sum()) for u, v in made]


def test_bounds_hold_for_all_pairs(rng: np.random.Generator) -> None:
    """The least similarity is none too large, the best score none too small, and the farthest distance is the inverse of it."""
    tightest = 1.0
    for u, v in pairs(rng):
        score, apart = float((2.0 * u * v / (u + v)).sum()), float(np.abs(u - v).sum())
        similarity = (2.0 - apart) / (2.0 + apart)
        assert CHI2.least_similarity(score) <= similarity + 1e-12
        assert CHI2.best_score(apart) >= score - 1e-12
        assert CHI2.farthest_distance(score) >= apart - 1e-9
        tightest = min(tightest, CHI2.best_score(apart) - score)
    assert tightest < 1e-9, "no pair attains the bound: these pairs prove little"


def test_certified_scores_are_the_inverse_of_the_least_similarity() -> None:
    """A score that is asked for a similarity vouches for it, no smaller one does by much, and what is impossible stays so."""
    similarities = np.linspace(0.0, 0.99, 50)
    scores = CHI2.score_at(similarities)
    vouched = np.array([CHI2.least_similarity(score) for score in scores])
    assert (vouched >= similarities - 1e-9).all()
    assert (vouched <= similarities + 1e-3).all()
    assert np.isinf(CHI2.score_at(np.array([2.0, np.inf]))).all()


@pytest.fixture(scope="module")
def histograms() -> tuple[Rows, Rows]:
    """Colour histograms of patches: rows and queries."""
    made = photographs()
    return made["X_train"][:6_000].astype(np.float64), made["X_test"][:150].astype(np.float64)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, histograms: tuple[Rows, Rows]) -> Any:
    """A linked collection of them, and the true scores (m, n)."""
    X, Q = histograms
    with still(), kinbin.open(tmp_path_factory.mktemp("chi2")) as database:
        collection = database.create_collection("c", kernel="chi2", dim=X.shape[1], seed=1)
        collection.add([str(i) for i in range(len(X))], X)
        collection.link()
        yield collection, true_scores("chi2", X, Q)


def test_exact_answers_are_the_twins_and_codes_spare_rows(linked: Any, histograms: tuple[Rows, Rows]) -> None:
    """An exact scan of linked rows gives the true scores to 1e-6, and scores fewer rows than there are."""
    collection, truth = linked
    answers = collection.query_batch(histograms[1], k=K, mode="exact")
    np.testing.assert_allclose(answers.scores, -np.sort(-truth, axis=1)[:, :K], atol=naive.SCORE_ERROR)
    assert answers.verified.mean() < 0.5 * truth.shape[1]
    assert (answers.recall_lower_bounds == 1.0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "least"), [("auto", 0.95), ("links", 0.95), ("bands", 0.95)])
def test_recall(mode: str, least: float, linked: Any, histograms: tuple[Rows, Rows]) -> None:
    """Every way finds the true neighbours by the printed score; certified answers carry a bound that is kept."""
    collection, truth = linked
    answers = collection.query_batch(histograms[1], k=K, mode=mode)
    recalls = [naive.recall(answer.scores, row, K) for answer, row in zip(answers, truth, strict=True)]
    assert np.mean(recalls) >= least
    certified = collection.query_batch(histograms[1], k=K, mode="auto", certify=True)
    assert (certified.recall_lower_bounds >= 0.9).all()


@pytest.mark.recall
@pytest.mark.parametrize("target", [0.5, 0.9])
def test_mean_bounds_are_no_larger_than_mean_recalls(target: float, tmp_path: Path, rng: np.random.Generator) -> None:
    """Over 30 seeds the bands' bound is at most what they found, of clusters of near doubles and of strangers."""
    centres = rng.random((60, 24)) ** 8 + 1e-6
    X = np.concatenate([centres[rng.integers(0, 60, 500)] * rng.lognormal(0, spread, (500, 24)) for spread in (0.02, 0.5)])
    Q = np.concatenate([X[:15] * rng.lognormal(0, 0.05, (15, 24)), rng.random((15, 24)) ** 8 + 1e-6])
    truth = true_scores("chi2", X, Q)
    recalls, bounds = [], []
    with no_background(), kinbin.open(tmp_path / "db") as database:
        for seed in range(30):
            collection = database.create_collection(f"c{seed}", kernel="chi2", dim=24, seed=seed, bands=24, rows=2)
            collection.add([str(i) for i in range(len(X))], X)
            collection.compact()
            for answer, row in zip(collection.query_batch(Q, k=K, mode="bands", target_recall=target), truth, strict=True):
                if answer.recall_lower_bound is not None:
                    recalls.append(naive.recall(answer.scores, row, K))
                    bounds.append(answer.recall_lower_bound)
    assert len(bounds) > 300
    assert np.mean(bounds) <= np.mean(recalls)


@pytest.mark.slow
def test_recall_on_photographs(tmp_path: Path, data_set: Callable[[str], dict[str, NDArray[Any]]]) -> None:
    """The ten nearest colour histograms of 6,000 are found with recall 0.95 by a default query."""
    data = data_set("cifar10_rgbhist512")
    X, Q = data["X_train"][:6_000].astype(np.float64), data["X_test"][:100].astype(np.float64)
    with still(), kinbin.open(tmp_path / "db") as database:
        collection = database.create_collection("c", kernel="chi2", dim=X.shape[1], seed=1)
        collection.add([str(i) for i in range(len(X))], X)
        collection.link()
        answers = collection.query_batch(Q, k=K)
        truth = true_scores("chi2", X, Q)
        assert np.mean([naive.recall(answer.scores, row, K) for answer, row in zip(answers, truth, strict=True)]) >= 0.95


def test_negative_values_are_refused(db: kinbin.Database) -> None:
    """A histogram has no negative values: the error says so, and nothing is written."""
    collection = db.create_collection("c", kernel="chi2", dim=2)
    with pytest.raises(kinbin.InvalidInput, match="negative"):
        collection.add(["a"], [[1.0, -1.0]])
    assert collection.count() == 0
