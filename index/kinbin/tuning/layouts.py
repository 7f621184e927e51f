"""What a search by bands is expected to find and to take, of any rows per band and number of bands.

Everything follows from the law of collision: a row whose hashes agree with the query's with probability p shares Binomial(L, p**r) of L
bands of r hashes. A search verifies rows by shared bands, most first, and stops at the level that the k-th score so far allows
(`bands.search`); here the same is done with the bands that each sampled row shares with its true neighbours (`hashed`). So the recall that
is predicted is that of the search as it is, for its target, and not 1 - (1 - p**r)**L, which it would have if every row that shares a
band were verified. How many other rows share bands follows from the law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import slot_bits_of
from kinbin.bands.contrast import aim_of, postings_cap
from kinbin.costs import COSTS
from kinbin.hashing import similarity_needed
from kinbin.query.view import View
from kinbin.rows.topk import NOTHING
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.spaces.space import Space
from kinbin.tuning.hashed import Hashed
from kinbin.tuning.sampling import Drawn

__all__ = ["Forecast", "Layout", "as_it_is", "forecast", "in_one_run", "shares_found", "table_bytes"]

_FRESH_BITS = 16
_FEW = 16.0
"""Pairs. Fewer than so many share bands by chance."""
_SWEEP_NS = 0.06
"""A row that is passed over: its count is cleared, and looked at."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How some of the rows are laid out in bands."""

    r: int
    bands: int
    rows: int
    """How many of the rows lie so, dead ones included."""
    bits: int
    """Of a band's key that a search compares: its table has a slot for each value of them."""
    fresh: bool = False
    """Whether these are rows whose keys are compared one by one."""

    @property
    def hashed(self) -> tuple[int, int, int]:
        """What decides how many bands a row shares."""
        return self.r, self.bands, self.bits


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a search by bands is expected to do."""

    recall: float
    recall_error: float
    """Standard error: that of this draw, as an estimate for all rows."""
    uncertified: float
    postings: float
    verified: float
    begin_ns: float
    """What it takes besides verifying."""


def in_one_run(r: int, bands: int, rows: int) -> Layout:
    """The layout of a run of so many rows (see `bands.build.write_run`)."""
    return Layout(r, bands, rows, slot_bits_of(rows))


def as_it_is(view: View) -> list[Layout]:
    """The layouts of the runs of a view, and that of the fresh rows."""
    runs = [Layout(run.header.r, run.header.bands, run.rows, run.header.slot_bits) for run in view.runs]
    return [*runs, Layout(1, FRESH_BANDS, view.fresh.rows, _FRESH_BITS, fresh=True)]


def table_bytes(layout: Layout) -> float:
    """Bytes a row of the tables of a run's bands."""
    posting = 2 if layout.rows <= 1 << 16 else 4
    return layout.bands * (posting + 4.0 * ((1 << layout.bits) + 1) / max(1, layout.rows))


def forecast(drawn: Drawn, hashed: Hashed, layouts: Sequence[Layout], space: Space, asked: tuple[int, float]) -> Forecast:
    """What searches for these sampled rows are expected to find and take, if rows lie so. asked: k and the target recall.

    layouts: one, in which all rows lie; or one for each run, and one for the fresh rows (`as_it_is`). Cost: some 10 ms a layout.
    Where a query would read more postings than it may, recall is that without this cap, and all queries are uncertified.
    """
    k, target = asked
    total = max(1, sum(layout.rows for layout in layouts))
    read = sum(_postings(drawn, hashed, layout) * (layout.rows / total) for layout in layouts if not layout.fresh)
    most = postings_cap(total)
    needs = [_need(space, layout, aim_of(target)) for layout in layouts]
    found = _searched(drawn, hashed, layouts, _Stopping(k, needs))
    recall, error = _mean_and_error(found.shares, total)
    verified = found.verified
    for place, layout in enumerate(layouts):
        if layout.rows:
            verified += _far_verified(drawn, hashed, layout, found.stops[:, place]) * (layout.rows / total)
    # What was found vouches, not what is there.
    sure = max(_need(space, layout, target)[1] for layout in layouts if layout.rows or len(layouts) == 1)
    uncertified = 1.0 if read > most else float(np.mean(found.kth < sure))
    postings = min(read, float(most))
    return Forecast(recall, error, uncertified, postings, verified, _begin_ns(hashed, layouts, postings, total))


