"""Objects as rows: how near they are to some fixed objects, for `ngmm`. Objects that are near are about as far from each of them.

`LANDMARKS` takes 128 objects of the sample, fewer where they are long, under any distance; features are e^{−4 d(w, x) / median} of fixed
objects w, and the median is that of the distances of pairs. The distance to the nearest w is subtracted first: it scales a row, which
`ngmm` does not see, and keeps far objects in range. (D2KE, section 3, equation 8: the representative-set method; section 4, "RSM".)

`LINEAR` takes the same for distances that are whole numbers, or little spread: features are the greatest distance that was seen from w,
less this one. 256 of them find .005 more of the neighbours of strings, and take twice as long.

`RANDOM_SETS`, for point sets of more than three dimensions, takes 512 sets of 1 to 15 points on a sphere about the sample's mean that
holds nine tenths of its points. (The same, "Effect of p(ω)", iii.) As candidates for search, stored objects were better wherever that
was measured, but on sets of points of seven dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.distances.ragged import Ragged
from kinbin.embeddings.dense import median_distance, packed, points_of, rows_of, unpacked
from kinbin.items.embedding import Embedding, Measure, Sample, Settings
from kinbin.items.kind import Form, sequence_rows
from kinbin.rows.rows import Rows

__all__ = ["LANDMARKS", "LINEAR", "RANDOM_SETS", "uniform_numbers"]

_GAMMA = 4.0
_STORED = 128
_NUMBERS = 1 << 14
"""That stored objects have at most, together: settings are to be small."""
_SAMPLED = 400
"""Objects whose distances from the landmarks of `LINEAR` are looked at."""
_LEAST = 0.01
"""The least value of a row of `LINEAR`: none is 0."""
_RANDOM = 512
_LARGEST = 15
"""Points of a random set: from 1 to so many."""
_FROM_DIMENSIONS = 4
_WITHIN = 0.9
"""The share of points that lie within the sphere on which random sets lie."""


_Value = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class _Near:
    """A value of the distance to each of some fixed objects."""

    fixed: Rows
    scale: NDArray[np.float64]
    value: _Value
    measure: Measure

    @property
    def dim(self) -> int:
        """One a fixed object."""
        return len(self.fixed)

    def rows(self, objects: Rows) -> Rows:
        """(n objects) → n rows. Cost: a distance each of the fixed ones."""
        return rows_of(self.value(self.measure(objects, self.fixed), self.scale).astype(np.float32))


def _falling(apart: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^(−4 d / median), of the distances less the least of a row's: that is a factor, which shapes do not show."""
    beyond = apart - apart.min(axis=1, keepdims=True)
    values: NDArray[np.float64] = np.exp(beyond * (-_GAMMA / scale))
    return values


def _linear(apart: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The greatest distance that was seen from a landmark, less this one."""
    return np.maximum(scale - apart, _LEAST)


def _settings(stored: Rows, **others: Any) -> Settings:
    return {"sizes": np.diff(stored.indptr).tolist(), "values": packed(stored.values)} | others


def _stored_of(settings: Settings) -> Rows:
    return sequence_rows(unpacked(settings["values"]), np.array(settings["sizes"], np.int64))


def _count(objects: Rows) -> int:
    """Landmarks that such objects have."""
    numbers = max(1, len(objects.values) // len(objects))
    return max(1, min(_STORED, len(objects), _NUMBERS // numbers))


def _choose_stored(sample: Sample) -> Settings:
    count = _count(sample.objects)
    stored = sample.objects.take(np.arange(count) * len(sample.objects) // count)
    return _settings(stored, median=median_distance(sample.objects, sample.measure))


def _stored(settings: Settings, _form: Form, measure: Measure) -> _Near:
    return _Near(_stored_of(settings), np.array([settings["median"]], np.float64), _falling, measure)


def _choose_linear(sample: Sample) -> Settings | None:
    """None where there are too few objects to tell."""
    n, count = len(sample.objects), _count(sample.objects)
    if n < 2 * _STORED:
        return None
    order = sample.rng.permutation(n)
    landmarks, others = sample.objects.take(order[:count]), sample.objects.take(order[count : count + _SAMPLED])
    return _settings(landmarks, scale=sample.measure(others, landmarks).max(axis=0).tolist())


def _linearly(settings: Settings, _form: Form, measure: Measure) -> _Near:
    return _Near(_stored_of(settings), np.array(settings["scale"], np.float64), _linear, measure)


LANDMARKS = Embedding(
    "landmarks", "ngmm", _choose_stored, _stored,
    lambda settings: {"landmarks": len(settings["sizes"]), "gamma": _GAMMA / settings["median"]},
)  # fmt: skip
LINEAR = Embedding(
    "linear landmarks", "ngmm", _choose_linear, _linearly,
    lambda settings: {"landmarks": len(settings["sizes"]), "greatest_distance": max(settings["scale"])},
)  # fmt: skip


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
    fixed = sequence_rows(sets.values.reshape(-1), sets.sizes * sets.dims)
    return _Near(fixed, np.array([settings["median"]], np.float64), _falling, measure)


def _told_random(settings: Settings) -> Settings:
    """The number of sets, γ, and the sphere."""
    gamma = _GAMMA / settings["median"]
    return {"random_sets": settings["count"], "gamma": gamma, "centre": settings["centre"], "radius": settings["radius"]}


RANDOM_SETS = Embedding("random sets", "ngmm", _choose_random, _random, _told_random)


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
