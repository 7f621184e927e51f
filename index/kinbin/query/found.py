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

__all__ = ["BANDS", "EXACT", "LINKS", "PATHS", "Found", "FoundOne", "joined", "new_rows"]

BANDS, EXACT, LINKS = 0, 1, 2
PATHS = ("bands", "exact", "links")


class FoundOne(NamedTuple):
    """The raw answer to one query: what `Found` has of it, as plain numbers."""

    scores: list[float]
    runs: list[int]
    rows: list[int]
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
    """(m,) BANDS, EXACT (complete) or LINKS."""
    far: NDArray[np.bool_]
    """(m,) whether a walk found the query unlike those that links were calibrated on (`Width.trusted`), or its norm is."""
    taken: NDArray[np.int64]
    """(m,) a bit for each step of `route` that was taken for the query."""
    route: Route | None = None
    """The way that was taken."""

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

    def part(self, which: NDArray[np.int64]) -> Found:
        """A copy of some of the answers."""
        return Found(self.answers.part(which), self.path[which], self.far[which], self.taken[which], self.route)

    def put(self, which: NDArray[np.int64], part: Found) -> None:
        """Replace some of the answers."""
        self.answers.put(which, part.answers)
        self.path[which], self.far[which], self.taken[which] = part.path, part.far, part.taken

    @property
    def steps(self) -> list[tuple[str, ...]]:
        """(m,) the steps that were taken for each query."""
        route = self.route
        return [() if route is None else route.told(bits) for bits in self.taken.tolist()]

    def forget(self) -> None:
        """Begin again."""
        self.answers.forget()
        self.path[:], self.far[:], self.taken[:] = BANDS, False, 0

    def only(self) -> FoundOne:
        """The answer to the one query there is."""
        answers = self.answers
        return FoundOne(
            answers.scores[0].tolist(), answers.runs[0].tolist(), answers.rows[0].tolist(), int(answers.candidates[0]),
            int(answers.verified[0]), bool(answers.flags[0] & TRUNCATED), float(answers.certificates[0]), int(self.path[0]),
            bool(self.far[0]), self.steps[0],
        )  # fmt: skip

    def cut_below(self, least: float) -> None:
        """Take out answers below a score."""
        answers = self.answers
        below = answers.scores < least
        answers.scores[below] = NOTHING
        answers.runs[below] = answers.rows[below] = -1


def joined(parts: list[Found]) -> Found:
    """The answers of the parts of a batch, in order."""
    answers = Answers.joined([one.answers for one in parts])
    path, far, taken = (np.concatenate([getattr(one, name) for one in parts]) for name in ("path", "far", "taken"))
    return Found(answers, path, far, taken, parts[0].route)


def new_rows(before: tuple[NDArray[np.int64], NDArray[np.int64]], answers: Answers) -> NDArray[np.int64]:
    """(m,) how many of the answers were not there before. before: runs and rows (m, k)."""
    known = (answers.runs[:, :, None] == before[0][:, None, :]) & (answers.rows[:, :, None] == before[1][:, None, :])
    new: NDArray[np.int64] = (~known.any(axis=2)).sum(axis=1)
    return new
