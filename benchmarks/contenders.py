"""One way to ask: what a benchmark times, of Kinbin and of other libraries alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K
from truth import Judge, rows_answered

__all__ = ["Contender", "mean_recall", "of_collection"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to ask: many queries at once, or one by its number."""

    what: str
    many: Callable[[], Any]
    one: Callable[[int], Any]
    rows: Callable[[Any], NDArray[np.int64]]
    """The row numbers (m, 10) in what `many` answers, -1 where there is none."""


def of_collection(
    collection: kinbin.Collection, queries: Any, target: float, mode: str, note: str = "", *, certify: bool = False
) -> Contender:
    """A collection whose ids are row numbers, asked in one mode. queries: (m, d) as an array or as CSR."""
    options: dict[str, Any] = {"k": K, "target_recall": target, "mode": mode, **({"certify": True} if certify else {})}
    return Contender(
        f"Kinbin {mode}" + ("" if mode == "exact" else f", target {target:g}") + note,
        lambda: collection.query_batch(queries, **options),
        lambda i: collection.query(queries[i], **options),
        lambda answer: rows_answered(answer.ids),
    )


def mean_recall(contender: Contender, judge: Judge) -> float:
    """Mean recall of a contender's batch."""
    return float(judge.recalls(contender.rows(contender.many())).mean())
