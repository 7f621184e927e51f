"""One dense vector as a canonical row in one pass: what a single query begins with."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbin.kernels._jit import strict
from kinbin.limits import limit
from kinbin.vectors.rows import Rows

__all__ = ["dense_row"]

_LEAST, _MOST, _MOST_NONZEROS = limit("value_min"), limit("value"), limit("nonzeros")


@strict
def _take(x, signed, least, most, features, values):  # type: ignore[no-untyped-def]
    """Write the nonzeros of x (d,) float64. Returns (their number, the sum of their magnitudes); -1 if a value needs a closer look."""
    count = 0
    norm = 0.0
    for f in range(len(x)):
        magnitude = abs(x[f])
        if magnitude == 0.0:
            continue
        # Comparisons with NaN are false.
        if not (least <= magnitude <= most) or (x[f] < 0.0 and not signed):
            return -1, 0.0
        features[count] = f
        values[count] = x[f]
        # Stored values make the norm.
        norm += abs(np.float64(values[count]))
        count += 1
    return count, norm


def dense_row(x: Any, *, dim: int | None, signed: bool) -> Rows | None:
    """One dense vector that is plainly right as a canonical row: what `canonical_rows` gives, at a tenth of its cost.

    None for every other vector, which `canonical_rows` then takes or refuses with reasons.
    """
    if not isinstance(x, np.ndarray) or x.ndim != 1 or x.dtype.kind not in "fiu" or x.dtype.itemsize > 8:
        return None
    size = len(x)
    if dim is not None and size != dim:
        return None
    features, values = np.empty(size, np.uint64), np.empty(size, np.float32)
    count, norm = _take(x.astype(np.float64), signed, _LEAST, _MOST, features, values)
    if not 0 < count <= _MOST_NONZEROS:
        return None
    return Rows(np.array((0, count), np.int64), features[:count], values[:count], np.array((norm,)))
