"""The kernel of nested histograms: its scores are the twin's, its bounds hold for all pairs, and it is searched like any other kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from background import no_background
from bundled import grids, pictures
from kinbin.rows.canonical import canonical_rows
from kinbin.spaces.pyramid import Pyramid
from kinbin.spaces.registry import space_of
from linked import still

pytestmark = pytest.mark.slow

K = 10
Grids = NDArray[np.float32]
"""(n, side, side, 512)"""
SETTINGS: tuple[dict[str, Any], ...] = (
    {"levels": 1, "lambda": 0.5, "epsilon": 0.5},
    {"levels": 2, "lambda": 4.0, "epsilon": 0.2},
    {"levels": 3, "lambda": 1.0, "epsilon": [0.0, 1.0]},
    {"levels": 4, "lambda": 0.3, "epsilon": [0.2, 0.7, 0.5]},
)


def truth(parameters: dict[str, Any], q: Grids, X: Grids) -> NDArray[np.float64]:
    """The twin's scores."""
    return naive.nested_scores(q, X, parameters["levels"], parameters["base"], parameters["lambda"], parameters["epsilon"])


def made(rng: np.random.Generator, side: int, n: int = 24) -> Grids:
    """Sparse counts, fractions and huge totals; the second is the first times three, the third differs in one count."""
    X: Any = (rng.random((n, side, side, 512)) < rng.choice([0.01, 0.2], n)[:, None, None, None]) * rng.integers(1, 9, (n, side, side, 512))
    X = X * np.where(rng.random(n) < 0.3, rng.random(n), 1.0)[:, None, None, None]
    X[3] *= rng.random(X[3].shape)
    X[..., 0] += 1.0
    X[4, 1:] = 0.0
    X[5] *= 1e6
    X[0] = np.rint(X[0])
    X[1], X[2] = 3.0 * X[0], X[0]
    X[2, 0, 0, 7] += 1.0
    out: Grids = X.astype(np.float32)
    return out


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: f"{one['levels']} levels")
@pytest.mark.parametrize("base", naive.PSI)
def test_scores_are_the_twins(base: str, settings: dict[str, Any], db: kinbin.Database, rng: np.random.Generator) -> None:
    """Every base and depth prints what the definition says, to 1e-6; the same shape scores 1, and vectors come back bit by bit."""
    X = made(rng, 2 ** (settings["levels"] - 1))
    collection = db.create_collection("c", kernel="nested", parameters=settings | {"base": base})
    flat = X.reshape(len(X), -1)
    assert collection.config.dim == flat.shape[1]
    collection.add([str(i) for i in range(len(X))], flat)
    for q in (0, 3, 4):
        answer = collection.query(flat[q], k=len(X))
        expected = truth(settings | {"base": base}, X[q], X)[[int(i) for i in answer.ids]]
        np.testing.assert_allclose(answer.scores, expected, atol=naive.SCORE_ERROR)
    assert collection.query(flat[0], k=2).scores.tolist() == [1.0, 1.0]
    assert collection.query_id("1", k=3).scores[2] < 1.0
    for i, item in enumerate(collection.get([str(i) for i in range(len(X))])):
        assert item is not None
        np.testing.assert_array_equal(item.vector, flat[i])


def pairs(rng: np.random.Generator, side: int) -> tuple[Grids, Grids]:
    """Pairs of pictures: near, far, the same but for the places of their parts, and such as attain the bound of one level."""
    shape = (60, side, side, 512)
    some = np.zeros(shape)
    some[..., : rng.integers(2, 40)] = 1.0
    u, v = (some * rng.random(shape) ** rng.integers(1, 9) + some * 1e-9 for _ in range(2))
    share = rng.random((60, 1, 1, 1))
    near = u * (1.0 + rng.choice([1e-4, 0.1, 1.0], (60, 1, 1, 1)) * rng.random(shape))
    moved = u[:, ::-1].copy()
    half = np.zeros(shape)
    half[..., 0], half[..., 1] = (1.0 + share[..., 0]) / 2, (1.0 - share[..., 0]) / 2
    swapped = half[..., ::-1].copy()
    swapped[..., :2] = half[..., 1::-1]
    swapped[..., 2:] = 0.0
    disjoint = np.roll(u, 256, axis=3)
    left = np.concatenate([u, u, u, half, u])
    right = np.concatenate([v, near, moved, swapped, (1.0 - share) * u + share * disjoint])
    return left.astype(np.float32), right.astype(np.float32)


