"""How often codes of the cosine's samplers collide: as a function of the cosine, rounded down, and its inverse, rounded up.

`sign`: 1 - acos(rho) / pi (Charikar, "Similarity Estimation Techniques from Rounding Algorithms", section 3). `argmax`: an integral over
the plane, done once by quadrature and kept as a Chebyshev series in the angle (HASHING.md, section 12, has the proof). The combined
samplers: the product of the min-max kernel and the first. `cauchy` has an approximate law, which no bound may be made of.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing.certificate import IMPOSSIBLE
from kinbin.native.jit import inline, strict

__all__ = ["argmax_collision", "cauchy_estimate", "combined_collision", "rho_at", "sign_collision"]

_PI: Final = 3.141592653589793

_SERIES: Final = (
    2.6818768819192e-01, -4.4022894132463e-01, 2.3328317402771e-01, -6.4364640500569e-02,
    -2.2419832967506e-03, 5.4070516630136e-03, 1.0030648059921e-03, -9.5309828398810e-04,
    -3.0181915439441e-04, 1.5866152834698e-04, 8.6455552806244e-05, -1.9553647524153e-05,
    -1.9062313120600e-05, -1.1393883840378e-07, 2.4505516600685e-06, 8.0466188154946e-07,
    1.5656433735020e-07, -1.7305367002259e-07, -1.4914475767129e-07, -5.6912462833382e-09,
    2.1706554788732e-08, 1.0023334083241e-08, 4.2495609255590e-09, -1.1085045748773e-09,
    -1.8025719947416e-09, -4.4632930871271e-10, -3.8315765589340e-11, 1.0730417324386e-10,
    1.1019313547532e-10, 1.9489623543444e-11, -5.1283490317511e-12, -7.6175409531518e-12,
)  # fmt: skip
"""Chebyshev coefficients of the law of `argmax` over the angle 0 … pi; the series is off by less than 3e-11."""

_STEPS: Final = 2_048

_NUMBERS: Final = 5e-7
"""More than the random numbers, rounded to float32 and off by 1e-8 of themselves, change a probability; and than `_angle` is off."""

_CHORD: Final = 2.5e-7
"""More than a chord between neighbouring entries is off: the law's second derivative is at most 0.774, times (pi / 2048)**2 / 8."""


def _table() -> NDArray[np.float64]:
    """The law of `argmax`, rounded down, at angles 0 … pi in equal steps: falls."""
    exact = np.polynomial.chebyshev.chebval(np.linspace(-1.0, 1.0, _STEPS + 1), _SERIES)
    return np.minimum.accumulate(np.maximum(exact - _NUMBERS - _CHORD, 0.0))


_TABLE = _table()

_HALVINGS: Final = 60


@inline
def _ratio(z):  # type: ignore[no-untyped-def]
    """(asin(s) - s) / s as a function of z = s**2, 0 … 1/4: the rational function of fdlibm's acos."""
    p = 3.47933107596021167570e-05
    p = p * z + 7.91534994289814532176e-04
    p = p * z - 4.00555345006794114027e-02
    p = p * z + 2.01212532134862925881e-01
    p = p * z - 3.25565818622400915405e-01
    p = p * z + 1.66666666666666657415e-01
    q = 7.70381505559019352791e-02
    q = q * z - 6.88283971605453293030e-01
    q = q * z + 2.02094576023350569471e00
    q = q * z - 2.40339491173441421878e00
    q = q * z + 1.0
    return p * z / q


@strict
def _angle(rho):  # type: ignore[no-untyped-def]
    """acos of a float64 clipped to -1 … 1 (NaN: pi), to 1e-15, by + - * / and the square root alone: the same everywhere."""
    if not rho > -1.0:
        return _PI
    if rho >= 1.0:
        return 0.0
    if abs(rho) <= 0.5:
        return 0.5 * _PI - (rho + rho * _ratio(rho * rho))
    z = 0.5 * (1.0 - abs(rho))
    s = np.sqrt(z)
    half = s + s * _ratio(z)
    return 2.0 * half if rho > 0.0 else _PI - 2.0 * half


@strict
def argmax_collision(rho):  # type: ignore[no-untyped-def]
    """At most the probability that codes of "argmax" agree, of rows of cosine rho; some 7e-7 below it. float64, for kernels and Python.

    Rises with rho, 0 … 1 - 7.5e-7; rho is clipped to -1 … 1, NaN counts as -1. Near 1 it falls by 1.2 for each radian, and an error
    of 1e-6 in rho is 0.0014 radians: take off what rho may be too large by first. About 10 ns.
    """
    at = _angle(rho) * (_STEPS / _PI)
    i = min(int(at), _STEPS - 1)
    return _TABLE[i] + (at - i) * (_TABLE[i + 1] - _TABLE[i])


@strict
def sign_collision(rho):  # type: ignore[no-untyped-def]
    """At most the probability that codes of "sign" agree, of rows of cosine rho: 1 - acos(rho) / pi, less 5e-7.

    float64, for kernels and Python. Rises with rho; rho is clipped to -1 … 1, NaN counts as -1.
    """
    return max(1.0 - _angle(rho) / _PI - _NUMBERS, 0.0)


@strict
def combined_collision(similarity, rho):  # type: ignore[no-untyped-def]
    """At most the probability that codes of "gcws_sign" or "dart_sign" agree: min-max similarity × (1 - acos(rho) / pi), less 5e-7.

    float64, for kernels and Python. NaN of either gives 0.
    """
    return similarity * sign_collision(rho) if similarity > 0.0 else 0.0


@strict
def cauchy_estimate(chi2):  # type: ignore[no-untyped-def]
    """About the probability that codes of "cauchy" agree, of rows >= 0 that sum to 1: 1 - acos(chi2) / pi, chi2 = sum 2uv / (u + v).

    float64, for kernels and Python. It is an approximation, above and below the truth (Li, Samorodnitsky and Hopcroft, "Sign Cauchy
    Projections and Chi-Square Kernel", section 4): good for ordering and for choosing r, worthless as a bound.
    """
    return 1.0 - _angle(chi2) / _PI


@strict
def _fill(values, argmax, least):  # type: ignore[no-untyped-def]
    """Write to least (m,) the smallest rho found by halving whose collision probability is at least each of values (m,)."""
    for i in range(values.shape[0]):
        low, high = -1.0, 1.0
        most = argmax_collision(high) if argmax else sign_collision(high)
        if not values[i] <= most:
            least[i] = IMPOSSIBLE
            continue
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            reached = argmax_collision(middle) if argmax else sign_collision(middle)
            if reached >= values[i]:
                high = middle
            else:
                low = middle
        least[i] = high if values[i] > 0.0 else -1.0


def rho_at(sampler: Literal["argmax", "sign"], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least cosines whose pairs collide with at least these probabilities; an array of the shape of p.

    Errs upwards: `argmax_collision` (`sign_collision`) of what is returned is at least p. IMPOSSIBLE where no cosine reaches it, and
    for NaN; -1 for p <= 0. About 4 µs each.
    """
    values = np.ascontiguousarray(p, np.float64)
    least = np.empty(values.shape)
    _fill(values.reshape(-1), sampler == "argmax", least.reshape(-1))
    return least
