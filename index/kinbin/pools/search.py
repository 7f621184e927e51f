"""Answering by a pool: rows are made of the queries, a walk over the stored ones finds the pool, and the objects are scored.

Objects that the index does not cover (they came since, or are not linked yet) are scored one by one. So an answer misses only what the
pool misses, which is calibrated, and never proved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.nodes import GRAPH
from kinbin.errors import CorruptData
from kinbin.items.embedding import Embedder
from kinbin.links.pool import search_pool
from kinbin.links.search import BROKEN, GONE, place_rows
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.pools.index import POOLS
from kinbin.pools.side import Side
from kinbin.query.found import POOL, Found
from kinbin.query.route import COVERED, REST, Route, Step
from kinbin.query.scanning import scan_in_parts
from kinbin.query.search import Masks, Searcher
from kinbin.query.view import View
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.segments.descriptors import CORRUPT

__all__ = ["Broken", "Placed", "PoolSearch"]

_WALKED, _SCANNED = Step("pool", COVERED), Step("scan", REST)


class Broken(Exception):
    """The links of embedded rows name what is not there."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """The nodes of a link set, placed in the objects' runs."""

    view: View
    """Of the objects."""
    side: View
    graph: Record
    places: NDArray[np.uint32]
    rest: Record
    """The objects that are not covered."""
    rest_rows: int
    layout: str

    @classmethod
    def of(cls, view: View, side: View) -> Placed | None:
        """None: nothing is linked. Cost: 2 ns an object."""
        if side.links is None:
            return None
        links = side.links.set
        places = np.full(len(links.row_numbers), GONE, np.uint32)
        rest = view.descriptors.copy()
        sources = [*(run.row_numbers for run in view.runs), view.fresh.row_numbers[: view.fresh.rows]]
        rows = 0
        for i, numbers in enumerate(sources):
            # As those of runs are: the kernel would be compiled again for an array that may be written.
            same = numbers.view()
            same.flags.writeable = False
            if len(numbers):
                place_rows(links.row_numbers, same, int(rest["base"][i]), places)
            first = int(np.searchsorted(numbers, np.uint64(links.horizon + 1), side="left"))
            rest["first"][i] = first
            rows += len(numbers) - first
        graph = links.graph.copy()
        GRAPH.fill(graph, places=places)
        return cls(view, side, graph, places, rest, rows, links.coder.layout)


class PoolSearch:
    """Searches one collection by one index. Thread-safe."""

    def __init__(self, searcher: Searcher, side: Side, embedder: Embedder) -> None:
        self._searcher = searcher
        self._side = side
        self._embedder = embedder
        self._placed: Placed | None = None

    def placed(self, view: View, side: View) -> Placed | None:
        """Where the covered objects lie now."""
        known = self._placed
        if known is None or known.view is not view or known.side is not side:
            known = self._placed = Placed.of(view, side)
        return known

    def covers(self, view: View, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """(n,) whether these living objects may be found by a walk."""
        with self._side.reading() as (_, side):
            placed = self.placed(view, side)
            if placed is None:
                return np.zeros(len(numbers), np.bool_)
            return np.isin(numbers, placed.side.links.set.row_numbers)  # type: ignore[union-attr]

    def search(self, view: View, queries: Rows, k: int, pool: int, masks: Masks, skips: NDArray[np.uint64] | None = None) -> Found | None:
        """The answers of pools of a size, and of all that is not covered; None: nothing is linked.

        skips (m,): row numbers that the queries leave out: their own.

        Raises:
            Broken: the links are damaged. CorruptData: a stored object is.
        """
        with self._side.reading() as (_, side):
            placed = self.placed(view, side)
            if placed is None:
                return None
            found = Found.empty(len(queries), k)
            found.route, found.path[:] = _ROUTES[placed.rest_rows > 0], POOL
            found.common = 3 if placed.rest_rows else 1
            self._walk(placed, queries, found, pool, masks, skips)
            return found

    def _walk(self, placed: Placed, queries: Rows, found: Found, pool: int, masks: Masks, skips: NDArray[np.uint64] | None) -> None:
        embedded, told = self._embedder.rows(queries), {"pool": pool}
        if skips is not None:
            nodes = np.searchsorted(placed.side.links.set.row_numbers, skips)  # type: ignore[union-attr]
            told["skips"] = np.stack([nodes, nodes + 1], axis=1)  # type: ignore[assignment]
        walks, asked = queries_record(embedded, **told), queries_record(queries)
        desk = self._searcher.borrow(queries)
        table = desk.scratch.walk(len(placed.places), POOLS[-1], placed.layout)
        space, record = self._searcher.space.record, found.answers.record
        segments = _masked(placed.view.descriptors, masks)
        flags = search_pool(space, segments, placed.graph, walks, asked, desk.scratch.record, table, record)
        if not flags and placed.rest_rows:
            asked["more"] = 1
            flags = scan_in_parts(self._searcher.space, _masked(placed.rest, masks), asked, desk.scratch.record, record)
        if flags & BROKEN:
            raise Broken
        if flags & CORRUPT:
            raise CorruptData("a stored row is damaged; it was not answered from")
        self._searcher.give_back(desk)
        found.answers.certificates[:] = np.nan


_ROUTES = (Route((_WALKED,), path="pool"), Route((_WALKED, _SCANNED), path="pool"))


def _masked(segments: Record, masks: Masks) -> Record:
    """Segments with the masks of a filter."""
    if masks is None:
        return segments
    out = segments.copy()
    out["mask"] = [address_of(mask.bits) for mask in masks]
    return out
