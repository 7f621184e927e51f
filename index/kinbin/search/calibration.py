"""What walks over a graph find, measured on the collection's own rows: the quality of codes, and how wide a walk has to be.

A sampled row stands for a query that is to come. Rows that came together are often near doubles of each other (patches of
one image, versions of one text), and a query to come has no doubles: so the rows that came just before and after the sampled one
are left out of the walk and of the truth it is compared with. Where the order of rows says nothing, that leaves out a few at random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.kernels.lookup import lookup_space
from kinbin.links.codes import Coder
from kinbin.links.graph import Graph, WalkSpace
from kinbin.search._linkkernel import GONE, place_rows, scan_codes, search_links
from kinbin.search._rundata import FIELDS
from kinbin.search._scankernel import scan
from kinbin.search.build import Recipe, read_records
from kinbin.search.links import CALIBRATED_K
from kinbin.search.view import View
from kinbin.vectors.rows import Rows

__all__ = ["calibrate", "neighbourhoods"]

_POOLS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 384, 512)
_QUERIES = 256
_SATISFIED = 0.998
_TIE = 1e-9
_FAR = 0.01
"""One in so many calibrated queries is as far from its neighbours as what is told of (`LinkSet.far_for`)."""
_LEFT_OUT = 128
"""One row in so many is left out before a sampled one, and as many after it."""
_JUDGES = 32
_NEIGHBOURHOOD = 200
"""Codes are judged by so many rows, each with so many that are nearest (itself among them)."""


def _left_out(picks: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """(m, 2) of sampled rows: the first row that is left out, and the first one after those."""
    reach = rows // _LEFT_OUT
    return np.stack([np.maximum(picks - reach, 0), np.minimum(picks + reach + 1, rows)], axis=1)


def neighbourhoods(view: View, recipe: Recipe) -> tuple[Rows, int]:
    """Some rows, each with its nearest of all rows, and how many these are together: what codes have to tell apart."""
    dead = [np.unpackbits(run.dead, bitorder="little")[: run.rows] for run in view.runs]
    alive = np.flatnonzero(np.concatenate(dead) == 0)
    picks = np.sort(np.random.default_rng(len(alive)).permutation(alive)[:_JUDGES])
    queries = read_records(*view.addresses(picks), recipe.wide)
    left_out = _left_out(picks, sum(run.rows for run in view.runs))
    size = max(1, min(_NEIGHBOURHOOD, len(alive) - int((left_out[:, 1] - left_out[:, 0]).max(initial=0)) + 1))
    nearest = np.empty((len(picks), size), np.int64)
    nearest[:, 0] = picks
    if size > 1:
        for i, (first, past) in enumerate(left_out.tolist()):
            masks = [run.dead | _bits(len(run.dead), first - base, past - base) for run, base in view.bases()]
            nearest[i, 1:] = _nearest(view, recipe, queries.slice(i, i + 1), masks, size - 1)
    return read_records(*view.addresses(nearest.reshape(-1)), recipe.wide), size


def _nearest(view: View, recipe: Recipe, query: Rows, masks: list[NDArray[np.uint8]], count: int) -> NDArray[np.int64]:
    """(count,) places of the nearest rows of one query, of those that no mask hides."""
    descriptors = view.descriptors[:-1].copy()
    descriptors[:, FIELDS["mask"]] = [mask.__array_interface__["data"][0] for mask in masks]
    shape = 1, count
    out = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty((1, 4), np.int64)
    scan(
        descriptors, recipe.wide, recipe.kernel.normalised, query.indptr, query.features, query.values, query.norms, 0.0, False,
        *lookup_space(recipe.wide, query.most_nonzeros), *out,
    )  # fmt: skip
    if (out[1] < 0).any():
        raise CorruptData("a stored row is damaged (`kinbin check` lists the damage)")
    places: NDArray[np.int64] = (out[2] + np.array([base for _, base in view.bases()], np.int64)[out[1]])[0]
    return places


def _bits(size: int, first: int, past: int) -> NDArray[np.uint8]:
    """(size,) bytes in which the bits first … past-1 are set, as far as they are inside."""
    out = np.zeros(8 * size, np.uint8)
    out[max(first, 0) : max(past, 0)] = 1
    return np.packbits(out, bitorder="little")


def calibrate(
    view: View, row_numbers: NDArray[np.uint64], graph: Graph, coder: Coder, errors: NDArray[np.float32], recipe: Recipe,
    check: Callable[[], None] = lambda: None,
) -> dict[str, Any]:  # fmt: skip
    """Recall of walks of several widths, as JSON. row_numbers, errors (n,): of the nodes. check: called between pools, may raise.

    Cost: 0.5 to 0.8 s for 50,000 rows.
    """
    nodes = len(row_numbers)
    places = np.full(nodes, GONE, np.uint32)
    for run, base in view.bases():
        place_rows(row_numbers, run.row_numbers, base, places)
    there = np.flatnonzero(places != GONE)
    picks = np.sort(np.random.default_rng(nodes).permutation(there)[:_QUERIES])
    left_out = _left_out(picks, nodes)
    most = len(there) - int((left_out[:, 1] - left_out[:, 0]).max(initial=0))
    if most < 1:
        everything = {str(k): [1.0] for k in CALIBRATED_K}
        return {"pools": [_POOLS[0]], "recall": everything, "far": {str(k): 0.0 for k in CALIBRATED_K}, "queries": len(picks)}
    trial = _Trial(view, graph, coder, errors, recipe, places, picks, left_out, min(CALIBRATED_K[-1], most))
    truth, scanned = trial.exact()
    recall: dict[str, list[float]] = {str(k): [] for k in CALIBRATED_K}
    pools = []
    met = []
    for pool in _POOLS:
        check()
        found, compared = trial.walk(pool)
        pools.append(pool)
        met.append(round(compared, 1))
        for k in CALIBRATED_K:
            rank = min(k, most)
            hits = (found[:, :rank] >= truth[:, rank - 1 : rank] - _TIE).sum(axis=1)
            recall[str(k)].append(round(float(hits.mean() / rank), 5))
        if recall["10"][-1] >= _SATISFIED and recall["100"][-1] >= 0.98:
            break
    far = {str(k): round(float(np.quantile(truth[:, min(k, most) - 1], _FAR)), 5) for k in CALIBRATED_K}
    return {"pools": pools, "recall": recall, "met": met, "far": far, "scanned": round(scanned, 1), "queries": len(picks)}


class _Trial:
    """Sampled rows as queries against a graph in arrays."""

    def __init__(
        self, view: View, graph: Graph, coder: Coder, errors: NDArray[np.float32], recipe: Recipe, places: NDArray[np.uint32],
        picks: NDArray[np.int64], left_out: NDArray[np.int64], k: int,
    ) -> None:  # fmt: skip
        self._queries = read_records(*view.addresses(places[picks]), recipe.wide)
        self._view, self._graph, self._coder, self._errors, self._recipe = view, graph, coder, errors, recipe
        self._places, self._left_out = places, left_out
        self._keep: list[object] = []
        self._descriptor = graph.descriptor(self._keep)
        self._space = WalkSpace(len(places), _POOLS[-1])
        self._lookup = lookup_space(recipe.wide, self._queries.most_nonzeros)
        shape = len(picks), k
        self._out = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)

    def walk(self, pool: int) -> tuple[NDArray[np.float64], float]:
        """Similarities (m, k) of what walks with this pool find, and how many nodes they compared, in the mean."""
        space, queries, coder = self._space, self._queries, self._coder
        counts = np.empty((2, len(queries)), np.int64)
        search_links(
            self._descriptor, coder.step, coder.offset, coder.hashed, coder.buckets, self._places, self._errors,
            self._graph.entries, self._left_out, pool, 0.0, 1.0, 0, self._view.descriptors, self._recipe.wide,
            self._recipe.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, 0.0,
            space.sums, space.code, space.table_for(coder.width), space.pool, space.visited, space.listed, space.found,
            *self._lookup, *self._out, counts[0], counts[1],
        )  # fmt: skip
        return self._out[0].copy(), float(counts[0].mean())

    def exact(self) -> tuple[NDArray[np.float64], float]:
        """Similarities (m, k) of the true neighbours, and how many rows were scored for those of one query, in the mean."""
        self.walk(_POOLS[-1])
        queries, coder = self._queries, self._coder
        numbers = np.zeros((len(queries), 4), np.int64)
        scan_codes(
            self._descriptor, coder.step, self._places, self._errors, *coder.probes(queries), self._space.table_for(coder.width),
            self._left_out,
            self._view.descriptors, self._recipe.wide, self._recipe.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, 0.0, *self._lookup, *self._out, numbers,
        )  # fmt: skip
        return self._out[0].copy(), float(numbers[:, 1].mean())
