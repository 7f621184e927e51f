"""What `tune` predicts of bands and walks, held against what searches do."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import bundled
import kinbin
import naive
from kinbin.hashing import band_keys
from kinbin.tuning.sampling import places_of, read_places
from linked import still

pytestmark = pytest.mark.slow

CHOICES = ((1, 64), (3, 128), (8, 70))
K, ASKED = 10, 100
KERNELS = ("ngmm", "chi2", "cosine")


def all_scores(Q: NDArray[np.float32], X: NDArray[np.float32], kernel: str = "ngmm") -> NDArray[np.float64]:
    """(m, n) exact scores, by the definition."""
    return np.array([naive.dense_scores(kernel, q, X) for q in Q])


@pytest.fixture(scope="module")
def patches() -> dict[str, NDArray[np.float32]]:
    """Colours of 3,000 patches of photographs, and of 100 others that are queries."""
    X = bundled.BUNDLED["photographs"]()
    return {"rows": X["X_train"][:3_000], "queries": X["X_test"][:ASKED]}


@pytest.fixture(scope="module", params=KERNELS)
def tuned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, patches: dict[str, NDArray[np.float32]]
) -> Iterator[tuple[kinbin.Collection, kinbin.Tuning]]:
    """A collection of these patches in one run, and what is predicted of it."""
    with still(), kinbin.open(tmp_path_factory.mktemp("tune")) as database:
        collection = database.create_collection("patches", kernel=request.param, dim=512, seed=5)
        collection.add([str(i) for i in range(3_000)], patches["rows"])
        collection.compact()
        yield collection, collection.tune(K, choices=CHOICES)


def test_predicted_recall_and_work_are_those_of_the_rebuilt_collection(
    tuned: tuple[kinbin.Collection, kinbin.Tuning], patches: dict[str, NDArray[np.float32]]
) -> None:
    """Of every setting: its recall with the sampled rows to .002, with queries that are no rows to .03; rows scored within twice."""
    collection, told = tuned
    truth = all_scores(patches["queries"], patches["rows"], collection.config.kernel)
    for forecast in told.bands:
        collection.rebuild(forecast.rows, forecast.bands)
        current = collection.tune(K, choices=[(forecast.rows, forecast.bands)]).current
        assert current.recall == forecast.recall
        assert current.measured_recall == pytest.approx(forecast.recall, abs=0.002)
        answers = collection.query_batch(patches["queries"], k=K, mode="bands")
        recalls = [naive.recall(answer.scores, row, K) for answer, row in zip(answers, truth, strict=True)]
        assert np.mean(recalls) == pytest.approx(forecast.recall, abs=0.03)
        verified = np.mean([answer.verified for answer in answers])
        assert verified / 2.0 <= forecast.verified <= 2.0 * verified
        bounds = np.array([answer.recall_lower_bound or 0.0 for answer in answers])
        assert np.mean(bounds < 0.9) == pytest.approx(forecast.uncertified, abs=0.1)


def test_the_error_of_a_prediction_is_that_of_its_draw(tmp_path: Path, patches: dict[str, NDArray[np.float32]]) -> None:
    """Draws differ from the recall of all rows by as much as they say of themselves; who draws all rows has no error."""
    rows = patches["rows"][:1_000]
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512, seed=5)
        collection.add([str(i) for i in range(len(rows))], rows)
        collection.compact()
        (whole,) = collection.tune(K, sample=len(rows), choices=[(8, 70)]).bands
        draws = [collection.tune(K, sample=100, seed=seed, choices=[(8, 70)]).bands[0] for seed in range(12)]
    assert whole.recall_error == 0.0
    assert 0.3 < whole.recall < 0.99
    off = np.array([(one.recall - whole.recall) / one.recall_error for one in draws])
    assert 0.45 < np.sqrt(np.mean(off**2)) < 1.6
    errors = [one.recall_error for one in draws]
    assert max(errors) < 1.7 * min(errors)


def test_settings_differ(tuned: tuple[kinbin.Collection, kinbin.Tuning]) -> None:
    """Long bands are read less and find less, so that predictions have something to tell apart."""
    short, _, long = tuned[1].bands
    assert short.recall > long.recall + 0.02
    assert short.bytes_per_row < long.bytes_per_row


def test_predicted_postings_are_those_of_the_tables(tuned: tuple[kinbin.Collection, kinbin.Tuning]) -> None:
    """Rows that share a slot of a band, counted over all bands: within 8 % where they are many, else within 250 (of 3,000 rows)."""
    collection, told = tuned
    with collection._reading() as (_, view):
        rows = read_places(places_of(view), wide=False)
    for forecast in told.bands:
        slots = band_keys(collection._sampler.codes(rows, forecast.rows, forecast.bands), forecast.rows, forecast.bands) >> np.uint32(
            32 - 12
        )
        sizes = [np.unique(of_band, return_counts=True)[1] for of_band in slots.T]
        # A search for a stored row meets that row in each band; a prediction is of its neighbours.
        expected = sum(float(np.dot(size, size)) for size in sizes) / len(rows) - forecast.bands
        assert forecast.postings == pytest.approx(expected, rel=0.08, abs=250)
        assert forecast.postings > 0.5 * expected


@pytest.mark.parametrize(("kernel", "choice"), [("acos", (2, 128)), ("rbf", (8, 200))])
def test_predictions_hold_among_near_duplicates(tmp_path: Path, kernel: str, choice: tuple[int, int]) -> None:
    """Where all scores lie within 1e-6 of 1, recall is that of the searches, and the rows that are scored are."""
    rng = np.random.default_rng(0)
    rows = (rng.gamma(0.5, 1.0, (1, 200)) + rng.normal(0.0, 1e-3, (400, 200)).clip(0.0)).astype(np.float32)
    with still(), kinbin.open(tmp_path) as database:
        for seed in (4, 5):
            collection = database.create_collection(f"near-{seed}", kernel=kernel, dim=200, seed=seed)
            collection.add([str(i) for i in range(400)], rows)
            collection.rebuild(*choice)
            told = collection.tune(1, sample=400, choices=[choice])
            verified = collection.query_batch(rows, k=2, mode="bands").verified.mean()
            assert told.bands[0].recall == pytest.approx(told.current.measured_recall, abs=0.005)
            assert told.bands[0].verified == pytest.approx(verified, rel=0.05)


@pytest.mark.parametrize(("target", "choice"), [(0.3, (3, 8)), (0.5, (1, 2)), (0.9, (2, 16))])
def test_what_is_not_found_does_not_certify(tmp_path: Path, target: float, choice: tuple[int, int]) -> None:
    """The share of queries without a bound is that of searches where bands miss neighbours, too: it follows from what was found."""
    rows = np.random.default_rng(3).gamma(0.5, 1.0, (1_000, 40)).astype(np.float32)
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("far", kernel="gmm", dim=40, seed=1)
        collection.add([str(i) for i in range(1_000)], rows)
        collection.rebuild(*choice)
        (told,) = collection.tune(K, target, sample=1_000, choices=[choice]).bands
        answers = collection.query_batch(rows, k=K + 1, mode="bands", target_recall=target)
        bounds = np.array([bound or 0.0 for bound in answers.recall_lower_bounds])
    assert told.recall < 0.97
    assert told.uncertified == pytest.approx(np.mean(bounds < target), abs=0.02)


def test_fresh_rows_are_not_advised_to_be_rebuilt(tmp_path: Path) -> None:
    """Where no row lies in a run there is nothing to rebuild, and that is said."""
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("fresh", dim=16)
        collection.add([str(i) for i in range(300)], np.random.default_rng(0).random((300, 16)))
        fresh = collection.tune()
        assert fresh.current.runs == 0
        assert fresh.suggested.why.startswith("no row lies in a run yet, so there is nothing to rebuild; in one: recall")
        collection.compact()
        assert "nothing to rebuild" not in collection.tune().suggested.why


@pytest.mark.parametrize("seed", range(4))
def test_predicted_work_is_that_of_the_hashes_at_hand(tmp_path: Path, seed: int) -> None:
    """Where words are in most rows, one draw of hashes verifies a third more than another: what is predicted is right of each, to 10 %."""
    rng = np.random.default_rng(1)
    shares = 1.0 / np.arange(1, 3_001) ** 1.2
    counts = np.array([rng.multinomial(rng.integers(20, 120), shares / shares.sum()) for _ in range(2_000)], np.float32)
    texts = sp.csr_matrix(counts)
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("texts", seed=seed)
        collection.add([str(i) for i in range(2_000)], texts)
        collection.compact()
        (forecast,) = collection.tune(K, sample=300, choices=[(2, 128)]).bands
        collection.rebuild(2, 128)
        verified = float(np.mean([answer.verified for answer in collection.query_batch(texts[:500], k=K + 1, mode="bands")]))
    assert forecast.verified == pytest.approx(verified, rel=0.1)


def test_the_histogram_is_of_all_pairs_and_of_true_neighbours(tmp_path: Path, patches: dict[str, NDArray[np.float32]]) -> None:
    """Shares by bins add up to 1, and are those of the exact kernel: of all pairs of sampled rows, and of their k nearest."""
    rows = patches["rows"][:400]
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512)
        collection.add([str(i) for i in range(400)], rows)
        told = collection.tune(K, sample=400, choices=[(1, 8)]).similarity_histogram
    scores = all_scores(rows, rows)
    np.fill_diagonal(scores, -1.0)
    nearest = -np.sort(-scores, axis=1)[:, :K]
    expected, edges = np.histogram(nearest, 64, (0.0, 1.0))
    assert told.edges == pytest.approx(edges)
    # A score at a border may be printed to either side of it.
    assert told.neighbours == pytest.approx(expected / nearest.size, abs=2e-3)
    assert sum(told.pairs) == pytest.approx(1.0, abs=1e-5)
    mean = scores[scores >= 0.0].mean()
    assert np.dot(told.pairs, edges[:-1] + 1 / 128) == pytest.approx(mean, abs=0.02)


def test_rows_that_are_fresh_dead_or_in_several_runs_count_as_they_are(tmp_path: Path, patches: dict[str, NDArray[np.float32]]) -> None:
    """The current setting is predicted over all runs, each with its bands, and the fresh rows; dead rows are nobody's neighbours."""
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512, seed=3, rows=5, bands=60)
        collection.add([str(i) for i in range(1_500)], patches["rows"][:1_500])
        collection.compact()
        collection.add([str(i) for i in range(1_500, 3_000)], patches["rows"][1_500:])
        collection.delete([str(i) for i in range(0, 3_000, 5)])
        told = collection.tune(K, sample=150, choices=[(5, 60)])
    assert (told.current.rows, told.current.bands, told.current.runs) == (5, 60, 1)
    assert told.current.measured_recall == pytest.approx(told.current.recall, abs=0.01)
    assert told.current.recall > told.bands[0].recall + 0.004


