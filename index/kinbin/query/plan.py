"""What a query will cost, and what follows: by which way it is answered."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.contrast import Contrast, Prediction, aim_of, collecting_level, levels, predict
from kinbin.bands.search import BANDS, LEVELS
from kinbin.costs import COSTS
from kinbin.hashing import similarity_needed
from kinbin.links.linkset import Links
from kinbin.links.widths import MOST_WIDTH, Width, around_of
from kinbin.native.records import Record
from kinbin.query.view import View
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.segments.run import Run
from kinbin.segments.sketches import sketches_of
from kinbin.spaces.space import Space

__all__ = ["LINK_AIM", "SMALL", "LinkPlan", "Plan", "plan_query"]

_MOST_PLANS = 8
"""Kept with a view."""
SMALL = 1_000
"""Collections of at most so many live rows are scanned: it takes some 20 µs."""
SHORT_SCAN_NS = 60_000.0
"""Collections whose scan is expected to take no longer are scanned: bands are hardly faster there, and prove less."""
LINK_AIM = 0.8
"""As much, for walks: a pool calibrated for 0.98 serves a target of 0.9. There is no bound that would be passed anyway."""
LINK_LEAST = 0.5
"""As much, for the recall of every group of calibrated queries: a minority that fares worse widens walks, or ends them."""
LEAST_ALIKE = 0.5
"""Links are not walked where fewer of the calibrated queries had k neighbours alike: an answer that reaches into strangers cannot be
told from one that missed its neighbours, and has to be completed."""
STRANGE_MORE, MOST_STRANGE = (1.5, 1.25, 1.0), 0.5
"""Where walks fail strange queries, usual ones that are as far from their neighbours go on as theirs do; and more, so many times as many,
for few strange queries were asked that are near the limit. At most half of all."""
STRANGE_WALK = 0.2
"""What walking on in a wider pool may add to a walk. Where it would be more, fewer queries do so, in a narrower pool."""
STRANGE_TARGET = 0.9
"""From this target on: wider walks are those that find nine in ten of a strange query's neighbours."""
STRANGE_COST = 0.25
"""Where even these fail, usual queries are completed, while that adds at most so much to a walk."""
FAR_SCAN_NS = 1_000_000.0
"""A query that a walk finds far is scanned if that is expected to take no longer (some 100,000 rows). One query in a hundred is far."""
FAR_MOST = 24
"""A query that is unlike the calibrated ones gets a wider pool (`grown_pool`), but not by more than as if it were so wide: where wide
pools are needed anyway, calibration was not easy."""

_SHARE_FOR_LINKS = 0.25
"""A filter that lets a smaller share of the rows through is no work for links."""


