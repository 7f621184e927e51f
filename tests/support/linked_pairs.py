"""The same items without links and with, for tests that compare the two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from linked import names, true_scores

ROWS, ASKED = 1_500, 12
FEW = {"n": {"$in": [3, 77, 401]}}
SHARES: dict[str, tuple[Any, Callable[[int], bool]]] = {
    "half": ({"n": {"$gte": ROWS // 2}}, lambda n: n >= ROWS // 2),
    "a tenth": ({"tens": 0}, lambda n: n % 10 == 0),
    "two in a hundred": ({"fifties": 0}, lambda n: n % 50 == 0),
    "three rows": (FEW, lambda n: n in (3, 77, 401)),
}


@dataclass
class Pair:
    """The same items, without links and with: the latter with rows of every fate."""

    plain: kinbin.Collection
    linked: kinbin.Collection
    X: Any
    Q: Any
    there: NDArray[np.bool_]

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """(ASKED, ROWS) the slow twin's, of rows that are there and of others; made when they are first asked for."""
        return true_scores(self.linked.config.kernel, self.X, self.Q)


def payloads(numbers: Any) -> list[dict[str, int]]:
    """What the filters of these tests look at."""
    return [{"n": int(n), "tens": int(n) % 10, "fifties": int(n) % 50} for n in numbers]


def grow(collection: kinbin.Collection, X: Any, *, link: bool) -> NDArray[np.bool_]:
    """Rows linked and dead, linked and merged since, sealed, and fresh. Returns which are there."""

    def add(start: int, stop: int) -> None:
        collection.add(names(range(start, stop)), X[start:stop], payloads(range(start, stop)))

    add(0, ROWS - 500)
    collection.compact()
    if link:
        collection.link()
    collection.delete(names(range(0, 300, 3)))
    add(ROWS - 500, ROWS - 200)
    collection.compact()
    collection.delete(names(range(300, 500, 3)))
    add(ROWS - 200, ROWS)
    there = np.ones(ROWS, bool)
    there[0:300:3] = False
    there[300:500:3] = False
    collection.delete(names(range(ROWS - 5, ROWS)))
    there[ROWS - 5 :] = False
    return there


def as_pairs(answers: kinbin.AnswerBatch) -> list[list[tuple[str, float]]]:
    """Ids and scores."""
    return [list(zip(answer.ids, answer.scores.tolist(), strict=True)) for answer in answers]
