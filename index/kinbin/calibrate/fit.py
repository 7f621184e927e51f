"""Times of repeated runs, and the costs that explain them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Measured", "coefficients", "times_of"]

_ROUNDS = 25
_LEAST_ROUNDS = 3
_TRIES = 4
"""Something else may have run meanwhile."""
_SPREAD = 0.3
"""A cost is left out if its quartiles over the rounds are farther apart than such a share of it."""


def times_of(points: Sequence[Callable[[], object]], rounds: int) -> NDArray[np.float64]:
    """(rounds, points) nanoseconds of each call, after one that is not counted.

    All are called in every round, so that a machine that slows down for a while slows all of them.
    """
    for point in points:
        point()
    out = np.empty((rounds, len(points)))
    for row in out:
        for place, point in enumerate(points):
            began = time.perf_counter_ns()
            point()
            row[place] = time.perf_counter_ns() - began
    return out


def coefficients(times: NDArray[np.float64], counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(values (c,), spreads (c,)): what each of c things takes, if points do `counts` (points, c) of them in `times` (rounds, points).

    Least squares of relative errors, of the medians. A spread is the distance of the quartiles of the fits to single rounds, over
    the value.
    """
    medians = np.median(times, axis=0)
    solve = np.linalg.pinv(counts / medians[:, None])
    values: NDArray[np.float64] = solve @ np.ones(len(medians))
    low, high = np.quantile(times / medians @ solve.T, [0.25, 0.75], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return values, (high - low) / np.abs(values)


class Measured:
    """The costs that were measured so far, and how large experiments are."""

    def __init__(self, scale: float) -> None:
        self.costs: dict[str, float] = {}
        self.scale = scale
        self.rounds = max(_LEAST_ROUNDS, round(_ROUNDS * min(1.0, scale)))

    def rows(self, count: int) -> int:
        """So many rows, scaled."""
        return max(256, int(count * self.scale))

    def fit(
        self, names: Sequence[str], points: Sequence[Callable[[], object]], counts: Sequence[Sequence[float]],
        less: Callable[[dict[str, float]], Sequence[float]] | None = None,
    ) -> None:  # fmt: skip
        """Time points, and keep what is explained well; once more where something is not, some times.

        names: of the columns of `counts` (points, c); "" is none of the costs. less: of the known costs, what of each column is not
        part of it; all are left out if one that is asked for is not known.
        """
        try:
            known = [0.0] * len(names) if less is None else less(self.costs)
        except KeyError:
            return
        for _ in range(_TRIES):
            values, spreads = coefficients(times_of(points, self.rounds), np.array(counts, np.float64))
            for name, whole, spread, part in zip(names, values.tolist(), spreads.tolist(), known, strict=True):
                # The spread is that of the whole: it has to be small beside what is left.
                if name and name not in self.costs and whole > part and spread * whole <= _SPREAD * (whole - part):
                    self.costs[name] = whole - part
            if all(name in self.costs for name in names if name):
                return
