"""Every kernel is searched in every mode: exact scores, complete scans, bounds that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import naive
from background import no_background
from kinbin.spaces.registry import space_of
from linked import still

K = 5
KERNELS = (*kinbin.KERNELS, "gmm*acos", "chi2*ngmm*rbf")
PARAMETERS = {"rbf": {"gamma": 3.0}, "exp_chi2": {"gamma": 0.5}, "frbf": {"gamma": 2.0}, "chi2*ngmm*rbf": {"rbf.gamma": 0.5}}
Rows = NDArray[np.float32]


def clusters(rng: np.random.Generator, count: int, signed: bool) -> Rows:
    """Rows near others, and strangers; some values are 0."""
    centres = rng.random((12, 20)) ** 4 + 1e-3
    if signed:
        centres *= rng.choice([-1.0, 1.0], centres.shape)
    rows = centres[rng.integers(0, 12, count)] * rng.lognormal(0, rng.choice([0.05, 0.4], (count, 1)), (count, 20))
    rows[:, 4:] *= rng.random((count, 16)) < 0.8
    return rows.astype(np.float32)


def sparse(rows: Rows) -> list[dict[int, float]]:
    """The same, of ids far apart."""
    return [{f * 10**12 + 3: float(v) for f, v in enumerate(row) if v} for row in rows]


@pytest.mark.parametrize("dim", [20, None], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", KERNELS)
def test_scores_are_exact_in_every_mode(name: str, dim: int | None, db: kinbin.Database, rng: np.random.Generator) -> None:
    """Fresh, sealed and linked, dense and sparse: all scores are the twin's to 1e-6, scans are complete, certified bounds are kept."""
    X, Q = (clusters(rng, count, space_of(name).signed) for count in (420, 12))
    parameters = PARAMETERS.get(name, {})
    truth = np.array([naive.dense_scores(name, q, X, **parameters) for q in Q])
    best = -np.sort(-truth, axis=1)[:, :K]
    items, queries = (X, Q) if dim else (sparse(X), sparse(Q))
    with still():
        collection = db.create_collection("c", kernel=name, dim=dim, seed=1, parameters=parameters)
        collection.add([str(i) for i in range(420)], items)
        for stage in (None, collection.compact, collection.link):
            if stage is not None:
                stage()
            for mode in ("auto", "bands", "links", "exact"):
                answers = collection.query_batch(queries, k=K, mode=mode, certify=mode == "auto")
                for answer, row in zip(answers, truth, strict=True):
                    np.testing.assert_allclose(answer.scores, row[[int(i) for i in answer.ids]], atol=naive.SCORE_ERROR)
                    assert mode != "auto" or (answer.recall_lower_bound or 0.0) >= 0.9
                if mode == "exact":
                    np.testing.assert_allclose(answers.scores, best, atol=naive.SCORE_ERROR)
            assert collection.check().ok
        found = [naive.recall(answer.scores, row, K) for answer, row in zip(collection.query_batch(queries, k=K), truth, strict=True)]
        assert np.mean(found) >= 0.9


CERTIFIED = (
    ("js", None), ("hellinger", None), ("hellinger", "sign"), ("hellinger", "gcws"), ("cosine", None), ("cosine", "sign"), ("frbf", None),
    ("mm_acos", None), ("mm_acos", "gcws"), ("mm_acos_chi2", None), ("gmm*acos", None),
)  # fmt: skip


