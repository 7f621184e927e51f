"""Series: rows of their steps, laid end to end, each of as many numbers as the collection has dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import InvalidInput
from kinbin.items.kind import Form, Kind, alone, batch_of, dense_numbers, each, sequence_rows
from kinbin.limits import limit
from kinbin.rows.matrices import Fault
from kinbin.rows.rows import Rows

__all__ = ["MOST_DIMENSIONS", "SERIES", "stored_points"]

MOST_DIMENSIONS = 1_024


def _dimension(dim: int | None) -> int:
    """Numbers of a step; 1 if none is given."""
    if dim is not None and dim > MOST_DIMENSIONS:
        text = f"dim is the numbers of a step, from 1 to {MOST_DIMENSIONS}, not {dim}; the length of series is free"
        raise InvalidInput.of("bad_parameter", text, field="dim")
    return 1 if dim is None else dim


def _judged(given: Any, form: Form) -> NDArray[np.float32]:
    """One series as (steps, dims) float32."""
    dims, array = form.dim or 1, dense_numbers(given, "series")
    if array.ndim and not len(array):
        raise Fault("bad_object", "a series has at least one step, this one is empty; leave it out")
    steps = array[:, None] if array.ndim == 1 and dims == 1 else array
    if steps.ndim != 2 or steps.shape[1] != dims:
        wanted = "(steps,)" if dims == 1 else f"(steps, {dims})"
        code = "dimension_mismatch" if steps.ndim == 2 else "bad_object"
        raise Fault(code, f"a series of this collection is an array {wanted}, this one has shape {array.shape}")
    if steps.size > limit("series_numbers"):
        text = f"a series has at most {limit('series_numbers')} numbers, this one has {steps.size}; take every n-th step, or means"
        raise Fault("over_limit", text, "series_numbers")
    length = form.parameters.get("length", 0)
    if length and len(steps) != length:
        raise Fault("bad_object", f"series of this collection have {length:.0f} steps, this one has {len(steps)}; dtw compares any lengths")
    return steps


def _rows(objects: Any, form: Form) -> Rows:
    """(n series) → their rows. Cost: 5 µs a series, 2 ns a number."""
    batch = batch_of("series", "series", objects)
    judged = each(batch, "series", lambda given: _judged(given, form))
    return stored_points(judged)


def stored_points(objects: list[NDArray[np.float32]]) -> Rows:
    """The rows of arrays (points, dims), or of none."""
    sizes = np.fromiter((one.size for one in objects), np.int64, len(objects))
    values = np.concatenate([one.reshape(-1) for one in objects]) if objects else np.empty(0, np.float32)
    return sequence_rows(values, sizes)


def _row(given: Any, form: Form) -> Rows:
    """(one series) → its row. Cost: 15 µs."""
    return alone(SERIES, given, form)


def _item(rows: Rows, i: int, form: Form) -> NDArray[np.float32]:
    """(steps,) of one dimension, otherwise (steps, dims)."""
    values = rows.row(i)[1].copy()
    return values if form.dim == 1 else values.reshape(-1, form.dim or 1)


SERIES = Kind("series", "series", ("dtw", "euclidean"), _dimension, _rows, _row, _item)
