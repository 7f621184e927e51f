"""What spaces say of hashes and codes: no pair breaks a bound, and some come near it."""

from __future__ import annotations

import numpy as np
import pytest

import extremes
from kinbin.spaces.registry import space_of

PAIRS = 20_000
"""Of each family and kernel: a million in all. `benchmarks/bounds.py` looks at more."""
ERROR = 1e-9
"""Of scores and distances in NumPy."""
STEPS = 150


@pytest.mark.parametrize("name", extremes.SCORES)
def test_no_pair_breaks_a_bound(name: str, rng: np.random.Generator) -> None:
    """No least similarity is too large, no best score too small, no farthest distance too short, and the first is nearly attained."""
    space, score, nearest = space_of(name), extremes.SCORES[name], 1.0
    for family in extremes.FAMILIES:
        u, v = map(extremes.shaped, family(rng, PAIRS, 12))
        gaps = extremes.gaps(space, score, u, v)
        for what, gap in gaps._asdict().items():
            assert gap.min() >= -ERROR, f"{family.__name__}: {what} by {-gap.min()}"
        nearest = min(nearest, gaps.least.min())
    assert nearest < 1e-3, "no pair comes near the bound: these pairs prove little"


@pytest.mark.parametrize("name", extremes.SCORES)
def test_climbing_breaks_no_bound(name: str, rng: np.random.Generator) -> None:
    """Pairs that are changed step by step towards the bound come nearer to it and never pass it."""
    gap = extremes.climbed(space_of(name), extremes.SCORES[name], rng, 200, STEPS)
    assert gap.min() >= -ERROR
    assert np.median(gap) < 0.05


@pytest.mark.parametrize("name", [*extremes.SCORES, "ngmm", "cosine", "rbf", "acos*rbf", "gmm*acos", "ngmm*acos*chi2"])
def test_scores_that_vouch_are_the_inverse_of_the_bound(name: str) -> None:
    """A score that is asked for a probability vouches for it, by every sampler, and none that is much smaller does."""
    space = space_of(name)
    assert space.samplers
    for sampler in space.samplers:
        hashed = space.hashed_by(sampler)
        probabilities = np.linspace(0.01, 0.98, 40)
        scores = hashed.scores_vouching(probabilities)
        vouched = np.array([hashed.least_similarity(score) for score in scores])
        assert (vouched >= probabilities - 1e-6).all(), sampler
        below = np.array([hashed.least_similarity(score - 1e-3) for score in scores])
        assert (below < probabilities)[(vouched < 0.95) & (scores > 1e-3)].all(), sampler
        assert (hashed.scores_vouching(np.array([2.0, np.inf])) > 1.0).all()
