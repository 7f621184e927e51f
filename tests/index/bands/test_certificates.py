"""What `recall_lower_bound` says is true: by its definition, answer by answer, and on real data, on average."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import bundled
import kinbin
import kinbin.query.plan
import naive
from background import no_background
from kinbin.hashing import band_keys
from kinbin.rows.canonical import canonical_rows

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.slow]

Matrix = NDArray[np.float32]

# ------------------------------------------------------------------------------------- the definition

ROWS = 2_500
QUERIES = 60


@pytest.fixture(scope="module")
def small(histograms: Matrix) -> Matrix:
    """Some colour histograms, queries last."""
    return histograms[: ROWS + QUERIES]


def shared_bands(collection: kinbin.Collection, X: Matrix, Q: Matrix, r: int, bands: int) -> NDArray[np.int64]:
    """(m, n) how many bands of a run each query and row share, by their whole keys, compared one by one."""
    codes = [collection._sampler.codes(canonical_rows(Y, dim=X.shape[1], signed=True), r, bands) for Y in (Q, X)]
    asked, stored = (band_keys(one, r, bands) for one in codes)
    return np.array([(stored == key).sum(axis=1) for key in asked])


@dataclass(frozen=True)
class Banded:
    """A collection of ROWS rows, how its bands are made, and of each query and row the bands they share and the true score."""

    collection: kinbin.Collection
    r: int
    bands: int
    counts: NDArray[np.int64]
    truth: NDArray[np.float64]


@pytest.fixture(scope="module")
def banded(small: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[dict[str, Any], bool], Banded]]:
    """Such a collection with some options, sealed or not, made when it is first asked for."""
    known: dict[str, Banded] = {}
    X, Q = small[:ROWS], small[ROWS:]

    def get(options: dict[str, Any], sealed: bool) -> Banded:
        name = f"c{len(known)}"
        if (key := f"{options} {sealed}") not in known:
            collection = db.create_collection(name, dim=512, seed=4, **options)
            collection.add([str(i) for i in range(ROWS)], X)
            r, bands = 1, 128
            if sealed:
                collection.compact()
                (run,) = collection.stats()["runs"]
                r, bands = run["r"], run["bands"]
            table = naive.Table.of_dense(collection.config.kernel, X)
            truth = np.stack([table.scores_of_dense(q) for q in Q])
            known[key] = Banded(collection, r, bands, shared_bands(collection, X, Q, r, bands), truth)
        return known[key]

    with no_background(), kinbin.open(tmp_path_factory.mktemp("banded")) as db:
        yield get


@pytest.mark.parametrize("target", [0.3, 0.8, 0.9, 0.99, 1.0])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rows": 4, "bands": 200},
        {"rows": 2, "bands": 30},
        {"rows": 1, "bands": 255},
        {"rows": 8, "bands": 1},
        {"kernel": "gint"},
        {"kernel": "gmm", "rows": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("sealed", [True, False], ids=["run", "journal"])
def test_a_bound_is_the_chance_of_the_bands_that_were_verified(
    sealed: bool, options: dict[str, Any], target: float, small: Matrix, banded: Callable[[dict[str, Any], bool], Banded]
) -> None:
    """The bound is the aim, and all rows with as many shared bands as it needs were verified, or it is what one shared band gives.

    The aim lies above the target. With T(c) = P[Binomial(L, J^r) ≥ c] for the k-th answer's J: where T(1) is below the aim, the bound
    is T(1), and every row that shares a band was verified. Otherwise it is the aim, for the largest c with T(c) ≥ aim, however far
    the search went: how far is the luck of the same hashes.
    """
    aim = target + 0.6 * (1.0 - target)
    Q, made = small[ROWS:], banded(options, sealed)
    collection, r, bands = made.collection, made.r, made.bands
    kernel = kinbin.KERNELS[collection.config.kernel]
    certified = 0
    answers = collection.query_batch(Q, k=5, target_recall=target, mode="bands")
    for truth, count, answer in zip(made.truth, made.counts, answers, strict=True):
        if len(answer) < 5:
            assert (count > 0).sum() < 5
            assert answer.recall_lower_bound is None
            continue
        assert answer.recall_lower_bound is not None
        chance = kernel.score_of(float(answer.scores[-1])) ** r
        tails = binom.sf(np.arange(bands), bands, chance)
        c = max(1, int((tails >= aim).sum()))
        assert answer.recall_lower_bound == pytest.approx(min(aim, tails[0]), rel=1e-6, abs=1e-12)
        best = np.sort(truth[count >= c])[::-1][:5]
        assert (answer.scores[: len(best)] >= best - naive.SCORE_ERROR).all()
        assert (count >= c).sum() <= answer.verified
        certified += answer.recall_lower_bound >= target
    assert certified > QUERIES / 2 or target > 0.9 or "bands" in options


@pytest.mark.parametrize("target", [0.3, 1.0])
@pytest.mark.parametrize("first_level", [1, 2, 20, 128, 255])
def test_bands_asked_for_everything_verify_every_candidate_once(
    first_level: int, target: float, small: Matrix, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over runs and a journal of sizes off any unroll width, no level is listed twice, left out, or mixed with another run's.

    Whichever level of shared bands is listed at first, before the lower ones are (in practice it depends on how many rows there are).
    """
    monkeypatch.setattr(kinbin.query.plan, "collecting_level", lambda *_: first_level)
    collection = db.create_collection("c", dim=512, seed=5)
    edges = [0, 333, 590, 651, 716, 783]
    with no_background(seal_rows=50):
        for start, stop in itertools.pairwise(edges):
            collection.add([str(i) for i in range(start, stop)], small[start:stop])
            if stop < edges[-1]:
                assert collection._upkeep.step()
    runs = collection.stats()["runs"]
    assert [run["rows"] for run in runs] == [333, 257, 61, 65]
    X = small[: edges[-1]]
    truth = naive.Table.of_dense("ngmm", X)
    for q, answer in zip(small[ROWS:], collection.query_batch(small[ROWS:], k=1_000, target_recall=target, mode="bands"), strict=True):
        assert answer.verified == answer.candidates == len(answer.ids) == len(set(answer.ids)) > 0
        scores = truth.scores_of_dense(q)
        for identifier, score in zip(answer.ids, answer.scores, strict=True):
            assert abs(score - scores[int(identifier)]) <= naive.SCORE_ERROR
        found = {int(identifier) for identifier in answer.ids}
        for (start, stop), run in zip(itertools.pairwise(edges[:-1]), runs, strict=True):
            shared = shared_bands(collection, X[start:stop], q[None], run["r"], run["bands"])[0]
            assert found >= set((np.flatnonzero(shared) + start).tolist())


