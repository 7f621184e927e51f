"""The theory of shared bands: the lower bound on recall that an answer carries.

A similarity J is a value of the min-max kernel (ngmm or gmm; a gint value g is the ngmm value g / (2 - g)).
Two rows of similarity J share a band of r hashes with probability J**r, independently for each of L
bands, so that the number they share is Binomial(L, J**r). A search verifies candidates by shared bands, most first, and
stops at a level c once P[Binomial(L, s**r) >= c] reaches an aim, s being the k-th best score so far. Then each true neighbour
was found with probability at least the aim; not with that of the tail at c, which depends on the same hashes. Where the bands
are exhausted first, the bound is the tail at one shared band. The proof is in HASHING.md, "The recall bound". Chance
agreements only add shared bands, so they leave the bound true.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._arrays import check_sizes
from kinbin.hashing.arithmetic import MAX_BANDS
from kinbin.native.jit import strict

__all__ = ["IMPOSSIBLE", "binomial_tail", "certificate", "similarity_needed", "suggested_similarity"]

IMPOSSIBLE: Final = 2.0
"""A similarity that no pair has."""

_TOLERANCE: Final = 1e-9
"""Width to which `similarity_needed` closes in."""

_SLACK: Final = 1e-12
"""More than the rounding error of `binomial_tail`, so that what it certifies is true of the exact tail too."""

_LOG_FACTORIAL = np.array([math.lgamma(i + 1.0) for i in range(MAX_BANDS + 1)])


@strict
def binomial_tail(bands, p, c):  # type: ignore[no-untyped-def]
    """P[Binomial(bands, p) >= c] as float64, to about 1e-13; for Python and for kernels.

    bands 0 … MAX_BANDS (0.0 beyond: nothing is certified), p clipped to 0 … 1 (NaN: 0.0), c any integer.
    Sums the smaller terms first away from the mode: the tail itself above it, its complement below.
    """
    if bands > MAX_BANDS or bands < 0 or not p >= 0.0:
        return 0.0
    if c <= 0:
        return 1.0
    if c > bands or p == 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0
    q = 1.0 - p
    upper = c > bands * p
    i = c if upper else c - 1
    log_term = _LOG_FACTORIAL[bands] - _LOG_FACTORIAL[i] - _LOG_FACTORIAL[bands - i] + i * math.log(p) + (bands - i) * math.log1p(-p)
    term = math.exp(log_term)
    total = term
    if upper:
        while i < bands and term > 0.0:
            term *= (bands - i) / (i + 1.0) * (p / q)
            total += term
            i += 1
        return min(total, 1.0)
    while i > 0 and term > 0.0:
        term *= i / (bands - i + 1.0) * (q / p)
        total += term
        i -= 1
    return max(1.0 - total, 0.0)


def certificate(similarity: float, r: int, bands: int, c: int) -> float:
    """The probability that a pair of at least this similarity shares at least c of `bands` bands of r hashes."""
    check_sizes(r, bands)
    return float(binomial_tail(bands, _shared_band(similarity, r), c))


@lru_cache(maxsize=1024)
def similarity_needed(r: int, bands: int, target: float) -> NDArray[np.float64]:
    """Thresholds (bands+1,), read-only: a k-th score >= entry c certifies `target` once all with >= c shared bands are verified.

    Entry 0 is 0.0 (all candidates and strangers verified); entries rise with c, are at most 1.0, and
    are rounded up by at most 1e-9. For a target above 1 every entry c >= 1 is IMPOSSIBLE.
    """
    check_sizes(r, bands)
    if not target > 0.0:
        raise ValueError(f"target must be positive, not {target}")
    needed = np.zeros(bands + 1)
    needed[1:] = IMPOSSIBLE
    low = 0.0
    for c in range(1, bands + 1):
        if target > 1.0:
            break
        high = 1.0
        while high - low > _TOLERANCE:
            middle = 0.5 * (low + high)
            if binomial_tail(bands, _shared_band(middle, r), c) >= target + _SLACK:
                high = middle
            else:
                low = middle
        needed[c] = high
    needed.flags.writeable = False
    return needed


def suggested_similarity(c: int, r: int, bands: int) -> float:
    """The similarity at which c shared bands of `bands` are expected: orders levels of runs with different r and L."""
    check_sizes(r, bands)
    return float((c / bands) ** (1.0 / r))


def _shared_band(similarity: float, r: int) -> float:
    """J**r by plain products."""
    p = similarity
    for _ in range(r - 1):
        p *= similarity
    return p
