"""How far scores may be off that are computed in float64, and what follows for rows that are the same and for bounds."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from kinbin.native.jit import inline

__all__ = ["ROUNDING", "snapped"]

ROUNDING = 1e-11
"""Scores may be too large by so much, snapped ones included; what is proved by them must not be."""
_EPSILON = 2.0**-52
_MOST = 4e-12
"""An arc cosine makes 9e-7 of it: less than scores promise."""


@inline
def snapped(score, nnz):
    """A score as it is answered: exactly 1 where it is 1 but for rounding, so that rows which are the same score 1.

    A sum of n numbers is off by up to n / 4 last digits where they are alike (they round in one direction).
    """
    return 1.0 if score > 1.0 - min(_MOST, _EPSILON * (16.0 + 0.25 * nnz)) else score
