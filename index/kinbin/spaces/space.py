"""What a space is: which vectors it takes, how near two of them are, and which bounds tie that to hashes and codes.

The engine ranks by a *score* from 0 on, the larger the nearer, and prints what the space makes of it: a similarity, or a
distance. Bands hash rows so that two collide with the probability of their min-max similarity; codes bound the distance of shapes.
A space whose score is not that similarity itself says how they are tied: the least similarity of a pair of some score (so bands
prove), the most that a pair can score whose shapes are so far apart (so codes prune).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Code", "Kernel", "Space"]

Values = TypeVar("Values", float, NDArray[np.float64])


def _same(values: Values) -> Values:
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """The machine code of a space: functions that are compiled by `native.jit.strict`, see `spaces.native.SPACE`."""

    score: Any
    """(address of a row's record, its nonzeros, address of the look-up's record) → float64; NaN of a damaged row."""
    best: Any
    """(distance of shapes in L1, norm, norm) → the most that a pair can score."""
    farthest: Any
    """(score) → the distance of shapes beyond which no pair scores so much: the inverse of `best`."""
    least: Any
    """(score) → the least min-max similarity of a pair of this score."""


@dataclass(frozen=True, eq=False)
class Space:
    """One kernel. Two are equal only if they are the same object."""

    name: str
    title: str
    formula: str
    shapes: bool
    """Whether rows are compared by their shapes only: each is divided by its sum of absolute values first."""
    signed: bool
    """Whether negative values are allowed (and split off); otherwise they are refused."""
    code: Code | None = None
    """None: the score is the min-max similarity."""
    printed: Callable[[Any], Any] = _same
    """The number that is printed of a score (or of an array of them). It rises with the score; a distance falls."""
    score_of: Callable[[float], float] = _same
    """The inverse of `printed`."""
    ascending: bool = False
    """Whether distances are printed: the smaller the nearer."""
    printed_range: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest number that is printed; a distance may have no greatest (inf)."""
    hashes: bool = True
    """Whether rows are hashed so that bands find them. Without, runs have no bands, and what they would prove is scanned."""
    codes: bool = True
    """Whether rows have codes whose distance means something. Without, rows are not linked."""
    score_at: Callable[[NDArray[np.float64]], NDArray[np.float64]] = _same
    """The least scores whose pairs have at least these min-max similarities: the inverse of `Code.least`. inf stays inf."""

    def falls_short(self, printed: Any, limit: float) -> Any:
        """Whether a printed number (or each of an array) is farther than a limit."""
        return printed > limit if self.ascending else printed < limit

    @property
    def normalised(self) -> bool:
        """Whether rows are divided by their sum of absolute values first."""
        return self.shapes

    @cached_property
    def record(self) -> Any:
        """What kernels are handed. Cost: the space's code is compiled or loaded at first."""
        from kinbin.native.calls import BOUND, CURVE, SCORE, code_address
        from kinbin.spaces.native import SPACE

        if self.code is None:
            return SPACE.record(shapes=int(self.shapes))
        return SPACE.record(
            shapes=int(self.shapes),
            score=code_address(self.code.score, SCORE),
            best=code_address(self.code.best, BOUND),
            farthest=code_address(self.code.farthest, CURVE),
            least=code_address(self.code.least, CURVE),
        )

    @cached_property
    def law(self) -> Any:
        """The record of the space of the hashes' own similarity, for the same rows."""
        from kinbin.spaces.native import SPACE

        return SPACE.record(shapes=int(self.shapes))

    def least_similarity(self, score: float) -> float:
        """The least min-max similarity of a pair of this score: what bands certify by."""
        return score if self.code is None else float(self.code.least(np.float64(score)))


Kernel = Space
"""What users call it."""
