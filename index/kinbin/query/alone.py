"""One query that a walk alone answers, from its row to its answer, without the layers that other ways need.

Most single calls are such: everything is linked, nothing but the k nearest is asked for, and the walk finds the query near. What `search`
and `answers` do for them takes longer than the walk. Where more has to be done they go on from the walk: the answer is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kinbin.links.search import search_links
from kinbin.links.widths import MOST_WIDTH
from kinbin.native.records import Record
from kinbin.options import QueryOptions
from kinbin.query.answers import WALKED, Epoch, Names, epoch_of
from kinbin.query.found import LINKS, PATHS
from kinbin.query.plan import plan_query
from kinbin.query.route import ALL, FAR, Wanted, route_for
from kinbin.query.search import Begun, Searcher
from kinbin.query.view import View
from kinbin.records import Answer
from kinbin.rows.rows import Rows
from kinbin.rows.topk import ALIKE
from kinbin.storage.transactions import Reader

__all__ = ["Alone"]

_MODE = PATHS[LINKS]
_MOST_WAYS = 64
"""Kept with a view."""
_UNKNOWN = object()


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """How the queries of one view that ask alike are walked for."""

    k: int
    segments: Record
    graph: Record
    beam: Record
    nodes: int
    layout: str
    trusted: float
    """A query whose k-th answer scores less is far; so is one of a norm that is out of these bounds (none of which is looked at where
    the higher one is infinite)."""
    low: float
    high: float
    completes: bool
    """Whether a query that is far is not left to a walk."""
    steps: tuple[str, ...]
    epoch: Epoch
    runs: tuple[int, ...]
    """Their numbers."""


class Alone:
    """Answers what a walk alone answers. Thread-safe."""

    def __init__(self, searcher: Searcher, names: Names) -> None:
        self._searcher = searcher
        self._names = names

    def answer(self, reader: Reader, view: View, query: Rows, asked: QueryOptions) -> Answer | Begun:
        """The k nearest of one row in a snapshot of the view's state; or the walk that has been made, with which `search_one` goes on.

        None: nothing was done. Cost: the walk, and 5 µs.
        """
        if asked.filter is not None or asked.min_score is not None or asked.max_distance is not None or asked.certify or asked.debug:
            return None
        way = view.ways.get((asked.k, asked.target_recall, asked.mode), _UNKNOWN)
        if way is _UNKNOWN:
            way = self._way(reader, view, asked)
        if not isinstance(way, _Way):
            return None
        searcher, names, k = self._searcher, self._names, way.k
        desk = searcher.borrow(query)
        found, scratch = desk.found(k), desk.scratch
        table, record = scratch.walk(way.nodes, MOST_WIDTH, way.layout), found.answers.record
        if search_links(searcher.space.record, way.segments, way.graph, way.beam, desk.asked(query), scratch.record, table, record):
            # Of damage the long way has more to say, and it may find another one. The desk is let go of.
            return None
        last: float = found.scores.item(-1)
        far = last <= ALIKE or last < way.trusted or not (way.high == math.inf or way.low <= query.norms.item() <= way.high)
        if far and way.completes:
            return desk, found
        numbers: list[int] = found.numbers.tolist()
        run = numbers[0]
        # Where fewer than k were found the last is of run -1, and there is more to do.
        ids = names.of_run(way.epoch, way.runs[run], found.rows) if run >= 0 and numbers[:k].count(run) == k else None
        if ids is None:
            return desk, found
        space = searcher.space
        scores, rows = space.printed(found.scores.copy()), view.runs[run].row_numbers[found.rows]
        searcher.give_back(desk)
        return Answer(
            ids, scores, None, WALKED, numbers[-2], numbers[-3], [], _MODE, way.steps, far, ascending=space.ascending, row_numbers=rows
        )

    def _way(self, reader: Reader, view: View, asked: QueryOptions) -> _Way | None:
        """Find the way, and keep it with the view; None: it is not a walk alone. Cost: 30 µs, once."""
        if len(view.ways) >= _MOST_WAYS:
            view.ways.clear()
        space = self._searcher.space
        wanted = Wanted(max(1, min(asked.k, view.live_rows)), 0.0, float(asked.target_recall), asked.mode)
        plan = plan_query(view, space, wanted.target)
        route = route_for(plan, wanted)
        first, links, way = route.steps[0], view.links, None
        # What is for all queries is done for every one; the others are for those that are far, or for which too few were found.
        alone = first.way == "walk" and first.queries == ALL and all(step.queries != ALL for step in route.steps[1:])
        if alone and links is not None and route.width is not None and space.objects is None:
            width = route.width
            low, high = (0.0, math.inf) if space.shapes else links.set.calibration.usual_norms
            way = _Way(
                wanted.k, plan.segments, links.graph, width.growing if first.grows else width.beam, len(links.places),
                links.set.coder.layout, width.trusted, low, high, any(step.queries == FAR for step in route.steps), route.told(1),
                epoch_of(reader, view), tuple(run.number for run in view.runs),
            )  # fmt: skip
        view.ways[asked.k, asked.target_recall, asked.mode] = way
        return way
