"""How wide a walk has to be for which recall: what calibration measured on sampled rows, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.links.search import BEAM, grown_pool
from kinbin.native.records import Record
from kinbin.rows.topk import ALIKE
from kinbin.storage.headers import Fields

__all__ = ["CALIBRATED_K", "HARD", "MOST_WIDTH", "SPREAD", "CalibrationTable", "Width", "around_of"]

CALIBRATED_K = (1, 10, 100)
_LOG_K = np.log(CALIBRATED_K)
MOST_WIDTH = 4096
"""Of a pool."""
HARD = 1 / 8
"""The share of the calibrated queries whose k-th neighbours are the least similar: they are measured apart, and may get a wider pool."""
SPREAD = tuple(i / 32 for i in range(33))
"""Shares of the calibrated queries of which the greatest similarity of a k-th neighbour is kept."""
_MET = 20.0
"""Nodes that a walk compares for each of its pool, where that was not measured."""
_FAR_SHARE = 0.01
_NORM_SLACK = 1.25
_MOST_TOLD = 1_024
"""Answers of `trusted_from` that are kept: filters of many selectivities ask for many widths."""
_AROUND, _AROUND_LEAST = 8.0, 8.0
"""Nodes that a walk looks at which goes on: so many times the root of their number, and one in so many at most."""
_NEIGHBOURS, _FAILED = 22, 2
"""Walks are not trusted where they fail so many of so many strange queries that follow each other by similarity."""


def around_of(nodes: int) -> int:
    """How many of so many nodes a walk looks at that goes on."""
    return int(min(nodes / _AROUND_LEAST, _AROUND * nodes**0.5))


@dataclass(frozen=True, slots=True)
class Width:
    """How wide a walk has to be."""

    pool: int
    reaches: bool
    """Whether a calibrated walk of this width had the recall that is aimed at."""
    far: float = 0.0
    """A query whose k-th answer is less similar than this is none of the kind that was calibrated on."""
    growth: float = 1.0
    more: int = 0
    """Of the pool of such a query: see `grown_pool`."""
    alike: float = 1.0
    """Share of the calibrated queries whose k-th neighbour had anything in common with them."""
    trusted: float = 0.0
    """A query whose k-th answer is less similar than this, which is `far` or more, is not left to a walk."""
    finished: float = 0.0
    """Share of the calibrated queries that are not left to a walk, or whose k-th neighbour had nothing in common with them."""
    hard: float = 0.0
    """A query whose k-th answer is less similar than this walks on: one calibrated query in eight, or more where strange ones fail."""
    wide: int = 0
    """The pool of such a query, where that is more."""
    hard_share: float = HARD
    """How many of the calibrated queries that are."""
    lost: float = 0.0
    """A query whose k-th answer is less similar than this may be lost: its walk looks around."""
    lost_share: float = 0.0
    """How many of the calibrated queries that are."""
    around: int = 0
    """Nodes, spread over all, that it is compared with then: see `look_around`."""
    beam: Record = field(init=False, repr=False, compare=False)
    """The same as kernels are told it, of walks that do not grow."""
    growing: Record = field(init=False, repr=False, compare=False)
    """And of walks that do."""

    def __post_init__(self) -> None:
        for grows, name in ((0, "beam"), (1, "growing")):
            record = BEAM.record(
                pool=self.pool, hard=max(self.hard, self.far), wide=max(self.wide, self.pool), far=self.far, growth=self.growth,
                more=self.more, grows=grows, lost=self.lost, around=self.around,
            )  # fmt: skip
            object.__setattr__(self, name, record)

    def pool_at(self, score: float) -> int:
        """The pool of a query whose k-th answer has this score, where walks grow."""
        return int(min(MOST_WIDTH, grown_pool.py_func(self.growing.view(np.recarray)[0], score)))


class Strange(NamedTuple):
    """What walks found of queries that are like no row. (K, m) each; of pools 0: wider than any."""

    similarity: NDArray[np.float64]
    """Of the k-th neighbour."""
    needs: NDArray[np.int64]
    """The pool that finds nine in ten of the k nearest."""
    around: NDArray[np.int64]
    """The pool of a walk that looks around and does."""
    most: NDArray[np.int64]
    """The pool that finds seven in ten of them."""

    @classmethod
    def of(cls, stored: NDArray[np.float64]) -> Strange:
        """From (K, 4, m); or (K, 2, m), of an earlier version, which did not try walks that look around: nobody is lost there."""
        similarity, *pools = np.moveaxis(stored, 1, 0)
        if len(pools) == 1:
            pools = [pools[0], pools[0], np.ones_like(pools[0])]
        return cls(similarity, *(one.astype(np.int64) for one in pools))


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationTable:
    """What walks of rising width found of the true neighbours of sampled rows. Stored with a link set; of P pools and K = 3 values of k.

    None: not measured, as in link sets of an earlier version.
    """

    pools: NDArray[np.int64]
    """(P,) widths, ascending."""
    recall: NDArray[np.float64]
    """(K, P) mean recall of the k nearest."""
    hard_recall: NDArray[np.float64] | None = None
    """(K, P) that of the hard queries; of all where it is None."""
    weakest: NDArray[np.float64] | None = None
    """(K, P) that of the group of the others that fared worst; of all where it is None."""
    alike: NDArray[np.float64] | None = None
    """(K,) share of the queries whose k-th neighbour had anything in common with them."""
    far: NDArray[np.float64] | None = None
    """(K,) similarity that 99 of 100 of those reached with their k-th neighbour."""
    hard: NDArray[np.float64] | None = None
    """(K,) the same of all but an eighth."""
    spread: NDArray[np.float64] | None = None
    """(K, 33) the same of all but a share; see `SPREAD`."""
    strange: Strange | None = None
    norms: NDArray[np.float64] | None = None
    """(2,) the least and the greatest usual norm, where rows are not normalised."""
    met: NDArray[np.float64] | None = None
    """(P,) nodes that a walk compares, in the mean."""
    scanned: float | None = None
    """Rows that an exact scan for the most neighbours that were calibrated had to score, in the mean."""
    queries: int | None = None
    made: dict[tuple[float, int, int, float, float], float] = field(default_factory=dict, repr=False)
    """What `trusted_from` has told, by k, pool, wider pool, where that begins, and where walks look around."""

    @classmethod
    def decode(cls, data: dict[str, Any]) -> CalibrationTable:
        """From JSON.

        Raises:
            CorruptData: a field is malformed, or one that was always there is absent.
        """
        fields = Fields(data, "the calibration of a link set")
        pools = fields.array("pools", None)
        if not len(pools) or pools.dtype != np.int64 or pools[0] < 1 or (np.diff(pools) <= 0).any():
            raise fields.refuse("pools", "ascending widths")

        def known(name: str, *shape: int | None) -> NDArray[np.float64] | None:
            return _by_k(fields, name, *shape) if name in fields else None

        strange = known("strange", None, None)
        if strange is not None and strange.shape[1] not in (2, len(Strange._fields)):
            raise fields.refuse("strange", f"of two or {len(Strange._fields)} numbers of each query")
        return cls(
            pools, _by_k(fields, "recall", len(pools)), known("hard_recall", len(pools)), known("weakest", len(pools)),
            known("alike"), known("far"), known("hard"), known("spread", len(SPREAD)),
            strange=None if strange is None else Strange.of(strange),
            norms=fields.array("norms", 2) if "norms" in fields else None,
            met=fields.array("met", len(pools)) if "met" in fields else None,
            scanned=fields.number("scanned") if "scanned" in fields else None,
            queries=fields.whole("queries") if "queries" in fields else None,
        )  # fmt: skip

    def encode(self) -> dict[str, Any]:
        """As JSON; what was not measured is left out."""
        out: dict[str, Any] = {"pools": self.pools.tolist()}
        for name in ("recall", "hard_recall", "weakest", "alike", "far", "hard", "spread"):
            values = getattr(self, name)
            if values is not None:
                out[name] = {str(k): of_k for k, of_k in zip(CALIBRATED_K, values.tolist(), strict=True)}
        if self.strange is not None:
            pairs = zip(CALIBRATED_K, *(part.tolist() for part in self.strange), strict=True)
            out["strange"] = {str(k): of_k for k, *of_k in pairs}
        for name in ("norms", "met"):
            values = getattr(self, name)
            if values is not None:
                out[name] = values.tolist()
        return out | {name: getattr(self, name) for name in ("scanned", "queries") if getattr(self, name) is not None}

    def steps(self) -> list[dict[str, float]]:
        """For people: of each pool the recalls, of all queries and of the hard ones."""
        hard = self.recall if self.hard_recall is None else self.hard_recall
        names = [f"{of}@{k}" for of in ("recall", "hard") for k in CALIBRATED_K]
        columns = np.concatenate([self.recall, hard]).T.tolist()
        return [{"pool": pool} | dict(zip(names, column, strict=True)) for pool, column in zip(self.pools.tolist(), columns, strict=True)]

    def recall_for(self, k: int) -> NDArray[np.float64]:
        """(P,) recall of the k nearest, of each pool; of more than were calibrated that of the most that were."""
        return _at_k(self.recall, min(k, CALIBRATED_K[-1]))

    def width_for(self, k: float, aim: float, least: float) -> Width:
        """The smallest pool whose calibrated recall of the k nearest reached `aim`, and `least` in every group of queries.

        The widest if none did. The hard queries are a group of their own, with a pool of their own.
        """
        rank, stretch = min(k, CALIBRATED_K[-1]), max(1.0, k / CALIBRATED_K[-1])
        pools = self.pools
        recall, hard, weakest = (_at_k(self.recall if one is None else one, rank) for one in (None, self.hard_recall, self.weakest))
        most = min(int(max(pools[-1], 2 * k) * stretch), MOST_WIDTH)

        def narrowest(good: NDArray[np.bool_]) -> int | None:
            enough = np.flatnonzero(good & (pools >= rank))
            return min(int(pools[enough[0]] * stretch), MOST_WIDTH) if len(enough) else None

        wide = narrowest(hard >= least)
        others = (recall - HARD * hard) / (1.0 - HARD)
        # What the hard queries find in their own pool counts, not what they would in the others'.
        of_hard = np.maximum(hard, hard[(pools * stretch >= (wide or most)).argmax()])
        pool = narrowest(((1.0 - HARD) * others + HARD * of_hard >= aim) & (weakest >= least))
        return Width(pool or most, pool is not None and wide is not None, hard=self.hard_for(k), wide=wide or most)

    def far_for(self, k: float) -> float:
        """The similarity that 99 of 100 calibrated queries reached with their k-th neighbour; 0 if that is not known.

        Queries whose k-th neighbour had nothing in common with them are left out: see `alike_for`.
        """
        return _between(self.far, k)

    def hard_for(self, k: float) -> float:
        """The similarity that all but an eighth of the calibrated queries reached with their k-th neighbour; 0 if that is not known."""
        return _between(self.hard, k)

    def trusted_from(self, width: Width, k: float) -> float:
        """The similarity from which walks of this width find the k nearest of strange queries, too; 0 if that is not known."""
        if self.strange is None or k > CALIBRATED_K[-1]:
            return 0.0
        asked = (k, width.pool, width.wide, max(width.hard, width.far), width.lost)
        told = self.made.get(asked)
        if told is None:
            if len(self.made) > _MOST_TOLD:
                self.made.clear()
            told = self.made[asked] = self._trusted_from(width, k)
        return told

    def _trusted_from(self, width: Width, k: float) -> float:
        similarity, needs, around, _ = self._strange_for(k)
        pool = np.where(similarity < width.beam["hard"], width.beam["wide"], width.pool)
        needs = np.where(similarity < width.lost, around, needs)
        return _above_failed(similarity, (needs == 0) | (needs > pool), _FAILED)

    def _strange_for(self, k: float) -> Strange:
        """What is known of strange queries for the k nearest: of the next calibrated k, on the scales of k.

        Similarities are moved as those of usual queries are, and pools by the numbers of neighbours.
        """
        assert self.strange is not None
        column = _column(k)
        similarity, *pools = (part[column] for part in self.strange)
        if self.spread is not None:
            similarity = _moved(similarity, self.spread[column], _at_k(self.spread, k))
        return Strange(similarity, *(np.ceil(one * (k / CALIBRATED_K[column])).astype(np.int64) for one in pools))

    def lost_below(self, width: Width, k: float) -> float:
        """The similarity from which no strange query is lost; 0 if that is not known.

        One is whose walk, which does not go on, misses three in ten of its k nearest or more, and would not if it looked around.
        """
        if self.strange is None or k > CALIBRATED_K[-1]:
            return 0.0
        similarity, needs, around, most = self._strange_for(k)
        missed = (most == 0) | (most > width.pool)
        return _above_failed(similarity, missed & (around > 0) & ((needs == 0) | (needs > around)), 1)

    def similarity_at(self, share: float, k: float) -> float:
        """The similarity below which this share of the calibrated queries has its k-th neighbour; 0 if that is not known."""
        if self.spread is None or k > CALIBRATED_K[-1]:
            return 0.0
        return float(np.interp(share, SPREAD, _at_k(self.spread, k)))

    def share_below(self, similarity: float, k: float) -> float:
        """The share of the calibrated queries whose k-th neighbour is less similar, of those that have anything in common with it."""
        if self.spread is None or k > CALIBRATED_K[-1]:
            return _FAR_SHARE
        return max(_FAR_SHARE, float(np.interp(similarity, _at_k(self.spread, k), SPREAD)))

    @property
    def usual_norms(self) -> tuple[float, float]:
        """The range that the norms of queries have if they are like those of the rows (all but 1 % at either end, and a quarter more)."""
        low, high = (0.0, np.inf) if self.norms is None else self.norms.tolist()
        return low / _NORM_SLACK, high * _NORM_SLACK

    def alike_for(self, k: float) -> float:
        """The share of the calibrated queries whose k-th neighbour had anything in common with them.

        Where it was not counted, a similarity of 0 among 99 of 100 queries says that it is not all.
        """
        k = min(k, CALIBRATED_K[-1])
        return float(self.far_for(k) > 0.0) if self.alike is None else _between(self.alike, k)

    def met_at(self, pool: int) -> float:
        """Nodes that a walk of this width compares, in the mean of the calibrated ones."""
        met = _MET * self.pools if self.met is None else self.met
        return float(np.interp(pool, self.pools, met) * max(1.0, pool / self.pools[-1]))


def _by_k(fields: Fields, name: str, *shape: int | None) -> NDArray[np.float64]:
    """(K, *shape) what is stored by k."""
    of_k = fields.fields(name)
    parts = [of_k.array(str(k), *shape) for k in CALIBRATED_K]
    if len({part.shape for part in parts}) > 1:
        raise fields.refuse(name, "of one length for every k")
    return np.array(parts, np.float64)


def _column(k: float) -> int:
    """The place of the smallest calibrated k that is not smaller."""
    return next(i for i, one in enumerate(CALIBRATED_K) if one >= k)


def _between(values: NDArray[np.float64] | None, k: float) -> float:
    """The value (K,) of k, between those of the calibrated ones on a scale of log k; 0 if that is not known."""
    return 0.0 if values is None or k > CALIBRATED_K[-1] else float(np.interp(np.log(k), _LOG_K, values))


def _at_k(measured: NDArray[np.float64], k: float) -> NDArray[np.float64]:
    """(P,) of what was measured for each calibrated k (K, P) that of k, between them on a scale of log k."""
    at = np.log(k)
    if not _LOG_K[0] < at < _LOG_K[-1]:
        known: NDArray[np.float64] = measured[0 if at <= _LOG_K[0] else -1]
        return known
    i = int(np.searchsorted(_LOG_K, at, "right")) - 1
    # One slope for each pool, as `np.interp` has it: that takes one column at a time.
    slope = (measured[i + 1] - measured[i]) / (_LOG_K[i + 1] - _LOG_K[i])
    between: NDArray[np.float64] = slope * (at - _LOG_K[i]) + measured[i]
    return between


def _moved(similarity: NDArray[np.float64], old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Similarities on the scale of another k, given quantiles of usual queries on both scales, ascending."""
    moved = np.interp(similarity, old, new)
    low, high = similarity < old[0], similarity > old[-1]
    moved[low] = similarity[low] * (new[0] / old[0] if old[0] > 0.0 else 1.0)
    moved[high] = similarity[high] + new[-1] - old[-1]
    return moved


def _above_failed(similarity: NDArray[np.float64], failed: NDArray[np.bool_], many: int) -> float:
    """The least similarity above which fewer than `many` of `_NEIGHBOURS` queries that follow each other failed; 0 if nowhere more did.

    Those that have nothing in common with their neighbours do not count.
    """
    order = np.argsort(-similarity, kind="stable")
    similarity, failed = similarity[order], (failed & (similarity > ALIKE))[order]
    together = np.convolve(failed, np.ones(_NEIGHBOURS), "valid") if len(failed) >= _NEIGHBOURS else np.zeros(0)
    too_many = np.flatnonzero(together >= many)
    if not len(too_many):
        return 0.0
    first = too_many[0] + int(np.flatnonzero(failed[too_many[0] :])[0])
    return float(np.nextafter(similarity[first], 1.0))
