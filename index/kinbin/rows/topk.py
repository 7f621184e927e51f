"""The k best so far: three parallel arrays, best first; ties go to the older row."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.native.jit import inline

__all__ = ["ALIKE", "NOTHING", "Best", "offer", "reset"]

NOTHING = -np.inf
"""The score that stands for no answer."""
ALIKE = 2.0**-50
"""A pair that scores so little, or less, has nothing in common (`spaces.ordered`)."""


class Best(NamedTuple):
    """One query's answers as compiled code sees them: scores (k,) float64, runs and local rows (k,) int64; -1 where there is none."""

    scores: Any
    runs: Any
    rows: Any


@inline
def reset(best):
    """Empty the list."""
    for x in range(len(best.scores)):
        best.scores[x] = NOTHING
        best.runs[x] = -1
        best.rows[x] = -1


@inline
def offer(best, score, run, row):
    """Put one row in its place, if it has one and is not there yet. Order: score down, then run and row up."""
    scores, runs, rows = best
    last = len(scores) - 1
    worst = scores[last]
    if score > worst or (score == worst and (run, row) < (runs[last], rows[last])):
        for x in range(last + 1):
            if scores[x] < score:
                break
            # A row's score is the same on whatever path it is met.
            if scores[x] == score and runs[x] == run and rows[x] == row:
                return
        p = last
        while p > 0 and (scores[p - 1] < score or (scores[p - 1] == score and (runs[p - 1], rows[p - 1]) > (run, row))):
            scores[p] = scores[p - 1]
            runs[p] = runs[p - 1]
            rows[p] = rows[p - 1]
            p -= 1
        scores[p] = score
        runs[p] = run
        rows[p] = row
