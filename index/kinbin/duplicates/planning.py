"""How rows are hashed so that a pair is missed with a stated probability at most, for the least time.

A pair that scores the limit collides in one hash with probability p at least (`Space.least_similarity`), shares a band of R hashes with
p^R, and none of L bands with (1 - p^R)^L, as the hashes are independent. L is the least number that keeps this within `miss`. Larger R
have fewer strangers in their buckets, and need more hashes; what each takes is predicted from sampled similarities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import sample_contrast
from kinbin.bands.contrast import BINS, Contrast
from kinbin.costs import COSTS
from kinbin.errors import InvalidInput
from kinbin.hashing import MAX_ROWS
from kinbin.hashing.arithmetic import MAX_BANDS
from kinbin.hashing.certificate import binomial_tail
from kinbin.segments.source import Source
from kinbin.spaces.space import Space

__all__ = ["ALL_PAIRS", "Plan", "bands_for", "choose_plan"]

_FOLDS = (1, 2, 4)
_KEY_NS = 25.0
"""Sorting one key of one row."""
_MOST_COMPARED = 20_000
"""Rows of which all pairs are compared where no hash can tell: 200 million pairs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are hashed: `bands` keys of `fold` x `r` hashes each. No bands: all pairs are compared."""

    r: int
    fold: int
    bands: int
    miss: float
    """The most that the probability is of missing a pair that scores the limit, or more."""

    @property
    def hashes(self) -> int:
        """Of a key."""
        return self.r * self.fold


ALL_PAIRS = Plan(0, 0, 0, 0.0)


def bands_for(p: float, hashes: int, miss: float) -> int | None:
    """The least number of bands of so many hashes by which a pair is missed with `miss` at most; None: there is none.

    p: the probability that a hash of the pair collides.
    """
    shared = min(p, 1.0) ** hashes
    if shared <= 0.0:
        return None
    needed = 1.0 if shared >= 1.0 else math.log(miss) / math.log1p(-shared)
    if needed > MAX_BANDS:
        # It may be infinite.
        return None
    count = max(1, math.ceil(needed))
    while count <= MAX_BANDS and missed(p, hashes, count) > miss:
        count += 1
    return count if count <= MAX_BANDS else None


def missed(p: float, hashes: int, bands: int) -> float:
    """The probability that a pair shares none of these bands."""
    return 1.0 - float(binomial_tail(bands, min(p, 1.0) ** hashes, 1))


def choose_plan(source: Source, space: Space, wide: bool, least: float, miss: float) -> Plan:
    """The plan of the least predicted time for pairs that score `least` or more. miss: 0: all pairs are compared, however many.

    Raises:
        InvalidInput: neither can hashes promise it, nor are the rows few enough to compare them all.

    Cost: what scoring 24 to 64 rows against 65,536 takes.
    """
    n = len(source)
    if n < 2 or miss == 0.0:
        return ALL_PAIRS
    p = space.least_similarity(least) * (1.0 - 1e-9) if space.hashes else 0.0
    plans = [] if p <= 0.0 else [plan for r in range(1, MAX_ROWS + 1) for fold in _FOLDS if (plan := _plan(p, r, fold, miss)) is not None]
    if not plans:
        if n > _MOST_COMPARED:
            why = "no hash of this kernel tells how near two items are" if p <= 0.0 else "no number of bands promises it at this score"
            text = f"{why}, and of {n:,} items not all pairs are compared (at most {_MOST_COMPARED:,} items): ask for nearer pairs"
            raise InvalidInput.of("bad_parameter", f"{text}, or for a greater miss", field="min_score")
        return ALL_PAIRS
    contrast, _ = sample_contrast(source, space, wide)
    pairs = contrast.histogram.mean(axis=0) * (n / 2)
    return min(plans if n * n > 2 * _MOST_COMPARED else [*plans, ALL_PAIRS], key=lambda plan: _predicted_ns(plan, n, pairs, contrast))


def _plan(p: float, r: int, fold: int, miss: float) -> Plan | None:
    # Folding is for more hashes than a sampler has sketches.
    if fold > 1 and r < MAX_ROWS // 2 + 1:
        return None
    bands = bands_for(p, r * fold, miss)
    return None if bands is None or bands * fold > MAX_BANDS else Plan(r, fold, bands, missed(p, r * fold, bands))


def _predicted_ns(plan: Plan, n: int, pairs: NDArray[np.float64], contrast: Contrast) -> float:
    """What a plan takes. pairs (BINS,): how many there are, by their probability of a collision."""
    if not plan.bands:
        return n * n / 2 * (COSTS.scan + contrast.nonzeros_ns)
    shared = ((np.arange(BINS) + 0.5) / BINS) ** plan.hashes
    postings = float((pairs * plan.bands * shared).sum())
    candidates = float((pairs * -np.expm1(plan.bands * np.log1p(-shared))).sum())
    hashing = n * plan.bands * (plan.hashes * contrast.nonzeros * COSTS.hash + _KEY_NS)
    return hashing + postings * 2 * COSTS.posting + candidates * (COSTS.verify + contrast.nonzeros_ns)
