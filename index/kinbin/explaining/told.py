"""What an explanation says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinbin.parameters import Value

__all__ = ["Cell", "Curve", "Explanation", "Factor", "Rest", "SharedBands", "Term", "Walked"]


@dataclass(frozen=True, slots=True)
class Term:
    """One feature, or of objects a pair of elements that stand against each other."""

    part: float
    """Of `Factor.sum`."""
    feature: int | None = None
    name: str | None = None
    """Of the feature, where it is known."""
    query: Any = None
    """The query's value as it is compared: divided by its row's sum, or length, where the kernel does so. Of objects: an element."""
    item: Any = None
    min: float | None = None
    """What both have, where the kernel adds up minima; `max`: what they would have together."""
    max: float | None = None
    what: str | None = None
    """Of objects: "insert", "delete", "replace", "swap", "match", "step", "query to item" or "item to query"."""
    query_at: int | None = None
    """Place of the element in the query, from 0 on."""
    item_at: int | None = None
    apart: float | None = None
    """How far two points are from each other."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The features that are not listed, together."""

    features: int = 0
    part: float = 0.0
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a grid of an image: K = (1 − ε) k + ε · product of the K of its four parts, k = exp(−ψ / λ)."""

    level: int
    y: int
    x: int
    apart: float
    """ψ."""
    kernel: float
    """k."""
    value: float
    """K."""
    share: float
    """ε; 0: it is not divided."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A kernel, or one of several whose product is the score.

    The parts of `terms`, of `rest` and of `constants` add up to `sum`, to 1e-9. `value` is `outer` of x = `sum`, to 1e-9.
    """

    kernel: str
    formula: str
    parameters: Mapping[str, Value]
    value: float
    """What the kernel prints."""
    sum: float
    outer: str | None = None
    """A formula of x and the parameters, in Python's words, as "exp(-gamma * (1 - x))"; None: the sum itself."""
    terms: tuple[Term, ...] = ()
    """The greatest parts first, whatever their signs; features of which nothing counts come last."""
    rest: Rest = field(default_factory=Rest)
    constants: tuple[tuple[str, float], ...] = ()
    """What is no feature's: (name, part)."""
    cells: tuple[Cell, ...] = ()
    """Of nested histograms, the whole image last."""

    @property
    def added(self) -> float:
        """All parts together."""
        return math.fsum([*(term.part for term in self.terms), self.rest.part, *(part for _, part in self.constants)])


Curve = tuple[tuple[float, float], ...]
"""(what is printed, the probability that a pair which prints so much shares a band, at least), ascending."""


@dataclass(frozen=True, slots=True)
class SharedBands:
    """What bands make of the pair: rows that share one are candidates of a search by bands."""

    rows: int
    """Hashes a band; 1 and 128 bands for rows that are not sealed yet."""
    bands: int
    shared: int
    """Bands whose keys are the same, of this query and this item."""
    collision: float
    """The probability that a hash of both is the same, by the sampler's law; of 0-bit GCWS at least: it agrees far more often where rows
    have few features, and always where both have one and the same alone."""
    p_found: float
    """That at least one band is shared, over all seeds: 1 − (1 − collision^rows)^bands."""
    s_curve: Curve | None = None


@dataclass(frozen=True, slots=True)
class Walked:
    """What links make of it."""

    rank: int | None
    """The item's place in the answer of a walk for k neighbours, without the stored item that is asked about, from 1 on. None: it
    is not in it."""
    k: int
    width: int | None
    """Nodes that such a walk keeps, its beam width; None: a pool of objects, whose width belongs to its index."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an item scores what it scores."""

    id: str
    score: float
    """As a query answers it."""
    kernel: str
    formula: str
    ascending: bool
    """Whether it is a distance: the smaller the nearer."""
    factors: tuple[Factor, ...]
    """Their values multiplied are the score, to 1e-9. One, unless the kernel is a product."""
    bands: SharedBands | None
    no_bound: str | None
    """Why there are none."""
    walk: Walked | None
    """None: nothing is linked."""
