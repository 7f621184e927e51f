"""Distances of point sets: the Hausdorff distance, and the modified one.

What is computed, and how it stops early: `kinbin.distances.hausdorff`.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
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
from kinbin.native.lanes import LANES, reach_lanes
from kinbin.native.memory import float64_at, i64_at
from kinbin.native.records import Layout
from kinbin.rows.lookup import context_at, cutoff_at, work_at
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of, distance_score, farthest_for
from kinbin.spaces.series import values_at
from kinbin.spaces.space import Code, Objects, Sketch, Space

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


_Coded = tuple[Any, Callable[[NDArray[np.float32], NDArray[np.float32], float], Alignment], bool]
"""The score, what it is made of, and whether sketches say something of it."""


def _room(rows: Rows) -> int:
    return most_points_words(rows.most_nonzeros, int(limit("points_numbers")), MOST_DIMENSIONS)


# ---------------------------------------------------------------------------------------- sketches
#
# The distance of a point from a set, which is that to the nearest point of it, differs between two sets by their Hausdorff distance at
# most: for each point of either there is one of the other within it. A sketch holds it for 64 anchors, in whole units up to 255.

_ANCHORS = 64
_HEAD = 2
"""Words of a frame before the anchors: units in a distance of 1, and the dimensions. Anchors are planes of float32."""
_TRIMMED = 2.0
"""Per cent of the sample's points, those farthest from its middle, that no anchor is taken from: outliers say little of the others."""
_CANDIDATES, _MOST_NUMBERS = 4_096, 256
"""Points that anchors are chosen from, and numbers of a set that are looked at: one point at least."""


def _frame(dims: int, values: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Anchors that are spread over a sample of sets, and a unit by which few of the sets' distances from them exceed 255."""
    most = max(_MOST_NUMBERS // dims, 1)
    sets = [one[: len(one) // dims * dims].reshape(-1, dims)[:most] for one in np.split(values, starts[1:-1])]
    sound = [one for one in sets if len(one) and np.isfinite(one).all()]
    frame = np.zeros(_HEAD + (_ANCHORS * dims + 1) // 2)
    frame[:_HEAD] = 1.0, dims
    if not sound:
        return frame
    points = np.concatenate(sound).astype(np.float64)
    from_middle = np.square(points - np.median(points, axis=0)).sum(axis=1)
    anchors = _spread(points[from_middle <= np.percentile(from_middle, 100.0 - _TRIMMED)])
    frame[_HEAD:].view(np.float32)[: _ANCHORS * dims] = anchors.T.ravel()
    squares = sum(np.square(points[:, k, None] - anchors[:, k]) for k in range(dims))
    nearest = np.minimum.reduceat(squares, np.cumsum([0, *map(len, sound[:-1])]), axis=0)
    farthest = math.sqrt(np.percentile(nearest, 99.0))
    frame[0] = 255.0 / farthest if farthest > 0.0 else 1.0
    return frame


def _spread(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(64, dims) of some points, each as far as can be from those before (Gonzalez 1985)."""
    some = points[:: -(-len(points) // _CANDIDATES)]
    chosen = [0]
    apart = np.full(len(some), np.inf)
    for _ in range(_ANCHORS - 1):
        apart = np.minimum(apart, np.square(some - some[chosen[-1]]).sum(axis=1))
        chosen.append(int(apart.argmax()))
    return some[chosen]


@strict
def _sketch(values, n, frame, out):
    """Cost: 1 µs for 40 points in the plane."""
    dims = np.int64(float64_at(frame + U64(8)))
    for x in range(0, _ANCHORS, LANES):
        planes = frame + U64(8 * _HEAD + 4 * x)
        reach_lanes(values, n // dims, planes, U64(4 * _ANCHORS), dims, float64_at(frame), out + U64(x))
    return 0.0


@strict
def _sketch_reach(frame, score):
    """Whole numbers below two numbers differ by the whole number below their difference, and by one more at most."""
    return np.floor(farthest_for(score) * float64_at(frame)) + 1.0


def _row_ns(numbers: float) -> float:
    """Measured on sets in the plane: what is cut off, and a fourth of all pairs otherwise."""
    return 100.0 + 0.1 * numbers * numbers


def _space(name: str, title: str, formula: str, code: _Coded, dims: int = 1) -> Space:
    score, aligned, sketched = code
    record = _POINTS.record(dims=dims, room=int(limit("points_numbers")) // dims)
    sketch = Sketch(_sketch, _sketch_reach, frame=partial(_frame, dims), greatest=True) if sketched else None
    return Space(
        name, title, formula, shapes=False, signed=True, code=Code(score, objects=Objects(_prepare, _room, _row_ns, sketch)),
        printed=distance_of, score_of=distance_score.py_func, ascending=True, printed_range=(0.0, math.inf),
        sized=lambda other: _space(name, title, formula, code, other), context=lambda: record,
        embeddings=(ANCHORS, RANDOM_SETS, LANDMARKS), aligned=aligned,
    )  # fmt: skip


HAUSDORFF = _space(
    "hausdorff", "Hausdorff distance", "the greatest distance of a point of either set from the nearest of the other",
    (_hausdorff, hausdorff_points, True),
)  # fmt: skip
MODIFIED_HAUSDORFF = _space(
    "modified_hausdorff", "modified Hausdorff distance",
    "of the two means of the distances from the points of one set to the nearest of the other, the greater",
    (_modified, mean_hausdorff_points, False),
)  # fmt: skip
