"""Bounds on the recall of combined scores hold, and where none is proved the items are scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from fielded import FIELDS, combined, filled, hits, ids, made, parts, some, vectors

N, ASKED, SEEDS, K = 300, 6, 30, 10
WAYS: tuple[tuple[dict[str, float] | None, str], ...] = (({"colour": 0.2, "words": 0.3, "texture": 0.5}, "sum"), (None, "product"))


@pytest.mark.recall
@pytest.mark.parametrize(("weights", "combine"), WAYS)
def test_the_mean_bound_is_at_most_the_mean_recall(
    tmp_path: Path, quiet: None, rng: np.random.Generator, weights: dict[str, float] | None, combine: str
) -> None:
    """Over 30 seeds each answer by a few bands that has a bound finds at least as much as it says, in the mean; most have one."""
    crowds = {name: np.repeat(part, 10, axis=0) for name, part in vectors(rng, N // 10).items()}
    X = {name: part * (1.0 + 2.0 * rng.random(part.shape)) for name, part in crowds.items()}
    queries = {name: part * (1.0 + 2.0 * rng.random(part.shape)) for name, part in some(crowds, slice(0, N, N // ASKED)).items()}
    few = {name: {**options, "bands": 1, "rows": 2} for name, options in FIELDS.items()}
    truth = [combined(parts(some(queries, i), X), weights, combine) for i in range(ASKED)]
    bounds: list[float] = []
    recalls: list[float] = []
    for seed in range(SEEDS):
        with kinbin.open(tmp_path / str(seed)) as db:
            c = made(db, few, seed=1_000 * seed)
            c.add(ids(N), X)
            c.compact()
            batch = c.query_batch(queries, weights, combine, k=K, mode="bands", target_recall=0.5)
            for i, answer in enumerate(batch):
                if answer.recall_lower_bound is not None:
                    bounds.append(answer.recall_lower_bound)
                    recalls.append(hits(answer.scores.tolist(), truth[i] - 1e-6, K))
    assert len(bounds) > SEEDS * ASKED / 2
    assert np.mean(bounds) <= np.mean(recalls), (np.mean(bounds), np.mean(recalls))
    assert min(bounds) < 1.0, "some of them are proved by bands"
    assert min(recalls) < 1.0, "some neighbours are missed"


def test_certified_answers_keep_the_target(db: kinbin.Database, quiet: None, rng: np.random.Generator, monkeypatch: Any) -> None:
    """certify in auto gives every answer a bound of the target at least, by bands or by scoring all items."""
    import kinbin.fields.collection

    monkeypatch.setattr(kinbin.fields.collection, "FEW", 100)
    X = vectors(rng, N)
    c = filled(db, X)
    c.compact()
    for target in (0.5, 0.99):
        batch = c.query_batch(some(X, slice(0, 5)), k=5, certify=True, target_recall=target)
        assert (batch.recall_lower_bounds >= target).all()
        for i, answer in enumerate(batch):
            truth = combined(parts(some(X, i), X), None, "sum")
            if answer.mode == "exact":
                np.testing.assert_allclose(answer.scores, np.sort(truth)[::-1][:5], atol=1e-5)


def test_what_is_good_enough_in_no_part_is_not_good_enough(rng: np.random.Generator) -> None:
    """The share of a combined score is reached by one part at least, and rises with the score."""
    from kinbin.fields.combining import Combination

    for product in (False, True):
        for _ in range(300):
            F = int(rng.integers(1, 5))
            weights = (1.0,) * F if product else tuple(rng.random(F) * rng.integers(0, 2, F) + (np.arange(F) == 0))
            way = Combination(tuple("abcd"[:F]), weights, product)
            of = rng.random((F, 1)) ** rng.integers(1, 4)
            reached = float(way.of(of)[0])
            counted = [float(part[0]) for part, weight in zip(of, weights, strict=True) if weight > 0.0]
            assert max(counted) >= way.share(reached)
            assert way.share(reached) >= way.share(reached * 0.9)
