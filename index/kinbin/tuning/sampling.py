"""What predictions are made of: some stored rows, each with its exact neighbours in the whole collection and its nearness to the others."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import threading
from dataclasses import dataclass
from time import thread_time_ns

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import strict
from kinbin.native.memory import prefetch
from kinbin.native.records import Record
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted
from kinbin.query.search import Searcher
from kinbin.query.view import View
from kinbin.rows.asked import asked_of, queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.rows.topk import ALIKE, NOTHING
from kinbin.segments.scan import sample_scores
from kinbin.segments.source import read_records
from kinbin.spaces.native import clear_query, fill_query, rules_of, score_row
from kinbin.storage.transactions import Reader

__all__ = ["FINE_BINS", "Drawn", "Places", "draw", "places_of", "read_places", "without_own"]

FINE_BINS = 1_024
"""Of the histogram of collision probabilities: a power of a probability is taken at the middle of its bin."""
_DEEPER, _LEAST_DEPTH = 8, 64
"""Neighbours that are looked at: so many for each of the k, and so many at least. Where recall is low, the k-th found is one of those."""
_TIMED, _TIMES = 256, 4
"""Rows that are scored for a query to see what that takes, and how often."""
_AHEAD, _LINES = 6, 8
"""Rows on their way while one is scored, and 64-byte lines of each, as in a search by bands."""
_COMPARED, _AMONG = 256, 65_536
"""Sampled rows that are compared with all rows, or with so many of them: few queries verify most rows, so few say little of the mean."""
_OTHERS = 2_048
"""Rows that are hashed, wherever they lie."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Rows by where they lie: (n,) place of the run (that of the fresh rows is the last), local row, address and room of the record."""

    runs: NDArray[np.int64]
    rows: NDArray[np.int64]
    addresses: NDArray[np.uint64]
    rooms: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.runs)

    def take(self, which: NDArray[np.int64]) -> Places:
        """Some of them."""
        return Places(self.runs[which], self.rows[which], self.addresses[which], self.rooms[which])


