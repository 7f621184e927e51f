"""How the scores of whole matrices follow from sums over pairs of rows: what a space says for `features.kernel_matrix`.

Every kernel here is a function of one or two sums over the features and of the rows' norms. A space names its sums and says how its
*score* follows from them; what is printed of the score (gamma, acos, ...) is the space's own `printed`, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kinbin.spaces.space import Space

__all__ = [
    "CHI_SQUARED",
    "COSINE",
    "JENSEN_SHANNON",
    "ROOTS",
    "SHARED",
    "SHARED_SHAPES",
    "Block",
    "Pairwise",
    "Sum",
    "at_most_one",
    "first_sum",
    "product_of",
]

Block = NDArray[np.float64]
Finish = Callable[[Sequence[Block], Block, Block], Block]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum over the features of two rows. Two that are equal are computed once."""

    kind: str
    """What is added up of values u and v:

    "shared"    min(ũ, ṽ) over the sign-split values
    "dot"       u v
    "harmonic"  2 u v / (u + v), of values that are not negative; 0 where both are 0
    "entropy"   ½ (u log2(1 + v / u) + v log2(1 + u / v)), of values that are not negative; 0 where either is 0
    """
    scale: str = "none"
    """What each row is divided by first: "none" (nothing), "sum" (its Σ|u|) or "length" (its √Σu²)."""
    roots: bool = False
    """Whether the square roots of the (scaled) values are taken, which are not negative."""


SHARED = Sum("shared")
SHARED_SHAPES = Sum("shared", "sum")
CHI_SQUARED = Sum("harmonic", "sum")
JENSEN_SHANNON = Sum("entropy", "sum")
ROOTS = Sum("dot", "sum", roots=True)
COSINE = Sum("dot", "length")


def at_most_one(scores: Block) -> Block:
    """Scores without what rounding adds, in place: some prints take no more than 1."""
    return np.minimum(scores, 1.0, out=scores)


def first_sum(sums: Sequence[Block], _left: Block, _right: Block) -> Block:
    """What `finish` is, if not given."""
    return at_most_one(sums[0])


@dataclass(frozen=True, slots=True)
class Pairwise:
    """The scores of all pairs of rows."""

    sums: tuple[Sum, ...]
    finish: Finish = first_sum
    """(the sums (n, m), sums of magnitudes (n, 1) and (1, m)) → scores (n, m); it may overwrite the sums. The first sum, if not given,
    and at most 1.

    A row of zeros has sums of 0: its score is 0 with every row, and with itself.
    """
    ratio: bool = False
    """Whether the score is the sum of what is shared, divided by what both rows have less that."""
    outer: str | None = None
    """`finish` for `explain`, of one sum x and both sums of magnitudes, in Python's words: "2 * x / ({a} + {b})", or "x" where the score is
    the sum, or stands for it. None, where `finish` is given and `ratio` is not: the score is told without terms."""


def product_of(*parts: Space) -> Pairwise:
    """Of the space whose score is the product of what others print."""
    pieces = [part.pairwise for part in parts if part.pairwise is not None]
    assert len(pieces) == len(parts), "each part says how its scores follow from sums"

    def finish(sums: Sequence[Block], left: Block, right: Block) -> Block:
        scores: Any = 1.0
        at = 0
        for part, piece in zip(parts, pieces, strict=True):
            # A copy: parts may have sums in common, and each may overwrite its own.
            own = [one.copy() for one in sums[at : at + len(piece.sums)]]
            scores = scores * part.printed(piece.finish(own, left, right))
            at += len(piece.sums)
        return np.asarray(scores)

    return Pairwise(tuple(one for piece in pieces for one in piece.sums), finish)
