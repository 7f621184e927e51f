"""A search over several fields: candidates from each, exact scores of all, and what proves that none is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import look
from kinbin.errors import CorruptData
from kinbin.fields.combining import Combination, best_of
from kinbin.fields.found import Found
from kinbin.fields.moment import Moment, Part, places_of
from kinbin.query.found import BANDS, EXACT, LINKS
from kinbin.query.found import Found as RowsFound
from kinbin.query.plan import plan_query
from kinbin.query.route import Wanted
from kinbin.query.search import Masks
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.topk import NOTHING
from kinbin.segments.scores import are_sound, score_rows

__all__ = ["Search", "Union"]

_SLICE = 2_000_000
"""Scores that are held at a time by a search of everything."""
_FIRST_RANGE, _LARGEST_RANGE = 64, 1_024
"""Rows that a field is asked for which are good enough: at first, and before all items are scored instead."""


@dataclass(slots=True, eq=False)
class Union:
    """Candidates of m queries, each once, and their exact scores."""

    indptr: NDArray[np.int64]
    """(m + 1,)"""
    numbers: NDArray[np.int64]
    """(n,) ascending for each query."""
    parts: NDArray[np.float64]
    """(F, n)"""
    combined: NDArray[np.float64]

    def of(self, i: int) -> slice:
        """The candidates of one query."""
        return slice(int(self.indptr[i]), int(self.indptr[i + 1]))


class Search:
    """One search: what every step of it needs."""

    def __init__(
        self, moment: Moment, combination: Combination, queries: Mapping[str, Rows], wanted: Wanted, passing: NDArray[np.uint64] | None
    ) -> None:
        """queries: m canonical rows for each field that is asked for. passing: numbers of the items that may be answered; None: all."""
        self.moment = moment
        self.combination = combination
        self.queries = queries
        self.wanted = wanted
        self.passing = passing
        self.masks: dict[str, Masks] = {name: moment.masks(name, passing) for name in combination.names}
        self.m = len(next(iter(queries.values())))
        for name in {next(iter(moment.parts)), *combination.names}:
            # What names the items, and what is searched.
            moment.known.check_whole(name)

    def check_cancelled(self) -> None:
        """Raise SearchCancelled if that was asked for."""
        look(self.wanted.cancel)

    # -- everything

    def everything(self, which: NDArray[np.int64]) -> Found:
        """Score every item for some of the queries. Cost: what scans of all fields take together."""
        names, k = self.combination.names, self.wanted.k
        numbers = self.moment.known.numbers() if self.passing is None else self.passing
        found = Found.empty(len(names), len(which), k)
        found.bounds[:] = 1.0
        found.modes[:] = ["exact"] * len(which)
        found.steps[:] = [("score all items",)] * len(which)
        found.verified[:] = found.candidates[:] = len(numbers) * len(names)
        size = max(1, _SLICE // max(1, len(numbers) * len(names)))
        for start in range(0, len(which), size):
            self.check_cancelled()
            some = which[start : start + size]
            parts = self.scores_of_all(some, numbers)
            for i in range(len(some)):
                best = best_of(self.combination.of(parts[:, i]), numbers.view(np.int64), k)
                found.note(start + i, numbers[best].astype(np.int64), self.combination.of(parts[:, i, best]), parts[:, i, best])
        self.verify(found)
        return found

    def scores_of_all(self, which: NDArray[np.int64], numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
        """(F, queries, n) exact scores of all of these items for some of the queries."""
        n = len(numbers)
        spans = np.zeros((len(which), 3), np.int64)
        spans[:, 1], spans[:, 2] = n, np.arange(len(which)) * n
        parts = np.empty((len(self.combination.names), len(which), n))
        for name, out in zip(self.combination.names, parts, strict=True):
            known, part = self.moment.known, self.moment.parts[name]
            part.verify_rows(self.wanted.cancel)
            places = known.everything(name) if self.passing is None else places_of(known.views[name], numbers)
            self._score(name, which, places, spans, out.reshape(-1))
        return parts

    def _score(self, name: str, which: NDArray[np.int64], places: tuple[Any, Any], spans: NDArray[np.int64], out: Any) -> None:
        """Write the scores of one field, as they are printed."""
        field = self.moment.parts[name].field
        queries = self.queries[name] if len(which) == self.m else self.queries[name].take(which)
        desk = field._searcher.borrow(queries)
        if score_rows(field._space.record, queries_record(queries), *places, spans, desk.scratch.record, out):
            with self.moment.parts[name].telling():
                raise _damaged()
        field._searcher.give_back(desk)
        out[:] = field._space.printed(out)

    # -- candidates

    def candidates(self, depth: int, mode: str) -> tuple[Found, list[NDArray[np.int64]]]:
        """The nearest rows of every field that weighs something, as numbers (m, depth); and what finding them took.

        Where every field was scanned, the answer is complete if its k-th score is at least that of the worst candidates together;
        `bounds` holds that score then.
        """
        combination, m = self.combination, self.m
        told = Found.empty(len(combination.names), m, self.wanted.k)
        paths = np.zeros((len(combination.searched), m), np.int8)
        ends = np.full((len(combination.names), m), _least(combination))
        lists = []
        for x, name in enumerate(combination.searched):
            self.check_cancelled()
            part = self.moment.parts[name]
            raw = self._search_field(name, self.queries[name], self._wanted(depth, mode))
            lists.append(_numbers(part, raw))
            last = raw.last
            short = np.isneginf(last)
            low = part.field._space.printed_range[0]
            ends[combination.names.index(name)] = np.where(short, low, part.field._space.printed(np.where(short, 0.0, last)))
            paths[x] = raw.path
            told.verified += raw.answers.verified
            told.candidates += raw.answers.candidates
            told.far |= raw.far
            told.truncated |= raw.truncated & (raw.path != EXACT)
            told.steps[:] = [(*old, *(f"{name}: {step}" for step in new)) for old, new in zip(told.steps, raw.steps, strict=True)]
        told.modes[:] = np.where((paths == LINKS).any(axis=0), "links", "bands").tolist()
        complete = (paths == EXACT).all(axis=0)
        told.bounds[complete] = combination.of(ends)[complete]
        return told, lists

    def _wanted(self, depth: int, mode: str) -> Wanted:
        return replace(self.wanted, k=depth, least=0.0, mode=mode, certify=False)

    def _search_field(self, name: str, queries: Rows, wanted: Wanted) -> RowsFound:
        part = self.moment.parts[name]
        limited = replace(wanted, k=max(1, min(wanted.k, part.view.live_rows)))
        plan = plan_query(part.view, part.field._space, limited.target)
        return part.field._searcher.search((part.reader, part.view), plan, queries, limited, self.masks[name])

    def union(self, lists: Sequence[NDArray[np.int64]], which: NDArray[np.int64]) -> Union:
        """Score what was found, each item once for a query, in every field that is asked for. lists: numbers (queries, any), -1: none."""
        numbers = np.sort(np.concatenate(lists, axis=1), axis=1)
        kept = numbers >= 0
        kept[:, 1:] &= numbers[:, 1:] != numbers[:, :-1]
        indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        flat = numbers[kept]
        different, place = np.unique(flat, return_inverse=True)
        spans = np.stack([indptr[:-1], indptr[1:], indptr[:-1]], axis=1)
        parts = np.empty((len(self.combination.names), len(flat)))
        for name, out in zip(self.combination.names, parts, strict=True):
            self.check_cancelled()
            addresses, rooms = places_of(self.moment.known.views[name], different.astype(np.uint64))
            self._score(name, which, (addresses[place], rooms[place]), spans, out)
        return Union(indptr, flat, parts, self.combination.of(parts))

    def rank(self, union: Union, found: Found) -> None:
        """The k best of each query's candidates."""
        for i in range(len(union.indptr) - 1):
            here = union.of(i)
            numbers = union.numbers[here]
            best = best_of(union.combined[here], numbers, self.wanted.k)
            found.note(i, numbers[best], union.combined[here][best], union.parts[:, here][:, best])
            found.verified[i] += len(numbers) * len(self.combination.names)
            found.steps[i] += ("score candidates",)

    def near(self, depth: int, mode: str) -> tuple[Found, list[NDArray[np.int64]]]:
        """Candidates of every field, scored and ranked."""
        found, lists = self.candidates(depth, mode)
        ends = found.bounds.copy()
        self.rank(self.union(lists, np.arange(self.m)), found)
        reached = np.maximum(found.last, self.wanted.least)
        found.bounds[:] = np.where(reached >= ends, 1.0, np.nan)
        found.truncated &= np.isnan(found.bounds)
        self.verify(found)
        return found, lists

    # -- proofs

    def certify(self, found: Found, lists: Sequence[NDArray[np.int64]]) -> None:
        """Bounds for answers that have none, and what finding them adds (ARCHITECTURE.md, "Several fields").

        Cost: what a search by bands of every field for a range takes, one query after the other.
        """
        for i in np.flatnonzero(np.isnan(found.bounds)).tolist():
            self.check_cancelled()
            reached = max(float(found.last[i]), self.wanted.least)
            if reached == NOTHING:
                continue
            which = np.array([i])
            ranges = self._ranges(which, reached)
            found.steps[i] += ("search fields by bands for a bound",)
            if ranges is None:
                continue
            bound, more, verified = ranges
            again = Found.empty(len(self.combination.names), 1, self.wanted.k)
            self.rank(self.union([*(one[i : i + 1] for one in lists), *more], which), again)
            again.bounds[:] = bound
            again.modes[:], again.steps[:] = ["bands"], [()]
            again.verified += verified
            self.verify(again)
            found.put(which, again)

    def _ranges(self, which: NDArray[np.int64], reached: float) -> tuple[float, list[NDArray[np.int64]], int] | None:
        """Every row that is good enough in one field at least: (bound, numbers, rows verified); None if there are too many, or no bound."""
        share = self.combination.share(reached)
        bound, lists, verified = 1.0, [], 0
        for name in self.combination.searched:
            part = self.moment.parts[name]
            space = part.field._space
            low, high = space.printed_range
            if share > high:
                # No row reaches it.
                continue
            least = 0.0 if share <= low else max(0.0, space.score_of(share) * (1.0 - 1e-14))
            raw = self._range(name, self.queries[name].take(which), least)
            if raw is None:
                return None
            verified += int(raw.answers.verified[0])
            if raw.path[0] == BANDS:
                certificate = float(raw.answers.certificates[0])
                if raw.truncated[0] or not certificate > 0.0:
                    return None
                bound = min(bound, certificate)
            lists.append(_numbers(part, raw))
        return bound, lists, verified

    def _range(self, name: str, query: Rows, least: float) -> RowsFound | None:
        """The rows of a field that score so much, by bands; None if they are too many."""
        size = _FIRST_RANGE
        while size <= _LARGEST_RANGE:
            raw = self._search_field(name, query, replace(self.wanted, k=size, least=least, mode="bands", certify=False))
            if raw.last[0] == NOTHING or raw.answers.scores.shape[1] < size:
                return raw
            size *= 4
        return None

    def verify(self, found: Found) -> None:
        """Look at the checks of all rows that are answered.

        Raises:
            CorruptData.
        """
        numbers = np.unique(found.numbers[found.numbers >= 0]).astype(np.uint64)
        for name in self.combination.names:
            part = self.moment.parts[name]
            with part.telling():
                if not are_sound(*places_of(part.view, numbers), part.field._wide):
                    raise _damaged()


def _least(combination: Combination) -> float:
    """What stands for the score of a field that is not searched: it weighs nothing."""
    return 1.0 if combination.product else 0.0


def _numbers(part: Part, found: RowsFound) -> NDArray[np.int64]:
    """(m, k) the numbers of rows found; -1 where there is none."""
    answers, view = found.answers, part.view
    out = np.full(answers.rows.shape, -1, np.int64)
    for i, numbers in enumerate([*(run.row_numbers for run in view.runs), view.fresh.row_numbers]):
        here = answers.runs == i
        out[here] = numbers[answers.rows[here]]
    return out


def _damaged() -> CorruptData:
    return CorruptData("a stored row is damaged; it was not answered from")