# ---------------------------------------------------------------------------------------- on real data

SEEDS = 6
SEALED, ALL, ASKED = 3_000, 4_000, 400


class Measured:
    """Bounds and recalls of (seed, query) pairs at one target."""

    def __init__(self) -> None:
        self.seeds: list[NDArray[np.int64]] = []
        self.bounds: list[NDArray[np.float64]] = []
        self.recalls: list[NDArray[np.float64]] = []

    def add(self, seed: int, bounds: NDArray[np.float64], recalls: NDArray[np.float64]) -> None:
        """The answers of one seed."""
        self.seeds.append(np.full(len(bounds), seed))
        self.bounds.append(bounds)
        self.recalls.append(recalls)


@pytest.fixture(scope="module", params=["photographs", "cifar10_rgbhist512"])
def measured(
    request: pytest.FixtureRequest, data_set: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[float, int], Measured]]:
    """Recalls at a target and a k, over several seeds: rows in a run and in the journal, queries that are not among them."""
    data = data_set(request.param)
    X, Q = data["X_train"][:ALL].astype(np.float32), data["X_test"][:ASKED].astype(np.float32)
    table = naive.Table.of_dense("ngmm", X)
    truth = np.stack([table.scores_of_dense(q) for q in Q])
    with no_background(), kinbin.open(tmp_path_factory.mktemp("certificates")) as db:
        made = []
        for seed in range(SEEDS):
            collection = db.create_collection(f"c{seed}", dim=512, seed=seed)
            collection.add([str(i) for i in range(SEALED)], X[:SEALED])
            collection.compact()
            collection.add([str(i) for i in range(SEALED, ALL)], X[SEALED:])
            made.append(collection)

        def measure(target: float, k: int) -> Measured:
            out = Measured()
            for seed, collection in enumerate(made):
                batch = collection.query_batch(Q, k=k, target_recall=target, mode="bands")
                recalls = naive.recalls(batch.scores, truth, k)
                stated = ~np.isnan(batch.recall_lower_bounds)
                out.add(seed, batch.recall_lower_bounds[stated], recalls[stated])
            return out

        yield measure


