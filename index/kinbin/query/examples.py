"""Queries by examples: the items that are near some and far from others.

    score(x) = mean over positive p of K(p, x)  −  mean over negative n of K(n, x)

K is what the collection's kernel prints, exactly; where that is a distance, so is the result, and the least is the nearest. Candidates
are the nearest rows of every positive example, or all rows; each is scored with every example. A row that is no candidate has no part
above the last candidate's of any positive example, and none below the least that the kernel prints of any negative one: an answer
whose last score is better than what follows from these is complete. Otherwise nothing is proved, and the answer says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.options import QueryOptions
from kinbin.query.found import EXACT, LINKS, Found
from kinbin.query.plan import Plan
from kinbin.query.ranking import SCORED_ALL, AllRows, Ranking
from kinbin.query.route import Wanted
from kinbin.query.search import Masks, Searcher
from kinbin.query.times import timed, told_times
from kinbin.query.view import View
from kinbin.records import Answer
from kinbin.rows.rows import Rows
from kinbin.storage.transactions import Reader

__all__ = ["NO_BOUND", "Asked", "ExampleSearch", "Examples", "How", "stored_row"]

NO_BOUND = "candidates of several examples give no bound; certify scores every row"
_SCAN_NS = 20_000_000.0
"""Scoring every row with every example is preferred where it is expected to take no longer."""
_ROW_NS = 80.0
_DEPTH, _LEAST_DEPTH = 10, 200
"""Candidates of each positive example: so many times k, and no fewer than so many."""


def stored_row(reader: Reader, key: bytes) -> int:
    """The number of the row of the item that a query is about.

    Raises:
        InvalidInput: code "unknown_id".
    """
    (known,) = reader.items([key])
    if known is None:
        raise InvalidInput.of("unknown_id", "no item of this collection has the id of the query", field="id")
    return known[0]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """What is asked: ids of stored items as bytes, or canonical rows of one vector or object each."""

    positive: Sequence[bytes | Rows]
    """One at least."""
    negative: Sequence[bytes | Rows] = ()

    @classmethod
    def of(cls, query: Rows | bytes | Examples) -> Examples:
        """A query of one thing is one of a single example."""
        return query if isinstance(query, Examples) else cls([query])

    def read(self, reader: Reader, rows_of: Callable[[list[int]], Rows]) -> Asked:
        """The examples as rows. rows_of: stored ones by number.

        Raises:
            InvalidInput: code "unknown_id".
        """
        own: set[str] = set()

        def row(name: str, position: int, one: bytes | Rows) -> Rows:
            if not isinstance(one, bytes):
                return one
            if len(self.positive) + len(self.negative) == 1:
                own.add(one.decode())
                return rows_of([stored_row(reader, one)])
            (known,) = reader.items([one])
            if known is None:
                raise InvalidInput.of("unknown_id", "no item of this collection has the id of this example", position=position, field=name)
            own.add(one.decode())
            return rows_of([known[0]])

        both = [
            [row(name, position, one) for position, one in enumerate(listed)]
            for name, listed in (("positive", self.positive), ("negative", self.negative))
        ]
        return Asked(_joined(both[0]), _joined(both[1]) if both[1] else None, frozenset(own))


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Examples as canonical rows."""

    positive: Rows
    negative: Rows | None
    own: frozenset[str]
    """The stored items among them."""

    @property
    def is_single(self) -> bool:
        """Whether this is a query like any other: the mean over one example is its score."""
        return len(self.positive) == 1 and self.negative is None

    @property
    def rows(self) -> list[Rows]:
        """All of them, the positive ones first."""
        return [self.positive] if self.negative is None else [self.positive, self.negative]

    def __len__(self) -> int:
        return sum(map(len, self.rows))


@dataclass(frozen=True, slots=True, eq=False)
class How:
    """How a search by examples is made."""

    options: QueryOptions
    plan: Plan
    wanted: Wanted
    masks: Masks
    allowed: Container[bytes] | None
    """Ids that a filter lets through."""


