"""What requests may hold. Strict: "1.5" and true are no numbers, and an unknown field is an error."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SkipValidation,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError, PydanticKnownError
from typing_extensions import TypedDict

import kinbin
from kinbin_service.schemas.vectors import (
    STRICT,
    ByField,
    Filter,
    Id,
    Image,
    Payload,
    Points,
    Series,
    StoredInclude,
    String,
    Vector,
    Version,
    largest,
)

__all__ = [
    "AddOptions",
    "AddRequest",
    "CollectionRequest",
    "CountRequest",
    "DeleteRequest",
    "DropOptions",
    "FacetsRequest",
    "FieldRequest",
    "FieldsAddRequest",
    "FieldsItemIn",
    "GetRequest",
    "IndexesRequest",
    "ItemIn",
    "ObjectItemIn",
    "ObjectsAddRequest",
    "ScrollRequest",
]


_ID = f"unique in the collection, at most {largest('id_bytes')} bytes of UTF-8; a 64-bit integer is the id of its digits"


class ItemIn(TypedDict):
    """One item of an add."""

    __pydantic_config__ = STRICT  # type: ignore[misc]  # how pydantic configures a TypedDict
    id: Annotated[Id, Field(description=_ID, examples=["a"])]
    vector: SkipValidation[Vector]
    payload: NotRequired[Annotated[Payload | None, Field(description="any JSON object; filters look at its fields")]]
    if_version: NotRequired[Version | None]


class FieldsItemIn(TypedDict):
    """One item of an add to a collection with several fields."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    id: Annotated[Id, Field(description=_ID, examples=["a"])]
    vectors: SkipValidation[ByField]
    payload: NotRequired[Annotated[Payload | None, Field(description="any JSON object; filters look at its fields")]]
    if_version: NotRequired[Version | None]


class ObjectItemIn(TypedDict):
    """One item of an add to a collection of objects. It has one of string, series, points and image, as all items of the add."""

    __pydantic_config__ = STRICT  # type: ignore[misc]
    id: Annotated[Id, Field(description=_ID, examples=["a"])]
    string: NotRequired[SkipValidation[String]]
    series: NotRequired[SkipValidation[Series]]
    points: NotRequired[SkipValidation[Points]]
    image: NotRequired[SkipValidation[Image]]
    payload: NotRequired[Annotated[Payload | None, Field(description="any JSON object; filters look at its fields")]]
    if_version: NotRequired[Version | None]


AddMode = Annotated[Literal["upsert", "insert", "update"], Field(description="insert takes new ids only, update stored ids only")]


OnError = Annotated[Literal["reject", "skip"], Field(description="skip: write the good items, and list the bad ones in the answer")]


class AddRequest(BaseModel):
    """Items to add or replace, in one transaction: all of them or none."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [
                {"items": [{"id": "a", "vector": [0.1, 0, 2.5], "payload": {"year": 2020}}, {"id": "b", "vector": [0, 1.5, 2]}]},
                {"items": [{"id": "b", "vector": {"indices": [3, 70001], "values": [1.5, 2]}}], "mode": "insert"},
                {"items": [{"id": "c", "vector": {"tokens": {"red": 3, "apple": 1}}}]},
                {"items": [{"id": "d", "vector": ["quick", "brown", "fox"]}]},
            ]
        },
    )
    items: Annotated[list[ItemIn], Field(max_length=largest("batch_items"), fail_fast=True)]
    mode: AddMode = "upsert"
    on_error: OnError = "reject"


class FieldsAddRequest(BaseModel):
    """Items to add or replace in a collection with several fields, in one transaction: all of them or none."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={"examples": [{"items": [{"id": "a", "vectors": {"colour": [0.1, 0, 2.5], "words": ["quick", "fox"]}}]}]},
    )
    items: Annotated[list[FieldsItemIn], Field(max_length=largest("batch_items"), fail_fast=True)]
    mode: AddMode = "upsert"
    on_error: OnError = "reject"


