"""What walks over a graph find, measured on the collection's own rows: the quality of codes, and how wide a walk has to be.

A sampled row stands for a query that is to come. Rows that came together are often near doubles of each other (patches of
one image, versions of one text), and a query to come has no doubles: so the rows that came just before and after the sampled one
are left out of the walk and of the truth it is compared with. Where the order of rows says nothing, that leaves out a few at random.

Queries to come may also be unlike all rows. Some that are made of sampled rows stand for these (`strange_queries`):
they tell below which similarity walks of which width fail.

Only neighbours that have something in common with the sampled row count: where fewer than k are alike, all others score `ALIKE` or less
and any of them would do, so finding them says nothing. A sampled row without such neighbours is no query at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.coder import Coder
from kinbin.codes.nodes import GRAPH
from kinbin.errors import CorruptData
from kinbin.links.graph import Graph
from kinbin.links.search import GONE, PROBES, place_rows, room_for, scan_codes, search_links
from kinbin.links.widths import CALIBRATED_K, HARD, SPREAD, CalibrationTable, Strange, Width, around_of
from kinbin.native.memory import address_of
from kinbin.rows.asked import Answers, queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.rows.topk import ALIKE
from kinbin.segments.scan import scan
from kinbin.segments.segments import Segments
from kinbin.segments.source import Recipe, read_records
from kinbin.storage.dead import DeadRows
from kinbin.storage.workspace import IN_MEMORY, WorkSpace, pieces

__all__ = ["calibrate", "is_yet", "neighbourhoods", "uncalibrated", "uncalibrated_yet"]

_POOLS = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 384, 512)
_QUERIES = 256
_SATISFIED = 0.998
_FAR = 0.01
"""One in so many calibrated queries is as far from its neighbours as what is told of (`CalibrationTable.far_for`)."""
_GROUPS = {1: 3, 10: 7, 100: 7}
"""By k: recall is told for so many groups of the queries that are not hard as well, once by the similarity of their neighbours and once by
age. A minority that came with a drift of the data must not vanish in the mean. Fewer groups where a query has but one neighbour to find."""
_LEFT_OUT = 128
"""One row in so many is left out before a sampled one, and as many after it."""
_STRANGE = 160
"""Queries like no row that are asked."""
_MIXTURES = ((0.5, 0.5), (0.8, 0.2), (0.125,) * 8)
"""The shares of rows that mixtures are made of."""
_FOUND, _LOST = 0.9, 0.7
"""A walk fails a strange query if it finds a smaller share of its neighbours; if it finds less than the second, it may be lost: one that
ends in one of two crowds finds half."""
_LEAST_VALUE = 1e-30
"""Smaller ones are no features (see `vectors.canonical`)."""
_NONE = -1.0
"""Stands for the score of an answer that there is not: a number, for it is written down."""
_JUDGES = 32
_NEIGHBOURHOOD = 200
"""Codes are judged by so many rows, each with so many that are nearest (itself among them)."""


def _left_out(picks: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """(m, 2) of sampled rows: the first row that is left out, and the first one after those."""
    reach = rows // _LEFT_OUT
    return np.stack([np.maximum(picks - reach, 0), np.minimum(picks + reach + 1, rows)], axis=1)


def neighbourhoods(view: Segments, recipe: Recipe, room: WorkSpace = IN_MEMORY) -> tuple[Rows, int]:
    """Some rows, each with its nearest of all rows, and how many these are together: what codes have to tell apart.

    room: for 8 bytes a row.
    """
    alive = room.empty(sum(run.live for run in view.runs), np.int64)
    place = 0
    for run, base in view.bases():
        for first, past in pieces(run.rows):
            some = run.dead.living(first, past)
            alive[place : place + len(some)] = base + some
            place += len(some)
    np.random.default_rng(len(alive)).shuffle(alive)
    picks = np.sort(alive[:_JUDGES])
    queries = read_records(*view.addresses(picks), recipe.wide)
    left_out = _left_out(picks, sum(run.rows for run in view.runs))
    size = max(1, min(_NEIGHBOURHOOD, len(alive) - int((left_out[:, 1] - left_out[:, 0]).max(initial=0)) + 1))
    nearest = np.empty((len(picks), size), np.int64)
    nearest[:, 0] = picks
    if size > 1:
        for i, (first, past) in enumerate(left_out.tolist()):
            masks = [run.dead.with_range(first - base, past - base) for run, base in view.bases()]
            nearest[i, 1:] = _nearest(view, recipe, queries.slice(i, i + 1), masks, size - 1)
    return read_records(*view.addresses(nearest.reshape(-1)), recipe.wide), size


def _nearest(view: Segments, recipe: Recipe, query: Rows, masks: list[DeadRows], count: int) -> NDArray[np.int64]:
    """(count,) places of the nearest rows of one query, of those that no mask hides."""
    segments = view.descriptors[:-1].copy()
    segments["mask"] = [address_of(mask.bits) for mask in masks]
    room = Answers.empty(1, count)
    scratch = Scratch(recipe.wide, query.most_nonzeros)
    if scan(recipe.space.record, segments, queries_record(query), scratch.record, room.record) or (room.runs < 0).any():
        raise CorruptData("a stored row is damaged")
    places: NDArray[np.int64] = (room.rows + np.array([base for _, base in view.bases()], np.int64)[room.runs])[0]
    return places


def calibrate(
    view: Segments, row_numbers: NDArray[np.uint64], graph: Graph, coder: Coder, errors: NDArray[np.float32], recipe: Recipe,
    check: Callable[[], None] = lambda: None,
) -> CalibrationTable:  # fmt: skip
    """Recall of walks of several widths. row_numbers, errors (n,): of the nodes. check: called between pools, may raise.

    What takes 12 bytes a row has its room where the graph's codes have theirs. Cost: 0.7 to 2 s for 50,000 rows.
    """
    nodes, room = len(row_numbers), graph.codes.room
    places = room.empty(nodes, np.uint32)
    places[:] = GONE
    for run, base in view.bases():
        place_rows(row_numbers, run.row_numbers, base, places)
    there = _placed(places, room)
    np.random.default_rng(nodes).shuffle(there)
    picks = np.sort(there[:_QUERIES])
    left_out = _left_out(picks, nodes)
    most = len(there) - int((left_out[:, 1] - left_out[:, 0]).max(initial=0))
    if most < 1:
        return uncalibrated(len(picks))
    stage = _Stage(view, graph, coder, errors, recipe, places)
    sampled = read_records(*view.addresses(places[picks]), recipe.wide)
    trial = _Trial(stage, sampled, left_out, min(CALIBRATED_K[-1], most))
    truth, scanned = trial.exact()
    scores = _Scores(truth, most)
    mixed = strange_queries(sampled, _STRANGE)
    strange = _Trial(stage, mixed, np.zeros((len(mixed), 2), np.int64), min(CALIBRATED_K[-1], len(there)))
    failures = _Failures(strange.exact()[0])
    # Where nothing is alike, no width would say anything, and walks are as wide as their pools: seconds for nothing.
    for pool in _POOLS if truth.max(initial=0.0) > ALIKE else ():
        check()
        scores.add(pool, *trial.walk(pool))
        found = strange.walk(pool)[0]
        around, lost = found.copy(), failures.lost(found)
        if len(lost):
            # A walk that finds enough finds no less when it looks around besides.
            around[lost] = strange.of(mixed, lost).walk(pool, around_of(nodes))[0]
        failures.add(pool, found, around)
        if scores.satisfied():
            break
    norms = None
    if not recipe.space.shapes:
        norms = np.quantile(room.copy(graph.norms), [_FAR, 1.0 - _FAR], overwrite_input=True).astype(np.float64)
    return replace(scores.table(), strange=failures.strange(), norms=norms, scanned=round(scanned, 1))


def _placed(places: NDArray[np.uint32], room: WorkSpace) -> NDArray[np.int64]:
    """The nodes that have a place, ascending."""
    there = room.empty(sum(int((places[first:past] != GONE).sum()) for first, past in pieces(len(places))), np.int64)
    count = 0
    for first, past in pieces(len(places)):
        some = first + np.flatnonzero(places[first:past] != GONE)
        there[count : count + len(some)] = some
        count += len(some)
    return there


def uncalibrated(queries: int = 1) -> CalibrationTable:
    """What says nothing of any walk."""
    return _Scores(np.zeros((queries, 1)), 1).table()


def uncalibrated_yet() -> CalibrationTable:
    """The same, of links that are to be measured when others have joined them. See `is_yet`."""
    return replace(uncalibrated(), queries=0)


def is_yet(table: CalibrationTable) -> bool:
    """Whether links are to be measured yet: so they are due, whatever they lack."""
    return table.queries == 0


def strange_queries(rows: Rows, count: int) -> Rows:
    """Queries like no row, made of sampled ones: mixtures (`_MIXTURES`), and rows whose values lie elsewhere; of each kind as many.

    Rows lie in crowds, and what lies between crowds or far from all is what links lead to least surely. A mixture is one of shapes, and
    its norm is the mean.
    """
    rng = np.random.default_rng(len(rows))
    everywhere = np.unique(rows.features)
    made = []
    for i in range(count if len(rows) else 0):
        elsewhere = i % (len(_MIXTURES) + 1) == len(_MIXTURES)
        weights = (1.0,) if elsewhere else _MIXTURES[i % (len(_MIXTURES) + 1)]
        some = rng.choice(len(rows), min(len(rows), len(weights)), replace=False)
        features = np.concatenate([rows.row(one)[0] for one in some.tolist()])
        shapes = np.concatenate([share * rows.row(one)[1] / rows.norms[one] for one, share in zip(some.tolist(), weights, strict=False)])
        if elsewhere:
            features = rng.choice(everywhere, len(features), replace=False)
        known, place = np.unique(features, return_inverse=True)
        values = (np.bincount(place, shapes, len(known)) * rows.norms[some].mean()).astype(np.float32)
        kept = np.abs(values) > _LEAST_VALUE
        if kept.any():
            made.append((known[kept], values[kept]))
    sizes = np.cumsum([0] + [len(values) for _, values in made])
    norms = [np.cumsum(np.abs(values).astype(np.float64))[-1] for _, values in made]
    features, values = (np.concatenate(parts) for parts in zip((everywhere[:0], rows.values[:0]), *made, strict=True))
    return Rows(sizes, features, values, np.array(norms, np.float64))


class _Failures:
    """How wide walks have to be for queries that are like no row."""

    def __init__(self, truth: NDArray[np.float64]) -> None:
        """truth (m, K): similarities of the true neighbours, best first."""
        self._truth = truth
        self._alike = np.cumsum(truth > ALIKE, axis=1)
        self._needs, self._around, self._most = (np.zeros((len(CALIBRATED_K), len(truth)), np.int64) for _ in range(3))

    def _enough(self, found: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
        """(calibrated k, m) whether so much of what is true was found."""
        hits = np.cumsum(_hits(found, self._truth), axis=1)
        ranks = [min(k, self._truth.shape[1]) - 1 for k in CALIBRATED_K]
        return (hits[:, ranks] >= share * self._alike[:, ranks]).T

    def lost(self, found: NDArray[np.float64]) -> NDArray[np.int64]:
        """The queries whose walks found too little, for some number of neighbours."""
        return np.flatnonzero(~self._enough(found, _FOUND).all(axis=0))

    def add(self, pool: int, found: NDArray[np.float64], around: NDArray[np.float64]) -> None:
        """What walks of one width found, and such as look around: similarities (m, K), best first. Widths rise."""
        for of, share, told in ((found, _FOUND, self._needs), (around, _FOUND, self._around), (found, _LOST, self._most)):
            for needs, enough in zip(told, self._enough(of, share), strict=True):
                needs[enough & (needs == 0)] = pool
                needs[~enough] = 0

    def strange(self) -> Strange:
        """What they found."""
        kth = [self._truth[:, min(k, self._truth.shape[1]) - 1] for k in CALIBRATED_K]
        return Strange(_rounded(np.array(kth)), self._needs, self._around, self._most)


class _Scores:
    """What walks of rising width found of the true neighbours of sampled rows."""

    def __init__(self, truth: NDArray[np.float64], most: int) -> None:
        """truth (m, K): similarities of the true neighbours, best first, of which there are `most` at most; queries by age."""
        self._truth = truth
        self._ranks = {k: min(k, most) for k in CALIBRATED_K}
        alike = np.cumsum(truth > ALIKE, axis=1)
        self._alike = {k: alike[:, rank - 1] for k, rank in self._ranks.items()}
        self._pools: list[int] = []
        self._met: list[float] = []
        self._recall: dict[int, list[float]] = {k: [] for k in CALIBRATED_K}
        self._hard: dict[int, list[float]] = {k: [] for k in CALIBRATED_K}
        self._weakest: dict[int, list[float]] = {k: [] for k in CALIBRATED_K}

    def add(self, pool: int, found: NDArray[np.float64], met: float) -> None:
        """What walks of one width found: similarities (m, K), best first, and how many nodes they compared."""
        self._pools.append(pool)
        self._met.append(round(met, 1))
        hits = np.cumsum(_hits(found, self._truth), axis=1)
        for k, rank in self._ranks.items():
            alike = self._alike[k]
            said = np.flatnonzero(alike)
            recalls = hits[said, rank - 1] / alike[said]
            self._recall[k].append(_mean(recalls))
            order = np.argsort(self._truth[said, rank - 1], kind="stable")
            few = -(-len(said) // round(1 / HARD))
            self._hard[k].append(_mean(recalls[order[:few]]))
            others = recalls[np.sort(order[few:])], recalls[order[few:]]
            self._weakest[k].append(min(_mean(group) for one in others for group in np.array_split(one, _GROUPS[k])))

    def satisfied(self) -> bool:
        """Whether wider walks have nothing to add."""
        return self._recall[10][-1] >= _SATISFIED and self._recall[100][-1] >= 0.98

    def table(self) -> CalibrationTable:
        """What was measured of these queries."""
        kth = [self._truth[:, self._ranks[k] - 1] for k in CALIBRATED_K]
        alike = [of[of > ALIKE] for of in kth]
        recall, hard_recall, weakest = (
            np.array([of_k[k] or [0.0] for k in CALIBRATED_K]) for of_k in (self._recall, self._hard, self._weakest)
        )
        return CalibrationTable(
            np.array(self._pools or _POOLS[:1], np.int64), recall, hard_recall, weakest,
            alike=np.array([round(len(some) / max(1, len(of)), 5) for some, of in zip(alike, kth, strict=True)]),
            far=np.array([_quantile(of, _FAR) for of in alike]),
            hard=np.array([_quantile(of, HARD) for of in alike]),
            spread=np.array([[_quantile(of, share) for share in SPREAD] for of in alike]),
            met=np.array(self._met) if self._met else None, queries=len(self._truth),
        )  # fmt: skip


def _hits(found: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.int64]:
    """(m, K) whether each true neighbour that has anything in common with its query was found.

    found and truth (m, K) are similarities, best first, truth the best of all rows. They are compared as multisets: of
    neighbours that are equally similar as many are hits as were found. A row scores the same on every path.
    """
    hits = np.zeros(truth.shape, np.int64)
    place = np.zeros(len(truth), np.int64)
    rows = np.arange(len(truth))
    for x in range(truth.shape[1]):
        hits[:, x] = (truth[:, x] > ALIKE) & (found[rows, place] == truth[:, x])
        place += hits[:, x]
    return hits


def _quantile(similarities: NDArray[np.float64], share: float) -> float:
    """The similarity that all but a share reached; 0 of none."""
    return float(_rounded(np.quantile(similarities, share, keepdims=True))[0]) if len(similarities) else 0.0


def _rounded(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores as they are kept: to six digits, for they may have any range."""
    flat = [float(f"{score:.6g}") for score in scores.reshape(-1).tolist()]
    return np.array(flat).reshape(scores.shape)


