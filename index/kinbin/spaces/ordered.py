"""Scores of spaces whose numbers fall below zero, or are distances: how they become what the engine ranks by.

The engine ranks by scores from 0 on, the larger the nearer. A pair that scores `ALIKE` or less has nothing in common: calibration does
not count it as a neighbour. So a space maps what it measures to such a score, exactly to the last bits, and prints the inverse.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline
from kinbin.rows.topk import ALIKE

__all__ = [
    "LEAST_DISTANCE", "distance_of", "distance_score", "farthest_for", "signed_of", "signed_score", "signed_value", "whole_distance_of",
]  # fmt: skip

LEAST_DISTANCE = 2.0**-60
"""Distances below it are printed as 0: it keeps the score of a row at no distance finite."""


@inline
def signed_score(value):
    """The score of a value from -1 to 1: itself above 0; what is below lies under `ALIKE`, in its order."""
    return value if value > ALIKE else ALIKE * (1.0 + min(value, 0.0))


@inline
def signed_value(score):
    """The value of a score."""
    return score if score > ALIKE else score / ALIKE - 1.0


def signed_of(score: Any) -> Any:
    """The value of a score, or an array (any shape) of them."""
    if isinstance(score, np.ndarray):
        values: NDArray[np.float64] = np.where(score > ALIKE, score, score / ALIKE - 1.0)
        return values
    return score if score > ALIKE else score / ALIKE - 1.0


@inline
def distance_score(distance):
    """The score of a distance from 0 on: its inverse. Ratios of scores are those of distances."""
    return 1.0 / (distance + LEAST_DISTANCE)


@inline
def farthest_for(cutoff):
    """The greatest distance that may score so much, a hair more for rounding; infinite where anything does."""
    return (1.0 + 1e-9) / cutoff if cutoff > 0.0 else np.inf


def whole_distance_of(score: Any) -> Any:
    """The distance of a score, or an array (any shape) of them, where distances are whole numbers; NaN stays NaN."""
    whole = np.rint(distance_of(score))
    return whole if isinstance(score, np.ndarray) else float(whole)


def distance_of(score: Any) -> Any:
    """The distance of a score, or an array (any shape) of them; NaN stays NaN."""
    return np.maximum(1.0 / score - LEAST_DISTANCE, 0.0) if isinstance(score, np.ndarray) else max(1.0 / score - LEAST_DISTANCE, 0.0)
