"""The arithmetic that hash values rest on, in exactly the written order (HASHING.md, section 1).

Only integer operations and IEEE + - * / on float64: no libm, no numpy logarithm, no random generator.
Those differ by an ulp between processors and releases, and hashes are stored for ever.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kinbin.native.jit import inline

__all__ = [
    "DOMAIN_ARGMAX",
    "DOMAIN_CAUCHY",
    "DOMAIN_COMBINED",
    "DOMAIN_DARTS",
    "DOMAIN_GCWS_CODES",
    "DOMAIN_GCWS_PARAMETERS",
    "DOMAIN_SIGN",
    "DOMAIN_SLOTS",
    "GAMMA",
    "MAX_BANDS",
    "MAX_ROWS",
    "domain_key",
    "mix64",
    "neglog32",
    "ordered_log",
    "split_feature",
    "unit",
]

MAX_ROWS: Final = 8
"""The most hashes that one band concatenates (r): sketches x = 0 … 7."""

MAX_BANDS: Final = 256
"""The most bands (L): hashes j = 0 … 255 of each sketch."""

# Values on disk depend on every constant below: none may ever change under one HASH_VERSION.
GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

DOMAIN_GCWS_PARAMETERS = np.uint64(1)
DOMAIN_GCWS_CODES = np.uint64(2)
DOMAIN_DARTS = np.uint64(3)
DOMAIN_SLOTS = np.uint64(4)
"""Not stored: only places features in the parameter table."""
DOMAIN_ARGMAX = np.uint64(5)
DOMAIN_SIGN = np.uint64(6)
DOMAIN_CAUCHY = np.uint64(7)
DOMAIN_COMBINED = np.uint64(8)

_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_2 = 1.4142135623730951

_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_TWO_52_BITS = np.int64(0x4330000000000000)
_TWO_52 = 4503599627370496.0
_LN2 = 0.6931471805599453


@inline
def mix64(z):  # type: ignore[no-untyped-def]
    """A bijection of uint64 that looks random (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@inline
def domain_key(seed, domain, number):  # type: ignore[no-untyped-def]
    """Key `number` of a domain: keeps the random numbers of different purposes apart. All uint64."""
    return mix64(mix64(seed + domain * GAMMA) + number * GAMMA)


@inline
def split_feature(feature, value):  # type: ignore[no-untyped-def]
    """The split feature of the papers' transform: 2f for a positive value, 2f+1 for a negative one (uint64)."""
    return (feature << np.uint64(1)) | np.uint64(value < 0)


@inline
def unit(h):  # type: ignore[no-untyped-def]
    """The top 52 bits of `h` as a float64 in (0, 1), never 0 nor 1; exact."""
    return (np.float64(h >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)


@inline
def ordered_log(x):  # type: ignore[no-untyped-def]
    """Natural logarithm of a positive normal float64, to about 3e-14; the same bits everywhere."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) - 1023
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if mantissa > _SQRT_2:
        mantissa = mantissa * 0.5
        exponent += 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 0.06666666666666667
    p = p * z + 0.07692307692307693
    p = p * z + 0.09090909090909091
    p = p * z + 0.1111111111111111
    p = p * z + 0.14285714285714285
    p = p * z + 0.2
    p = p * z + 0.3333333333333333
    tail = 2.0 * s + 2.0 * s * z * p
    return exponent * _LN2_HIGH + (tail + exponent * _LN2_LOW)


@inline
def neglog32(h):  # type: ignore[no-untyped-def]
    """-log((h + 0.5) / 2**32) of a uint64 below 2**32: an Exp(1) number; without a branch, so that it vectorises."""
    x = np.int64(h | np.uint64(0x4330000000000000)).view(np.float64) - _TWO_52 + 0.5
    bits = np.float64(x).view(np.int64) - _SQRT_HALF_BITS
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) + _SQRT_HALF_BITS).view(np.float64)
    # the exponent as a float through 2**52, because only AVX-512 converts int64 vectors
    exponent = np.int64(((bits >> 52) + 64) | _TWO_52_BITS).view(np.float64) - (_TWO_52 + 96.0)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    p = 0.15384615384615385
    p = p * z + 0.18181818181818182
    p = p * z + 0.2222222222222222
    p = p * z + 0.2857142857142857
    p = p * z + 0.4
    p = p * z + 0.6666666666666666
    return -(exponent * _LN2 + (s + s + s * z * p))
