"""What spaces say of hashes and codes: no pair breaks a bound, and some come near it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import extremes
from kinbin.hashing.laws import argmax_collision, sign_collision
from kinbin.native.jit import strict
from kinbin.spaces.registry import space_of

PAIRS = 20_000
"""Of each family and kernel: two million in all. `benchmarks/bounds.py` looks at more."""
REAL_PAIRS = 6_000
"""Of each set and kernel."""
STEPS = 150


def assert_kept(gaps: extremes.Gaps, name: str, where: str) -> None:
    """No least probability is too large, no best score too small, no farthest distance too short."""
    for what, gap in gaps._asdict().items():
        assert gap.min() >= -extremes.ERRORS[name], f"{where}: {what} by {-gap.min()}"


@pytest.mark.slow
@pytest.mark.parametrize("name", extremes.SCORES)
def test_no_pair_breaks_a_bound(name: str, rng: np.random.Generator) -> None:
    """Pairs made for it, with signs where the kernel takes them, break no bound, and come near that of collisions."""
    space, score, nearest = space_of(name), extremes.SCORES[name], 1.0
    for family in extremes.families(space):
        gaps = extremes.gaps(space, score, *family(rng, PAIRS, 12))
        assert_kept(gaps, name, family.__name__)
        nearest = min(nearest, gaps.least.min())
    assert nearest < 1e-3, "no pair comes near the bound: these pairs prove little"


@pytest.mark.slow
@pytest.mark.parametrize("name", extremes.SCORES)
@pytest.mark.parametrize("set_name", ["photographs", "digits", "photograph contrasts"])
def test_no_real_pair_breaks_a_bound(set_name: str, name: str, data_set: Callable[[str], dict[str, Any]], rng: np.random.Generator) -> None:
    """Nor do rows of real sets with their nearest, and with others."""
    space, X = space_of(name), data_set(set_name)["X_train"].astype(np.float64)
    if X.min() < 0 and not space.signed:
        X = np.concatenate([np.maximum(X, 0), np.maximum(-X, 0)], axis=1)
    u, v = extremes.real(X, rng, REAL_PAIRS)
    assert_kept(extremes.gaps(space, extremes.SCORES[name], u, v), name, set_name)


@pytest.mark.parametrize("name", extremes.SCORES)
def test_climbing_breaks_no_bound(name: str, rng: np.random.Generator) -> None:
    """Pairs that are changed step by step towards a bound come nearer to it and never pass it."""
    gaps = extremes.climbed(space_of(name), extremes.SCORES[name], rng, 300, STEPS)
    assert_kept(gaps, name, "climbed")
    assert np.median(gaps.least[::3]) < 0.05


@strict
def _collisions(cosines, argmax, out):  # type: ignore[no-untyped-def]
    """How often codes of "argmax", or of "sign", collide."""
    for i in range(len(cosines)):
        out[i] = argmax_collision(cosines[i]) if argmax else sign_collision(cosines[i])


def assert_collides(name: str, u: extremes.Matrix, v: extremes.Matrix) -> float:
    """That codes of the roots collide at least as often as the score says, by either sampler. Returns the least that they do more."""
    space, nearest = space_of(name), 1.0
    scores, roots = extremes.SCORES[name](u, v), extremes.SCORES["hellinger"](u, v)
    for sampler in ("argmax", "sign"):
        out = np.empty(len(u))
        _collisions(roots, sampler == "argmax", out)
        hashed = space.hashed_by(sampler)
        assert hashed.roots
        # Scores of NumPy may be off by some 1e-13, where a law is steep.
        gap = out - np.array([hashed.least_similarity(score) for score in scores])
        assert gap.min() >= -1e-6, f"{sampler}: by {-gap.min()}"
        nearest = min(nearest, float(np.abs(gap).min()))
    return nearest


@pytest.mark.parametrize("name", ["hellinger", "js"])
def test_no_pair_collides_less_often_than_its_score_says(name: str, rng: np.random.Generator) -> None:
    """Kernels that are hashed by their roots: pairs made to come near the bound keep it, and some come near it."""
    nearest = min(assert_collides(name, *family(rng, 4_000, 12)) for family in extremes.families(space_of(name)))
    assert nearest < 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_the_divergence_is_never_less_than_that_of_the_roots(seed: int) -> None:
    """Climbing towards js > hellinger from many pairs gets no pair there, whatever its features' shares."""
    rng = np.random.default_rng(seed)
    u, v = extremes.shaped(rng.random((2_000, 5)) ** 3 + 1e-12), extremes.shaped(rng.random((2_000, 5)) ** 3 + 1e-12)

    def gap(a: extremes.Matrix, b: extremes.Matrix) -> extremes.Matrix:
        return extremes.SCORES["hellinger"](a, b) - extremes.SCORES["js"](a, b)

    best = gap(u, v)
    for _ in range(STEPS):
        size = 10.0 ** rng.uniform(-3, 0.5, (len(u), 1))
        tried = [extremes.shaped(rows * np.exp(size * rng.normal(size=rows.shape))) for rows in (u, v)]
        now = gap(*tried)
        nearer = now < best
        u[nearer], v[nearer], best[nearer] = tried[0][nearer], tried[1][nearer], now[nearer]
    assert best.min() >= -1e-12
    assert np.median(best) < 1e-3, "nothing came near: this proves little"


@pytest.mark.parametrize("name", [*extremes.SCORES, "ngmm", "rbf", "ngmm*acos*chi2"])
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
