"""Objects as their distances from some stored ones, the landmarks: objects that are near are about as far from each of them.

(Random string kernels sample stored strings, "RSM": d2ke, section 4; as candidates for search stored objects were better than random
ones wherever that was measured, but on sets of points of seven dimensions.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.items.embedding import Embedding, Measure, Sample, Settings
from kinbin.items.kind import Form, sequence_rows
from kinbin.rows.rows import Rows

__all__ = ["FALLING", "LINEAR"]

_COUNT = 128
"""Landmarks. 256 find .005 more of the neighbours of strings, and take twice as long."""
_SAMPLED = 400
"""Objects whose distances from the landmarks are looked at."""
_LEAST = 0.01
"""The least value of a row: none is 0."""
_STEEP = 4.0
"""Of `FALLING`: e^−4 at the median distance."""

_Value = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class _Landmarks:
    """Rows of a value for each landmark."""

    objects: Rows
    scale: NDArray[np.float64]
    value: _Value
    measure: Measure

    @property
    def dim(self) -> int:
        """One a landmark."""
        return len(self.objects)

    def rows(self, objects: Rows) -> Rows:
        """What each is from each landmark, as a row of positive values."""
        values = self.value(self.measure(objects, self.objects), self.scale).astype(np.float32)
        return sequence_rows(values.reshape(-1), np.full(len(objects), self.dim, np.int64))


def _linear(distances: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """The greatest distance that was seen from a landmark, less this one."""
    return np.maximum(scale - distances, _LEAST)


def _falling(distances: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^(−4 d / median), of the distances less the least of a row's: that is a factor, which shapes do not show."""
    beyond = distances - distances.min(axis=1, keepdims=True)
    values: NDArray[np.float64] = np.maximum(np.exp(-_STEEP * beyond / scale), _LEAST * _LEAST)
    return values


def _chosen(sample: Sample) -> tuple[Rows, NDArray[np.float64]] | None:
    """Landmarks, and the distances of other objects from them; None where there are too few to tell."""
    n = len(sample.objects)
    if n < 2 * _COUNT:
        return None
    order = sample.rng.permutation(n)
    landmarks, others = sample.objects.take(order[:_COUNT]), sample.objects.take(order[_COUNT : _COUNT + _SAMPLED])
    return landmarks, sample.measure(others, landmarks)


def _settings(landmarks: Rows, scale: NDArray[np.float64]) -> Settings:
    return {"sizes": np.diff(landmarks.indptr).tolist(), "values": landmarks.values.tolist(), "scale": scale.tolist()}


def _choose_linear(sample: Sample) -> Settings | None:
    chosen = _chosen(sample)
    return None if chosen is None else _settings(chosen[0], chosen[1].max(axis=0))


def _choose_falling(sample: Sample) -> Settings | None:
    chosen = _chosen(sample)
    if chosen is None or not np.median(chosen[1]) > 0.0:
        return None
    return _settings(chosen[0], np.array([np.median(chosen[1])]))


def _embedder_of(value: _Value) -> Callable[[Settings, Form, Measure], _Landmarks]:
    def embedder(settings: dict[str, Any], _form: Form, measure: Measure) -> _Landmarks:
        objects = sequence_rows(np.array(settings["values"], np.float32), np.array(settings["sizes"], np.int64))
        return _Landmarks(objects, np.array(settings["scale"], np.float64), value, measure)

    return embedder


LINEAR = Embedding("landmarks", "ngmm", _choose_linear, _embedder_of(_linear))
"""For distances that are whole numbers, or little spread."""
FALLING = Embedding("falling landmarks", "ngmm", _choose_falling, _embedder_of(_falling))
"""For others, and for those that are no metric."""
