"""Point sets: rows of their points, laid end to end, each of as many numbers as the collection has dimensions.

The order of points, and how often one occurs, is kept: the modified Hausdorff distance counts points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.items.kind import Form, Kind, alone, batch_of, dense_numbers, each
from kinbin.items.series import MOST_DIMENSIONS, stored_points
from kinbin.limits import limit
from kinbin.rows.matrices import Fault
from kinbin.rows.rows import Rows

__all__ = ["POINTS"]


def _dimension(dim: int | None) -> int:
    """Numbers of a point."""
    if dim is None or dim > MOST_DIMENSIONS:
        came = "none is given" if dim is None else f"not {dim}"
        text = f"dim is the numbers of a point, from 1 to {MOST_DIMENSIONS}; {came}: say dim=2 for points in the plane"
        raise InvalidInput.of("bad_parameter", text, field="dim")
    return dim


def _judged(given: Any, form: Form) -> NDArray[np.float32]:
    """One set as (points, dims) float32."""
    array = dense_numbers(given, "point set")
    if array.ndim and not len(array):
        raise Fault("bad_object", "a point set has at least one point, this one is empty; leave it out")
    if array.ndim != 2 or array.shape[1] != form.dim:
        code = "dimension_mismatch" if array.ndim == 2 else "bad_object"
        hint = "; put a single point into a list" if array.ndim == 1 else ""
        raise Fault(code, f"a point set of this collection is an array (points, {form.dim}), this one has shape {array.shape}{hint}")
    if array.size > limit("points_numbers"):
        text = f"a point set has at most {limit('points_numbers')} numbers, this one has {array.size}; draw some of its points"
        raise Fault("over_limit", text, "points_numbers")
    return array


def _rows(objects: Any, form: Form) -> Rows:
    """(n point sets) → their rows. Cost: 5 µs a set, 2 ns a number."""
    batch = batch_of("point sets", "point set", objects, "points")
    return stored_points(each(batch, "points", lambda given: _judged(given, form)))


def _row(given: Any, form: Form) -> Rows:
    """(one point set) → its row. Cost: 15 µs."""
    return alone(POINTS, given, form)


def _item(rows: Rows, i: int, form: Form) -> NDArray[np.float32]:
    return rows.row(i)[1].copy().reshape(-1, form.dim or 1)


POINTS = Kind("points", "points", ("hausdorff", "modified_hausdorff"), _dimension, _rows, _row, _item)
