"""What a map says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Map", "MapPoint"]


@dataclass(frozen=True, slots=True)
class MapPoint:
    """An item in the plane. Items with the same vector are one point, under the least of their ids."""

    id: str
    x: float
    y: float
    payload: dict[str, Any] | None
    """The fields that were asked for."""


@dataclass(frozen=True, slots=True)
class Map:
    """A sample of the items, laid out so that near items lie near each other."""

    method: str
    kernel: str
    sample: int
    """Points; fewer than were asked for where there are no more different vectors."""
    rows: int
    """Different vectors that were drawn from: all, or those that a filter lets through."""
    points: list[MapPoint]
    """In the order of their ids."""
    explained: tuple[float, float] | None
    """Of "kernel_pca", the share of the variance that each axis holds, together at most 1; None: it is not known.

    Of distances that no points in a space have, what is variance (positive eigenvalues) without what contradicts it (negative ones).
    """