def _sharing(layout: Layout, collide: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability that a band counts a row as shared, by the probability that hashes agree."""
    agrees = collide**layout.r
    shared: NDArray[np.float64] = agrees + (1.0 - agrees) / (1 << layout.bits)
    return shared


def _need(space: Space, layout: Layout, aim: float) -> NDArray[np.float64]:
    """(L + 1,) the score of the k-th answer at which all rows of so many shared bands suffice for an aim; rises."""
    need: NDArray[np.float64] = space.scores_vouching(similarity_needed(layout.r, layout.bands, aim).copy())
    return need


@dataclass(frozen=True, slots=True)
class _Stopping:
    """By what a search decides that it has verified enough."""

    k: int
    needs: Sequence[NDArray[np.float64]]
    """Of each layout, see `_need`."""

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Ascending: the scores at which the levels of some layout change; the first is below all."""
        every = np.concatenate(self.needs)
        return np.append(-np.inf, np.unique(every[np.isfinite(every)]))

    def levels(self, layouts: Sequence[Layout], reached: NDArray[np.float64]) -> NDArray[np.int64]:
        """(q, parts) the lowest levels that are verified where the k-th score is what was reached (q,)."""
        stops = np.ones((len(reached), len(layouts)), np.int64)
        for place, layout in enumerate(layouts):
            stops[:, place] = np.clip(np.searchsorted(self.needs[place], reached, side="right") - 1, 1, layout.bands)
        return stops


class _Found(NamedTuple):
    stops: NDArray[np.int64]
    """(q, parts) the levels at which searches stop."""
    shares: NDArray[np.float64]
    """See `shares_found`."""
    verified: float
    """Of the listed rows, in the mean."""
    kth: NDArray[np.float64]
    """(q,) the k-th score of what was found."""


def _searched(drawn: Drawn, hashed: Hashed, layouts: Sequence[Layout], stopping: _Stopping) -> _Found:
    """What searches find among the rows that are listed.

    The lower the level, the better the k-th row of those that were verified; so the level is that of the highest threshold which the k-th
    score at its own levels reaches, found by halving.
    """
    there = drawn.scores > NOTHING
    parts = np.zeros_like(drawn.parts) if len(layouts) == 1 else drawn.parts
    counts = np.zeros(parts.shape, np.uint8)
    for place, layout in enumerate(layouts):
        here = there & (parts == place)
        counts[here] = hashed.shared(*layout.hashed)[here]
    thresholds = stopping.thresholds
    low, high = np.zeros(len(drawn), np.int64), np.full(len(drawn), len(thresholds) - 1)
    while (low < high).any():
        middle = (low + high + 1) // 2
        verified = counts >= np.take_along_axis(stopping.levels(layouts, thresholds[middle]), parts, axis=1)
        enough = _kth_of(drawn.scores, verified, stopping.k) >= thresholds[middle]
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    stops = stopping.levels(layouts, thresholds[low])
    verified = counts >= np.take_along_axis(stops, parts, axis=1)
    least, wanted = drawn.wanted(stopping.k)
    found = np.minimum((verified & (drawn.scores >= least[:, None])).sum(axis=1), wanted)
    kth = _kth_of(drawn.scores, verified, stopping.k)
    return _Found(stops, shares_found(found, wanted), float(verified.sum(axis=1).mean()), kth)


def shares_found(found: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of what is wanted, of each for whom anything is; a 1 where nothing is wanted of anybody."""
    asked = wanted > 0
    shares: NDArray[np.float64] = found[asked] / wanted[asked] if asked.any() else np.ones(1)
    return shares


def _mean_and_error(shares: NDArray[np.float64], total: int) -> tuple[float, float]:
    """The mean, and its standard error as that of `total` rows of which these were drawn, each once."""
    count = len(shares)
    if count < 2:
        return float(shares.mean()), 0.0
    left = max(0.0, 1.0 - count / total)
    return float(shares.mean()), float(shares.std(ddof=1)) * math.sqrt(left / count)


def _postings(drawn: Drawn, hashed: Hashed, layout: Layout) -> float:
    """How many postings a search reads, in the mean, if all rows lie so: those of the rows that are listed, and of the far ones."""
    share = layout.bands * _sharing(layout, hashed.agree)
    seen = hashed.far(*layout.hashed)[drawn.others.far].sum(dtype=np.int64)
    more = _times_more(float(seen), float((drawn.others.histogram @ share).sum()))
    listed = hashed.shared(*layout.hashed).sum(axis=1, dtype=np.int64)
    return float(listed.mean()) + more * float((drawn.farther() @ share).mean())


def _far_verified(drawn: Drawn, hashed: Hashed, layout: Layout, stops: NDArray[np.int64]) -> float:
    """How many rows that are not listed a search verifies, in the mean, if all lie so. stops (q,): the levels at which searches stop."""
    lowest, tails = stops[: len(drawn.histogram), None], _tails(layout, hashed.agree)
    by_law, of_others = (np.take_along_axis(counts @ tails, lowest, axis=1) for counts in (drawn.farther(), drawn.others.histogram))
    seen = (drawn.others.far & (hashed.far(*layout.hashed) >= lowest)).sum()
    return float(by_law.mean()) * _times_more(float(seen), float(of_others.sum()))


def _times_more(seen: float, told: float) -> float:
    """How many times what the law told of some pairs was seen of them: near 1 where both are too few to say."""
    return (seen + _FEW) / (told + _FEW)


def _kth_of(scores: NDArray[np.float64], verified: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    """(q,) the k-th score of the rows that were verified; NOTHING where they are fewer. scores (q, m): best first."""
    ranks = np.cumsum(verified, axis=1)
    place = (ranks >= k).argmax(axis=1)
    kth: NDArray[np.float64] = np.where(ranks[:, -1] >= k, scores[np.arange(len(scores)), place], NOTHING)
    return kth


def _tails(layout: Layout, agree: NDArray[np.float64]) -> NDArray[np.float64]:
    """(FINE_BINS, L + 1) the probability that a row shares so many bands or more."""
    shared = np.clip(_sharing(layout, agree), 1e-300, 1.0 - 1e-15)[:, None]
    counts = np.arange(layout.bands + 1)
    ways = np.array([math.lgamma(layout.bands + 1) - math.lgamma(c + 1) - math.lgamma(layout.bands - c + 1) for c in counts.tolist()])
    exactly = np.exp(ways + counts * np.log(shared) + (layout.bands - counts) * np.log1p(-shared))
    tails: NDArray[np.float64] = np.cumsum(exactly[:, ::-1], axis=1)[:, ::-1]
    return tails


def _begin_ns(hashed: Hashed, layouts: Sequence[Layout], postings: float, total: int) -> float:
    """What a query, one of many that are asked together, takes but for verified rows. total: all rows."""
    ns = postings * COSTS.posting_of(max(layout.rows for layout in layouts)) + total * _SWEEP_NS
    for layout in layouts:
        ns += layout.rows * COSTS.fresh if layout.fresh else layout.bands * COSTS.band
    used = [(layout.r, layout.bands) for layout in layouts if layout.rows]
    return ns + (hashed.ns(max(r for r, _ in used), max(bands for _, bands in used)) if used else 0.0)
