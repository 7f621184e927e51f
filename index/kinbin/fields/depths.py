"""How many candidates of each field make up an answer: measured on stored items, kept with the collection.

An item that is among the best in the sum of several scores need not be among the first in any of them. How deep the fields have to be
searched depends on the data and on what is asked: which fields, how they are weighed, how many neighbours. So some stored items are
taken as queries, scored against all items, and searched for with candidates of rising depth. The item itself and the 1/128 of all
that came just before and after it (often near doubles, which queries to come do not have) do not count as neighbours.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import StorageError
from kinbin.fields.combining import Combination
from kinbin.fields.moment import Moment
from kinbin.fields.search import Search
from kinbin.query.route import Wanted
from kinbin.rows.topk import ALIKE, NOTHING
from kinbin.storage.store import Store

__all__ = ["FEW", "MOST_NEIGHBOURS", "Depth", "Depths"]

FEW = 2_000
"""So many items are scored rather than searched."""
_QUERIES = 128
_LEAST_QUERIES = 16
_MOST_SCORES = 20_000_000
"""Fewer items are sampled where their exact scores would be more than this together."""
_RATIOS = (1, 2, 3, 5, 8, 12, 20, 32, 50, 80)
"""Depths that are tried, for each neighbour that is wanted; no more than a quarter of the items."""
MOST_NEIGHBOURS = 100
"""Depths are measured for so many neighbours at most; who wants more in auto mode has all items scored."""
_AIM = 0.8
"""Measured recall must be the target and this share of what is left to 1: for it is that of a sample."""
_LEFT_OUT = 128
_KEPT = 64
"""What is asked in so many ways is kept."""

log = logging.getLogger("kinbin.upkeep")


@dataclass(frozen=True, slots=True)
class Depth:
    """What was measured for one way to ask."""

    items: int
    """There were then."""
    written: int
    """Versions of items that had been written."""
    depth: int
    """Candidates of each field."""
    recall: float
    """Of the sample, with so many."""
    reaches: bool
    """Whether that is enough; otherwise it was the deepest that was tried."""
    us: float
    """What a query took."""
    scan_us: float
    """What a query took whose answer was exact."""

    @property
    def scans(self) -> bool:
        """Whether exact answers are better: no depth is enough, or they are faster."""
        return not self.reaches or self.scan_us <= self.us

    def serves(self, items: int, written: int) -> bool:
        """Whether it holds for so many items: they have neither doubled nor halved, and not half as many versions were written."""
        return self.items <= 2 * items and items <= 2 * self.items and 2 * (written - self.written) <= self.items


class Depths:
    """The depths of one collection. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, Depth] = {}
        with store.read() as reader:
            for key, data in reader.depths().items():
                try:
                    self._known[key] = Depth(**data)
                except TypeError:
                    # Of another version: it is measured again.
                    continue

    def told(self) -> dict[str, Any]:
        """What is known, as plain data."""
        return {key: asdict(one) for key, one in self._known.items()}

    def of(self, moment: Moment, combination: Combination, wanted: Wanted) -> Depth:
        """How deep to search. Measured the first time that so is asked, and anew when many items have come, gone or been replaced.

        Weights count by their share of the sum, to two digits each. Who asks for what is known does not wait for who measures.

        Cost: 128 exact searches of all items (16 of a million), and some twenty searches of each field for each of them.
        """
        neighbours = min(wanted.k, MOST_NEIGHBOURS)
        key = _key(combination, neighbours, wanted)
        known = self._serving(key, moment)
        if known is None:
            with self._lock:
                known = self._serving(key, moment)
                if known is None:
                    known = _measured(moment, combination, neighbours, wanted)
                    self._remember(key, known)
        return known if wanted.k <= neighbours else replace(known, depth=-(-known.depth * wanted.k // neighbours))

    def _serving(self, key: str, moment: Moment) -> Depth | None:
        known = self._known.get(key)
        return known if known is not None and known.serves(moment.state.items, moment.state.next_row) else None

    def forget(self) -> None:
        """Measure everything anew when it is asked next: bands are other ones now."""
        with self._lock:
            self._known = {}
            self._keep()

    def _remember(self, key: str, measured: Depth) -> None:
        # A new mapping: others read the old one meanwhile.
        known = {**{one: depth for one, depth in self._known.items() if one != key}, key: measured}
        self._known = dict(list(known.items())[-_KEPT:])
        self._keep()

    def _keep(self) -> None:
        try:
            with self._store.write() as writer:
                writer.put_depths(self.told())
        except StorageError as error:
            log.warning("measured depths could not be kept: %s", error)


def _key(combination: Combination, neighbours: int, wanted: Wanted) -> str:
    total = sum(combination.weights)
    fields = ",".join(f"{name}:{weight / total:.2g}" for name, weight in zip(combination.names, combination.weights, strict=True))
    return f"{'product' if combination.product else 'sum'} {fields} k={neighbours} target={wanted.target:.2f} {wanted.mode}"


def _measured(moment: Moment, combination: Combination, neighbours: int, wanted: Wanted) -> Depth:
    """Recall and time of rising depths, up to the first that is enough."""
    items = moment.known.numbers()
    n = len(items)
    count = int(np.clip(_MOST_SCORES // (n * len(combination.names)), _LEAST_QUERIES, _QUERIES))
    picks = np.sort(np.random.default_rng(n).permutation(n)[:count])
    queries = {name: moment.rows(name, items[picks]) for name in combination.names}
    search = Search(moment, combination, queries, Wanted(neighbours, 0.0, wanted.target, wanted.mode, cancel=wanted.cancel), None)
    # What opens at a first search is not what searches take.
    search.scores_of_all(np.array([0]), items)
    search.candidates(neighbours, wanted.mode)
    began = time.perf_counter()
    truth = _truth(search, picks, neighbours, n)
    scan_us = (time.perf_counter() - began) * 1e6 / count
    aim = wanted.target + _AIM * (1.0 - wanted.target)
    measured = Depth(n, moment.state.next_row, neighbours, 0.0, False, 0.0, round(scan_us, 1))
    for depth in sorted({min(ratio * neighbours, n // 4) for ratio in _RATIOS}):
        began = time.perf_counter()
        _, lists = search.candidates(depth, wanted.mode)
        union = search.union(lists, np.arange(count))
        us = (time.perf_counter() - began) * 1e6 / count
        recall = _recall(truth, [(items.searchsorted(union.numbers[union.of(i)].astype(np.uint64)), union.combined[union.of(i)])
                                 for i in range(count)], picks, neighbours, n)  # fmt: skip
        measured = replace(measured, depth=depth, recall=round(recall, 4), reaches=recall >= aim, us=round(us, 1))
        if measured.reaches or (us > scan_us and wanted.mode == "auto"):
            break
    return measured


def _near_pick(places: NDArray[np.int64], pick: int, n: int) -> NDArray[np.bool_]:
    """Which places of items, by age, are the sampled one's or near it."""
    near: NDArray[np.bool_] = np.abs(places - pick) <= n // _LEFT_OUT
    return near


def _truth(search: Search, picks: NDArray[np.int64], neighbours: int, n: int) -> NDArray[np.float64]:
    """(m,) the score of each sampled item's last true neighbour."""
    numbers = search.moment.known.numbers()
    places = np.arange(n)
    out = np.empty(len(picks))
    for i, pick in enumerate(picks.tolist()):
        search.check_cancelled()
        combined = search.combination.of(search.scores_of_all(np.array([i]), numbers)[:, 0])
        combined[_near_pick(places, pick, n)] = NOTHING
        out[i] = np.partition(combined, n - neighbours)[n - neighbours]
    return out


def _recall(
    truth: NDArray[np.float64],
    found: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
    picks: NDArray[np.int64],
    neighbours: int,
    n: int,
) -> float:
    """The mean over the samples whose neighbours have anything in common with them; of others any would do.

    found: of each sample the places of its candidates by age, and their scores.
    """
    hits = []
    for worst, (places, scores), pick in zip(truth.tolist(), found, picks.tolist(), strict=True):
        if worst > ALIKE:
            counted = scores[~_near_pick(places, pick, n)]
            hits.append(min(neighbours, int((counted >= worst).sum())) / neighbours)
    return float(np.mean(hits)) if hits else 1.0
