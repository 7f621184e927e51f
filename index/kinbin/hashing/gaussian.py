"""Random numbers of projections, each a function of (seed, family, x, feature, n) alone: Gaussian and Cauchy (HASHING.md, section 10).

A Gaussian is the quantile function of the normal distribution at one of 2**32 midpoints, by a rational function of
-log(4 u (1 - u)), so that it vectorises: no table, no branch, no libm. Its relative error is below 1e-8, and less than what rounding
to float32 does after it. A Cauchy number is the ratio of two Gaussians.
"""

from __future__ import annotations

import numpy as np

from kinbin.hashing.arithmetic import GAMMA, mix64
from kinbin.native.jit import inline, strict

__all__ = ["fill_cauchy", "fill_gaussians"]

# Values on disk depend on every constant below: none may ever change under one HASH_VERSION.
_LOW = np.uint64(0xFFFFFFFF)
_HALF_WIDTH = np.uint64(32)
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_TWO_52_BITS = np.int64(0x4330000000000000)
_TWO_52 = 4503599627370496.0
_TWO_31 = 2147483648.0
_LN2 = 0.6931471805599453


@inline
def _neglog(x):  # type: ignore[no-untyped-def]
    """-log(x) of a float64 from 2**-33 to 1, to about 1e-11; without a branch, as `neglog32`."""
    bits = np.float64(x).view(np.int64) - _SQRT_HALF_BITS
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) + _SQRT_HALF_BITS).view(np.float64)
    # the exponent as a float through 2**52, because only AVX-512 converts int64 vectors
    exponent = np.int64(((bits >> 52) + 64) | _TWO_52_BITS).view(np.float64) - (_TWO_52 + 64.0)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 0.15384615384615385
    p = p * z + 0.18181818181818182
    p = p * z + 0.2222222222222222
    p = p * z + 0.2857142857142857
    p = p * z + 0.4
    p = p * z + 0.6666666666666666
    return -(exponent * _LN2 + (s + s + s * z * p))


@inline
def _gaussian(h):  # type: ignore[no-untyped-def]
    """The normal quantile of (h + 1/2) / 2**32 as float64, h a uint64 below 2**32; never 0, at most 6.34 in magnitude."""
    y = (np.int64(h | np.uint64(0x4330000000000000)).view(np.float64) - _TWO_52 + 0.5) / _TWO_31
    w = _neglog(y * (2.0 - y))
    p = 1.916155416939e-07
    p = p * w + 5.937812005947e-05
    p = p * w + 0.001138377582378
    p = p * w + 0.01252520913173
    p = p * w + 0.09101084463525
    p = p * w + 0.4474535033621
    p = p * w + 1.253314125078
    q = 3.744079962708e-06
    q = q * w + 0.0002485932254914
    q = q * w + 0.002312069138491
    q = q * w + 0.03465777128157
    q = q * w + 0.0952165706222
    q = q * w + 1.0
    return (y - 1.0) * p / q


@strict
def fill_gaussians(key, target):  # type: ignore[no-untyped-def]
    """Write Gaussians n = 0, 1, … of a (feature, x): target (width,) float32. Some 2 ns each."""
    for n in range(target.shape[0]):
        target[n] = np.float32(_gaussian(mix64(key + np.uint64(n) * GAMMA) >> _HALF_WIDTH))


@strict
def fill_cauchy(key, target):  # type: ignore[no-untyped-def]
    """Write Cauchy numbers n = 0, 1, … of a (feature, x): target (width,) float32. Some 3 ns each."""
    for n in range(target.shape[0]):
        h = mix64(key + np.uint64(n) * GAMMA)
        target[n] = np.float32(_gaussian(h >> _HALF_WIDTH) / _gaussian(h & _LOW))