def test_walks_are_told_when_there_are_links(tmp_path: Path, patches: dict[str, NDArray[np.float32]]) -> None:
    """Without links there are none; with links wider ones find and take more, and no width is less than k."""
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512)
        collection.add([str(i) for i in range(3_000)], patches["rows"])
        assert collection.tune(20, sample=20, choices=[(3, 128)]).walks == ()
        collection.link()
        walks = collection.tune(20, sample=20, choices=[(3, 128)]).walks
        stored = {step["pool"]: step for step in collection.stats()["links"]["calibration"]}
    assert walks
    assert min(walk.width for walk in walks) >= 20
    assert [walk.microseconds for walk in walks] == sorted(walk.microseconds for walk in walks)
    assert all(stored[walk.width]["recall@100"] <= walk.recall <= stored[walk.width]["recall@10"] + 1e-5 for walk in walks)


def test_the_suggestion_reaches_the_target(tuned: tuple[kinbin.Collection, kinbin.Tuning]) -> None:
    """What is suggested is what is there, or a setting, that reaches the target; where none does, the one that finds the most."""
    collection, told = tuned
    reaching = [(one.rows, one.bands) for one in told.bands if one.recall >= 0.9]
    reaching += [(told.current.rows, told.current.bands)] * (told.current.recall >= 0.9)
    assert (told.suggested.rows, told.suggested.bands) in reaching
    poor = collection.tune(K, sample=50, choices=[(8, 4), (8, 16)])
    assert (poor.suggested.rows, poor.suggested.bands) == (8, 16)
    assert poor.suggested.why.startswith("none reaches 0.9")


