"""The way that a query takes: the steps, which rows and which queries each is for, and what it is expected to cost.

This is the one place where a way is chosen. `search` takes the steps one after the other; each looks at what those before it found.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

from kinbin.links.widths import Width
from kinbin.query.plan import Plan

__all__ = [
    "ALL", "CERTIFIABLE", "COVERED", "EVERY", "FAR", "LINKED", "MISSED", "REST", "SHORT", "UNCERTIFIED",
    "Route", "Step", "Wanted", "route_for", "scores_matches",
]  # fmt: skip

_FEW_PASS = 0.05
"""A filter that lets through no more than this share of the rows is answered by scoring these: walks and bands would meet too few."""
_FEW_ROWS = 512
"""So many rows that are not linked are scanned rather than hashed for."""

ALL, FAR, CERTIFIABLE, UNCERTIFIED, MISSED, SHORT = "all", "far", "certifiable far", "uncertified", "missed", "short"
"""Which queries a step is for: all; those that a walk found far and nothing has certified since; those of them that bands can certify;
those that bands, in the step before, did not certify; those of which bands, in the step before, show that a walk missed more than half
of the neighbours; those with fewer than k answers."""
EVERY, LINKED, REST, COVERED = "all", "linked", "other", "covered"
"""Which rows a step looks at: all, those that are linked, the others; or those that a pool index covers."""
_TEXTS = {"walk": "walk {} rows", "pool": "score a pool of {} rows", "bands": "search {} rows by bands", "scan": "scan {} rows"}


@dataclass(slots=True, eq=False)
class Wanted:
    """What is asked of a search."""

    k: int
    least: float
    """Answers that score less are not wanted."""
    target: float
    mode: str
    """"bands": bands only. "exact": a scan. "links": walks, and bands for rows that are not linked. "auto": what is expected to
    be fastest for the target, and a scan for each query that bands cannot certify at it; a walk that finds its query far is
    completed by bands or a scan."""
    certify: bool = False
    """Whether a walk's answers need the bands' certificate as well."""
    share: float = 1.0
    """Share of the rows that a filter lets through."""
    cancel: threading.Event | None = None
    """Once set, the search ends with SearchCancelled."""
    times: list[tuple[str, float]] | None = None
    """Where steps note what they did and how many milliseconds it took, if somebody wants to know."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step."""

    way: str
    """"walk", "bands" or "scan"."""
    rows: str
    queries: str = ALL
    ns: float = 0.0
    """What it is expected to take for a query that it is for."""
    grows: bool = False
    """Whether a walk goes on in a wider pool for queries that it finds far."""

    def __str__(self) -> str:
        return _TEXTS[self.way].format(self.rows) + ("" if self.queries == ALL else f": {self.queries}")


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """The steps of a query, in order."""

    steps: tuple[Step, ...]
    width: Width | None = None
    """How wide a walk is."""
    path: str = "bands"
    """"bands", "exact" or "links": what the first step is."""
    _told: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def told(self, taken: int) -> tuple[str, ...]:
        """The steps of which the bits are set, as text."""
        told = self._told.get(taken)
        if told is None:
            told = self._told[taken] = tuple(str(step) for i, step in enumerate(self.steps) if taken >> i & 1)
        return told


def route_for(plan: Plan, wanted: Wanted, *, links: bool = True) -> Route:
    """The way of queries that ask so. links: whether they may be walked. Kept with the plan. Cost: 1 µs, 20 µs the first time."""
    key = wanted.k, wanted.share, wanted.mode, wanted.certify, wanted.least > 0.0, links
    known = plan.routes.get(key)
    if not isinstance(known, Route):
        if len(plan.routes) > 64:
            plan.routes.clear()
        known = plan.routes[key] = _chosen(plan, wanted, links)
    return known


def scores_matches(plan: Plan, wanted: Wanted, rows: int) -> bool:
    """Whether a query in auto mode scores all of the rows that a filter lets through, and nothing else.

    It does where they are few, or where that is expected to take no longer than the way that it would take else.
    """
    return wanted.share <= _FEW_PASS or rows * plan.row_ns <= route_for(plan, wanted).steps[0].ns


def _chosen(plan: Plan, wanted: Wanted, links: bool) -> Route:
    scan = Step("scan", EVERY, ns=plan.scan_ns)
    if wanted.mode == "exact":
        return Route((scan,), path="exact")
    if links and wanted.mode in ("links", "auto") and plan.links is not None:
        width = plan.links.width(wanted.k, wanted.share, forced=wanted.mode == "links")
        if width is not None:
            return Route(_by_links(plan, wanted, width), width, "links")
    if wanted.mode != "auto" and plan.bands_ns < math.inf:
        return Route((Step("bands", EVERY, ns=plan.bands_ns),))
    if plan.bands_ns == math.inf or plan.prefers_scan:
        return Route((scan,), path="exact")
    return Route((Step("bands", EVERY, ns=plan.bands_ns), Step("scan", EVERY, UNCERTIFIED, plan.scan_ns)))


def _by_links(plan: Plan, wanted: Wanted, width: Width) -> tuple[Step, ...]:
    """Walk the links; complete by bands or a scan what they do not cover, and in auto mode the queries that are far."""
    assert plan.links is not None
    auto = wanted.mode == "auto"
    # Auto tells by the k-th nearest whether a query is far: such a query is not left to a walk.
    steps = [Step("walk", LINKED, ALL, plan.links.walk_ns(width), grows=not auto)]
    if auto and not plan.scans_far:
        steps.append(Step("walk", LINKED, FAR, plan.links.walk_ns(width), grows=True))
    if wanted.certify and plan.bands_ns >= (plan.scan_ns if auto else math.inf):
        steps.append(Step("scan", EVERY, ALL, plan.scan_ns))
    elif wanted.certify:
        steps.append(Step("bands", EVERY, ALL, plan.bands_ns))
        if auto:
            steps.append(Step("scan", EVERY, UNCERTIFIED, plan.scan_ns))
    else:
        steps += _rest(plan, auto)
        if auto:
            steps += _far(plan)
    if wanted.least <= 0.0:
        # A walk that met too few rows that may be answered (a filter, many deleted rows) is no answer.
        steps.append(Step("scan", EVERY, SHORT, plan.scan_ns))
    return tuple(steps)


def _rest(plan: Plan, auto: bool) -> list[Step]:
    """The rows that are not linked: by bands, or by a scan where that is faster or bands cannot vouch for it."""
    links = plan.links
    if links is None or not links.rest_rows:
        return []
    if links.rest_rows <= _FEW_ROWS or links.scans_rest:
        return [Step("scan", REST, ALL, links.rest_ns)]
    bands = Step("bands", REST, ALL, links.rest_ns)
    return [bands, Step("scan", REST, UNCERTIFIED, links.rest_ns)] if auto else [bands]


def _far(plan: Plan) -> list[Step]:
    """Queries that a walk found far: to the target, by bands or a scan, whichever is expected to be faster.

    Where a scan would take too long for that, bands add what they find and say what they can vouch for; only those queries are
    scanned of which they show that the walk missed more than half of the neighbours.
    """
    if not plan.scans_far and plan.far_bands_ns < math.inf:
        return [Step("bands", EVERY, FAR, plan.far_bands_ns), Step("scan", EVERY, MISSED, plan.scan_ns)]
    if plan.far_bands_ns < plan.scan_ns:
        return [Step("bands", EVERY, CERTIFIABLE, plan.far_bands_ns), Step("scan", EVERY, FAR, plan.scan_ns)]
    return [Step("scan", EVERY, FAR, plan.scan_ns)]
