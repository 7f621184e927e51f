"""What a pair of pyramids scores at most whose rows are so far apart: a table, rounded up.

P(l) exp(−Ψ(t_l) / λ), summed over the levels, is at least the score of a pair whose levels are t_l apart (half the L1 distance); and
t_0 ≤ t_1 ≤ …, since a sum of parts is never farther apart than the parts. Rows weigh level l by a_l, Σ a_l = 1: they are at most
Σ a_l t_l apart. So the most is U(t) = max Σ P(l) exp(−Ψ(t_l) / λ) over 0 ≤ t_0 ≤ t_1 ≤ … ≤ 1 with Σ a_l t_l ≥ t. Points of a grid stand
for all: to round every t_l down makes no term smaller, and Σ a_l t_l smaller by no more than the grid's step. (HASHING.md, section 9.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BASES", "STEPS", "most_of", "shares_of"]

BASES = ("tv", "chi2", "jd", "h2", "h1")
"""Divergences ψ: Σ |u − v|; Σ (u − v)² / (u + v); the Jensen divergence in nats; Σ (√u − √v)²; Σ |√u − √v|."""
STEPS = 2048
"""Of the table."""
_POINTS = {1: 4096, 2: 600, 3: 120, 4: 52}
"""Of the grid, by the number of levels: some 300,000 combinations at most."""

_Array = NDArray[np.float64]
_LEAST: dict[str, Callable[[_Array], _Array]] = {
    "tv": lambda t: 2.0 * t,
    "chi2": lambda t: 2.0 * t * t,
    "jd": lambda t: 0.5 * ((1.0 + t) * np.log1p(t) + (1.0 - t) * np.log1p(-np.minimum(t, 1.0 - 1e-16))),
    "h2": lambda t: 2.0 * (1.0 - np.sqrt(1.0 - t * t)),
    "h1": np.zeros_like,
}
"""Ψ(t), at most ψ of shapes that are t apart: Jensen's inequality (`spaces.transfer`); of "h1" nothing is used."""


def shares_of(shares: _Array) -> _Array:
    """(levels,) P(l): the probability that the division ends at level l, of ε (levels − 1,)."""
    reached = np.concatenate([[1.0], np.cumprod(shares)])
    ended: _Array = reached * np.append(1.0 - shares, 1.0)
    return ended


def most_of(base: str, width: float, shares: _Array, weights: _Array) -> _Array:
    """(STEPS + 1,) U at t = 0, 1 / STEPS, …, 1. width: λ; shares: ε (levels − 1,); weights: a (levels,), with the sum 1.

    Cost: 20 to 50 ms.
    """
    count = _POINTS[len(weights)]
    at = np.linspace(0.0, 1.0, count + 1)
    terms = np.exp(-_LEAST[base](at) / width) * shares_of(shares)[:, None]
    # Level by level: the points of the levels so far, with the last one's t.
    last = np.arange(count + 1)
    apart, score = weights[0] * at, terms[0]
    for level in range(1, len(weights)):
        sizes = count + 1 - last
        owner = np.repeat(np.arange(len(last)), sizes)
        chosen = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + last[owner]
        last, apart, score = chosen, apart[owner] + weights[level] * at[chosen], score[owner] + terms[level][chosen]
    # What lies in a cell of the grid is apart by up to a step more than the cell's corner.
    reach = np.minimum(np.floor((apart + 1.0 / count) * STEPS + 1e-9).astype(np.int64), STEPS)
    best = np.zeros(STEPS + 1)
    np.maximum.at(best, reach, score)
    most: _Array = np.maximum.accumulate(best[::-1])[::-1]
    return np.minimum(most * (1.0 + 1e-12), 1.0)