class ObjectsAddRequest(BaseModel):
    """Strings, series, point sets or images to add or replace, in one transaction: all of them or none."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [
                {"items": [{"id": "a", "string": "kitten"}, {"id": "b", "string": "sitting", "payload": {"year": 2020}}]},
                {"items": [{"id": "c", "series": [0.5, 1, 2.5, 1]}]},
                {"items": [{"id": "d", "points": [[0, 0.5], [1, 1], [2, 0]]}]},
            ]
        },
    )
    items: Annotated[list[ObjectItemIn], Field(max_length=largest("batch_items"), fail_fast=True)]
    mode: AddMode = "upsert"
    on_error: OnError = "reject"


class AddOptions(BaseModel):
    """Options of an add whose body is a matrix or lines: parameters of the address."""

    model_config = ConfigDict(extra="forbid")
    mode: AddMode = "upsert"
    on_error: OnError = "reject"
    stream: Annotated[
        Literal["true", "false"],
        Field(description="of lines: true takes any number of them, and answers with lines of receipts while they arrive"),
    ] = "false"
    after: Annotated[
        int, Field(ge=0, le=1 << 53, description="of a stream that is resumed: how many lines were durable and are not sent again")
    ] = 0


class DropOptions(BaseModel):
    """Options of dropping a collection: parameters of the address."""

    model_config = ConfigDict(extra="forbid")
    damaged: Annotated[
        Literal["true", "false"], Field(description="true also drops a collection whose files are damaged, or whose disk is full")
    ] = "false"


def _known_kernel(name: str) -> str:
    """The one list of kernels is the library's; it judges products itself, and which go with what items."""
    parts, kernels = name.split("*"), kinbin.KERNELS
    if len(parts) > 1 and not set(parts) <= {"nested", *kinbin.KERNELS}:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, kernels.parts))})  # type: ignore[attr-defined]  # beside the names
    if len(parts) == 1 and name not in {"nested", *kinbin.KERNELS, *kinbin.OBJECT_KERNELS}:
        # The end of the list as the library says it.
        known = [*kinbin.KERNELS, "a product of two or three of them, such as gmm*acos, or nested"]
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, known))})
    return name


def _known_distance(name: str) -> str:
    if name not in kinbin.OBJECT_KERNELS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, kinbin.OBJECT_KERNELS))})
    return name


def _known_kind(name: str) -> str:
    if name not in kinbin.KINDS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, kinbin.KINDS))})
    return name


IndexKind = Annotated[
    str,
    WithJsonSchema({"enum": list(kinbin.INDEX_KINDS), "type": "string"}),
    Field(description="what values of the field are indexed"),
]


def _known_sampler(name: str) -> str:
    if name not in kinbin.SAMPLERS:
        raise PydanticKnownError("literal_error", {"expected": ", ".join(map(repr, kinbin.SAMPLERS))})
    return name


KernelName = Annotated[
    str,
    AfterValidator(_known_kernel),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": [*kinbin.KERNELS, "nested", *kinbin.OBJECT_KERNELS], "type": "string"},
                {"pattern": r"^\w+(\*\w+){1,2}$", "type": "string"},
            ]
        }
    ),
]


Parameters = dict[str, float | str | Annotated[list[float], Field(max_length=16)]]
"""Numbers, or words and lists of numbers where a kernel has such."""


FeatureNames = dict[str, str] | list[str]
NAMES_TEXT = (
    "names of features, which explanations tell: by feature id; or a list, of features 0, 1, … of vectors of a dimension, else of tokens"
)


class FieldRequest(BaseModel):
    """The configuration of one vector. What is null, Kinbin chooses itself, run by run."""

    model_config = STRICT
    kernel: Annotated[KernelName, Field(description="the similarity that scores are values of; gmm*acos is a product of two")] = "ngmm"
    dim: Annotated[
        int | None, Field(ge=1, le=largest("dimension"), description="length of dense vectors; null: sparse, with unbounded feature ids")
    ] = None
    sampler: Annotated[str, AfterValidator(_known_sampler)] | None = Field(None, description="how vectors are hashed")
    bands: Annotated[int | None, Field(ge=1, description="bands of a run")] = None
    rows: Annotated[int | None, Field(ge=1, description="hashes of a band")] = None
    parameters: Annotated[
        Parameters | None,
        Field(description="of the kernel, such as gamma; null, or left out: their defaults", examples=[{"gamma": 2.0}]),
    ] = None
    feature_names: Annotated[FeatureNames | None, Field(description=NAMES_TEXT, examples=[["red", "green", "blue"]])] = None


def _no_cluster(value: object) -> None:
    """One server refuses what only a gateway takes, in words that say so."""
    if value is not None:
        raise PydanticCustomError("no_cluster", "this is not a cluster, but one server, which has all of a collection: leave it out")


