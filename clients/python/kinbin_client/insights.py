"""What the service tells of a collection for people to look at: why an item scores what it scores, and maps. Typed and immutable."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

__all__ = ["Cell", "Constant", "Explanation", "Factor", "Map", "MapPoint", "Rest", "SharedBands", "Term", "Walked"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Term(_Model):
    """One feature, or of objects two elements that stand against each other; None where a field means nothing."""

    part: float
    """Of the factor's `sum`."""
    feature: int | None = None
    name: str | None = None
    query: Any = None
    """What the query has, as it is compared: divided by its sum or length where the kernel does so."""
    item: Any = None
    min: float | None = None
    max: float | None = None
    what: str | None = None
    """Of objects: "insert", "delete", "replace", "swap", "match", "step" and the like."""
    query_at: int | None = None
    item_at: int | None = None
    apart: float | None = None


class Rest(_Model):
    """The features that are not listed, together."""

    features: int = 0
    part: float = 0.0
    min: float | None = None
    max: float | None = None


class Constant(_Model):
    """What is no feature's."""

    name: str
    part: float


class Cell(_Model):
    """A cell of a grid of nested histograms: value = (1 − share) · kernel + share · product of the values of its four parts."""

    level: int
    y: int
    x: int
    apart: float
    kernel: float
    value: float
    share: float


class Factor(_Model):
    """A kernel: the parts of its terms, of the rest and of the constants add up to `sum`; `value` is `outer` of x = `sum`."""

    kernel: str
    formula: str
    parameters: dict[str, Any] = {}
    value: float
    sum: float
    outer: str | None = None
    terms: list[Term] = []
    """The greatest parts first, whatever their signs."""
    rest: Rest = Rest()
    constants: list[Constant] = []
    cells: list[Cell] = []


class SharedBands(_Model):
    """What bands make of the pair."""

    rows: int
    bands: int
    shared: int
    collision: float
    p_found: float
    s_curve: list[tuple[float, float]] | None = None


class Walked(_Model):
    """What links make of it: the item's place in the answer of a walk for k neighbours, if it is in it."""

    rank: int | None = None
    k: int
    width: int | None = None


class Explanation(_Model):
    """Why an item scores what it scores: the values of the factors, multiplied, are the score. There is one, but of products."""

    id: str
    score: float
    ascending: bool = False
    """Whether it is a distance: the smaller the nearer."""
    kernel: str
    formula: str
    factors: list[Factor]
    bands: SharedBands | None = None
    no_bound: str | None = None
    walk: Walked | None = None
    took_ms: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_factor(cls, sent: Any) -> Any:
        """A single factor stands in the answer itself."""
        if isinstance(sent, dict) and sent.get("factors") is None:
            return sent | {"factors": [sent]}
        return sent


class MapPoint(_Model):
    """An item in the plane; items with the same vector are one point."""

    id: str
    x: float
    y: float
    payload: dict[str, Any] | None = None
    """The fields that were asked for."""


class Map(_Model):
    """A sample of the items, near items near each other."""

    method: str
    kernel: str
    sample: int
    rows: int
    """Different vectors that were drawn from."""
    points: list[MapPoint]
    """In the order of their ids."""
    explained: tuple[float, float] | None = None
    """Of "kernel_pca", the share of the variance that each axis holds."""
    took_ms: float | None = None
