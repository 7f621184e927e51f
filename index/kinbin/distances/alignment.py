"""What a distance is made of: which parts of one object stand against which of the other, and what each pair costs.

Slow on purpose: it is asked of one pair at a time, by who wants to know why. Kernels compute the same distances (`kinbin.spaces`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_CELLS", "MOST_SLOW_CELLS", "Alignment", "Pair", "unaligned"]

Values = NDArray[np.float32]

MOST_CELLS = 4_194_304
"""Pairs of elements that are looked at, at most: 34 MB and a third of a second."""
MOST_SLOW_CELLS = 262_144
"""The same where Python looks at them one by one: half a second."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An element of the query against one of the item."""

    what: str
    query: int | None
    """Its place, from 0 on; None: there is none."""
    item: int | None
    part: float
    """Of the sum."""
    apart: float | None = None
    """How far these two are from each other, where that is not the part itself."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs in the order of the query. Their parts and the constants add up to the sum; `outer`(x = the sum) is the distance."""

    pairs: list[Pair]
    constants: tuple[tuple[str, float], ...] = ()
    outer: str | None = None
    """A formula of x in Python's words; None: the sum itself."""

    @property
    def total(self) -> float:
        """The sum."""
        return math.fsum([*(pair.part for pair in self.pairs), *(part for _, part in self.constants)])


def unaligned(distance: float, cells: int, most: int) -> Alignment:
    """Of objects that are too large to be aligned: the distance alone."""
    return Alignment([], ((f"not aligned: {cells:,} pairs of elements, at most {most:,}", distance),))
