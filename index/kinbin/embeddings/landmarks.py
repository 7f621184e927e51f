"""Objects as rows: how near they are to some fixed objects, for `ngmm`.

Features are e^{−4 d(w, x) / median} of fixed objects w; the median is that of the distances of pairs. The distance to the nearest w is
subtracted first: it scales a row, which `ngmm` does not see, and keeps far objects in range.

`LANDMARKS` takes 128 objects of the sample, fewer where they are long, under any distance. (D2KE, section 3, equation 8: the
representative-set method.) `RANDOM_SETS`, for point sets of more than three dimensions, takes 512 sets of 1 to 15 points on a sphere about
the sample's mean that holds nine tenths of its points. (The same, "Effect of p(ω)", iii.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.ragged import Ragged
from kinbin.embeddings.dense import median_distance, packed, points_of, rows_of, unpacked
from kinbin.items.embedding import Embedding, Measure, Sample, Settings
from kinbin.items.kind import Form, sequence_rows
from kinbin.rows.rows import Rows

__all__ = ["LANDMARKS", "RANDOM_SETS", "uniform_numbers"]

_GAMMA = 4.0
_STORED = 128
_NUMBERS = 1 << 14
"""That stored objects have at most, together: settings are to be small."""
_RANDOM = 512
_LARGEST = 15
"""Points of a random set: from 1 to so many."""
_FROM_DIMENSIONS = 4
_WITHIN = 0.9
"""The share of points that lie within the sphere on which random sets lie."""


class _Near:
    """e^{−4 d / median} of the distances d to some fixed objects."""

    def __init__(self, fixed: Rows, median: float, measure: Measure) -> None:
        self.fixed = fixed
        self._median = median
        self._measure = measure
        self.dim = len(fixed)

    def rows(self, objects: Rows) -> Rows:
        """(n objects) → n rows. Cost: a distance each of the fixed ones."""
        apart = self._measure(objects, self.fixed)
        apart -= apart.min(axis=1, keepdims=True)
        return rows_of(np.exp(apart * (-_GAMMA / self._median)).astype(np.float32))


def _choose_stored(sample: Sample) -> Settings:
    numbers = max(1, len(sample.objects.values) // len(sample.objects))
    count = max(1, min(_STORED, len(sample.objects), _NUMBERS // numbers))
    stored = sample.objects.take(np.arange(count) * len(sample.objects) // count)
    return {
        "median": median_distance(sample.objects, sample.measure), "sizes": np.diff(stored.indptr).tolist(), "values": packed(stored.values)
    }  # fmt: skip


def _stored(settings: Settings, _form: Form, measure: Measure) -> _Near:
    sizes = np.array(settings["sizes"], np.int64)
    return _Near(sequence_rows(unpacked(settings["values"]), sizes), float(settings["median"]), measure)


LANDMARKS = Embedding("landmarks", "ngmm", _choose_stored, _stored)


def _choose_random(sample: Sample) -> Settings | None:
    dims = sample.form.dim or 1
    if dims < _FROM_DIMENSIONS:
        return None
    values = points_of(sample.objects, dims).values
    centre = values.mean(axis=0, dtype=np.float64)
    radius = float(np.quantile(np.linalg.norm(values - centre, axis=1), _WITHIN)) or 1.0
    return {
        "median": median_distance(sample.objects, sample.measure), "centre": centre.tolist(), "radius": radius,
        "seed": int(sample.rng.integers(2**53)), "count": _RANDOM,
    }  # fmt: skip


def _random(settings: Settings, _form: Form, measure: Measure) -> _Near:
    sets = _spherical(int(settings["seed"]), int(settings["count"]), np.array(settings["centre"]), float(settings["radius"]))
    return _Near(sequence_rows(sets.values.reshape(-1), sets.sizes * sets.dims), float(settings["median"]), measure)


RANDOM_SETS = Embedding("random sets", "ngmm", _choose_random, _random)


def uniform_numbers(seed: int, count: int) -> NDArray[np.float64]:
    """(count,) numbers from 0 to 1 (not 1 itself), the same for a seed on every machine: bits of a generator whose stream is fixed."""
    bits = np.random.PCG64(seed).random_raw(count)
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, np.float64)


def _spherical(seed: int, count: int, centre: NDArray[np.float64], radius: float) -> Ragged:
    """So many random sets on a sphere."""
    dims = len(centre)
    numbers = uniform_numbers(seed, count + count * _LARGEST * dims * 2)
    sizes = 1 + (numbers[:count] * _LARGEST).astype(np.int64)
    one, other = numbers[count:].reshape(2, count * _LARGEST, dims)
    normal = np.sqrt(-2.0 * np.log(1.0 - one)) * np.cos(2.0 * np.pi * other)
    directions = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Ragged(np.ascontiguousarray(centre + radius * directions[: offsets[-1]], np.float32), offsets)
