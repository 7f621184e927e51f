"""The bands that are there, tried: the sampled rows are searched for as users' queries are, and timed.

What verifying a row takes depends on where rows lie that a search lists (in order, near ones again and again), on the kernel and on the
rows themselves. So it is seen in searches: those for a high target do what those for a low one do, and verify more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import thread_time_ns

import numpy as np

from kinbin.options import QueryOptions, deeper
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted
from kinbin.query.search import Searcher
from kinbin.query.view import View
from kinbin.records import AnswerBatch
from kinbin.rows.rows import Rows
from kinbin.storage.transactions import Reader
from kinbin.tuning.layouts import shares_found
from kinbin.tuning.sampling import Drawn, without_own

__all__ = ["Ask", "Tried", "tried"]

Ask = Callable[[Rows, QueryOptions], AnswerBatch]
"""Answers a batch of queries in the snapshot at hand."""
_AT_ONCE, _TIMES = 120, 3
"""Sampled rows that are searched for together, so few that one thread does it, and how often; its own time is counted."""
_FOUND = ("scores", "runs", "rows")
_TARGETS = (0.05, 0.5, 0.9, 0.995)
"""Of searches that differ in what they verify."""
_TIMED, _SLOPED = 240, 120
"""Sampled rows that are timed, and those that are searched for with every target."""
_PLAUSIBLE = 0.3, 2.0
"""What a verified row may take, of one that lies anywhere."""
_NOISE = 0.3
"""Of the time of a search."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of it."""

    recall: float
    ns: float
    """A query, with its answer."""
    naming_ns: float
    """Of that, what making an answer of the rows takes: the same whatever the bands."""
    row_ns: float
    """What a search takes longer for each row that it verifies; that of a row that lies anywhere where searches do not differ enough."""
    begun_ns: float
    """What it takes without verifying any."""


def tried(searcher: Searcher, at: tuple[Reader, View], drawn: Drawn, asked: QueryOptions, ask: Ask) -> Tried:
    """Search for the sampled rows by bands. asked: k, the target, mode "bands"."""
    plan, wanted = plan_query(at[1], searcher.space, float(asked.target_recall)), _wanted(asked)
    found, searching, answering = [], 0.0, 0.0
    for start in range(0, len(drawn), _AT_ONCE):
        some = drawn.rows.slice(start, min(start + _AT_ONCE, len(drawn)))
        found.append(searcher.search(at, plan, some, wanted, None).answers)
        if start >= _TIMED:
            continue
        searching += _least_ns(lambda some=some: searcher.search(at, plan, some, wanted, None))  # type: ignore[misc]  # of this turn
        answering += _least_ns(lambda some=some: ask(some, deeper(asked, asked.k + 1)))  # type: ignore[misc]
    scores, _, _ = without_own(drawn.places, *(np.concatenate([getattr(one, name) for one in found]) for name in _FOUND))
    least, wanted_of_each = drawn.wanted(asked.k)
    hits = np.minimum((scores[:, : asked.k] >= least[:, None]).sum(axis=1), wanted_of_each)
    timed = min(len(drawn), _TIMED)
    naming_ns = max(0.0, answering - searching) / timed
    return Tried(float(shares_found(hits, wanted_of_each).mean()), answering / timed, naming_ns, *_line(searcher, at, drawn, wanted))


def _line(searcher: Searcher, at: tuple[Reader, View], drawn: Drawn, wanted: Wanted) -> tuple[float, float]:
    """What a verified row takes, and what a search takes besides: the line through searches for several targets."""
    rows = drawn.rows.slice(0, min(len(drawn), _SLOPED))
    verified, times = [], []
    for target in _TARGETS:
        plan, asked = plan_query(at[1], searcher.space, target), replace(wanted, target=target)
        taken = 0
        for start in range(0, len(rows), _AT_ONCE):
            some = rows.slice(start, min(start + _AT_ONCE, len(rows)))
            taken += _least_ns(lambda some=some, plan=plan, asked=asked: searcher.search(at, plan, some, asked, None))  # type: ignore[misc]
        found = searcher.search(at, plan, rows, asked, None).answers
        verified.append(float(found.verified.mean()))
        times.append(taken / len(rows))
    spread = max(verified) - min(verified)
    slope = float(np.polyfit(verified, times, 1)[0]) if spread > 1.0 else 0.0
    low, high = (share * drawn.row_ns for share in _PLAUSIBLE)
    # Searches that differ by few rows differ by nothing but noise.
    row_ns = min(max(slope, low), high) if spread * drawn.row_ns > _NOISE * min(times) else drawn.row_ns
    return row_ns, max(0.0, float(np.median(np.array(times) - row_ns * np.array(verified))))


def _wanted(asked: QueryOptions) -> Wanted:
    return Wanted(asked.k + 1, 0.0, float(asked.target_recall), asked.mode)


def _least_ns(call: Callable[[], object]) -> int:
    """The least of a few times, after one that is not counted."""
    call()
    times = []
    for _ in range(_TIMES):
        began = thread_time_ns()
        call()
        times.append(thread_time_ns() - began)
    return min(times)