def _mean(recalls: NDArray[np.float64]) -> float:
    """The mean; 0 of none: what was not measured reaches nothing."""
    return round(float(recalls.mean()), 5) if len(recalls) else 0.0


@dataclass(frozen=True, slots=True)
class _Stage:
    """A graph in arrays over stored rows, to try walks on."""

    view: Segments
    graph: Graph
    coder: Coder
    errors: NDArray[np.float32]
    recipe: Recipe
    places: NDArray[np.uint32]


class _Trial:
    """Some rows as queries against a graph in arrays."""

    def __init__(self, stage: _Stage, queries: Rows, left_out: NDArray[np.int64], k: int) -> None:
        """left_out (m, 2): of each query the first node that is left out, and the first one after those."""
        self._space, self._segments, self._coder = stage.recipe.space.record, stage.view.descriptors, stage.coder
        self._queries, self._left_out = queries, left_out
        self._asked = queries_record(queries, skips=left_out)
        self._stage, self._keep = stage, list[object]()
        self._graph = stage.graph.record(self._keep)
        GRAPH.fill(self._graph, **stage.coder.fields(), errors=stage.errors, places=stage.places)
        self._scratch = Scratch(stage.recipe.wide, queries.most_nonzeros)
        self._table = self._scratch.walk(len(stage.places), _POOLS[-1], stage.coder.layout)
        self._answers = Answers.empty(len(queries), k)

    def of(self, queries: Rows, which: NDArray[np.int64]) -> _Trial:
        """The same of some of the queries, of which nothing is left out."""
        return _Trial(self._stage, queries.take(which), self._left_out[which], self._answers.scores.shape[1])

    def walk(self, pool: int, around: int = 0) -> tuple[NDArray[np.float64], float]:
        """Scores (m, k) of what walks with this pool find, and how many nodes they compared, in the mean.

        around: nodes that they look at besides.
        """
        answers = self._answers
        answers.candidates[:] = 0
        limit = np.inf if around else 0.0
        beam = Width(pool, reaches=False, hard=limit, lost=limit, around=around).beam
        search_links(self._space, self._segments, self._graph, beam, self._asked, self._scratch.record, self._table, answers.record)
        return np.maximum(answers.scores, _NONE), float(answers.candidates.mean())

    def exact(self) -> tuple[NDArray[np.float64], float]:
        """Scores (m, k) of the true neighbours, and how many rows were scored for those of one query, in the mean."""
        self.walk(_POOLS[-1])
        answers = self._answers
        answers.verified[:] = 0
        codes, errors = self._coder.probes(self._queries)
        room = room_for(len(errors))
        probes = PROBES.record(codes=codes, errors=errors, room=room)
        scan_codes(self._space, self._segments, self._graph, probes, self._asked, self._scratch.record, self._table, answers.record)
        return np.maximum(answers.scores, _NONE), float(answers.verified.mean())