@pytest.mark.recall
@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.95])
def test_recall_is_at_least_the_bound(target: float, k: int, measured: Callable[[float, int], Measured]) -> None:
    """In every tenth of bounds that occurs often, the mean recall is at least the mean bound.

    A bound is a probability over seeds, so it is compared with means over seeds and queries. The answers of
    one seed share its random numbers, those of different seeds nothing: the standard error of a mean of
    differences comes from the sums of the seeds, and three of it are allowed (one failure in a thousand, if
    recall were just the bound; in truth it is larger, for most neighbours are nearer than the k-th).
    """
    found = measured(target, k)
    seeds, bounds, recalls = (np.concatenate(part) for part in (found.seeds, found.bounds, found.recalls))
    assert (bounds >= target).mean() > 0.9
    judged = 0
    for low in np.arange(0.0, 1.0, 0.1):
        here = (bounds >= low) & (bounds < low + 0.1 if low < 0.85 else bounds <= 1.0)
        n = int(here.sum())
        if n < 60:
            continue
        difference = recalls[here] - bounds[here]
        sums = np.bincount(seeds[here], difference, SEEDS)
        error = sums.std(ddof=1) * np.sqrt(SEEDS) / n
        text = f"bounds from {low:.1f} on: mean recall is {recalls[here].mean():.3f}, mean bound {bounds[here].mean():.3f}"
        assert difference.mean() >= -3 * error, text
        judged += n
    assert judged >= 0.9 * len(bounds)


@pytest.mark.recall
def test_a_higher_target_costs_more_and_finds_more(measured: Callable[[float, int], Measured]) -> None:
    """Mean recall and mean bound rise with the target."""
    rising = [measured(target, 10) for target in (0.3, 0.6, 0.9, 0.99)]
    assert (np.diff([np.concatenate(one.bounds).mean() for one in rising]) > 0).all()
    assert (np.diff([np.concatenate(one.recalls).mean() for one in rising]) > 0).all()


# -------------------------------------------------------------------------------- where a draw spoils all

DRAWS = 24
DRAW_TARGETS, DRAW_RANKS, DRAW_MODES = (0.5, 0.9, 0.99), (1, 10), ("bands", "auto")


def near_doubles() -> tuple[Matrix, Matrix]:
    """50 groups of 30 rows of similarity .999, and a query of each: a draw that is bad for one of a group is bad for all."""
    rng = np.random.default_rng(5)
    groups = rng.random((50, 64))
    rows = np.repeat(groups, 30, axis=0) * (1 + 0.001 * rng.standard_normal((1_500, 64)))
    return rows.astype(np.float32), (groups * (1 + 0.001 * rng.standard_normal((50, 64)))).astype(np.float32)


