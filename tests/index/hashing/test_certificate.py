"""The theory of shared bands against exact and independent arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from kinbin.hashing import IMPOSSIBLE, MAX_BANDS, binomial_tail, certificate, similarity_needed, suggested_similarity
from kinbin.native.jit import strict


def exact_tail(bands: int, p: float, c: int) -> Fraction:
    """P[Binomial(bands, p) >= c] of the float p, without rounding."""
    share = Fraction(p)
    return sum((math.comb(bands, i) * share**i * (1 - share) ** (bands - i) for i in range(c, bands + 1)), Fraction(0))


@strict
def tails(bands, p, out):  # type: ignore[no-untyped-def]
    """binomial_tail called from a kernel, as the search does."""
    for c in range(out.shape[0]):
        out[c] = binomial_tail(bands, p, c)


@pytest.mark.parametrize("bands", [1, 2, 7, 64, 128, 200, MAX_BANDS])
@pytest.mark.parametrize("p", [1e-300, 1e-12, 1e-3, 0.1, 0.37, 0.5, 0.9, 0.999, 1 - 1e-12, 1 - 2**-53])
def test_the_tail_is_that_of_scipy(bands: int, p: float) -> None:
    """Every tail agrees with scipy's to 1e-10 relative (down to 1e-280) from Python, and exactly so from a kernel."""
    found = np.array([binomial_tail(bands, p, c) for c in range(bands + 2)])
    np.testing.assert_allclose(found, binom.sf(np.arange(bands + 2) - 1, bands, p), rtol=1e-10, atol=1e-280)
    inside = np.empty(bands + 2)
    tails(bands, p, inside)
    np.testing.assert_array_equal(inside, found)


@pytest.mark.parametrize(
    ("bands", "p", "c"), [(256, 0.3, 77), (256, 0.3, 150), (200, 0.01, 1), (128, 0.9, 128), (256, 0.999, 200), (3, 0.5, 2)]
)
def test_the_tail_is_exact_to_twelve_digits(bands: int, p: float, c: int) -> None:
    """Tails on both sides of the mode agree with rational arithmetic to 1e-12 relative."""
    assert binomial_tail(bands, p, c) == pytest.approx(float(exact_tail(bands, p, c)), rel=1e-12)


def test_the_tail_at_its_ends() -> None:
    """Certain and impossible events, p outside 0 … 1, NaN and too many bands have safe answers."""
    for bands in (0, 1, MAX_BANDS):
        assert binomial_tail(bands, 0.5, 0) == binomial_tail(bands, 0.0, -3) == 1.0
        assert binomial_tail(bands, 0.5, bands + 1) == binomial_tail(bands, 1.0, bands + 1) == 0.0
    assert binomial_tail(5, 0.0, 1) == binomial_tail(5, -0.0, 1) == binomial_tail(5, -0.1, 1) == 0.0
    assert binomial_tail(5, 1.0, 5) == binomial_tail(5, 1.5, 5) == 1.0
    assert binomial_tail(5, math.nan, 1) == 0.0
    assert binomial_tail(MAX_BANDS + 1, 0.9, 1) == binomial_tail(-1, 0.9, 0) == 0.0
    assert binomial_tail(MAX_BANDS, 5e-324, 1) == pytest.approx(256 * 5e-324, abs=0.0)


@given(st.integers(1, MAX_BANDS), st.floats(0, 1), st.floats(0, 1), st.integers(1, MAX_BANDS))
def test_the_tail_is_monotone(bands: int, p: float, q: float, c: int) -> None:
    """More similarity never certifies less, one more band asked for never certifies more; always within 0 … 1."""
    low, high = sorted((p, q))
    assert 0.0 <= binomial_tail(bands, low, c) <= binomial_tail(bands, high, c) + 1e-12 <= 1.0 + 1e-12
    assert binomial_tail(bands, p, c + 1) <= binomial_tail(bands, p, c) + 1e-12


def test_the_certificate_is_the_tail_of_the_shared_bands() -> None:
    """certificate(J, r, L, c) is P[Binomial(L, J**r) >= c]."""
    for similarity, r, bands, c in ((0.7, 4, 128, 20), (0.99, 1, 256, 250), (0.2, 8, 200, 1), (1.0, 3, 10, 10), (0.0, 3, 10, 1)):
        assert certificate(similarity, r, bands, c) == pytest.approx(binom.sf(c - 1, bands, similarity**r), rel=1e-11, abs=1e-300)


@pytest.mark.slow
@pytest.mark.parametrize("target", [1e-6, 0.5, 0.9, 0.999, 1 - 1e-9])
@pytest.mark.parametrize(("r", "bands"), [(1, 1), (1, 128), (4, 128), (6, 200), (8, 256)])
def test_the_similarity_needed_is_the_least_that_certifies(r: int, bands: int, target: float) -> None:
    """At each entry the target is certified (exactly, not nearly), 2e-9 below it is not; entries rise with c."""
    needed = similarity_needed(r, bands, target)
    assert needed.shape == (bands + 1,)
    assert needed[0] == 0.0
    assert np.all(np.diff(needed) >= 0)
    assert needed[-1] <= 1.0
    for c in range(1, bands + 1):
        assert certificate(needed[c], r, bands, c) >= target
        assert certificate(needed[c] - 2e-9, r, bands, c) < target + 2e-12
    for c in sorted({1, bands // 3 + 1, bands}):
        assert exact_tail(bands, math.prod([float(needed[c])] * r), c) >= Fraction(target)


def test_targets_at_and_beyond_certainty() -> None:
    """Certainty needs identical rows; more than certainty is impossible; a target of nothing is refused."""
    assert similarity_needed(4, 128, 1.0)[1:].tolist() == [1.0] * 128
    assert similarity_needed(4, 128, 1.01)[1:].tolist() == [IMPOSSIBLE] * 128
    assert IMPOSSIBLE > 1.0
    for target in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="target must be positive"):
            similarity_needed(4, 128, target)


def test_thresholds_are_made_once_and_cannot_be_changed() -> None:
    """The same question gives the same read-only array."""
    needed = similarity_needed(3, 64, 0.8)
    assert similarity_needed(3, 64, 0.8) is needed
    with pytest.raises(ValueError, match="read-only"):
        needed[1] = 0.0


@given(st.integers(1, 8), st.integers(1, MAX_BANDS), st.data())
def test_the_suggested_similarity_expects_as_many_shared_bands(r: int, bands: int, data: st.DataObject) -> None:
    """At the suggested similarity the expected number of shared bands is c."""
    c = data.draw(st.integers(0, bands))
    assert bands * suggested_similarity(c, r, bands) ** r == pytest.approx(c, rel=1e-12)


def test_wrong_sizes_are_refused() -> None:
    """r and bands outside their limits are refused in words."""
    for r, bands in ((0, 1), (9, 1), (1, 0), (1, 257)):
        for call in (lambda r=r, bands=bands: certificate(0.5, r, bands, 1), lambda r=r, bands=bands: similarity_needed(r, bands, 0.5)):
            with pytest.raises(ValueError, match="must be 1 to"):
                call()
        with pytest.raises(ValueError, match="must be 1 to"):
            suggested_similarity(1, r, bands)
