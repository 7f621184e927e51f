"""How scores of histograms are carried over to the min-max similarity by which they are hashed.

Rows u, v ≥ 0 sum to 1, and t = Σ |u − v| / 2, so J = (1 − t) / (1 + t). A kernel with 1 − score = Σ w φ(x) / φ(1), w = (u + v) / 2,
x = |u − v| / (u + v), φ convex with φ(0) = 0, has score ≤ U(t) = 1 − φ(t) / φ(1) by Jensen's inequality. So a pair that scores s
has t ≤ U⁻¹(s), and J ≥ (1 − t) / (1 + t) of that. (HASHING.md, section 9.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline
from kinbin.spaces.rounding import ROUNDING

__all__ = ["apart_of", "scores_vouching", "similarity_of"]


@inline
def apart_of(distance):
    """t of shapes that are so far apart in L1."""
    return min(max(0.5 * distance, 0.0), 1.0)


@inline
def similarity_of(apart):
    """J of shapes whose t this is."""
    apart = min(max(apart, 0.0), 1.0)
    return (1.0 - apart) / (1.0 + apart)


def scores_vouching(
    similarities: NDArray[np.float64], most: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> NDArray[np.float64]:  # fmt: skip
    """The scores from which on pairs are so similar at least; inf where nothing is. most: U of an array of t."""
    finite = similarities <= 1.0
    scores = np.full(similarities.shape, np.inf)
    scores[finite] = most((1.0 - similarities[finite]) / (1.0 + similarities[finite])) + ROUNDING
    return scores
