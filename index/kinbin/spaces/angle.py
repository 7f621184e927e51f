"""Bounds of scores that stand for a cosine, by how far apart the two rows are once each is divided by its length.

Unit rows x and y have |x − y|² = 2 − 2 ρ, so a distance is a cosine and the other way round; codes of unit rows
(`codes.units`, `codes.packed`) are never farther apart than the rows. Of rows whose square roots are compared, x and y are those of
the roots.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

from kinbin.native.jit import strict
from kinbin.spaces.ordered import signed_score, signed_value

__all__ = ["angle_best", "angle_farthest"]


@strict
def angle_best(_context, distance, _norm, _other):
    """The score of ρ = 1 − d² / 2: of all pairs that are d apart or more, as unit rows, none scores more."""
    apart = min(max(distance, 0.0), 2.0)
    return signed_score(1.0 - 0.5 * apart * apart)


@strict
def angle_farthest(_context, score):
    """√(2 (1 − ρ)) of the ρ that a score stands for: how far apart unit rows are that score so much."""
    return math.sqrt(max(0.0, 2.0 * (1.0 - signed_value(max(score, 0.0)))))
