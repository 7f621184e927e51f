"""The settings that are weighed against each other, and the one that is suggested."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.contrast import BINS
from kinbin.errors import InvalidInput, SearchCancelled
from kinbin.hashing import MAX_ROWS
from kinbin.options import QueryOptions
from kinbin.parameters import at_most, is_number
from kinbin.query.plan import Plan, plan_query
from kinbin.query.search import Searcher
from kinbin.query.view import View
from kinbin.storage.transactions import Reader
from kinbin.tuning.hashed import Hashed
from kinbin.tuning.layouts import Forecast, Layout, as_it_is, forecast, in_one_run, table_bytes
from kinbin.tuning.records import BandsForecast, CurrentSetting, SimilarityHistogram, Suggestion, Tuning
from kinbin.tuning.sampling import FINE_BINS, Drawn, draw
from kinbin.tuning.trials import Ask, Tried, tried
from kinbin.tuning.walks import walks_of

__all__ = ["checked_choices", "tuned"]

Choice = tuple[int, int]

CHOICES: tuple[Choice, ...] = tuple((rows, bands) for rows in range(1, MAX_ROWS + 1) for bands in (64, 128, 200))
"""(rows, bands) that are judged unless others are asked for."""
_MOST_BANDS = 255
_ALIKE = 1.15
"""Settings that take so much more time are as good, if they take less room."""


def checked_choices(choices: Iterable[Choice] | None) -> tuple[Choice, ...]:
    """Settings to judge, checked, each once.

    Raises:
        InvalidInput: code "bad_parameter" or "over_limit".
    """
    if choices is None:
        return CHOICES
    text = f"choices are pairs of rows (1 to {MAX_ROWS}) and bands (1 to {_MOST_BANDS}), at least one"
    listed: list[Choice] = []
    for one in choices if isinstance(choices, Iterable) else ():
        pair = tuple(one) if isinstance(one, list | tuple) else ()
        if len(pair) != 2 or not all(is_number(x) and hasattr(x, "__index__") for x in pair):
            raise InvalidInput.of("bad_parameter", text, field="choices")
        if not (1 <= pair[0] <= MAX_ROWS and 1 <= pair[1] <= _MOST_BANDS):
            raise InvalidInput.of("bad_parameter", text, field="choices")
        listed.append((int(pair[0]), int(pair[1])))
        at_most("tuned_choices", len(listed), "choices")
    if not listed:
        raise InvalidInput.of("bad_parameter", text, field="choices")
    return tuple(dict.fromkeys(listed))


def tuned(
    searcher: Searcher, at: tuple[Reader, View], asked: QueryOptions, drawing: tuple[int, int], choices: Sequence[Choice],
    ask: Ask, cancel: threading.Event | None,
) -> Tuning:  # fmt: skip
    """See `Tuned.tune`. drawing: how many rows to draw, and by which seed.

    Raises:
        SearchCancelled. CorruptData.
    """
    view = at[1]
    if view.live_rows < 2:
        return _of_nothing(view, asked, choices)

    def check() -> None:
        if cancel is not None and cancel.is_set():
            raise SearchCancelled("the work was cancelled")

    k, target = asked.k, float(asked.target_recall)
    drawn = draw(searcher, at, *drawing[:1], k, drawing[1], cancel)
    there = as_it_is(view)
    judged = [in_one_run(*choice, view.live_rows) for choice in choices]
    hashed = Hashed(drawn, searcher.sampler, searcher.wide, [one.hashed for one in (*judged, *there)], check)
    trial = tried(searcher, at, drawn, replace(asked, mode="bands"), ask)
    now = forecast(drawn, hashed, there, searcher.space, (k, target))
    taking = _Taking.seen(trial, now)
    bands = []
    for layout in judged:
        check()
        told = forecast(drawn, hashed, [layout], searcher.space, (k, target))
        bands.append(_told(layout, told, taking))
    plan = plan_query(view, searcher.space, target)
    current = _current(now, there, (trial, taking))
    walks = walks_of(plan.links, k, (drawn.row_ns, trial.naming_ns))
    return Tuning(
        len(drawn), k, target, _histogram(drawn, k), tuple(bands), walks, current,
        _suggested(bands, (current, now.uncertified), plan, target),
    )  # fmt: skip


def _of_nothing(view: View, asked: QueryOptions, choices: Sequence[Choice]) -> Tuning:
    """What is said where no row has a neighbour: every setting finds all there is."""
    bands = tuple(BandsForecast(*choice, 1.0, 0.0, 0.0, 0.0, 0.0, round(table_bytes(in_one_run(*choice, 1)), 1), 0.0) for choice in choices)
    edges, none = tuple(i / BINS for i in range(BINS + 1)), (0.0,) * BINS
    largest = max(as_it_is(view), key=lambda layout: layout.rows)
    current = CurrentSetting(largest.r, largest.bands, len(view.runs), 1.0, 1.0, 0.0, 0.0)
    why = "there are fewer than two different items: nothing has a neighbour"
    return Tuning(
        view.live_rows, asked.k, float(asked.target_recall), SimilarityHistogram(edges, none, none), bands, (), current,
        Suggestion(*choices[0], why),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Taking:
    """What searches of this collection were seen to take."""

    row_ns: float
    """Longer, for each row that they verify."""
    more_ns: float
    """Of their beginning, besides what its parts should take: sorting what was listed, laying out the query, their answers."""

    @classmethod
    def seen(cls, trial: Tried, now: Forecast) -> _Taking:
        """Of searches by the bands that are there."""
        return cls(trial.row_ns, max(0.0, trial.begun_ns - now.begin_ns) + trial.naming_ns)

    def microseconds(self, told: Forecast) -> float:
        """Of a query of these bands, with its answer."""
        return round((told.begin_ns + self.more_ns + told.verified * self.row_ns) / 1e3, 2)


def _told(layout: Layout, told: Forecast, taking: _Taking) -> BandsForecast:
    return BandsForecast(
        layout.r, layout.bands, round(told.recall, 5), round(told.recall_error, 5), round(told.uncertified, 5),
        round(told.postings, 1), round(told.verified, 1),
        round(table_bytes(layout), 1), taking.microseconds(told),
    )  # fmt: skip


def _current(told: Forecast, layouts: Sequence[Layout], seen: tuple[Tried, _Taking]) -> CurrentSetting:
    """What the bands that are there are expected to do, beside what they did."""
    trial, taking = seen
    largest = max(layouts, key=lambda layout: layout.rows)
    return CurrentSetting(
        largest.r, largest.bands, len(layouts) - 1, round(told.recall, 5), round(trial.recall, 5),
        taking.microseconds(told), round(trial.ns / 1e3, 2),
    )  # fmt: skip


def _histogram(drawn: Drawn, k: int) -> SimilarityHistogram:
    pairs = drawn.histogram.sum(axis=0).reshape(BINS, FINE_BINS // BINS).sum(axis=1)
    nearest = drawn.collide[:, :k][drawn.addresses[:, :k] != 0]
    neighbours, edges = np.histogram(np.clip(nearest, 0.0, 1.0), BINS, (0.0, 1.0))
    return SimilarityHistogram(tuple(edges.tolist()), _shares(pairs), _shares(neighbours.astype(np.float64)))


def _shares(counts: NDArray[np.float64]) -> tuple[float, ...]:
    shares: list[float] = (counts / max(1.0, float(counts.sum()))).round(8).tolist()
    return tuple(shares)


def _suggested(bands: Sequence[BandsForecast], now: tuple[CurrentSetting, float], plan: Plan, target: float) -> Suggestion:
    """The setting that is cheapest in mode `auto`, which scans for whom bands cannot certify, of those whose recall reaches the target.

    What is there, in one run, where it reaches the target and costs no more. now: that, and the share of the queries left to scans.
    """
    scan_us = plan.scan_ns / 1e3
    current, uncertified = now
    stays = current.runs == 1 and current.recall >= target
    there = f"recall {current.recall:.3f} in {current.microseconds:,.0f} µs"

    def cost(one: BandsForecast) -> float:
        return one.microseconds + one.uncertified * scan_us

    reaching = [one for one in bands if one.recall >= target]
    if not reaching:
        best = max(bands, key=lambda one: (one.recall, -one.microseconds))
        return Suggestion(best.rows, best.bands, f"none reaches {target:g}: this one finds the most, {best.recall:.3f}")
    least = min(map(cost, reaching))
    best = min((one for one in reaching if cost(one) <= _ALIKE * least), key=lambda one: (one.bytes_per_row, cost(one)))
    if stays and current.microseconds + uncertified * scan_us <= cost(best):
        return Suggestion(current.rows, current.bands, f"it is what is there: {there}; none of the others costs less")
    why = "" if current.runs else "no row lies in a run yet, so there is nothing to rebuild; in one: "
    why += f"recall {best.recall:.3f} in {best.microseconds:,.0f} µs by bands"
    if best.uncertified > 0.0:
        why += f", {best.uncertified:.1%} of the queries left to a scan of {scan_us:,.{0 if scan_us >= 10.0 else 1}f} µs in auto"
    if least * _ALIKE >= scan_us:
        why += "; bands are no faster than scans here"
    return Suggestion(best.rows, best.bands, f"{why}; now {current.recall:.3f} in {current.microseconds:,.0f} µs")
