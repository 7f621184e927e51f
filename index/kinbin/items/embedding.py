"""Rows made of objects: near each other where the objects are, so that a walk over them finds a pool for the exact distance.

An embedding is a pure function of an object and of a small record of settings, which is chosen once from a sample and then stored.
Nothing is promised of the order of its rows: calibration measures how deep a pool has to be, and whether the embedding serves at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kinbin.items.kind import Form
from kinbin.rows.rows import Rows

__all__ = ["Embedder", "Embedding", "Measure", "Sample", "Settings"]

Settings = dict[str, Any]
"""JSON: numbers, strings, lists and objects of them; at most some 100 kB."""
Measure = Callable[[Rows, Rows], NDArray[np.float64]]
"""(m objects, n objects) → (m, n) their exact distances."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """What settings are chosen from."""

    objects: Rows
    """Up to 2,000 stored objects, drawn at random."""
    form: Form
    measure: Measure
    rng: np.random.Generator
    """Seeded by the collection: the same sample gives the same settings."""


class Embedder(Protocol):
    """An embedding with its settings."""

    @property
    def dim(self) -> int | None:
        """Of its rows; None: unbounded feature ids."""
        ...

    def rows(self, objects: Rows) -> Rows:
        """(n objects) → n canonical rows, which the embedding's kernel takes: none is without a value other than 0."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """One way to make rows of objects."""

    name: str
    """Stored with the settings: a change of what `embedder` computes is a new name."""
    kernel: str
    """Of `kinbin.KERNELS`, by which its rows are linked."""
    choose: Callable[[Sample], Settings | None]
    """Settings for a collection like the sample; None: not for such objects."""
    embedder: Callable[[Settings, Form, Measure], Embedder]
    """The embedding with settings, as they came back from JSON."""
    told: Callable[[Settings], Settings] = dict
    """What `stats` tells of settings: a few numbers."""