@pytest.mark.parametrize("base", naive.PSI)
def test_bounds_hold_for_all_pairs(base: str, rng: np.random.Generator) -> None:
    """The least similarity is none too large, the best score none too small, and the farthest distance is the inverse of it."""
    tightest = 1.0
    for settings in SETTINGS[1:3]:
        parameters = settings | {"base": base}
        space = space_of("nested", parameters)
        assert space.pyramid is not None
        assert space.hashes == (base in ("tv", "chi2"))
        left, right = pairs(rng, 2 ** (settings["levels"] - 1))
        rows = [canonical_rows(one.reshape(len(one), -1), dim=space.pyramid.dim, signed=False) for one in (left, right)]
        dense = np.zeros((2, len(left), space.pyramid.row_dim))
        for out, one in zip(dense, map(space.rows_of, rows), strict=True):
            out[np.repeat(np.arange(len(one)), np.diff(one.indptr)), one.features.astype(int)] = one.values
            np.testing.assert_allclose(out.sum(axis=1), one.norms, rtol=1e-12)
        u, v = dense / dense.sum(axis=2, keepdims=True)
        apart = np.abs(u - v).sum(axis=1)
        for i, distance in enumerate(apart.tolist()):
            score = float(truth(parameters, left[i], right[i : i + 1])[0])
            assert space.best_score(distance) >= score - 1e-9
            assert space.farthest_distance(score * (1.0 - 1e-6)) >= distance - 1e-6
            if space.hashes:
                assert space.least_similarity(score) <= (2.0 - distance) / (2.0 + distance) + 1e-9
            tightest = min(tightest, space.best_score(distance) - score)
    assert tightest < 0.02 or base == "h1", "no pair comes near the bound: these pairs prove little"


@pytest.mark.parametrize("base", ["tv", "chi2"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: f"{one['levels']} levels")
def test_certified_scores_are_the_inverse_of_the_least_similarity(base: str, settings: dict[str, Any]) -> None:
    """A score that is asked for a similarity vouches for it, and what is impossible stays so."""
    space = space_of("nested", settings | {"base": base})
    similarities = np.linspace(0.0, 0.99, 50).reshape(2, 25)
    vouched = np.vectorize(space.least_similarity)(space.score_at(similarities))
    assert (vouched >= similarities - 1e-9).all()
    assert (vouched <= similarities + 0.05).mean() > 0.8
    assert np.isinf(space.score_at(np.array([2.0, np.inf]))).all()


@pytest.fixture(scope="module")
def photographs() -> tuple[Grids, Grids]:
    """Patches of photographs in grids of 4 × 4: rows and queries."""
    images = pictures()
    return grids(images[:600], 4), grids(images[2_000:2_016], 4)


@pytest.fixture(scope="module", params=["tv", "chi2", "h1"])
def linked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, photographs: tuple[Grids, Grids]) -> Any:
    """A linked collection of them, and the true scores (m, n)."""
    X, Q = photographs
    parameters = {"levels": 3, "base": request.param, "lambda": 1.0, "epsilon": 0.5}
    with still(), kinbin.open(tmp_path_factory.mktemp("nested")) as database:
        collection = database.create_collection("c", kernel="nested", parameters=parameters, seed=1)
        collection.add([str(i) for i in range(len(X))], X.reshape(len(X), -1))
        collection.link()
        yield collection, np.array([truth(parameters, q, X) for q in Q])