@dataclass(frozen=True, slots=True, eq=False)
class LinkPlan:
    """How a view is searched by links, and what is searched otherwise."""

    links: Links
    target: float
    answerable: float
    """Share of the nodes that are alive."""
    rest: Record
    """Descriptors of the rows that are not linked: runs that are have no rows."""
    rest_rows: int
    scans_rest: bool
    """Whether the rest is expected to be scanned faster than searched by bands."""
    other_ns: float
    """The fastest other way to search everything."""
    rest_ns: float
    widths: dict[tuple[int, float, bool], Width] = field(default_factory=dict)
    """By k, share, and whether links were asked for."""

    @property
    def aim(self) -> float:
        """The recall that a walk's width is calibrated for."""
        return self.target + LINK_AIM * (1.0 - self.target)

    def width(self, k: int, share: float, *, forced: bool) -> Width | None:
        """How wide to walk for the k nearest of a share of the rows; None: another path is better (never if forced)."""
        width = self.widths.get((k, share, forced))
        if width is None:
            if len(self.widths) > 64:
                self.widths.clear()
            width = self.widths[k, share, forced] = self._width(k, max(self.answerable * share, 1e-3), forced=forced)
        if forced:
            return width
        # No walk promises everything.
        usable = width.reaches and self.aim < 1.0 and share >= _SHARE_FOR_LINKS and 2 * self.links.linked >= self.rest_rows
        return width if usable and width.alike >= LEAST_ALIKE and self.rest_ns + self.walk_ns(width) <= self.other_ns else None

    def walk_ns(self, width: Width) -> float:
        """Predicted time of a walk, and of searching in another way besides for queries that are found far."""
        table = self.links.set.calibration
        hard = width.hard_share
        met = (1.0 - hard) * table.met_at(width.pool) + hard * table.met_at(max(width.pool, width.wide))
        compared = met + width.lost_share * width.around
        return COSTS.walk + compared * self._node_ns + width.finished * self.other_ns

    @property
    def _node_ns(self) -> float:
        """Predicted time of a node that a walk meets."""
        return COSTS.node + self.links.set.compare_ns

    def _width(self, k: int, share: float, *, forced: bool) -> Width:
        """The same where a share of the nodes may be answered: the k-th of them is the (k / share)-th of all.

        Where links were asked for nothing is promised of strange queries, and usual ones need not walk on for their sake.
        """
        table, rank = self.links.set.calibration, k / share
        least = self.target + LINK_LEAST * (1.0 - self.target)
        width, of_all = table.width_for(k, self.aim, least), table.width_for(rank, self.aim, least)
        pool = max(width.pool / share, of_all.pool)
        wanted = Width(
            min(int(pool), MOST_WIDTH), width.reaches, table.far_for(rank), 1.0 + self.target, int(min(pool, FAR_MOST)),
            table.alike_for(rank), hard=of_all.hard, wide=min(int(max(width.wide / share, of_all.wide)), MOST_WIDTH),
        )  # fmt: skip
        # Walks over a share of the rows are as wide as for the nearest of all.
        chosen = wanted if forced or self.target < STRANGE_TARGET else self._for_strange(wanted, rank)
        affordable = table.similarity_at(STRANGE_COST * self.walk_ns(chosen) / max(self.other_ns, 1.0), rank)
        trusted = max(chosen.far, min(affordable, table.trusted_from(chosen, rank)))
        return replace(chosen, trusted=trusted, finished=1.0 - chosen.alike * (1.0 - table.share_below(trusted, rank)))

    def _for_strange(self, wanted: Width, rank: float) -> Width:
        """The width, such that strange queries are found too: what they were seen to need, and more while it is affordable."""
        table = self.links.set.calibration
        lost = table.lost_below(wanted, rank)
        if lost > wanted.far:
            lost, around = self._with_margin(lost, STRANGE_MORE[0], rank), around_of(len(self.links.places))
            wanted = self._harder(replace(wanted, lost=lost, lost_share=table.share_below(lost, rank), around=around), lost, rank)
        failing = table.trusted_from(wanted, rank)
        if failing <= wanted.far:
            return wanted
        most = (1.0 + STRANGE_WALK) * self.walk_ns(wanted)
        harder = [self._harder(wanted, self._with_margin(failing, margin, rank), rank) for margin in STRANGE_MORE]
        wanted = next((one for one in harder if self.walk_ns(one) <= most), harder[-1])
        pools = table.pools[table.pools > max(wanted.pool, wanted.wide)].tolist()
        wider = (replace(wanted, wide=pool) for pool in pools)
        options = [wanted, *(one for one in wider if self.walk_ns(one) <= most)]
        return min(options, key=lambda one: (max(one.far, table.trusted_from(one, rank)), one.wide))

    def _with_margin(self, limit: float, margin: float, rank: float) -> float:
        """A limit below which strange queries were seen to fail, raised: so many times the usual queries are below it."""
        table = self.links.set.calibration
        return max(limit, table.similarity_at(min(margin * table.share_below(limit, rank), MOST_STRANGE), rank))

    def _harder(self, width: Width, limit: float, rank: float) -> Width:
        """The width, of walks that go on below another limit, too."""
        hard = max(width.hard, limit)
        return replace(width, hard=hard, hard_share=max(width.hard_share, self.links.set.calibration.share_below(hard, rank)))