def test_what_is_there_is_suggested_unless_another_costs_less(tmp_path: Path, patches: dict[str, NDArray[np.float32]]) -> None:
    """Of bands that reach the target, lie in one run and cost less than those that are judged it is said that they are there."""
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("patches", dim=512, seed=1, rows=3, bands=128)
        collection.add([str(i) for i in range(3_000)], patches["rows"])
        collection.compact()
        told = collection.tune(K, sample=50, choices=[(1, 255)])
        assert told.bands[0].recall >= 0.9
        assert (told.suggested.rows, told.suggested.bands) == (3, 128)
        assert told.suggested.why.startswith(f"it is what is there: recall {told.current.recall:.3f} in ")
        dear = database.create_collection("dear", dim=512, seed=1, rows=1, bands=255)
        dear.add([str(i) for i in range(3_000)], patches["rows"])
        dear.compact()
        told = dear.tune(K, sample=50, choices=[(3, 128)])
        assert (told.suggested.rows, told.suggested.bands) == (3, 128)
        assert "; now " in told.suggested.why


def test_before_anything_is_built(tmp_path: Path, patches: dict[str, NDArray[np.float32]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix, dense or sparse, is tuned for without a database, and nothing is left of it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dense = kinbin.tune(patches["rows"][:800], sample=100, choices=CHOICES)
    sparse = kinbin.tune(sp.csr_matrix(patches["rows"][:800]), sample=100, choices=CHOICES, kernel="minmax")
    assert dense.bands[0].recall > 0.95
    assert dense.current.runs == sparse.current.runs == 1
    assert abs(sparse.current.recall - sparse.current.measured_recall) <= 0.002
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_tuned_is_refused(db: kinbin.Database) -> None:
    """Items without hashes, choices, samples and k out of range: each is told before anything is searched; a lone row has no neighbours."""
    words = db.create_collection("words", items="strings", distance="levenshtein")
    with pytest.raises(kinbin.InvalidInput, match="tune is about bands"):
        words.tune()
    few = db.create_collection("few", dim=2)
    few.add(["a"], [[1.0, 2.0]])
    told = few.tune(choices=[(2, 9)])
    assert (told.sample, told.bands[0].recall, told.suggested.rows) == (1, 1.0, 2)
    assert "fewer than two" in told.suggested.why
    wrong: dict[str, Any]
    for wrong in ({"choices": [(9, 64)]}, {"choices": []}, {"choices": [(1, 256)]}, {"choices": [3]}, {"sample": 5_001}, {"k": 101}):
        with pytest.raises(kinbin.InvalidInput):
            few.tune(**wrong)
    with pytest.raises(kinbin.InvalidInput, match="seed"):
        few.tune(seed=-1)


def test_it_can_be_cancelled(db: kinbin.Database, patches: dict[str, NDArray[np.float32]]) -> None:
    """An event that is set ends the work."""
    collection = db.create_collection("patches", dim=512)
    collection.add([str(i) for i in range(300)], patches["rows"][:300])
    gone = threading.Event()
    gone.set()
    with pytest.raises(kinbin.SearchCancelled):
        collection.tune(cancel=gone)
    with pytest.raises(kinbin.SearchCancelled):
        collection.recall(cancel=gone)


def test_rows_that_have_nothing_in_common_are_neither_hit_nor_miss(db: kinbin.Database, rng: np.random.Generator) -> None:
    """Of groups of four rows that share no feature with others, three neighbours each are wanted of ten, and bands find these alone."""
    rows = np.zeros((1_200, 600), np.float32)
    for group in range(300):
        rows[4 * group : 4 * group + 4, 2 * group : 2 * group + 2] = rng.random((4, 2)) + 3.0
    collection = db.create_collection("groups", dim=600, seed=1, rows=8, bands=60)
    collection.add([str(i) for i in range(1_200)], rows)
    collection.compact()
    told = collection.tune(10, choices=[(8, 60)])
    assert told.bands[0].recall > 0.98
    assert told.current.measured_recall == pytest.approx(told.current.recall, abs=0.002)
    measured = collection.recall(200, modes=["bands", "exact"]).modes
    assert (measured[0].recall or 0.0) > 0.98
    assert measured[1].lowest == 1.0