def test_every_way_finds_the_true_neighbours(linked: Any, photographs: tuple[Grids, Grids]) -> None:
    """Scans are complete, walks and bands find the true neighbours by the printed score, and a bound says only what is proved."""
    collection, true = linked
    Q = photographs[1].reshape(len(true), -1)
    base = collection.config.parameters["base"]
    exact = collection.query_batch(Q, k=K, mode="exact")
    np.testing.assert_allclose(exact.scores, -np.sort(-true, axis=1)[:, :K], atol=naive.SCORE_ERROR)
    assert (exact.recall_lower_bounds == 1.0).all()
    if base == "tv":
        assert exact.verified.mean() < 0.8 * true.shape[1]
    for mode in ("auto", "links", "bands") if base in ("tv", "chi2") else ("auto", "links"):
        answers = collection.query_batch(Q, k=K, mode=mode)
        assert np.mean([naive.recall(one.scores, row, K) for one, row in zip(answers, true, strict=True)]) >= 0.95, mode
    certified = collection.query_batch(Q, k=K, certify=True)
    assert (certified.recall_lower_bounds >= 0.9).all()
    assert (certified.recall_lower_bounds == 1.0).all() or base in ("tv", "chi2")


@pytest.mark.recall
@pytest.mark.parametrize("base", ["tv", "chi2"])
def test_mean_bounds_are_no_larger_than_mean_recalls(base: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Over 30 seeds the bands' bound is at most what they found, of clusters of near doubles and of strangers."""
    centres = np.zeros((30, 2, 2, 512))
    centres[..., :24] = rng.random((30, 2, 2, 24)) ** 8 + 1e-6
    drawn = centres[rng.integers(0, 30, 240)]
    X = np.concatenate([drawn * rng.lognormal(0, spread, drawn.shape) for spread in (0.02, 0.4)]).astype(np.float32)
    Q = np.concatenate([X[:10] * rng.lognormal(0, 0.05, X[:10].shape), centres[:5, ::-1]]).astype(np.float32)
    parameters = {"levels": 2, "base": base, "lambda": 1.0, "epsilon": 0.5}
    true = np.array([truth(parameters, q, X) for q in Q])
    recalls, bounds = [], []
    with no_background(), kinbin.open(tmp_path / "db") as database:
        for seed in range(30):
            collection = database.create_collection(f"c{seed}", kernel="nested", parameters=parameters, seed=seed, bands=24, rows=1)
            collection.add([str(i) for i in range(len(X))], X.reshape(len(X), -1))
            collection.compact()
            answers = collection.query_batch(Q.reshape(len(Q), -1), k=K, mode="bands", target_recall=0.9)
            for answer, row in zip(answers, true, strict=True):
                if answer.recall_lower_bound is not None:
                    recalls.append(naive.recall(answer.scores, row, K))
                    bounds.append(answer.recall_lower_bound)
    assert len(bounds) > 100
    assert np.mean(bounds) <= np.mean(recalls)


def test_parameters_are_stored_told_and_compared(tmp_path: Path) -> None:
    """Words and lists come back after a reopening, in config and stats; a collection is found again only with the same ones."""
    given = {"levels": 3, "base": "chi2", "epsilon": [0.25, 0.5]}
    with kinbin.open(tmp_path / "db") as database:
        database.create_collection("c", kernel="nested", parameters=given)
    with kinbin.open(tmp_path / "db") as database:
        collection = database.create_collection("c", kernel="nested", parameters=given, dim=8192, exist_ok=True)
        expected = {"levels": 3, "base": "chi2", "lambda": 1.0, "epsilon": (0.25, 0.5)}
        assert collection.config.parameters == collection.stats()["parameters"] == expected
        assert (collection.config.dim, collection.stats()["dim"]) == (8192, 8192)
        with pytest.raises(kinbin.CollectionExists, match=r"levels=3, base=chi2, lambda=1, epsilon=0\.25,0\.5, not .* base=tv"):
            database.create_collection("c", kernel="nested", exist_ok=True)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "half a level": ({"levels": 2.5}, "levels is a whole number from 1 to 4"),
    "five levels": ({"levels": 5}, "levels is a whole number from 1 to 4"),
    "a list of levels": ({"levels": [1]}, "levels is a whole number"),
    "an unknown base": ({"base": "l2"}, "base is one of tv, chi2, jd, h2, h1, not 'l2'"),
    "a number for a base": ({"base": 1}, "base is one of tv"),
    "too many epsilon": ({"levels": 2, "epsilon": [0.5, 0.5]}, "one for each of the 1 levels above the finest, not 2"),
    "no epsilon": ({"epsilon": []}, "epsilon is a number from 0 to 1, or a list of at most 3"),
    "epsilon above 1": ({"epsilon": [0.5, 1.5]}, "epsilon is a number from 0 to 1"),
    "a tiny lambda": ({"lambda": 0.01}, "lambda is a number from 0.1 to 10000"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters_are_refused(case: str, db: kinbin.Database) -> None:
    """What a parameter may not be is refused by name, and nothing is created."""
    given, text = BAD[case]
    with pytest.raises(kinbin.InvalidInput, match=text) as refused:
        db.create_collection("c", kernel="nested", parameters=given)
    assert (refused.value.code, refused.value.problems[0].field) == ("bad_parameter", "parameters")
    assert db.collections() == []


def test_weights_of_levels_do_not_depend_on_a_machine() -> None:
    """Weights are the nearest powers of two, from 2^0 to 2^12; where two are equally near, parameters are refused."""
    assert Pyramid.weighing([0.5, 0.25, 0.2, 0.0]).powers == (12, 11, 11, 0)
    assert Pyramid.weighing([1e-9, 1.0]).powers == (0, 12)
    assert Pyramid.weighing([1.0, 2.0**-0.499]).powers == (12, 12)
    with pytest.raises(ValueError, match="middle of two powers"):
        Pyramid.weighing([1.0, 2.0**-0.5])
    # ε / (1 − ε) · exp(−0.3) is √2 / 2.
    ratio = 2.0**-0.5 * np.exp(0.3)
    with pytest.raises(kinbin.InvalidInput, match="change one of them in its last digits"):
        space_of("nested", {"levels": 2, "epsilon": float(ratio / (1.0 + ratio))})


def test_vectors_are_those_of_the_finest_grid(db: kinbin.Database) -> None:
    """Another dimension is refused, at creation and of a vector, and so are negative counts and products; nothing is written."""
    with pytest.raises(kinbin.InvalidInput, match="nested of 3 level\\(s\\) takes vectors of dimension 8192, not 512"):
        db.create_collection("c", kernel="nested", dim=512)
    with pytest.raises(kinbin.InvalidInput, match="it is no part of a product"):
        db.create_collection("c", kernel="nested*gmm")
    collection = db.create_collection("c", kernel="nested", parameters={"levels": 1})
    for vector, text in ((np.ones(2048), "takes vectors of dimension 512"), (-np.ones(512), "values ≥ 0"), (np.zeros(512), "at least one")):
        with pytest.raises(kinbin.InvalidInput, match=text):
            collection.add(["a"], [vector])
    assert collection.count() == 0


def test_items_may_have_such_a_vector_beside_others(db: kinbin.Database) -> None:
    """A field of this kernel takes and returns vectors of counts, and its scores are added to those of other fields."""
    X = grids(pictures()[:40], 2)
    other = np.random.default_rng(0).random((40, 6)).astype(np.float32)
    fields: dict[str, dict[str, Any]] = {
        "picture": {"kernel": "nested", "parameters": {"levels": 2, "base": "chi2"}},
        "words": {"kernel": "ngmm", "dim": 6},
    }
    db.create_collection("c", fields=fields)
    collection = db.fields_collection("c")
    collection.add([str(i) for i in range(40)], {"picture": X.reshape(40, -1), "words": other})
    answer = collection.query({"picture": X[3].reshape(-1), "words": other[3]}, k=40)
    expected = 0.5 * naive.nested_scores(X[3], X, 2, "chi2") + 0.5 * naive.dense_scores("ngmm", other[3], other)
    np.testing.assert_allclose(answer.scores, expected[[int(i) for i in answer.ids]], atol=naive.SCORE_ERROR)
    (item,) = collection.get(["7"])
    assert item is not None
    assert item.vectors is not None
    np.testing.assert_array_equal(item.vectors["picture"], X[7].reshape(-1))
    assert db.create_collection("c", fields=fields, exist_ok=True).count() == 40