class QueryKeys(NamedTuple):
    """The codes and keys of a query that a view is searched by."""

    layouts: tuple[tuple[int, int], ...]
    """The (r, L) of runs, in the order of their columns."""
    columns: int
    """Of all of them."""
    r: int
    bands: int
    """How many codes they are made of."""
    fresh: bool
    """Whether there are fresh rows, which have keys of their own."""

    @classmethod
    def of(cls, layouts: Sequence[tuple[int, int]], *, fresh: bool) -> QueryKeys:
        """Of the layouts of a view's runs."""
        widths = [width for _, width in layouts]
        bands = max([FRESH_BANDS if fresh else 1, *widths])
        return cls(tuple(layouts), sum(widths), max([height for height, _ in layouts], default=1), bands, fresh)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How a view is searched for one target."""

    segments: Record
    """What kernels are told of runs and fresh rows."""
    bands: Record
    """What a search by bands is told, but for the keys of its queries."""
    kept: tuple[NDArray[np.float64], NDArray[np.float64]]
    """The levels that `bands` points to."""
    certifiable: float
    """The least score of a k-th answer at which every run can certify the target."""
    keys: QueryKeys
    """What queries are hashed for."""
    bands_ns: float
    scan_ns: float
    far_bands_ns: float
    """The time of a search by bands that has to verify every row that shares one with the query."""
    predictions: list[Prediction] = field(default_factory=list)
    links: LinkPlan | None = None
    row_ns: float = 0.0
    """What a row takes that a filter lets through: it lies anywhere, and codes are not asked."""
    routes: dict[Hashable, object] = field(default_factory=dict)
    """What `route` has worked out, by what was asked."""

    @property
    def scans_far(self) -> bool:
        """Whether queries that a walk finds far are searched until they are certified or complete."""
        return self.scan_ns <= FAR_SCAN_NS

    @property
    def prefers_scan(self) -> bool:
        """Whether a scan is expected to be faster than the bands: few rows, or low contrast."""
        live = int(self.segments["live"].sum())
        return live <= SMALL or self.scan_ns <= max(self.bands_ns, SHORT_SCAN_NS)


@dataclass(frozen=True, slots=True)
class _RunPlan:
    """What is planned for one run and target; kept with the run, which never changes."""

    collect: int
    prediction: Prediction
    scan_row_ns: float


def _plan_run(run: Run, space: Space, target: float) -> _RunPlan:
    """Plan one run for one target. Cost: some 500 µs the first time."""
    known = run.plans.get(target)
    if not isinstance(known, _RunPlan):
        r, bands = run.header.r, run.header.bands
        contrast = Contrast.of(run.header.contrast)
        row_ns = contrast.scan_ns(1) if space.objects is None else space.objects.row_ns(contrast.nonzeros)
        known = _RunPlan(collecting_level(contrast, r, bands), predict(contrast, run.rows, r, bands, target), row_ns)
        if len(run.plans) > 16:
            run.plans.clear()
        run.plans[target] = known
    return known


def plan_query(view: View, space: Space, target: float) -> Plan:
    """The plan of the queries of one view for one target recall; the last few are kept with the view. Cost: 10 µs a run, once."""
    known = view.plans.get(target)
    if isinstance(known, Plan):
        return known
    if len(view.plans) >= _MOST_PLANS:
        view.plans.clear()
    plan = view.plans[target] = _plan_view(view, space, target)
    return plan


def _plan_view(view: View, space: Space, target: float) -> Plan:
    segments = view.descriptors.copy()
    if space.objects is not None and space.objects.sketch is not None:
        for i, run in enumerate(view.runs):
            segments["sketches"][i], segments["sizes"][i], segments["frame"][i] = sketches_of(run, space).addresses
    need, suggest = np.empty((len(segments), LEVELS)), np.empty((len(segments), LEVELS))
    layouts: list[tuple[int, int]] = []
    plans = [_plan_run(run, space, target) for run in view.runs]
    for i, (run, plan) in enumerate(zip(view.runs, plans, strict=True)):
        layout = run.header.r, run.header.bands
        need[i], suggest[i] = levels(*layout, target)
        if layout not in layouts:
            layouts.append(layout)
        segments["keys"][i] = sum(width for _, width in layouts[: layouts.index(layout)])
        segments["collect"][i] = plan.collect
    need[-1], suggest[-1] = levels(1, FRESH_BANDS, target)
    need = space.scores_vouching(need)
    if not space.hashes:
        layouts = []
    certifiable = max((float(similarity_needed(*layout, target)[1]) for layout in layouts), default=0.0)
    largest = max(view.runs, key=lambda run: run.rows, default=None)
    if largest is not None:
        share = view.fresh.rows / largest.rows
        contrast = Contrast.of(largest.header.contrast)
        like = replace(contrast, histogram=contrast.histogram * share)
        segments["collect"][-1] = collecting_level(like, 1, FRESH_BANDS)
    without = 0.0 if space.hashes else math.inf
    bands_ns = sum(plan.prediction.ns for plan in plans) + view.fresh.rows * COSTS.fresh + without
    scan_ns = sum(plan.scan_row_ns * run.live for plan, run in zip(plans, view.runs, strict=True))
    scan_ns += view.fresh.live * _fresh_row_ns(view, space)
    row_ns = scan_ns / max(1, view.live_rows) + COSTS.verify - COSTS.scan
    if view.links is not None:
        scan_ns = min(scan_ns, _scan_codes_ns(view, view.links, plans))
    links = None if view.links is None else _plan_links(view, view.links, plans, segments, target, min(bands_ns, scan_ns))
    far_bands_ns = sum(plan.prediction.far_ns for plan in plans) + view.fresh.rows * COSTS.fresh_scan + without
    keys = QueryKeys.of(layouts, fresh=bool(view.fresh.rows))
    bands = BANDS.record(need=need, suggest=suggest, aim=aim_of(target), columns=keys.columns)
    least = float(space.scores_vouching(np.array([certifiable]))[0])
    return Plan(
        segments, bands, (need, suggest), least, keys, bands_ns, scan_ns, far_bands_ns,
        [plan.prediction for plan in plans], links, row_ns,
    )  # fmt: skip


def _fresh_row_ns(view: View, space: Space) -> float:
    """Predicted time to score a fresh row."""
    fresh = view.fresh
    if space.objects is None or not fresh.rows:
        return COSTS.fresh_scan
    # Six bytes a number, of narrow rows.
    return COSTS.fresh_scan + space.objects.row_ns(float(fresh.rooms[: fresh.rows].mean()) / 6.0)


def _scan_codes_ns(view: View, links: Links, plans: list[_RunPlan]) -> float:
    """Predicted time of an exact scan that codes shorten: a walk, every code, the rows that it does not spare, and the rest."""
    scored = (links.set.calibration.scanned or 0.0) * (COSTS.verify + max((plan.scan_row_ns for plan in plans), default=0.0))
    rest = sum(plan.scan_row_ns * (run.rows - tail) for plan, run, tail in zip(plans, view.runs, links.tails, strict=True))
    codes = len(links.places) * (COSTS.code + links.set.coder.scan_ns(links.set.code_bytes))
    return COSTS.walk + codes + scored + rest + view.fresh.live * COSTS.fresh_scan


def _plan_links(view: View, links: Links, plans: list[_RunPlan], segments: Record, target: float, other_ns: float) -> LinkPlan:
    """Plan the walks of one view, and what completes them."""
    rest = segments.copy()
    rest_rows = view.fresh.live
    bands_ns = view.fresh.rows * COSTS.fresh
    scan_ns = view.fresh.live * COSTS.fresh_scan
    dead = 0
    for i, (run, plan, tail) in enumerate(zip(view.runs, plans, links.tails, strict=True)):
        dead += (run.rows - run.live) * min(tail, 1)
        if tail == run.rows:
            rest["rows"][i] = rest["live"][i] = 0
            continue
        rest["first"][i] = tail
        rest_rows += run.rows - tail
        bands_ns += plan.prediction.ns
        scan_ns += plan.scan_row_ns * (run.rows - tail)
    answerable = max(0.01, (links.linked - dead) / len(links.places))
    return LinkPlan(links, target, answerable, rest, rest_rows, scan_ns <= bands_ns, other_ns, min(bands_ns, scan_ns))
