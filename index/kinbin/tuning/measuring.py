"""Measured recall: every mode asked the same queries of one snapshot, and held against an exact scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinbin.records import Answer
from kinbin.tuning.records import ModeRecall

__all__ = ["Asked", "measured", "recall_of"]

_SLACK = 1e-12
"""Scores are the same on every path; what is printed of them is, too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What every mode is asked."""

    k: int
    sampled: bool
    """Whether queries are stored rows: each is left out of its own answers."""
    worst: float
    """What is printed of a pair that has nothing in common: neither hit nor miss."""


class Queries(Protocol):
    """Some queries, of one vector each, or of several."""

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> Self:
        """Those from `start` to `stop`."""


AnyQueries = TypeVar("AnyQueries", bound=Queries)


def measured(asked: Asked, modes: Sequence[str], queries: AnyQueries, answer: Callable[[str, AnyQueries, int], Answer]) -> list[ModeRecall]:
    """Recall of each mode. answer(mode, query, k) answers one query. Cost: that of all queries in every mode, and of exact scans."""
    deep = asked.k + asked.sampled
    ones = [queries.slice(i, i + 1) for i in range(len(queries))]
    truth = [answer("exact", one, deep) for one in ones]
    own = [one.scores[0] if asked.sampled and len(one.scores) else None for one in truth]
    wanted = [_places(one, mine, asked.k) for one, mine in zip(truth, own, strict=True)]
    out = []
    for mode in modes:
        answers, times = [], []
        if ones:
            # Kernels that this mode needs may have to be loaded, and what they read is cold.
            answer(mode, ones[0], deep)
        for one in ones:
            began = perf_counter()
            answers.append(answer(mode, one, deep))
            times.append(perf_counter() - began)
        found = [_places(one, mine, asked.k) for one, mine in zip(answers, own, strict=True)]
        out.append(_told(mode, [recall_of(*both, asked.worst) for both in zip(found, wanted, strict=True)], answers, times))
    return out


def _places(answer: Answer, own: float | None, k: int) -> NDArray[np.float64]:
    """The first k scores of an answer, as numbers that rise with nearness, without that of the query itself.

    Of rows that are as near to it as it is itself any one may be left out.
    """
    sign = -1.0 if answer.ascending else 1.0
    scores = answer.scores
    if own is not None and len(scores):
        scores = scores[1:] if scores[0] == own else scores[:k]
    nearness: NDArray[np.float64] = sign * scores[:k]
    return nearness


def recall_of(found: NDArray[np.float64], truth: NDArray[np.float64], worst: float) -> float | None:
    """The share of the true neighbours (best first) that were found; None if none has anything in common with the query.

    By score: of neighbours that are equally near to it, those at the k-th place among them, any will do. A neighbour that has nothing
    in common with the query (nearness `worst` or less) is neither hit nor miss.
    """
    alike = truth[truth > worst]
    if not len(alike):
        return None
    return min(len(alike), int(np.count_nonzero(found >= alike[-1] - _SLACK))) / len(alike)


def _told(mode: str, recalls: list[float | None], answers: list[Answer], times: list[float]) -> ModeRecall:
    known: list[Any] = [one for one in recalls if one is not None]
    bounds = [one.recall_lower_bound for one in answers if one.recall_lower_bound is not None]
    return ModeRecall(
        mode, float(np.mean(known)) if known else None, min(known, default=None), float(np.mean(bounds)) if bounds else None,
        len(bounds) / max(1, len(answers)), round(1e3 * median(times), 4) if times else 0.0,
    )  # fmt: skip