class ExampleSearch:
    """One search by examples in one snapshot."""

    def __init__(self, searcher: Searcher, at: tuple[Reader, View], how: How, examples: Asked) -> None:
        self._searcher = searcher
        self._at = at
        self._asked = how
        self._examples = examples
        self._positive, self._negative = examples.positive, examples.negative
        self._all = AllRows(searcher, at, how.masks, how.wanted.cancel)

    def first(self, k: int) -> Answer:
        """The k nearest items."""
        n, options, began = len(self._all.numbers), self._asked.options, time.perf_counter()
        if self._examples.is_single or options.mode == "exact" or options.certify or self._scans(k, n):
            return self._complete(k)
        which, ends, told = self._candidates(max(_DEPTH * k, _LEAST_DEPTH))
        answer = self._ranked(which, k)
        bound = 1.0 if ends is not None and len(answer) >= k and self._proves(float(answer.scores[k - 1]), ends) else None
        if bound is None and options.mode == "auto" and len(answer) < k and self._limit is None:
            return self._complete(k)
        verified = answer.verified * len(self._examples)
        answer = replace(
            told, ids=answer.ids, scores=answer.scores, recall_lower_bound=bound, no_bound=None if bound else NO_BOUND,
            verified=told.verified + verified, steps=(*told.steps, "score candidates"),
        )  # fmt: skip
        return told_times(answer, self._asked.wanted.times, began) if options.debug else answer

    @property
    def _limit(self) -> float | None:
        options = self._asked.options
        return options.max_distance if self._searcher.space.ascending else options.min_score

    def _scans(self, k: int, n: int) -> bool:
        if self._asked.options.mode != "auto":
            return False
        objects = self._searcher.space.objects
        # Six bytes a number.
        row_ns = _ROW_NS if objects is None or not n else objects.row_ns(float(self._all.rooms[:1_000].mean()) / 6.0)
        return n * len(self._examples) * row_ns <= _SCAN_NS or len(self._positive) * _DEPTH * k >= n

    def _combined(self, which: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """(n,) the scores of rows, as they are printed: sums in the order of the examples, so that a row scores the same on every path."""
        printed = self._searcher.space.printed
        total = _mean(printed(self._all.scores(self._positive, which)))
        return total if self._negative is None else total - _mean(printed(self._all.scores(self._negative, which)))

    def _complete(self, k: int) -> Answer:
        """Of all rows."""
        began = time.perf_counter()
        answer = self._first(self._all, self._combined(None), k)
        answer = replace(answer, verified=answer.verified * len(self._examples))
        return timed(answer, SCORED_ALL, began) if self._asked.options.debug else answer

    def _ranked(self, which: NDArray[np.int64], k: int) -> Answer:
        """Of some rows."""
        return self._first(self._all.part(which), self._combined(which), k)

    def _first(self, rows: AllRows, printed: NDArray[np.float64], k: int) -> Answer:
        sign = -1.0 if self._searcher.space.ascending else 1.0
        limit = self._limit
        return Ranking(rows, sign * printed, self._asked.allowed).first(k, printed, None if limit is None else sign * limit)

    def _candidates(self, depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64] | None, Answer]:
        """Candidates: (places of the nearest rows of all positive examples, the last score of each, what finding them took).

        The scores are None if a search was not complete.
        """
        reader, view = self._at
        wanted = replace(self._asked.wanted, k=max(1, min(depth, view.live_rows)), least=0.0, certify=False)
        found = self._searcher.search((reader, view), self._asked.plan, self._positive, wanted, self._asked.masks)
        numbers = _numbers(view, found)
        order = np.argsort(self._all.numbers)
        which = order[np.searchsorted(self._all.numbers, numbers, sorter=order)]
        complete = bool((found.path == EXACT).all()) and not np.isneginf(found.last).any()
        ends = self._searcher.space.printed(found.last) if complete else None
        mode = "exact" if (found.path == EXACT).all() else "links" if (found.path == LINKS).any() else "bands"
        steps = tuple(dict.fromkeys(step for steps in found.steps for step in steps))
        return which, ends, Answer(
            [], np.empty(0), None, None, int(found.answers.verified.sum()), int(found.answers.candidates.sum()),
            ["postings"] if found.truncated.any() else [], mode, steps, bool(found.far.any()),
            ascending=self._searcher.space.ascending,
        )  # fmt: skip

    def _proves(self, last: float, ends: NDArray[np.float64]) -> bool:
        """Whether no row that is no candidate can be among those that score so much."""
        space = self._searcher.space
        low, high = space.printed_range
        worst = 0.0 if self._negative is None else high if space.ascending else low
        edge = float(_mean(ends[:, None])[0]) - worst
        return last <= edge if space.ascending else last >= edge


def _mean(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n,) the means of (m, n), added up one after the other."""
    total: NDArray[np.float64] = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total / len(parts)


def _numbers(view: View, found: Found) -> NDArray[np.uint64]:
    """The numbers of all rows that were found, each once, ascending."""
    answers, out = found.answers, []
    for i, numbers in enumerate([*(run.row_numbers for run in view.runs), view.fresh.row_numbers]):
        out.append(numbers[answers.rows[answers.runs == i]])
    return np.unique(np.concatenate(out))


def _joined(parts: Sequence[Rows]) -> Rows:
    """All rows of some batches, in their order."""
    if len(parts) == 1:
        return parts[0]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one.indptr) for one in parts]))]).astype(np.int64)
    features, values, norms = (np.concatenate([getattr(one, name) for one in parts]) for name in ("features", "values", "norms"))
    return Rows(indptr, features, values, norms)