@dataclass(frozen=True, slots=True, eq=False)
class Others:
    """Some of all rows, s of them, wherever they lie: most are near to nothing."""

    rows: Rows
    far: NDArray[np.bool_]
    """(h, s) whether a row is neither the sampled one nor one of its neighbours that are listed."""
    histogram: NDArray[np.float64]
    """(h, FINE_BINS) number of those that are far, by the probability that hashes agree."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Sampled rows, q of them, and what lies around them."""

    places: Places
    rows: Rows
    scores: NDArray[np.float64]
    """(q, m) scores of the nearest of all other rows, best first; NOTHING where there is none."""
    collide: NDArray[np.float64]
    """(q, m) the probability that a hash of the row agrees with one of this neighbour."""
    addresses: NDArray[np.uint64]
    """(q, m) of the neighbours' records; 0 where there is none."""
    rooms: NDArray[np.int64]
    parts: NDArray[np.int64]
    """(q, m) the run that holds it; the number of runs: it is fresh."""
    histogram: NDArray[np.float64]
    """(h, FINE_BINS) of the first h sampled rows: expected number of all other rows, by the probability that hashes agree."""
    others: Others
    row_ns: float
    """What scoring a row takes that lies anywhere, measured here."""

    def __len__(self) -> int:
        return len(self.scores)

    def wanted(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(q,) the score from which a row is one of the k nearest, ties included, and how many of these are to be found.

        Rows that have nothing in common with the sampled one are neither hit nor miss: of fewer than k others just those are wanted.
        """
        nearest = self.scores[:, :k]
        alike = (nearest > ALIKE).sum(axis=1)
        least = nearest[np.arange(len(nearest)), np.maximum(alike - 1, 0)]
        return np.where(alike > 0, least, np.inf), alike

    def farther(self) -> NDArray[np.float64]:
        """(h, FINE_BINS) the histogram without the neighbours that are listed one by one."""
        h, m = len(self.histogram), self.scores.shape[1]
        bins = np.minimum((self.collide[:h] * FINE_BINS).astype(np.int64), FINE_BINS - 1)
        near = np.zeros_like(self.histogram)
        np.add.at(near, (np.repeat(np.arange(h), m).reshape(h, m), bins), self.addresses[:h] != 0)
        return np.maximum(self.histogram - near, 0.0)


def places_of(view: View) -> Places:
    """All living rows."""
    alive = [run.dead.living() for run in view.runs]
    placed = [run.places(local) for run, local in zip(view.runs, alive, strict=True)]
    fresh = view.fresh.dead.living()
    alive.append(fresh)
    placed.append((view.fresh.addresses[fresh], view.fresh.rooms[fresh].astype(np.int64)))
    numbers = [np.full(len(local), place, np.int64) for place, local in enumerate(alive)]
    addresses, rooms = zip(*placed, strict=True)
    return Places(np.concatenate(numbers), np.concatenate(alive).astype(np.int64), np.concatenate(addresses), np.concatenate(rooms))


def read_places(places: Places, wide: bool) -> Rows:
    """The rows that lie there, each checked.

    Raises:
        CorruptData: one is damaged.
    """
    return read_records(places.addresses, places.rooms, wide)


def draw(searcher: Searcher, at: tuple[Reader, View], count: int, k: int, seed: int, cancel: threading.Event | None = None) -> Drawn:
    """Draw `count` of the living rows (all if there are fewer), and look at their neighbours, by an exact scan of all rows.

    Rows that lie in the sample only would be farther away than the neighbours that a query has: so all rows are looked at.
    Cost: that of `count` exact queries; 256 times 65,536 scores besides.

    Raises:
        CorruptData: a row is damaged. SearchCancelled: `cancel` was set.
    """
    view = at[1]
    every = places_of(view)
    rng = np.random.default_rng(seed)
    picks = rng.permutation(len(every))[:count]
    places = every.take(picks)
    rows = read_places(places, searcher.wide)
    depth = max(1, min(len(every) - 1, max(_LEAST_DEPTH, _DEEPER * k)))
    plan = plan_query(view, searcher.space, 0.9)
    found = searcher.search(at, plan, rows, Wanted(depth + 1, 0.0, 0.9, "exact", cancel=cancel), None).answers
    scores, runs, locals_ = without_own(places, found.scores, found.runs, found.rows)
    addresses, rooms = _located(view, runs, locals_)
    collide = np.where(scores == NOTHING, 0.0, scores)
    if searcher.space.code is not None:
        collide = np.clip(_listed(searcher, searcher.space.law, rows, addresses, rooms), 0.0, 1.0)
    some = rows.slice(0, min(len(rows), _COMPARED))
    histogram = _histogram(searcher, every, picks[:_COMPARED], some, rng)
    others = _others(searcher, every.take(np.sort(rng.permutation(len(every))[:_OTHERS])), some, places.addresses, addresses)
    row_ns = _row_ns(searcher, every.take(rng.integers(0, len(every), len(some) * _TIMED)), some)
    return Drawn(places, rows, scores, collide, addresses, rooms, np.maximum(runs, 0), histogram, others, row_ns)


def without_own(
    places: Places, scores: NDArray[np.float64], runs: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Answers (q, m + 1) of stored rows without these rows themselves: (q, m) each. Where a row is not among them, the last is left out."""
    own = (runs == places.runs[:, None]) & (rows == places.rows[:, None])
    last = ~own.any(axis=1)
    own[last, -1] = True
    shape = len(scores), scores.shape[1] - 1
    return scores[~own].reshape(shape), runs[~own].reshape(shape), rows[~own].reshape(shape)


def _located(view: View, runs: NDArray[np.int64], locals_: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Addresses and rooms of rows, of the shape of runs; 0 where runs is -1."""
    addresses, rooms = np.zeros(runs.shape, np.uint64), np.zeros(runs.shape, np.int64)
    for place, run in enumerate(view.runs):
        here = runs == place
        addresses[here], rooms[here] = run.places(locals_[here])
    fresh = runs == len(view.runs)
    addresses[fresh], rooms[fresh] = view.fresh.addresses[locals_[fresh]], view.fresh.rooms[locals_[fresh]].astype(np.int64)
    return addresses, rooms


def _listed(searcher: Searcher, space: Record, rows: Rows, addresses: NDArray[np.uint64], rooms: NDArray[np.int64]) -> NDArray[np.float64]:
    """(q, m) scores of the rows that are listed for each query."""
    out = np.zeros(addresses.shape)
    scratch = Scratch(searcher.wide, rows.most_nonzeros)
    _score_listed(space, addresses, rooms, queries_record(rows), scratch.record, out)
    return out


def _row_ns(searcher: Searcher, rows: Places, queries: Rows) -> float:
    """What scoring one of these rows takes: for each query some of them, which lie anywhere."""
    shape = len(queries), _TIMED
    addresses, rooms = rows.addresses.reshape(shape), rows.rooms.reshape(shape)
    times = []
    for _ in range(_TIMES):
        began = thread_time_ns()
        _listed(searcher, searcher.space.record, queries, addresses, rooms)
        times.append(thread_time_ns() - began)
    return min(times) / max(1, addresses.size)


def _histogram(searcher: Searcher, every: Places, picks: NDArray[np.int64], rows: Rows, rng: np.random.Generator) -> NDArray[np.float64]:
    """(h, FINE_BINS) see `Drawn.histogram`."""
    n = len(every)
    among = np.arange(n) if n <= _AMONG else np.sort(rng.choice(n, _AMONG, replace=False))
    place = np.searchsorted(among, picks)
    own = np.where(among[np.minimum(place, len(among) - 1)] == picks, place, -1)
    counts, best = np.zeros((len(picks), FINE_BINS), np.int64), np.empty((len(picks), 1))
    scratch = Scratch(searcher.wide, rows.most_nonzeros)
    sample_scores(searcher.space.law, every.addresses[among], every.rooms[among], own, queries_record(rows), scratch.record, counts, best)
    scaled: NDArray[np.float64] = counts.astype(np.float64) * ((n - 1) / max(1, len(among) - 1))
    return scaled


def _others(searcher: Searcher, places: Places, asked: Rows, own: NDArray[np.uint64], listed: NDArray[np.uint64]) -> Others:
    """Rows that lie at some places, for the first sampled rows. own (q,), listed (q, m): where these lie, and their neighbours."""
    shape = len(asked), len(places)
    addresses, rooms = np.broadcast_to(places.addresses, shape), np.broadcast_to(places.rooms, shape)
    collide = np.clip(_listed(searcher, searcher.space.law, asked, np.ascontiguousarray(addresses), np.ascontiguousarray(rooms)), 0.0, 1.0)
    far = np.array([~np.isin(places.addresses, np.append(listed[q], own[q])) for q in range(shape[0])]).reshape(shape)
    bins = np.minimum((collide * FINE_BINS).astype(np.int64), FINE_BINS - 1) + FINE_BINS * np.arange(shape[0])[:, None]
    histogram = np.bincount(bins[far], minlength=shape[0] * FINE_BINS).reshape(shape[0], FINE_BINS).astype(np.float64)
    return Others(read_places(places, searcher.wide), far, histogram)


@strict
def _score_listed(space, addresses, rooms, queries, scratch, scores):
    """Score of each of q queries the rows that are listed for it: (q, m) addresses (0: none), rooms and, written, scores."""
    asked = asked_of(queries[0])
    for q in range(queries[0].count):
        a, b = asked.indptr[q], asked.indptr[q + 1]
        features = asked.features[a:b]
        query = fill_query(rules_of(space[0]), scratch, features, asked.values[a:b], asked.norms[q])
        for x in range(addresses.shape[1]):
            if addresses[q, x] != np.uint64(0):
                if x + _AHEAD < addresses.shape[1]:
                    for line in range(_LINES):
                        prefetch(addresses[q, x + _AHEAD] + np.uint64(64 * line))
                score, sound = score_row(query, addresses[q, x], rooms[q, x])
                scores[q, x] = score if sound else 0.0
        clear_query(query, features)
