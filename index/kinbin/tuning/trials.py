"""The bands that are there, tried: the sampled rows are searched for as users' queries are, and timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from kinbin.tuning.layouts import mean_recall
from kinbin.tuning.sampling import Drawn, without_own

__all__ = ["Ask", "Tried", "tried"]

Ask = Callable[[Rows, QueryOptions], AnswerBatch]
"""Answers a batch of queries in the snapshot at hand."""
_AT_ONCE, _TIMES = 64, 3
"""Sampled rows that are searched for together, so few that one thread does it, and how often; its own time is counted."""
_FOUND = ("scores", "runs", "rows")


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of it."""

    recall: float
    ns: float
    """A query, with its answer."""
    naming_ns: float
    """Of that, what making an answer of the rows takes: the same whatever the bands."""


def tried(searcher: Searcher, at: tuple[Reader, View], drawn: Drawn, asked: QueryOptions, ask: Ask) -> Tried:
    """Search for the sampled rows by bands. asked: k, the target, mode "bands"."""
    plan, wanted = plan_query(at[1], searcher.space, float(asked.target_recall)), _wanted(asked)
    found, searching, answering = [], 0.0, 0.0
    for start in range(0, len(drawn), _AT_ONCE):
        some = drawn.rows.slice(start, min(start + _AT_ONCE, len(drawn)))
        found.append(searcher.search(at, plan, some, wanted, None).answers)
        searching += _least_ns(lambda some=some: searcher.search(at, plan, some, wanted, None))  # type: ignore[misc]  # of this turn
        answering += _least_ns(lambda some=some: ask(some, deeper(asked, asked.k + 1)))  # type: ignore[misc]
    scores, _, _ = without_own(drawn.places, *(np.concatenate([getattr(one, name) for one in found]) for name in _FOUND))
    least, wanted_of_each = drawn.wanted(asked.k)
    hits = np.minimum((scores[:, : asked.k] >= least[:, None]).sum(axis=1), wanted_of_each)
    return Tried(mean_recall(hits, wanted_of_each), answering / len(drawn), max(0.0, answering - searching) / len(drawn))


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
