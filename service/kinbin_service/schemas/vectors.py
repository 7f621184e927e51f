"""The forms of vectors and objects, and the parts that several models share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SkipValidation, WithJsonSchema
from pydantic_core import PydanticKnownError
from typing_extensions import TypedDict

import kinbin
from kinbin.limits import LIMITS
from kinbin_service.ids import LARGEST_ID, LEAST_ID, id_as_text

__all__ = [
    "STRICT",
    "ByField",
    "DenseVector",
    "FieldName",
    "Filter",
    "Id",
    "Image",
    "Include",
    "ObjectQueryIn",
    "Payload",
    "Points",
    "Series",
    "SparseVector",
    "StoredInclude",
    "String",
    "TokenVector",
    "Vector",
    "Version",
    "largest",
]


def largest(name: str) -> int:
    """The value of a library limit that counts something."""
    return int(LIMITS[name].value)


STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_ID_FORMS = {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": LEAST_ID, "maximum": LARGEST_ID}]}
Id = Annotated[str, BeforeValidator(id_as_text), WithJsonSchema(_ID_FORMS)]
"""Of an item, as it may be sent: a string, or an integer, which is the id of its digits. Answers hold strings."""


class SparseVector(BaseModel):
    """Values at feature ids; no feature twice. In a collection with a dimension, ids are below it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"indices": [3, 70001], "values": [1.5, 2]}]})
    indices: Annotated[list[Annotated[int, Field(ge=0, le=largest("feature_id"))]], Field(min_length=1, max_length=largest("nonzeros"))]
    values: Annotated[list[float], Field(min_length=1, max_length=largest("nonzeros"))]


class TokenVector(BaseModel):
    """Counts (or weights) of tokens, or a list of tokens that count as often as they stand in it.

    They are hashed to feature ids; for collections without a dimension.
    """

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"tokens": {"red": 3, "apple": 1}}, {"tokens": ["quick", "brown"]}]}
    )
    tokens: Annotated[dict[str, float] | list[str], Field(min_length=1, max_length=largest("nonzeros"))]


DenseVector = Annotated[list[float], Field(min_length=1, max_length=largest("dimension"), examples=[[0.1, 0, 2.5]])]
TokenList = Annotated[
    list[str],
    Field(
        min_length=1,
        max_length=largest("nonzeros"),
        description="tokens, each of which counts as often as it stands here: a set, if none is repeated",
        examples=[["quick", "brown"]],
    ),
]
Vector = DenseVector | TokenList | SparseVector | TokenVector
ByField = Annotated[dict[str, Vector], Field(min_length=1, description="by field", examples=[{"colour": [0.1, 0, 2.5]}])]
Numbers = Annotated[list[float], Field(min_length=1)]
String = Annotated[str, Field(min_length=1, max_length=largest("string_length"), description="compared as it is: no normal form is made")]
Series = Annotated[
    Numbers | Annotated[list[Numbers], Field(min_length=1)],
    Field(
        description=f"numbers, or steps of as many numbers as the collection has dimensions; at most {largest('series_numbers'):,} in all",
        examples=[[0.5, 1, 2.5, 1]],
    ),
]
Points = Annotated[
    list[Numbers],
    Field(
        min_length=1,
        description=f"points of as many numbers as the collection has dimensions; at most {largest('points_numbers'):,} in all",
        examples=[[[0, 0.5], [1, 1]]],
    ),
]
Image = Annotated[
    str,
    Field(
        description=f"a PNG, JPEG or WebP file of at most {largest('image_pixels'):,} pixels, in base64",
        json_schema_extra={"contentEncoding": "base64"},
    ),
]


class ObjectQueryIn(TypedDict, total=False):
    """One of many queries of a collection of objects: one of these, the same in all of them."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    string: SkipValidation[String]
    series: SkipValidation[Series]
    points: SkipValidation[Points]
    image: SkipValidation[Image]


Payload = dict[str, Any]
Filter = Annotated[
    dict[str, Any],
    Field(
        description="conditions on fields ($eq $ne $gt $gte $lt $lte $in $nin $exists $prefix $geo_radius $geo_box), and $and $or $not",
        examples=[{"year": {"$gte": 2020}}],
    ),
]


def _known_content(name: str, known: str = "'vector', 'payload', 'payload.FIELD'") -> str:
    try:
        kinbin.QueryOptions(include=(name,))
    except kinbin.InvalidInput:
        raise PydanticKnownError("literal_error", {"expected": known}) from None
    return name


def _known_stored(name: str) -> str:
    return name if name == "version" else _known_content(name, "'vector', 'payload', 'version', 'payload.FIELD'")


_SELECTION = {"pattern": r"^payload(\.[^.]+)+$", "type": "string"}
Content = Annotated[
    str,
    AfterValidator(_known_content),
    WithJsonSchema({"anyOf": [{"enum": ["vector", "payload"], "type": "string"}, _SELECTION]}),
]
Include = Annotated[
    list[Content],
    Field(max_length=largest("include"), description="what to return of each item: vector, payload, or fields of it, as payload.year"),
]
StoredContent = Annotated[
    str,
    AfterValidator(_known_stored),
    WithJsonSchema({"anyOf": [{"enum": ["vector", "payload", "version"], "type": "string"}, _SELECTION]}),
]
StoredInclude = Annotated[
    list[StoredContent],
    Field(max_length=largest("include"), description="what to return of each item: vector, payload, or fields of it, and version"),
]
FieldName = Annotated[str | None, Field(description="of items with several vectors: the one that is meant")]
Version = Annotated[int, Field(ge=0, le=2**53 - 1, description="the version that the stored item must have; 0: it must not be there")]
