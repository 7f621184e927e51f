"""All rows in the order of their scores, as deep as is asked: for answers that are deeper than a search has room for."""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import look
from kinbin.errors import CorruptData
from kinbin.query.search import Masks, Searcher
from kinbin.query.view import View
from kinbin.records import Answer
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.segments.scores import are_sound, score_rows
from kinbin.storage.transactions import Reader

__all__ = ["MOST_SEARCHED", "SCORED_ALL", "AllRows", "Ranking"]

MOST_SEARCHED = 2_000
"""A search keeps its best in order as it goes, which is quick for so many; what is deeper is ranked when everything is scored."""
SCORED_ALL = "score all rows"
_SLICE, _DEAR_SLICE = 65_536, 1_024
"""Scores between two looks at whether a search was cancelled; of objects, whose distances take longer."""
_NAMED_SLICE = 20_000
"""The same of rows that are named."""


class AllRows:
    """The rows that may be answered at one moment, and their scores. Used inside of a snapshot of the view's state, by one thread."""

    def __init__(self, searcher: Searcher, at: tuple[Reader, View], masks: Masks, cancel: threading.Event | None) -> None:
        self.searcher = searcher
        self.reader, self._view = at
        view = self._view
        self.cancel = cancel
        dead = [*(run.dead for run in view.runs), view.fresh.dead] if masks is None else masks
        local = [mask.living() for mask in dead]
        numbers, places = [], []
        for run, rows in zip(view.runs, local, strict=False):
            numbers.append(run.row_numbers[rows])
            places.append(run.places(rows))
        fresh, rows = view.fresh, local[-1]
        numbers.append(fresh.row_numbers[rows])
        places.append((fresh.addresses[rows], fresh.rooms[rows].astype(np.int64)))
        self.numbers: NDArray[np.uint64] = np.concatenate(numbers)
        """(n,)"""
        self.addresses = np.concatenate([addresses for addresses, _ in places])
        self.rooms = np.concatenate([rooms for _, rooms in places])

    def part(self, which: NDArray[np.int64]) -> AllRows:
        """Some of the rows."""
        some = copy(self)
        some.numbers, some.addresses, some.rooms = self.numbers[which], self.addresses[which], self.rooms[which]
        return some

    def scores(self, queries: Rows, which: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """(m, n) the scores of m queries with all rows, or with some of them: the larger the nearer, not yet as they are printed.

        Raises:
            CorruptData: a row is damaged. SearchCancelled.
        """
        if which is None:
            self._view.verify_rows(self.reader, self.cancel)
        addresses, rooms = (self.addresses, self.rooms) if which is None else (self.addresses[which], self.rooms[which])
        space, m, n = self.searcher.space, len(queries), len(addresses)
        out = np.empty((m, n))
        size = max(1, (_SLICE if space.objects is None else _DEAR_SLICE) // m)
        desk = self.searcher.borrow(queries)
        asked = queries_record(queries)
        for start in range(0, n, size):
            # A desk that is not given back is let go of.
            self._look()
            count = min(size, n - start)
            spans = np.zeros((m, 3), np.int64)
            spans[:, 1], spans[:, 2] = count, np.arange(m) * count
            part = np.empty(m * count)
            some = slice(start, start + count)
            if score_rows(space.record, asked, addresses[some], rooms[some], spans, desk.scratch.record, part):
                raise _damaged()
            out[:, some] = part.reshape(m, count)
        self.searcher.give_back(desk)
        return out

    def _look(self) -> None:
        look(self.cancel)

    def named(self, places: NDArray[np.int64], allowed: Container[bytes] | None) -> Iterator[list[str]]:
        """The ids of the items of some rows, whose records are held against their checks. allowed: see `answers.answer_one`.

        Raises:
            CorruptData.
        """
        if not len(places):
            return
        if not are_sound(self.addresses[places], self.rooms[places], self.searcher.wide):
            raise _damaged()
        for start in range(0, len(places), _NAMED_SLICE):
            self._look()
            yield from self._owners(places[start : start + _NAMED_SLICE], allowed)

    def _owners(self, places: NDArray[np.int64], allowed: Container[bytes] | None) -> Iterator[list[str]]:
        for owners in self.reader.owners(self.numbers[places].tolist()):
            if not owners:
                raise CorruptData("the owners of a living row are missing; it was not answered from")
            kept = owners if allowed is None or len(owners) == 1 else [one for one in owners if one in allowed]
            yield [one.decode() for one in kept]


class Ranking:
    """One query's ranking of all rows. `scores` (n,): as the space has them, the larger the nearer.

    Cost: what a scan takes, once, and 2 µs for each id.
    """

    def __init__(self, rows: AllRows, scores: NDArray[np.float64], allowed: Container[bytes] | None) -> None:
        self._rows = rows
        self._scores = scores
        self._allowed = allowed
        # Ties go to the older row.
        self._order = np.lexsort((rows.numbers, -scores))

    def first(self, k: int, printed: NDArray[np.float64], least: float | None) -> Answer:
        """The k nearest items. printed (n,): what stands for each score in the answer; least: scores below it are not wanted."""
        order = self._order[:k] if least is None else self._order[:k][self._scores[self._order[:k]] >= least]
        ids: list[str] = []
        places: list[int] = []
        for place, names in zip(order.tolist(), self._rows.named(order, self._allowed), strict=True):
            ids += names
            places += [place] * len(names)
        n = len(self._scores)
        ascending = self._rows.searcher.space.ascending
        return Answer(ids[:k], printed[places[:k]], 1.0, None, n, n, [], "exact", (SCORED_ALL,), ascending=ascending)


def _damaged() -> CorruptData:
    return CorruptData("a stored row is damaged; it was not answered from")
