"""Paths of warping, and nearest points: what distances of series and of point sets are made of.

Arrays are (steps or points, dims) float32; arithmetic is float64, as in `distances.dtw` and `distances.hausdorff`, which define them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.alignment import MOST_CELLS, Alignment, Pair, Values, unaligned

__all__ = ["euclidean_steps", "hausdorff_points", "mean_hausdorff_points", "warping_path"]

_ROOT = "sqrt(x)"
_ROWS = 64
"""Points that are compared with all others at a time."""


def euclidean_steps(query: Values, item: Values) -> Alignment:
    """Step by step, what each adds to the squared distance."""
    squared = _squares(query.astype(np.float64) - item.astype(np.float64))
    return Alignment([Pair("step", i, i, part) for i, part in enumerate(squared.tolist())], outer=_ROOT)


def warping_path(query: Values, item: Values, window: float, distance: float) -> Alignment:
    """A path of least cost, pair by pair; of several the one that advances both where it can.

    Cost: 30 ns a pair of steps, 16 bytes each. distance: what is told of series too long for it.
    """
    n, m = len(query), len(item)
    if n * m > MOST_CELLS:
        return unaligned(distance, n * m, MOST_CELLS)
    radius = max(math.floor(window * max(n, m) + 1e-9), abs(n - m))
    costs = np.full((n, m), np.inf)
    for i in range(n):
        low, high = max(0, i - radius), min(m, i + radius + 1)
        costs[i, low:high] = _squares(item[low:high].astype(np.float64) - query[i].astype(np.float64))
    least = _cheapest(costs)
    pairs = []
    i, j = n - 1, m - 1
    while i >= 0 and j >= 0:
        pairs.append(Pair("step", i, j, float(costs[i, j])))
        before = (least[i, j], least[i, j + 1], least[i + 1, j])
        move = before.index(min(before))
        i, j = i - (move != 2), j - (move != 1)
    return Alignment(pairs[::-1], outer=_ROOT)


def _cheapest(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n + 1, m + 1) the least cost of a path to the pair before, of each: cells of an anti-diagonal depend on the two before it."""
    n, m = costs.shape
    least = np.full((n + 1, m + 1), np.inf)
    least[0, 0] = 0.0
    for diagonal in range(n + m - 1):
        i = np.arange(max(0, diagonal - m + 1), min(n, diagonal + 1))
        j = diagonal - i
        least[i + 1, j + 1] = costs[i, j] + np.minimum(np.minimum(least[i, j], least[i, j + 1]), least[i + 1, j])
    return least


def _squares(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) the squared lengths of rows (n, dims)."""
    summed: NDArray[np.float64] = np.einsum("ij,ij->i", differences, differences)
    return summed


def _nearest(points: Values, others: Values) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each point its nearest of the others, the first of several, and how far that is."""
    place, apart = np.empty(len(points), np.int64), np.empty(len(points))
    wide = others.astype(np.float64)
    for first in range(0, len(points), _ROWS):
        some = points[first : first + _ROWS].astype(np.float64)
        squared = sum((some[:, d, None] - wide[None, :, d]) ** 2 for d in range(wide.shape[1]))
        assert isinstance(squared, np.ndarray)
        place[first : first + _ROWS] = squared.argmin(axis=1)
        apart[first : first + _ROWS] = np.sqrt(squared.min(axis=1))
    return place, apart


def _pairs(query: Values, item: Values) -> tuple[list[tuple[int, int]], list[tuple[int, int]], NDArray[np.float64], NDArray[np.float64]]:
    """(query, item) of each point of the query and its nearest, the same of the item's, and both lists of distances."""
    there, apart = _nearest(query, item)
    back, back_apart = _nearest(item, query)
    return list(enumerate(there.tolist())), [(to, at) for at, to in enumerate(back.tolist())], apart, back_apart


def hausdorff_points(query: Values, item: Values, distance: float) -> Alignment:
    """The pair that is the distance: of all points that of which the nearest is farthest. The others of its side have part 0."""
    if len(query) * len(item) > MOST_CELLS:
        return unaligned(distance, len(query) * len(item), MOST_CELLS)
    there, back, apart, back_apart = _pairs(query, item)
    forth = apart.max() >= back_apart.max()
    what, pairs, lengths = ("query to item", there, apart) if forth else ("item to query", back, back_apart)
    decides = int(lengths.argmax())
    told = [
        Pair(what, at, to, length if place == decides else 0.0, length)
        for place, ((at, to), length) in enumerate(zip(pairs, lengths.tolist(), strict=True))
    ]
    return Alignment(told)


def mean_hausdorff_points(query: Values, item: Values, distance: float) -> Alignment:
    """The points of the side whose mean is the greater, with their nearest: each is its share of the mean."""
    if len(query) * len(item) > MOST_CELLS:
        return unaligned(distance, len(query) * len(item), MOST_CELLS)
    there, back, apart, back_apart = _pairs(query, item)
    forth = apart.mean() >= back_apart.mean()
    what, pairs, lengths = ("query to item", there, apart) if forth else ("item to query", back, back_apart)
    told = [Pair(what, at, to, length / len(lengths), length) for (at, to), length in zip(pairs, lengths.tolist(), strict=True)]
    return Alignment(told)
