"""Filters, ranges and certificates of walks: never too few answers, never one too low, never a bound that was not asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import naive
from linked import KINDS, cases, still, true_scores
from linked_pairs import ASKED, ROWS, SHARES, Pair, as_pairs


@pytest.fixture(autouse=True)
def _still() -> Iterator[None]:
    with still():
        yield


# -------------------------------------------------------------------------------------- filters and ranges


@pytest.mark.parametrize("k", [1, 4, 200])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("mode", ["links", "auto"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_filter_never_gives_too_few(kind: str, mode: str, share: str, k: int, pairs: Callable[[str, str], Pair]) -> None:
    """With a filter come k matching items, or all of them where there are fewer; and nine in ten of the nearest of them."""
    pair = pairs("ngmm", kind)
    condition, lets_through = SHARES[share]
    matching = np.array([lets_through(n) for n in range(ROWS)]) & pair.there
    scores = np.where(matching, pair.scores, -1.0)
    recalls = []
    for answer, row in zip(pair.linked.query_batch(pair.Q, k=k, filter=condition, mode=mode), scores, strict=True):
        assert len(answer.ids) == min(k, int(matching.sum()))
        assert matching[[int(one) for one in answer.ids]].all()
        recalls.append(naive.recall(answer.scores, row, min(k, int(matching.sum()))))
    assert np.mean(recalls) >= 0.95


@pytest.mark.parametrize("share", ["two in a hundred", "three rows"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_filter_that_a_walk_hardly_passes_is_scanned(
    kind: str, share: str, pairs: Callable[[str, str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the walk is too short to meet enough matching rows, all of the answer comes from a scan, and is complete."""
    monkeypatch.setattr("kinbin.query.plan.MOST_WIDTH", 16)
    pair = pairs("ngmm", kind)
    # A target of its own: plans are kept.
    options: dict[str, Any] = {"filter": SHARES[share][0], "k": 40, "target_recall": 0.91}
    walked, exact = pair.linked.query_batch(pair.Q, mode="links", **options), pair.linked.query_batch(pair.Q, mode="exact", **options)
    assert [len(answer) for answer in walked] == [len(answer) for answer in exact]
    scanned = [i for i, mode in enumerate(walked.modes) if mode == "exact"]
    assert scanned
    assert [as_pairs(walked)[i] for i in scanned] == [as_pairs(exact)[i] for i in scanned]


@pytest.mark.slow
@pytest.mark.parametrize("rank", [3, 10, 60])
@pytest.mark.parametrize("mode", ["links", "auto"])
@pytest.mark.parametrize(("kernel", "kind"), cases("dense", "signed"))
def test_a_range_holds_what_scores_enough(kernel: str, kind: str, mode: str, rank: int, pairs: Callable[[str, str], Pair]) -> None:
    """With min_score come only items that score as much, k at most, and nearly all of those that do."""
    pair = pairs(kernel, kind)
    scores = np.where(pair.there, pair.scores, -1.0)
    found = wanted = 0
    for i in range(ASKED):
        least = float(np.sort(scores[i])[-rank]) - 2 * naive.SCORE_ERROR
        within = int((scores[i] >= least).sum())
        answer = pair.linked.query(pair.Q[i], k=100, min_score=least, mode=mode)
        assert (answer.scores >= least).all()
        assert len(answer.ids) <= within
        found, wanted = found + len(answer.ids), wanted + within
        assert len(pair.linked.query(pair.Q[i], k=2, min_score=least, mode=mode).ids) == 2
    assert found >= 0.95 * wanted


@pytest.mark.parametrize("mode", ["links", "auto"])
def test_a_range_without_answers(mode: str, pairs: Callable[[str, str], Pair]) -> None:
    """Where no item scores as much, the answer is empty."""
    pair = pairs("ngmm", "dense")
    assert pair.linked.query(pair.Q[0], min_score=1.0, mode=mode).ids == []


# ------------------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize(("kernel", "kind"), cases("dense", "signed"))
def test_a_walk_is_certified_where_that_is_asked(kernel: str, kind: str, pairs: Callable[[str, str], Pair]) -> None:
    """A walk has no bound, and says why; certify gets one from the bands, which is not above what was found, in the mean."""
    pair = pairs(kernel, kind)
    Q = KINDS[kind].rows(60, seed=12)
    scores = np.where(pair.there, true_scores(kernel, pair.X, Q), -1.0)
    for answer in pair.linked.query_batch(Q, mode="links"):
        assert (answer.mode, answer.recall_lower_bound) == ("links", None)
        assert answer.no_bound == "links give no bound; certify asks the bands for one"
    certified = pair.linked.query_batch(Q, mode="links", certify=True)
    assert certified.mode == "links"
    assert certified.no_bounds == [None] * 60
    assert ((certified.recall_lower_bounds >= 0.0) & (certified.recall_lower_bounds <= 1.0)).all()
    recalls = [naive.recall(answer.scores, row, 10) for answer, row in zip(certified, scores, strict=True)]
    assert 0.5 < certified.recall_lower_bounds.mean() <= np.mean(recalls)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("cheap", [False, True], ids=["as priced", "walks for nothing"])
@pytest.mark.parametrize(("kernel", "kind"), cases("dense", "signed"))
def test_auto_keeps_a_certified_target(
    kernel: str, kind: str, cheap: bool, target: float, pairs: Callable[[str, str], Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With certify every answer of auto mode is certified at the target, or complete."""
    if cheap:
        monkeypatch.setattr("kinbin.query.plan.LinkPlan.walk_ns", lambda *_: 0.0)
    pair = pairs(kernel, kind)
    # Half of the queries are near nobody: bands cannot certify them.
    Q = KINDS[kind].rows(40, seed=12)
    Q[::2] = np.random.default_rng(13).random((20, Q.shape[1])) ** 4 + 0.01
    # A target of its own for each case: plans are kept.
    target += 1e-6 if cheap else 0.0
    answers = pair.linked.query_batch(Q, mode="auto", certify=True, target_recall=target)
    scanned = np.array(answers.modes) == "exact"
    if scanned.any():
        complete = pair.linked.query_batch(Q[scanned], mode="exact")
        np.testing.assert_array_equal(answers.ids[scanned], complete.ids)
    for answer in answers:
        assert answer.recall_lower_bound is not None
        assert answer.recall_lower_bound >= target
    if cheap and target < 0.6:
        assert "links" in answers.modes
    if target > 0.95:
        assert "exact" in answers.modes


def test_a_target_of_everything_is_complete(pairs: Callable[[str, str], Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    """In auto mode a target of 1 is met by nothing but a scan: a calibration that missed no neighbour of a sample proves nothing."""
    monkeypatch.setattr("kinbin.query.plan.LinkPlan.walk_ns", lambda *_: 0.0)
    pair = pairs("ngmm", "dense")
    pair.linked.link()
    calibration = pair.linked.stats()["links"]["calibration"]
    answers = pair.linked.query_batch(pair.Q, k=1, mode="auto", target_recall=1.0)
    assert max(step["recall@1"] for step in calibration) == 1.0, "the case proves nothing otherwise"
    assert set(answers.modes) == {"exact"}
