"""The min-max family: every score is a function of `shared` = Σ min(ũ, ṽ) over the sign-split vectors and of their sums.

One inner loop serves them all (generalized-intersection-kernel, equations 2 to 5). Their score is the min-max similarity, whose
collisions hashing counts; gint, also known as tv, prints 2J / (1 + J) of it, which is 1 less the total variation distance.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinbin.spaces.pairwise import SHARED, SHARED_SHAPES, Block, Pairwise, at_most_one
from kinbin.spaces.prints import Print, PrintKind
from kinbin.spaces.space import Space

__all__ = ["GINT", "GMM", "MINMAX", "NGMM", "TV"]

_TINY = 1e-300
"""Far below any value that is not taken for 0."""

_INTERSECTION = Print(PrintKind.INTERSECTION)


def _similarity(sums: Sequence[Block], left: Block, right: Block) -> Block:
    """Σ min / Σ max: both add up to the sums of the rows."""
    # Two rows of zeros share nothing: 0 / 0 shall be 0.
    shared, most = sums[0], (left + _TINY) + right
    most -= shared
    shared /= most
    return at_most_one(shared)


def _similarity_of_shapes(sums: Sequence[Block], _left: Block, _right: Block) -> Block:
    shared = sums[0]
    shared /= 2.0 - shared
    return at_most_one(shared)


_OF_ROWS = Pairwise((SHARED,), _similarity, ratio=True)
_OF_SHAPES = Pairwise((SHARED_SHAPES,), _similarity_of_shapes, ratio=True)

MINMAX = Space("minmax", "min-max", "Σ min(u, v) / Σ max(u, v), u, v ≥ 0", shapes=False, signed=False, pairwise=_OF_ROWS)
GMM = Space("gmm", "generalized min-max", "Σ min(ũ, ṽ) / Σ max(ũ, ṽ)", shapes=False, signed=True, pairwise=_OF_ROWS)
NGMM = Space("ngmm", "normalized generalized min-max", "gmm of rows that sum to 1", shapes=True, signed=True, pairwise=_OF_SHAPES)
GINT = Space(
    "gint", "generalized intersection", "Σ min(ũ, ṽ) of rows that sum to 1", shapes=True, signed=True,
    printed=_INTERSECTION, score_of=_INTERSECTION.score_of, pairwise=_OF_SHAPES,
)  # fmt: skip
TV = Space(
    "tv", "total variation", "1 − Σ |ũ − ṽ| / 2 of rows that sum to 1", shapes=True, signed=True,
    printed=_INTERSECTION, score_of=_INTERSECTION.score_of, pairwise=_OF_SHAPES,
)  # fmt: skip
