"""What queries may hold: fields that the library's table of options makes, and what they are about."""

from __future__ import annotations

from operator import getitem
from typing import Annotated, Any, Literal, NotRequired, Self, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, create_model, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

import kinbin
from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.schemas.vectors import (
    STRICT,
    ByField,
    Filter,
    Id,
    Image,
    Include,
    ObjectQueryIn,
    Points,
    Series,
    String,
    Vector,
    largest,
)

__all__ = [
    "FieldsQueryFields",
    "FieldsQueryRequest",
    "OneQueryFields",
    "OptionFields",
    "QueryEntry",
    "QueryFields",
    "QueryOptions",
    "QueryRequest",
]


class Grouping(TypedDict):
    """The groups that an answer is made of."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # how pydantic configures a TypedDict
    field: Annotated[str, Field(description="of payloads; a dot goes into objects", examples=["shot"])]
    groups: NotRequired[Annotated[int, Field(ge=1, description="how many; 10 if it is left out")]]
    size: NotRequired[Annotated[int, Field(ge=1, description="items of each, at most; 1 if it is left out")]]


class OptionFields(BaseModel):
    """The options of a query, whose fields are made from the library's table."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def options(self) -> kinbin.QueryOptions:
        """The options as the library takes them."""
        return kinbin.QueryOptions(**{name: getattr(self, name) for name in kinbin.OPTIONS if name in type(self).model_fields})


_SPECIAL: dict[str, Any] = {
    "filter": Filter | None,
    "group_by": Grouping | None,
    "include": Include,
    "exclude": Annotated[list[Id], Field(max_length=largest("exclude"), description=kinbin.OPTIONS["exclude"].text)],
}
"""Options whose types the library's annotations do not say to the letter."""


def _option_fields(*without: str) -> dict[str, Any]:
    """The fields of all options but some: type, default, bounds and description."""
    hints = get_type_hints(kinbin.QueryOptions)
    made: dict[str, Any] = {}
    for name, option in kinbin.OPTIONS.items():
        words: Any = getitem(cast("Any", Literal), option.known)
        bounds = Field(ge=option.least, gt=option.above, le=option.largest, description=option.text)
        if name in _SPECIAL:
            # Defaults of the library are tuples.
            made[name] = _SPECIAL[name], list(option.default) if isinstance(option.default, tuple) else option.default
        elif not option.known:
            made[name] = Annotated[hints[name], bounds], option.default
        elif isinstance(option.default, str):
            made[name] = Annotated[words, bounds], option.default
        else:
            listed = Field(max_length=len(option.known), description=option.text)
            made[name] = Annotated[list[words], listed], list(option.default)
    return {name: field for name, field in made.items() if name not in without}


def _check_self(asked: Any) -> None:
    if asked.include_self and asked.id is None and getattr(asked, "positive", None) is None and getattr(asked, "queries", None) is None:
        raise PydanticCustomError("one_of", "include_self comes with id, or with examples: other queries are about no item of their own")


class OneQueryFields(OptionFields):
    """What one query is about, beside its options."""

    model_config = ConfigDict(strict=True)
    vector: SkipValidation[Vector | None] = None
    string: SkipValidation[String | None] = None
    series: SkipValidation[Series | None] = None
    points: SkipValidation[Points | None] = None
    image: SkipValidation[Image | None] = None
    id: Annotated[Id | None, Field(description="query by the vector, or object, of this stored item")] = None
    positive: Annotated[
        list[SkipValidation[Id | Vector | ObjectQueryIn]] | None,
        Field(
            min_length=1,
            max_length=largest("examples"),
            description="examples to be near: ids, or vectors, or objects under their key. The score is the mean kernel with these, "
            "less the mean with the negative ones",
        ),
    ] = None
    negative: Annotated[
        list[SkipValidation[Id | Vector | ObjectQueryIn]] | None,
        Field(max_length=largest("examples"), description="examples to be far from, with positive"),
    ] = None

    def one(self) -> tuple[str, Any] | None:
        """The vector or object that is asked for, after its key; None: none is."""
        given = [(key, value) for key in (VECTOR, *KEYS) if (value := getattr(self, key)) is not None]
        return given[0] if given else None

    @property
    def queries_given(self) -> bool:
        """Whether many queries are asked."""
        return False

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if sum(getattr(self, name) is not None for name in (VECTOR, *KEYS, "id", "positive")) + self.queries_given != 1:
            raise PydanticCustomError("one_of", f"give exactly one of vector, id and queries, or of {', '.join(KEYS)}, or positive")
        if self.negative is not None and self.positive is None:
            raise PydanticCustomError("one_of", "negative comes with positive")
        _check_self(self)
        return self


