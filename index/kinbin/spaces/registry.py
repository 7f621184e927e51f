"""The kernels by name, as data: what they take and how the one sum that is computed becomes a score.

Every kernel of this family is a function of `shared` = Σ min(ũ, ṽ) over the sign-split vectors and of
their sums, so one inner loop serves them all (generalized-intersection-kernel, equations 2 to 5).
Ranking and the certificate use the *similarity*: the min-max value, whose collisions hashing counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kinbin.parameters import one_of

__all__ = ["KERNELS", "Kernel", "kernel_named"]

Values = TypeVar("Values", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel.

    normalised: rows are divided by their sum of absolute values first.
    signed: negative values are allowed (and split off); otherwise they are refused.
    intersection: the score is `shared` itself (GInt) and not the min-max ratio.
    """

    name: str
    title: str
    formula: str
    normalised: bool
    signed: bool
    intersection: bool

    def score(self, similarity: Values) -> Values:
        """The printed score of a min-max similarity: itself, or for GInt 2J/(1+J)."""
        return 2.0 * similarity / (1.0 + similarity) if self.intersection else similarity

    def similarity(self, score: float) -> float:
        """The min-max similarity of a printed score: the inverse of `score`."""
        return score / (2.0 - score) if self.intersection else score


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("minmax", "min-max", "Σ min(u, v) / Σ max(u, v), u, v ≥ 0", normalised=False, signed=False, intersection=False),
        Kernel("gmm", "generalized min-max", "Σ min(ũ, ṽ) / Σ max(ũ, ṽ)", normalised=False, signed=True, intersection=False),
        Kernel("ngmm", "normalized generalized min-max", "gmm of rows that sum to 1", normalised=True, signed=True, intersection=False),
        Kernel("gint", "generalized intersection", "Σ min(ũ, ṽ) of rows that sum to 1", normalised=True, signed=True, intersection=True),
    )
}


def kernel_named(name: object) -> Kernel:
    """The kernel of this name.

    Raises:
        InvalidInput: no kernel has this name (code "bad_parameter").
    """
    one_of("kernel", name, KERNELS)
    return KERNELS[str(name)]
