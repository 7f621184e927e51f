"""Contours of the digits of `mnist` as series and as point sets: chain codes walked along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_POINTS", "contours", "thinned"]

MOST_POINTS = 40
_STEPS = np.array([(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)], np.float32)
"""The moves of Freeman's chain code, as (row, column)."""


def contours(codes: str) -> list[NDArray[np.float32]]:
    """Of each line of eight-direction chain codes the points (n, 2) that it visits; centred, so that place does not count."""
    made = []
    for line in codes.split("\n"):
        points = np.cumsum(_STEPS[np.frombuffer(line.encode(), np.uint8) - ord("0")], axis=0)
        made.append((points - points.mean(axis=0)).astype(np.float32))
    return made


def thinned(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """At most 40 of the points, evenly along the contour."""
    return points if len(points) <= MOST_POINTS else points[np.linspace(0, len(points) - 1, MOST_POINTS).astype(np.int64)]
