"""Distances of series: dynamic time warping, and the Euclidean distance of series of one length.

What is computed, and how it stops early: `kinbin.distances.dtw`.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kinbin.distances.dtw import euclidean_squared, lay_out_series, most_warping_words, warped_squared, warping_at
from kinbin.distances.paths import euclidean_steps, warping_path
from kinbin.embeddings.landmarks import LANDMARKS
from kinbin.embeddings.parts import PARTS_OF_TIME
from kinbin.errors import InvalidInput
from kinbin.items.series import MOST_DIMENSIONS
from kinbin.limits import limit
from kinbin.native.jit import inline, strict
from kinbin.native.memory import float64_at, i64_array, i64_at, u64_array, u64_at
from kinbin.native.records import Layout
from kinbin.rows.lookup import context_at, cutoff_at, work_at
from kinbin.rows.record import HEADER
from kinbin.rows.rows import Rows
from kinbin.spaces.ordered import distance_of, distance_score, farthest_for
from kinbin.spaces.prints import Parameter
from kinbin.spaces.space import Code, Objects, Space

__all__ = ["DTW", "EUCLIDEAN", "values_at"]

U64 = np.uint64
_BLOCK = 64
"""Numbers from one look at the cutoff to the next."""

_WARPED = Layout(
    "WARPED",
    dims=("count", "numbers of a step"),
    window=("number", "share of the longer series"),
    room=("count", "steps of the longest series there may be"),
)
_DIMS, _WINDOW, _ROOM = (U64(_WARPED.offset(name)) for name in ("dims", "window", "room"))


@inline
def values_at(row, nnz):
    """The address of the numbers of a stored row."""
    return row + U64(HEADER + (2 * nnz + 3) // 4 * 4)


@strict
def _prepare_warping(values, count, looked_up):
    """Lay a query out. Cost: 5 µs for 128 steps of 6 dimensions."""
    context = context_at(looked_up)
    # A damaged row that is asked for by its id may have any count.
    dims = min(i64_at(context + _DIMS), count)
    lay_out_series(work_at(looked_up), values, count // dims, dims, float64_at(context + _WINDOW), i64_at(context + _ROOM))
    return 0.0


@strict
def _warped(row, nnz, looked_up):
    """The score that stands for the distance of a stored row and the query; 0 if it is less than what is looked for."""
    asked = warping_at(work_at(looked_up))
    if nnz % asked.dims != 0:
        return np.nan
    farthest = farthest_for(cutoff_at(looked_up))
    return distance_score(math.sqrt(warped_squared(asked, values_at(row, nnz), nnz // asked.dims, farthest * farthest)))


@strict
def _prepare_euclidean(values, count, looked_up):
    """Keep where the query is."""
    work = work_at(looked_up)
    u64_array(work, 1)[0] = values
    i64_array(work + U64(8), 1)[0] = count
    return 0.0


@strict
def _euclidean(row, nnz, looked_up):
    """The same of the Euclidean distance. Cost: 0.2 ns a number."""
    work = work_at(looked_up)
    values = u64_at(work)
    if nnz != i64_at(work + U64(8)):
        return np.nan
    farthest = farthest_for(cutoff_at(looked_up))
    most, total = farthest * farthest, 0.0
    for first in range(0, nnz, _BLOCK):
        skip = U64(4 * first)
        total += euclidean_squared(values + skip, values_at(row, nnz) + skip, min(_BLOCK, nnz - first))
        if total > most:
            return 0.0
    return distance_score(math.sqrt(total))


def _room(rows: Rows) -> int:
    return most_warping_words(rows.most_nonzeros, int(limit("series_numbers")), MOST_DIMENSIONS)


def _warping_ns(numbers: float) -> float:
    """Measured where bounds tell most rows: 1 ns a number, and a warping of one row in ten."""
    return 100.0 + 2.0 * numbers


def _dtw(values: Mapping[str, Any], dims: int = 1) -> Space:
    record = _WARPED.record(dims=dims, window=values["window"], room=int(limit("series_numbers")) // dims)
    return Space(
        "dtw", "dynamic time warping", "√ of the least Σ |x − y|² over the pairs of steps of a path", shapes=False, signed=True,
        code=Code(_warped, objects=Objects(_prepare_warping, _room, _warping_ns)), printed=distance_of, score_of=distance_score.py_func,
        ascending=True, printed_range=(0.0, math.inf), declared={"window": _SHARE}, parameters=dict(values),
        of=lambda other: _dtw(other, dims), sized=lambda other: _dtw(values, other), context=lambda: record,
        embeddings=(PARTS_OF_TIME, LANDMARKS),
        aligned=lambda query, item, distance: warping_path(query, item, values["window"], distance),
    )  # fmt: skip


def _of_one_length(values: Mapping[str, Any], dims: int | None = None) -> Space:
    """The Euclidean distance of series of so many steps.

    Raises:
        InvalidInput: a collection is made of it (dims are given), and the length is missing, broken, or too much.
    """
    length, most = values["length"], int(limit("series_numbers"))
    if dims is not None and not (length >= 1 and length == int(length) and length * dims <= most):
        wanted = f'parameters={{"length": 128}}, a whole number, at most {most // dims}'
        text = f"the Euclidean distance is of series of one length: say it, as {wanted}" + (f"; {length} is not" if length else "")
        raise InvalidInput.of("bad_parameter", text, field="parameters")
    return replace(
        EUCLIDEAN, parameters=dict(values), of=lambda other: _of_one_length(other, dims), sized=lambda other: _of_one_length(values, other)
    )


_SHARE = Parameter(0.1, 0.0, 1.0, "how far warping may shift steps, as a share of the longer series")
_LENGTH = Parameter(0.0, 1.0, limit("series_numbers"), "steps of every series of the collection", whole=True)
DTW = _dtw({"window": _SHARE.default})
EUCLIDEAN = Space(
    "euclidean", "Euclidean distance", "√ Σ |x − y|² over the steps of series of one length", shapes=False, signed=True,
    code=Code(_euclidean, objects=Objects(_prepare_euclidean, lambda _rows: 2, lambda numbers: 20.0 + 0.2 * numbers)),
    printed=distance_of, score_of=distance_score.py_func, ascending=True, printed_range=(0.0, math.inf), declared={"length": _LENGTH},
    parameters={"length": 0.0}, embeddings=(PARTS_OF_TIME, LANDMARKS),
    aligned=lambda query, item, _distance: euclidean_steps(query, item),
)  # fmt: skip
EUCLIDEAN = _of_one_length(EUCLIDEAN.parameters)
