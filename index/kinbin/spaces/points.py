"""Distances of point sets: the Hausdorff distance, and the modified one.

What is computed, and how it stops early: `kinbin.distances.hausdorff`.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.alignment import Alignment
from kinbin.distances.hausdorff import hausdorff_squared, lay_out_points, modified_hausdorff, most_points_words, points_at
from kinbin.distances.paths import hausdorff_points, mean_hausdorff_points
from kinbin.embeddings.anchors import ANCHORS
from kinbin.embeddings.landmarks import LANDMARKS, RANDOM_SETS
from kinbin.items.series import MOST_DIMENSIONS
from kinbin.limits import limit
from kinbin.native.jit import strict
from kinbin.native.memory import i64_at
from kinbin.native.records import Layout
from kinbin.rows.lookup import context_at, cutoff_at, work_at
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of, distance_score, farthest_for
from kinbin.spaces.series import values_at
from kinbin.spaces.space import Code, Objects, Space

__all__ = ["HAUSDORFF", "MODIFIED_HAUSDORFF"]

U64 = np.uint64
_POINTS = Layout("POINTS", dims=("count", "numbers of a point"), room=("count", "points of the largest set there may be"))
_DIMS, _ROOM = (U64(_POINTS.offset(name)) for name in ("dims", "room"))


@strict
def _prepare(values, count, looked_up):
    """Lay a query out. Cost: 2 ns a number."""
    # A damaged row that is asked for by its id may have any count.
    context = context_at(looked_up)
    dims = min(i64_at(context + _DIMS), count)
    lay_out_points(work_at(looked_up), values, count // dims, dims, i64_at(context + _ROOM))
    return 0.0


@strict
def _hausdorff(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query; 0, or another, if it is less than what is looked for."""
    asked = points_at(work_at(looked_up))
    if nnz % asked.dims != 0:
        return np.nan
    farthest = farthest_for(cutoff_at(looked_up))
    return distance_score(math.sqrt(hausdorff_squared(asked, values_at(row, nnz), nnz // asked.dims, farthest * farthest)))


@strict
def _modified(row, nnz, looked_up):
    """The same of the modified distance."""
    asked = points_at(work_at(looked_up))
    if nnz % asked.dims != 0:
        return np.nan
    return distance_score(modified_hausdorff(asked, values_at(row, nnz), nnz // asked.dims, farthest_for(cutoff_at(looked_up))))


_Coded = tuple[Any, Callable[[NDArray[np.float32], NDArray[np.float32], float], Alignment]]
"""The score, and what it is made of."""


def _room(rows: Rows) -> int:
    return most_points_words(rows.most_nonzeros, int(limit("points_numbers")), MOST_DIMENSIONS)


def _row_ns(numbers: float) -> float:
    """Measured on sets in the plane: what is cut off, and a fourth of all pairs otherwise."""
    return 100.0 + 0.1 * numbers * numbers


def _space(name: str, title: str, formula: str, code: _Coded, dims: int = 1) -> Space:
    score, aligned = code
    record = _POINTS.record(dims=dims, room=int(limit("points_numbers")) // dims)
    return Space(
        name, title, formula, shapes=False, signed=True, code=Code(score, objects=Objects(_prepare, _room, _row_ns)), printed=distance_of,
        score_of=distance_score.py_func, ascending=True, printed_range=(0.0, math.inf),
        sized=lambda other: _space(name, title, formula, code, other), context=lambda: record,
        embeddings=(ANCHORS, RANDOM_SETS, LANDMARKS), aligned=aligned,
    )  # fmt: skip


HAUSDORFF = _space(
    "hausdorff", "Hausdorff distance", "the greatest distance of a point of either set from the nearest of the other",
    (_hausdorff, hausdorff_points),
)  # fmt: skip
MODIFIED_HAUSDORFF = _space(
    "modified_hausdorff", "modified Hausdorff distance",
    "of the two means of the distances from the points of one set to the nearest of the other, the greater",
    (_modified, mean_hausdorff_points),
)  # fmt: skip
