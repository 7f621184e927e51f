"""What is printed of a score: rising functions, with their inverses. Kernels that differ in it only share everything else.

(Comparison study of nonlinear kernels, sections 1.2 to 1.4; generalized intersection kernel, equation 5.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kinbin.parameters import Value
from kinbin.spaces.ordered import signed_of, signed_score

__all__ = ["AS_IT_IS", "GAMMA", "Parameter", "Print", "PrintKind"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number, a few numbers or a word that belongs to a kernel, chosen when a collection is created."""

    default: Value
    least: float
    most: float
    text: str
    """What it does, in a line."""
    whole: bool = False
    """Whether only whole numbers are taken."""
    several: int = 0
    """How many numbers a list may have that stands in the place of one; 0: it is one number."""
    words: tuple[str, ...] = ()
    """What it may be, where it is a word."""

    @property
    def says(self) -> str:
        """What it has to be, as refusals say it."""
        if self.words:
            return f"is one of {', '.join(self.words)}"
        one = f"is a {'whole ' if self.whole else ''}number from {self.least:g} to {self.most:g}"
        return f"{one}, or a list of at most {self.several} of them" if self.several else one


GAMMA = Parameter(1.0, 0.001, 1000.0, "how fast scores fall with distance: the larger, the faster")
"""The range that the comparison study tries (section 2)."""
_ROUNDING = 1e-14
"""Of what is printed: an inverse must not exceed the scores that print so much."""


class PrintKind(IntEnum):
    """Functions of a value s: of a score, or of a signed value that a score stands for. `spaces.product` has the same in machine code."""

    SAME = 0
    """s."""
    INTERSECTION = 1
    """2 s / (1 + s), of a min-max similarity."""
    ACOS = 2
    """1 − acos(s) / π."""
    EXPONENTIAL = 3
    """exp(−γ (1 − s))."""
    FOLDED = 4
    """exp(−γ) cosh(γ s), for s ≥ 0."""


@dataclass(frozen=True, slots=True)
class Print:
    """The number that is printed of a score (or of an array of them). It rises with the score."""

    kind: PrintKind = PrintKind.SAME
    gamma: float = 0.0
    signed: bool = False
    """Whether it is printed of a value from -1 to 1, whose score `spaces.ordered` tells."""

    def __call__(self, score: Any) -> Any:
        """What is printed of scores."""
        value = signed_of(score) if self.signed else score
        if self.kind is PrintKind.SAME:
            return value
        if self.kind is PrintKind.INTERSECTION:
            return 2.0 * value / (1.0 + value)
        if self.kind is PrintKind.ACOS:
            return 1.0 - np.arccos(np.clip(value, -1.0, 1.0)) / math.pi
        near = np.exp(-self.gamma * (1.0 - value))
        return near if self.kind is PrintKind.EXPONENTIAL else 0.5 * (near + np.exp(-self.gamma * (1.0 + value)))

    def score_of(self, printed: float) -> float:
        """The inverse, rounded down: every score that prints so much, or more, is at least this. 0: every score prints as much."""
        value = self._value_of(printed)
        return signed_score.py_func(max(value, -1.0)) if self.signed else max(value, 0.0)

    def _value_of(self, printed: float) -> float:
        if self.kind is PrintKind.SAME:
            return printed
        if self.kind is PrintKind.INTERSECTION:
            return printed / (2.0 - printed) * (1.0 - _ROUNDING)
        least = printed - _ROUNDING
        if least <= 0.0:
            return -math.inf
        if self.kind is PrintKind.ACOS:
            return math.cos(math.pi * (1.0 - min(least, 1.0))) - _ROUNDING
        if self.kind is PrintKind.EXPONENTIAL:
            return 1.0 + math.log(least) / self.gamma - _ROUNDING
        # cosh x = c: x = ln(c + √(c² − 1)), of c / e^γ so that nothing overflows.
        folded, smallest = 2.0 * least, 2.0 * math.exp(-self.gamma)
        if folded <= smallest:
            return -math.inf
        root = math.sqrt((folded - smallest) * (folded + smallest))
        return 1.0 + math.log(0.5 * (folded + root)) / self.gamma - _ROUNDING


AS_IT_IS = Print()
"""The score itself."""
