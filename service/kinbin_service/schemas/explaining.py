"""What is asked of an explanation, and what it says."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator
from pydantic_core import PydanticCustomError

from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.schemas.vectors import Id, Image, Points, Series, String, Vector, largest

__all__ = ["ExplainAnswer", "ExplainRequest"]


class ExplainRequest(BaseModel):
    """A query, by one of vector, an object under its key, and query_id; and the item that it is compared with."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra={
            "examples": [
                {"vector": [0.1, 0, 2.5], "id": "a"},
                {"query_id": "b", "id": "a", "limit": 20, "s_curve": True},
                {"vector": {"tokens": {"red": 2, "apple": 1}}, "id": "a", "feature_names": ["green"]},
                {"string": "kitten", "id": "a"},
                {"query_id": "b", "id": "a", "field": "colour"},
            ]
        },
    )
    vector: SkipValidation[Vector | None] = None
    string: SkipValidation[String | None] = None
    series: SkipValidation[Series | None] = None
    points: SkipValidation[Points | None] = None
    image: SkipValidation[Image | None] = None
    query_id: Annotated[Id | None, Field(description="query by the vector, or object, of this stored item")] = None
    id: Annotated[Id, Field(description="of the item that is explained", examples=["a"])]
    field: Annotated[str | None, Field(description="of a collection with several: the one that is explained, whose vector is given")] = None
    limit: Annotated[int, Field(ge=1, le=largest("page"), description="terms that are listed of each factor; the others are added up")] = 50
    k: Annotated[int, Field(ge=1, le=largest("k"), description="neighbours of the walk that is asked for the item's place")] = 10
    s_curve: Annotated[bool, Field(description="with the curve of the bands")] = False
    feature_names: Annotated[
        dict[str, str] | list[str] | None,
        Field(
            description="names of features: by feature id; or a list, of features 0, 1, … where vectors have a length, else of tokens. "
            "Tokens of the query need no names"
        ),
    ] = None

    def one(self) -> tuple[str, Any] | None:
        """The vector or object that is asked about, after its key; None: a stored one is."""
        given = [(key, value) for key in (VECTOR, *KEYS) if (value := getattr(self, key)) is not None]
        return given[0] if given else None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if sum(getattr(self, name) is not None for name in (VECTOR, *KEYS, "query_id")) != 1:
            raise PydanticCustomError("one_of", f"give exactly one of vector and query_id, or of {', '.join(KEYS)}")
        return self


class TermOut(BaseModel):
    """One feature, or of objects two elements that stand against each other. Fields that mean nothing here are left out."""

    part: Annotated[float, Field(description="of the sum")]
    feature: int | None = None
    name: Annotated[str | None, Field(description="of the feature, where it is known")] = None
    query: Annotated[Any, Field(description="what the query has, as it is compared: divided by its sum or length where the kernel does so")]
    item: Annotated[Any, Field(description="what the item has")]
    min: Annotated[float | None, Field(description="where the kernel adds up minima")] = None
    max: float | None = None
    what: Annotated[str | None, Field(description="of objects: insert, delete, replace, swap, match, step, …")] = None
    query_at: Annotated[int | None, Field(description="place of the element in the query, from 0 on")] = None
    item_at: int | None = None
    apart: Annotated[float | None, Field(description="how far two points are from each other")] = None


class RestOut(BaseModel):
    """The features that are not listed, together."""

    features: int
    part: float
    min: float | None = None
    max: float | None = None


class ConstantOut(BaseModel):
    """What is no feature's."""

    name: str
    part: float


class CellOut(BaseModel):
    """A cell of a grid of nested histograms: value = (1 − share) · kernel + share · product of the values of its four parts."""

    level: int
    y: int
    x: int
    apart: Annotated[float, Field(description="ψ; kernel = exp(−ψ / lambda)")]
    kernel: float
    value: float
    share: Annotated[float, Field(description="epsilon of its level; 0: it is not divided")]


class FactorOut(BaseModel):
    """A kernel: the parts of its terms, of the rest and of the constants add up to `sum`, to 1e-9."""

    kernel: str
    formula: str
    parameters: dict[str, Any]
    value: Annotated[float, Field(description="what the kernel prints: `outer` of x = `sum`, to 1e-9")]
    sum: float
    outer: Annotated[str | None, Field(description="a formula of x and the parameters; null: the value is the sum", examples=["sqrt(x)"])]
    terms: Annotated[list[TermOut], Field(description="the greatest parts first, whatever their signs")]
    rest: RestOut
    constants: list[ConstantOut]
    cells: Annotated[list[CellOut] | None, Field(description="of nested histograms, the whole image last")] = None


class BandsOut(BaseModel):
    """What bands make of the pair."""

    rows: Annotated[int, Field(description="hashes a band")]
    bands: int
    shared: Annotated[int, Field(description="bands that both have in common")]
    collision: Annotated[
        float,
        Field(
            description="the probability that a hash of both is the same, by the sampler's law; at least, for 0-bit GCWS: "
            "with fewer than about 20 features it agrees far more often, and always if both have one and the same feature alone"
        ),
    ]
    p_found: Annotated[float, Field(description="that a band at least is shared: 1 − (1 − collision^rows)^bands")]
    s_curve: Annotated[
        list[tuple[float, float]] | None, Field(description="scores, and the least probability that such a pair shares a band")
    ] = None


class WalkOut(BaseModel):
    """What links make of it."""

    rank: Annotated[
        int | None, Field(description="place in the answer of a walk, without the item of query_id, from 1 on; null: it is not in it")
    ]
    k: int
    width: Annotated[int | None, Field(description="nodes that such a walk keeps; null of objects, whose pool has a width of its own")]


class ExplainAnswer(FactorOut):
    """Why an item scores what it scores. Of a product the terms stand in `factors`, and those beside them are empty."""

    id: str
    score: Annotated[float, Field(description="as a query answers it")]
    ascending: Annotated[bool, Field(description="whether it is a distance: lower is nearer")]
    factors: Annotated[list[FactorOut] | None, Field(description="of a product: their values multiplied are the score, to 1e-9")]
    bands: BandsOut | None
    no_bound: Annotated[str | None, Field(description="why there are no bands")]
    walk: Annotated[WalkOut | None, Field(description="null: nothing is linked")]
    took_ms: float
