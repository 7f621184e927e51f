"""What a search finds: rows, not yet ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.search import TRUNCATED
from kinbin.query.route import Route
from kinbin.rows.asked import Answers
from kinbin.rows.topk import NOTHING

__all__ = ["BANDS", "EXACT", "LINKS", "PATHS", "POOL", "Found", "FoundAlone", "FoundOne", "joined", "new_rows"]

_SURE, _UNSURE = np.zeros(1, np.bool_), np.ones(1, np.bool_)

BANDS, EXACT, LINKS, POOL = 0, 1, 2, 3
PATHS = ("bands", "exact", "links", "pool")


class FoundOne(NamedTuple):
    """The raw answer to one query: what `Found` has of it, as plain numbers, without the places that no row took."""

    scores: NDArray[np.float64]
    runs: list[int]
    rows: NDArray[np.int64]
    candidates: int
    verified: int
    truncated: bool
    certificate: float
    path: int
    far: bool
    steps: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Found:
    """Raw answers to m queries."""

    answers: Answers
    path: NDArray[np.int8]
    """(m,) BANDS, EXACT (complete), LINKS or POOL."""
    far: NDArray[np.bool_]
    """(m,) whether a walk found the query unlike those that links were calibrated on (`Width.trusted`), or its norm is."""
    taken: NDArray[np.int64]
    """(m,) a bit for each step of `route` that was taken for the query."""
    route: Route | None = None
    """The way that was taken."""
    common: int = 0
    """The bits of steps that were taken for all."""

    @classmethod
    def empty(cls, m: int, k: int) -> Found:
        """Room for m answers."""
        return cls(Answers.empty(m, k), np.zeros(m, np.int8), np.zeros(m, np.bool_), np.zeros(m, np.int64))

    def __len__(self) -> int:
        return len(self.path)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """(m,) whether a cap was hit; the certificate is meaningless then."""
        cut: NDArray[np.bool_] = self.answers.flags & TRUNCATED != 0
        return cut

    @property
    def last(self) -> NDArray[np.float64]:
        """(m,) the score of the k-th answers."""
        return self.answers.scores[:, -1]

    def unsure(self, target: float, *, full: bool) -> NDArray[np.bool_]:
        """(m,) whether the bands did not prove the recall that is wanted, or a cap was hit; full: or fewer than k were found."""
        unsure: NDArray[np.bool_] = self.truncated | (self.answers.certificates < target)
        return unsure | (self.last == NOTHING) if full else unsure

    def part(self, which: NDArray[np.int64]) -> Found:
        """A copy of some of the answers."""
        return Found(self.answers.part(which), self.path[which], self.far[which], self.taken[which], self.route, self.common)

    def put(self, which: NDArray[np.int64], part: Found) -> None:
        """Replace some of the answers."""
        self.answers.put(which, part.answers)
        self.path[which], self.far[which] = part.path, part.far

    @property
    def steps(self) -> list[tuple[str, ...]]:
        """(m,) the steps that were taken for each query."""
        route, common = self.route, self.common
        if route is None or not self.taken.any():
            return [() if route is None else route.told(common)] * len(self)
        taken: list[int] = self.taken.tolist()
        told = {bits: route.told(common | bits) for bits in set(taken)}
        return [told[bits] for bits in taken]

    def forget(self) -> None:
        """Begin again."""
        self.answers.forget()
        self.path[:] = BANDS
        self.far[:] = False
        self.taken[:] = self.common = 0

    def cut_below(self, least: float) -> None:
        """Take out answers below a score."""
        answers = self.answers
        below = answers.scores < least
        answers.scores[below] = NOTHING
        answers.runs[below] = answers.rows[below] = -1


class FoundAlone(Found):
    """The raw answer to one query, in room that is used again: what `Found` has, read and begun again in less time."""

    __slots__ = ("_counts", "numbers", "rows", "scores")
    _counts: NDArray[np.int64]
    numbers: NDArray[np.int64]
    """Runs (k) and rows (k), candidates, verified, flags, side by side: one call reads them all."""
    scores: NDArray[np.float64]
    """(k,)"""
    rows: NDArray[np.int64]
    """(k,)"""

    @classmethod
    def alone(cls, k: int) -> FoundAlone:
        """Room for k answers."""
        numbers, counts = np.zeros(2 * k + 3, np.int64), slice(2 * k, None)
        answers = Answers.of(
            np.empty((1, k)), numbers[:k].reshape(1, k), numbers[k : 2 * k].reshape(1, k), *numbers[counts].reshape(3, 1), np.empty(1)
        )
        found = cls(answers, np.zeros(1, np.int8), np.zeros(1, np.bool_), np.zeros(1, np.int64))
        found.numbers, found._counts = numbers, numbers[counts]
        found.scores, found.rows = answers.scores[0], answers.rows[0]
        return found

    def forget(self) -> None:
        """Begin again."""
        self._counts[:] = 0
        self.path[0] = BANDS
        self.far[0] = False
        self.taken[0] = self.common = 0

    def unsure(self, target: float, *, full: bool) -> NDArray[np.bool_]:
        """As of m answers, by plain numbers."""
        proved = not int(self._counts[2]) & TRUNCATED and not self.answers.certificates[0] < target
        return _SURE if proved and not (full and self.scores[-1] == NOTHING) else _UNSURE

    def only(self) -> FoundOne:
        """The answer, as plain numbers."""
        numbers: list[int] = self.numbers.tolist()
        steps = () if self.route is None else self.route.told(self.common | self.taken.item())
        # Of a thousand that were asked for, few may be within a limit.
        count = len(self.scores) if self.scores[-1] > NOTHING else int(np.count_nonzero(self.scores > NOTHING))
        return FoundOne(
            self.scores[:count].copy(), numbers[:count], self.rows[:count].copy(), numbers[-3], numbers[-2],
            numbers[-1] & TRUNCATED != 0, self.answers.certificates.item(), self.path.item(), self.far.item(), steps,
        )  # fmt: skip


def joined(parts: list[Found]) -> Found:
    """The answers of the parts of a batch, in order."""
    answers = Answers.joined([one.answers for one in parts])
    path, far = (np.concatenate([getattr(one, name) for one in parts]) for name in ("path", "far"))
    return Found(answers, path, far, np.concatenate([one.taken | one.common for one in parts]), parts[0].route)


def new_rows(before: tuple[NDArray[np.int64], NDArray[np.int64]], answers: Answers) -> NDArray[np.int64]:
    """(m,) how many of the answers were not there before. before: runs and rows (m, k)."""
    known = (answers.runs[:, :, None] == before[0][:, None, :]) & (answers.rows[:, :, None] == before[1][:, None, :])
    new: NDArray[np.int64] = (~known.any(axis=2)).sum(axis=1)
    return new
