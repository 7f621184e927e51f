"""Random times: from measured quantiles, or by a law. All of them are functions of a `random.Random`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

__all__ = ["Draw", "constant", "exponential", "of_quantiles", "quantile"]

Draw = Callable[[random.Random], float]


def constant(value: float) -> Draw:
    """Always the same."""
    return lambda _: value


def exponential(mean: float) -> Draw:
    """The exponential law."""
    return lambda rng: rng.expovariate(1.0 / mean)


def of_quantiles(values: Sequence[float]) -> Draw:
    """Values whose quantiles at 0, 1/(n-1), … 1 are these, straight lines between. Raises ValueError unless they ascend."""
    if len(values) < 2 or any(a > b for a, b in itertools.pairwise(values)):
        raise ValueError("quantiles are two values or more, ascending")
    held, steps = tuple(values), len(values) - 1

    def draw(rng: random.Random) -> float:
        place = rng.random() * steps
        below = int(place)
        return held[below] + (place - below) * (held[below + 1] - held[below])

    return draw


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies, straight lines between neighbours; ValueError where there are no values."""
    if not values:
        raise ValueError("no value has no quantile")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = min(int(place), max(0, len(ordered) - 2))
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