class CollectionRequest(BaseModel):
    """The configuration of a collection. What is null, Kinbin chooses itself, run by run."""

    model_config = ConfigDict(
        **STRICT,
        json_schema_extra={
            "examples": [
                {"kernel": "ngmm", "dim": 512},
                {"kernel": "minmax"},
                {"fields": {"colour": {"kernel": "chi2", "dim": 512}, "words": {}}},
                {"dim": 512, "indexes": {"year": "number", "tag": "keyword"}},
                {"items": "strings", "distance": "levenshtein"},
                {"items": "series", "distance": "dtw", "parameters": {"window": 0.1}, "dim": 3},
                {"items": "points", "distance": "hausdorff", "dim": 2},
                {"items": "images", "kernel": "nested", "parameters": {"levels": 3, "base": "tv", "epsilon": 0.5}},
            ]
        },
    )
    items: Annotated[
        str,
        AfterValidator(_known_kind),
        WithJsonSchema({"enum": list(kinbin.KINDS), "type": "string"}),
        Field(description="what the items are; objects have kernels, or distances, of their own"),
    ] = "vectors"
    kernel: Annotated[
        KernelName | None,
        Field(description="the similarity that scores are values of; gmm*acos is a product of two; null: ngmm, or that of the items"),
    ] = None
    distance: (
        Annotated[
            str,
            AfterValidator(_known_distance),
            WithJsonSchema({"enum": list(kinbin.OBJECT_KERNELS), "type": "string"}),
        ]
        | None
    ) = Field(None, description="in the place of kernel, of one that prints distances")
    dim: Annotated[
        int | None,
        Field(
            ge=1,
            le=largest("dimension"),
            description="length of dense vectors; null: sparse, with unbounded feature ids. Of series and points: their dimensions",
        ),
    ] = None
    sampler: Annotated[str, AfterValidator(_known_sampler)] | None = Field(None, description="how vectors are hashed")
    bands: Annotated[int | None, Field(ge=1, description="bands of a run")] = None
    rows: Annotated[int | None, Field(ge=1, description="hashes of a band")] = None
    parameters: Annotated[
        Parameters | None,
        Field(description="of the kernel, such as gamma; null, or left out: their defaults", examples=[{"gamma": 2.0}]),
    ] = None
    feature_names: Annotated[FeatureNames | None, Field(description=NAMES_TEXT, examples=[["red", "green", "blue"]])] = None
    indexes: Annotated[
        dict[str, IndexKind] | None,
        Field(description="fields of payloads to index, with their kinds; of a collection that is there, those that it lacks are added"),
    ] = None
    seed: Annotated[int | None, Field(ge=0, description="of the hashes; random and secret when null, and never returned")] = None
    fields: Annotated[
        dict[str, FieldRequest] | None,
        Field(max_length=largest("fields"), description="for items of several vectors: each by its name; instead of kernel, dim, …"),
    ] = None
    # Gateways take it, and their document tells of it.
    cluster: SkipJsonSchema[Annotated[Any, BeforeValidator(_no_cluster)]] = Field(None, exclude=True)


class GetRequest(BaseModel):
    """Items by id."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"ids": ["a", "b"], "include": ["vector", "payload"]}]})
    ids: Annotated[list[Id], Field(max_length=largest("batch_items"), fail_fast=True)]
    include: StoredInclude = ["vector", "payload"]


_DELETES: list[JsonValue] = [{"ids": ["a"]}, {"ids": ["a", "b"], "if_versions": [0, None]}, {"filter": {"year": {"$lt": 2000}}}]


class DeleteRequest(BaseModel):
    """Items to delete: by id, or all that a filter matches."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": _DELETES})
    ids: Annotated[list[Id], Field(max_length=largest("batch_items"), fail_fast=True)] | None = None
    filter: Filter | None = None
    if_versions: Annotated[
        list[Version | None] | None,
        Field(max_length=largest("batch_items"), description="with ids: what each has to be, or nothing is deleted; null: any"),
    ] = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise PydanticCustomError("one_of", "give exactly one of ids and filter")
        return self


class ScrollRequest(BaseModel):
    """One page of a collection, in the order of ids, or of a field of payloads."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"after": None, "limit": 100, "include": ["payload"]}]})
    after: Annotated[str | None, Field(description="the next of the page before; null for the first page")] = None
    limit: Annotated[int, Field(ge=1, le=largest("page"))] = 100
    filter: Filter | None = None
    include: StoredInclude = ["payload"]
    order_by: Annotated[
        str | None,
        Field(description="a field of payloads: its least value in each item first; items without a number or string are left out"),
    ] = None
    descending: Annotated[bool, Field(description="with order_by: the greatest value in each item first")] = False


class CountRequest(BaseModel):
    """How many items there are, or how many a filter matches."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{}, {"filter": {"year": 2020}}]})
    filter: Filter | None = None


class IndexesRequest(BaseModel):
    """Payload indexes to add and to drop, in one transaction."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"add": {"year": "number", "tag": "keyword"}}, {"drop": ["year"]}]})
    add: Annotated[dict[str, IndexKind], Field(description="fields of payloads, with dots into objects, and their kinds")] = {}
    drop: Annotated[
        list[str], Field(max_length=largest("indexes"), description="fields whose indexes are dropped, before others are added")
    ] = []


class FacetsRequest(BaseModel):
    """The values of a field to count."""

    model_config = ConfigDict(**STRICT, json_schema_extra={"examples": [{"field": "tag", "filter": {"year": 2020}, "limit": 10}]})
    field: Annotated[str, Field(description="a field of payloads, with dots into objects")]
    filter: Filter | None = None
    limit: Annotated[int, Field(ge=1, le=largest("page"), description="values at most, the most frequent first")] = 20
