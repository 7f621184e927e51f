"""What auto mode does where calibration says nothing: ties, lonely rows, strange queries, drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import kinbin
from kinbin.codes.folded import rank_of
from kinbin.links.widths import CalibrationTable
from kinbin.native.jit import strict
from kinbin.query.plan import Plan
from linked import names, still

pytestmark = [pytest.mark.recall, pytest.mark.slow]

K = 10
ASKED = 200


@pytest.fixture(autouse=True, scope="module")
def _still() -> Iterator[None]:
    with still():
        yield


def linked(db: kinbin.Database, X: Any, name: str = "c", **options: Any) -> kinbin.Collection:
    """A collection of these rows, all linked."""
    collection = db.create_collection(name, seed=3, **options)
    for start in range(0, X.shape[0], 10_000):
        stop = min(start + 10_000, X.shape[0])
        collection.add(names(range(start, stop)), X[start:stop])
    collection.link()
    return collection


def recall(answers: kinbin.AnswerBatch, exact: kinbin.AnswerBatch) -> NDArray[np.float64]:
    """(m,) share of the true scores above 0 that were found, as multisets; 1 where there are none."""
    out = np.ones(len(answers))
    for i in range(len(answers)):
        found, true = (Counter(np.round(batch.scores[i], 9).tolist()) for batch in (answers, exact))
        true = Counter({score: count for score, count in true.items() if score > 0.0})
        if true:
            out[i] = (found & true).total() / true.total()
    return out


def families(size: int, rows: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Sets of 10 of 2³⁰ things: families of near doubles (one thing is exchanged) that share nothing; and a query of each of some."""
    rng = np.random.default_rng(seed)
    bases = rng.integers(0, 2**30, (rows // size, 10))

    def members(which: NDArray[np.int64]) -> sp.csr_matrix:
        sets = bases[which]
        sets[np.arange(len(which)), rng.integers(10, size=len(which))] = rng.integers(0, 2**30, len(which))
        distinct = [np.unique(one) for one in sets]
        ends = np.cumsum([0] + [len(one) for one in distinct])
        return sp.csr_matrix((np.ones(ends[-1]), np.concatenate(distinct), ends), shape=(len(which), 2**30))

    everyone = rng.permutation(np.repeat(np.arange(rows // size), size))
    return members(everyone), members(rng.permutation(rows // size)[:ASKED])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_auto_does_not_walk_where_fewer_than_k_rows_are_alike(size: int, db: kinbin.Database) -> None:
    """Where most rows have fewer than ten others alike, any answer ends in strangers: auto finds all near doubles without links."""
    X, Q = families(size, 3_000)
    collection = linked(db, X, kernel="minmax")
    links = collection.stats()["links"]
    assert (links["alike"], links["far_similarity"]) == (0.0, 0.0)
    exact = collection.query_batch(Q, k=K, mode="exact")
    answers = collection.query_batch(Q, k=K)
    assert "links" not in answers.modes
    assert recall(answers, exact).min() == 1.0
    wanted = collection.query_batch(Q, k=K, min_score=0.3)
    assert [answer.ids for answer in wanted] == [answer.ids for answer in collection.query_batch(Q, k=K, min_score=0.3, mode="exact")]


def test_a_collection_of_loners_is_calibrated_on_nothing(db: kinbin.Database) -> None:
    """Where no sampled row has anything in common with another, no width of a walk has a recall, and none is tried."""
    rng = np.random.default_rng(0)
    features = rng.permutation(2**20)[: 1_500 * 8].reshape(1_500, 8)
    X = sp.csr_matrix((np.ones(features.size), features.ravel(), np.arange(0, features.size + 1, 8)), shape=(1_500, 2**20))
    collection = linked(db, X, kernel="minmax")
    (only,) = collection.stats()["links"]["calibration"]
    assert {value for key, value in only.items() if key != "pool"} == {0.0}
    near = X[:ASKED].copy()
    near.data[::8] = 0.0
    near.eliminate_zeros()
    answers = collection.query_batch(near, k=1)
    assert answers.ids[:, 0].tolist() == names(range(ASKED))


def clusters(rows: int, seed: int = 1) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Histograms in tight clusters; queries of the clusters; and queries half-way between two of them, like no stored row."""
    rng = np.random.default_rng(seed)
    centres = rng.dirichlet(np.full(200, 0.02), 300)
    X = centres[rng.integers(0, 300, rows)] * rng.uniform(0.5, 1.5, (rows, 200)) + 1e-9
    usual = centres[rng.integers(0, 300, ASKED)] * rng.uniform(0.5, 1.5, (ASKED, 200)) + 1e-9
    return X, usual, 0.5 * centres[rng.integers(0, 300, ASKED)] + 0.5 * centres[rng.integers(0, 300, ASKED)] + 1e-9


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A linked collection of clusters, with the two kinds of queries."""
    X, usual, strange = clusters(12_000)
    with kinbin.open(tmp_path_factory.mktemp("clusters")) as db:
        yield linked(db, X, dim=200), usual, strange


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("target", [0.5, 0.9, 0.99])
def test_auto_keeps_its_promise_for_queries_out_of_distribution(k: int, target: float, clustered: Any) -> None:
    """Queries half-way between two clusters are told of, and certified at the target or complete; those of the clusters are walked."""
    collection, usual, strange = clustered
    answers = collection.query_batch(strange, k=k, target_recall=target)
    assert answers.out_of_distribution.mean() > 0.9
    for answer in answers:
        assert (answer.mode == "links") != answer.out_of_distribution
        if answer.out_of_distribution:
            assert answer.recall_lower_bound is not None
            assert answer.recall_lower_bound >= target
    exact = collection.query_batch(strange, k=k, mode="exact")
    assert recall(answers, exact).mean() >= max(target, 0.95)
    walked = collection.query_batch(usual, k=k, target_recall=target)
    assert (np.array(walked.modes) == "links").mean() > 0.9
    assert walked.out_of_distribution.mean() < 0.1
    assert recall(walked, collection.query_batch(usual, k=k, mode="exact")).mean() >= target


def test_a_far_query_is_told_of_in_every_way_of_asking(clustered: Any) -> None:
    """One query alone, by links, with a filter's or score's bound, and certified: the answer says that it was far; a usual one does not."""
    collection, usual, strange = clustered
    far = int(np.flatnonzero(collection.query_batch(strange, mode="links").out_of_distribution)[0])
    assert collection.query(strange[far]).out_of_distribution
    assert collection.query(strange[far], mode="links").out_of_distribution
    assert collection.query(strange[far], mode="auto", certify=True).out_of_distribution
    assert collection.query(strange[far], min_score=0.01).out_of_distribution
    assert not collection.query(strange[far], mode="exact").out_of_distribution
    near = int(np.flatnonzero(~collection.query_batch(usual).out_of_distribution)[0])
    assert not collection.query(usual[near]).out_of_distribution


def test_a_least_score_does_not_hide_that_a_query_is_far(clustered: Any) -> None:
    """Auto judges by the k-th nearest, wanted or not: with `min_score` a far query is completed, and a usual one is not taken for far."""
    collection, usual, strange = clustered
    for queries, least in ((strange, 0.2), (usual, 0.6)):
        answers = collection.query_batch(queries, min_score=least)
        exact = collection.query_batch(queries, min_score=least, mode="exact")
        assert recall(answers, exact).mean() >= 0.95
        for answer in answers:
            assert (answer.scores >= least).all()
    assert collection.query_batch(usual, min_score=0.6).out_of_distribution.mean() < 0.1


def test_where_a_scan_is_dear_bands_tell_whether_the_walk_failed(clustered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far queries of large collections are walked for on and asked of the bands, which say what they vouch for; failures are scanned."""
    collection, _, strange = clustered
    monkeypatch.setattr(Plan, "scans_far", property(lambda _: False))
    answers = collection.query_batch(strange, target_recall=0.9 + 1e-7)
    far = np.flatnonzero(answers.out_of_distribution)
    assert len(far) > 0.9 * ASKED
    exact = collection.query_batch(strange, mode="exact")
    assert recall(answers, exact).mean() >= 0.95
    assert set(np.array(answers.modes)[far]) <= {"links", "exact"}
    assert all(answers[int(i)].recall_lower_bound is not None for i in far)
    # A walk that finds nothing of what the bands know of is not left at that.
    monkeypatch.setattr("kinbin.query.search.new_rows", lambda before, answers: np.full(len(answers.rows), K))
    failed = collection.query_batch(strange, target_recall=0.9 + 2e-7)
    assert set(np.array(failed.modes)[failed.out_of_distribution]) == {"exact"}
    assert recall(failed, exact)[failed.out_of_distribution].min() == 1.0


def test_auto_keeps_its_promise_after_a_drift(tmp_path: Path) -> None:
    """Rows of another distribution that came later are found at the default target: fresh, in runs, and linked."""
    rng = np.random.default_rng(1)
    X = rng.dirichlet(np.full(128, 0.3), 4_000)
    X[:, 64:] *= 1e-6
    late = rng.dirichlet(np.full(128, 0.05), 900)
    late[:, :64] *= 1e-6
    Q = late[rng.integers(0, 900, ASKED)] * rng.uniform(0.8, 1.2, (ASKED, 128))
    with kinbin.open(tmp_path) as db:
        collection = linked(db, X, dim=128)
        collection.add([f"late {i}" for i in range(900)], late)
        for stage in ("fresh", "sealed", "linked"):
            if stage == "sealed":
                collection.compact()
            if stage == "linked":
                collection.link()
            exact = collection.query_batch(Q, k=K, mode="exact")
            assert recall(collection.query_batch(Q, k=K), exact).mean() >= 0.95


def test_links_of_an_earlier_version_are_walked_as_they_were_calibrated(clustered: Any) -> None:
    """A calibration without what was added to it is read: its means stand for all groups, and a far similarity of 0 for strangers."""
    collection, usual, _ = clustered
    with collection._reading() as (_, view):
        links = view.links.set
        added = ("hard", "hard_recall", "weakest", "alike", "strange", "spread")
        old = {key: value for key, value in links.header.calibration.items() if key not in added}
        table = CalibrationTable.decode(old)
        width = table.width_for(K, 0.98, 0.95)
        assert width.pool == next(p for p, r in zip(old["pools"], old["recall"]["10"], strict=True) if r >= 0.98 and p >= K)
        assert table.alike_for(K) == 1.0
        old["far"] = dict.fromkeys(old["far"], 0.0)
        table = CalibrationTable.decode(old)
        assert table.alike_for(K) == 0.0
        object.__setattr__(links, "calibration", table)
    try:
        # A target that nobody asked for before: plans are kept.
        answers = collection.query_batch(usual, target_recall=0.9 + 3e-7)
    finally:
        object.__setattr__(links, "calibration", CalibrationTable.decode(links.header.calibration))
    assert "links" not in answers.modes


@pytest.mark.parametrize("kernel", ["gmm", "minmax"])
def test_queries_of_another_norm_than_the_rows_are_not_left_to_a_walk(kernel: str, db: kinbin.Database) -> None:
    """Where rows have one sum, and kernels that compare sums are asked with another, all rows may be as similar as sums allow."""
    X, usual, _ = clusters(4_200)
    X /= X.sum(axis=1, keepdims=True)
    usual /= usual.sum(axis=1, keepdims=True)
    collection = linked(db, X, kernel=kernel, dim=200)
    of_usual = collection.query_batch(usual)
    assert not of_usual.out_of_distribution.all()
    for factor in (0.5, 2.0, 3.0):
        answers = collection.query_batch(factor * usual)
        exact = collection.query_batch(factor * usual, mode="exact")
        assert recall(answers, exact).mean() >= 0.99
        if "links" in of_usual.modes:
            assert answers.out_of_distribution.all()
            assert collection.query(factor * usual[0]).out_of_distribution


@strict
def ranks_of(distances, step, left, right, ranks):  # type: ignore[no-untyped-def]
    """Ranks of rows of one norm as seen from one of another."""
    for x in range(len(distances)):
        ranks[x] = rank_of(distances[x], step, False, left, right)


def ranks_at(distances: list[int], left: float, right: float) -> list[int]:
    """The same, of codes of 1,024 steps."""
    ranks = np.empty(len(distances), np.uint64)
    ranks_of(np.array(distances, np.uint32), 2.0 / 1024, left, right, ranks)
    return [int(rank) for rank in ranks]


def test_shapes_decide_where_norms_allow_the_same() -> None:
    """Rows that could all be a part of a greater query are ranked by the distance of their shapes, not as ties."""
    ranks = ranks_at([0, 100, 300, 600, 900, 1_024, 2**32 - 1], 1.0, 3.0)
    assert ranks == sorted(set(ranks))
    assert ranks[-1] < 2**32
    equal = ranks_at([0, 100, 300, 600, 900], 1.0, 1.0)
    assert equal[0] == 0
    assert equal == sorted(set(equal))


def test_lonely_rows_do_not_hide_that_queries_are_strange(db: kinbin.Database) -> None:
    """A few rows that are like no other make a low similarity usual; queries of noise are found all the same, or told of."""
    X, usual, _ = clusters(6_000)
    rng = np.random.default_rng(8)
    lonely = np.zeros((90, 200))
    for row in lonely:
        row[rng.choice(200, 3, replace=False)] = rng.random(3) + 0.1
    X[rng.permutation(6_000)[:90]] = lonely
    collection = linked(db, X, dim=200)
    noise = rng.random((ASKED, 200))
    answers = collection.query_batch(noise)
    assert recall(answers, collection.query_batch(noise, mode="exact")).mean() >= 0.9
    assert recall(collection.query_batch(usual), collection.query_batch(usual, mode="exact")).mean() >= 0.95