QueryEntry: type[OneQueryFields] = create_model(
    "QueryEntry",
    __base__=OneQueryFields,
    __module__=__name__,
    __doc__="One of many queries, with options of its own; those that it lacks are the ones beside queries.",
    **_option_fields(),
)


class QueryFields(OneQueryFields):
    """What a query is about, or many of them."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [
                {"vector": [0.1, 0, 2.5], "k": 10, "target_recall": 0.9, "filter": {"year": {"$gte": 2020}}, "include": ["payload"]},
                {"id": "a", "k": 5, "exclude": ["b"]},
                {"id": "a", "include_self": True, "offset": 5, "k": 5},
                {"queries": [[0.1, 0, 2.5], [0, 1.5, 2]], "mode": "exact"},
                {"string": "kitten", "k": 5, "max_distance": 3, "include": ["vector"]},
                {"positive": ["a", [0.1, 0, 2.5]], "negative": ["b"], "k": 5},
                {"id": "a", "group_by": {"field": "shot", "groups": 5, "size": 2}, "include": ["payload.shot"]},
                {"id": "a", "cursor": "", "debug": True},
                {"queries": [{"id": "a", "k": 3}, {"vector": [0.1, 0, 2.5], "filter": {"year": 2020}}], "min_score": 0.1},
                {"queries": [{"points": [[0, 0.5], [1, 1]]}, {"points": [[2, 0]]}]},
            ]
        },
    )
    queries: Annotated[
        list[SkipValidation[Vector | ObjectQueryIn | QueryEntry]] | None,
        Field(
            max_length=largest("batch_queries"),
            description="many vectors, or objects, each of these under its key; or queries with options of their own, "
            "which go before those beside queries",
        ),
    ] = None

    @property
    def queries_given(self) -> bool:
        """Whether many queries are asked."""
        return self.queries is not None


class FieldsQueryIn(TypedDict):
    """One of many queries of a collection with several fields."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    vectors: SkipValidation[ByField]


class FieldsQueryFields(OptionFields):
    """What a query of several fields is about, beside its options."""

    model_config = ConfigDict(
        strict=True,
        json_schema_extra={
            "examples": [
                {"vectors": {"colour": [0.1, 0, 2.5], "words": ["fox"]}, "weights": {"colour": 0.7, "words": 0.3}, "k": 10},
                {"id": "a", "fields": ["colour", "words"], "combine": "product"},
                {"queries": [{"vectors": {"colour": [0.1, 0, 2.5]}}, {"vectors": {"colour": [0, 1.5, 2]}}]},
            ]
        },
    )
    vectors: SkipValidation[ByField | None] = None
    id: Annotated[Id | None, Field(description="query by the vectors of this stored item")] = None
    queries: Annotated[
        list[FieldsQueryIn] | None, Field(max_length=largest("batch_queries"), description="many, each of the same fields")
    ] = None
    weights: Annotated[
        dict[str, Annotated[float, Field(ge=0)]] | None,
        Field(description="of each field in the sum, used as they are; null: 1 / number of fields that are asked for"),
    ] = None
    combine: Annotated[Literal["sum", "product"], Field(description="how the scores of fields become one; a product has no weights")] = (
        "sum"
    )
    fields: Annotated[
        list[str] | None,
        Field(description="with id: the fields to compare; null: those that weights name, or all", max_length=largest("fields")),
    ] = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        if sum(asked is not None for asked in (self.vectors, self.id, self.queries)) != 1:
            raise PydanticCustomError("one_of", "give exactly one of vectors, id and queries")
        if self.fields is not None and self.id is None:
            raise PydanticCustomError("one_of", "fields come with id; otherwise the vectors say which they are")
        _check_self(self)
        return self


QueryOptions: type[OptionFields] = create_model(
    "QueryOptions",
    __base__=OptionFields,
    __module__=__name__,
    __doc__="Options of a query. With a matrix as the body they are parameters of the address.",
    **_option_fields("filter", "exclude", "include_self", "cursor", "group_by"),
)
QueryRequest: type[QueryFields] = create_model(
    "QueryRequest",
    __base__=QueryFields,
    __module__=__name__,
    __doc__="One of vector, an object under its key, id and queries; and options.",
    **_option_fields(),
)


FieldsQueryRequest: type[FieldsQueryFields] = create_model(
    "FieldsQueryRequest",
    __base__=FieldsQueryFields,
    __module__=__name__,
    __doc__="One of vectors, id and queries, for a collection with several fields; and options.",
    **_option_fields("max_distance"),
)