@pytest.mark.recall
@pytest.mark.parametrize(("name", "sampler"), CERTIFIED)
def test_mean_bounds_are_no_larger_than_mean_recalls(name: str, sampler: str | None, tmp_path: Path, rng: np.random.Generator) -> None:
    """Over 30 seeds the bands' bound is at most what they found, by each sampler that a kernel may be hashed by."""
    X = clusters(rng, 300, space_of(name).signed)
    Q = (X[:24] * rng.lognormal(0, 0.1, (24, 20))).astype(np.float32)
    truth = np.array([naive.dense_scores(name, q, X) for q in Q])
    recalls, bounds = [], []
    with no_background(), kinbin.open(tmp_path / "db") as database:
        for seed in range(30):
            collection = database.create_collection(f"c{seed}", kernel=name, dim=20, seed=seed, sampler=sampler, bands=32, rows=3)
            collection.add([str(i) for i in range(len(X))], X)
            collection.compact()
            for answer, row in zip(collection.query_batch(Q, k=K, mode="bands", target_recall=0.7), truth, strict=True):
                if answer.recall_lower_bound is not None:
                    recalls.append(naive.recall(answer.scores, row, K))
                    bounds.append(answer.recall_lower_bound)
            database.drop_collection(f"c{seed}")
    assert len(bounds) > 300
    assert np.mean(bounds) > 0.01, "a bound of nothing proves nothing"
    assert np.mean(bounds) <= np.mean(recalls)


@pytest.mark.parametrize("name", [*(name for name, one in kinbin.KERNELS.items() if not one.signed), "chi2*gmm", "acos*frbf"])
def test_negative_values_are_refused(name: str, db: kinbin.Database) -> None:
    """Where a kernel has no meaning for negative values, the error says so, and nothing is written; queries as well."""
    collection = db.create_collection("c", kernel=name, dim=2)
    for call in (lambda: collection.add(["a"], [[1.0, -1.0]]), lambda: collection.query([1.0, -1.0])):
        with pytest.raises(kinbin.InvalidInput, match="negative") as refused:
            call()
        assert refused.value.code == "negative_value"
    assert collection.count() == 0


def test_cosines_below_zero_are_answered_and_asked_for(db: kinbin.Database) -> None:
    """Negative cosines are printed, ascend to the end of the answers, and may be the least that is wanted; beyond -1 there is none."""
    angles = np.linspace(0.0, np.pi, 13)
    X = np.column_stack([np.cos(angles), np.sin(angles)]) * np.linspace(1, 5, 13)[:, None]
    with no_background():
        collection = db.create_collection("c", kernel="cosine", dim=2, seed=1)
        collection.add([str(i) for i in range(13)], X)
        for mode in ("auto", "exact"):
            for least, count in ((None, 13), (-1.0, 13), (-0.4, 8), (0.1, 6)):
                answer = collection.query([3.0, 0.0], k=13, mode=mode, min_score=least)
                assert answer.ids == [str(i) for i in range(count)]
                np.testing.assert_allclose(answer.scores, np.cos(angles[:count]), atol=1e-7)
        with pytest.raises(kinbin.InvalidInput, match="min_score is a number from -1 to 1 for cosine"):
            collection.query([1.0, 0.0], min_score=-1.5)


def test_a_product_has_one_name(db: kinbin.Database) -> None:
    """A product is the same collection whatever the order of its parts, and parameters stay with their part."""
    made = db.create_collection("c", kernel="rbf*exp_chi2*gmm", dim=2, parameters={"rbf.gamma": 2.0})
    assert made.config.kernel == "gmm*exp_chi2*rbf"
    assert made.config.parameters == {"exp_chi2.gamma": 1.0, "rbf.gamma": 2.0}
    assert db.create_collection("c", kernel="gmm*rbf*exp_chi2", dim=2, parameters={"rbf.gamma": 2.0}, exist_ok=True) is made
    with pytest.raises(kinbin.CollectionExists, match=r"parameters exp_chi2.gamma=1, rbf.gamma=2, not exp_chi2.gamma=1, rbf.gamma=1"):
        db.create_collection("c", kernel="gmm*rbf*exp_chi2", dim=2, exist_ok=True)
    for bad, text in (
        ("gmm*cosine", "negative numbers"),
        ("gmm*gmm", "two or three different"),
        ("gmm*mm_acos", "is a product itself"),
        ("nested*gmm", "is of vectors of one length: it is no part of a product"),
        ("gmm*b", "js, hellinger, acos, rbf, frbf, not 'b'$"),
    ):
        with pytest.raises(kinbin.InvalidInput, match=text) as refused:
            db.create_collection("d", kernel=bad, dim=2)
        assert (refused.value.code, refused.value.problems[0].field) == ("bad_parameter", "kernel")
