"""Slow twins of the distances of series and of point sets, from their definitions, in float64. Nothing of Kinbin is imported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["anchored", "band", "dtw", "envelope", "hausdorff", "modified_hausdorff", "parts_of_time"]

Points = NDArray[np.float64]


def band(n: int, m: int, window: float) -> int:
    """How far apart two steps may be that are paired, of series of n and of m steps."""
    return max(math.floor(window * max(n, m) + 1e-9), abs(n - m))


def dtw(x: Any, y: Any, window: float) -> float:
    """The root of the least sum of squared distances along a path within the band; x (n, dims), y (m, dims)."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    wide = band(len(x), len(y), window)
    cells = np.full((len(x) + 1, len(y) + 1), np.inf)
    cells[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            if abs(i - j) <= wide:
                cells[i + 1, j + 1] = ((x[i] - y[j]) ** 2).sum() + min(cells[i, j], cells[i, j + 1], cells[i + 1, j])
    return math.sqrt(cells[-1, -1])


def envelope(x: Any, radius: int) -> tuple[Points, Points]:
    """The greatest and the least value of the steps at most `radius` away, (n, dims) each."""
    x = np.asarray(x, np.float64)
    near = [x[max(0, i - radius) : i + radius + 1] for i in range(len(x))]
    return np.array([some.max(axis=0) for some in near]), np.array([some.min(axis=0) for some in near])


def _nearest(x: Any, y: Any) -> tuple[Points, Points]:
    apart = np.sqrt(((np.asarray(x, np.float64)[:, None] - np.asarray(y, np.float64)[None]) ** 2).sum(axis=2))
    return apart.min(axis=1), apart.min(axis=0)


def hausdorff(x: Any, y: Any) -> float:
    """The greatest distance of a point of one set from the nearest of the other; x (n, dims), y (m, dims)."""
    there, back = _nearest(x, y)
    return float(max(there.max(), back.max()))


def modified_hausdorff(x: Any, y: Any) -> float:
    """The greater of the two means of the distances to the nearest point of the other set."""
    there, back = _nearest(x, y)
    return float(max(there.mean(), back.mean()))


def parts_of_time(x: Any, low: Any, high: Any, parts: int = 16) -> Points:
    """v − low and high − v of mean, greatest and least value of each part, dimension by dimension; x (n, dims)."""
    x = np.asarray(x, np.float64)
    out = []
    for part in range(parts):
        start = part * len(x) // parts
        some = x[start : max(start + 1, (part + 1) * len(x) // parts)]
        for k in range(x.shape[1]):
            for value in (some[:, k].mean(), some[:, k].max(), some[:, k].min()):
                out += [value - low[k], high[k] - value]
    return np.array(out)


def anchored(x: Any, low: Any, high: Any, side: int, median: float) -> Points:
    """e^{−(d − least d) / median} of the distances d of the middles of side^dims cells of a box from a set; the last axis runs first."""
    x, low, high = (np.asarray(one, np.float64) for one in (x, low, high))
    cells = np.indices([side] * len(low)).reshape(len(low), -1).T
    middles = low + (high - low) * (cells + 0.5) / side
    apart = np.sqrt(((middles[:, None] - x[None]) ** 2).sum(axis=2)).min(axis=1)
    features: Points = np.exp((apart.min() - apart) / median)
    return features
