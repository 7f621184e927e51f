"""The min-max family: every score is a function of `shared` = Σ min(ũ, ṽ) over the sign-split vectors and of their sums.

One inner loop serves them all (generalized-intersection-kernel, equations 2 to 5). Their score is the min-max similarity, whose
collisions hashing counts; gint prints 2J / (1 + J) of it.
"""

from __future__ import annotations

from typing import Any

from kinbin.spaces.space import Space

__all__ = ["GINT", "GMM", "MINMAX", "NGMM"]


def _intersection(similarity: Any) -> Any:
    return 2.0 * similarity / (1.0 + similarity)


def _of_intersection(shared: float) -> float:
    return shared / (2.0 - shared)


MINMAX = Space("minmax", "min-max", "Σ min(u, v) / Σ max(u, v), u, v ≥ 0", shapes=False, signed=False)
GMM = Space("gmm", "generalized min-max", "Σ min(ũ, ṽ) / Σ max(ũ, ṽ)", shapes=False, signed=True)
NGMM = Space("ngmm", "normalized generalized min-max", "gmm of rows that sum to 1", shapes=True, signed=True)
GINT = Space(
    "gint", "generalized intersection", "Σ min(ũ, ṽ) of rows that sum to 1", shapes=True, signed=True,
    printed=_intersection, score_of=_of_intersection,
)  # fmt: skip