def ties() -> tuple[Matrix, Matrix]:
    """Families of 10 sets of 20 of 600 things, each with one thing exchanged: few different scores, many times each."""
    rng = np.random.default_rng(6)
    rows = np.zeros((1_500, 600), np.float32)
    families = [rng.permutation(600)[:20] for _ in range(150)]
    for i, row in enumerate(rows):
        row[families[i // 10]] = 1.0
        row[families[i // 10][i % 20]] = 0.0
        row[rng.integers(600)] = 1.0
    queries = np.zeros((50, 600), np.float32)
    for query, family in zip(queries, families[::3], strict=True):
        query[family[:18]] = 1.0
    return rows, queries


def digits() -> tuple[Matrix, Matrix]:
    """Images of handwritten digits, 8 × 8: small counts, similar within a class."""
    data = bundled.digits()
    return data["X_train"], data["X_test"][::6]


SPOILED: dict[str, tuple[Callable[[], tuple[Matrix, Matrix]], dict[str, Any]]] = {
    "near doubles": (near_doubles, {}),
    "near doubles, few bands": (near_doubles, {"bands": 16, "rows": 4}),
    "near doubles, gmm": (near_doubles, {"kernel": "gmm"}),
    "ties": (ties, {"kernel": "minmax"}),
    "digits": (digits, {}),
}


@functools.cache
def spoiled(make: Callable[[], tuple[Matrix, Matrix]]) -> tuple[Matrix, Matrix]:
    """Rows and queries, made once for all draws."""
    return make()


Draws = dict[tuple[float, int, str], list[tuple[float, float, float]]]
"""By target, k and mode, of each draw: share of answers with a bound, mean recall and mean bound of these."""


def draw(db: kinbin.Database, name: str, seed: int, exact: list[NDArray[np.float64]], out: Draws) -> None:
    """Measure one draw of a set: alike rows lie in two runs and in the journal."""
    make, options = SPOILED[name]
    rows, queries = spoiled(make)
    order = np.random.default_rng(7).permutation(len(rows))
    collection = db.create_collection("drawn", dim=rows.shape[1], seed=seed, **options)
    for start, stop in ((0, 900), (900, 1_200), (1_200, 1_500)):
        collection.add([str(i) for i in order[start:stop]], rows[order[start:stop]])
        if stop < 1_500:
            collection._upkeep.step()
    assert (len(collection.stats()["runs"]), collection.stats()["fresh_rows"]) == (2, 300)
    if not exact:  # the same for every draw
        exact.append(collection.query_batch(queries, k=10, mode="exact").scores)
    for target, k, mode in itertools.product(DRAW_TARGETS, DRAW_RANKS, DRAW_MODES):
        batch = collection.query_batch(queries, k=k, target_recall=target, mode=mode)
        stated = ~np.isnan(batch.recall_lower_bounds)
        hits = (batch.scores[stated] >= exact[0][stated, k - 1 : k] - 1e-12).mean()
        out.setdefault((target, k, mode), []).append((stated.mean(), hits, batch.recall_lower_bounds[stated].mean()))
    db.drop_collection("drawn")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Draws]]:
    """Draws of a set, made when they are first asked for."""
    known: dict[str, Draws] = {}
    with no_background(seal_rows=100), kinbin.open(tmp_path_factory.mktemp("drawn")) as db:

        def get(name: str) -> Draws:
            if name not in known:
                known[name] = {}
                exact: list[NDArray[np.float64]] = []
                for seed in range(DRAWS):
                    draw(db, name, seed, exact, known[name])
            return known[name]

        yield get


@pytest.mark.recall
@pytest.mark.parametrize("mode", DRAW_MODES)
@pytest.mark.parametrize("k", DRAW_RANKS)
@pytest.mark.parametrize("target", DRAW_TARGETS)
@pytest.mark.parametrize("name", SPOILED)
def test_the_bound_holds_where_a_draw_is_bad_for_all_alike_rows(
    name: str, target: float, k: int, mode: str, drawn: Callable[[str], Draws]
) -> None:
    """Over 24 draws the mean bound is at most the mean recall, on rows that the same bad luck hides together.

    One draw's answers share their luck, so the standard error is that of the means of the draws; three of it are allowed.
    """
    stated, recalls, bounds = np.array(drawn(name)[target, k, mode]).T
    differences = recalls - bounds
    assert stated.mean() > 0.9
    assert differences.mean() >= -3 * differences.std(ddof=1) / np.sqrt(DRAWS), (recalls.mean(), bounds.mean())


# ------------------------------------------------------------------------------ where there is no bound


def test_too_few_answers_have_no_bound(db: kinbin.Database) -> None:
    """When the bands find fewer than k items, the bound is void and the reason given; the same query in auto mode is scanned."""
    collection = db.create_collection("c", dim=8, seed=1)  # with some seeds, keys of strangers agree by chance
    X = np.eye(8)
    collection.add([str(i) for i in range(8)], X)
    answer = collection.query(X[0], k=3, mode="bands")
    assert answer.ids == ["0"]
    assert (answer.recall_lower_bound, answer.no_bound) == (None, "fewer than k items were found")
    batch = collection.query_batch(X, k=1, mode="bands")
    assert batch.no_bounds == [None] * 8
    np.testing.assert_allclose(batch.recall_lower_bounds, 0.96, err_msg="the aim of a target of 0.9, and no more")
    answer = collection.query(X[0], k=3)
    assert (answer.mode, len(answer), answer.recall_lower_bound, answer.no_bound) == ("exact", 3, 1.0, None)


def test_a_query_that_hits_the_cap_has_no_bound(small: Matrix, db: kinbin.Database, set_limit: Callable[[str, int], None]) -> None:
    """When not all postings were read, the bound is void, `truncated` names the limit, and auto mode scans instead."""
    collection = db.create_collection("c", dim=512, seed=1)
    collection.add([str(i) for i in range(ROWS)], small[:ROWS])
    collection.compact()
    free = collection.query_batch(small[ROWS:], mode="bands")
    assert free.truncated == [[]] * QUERIES
    set_limit("postings", 200)
    set_limit("postings_per_row", 0)
    capped = collection.query_batch(small[ROWS:], mode="bands")
    assert capped.truncated == [["postings"]] * QUERIES
    assert capped.no_bounds == ["a cap was hit: see truncated"] * QUERIES
    assert np.isnan(capped.recall_lower_bounds).all()
    assert (capped.candidates <= 200).all()
    truth = naive.Table.of_dense("ngmm", small[:ROWS])
    for q, answer, auto in zip(small[ROWS:], capped, collection.query_batch(small[ROWS:]), strict=True):
        scores = dict(zip(map(str, range(ROWS)), truth.scores_of_dense(q).tolist(), strict=True))
        assert all(
            abs(score - scores[identifier]) <= naive.SCORE_ERROR for identifier, score in zip(answer.ids, answer.scores, strict=True)
        )
        naive.assert_answers(auto.ids, auto.scores, scores, 10)
        assert (auto.mode, auto.truncated, auto.recall_lower_bound) == ("exact", [], 1.0)


@pytest.mark.parametrize("fixed", [{"rows": 4, "bands": 32}, {"rows": 8, "bands": 16}], ids=str)
def test_low_contrast_is_admitted(fixed: dict[str, int], db: kinbin.Database, rng: np.random.Generator) -> None:
    """Where bands cannot reach the target, they say so with a lower bound or none; auto mode scans, and its answers are the ranking."""
    X = rng.normal(size=(3_000, 64)).astype(np.float32)
    Q = rng.normal(size=(20, 64)).astype(np.float32)
    collection = db.create_collection("c", dim=64, seed=2, **fixed)  # type: ignore[arg-type]
    collection.add([str(i) for i in range(3_000)], X)
    collection.compact()
    table = naive.Table.of_dense("ngmm", X)
    bands, auto = (collection.query_batch(Q, mode=mode, target_recall=0.9) for mode in ("bands", "auto"))
    for q, low, answer in zip(Q, bands, auto, strict=True):
        scores = dict(zip(map(str, range(3_000)), table.scores_of_dense(q).tolist(), strict=True))
        assert low.recall_lower_bound is None or low.recall_lower_bound < 0.9
        assert (low.recall_lower_bound is None) == (low.no_bound == "fewer than k items were found") == (len(low) < 10)
        assert (answer.mode, answer.recall_lower_bound, answer.truncated) == ("exact", 1.0, [])
        naive.assert_answers(answer.ids, answer.scores, scores, 10)


def test_the_bound_is_that_of_the_weakest_run(small: Matrix, db: kinbin.Database) -> None:
    """A second, less certain place to look at lowers the bound: with rows in the journal, it is the smaller of the two."""
    collection = db.create_collection("c", dim=512, seed=1, rows=8, bands=8)
    collection.add([str(i) for i in range(ROWS // 2)], small[: ROWS // 2])
    fresh = collection.query_batch(small[ROWS:], mode="bands", k=1)
    collection.compact()
    sealed = collection.query_batch(small[ROWS:], mode="bands", k=1)
    collection.add([str(i) for i in range(ROWS // 2, ROWS)], small[ROWS // 2 : ROWS])
    both = collection.query_batch(small[ROWS:], mode="bands", k=1)
    stated = ~np.isnan(sealed.recall_lower_bounds) & ~np.isnan(both.recall_lower_bounds)
    assert np.nanmean(fresh.recall_lower_bounds) > 0.9
    assert np.nanmean(sealed.recall_lower_bounds) < 0.7
    same = stated & (both.scores[:, 0] == sealed.scores[:, 0])
    assert same.sum() > 10
    assert (both.recall_lower_bounds[same] <= sealed.recall_lower_bounds[same] + 1e-12).all()
