"""What calibration counts: neighbours found, groups that fare worse, made-up queries, and where walks are trusted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from kinbin.errors import CorruptData
from kinbin.links.calibration import _hits, _Scores, strange_queries
from kinbin.links.widths import CalibrationTable, Strange, Width
from kinbin.rows.canonical import canonical_rows
from linked import still

K = 10


def test_hits_are_counted_as_multisets() -> None:
    """Of equally similar neighbours as many count as were found, and rows that have nothing in common with the query not at all."""
    truth = np.array([[0.9, 0.5, 0.5, 0.5, 0.0], [0.7, 0.6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1, 0.05]])
    found = np.array([[0.9, 0.5, 0.5, 0.2, 0.0], [0.6, 0.1, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, -1.0], [0.3, 0.1, 0.05, -1.0, -1.0]])
    assert _hits(found, truth).tolist() == [[1, 1, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 1]]


def test_hits_are_those_of_a_slow_twin(rng: np.random.Generator) -> None:
    """Counted by multisets of scores, query by query, the hits among the first k are the same, with many ties."""
    for _ in range(50):
        universe = -np.sort(-rng.integers(0, 8, (20, 40)) / 8.0, axis=1)
        truth = universe[:, :12]
        found = np.array([-np.sort(-row[rng.permutation(40)[:12]]) for row in universe])
        hits = _hits(found, truth)
        for i in range(20):
            true = Counter(score for score in truth[i].tolist() if score > 0.0)
            assert hits[i].sum() == (Counter(found[i].tolist()) & true).total()


def test_a_minority_that_fares_worse_is_told() -> None:
    """One query in ten whose neighbours a walk misses hardly lowers the mean, but ends what links are trusted with."""
    truth = np.tile(np.linspace(0.9, 0.5, K), (256, 1))
    truth[230:] *= 0.5
    found = truth.copy()
    found[230:, 8:] = -1.0
    scores = _Scores(truth, K)
    scores.add(32, found, 100.0)
    told = scores.table().encode()
    assert told["recall"]["10"][0] > 0.97
    assert told["hard_recall"]["10"][0] == pytest.approx((26 * 0.8 + 6) / 32, abs=1e-4)
    assert told["weakest"]["10"][0] == 1.0
    # The same as a minority that is like the others, but came last.
    truth[230:] *= 2.0
    found = truth.copy()
    found[230:, 8:] = -1.0
    scores = _Scores(truth, K)
    scores.add(32, found, 100.0)
    assert scores.table().encode()["weakest"]["10"][0] < 0.85


def test_strange_queries_are_made_of_rows_and_like_none(rng: np.random.Generator) -> None:
    """Mixtures of two rows and of eight, and rows whose values lie elsewhere, as many of each: canonical rows, with the norms of rows."""
    X = rng.random((40, 30)).astype(np.float32) * (rng.random((40, 30)) < 0.4)
    X[:, 0] += 0.1
    rows = canonical_rows(X * rng.choice([-1, 1], X.shape), dim=30, signed=True)
    made = strange_queries(rows, 8)
    assert len(made) == 8
    for i in range(8):
        features, values = made.row(i)
        assert (np.diff(features.astype(np.int64)) > 0).all()
        assert np.isfinite(values).all()
        assert (values != 0).all()
        assert made.norms[i] == pytest.approx(np.abs(values).sum(), rel=1e-5)
        assert made.norms[i] <= rows.norms.max() * 1.001
    assert len(strange_queries(rows.slice(0, 0), 8)) == 0


def strange_table(similarity: NDArray[np.float64], *pools: NDArray[np.int64]) -> CalibrationTable:
    """A calibration of strange queries, for all k alike. pools: that find them, that do with a look around, and that find most."""
    stored = Strange(*(np.tile(part, (3, 1)) for part in (similarity, *pools)))
    spread = np.tile(np.linspace(0.2, 1.0, 33), (3, 1))
    return CalibrationTable(np.array([24, 32, 48, 64]), np.ones((3, 4)), far=np.full(3, 0.3), spread=spread, strange=stored)


def test_walks_are_not_trusted_where_they_fail_strange_queries() -> None:
    """Two of 22 that follow each other by similarity are too many; those above them are trusted, and where none fail all are."""
    similarity = np.linspace(0.9, 0.1, 66)
    needs, around, most = np.full(66, 20), np.full(66, 20), np.full(66, 10)
    width = Width(24, True, hard=0.5, wide=48)
    assert strange_table(similarity, needs, around, most).trusted_from(width, 10) == 0.0
    needs[[5, 27, 40, 60]] = 0
    needs[:12:11] = 24
    table = strange_table(similarity, needs, around, most)
    assert table.trusted_from(width, 10) == pytest.approx(similarity[27])
    assert table.trusted_from(Width(20, True, hard=0.5, wide=48), 10) == pytest.approx(similarity[0])
    assert table.trusted_from(width, 1_000) == 0.0
    # Below `lost` walks look around: there it counts what these find.
    around[[27, 60]] = 48
    looking = replace(width, hard=0.6, lost=0.6, around=500)
    assert strange_table(similarity, needs, around, most).trusted_from(looking, 10) == 0.0


def test_one_lost_query_is_enough_to_look_around() -> None:
    """Where one strange query misses three in ten of its neighbours usual ones look around, if that helps and no wider pool would do."""
    similarity = np.linspace(0.9, 0.1, 66)
    needs, around, most = np.full(66, 20), np.full(66, 20), np.full(66, 10)
    needs[[12, 20, 30]], most[[12, 20, 30]] = 48, 32
    # The first misses them with a look around as well, the second finds them at the same width without.
    around[12], around[20], around[30] = 0, 48, 24
    table = strange_table(similarity, needs, around, most)
    assert table.lost_below(Width(24, True), 10) == pytest.approx(similarity[30])
    assert table.lost_below(Width(32, True), 10) == 0.0
    assert table.lost_below(Width(24, True), 1_000) == 0.0


def test_what_was_measured_of_strange_queries_is_moved_between_calibrated_ranks() -> None:
    """The neighbours of a rank between are more similar than those of the next calibrated one, and a narrower pool finds them."""
    similarity = np.linspace(0.9, 0.1, 66)
    pools = np.full(66, 80)
    table = strange_table(similarity, pools, pools, pools)
    assert table.spread is not None
    table.spread[2] -= 0.1
    for k, moved, pool in ((100, 0.0, 80), (10, 0.0, 80), (31.6227766, 0.05, 26)):
        for_k = table._strange_for(k)
        usual = (similarity > 0.15) & (similarity < 0.85)
        np.testing.assert_allclose(for_k.similarity[usual], similarity[usual] + moved, atol=1e-6)
        assert (np.diff(for_k.similarity) < 0).all()
        assert set(for_k.needs.tolist()) == {pool}


def test_what_is_known_of_strange_queries_is_kept_and_that_of_an_earlier_version_is_read() -> None:
    """Link sets that did not see which walks are lost are walked as before: nobody is, and looking around finds no more."""
    similarity = np.linspace(0.9, 0.1, 66)
    table = strange_table(similarity, np.full(66, 48), np.full(66, 24), np.full(66, 64))
    kept = table.encode()
    again = CalibrationTable.decode(json.loads(json.dumps(kept)))
    assert again.strange is not None
    assert table.strange is not None
    for mine, theirs in zip(again.strange, table.strange, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    kept["strange"] = {k: of_k[:2] for k, of_k in kept["strange"].items()}
    earlier = CalibrationTable.decode(kept)
    assert earlier.strange is not None
    np.testing.assert_array_equal(earlier.strange.around, earlier.strange.needs)
    assert earlier.lost_below(Width(24, True), 10) == 0.0
    kept["strange"] = {k: of_k * 2 for k, of_k in kept["strange"].items()} | {"10": [[0.5]]}
    with pytest.raises(CorruptData):
        CalibrationTable.decode(kept)


def recall_between_crowds(folder: Path, seed: int, strangers: tuple[float, int], target: float) -> float:
    """Recall of queries half-way between two crowds, where a share of the rows lies in crowds of their own, of so many rows.

    strangers: (share, rows of each).
    """
    rng, n = np.random.default_rng(seed), 6_000
    share, size = strangers
    count = int(share * n)
    crowds = rng.gamma(0.15, 1, (60, 64)) + 1e-9
    usual = crowds[rng.integers(0, 60, n - count)] * np.exp(0.5 * rng.normal(size=(n - count, 64)))
    own = np.repeat(rng.gamma(0.1, 1, (-(-count // size), 64)) + 1e-9, size, axis=0)[:count]
    rows = np.vstack([usual, own * np.exp(0.5 * rng.normal(size=own.shape))])[rng.permutation(n)]
    ends = rng.integers(0, 60, (200, 2))
    shapes = crowds / crowds.sum(axis=1, keepdims=True)
    queries = shapes[ends[:, 0]] + shapes[ends[:, 1]]
    with still(), kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=64, seed=seed)
        collection.add([f"i{row}" for row in range(n)], rows)
        collection.link()
        found, true = collection.query_batch(queries, target_recall=target), collection.query_batch(queries, mode="exact")
    assert any("walk" in step for step in found[0].steps)
    return float(np.mean([len(set(one.ids) & set(other.ids)) / 10 for one, other in zip(found, true, strict=True)]))


@pytest.mark.parametrize("target", [0.9, 0.95])
@pytest.mark.parametrize("strangers", [(0.25, 10), (0.15, 1)], ids=["crowds of ten", "lonely rows"])
def test_rows_that_are_like_few_do_not_blind_auto(tmp_path: Path, strangers: tuple[float, int], target: float) -> None:
    """Rows with fewer than k others alike make low similarities usual: queries between crowds are found all the same, at any target."""
    recalls = [recall_between_crowds(tmp_path / str(seed), seed, strangers, target) for seed in (1, 2)]
    assert min(recalls) >= target


@pytest.mark.parametrize("seed", [1, 2])
def test_lonely_rows_do_not_blind_auto(tmp_path: Path, seed: int) -> None:
    """One row in twenty is like no other: queries half-way between two crowds, which are nearer than those rows, are found all the same."""
    rng = np.random.default_rng(seed)
    crowds = rng.gamma(0.15, 1, (120, 64)) + 1e-9
    rows = crowds[rng.integers(0, 120, 6_000)] * np.exp(0.5 * rng.normal(size=(6_000, 64)))
    ends = rng.integers(0, 120, (200, 2))
    shapes = crowds / crowds.sum(axis=1, keepdims=True)
    queries = shapes[ends[:, 0]] + shapes[ends[:, 1]]
    lonely = rng.gamma(0.1, 1, (300, 64)) + 1e-9
    with still(), kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", kernel="cosine", dim=64, seed=seed)
        collection.add([f"i{row}" for row in range(6_000)], rows)
        collection.link()
        collection.add([f"l{row}" for row in range(300)], lonely)
        collection.link()
        found, true = collection.query_batch(queries), collection.query_batch(queries, mode="exact")
    assert any("walk" in step for step in found[0].steps)
    recall = [len(set(one.ids) & set(other.ids)) / 10 for one, other in zip(found, true, strict=True)]
    assert np.mean(recall) >= 0.95
