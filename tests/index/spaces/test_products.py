"""Products with kernels of which little is known: what a new kernel may say, and leave out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
from kinbin.hashing.laws import argmax_collision, sign_collision
from kinbin.spaces.chi2 import CHI2
from kinbin.spaces.product import product_of
from kinbin.spaces.registry import KERNELS, _no_part
from kinbin.spaces.space import SHAPES, Code, Space

Score = Callable[[NDArray[Any], NDArray[Any]], float]

assert CHI2.code is not None
LOOSE = Space("loose", "", "", shapes=False, signed=False, code=Code(CHI2.code.score))
"""Of rows as they are. Its pairs score much whose min-max similarity is small: here Kulczyński's mean share."""
ALONE = Space("alone", "", "", shapes=True, signed=False, code=Code(CHI2.code.score))
"""Of shapes, and no function of their cosine: here chi2, of which nothing is said."""
PARTS = {
    "gmm": "gmm",
    "minmax": "minmax",
    "ngmm": "ngmm",
    "chi2": "chi2",
    "js": "js",
    "hellinger": "hellinger",
    "acos": "acos",
    "rbf": "rbf",
}


def mean_share(u: NDArray[Any], v: NDArray[Any]) -> float:
    """What both have, as a share of either, in the mean."""
    shared = np.minimum(u, v).sum()
    return float(0.5 * (shared / u.sum() + shared / v.sum()))


def score_of(space: Space) -> Score:
    """The definition of a part."""
    if space is LOOSE:
        return mean_share
    return lambda u, v: float(naive.dense_scores("chi2" if space is ALONE else space.name, u, v[None])[0])


def pairs(rng: np.random.Generator, count: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Flat and peaked rows, each with one that is near it, of another length, or has much elsewhere."""
    made = []
    for _ in range(count):
        u = rng.random(12) ** rng.integers(1, 9) + 1e-9
        v = u * rng.lognormal(0.0, rng.choice([0.02, 0.3, 1.0]), 12) * rng.choice([1.0, rng.lognormal(0.0, 1.5), 40.0])
        if rng.random() < 0.3:
            v[rng.integers(12)] += v.sum()
        made.append((u, v))
    return made


def collisions(space: Space, u: NDArray[Any], v: NDArray[Any]) -> dict[str, float]:
    """By sampler, how often codes of a pair agree at least, by the definitions of HASHING.md, section 11."""
    rho = min(1.0, float(naive.dense_scores("cosine", u, v[None])[0]))
    j = float(naive.dense_scores("ngmm" if space.shapes else "gmm", u, v[None])[0])
    angle = 1.0 - math.acos(rho) / math.pi
    found = {
        "gcws": j,
        "dart": j,
        "sign": sign_collision(rho),
        "argmax": argmax_collision(rho),
        "gcws_sign": j * angle,
        "dart_sign": j * angle,
    }
    return {sampler: found[sampler] for sampler in space.samplers}


@pytest.mark.parametrize("new", [LOOSE, ALONE], ids=["of rows as they are", "of shapes"])
def test_no_product_proves_too_much(new: Space, rng: np.random.Generator) -> None:
    """A part that says nothing of hashes and codes takes nothing for granted: no pair collides more seldom than it is said to."""
    tried, made = 0, pairs(rng, 60)
    for names in [*combinations(PARTS, 1), *combinations(PARTS, 2)]:
        parts = [*(KERNELS[name] for name in names), new]
        product = product_of(parts)
        tried += len(product.samplers)
        for u, v in made:
            score = math.prod(score_of(part)(u, v) for part in parts)
            for sampler, often in collisions(product, u, v).items():
                least = product.hashed_by(sampler).least_similarity(score)
                assert least <= often + 1e-6, (product.name, sampler, score)
            if product.codes and product.geometry == SHAPES:
                apart = float(np.abs(u / u.sum() - v / v.sum()).sum())
                assert product.best_score(apart, float(u.sum()), float(v.sum())) >= score - 1e-6, product.name
    assert tried >= 16


def test_what_nothing_ties_is_not_hashed() -> None:
    """Where no part is J of the rows that are hashed, nor all are functions of the cosine, there are no bands to prove by."""
    assert product_of([KERNELS["chi2"], LOOSE]).samplers == product_of([KERNELS["ngmm"], LOOSE]).samplers == ()
    assert product_of([KERNELS["acos"], ALONE]).samplers == product_of([KERNELS["rbf"], KERNELS["acos"], ALONE]).samplers == ()
    assert not product_of([KERNELS["acos"], ALONE]).codes
    assert product_of([KERNELS["acos"], KERNELS["rbf"]]).samplers == ("argmax", "sign")
    assert product_of([KERNELS["gmm"], LOOSE]).samplers == ("gcws",)


def test_what_a_product_cannot_print_is_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts print 0 … 1, in one of the ways that machine code knows."""
    for changed, why in (
        ({"printed_range": (0.0, 2.0)}, "prints more than 1"),
        ({"printed": math.sqrt}, "prints scores in a way of its own"),
    ):
        monkeypatch.setattr("kinbin.spaces.registry.KERNELS", {"new": replace(CHI2, **changed)})
        assert _no_part("new") == why


def test_a_product_of_what_has_no_sums_is_one() -> None:
    """A kernel need not say how its scores follow from sums: then its products do not, either."""
    assert product_of([KERNELS["ngmm"], ALONE]).pairwise is None
    assert product_of([KERNELS["ngmm"], CHI2]).pairwise is not None
