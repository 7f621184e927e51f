"""Laws of collision against quadrature and simulation; bounds made of them are never too high."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbin.hashing import IMPOSSIBLE, argmax_collision, cauchy_estimate, combined_collision, rho_at, sign_collision
from kinbin.hashing.laws import _angle
from naive_laws import argmax_law, argmax_laws, sign_law

NEAR_1 = 1 - 10.0 ** -np.arange(1, 17)
AWKWARD = np.concatenate([NEAR_1, -NEAR_1, [0.0, 0.5, -0.5, math.nextafter(0.5, 1), 1.0, -1.0]])
"""Cosines near both ends, and where the arc cosine changes its branch."""

LAWS = {"argmax": (argmax_collision, argmax_law), "sign": (sign_collision, sign_law)}


def cosines(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Awkward cosines and random ones, half of them near 1."""
    return np.concatenate([AWKWARD, rng.uniform(-1, 1, count), np.cos(rng.uniform(0, 0.2, count))])


def test_the_arc_cosine_is_that_of_the_c_library(rng: np.random.Generator) -> None:
    """The angle of a cosine is right to 1e-15, clipped outside of -1 … 1, and pi of NaN."""
    for rho in cosines(rng, 3_000):
        assert _angle(rho) == pytest.approx(math.acos(rho), abs=1e-15)
    assert (_angle(2.0), _angle(-2.0), _angle(math.nan)) == (0.0, math.pi, math.pi)


@pytest.mark.parametrize("name", LAWS)
def test_laws_are_below_the_truth_and_close_to_it(name: str, rng: np.random.Generator) -> None:
    """The law is below that of quadrature by 5e-7 (rounded numbers) and by at most 8e-7, unless it is 0."""
    law, exact = LAWS[name]
    for rho in cosines(rng, 20):
        truth, low = exact(rho), law(rho)
        assert low == 0.0 or truth - 8e-7 < low < truth - 4.9e-7
        assert low > 0.0 or truth < 8e-7


@pytest.mark.parametrize("name", LAWS)
def test_laws_rise(name: str, rng: np.random.Generator) -> None:
    """A greater cosine never has a smaller probability, but for the last bits."""
    law, _ = LAWS[name]
    values = [law(rho) for rho in np.sort(cosines(rng, 20_000))]
    assert np.diff(values).min() > -1e-15
    assert values[0] == 0.0
    assert law(math.nan) == law(-5.0) == 0.0
    assert law(5.0) == law(1.0)


def test_the_quadrature_is_right_where_the_law_is_known() -> None:
    """One component is a sign; at a right angle all of 32 codes are alike; equal rows always agree."""
    for rho in (-0.9, -0.1, 0.3, 0.99):
        assert argmax_law(rho, components=1) == pytest.approx(sign_law(rho), abs=1e-12)
    assert argmax_law(0.0) == pytest.approx(1 / 32, abs=1e-12)
    assert argmax_law(1.0) == pytest.approx(1.0, abs=1e-12)
    assert argmax_law(0.7, 160) == pytest.approx(argmax_law(0.7, 240), abs=1e-12)
    some = np.array([-0.99, -0.5, 0.1, 0.7, 0.999, 1 - 1e-9])
    assert argmax_laws(some) == pytest.approx([argmax_law(float(rho)) for rho in some], abs=1e-11)


@pytest.mark.parametrize("rho", [0.95, 0.6, -0.3])
def test_the_law_of_argmax_is_that_of_a_simulation(rho: float, rng: np.random.Generator) -> None:
    """NumPy's Gaussians agree as often as the quadrature says (300,000 draws, 4.5 standard errors)."""
    count = 300_000
    x = rng.standard_normal((count, 16))
    y = rho * x + math.sqrt(1 - rho * rho) * rng.standard_normal((count, 16))
    first, second = np.abs(x).argmax(axis=1), np.abs(y).argmax(axis=1)
    row = np.arange(count)
    share = np.mean((first == second) & (x[row, first] * y[row, second] > 0))
    expected = argmax_law(rho)
    assert abs(share - expected) < 4.5 * math.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize("name", ["argmax", "sign"])
def test_inverses_reach_what_they_promise(name: str, rng: np.random.Generator) -> None:
    """The least cosine of a probability has it by the law, and the next smaller one to 1e-9 has not."""
    law, _ = LAWS[name]
    p = np.concatenate([rng.uniform(0, 1, 200), 1 - 10.0 ** -np.arange(1.0, 6.0), 10.0 ** -np.arange(1.0, 9.0)])
    least = rho_at(name, p)  # type: ignore[arg-type]
    assert least.shape == p.shape
    for rho, probability in zip(least, p, strict=True):
        assert law(rho) >= probability
        assert law(rho - 1e-9 * (1 + abs(rho))) < probability or rho == -1.0


def test_inverses_tell_what_is_impossible_and_what_is_always_so() -> None:
    """A probability that no pair has, and NaN, need a cosine that no pair has; 0 and less need none. Shapes are kept."""
    for name in LAWS:
        found = rho_at(name, np.array([[1.0, 2.0, math.nan], [0.0, -1.0, -math.inf]]))  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, [[IMPOSSIBLE] * 3, [-1.0] * 3])


def test_combined_and_cauchy_laws_are_made_of_the_sign() -> None:
    """The combined law is the product, 0 for NaN; the estimate for Cauchy signs is 1 of equal rows and a half of disjoint ones."""
    assert combined_collision(0.3, 0.4) == 0.3 * sign_collision(0.4)
    assert combined_collision(math.nan, 0.4) == combined_collision(0.4, math.nan) == combined_collision(-1.0, 0.4) == 0.0
    assert cauchy_estimate(1.0) == 1.0
    assert cauchy_estimate(0.0) == 0.5
    assert cauchy_estimate(0.5) == pytest.approx(2 / 3, abs=1e-15)
