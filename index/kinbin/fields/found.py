"""What a search over several fields finds: numbers of items, combined scores and their parts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinbin.rows.topk import NOTHING

__all__ = ["CUT", "NO_BOUND", "SHORT", "Found"]

CUT = "a cap was hit: see truncated"
SHORT = "fewer than k items were found"
NO_BOUND = "candidates of several fields give no bound; certify asks the bands for one"


@dataclass(slots=True, eq=False)
class Found:
    """Raw answers to m queries over F fields."""

    numbers: NDArray[np.int64]
    """(m, k), best first; -1 where there is none."""
    scores: NDArray[np.float64]
    """(m, k), `NOTHING` where there is none."""
    parts: NDArray[np.float64]
    """(F, m, k), nan where there is none."""
    verified: NDArray[np.int64]
    candidates: NDArray[np.int64]
    bounds: NDArray[np.float64]
    """(m,) nan: there is none."""
    far: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    modes: list[str]
    steps: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def empty(cls, fields: int, m: int, k: int) -> Found:
        """Room for k answers of each of m queries."""
        return cls(
            np.full((m, k), -1, np.int64), np.full((m, k), NOTHING), np.full((fields, m, k), np.nan), np.zeros(m, np.int64),
            np.zeros(m, np.int64), np.full(m, np.nan), np.zeros(m, np.bool_), np.zeros(m, np.bool_), [""] * m, [()] * m,
        )  # fmt: skip

    @property
    def last(self) -> NDArray[np.float64]:
        """(m,) the score of the k-th answers."""
        return self.scores[:, -1]

    def note(self, i: int, numbers: NDArray[np.int64], scores: NDArray[np.float64], parts: NDArray[np.float64]) -> None:
        """The answers of one query, best first: (n,), (n,) and (F, n), n at most k."""
        n = len(numbers)
        self.numbers[i, :n], self.scores[i, :n], self.parts[:, i, :n] = numbers, scores, parts
        self.numbers[i, n:], self.scores[i, n:], self.parts[:, i, n:] = -1, NOTHING, np.nan

    def put(self, which: NDArray[np.int64], part: Found) -> None:
        """Replace some of the answers; what they took is added to what was taken before."""
        for name in ("numbers", "scores", "bounds", "truncated"):
            getattr(self, name)[which] = getattr(part, name)
        self.parts[:, which] = part.parts
        self.verified[which] += part.verified
        self.candidates[which] += part.candidates
        for place, i in enumerate(which.tolist()):
            self.modes[i] = part.modes[place]
            self.steps[i] += part.steps[place]

    def cut_below(self, least: float) -> None:
        """Take out answers that score less."""
        below = self.scores < least
        self.numbers[below], self.scores[below] = -1, NOTHING
        self.parts[:, below] = np.nan
