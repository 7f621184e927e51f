"""What answers look like. For the document only: answers are built as plain data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from kinbin_service.schemas.vectors import Payload, SparseVector

__all__ = [
    "AddAnswer",
    "BatchAnswer",
    "CollectionAnswer",
    "CollectionsAnswer",
    "ColumnsAnswer",
    "CountAnswer",
    "DeleteAnswer",
    "DroppedAnswer",
    "FacetsAnswer",
    "GetAnswer",
    "IndexesAnswer",
    "LimitsAnswer",
    "ProblemAnswer",
    "QueryAnswer",
    "ScrollAnswer",
    "StatusAnswer",
]

Took = Annotated[float, Field(description="milliseconds from the parsed request to the answer, waiting for a thread included")]


class SkippedItem(BaseModel):
    """An item that was left out."""

    pointer: Annotated[str, Field(description="JSON pointer as a URI fragment", examples=["#/items/3/vector"])]
    code: Annotated[str, Field(description="as of a refused add")]
    detail: str


class AddAnswer(BaseModel):
    """The add is durable, and every worker finds it."""

    indexed: Annotated[int, Field(description="new items")]
    updated: Annotated[int, Field(description="replaced items")]
    unchanged: Annotated[int, Field(description="items that were stored alike before")]
    count: Annotated[int, Field(description="items in the collection now")]
    ids: Annotated[list[str] | None, Field(description="the ids that were made, if none were given with a matrix")] = None
    skipped: Annotated[int | None, Field(description="bad items that were left out; only there with on_error skip")] = None
    problems: Annotated[list[SkippedItem] | None, Field(description="of the first hundred of them; only there with on_error skip")] = None
    took_ms: Took


class Hit(BaseModel):
    """One neighbour."""

    id: str
    score: Annotated[float | None, Field(description="the exact kernel; higher is nearer")] = None
    distance: Annotated[float | None, Field(description="in its place where the kernel prints distances; lower is nearer")] = None
    payload: Annotated[Payload | None, Field(description="if included")] = None
    vector: Annotated[list[float] | SparseVector | None, Field(description="if included; of images, their counts of colours")] = None
    string: Annotated[str | None, Field(description="in its place, where items are strings")] = None
    series: Annotated[list[float] | list[list[float]] | None, Field(description="in its place, where items are series")] = None
    points: Annotated[list[list[float]] | None, Field(description="in its place, where items are point sets")] = None
    parts: Annotated[dict[str, float] | None, Field(description="where several fields were asked for, the exact score of each")] = None
    vectors: Annotated[dict[str, list[float] | SparseVector] | None, Field(description="in its place where there are several")] = None


class GroupOut(BaseModel):
    """The results of one value of the field that an answer is grouped by."""

    value: str | float | bool
    ids: Annotated[list[str], Field(description="best first")]


class StepOut(BaseModel):
    """One step of a search."""

    step: str
    ms: Annotated[float, Field(description="milliseconds that it took")]


class DebugOut(BaseModel):
    """What a search did."""

    candidates: int
    verified: int
    truncated: list[str]
    steps: list[StepOut]


class OneAnswer(BaseModel):
    """The neighbours of one vector, and what is known of their completeness."""

    results: list[Hit]
    recall_lower_bound: Annotated[
        float | None,
        Field(
            description="each of the true k nearest (with min_score: of those that reach it) is found with at least this probability "
            "over the secret seed of the collection, so mean recall is at least this; null: see no_bound"
        ),
    ]
    no_bound: Annotated[str | None, Field(description="why no bound can be stated; only there when it is null")] = None
    mode: Annotated[Literal["bands", "links", "exact", "pool"], Field(description="how it was searched")]
    candidates: Annotated[int, Field(description="items that shared a band with the query or that a walk met; all of them for a scan")]
    verified: Annotated[int, Field(description="items whose exact score was computed")]
    truncated: Annotated[list[str], Field(description="the caps that cut the search short")]
    steps: Annotated[
        list[str], Field(description="what was done for it, in order, and why", examples=[["walk linked rows", "scan all rows: far"]])
    ]
    groups: Annotated[
        list[GroupOut] | None, Field(description="with group_by: which results belong together; these come group by group")
    ] = None
    next: Annotated[str | None, Field(description="with cursor: that of the next page; null: this is the last")] = None
    debug: Annotated[DebugOut | None, Field(description="with debug: what was done")] = None
    out_of_distribution: Annotated[
        bool,
        Field(
            description="only there when true: the query is unlike the stored items that walks were calibrated on; "
            "mode auto completes such an answer by bands or a scan"
        ),
    ] = False


class QueryAnswer(OneAnswer):
    """The answer to one vector."""

    took_ms: Took


class BatchAnswer(BaseModel):
    """The answers to many vectors, in their order."""

    answers: list[OneAnswer]
    took_ms: Took


class ColumnsAnswer(BaseModel):
    """The answers to many vectors as columns: what `answers` hold, an array for each field. Hits lie query by query, best first."""

    counts: Annotated[list[int], Field(description="of each query, how many hits it has; their sum is the length of ids")]
    ids: list[str]
    scores: Annotated[list[float] | None, Field(description="of each hit")] = None
    distances: Annotated[list[float] | None, Field(description="in its place where the kernel prints distances")] = None
    parts: Annotated[dict[str, list[float]] | None, Field(description="where several fields were asked for, of each its scores")] = None
    recall_lower_bounds: Annotated[list[float | None], Field(description="of each query; null: see no_bounds")]
    no_bounds: list[str | None]
    modes: list[Literal["bands", "links", "exact", "pool"]]
    candidates: list[int]
    verified: list[int]
    truncated: list[list[str]]
    steps: list[list[str]]
    out_of_distribution: list[bool]
    took_ms: Took


class ItemOut(BaseModel):
    """A stored item."""

    id: str
    payload: Annotated[Payload | None, Field(description="if included")] = None
    vector: Annotated[list[float] | SparseVector | None, Field(description="if included; tokens come back as hashed features")] = None
    string: Annotated[str | None, Field(description="in its place, where items are strings")] = None
    series: Annotated[list[float] | list[list[float]] | None, Field(description="in its place, where items are series")] = None
    points: Annotated[list[list[float]] | None, Field(description="in its place, where items are point sets")] = None
    vectors: Annotated[dict[str, list[float] | SparseVector] | None, Field(description="in its place where there are several")] = None
    version: Annotated[int | None, Field(description="if included; changes with vector and payload")] = None


class GetAnswer(BaseModel):
    """The items that are stored, in the order of their ids in the request, and the ids that are not."""

    items: list[ItemOut]
    missing: list[str]


class ScrollAnswer(BaseModel):
    """One page; `next` is null on the last one."""

    items: list[ItemOut]
    next: str | None


class DeleteAnswer(BaseModel):
    """How many items were deleted, and how many are left."""

    deleted: int
    count: int
    atomic: Annotated[bool, Field(description="false: a filter matched more than 10,000 items, which went in several transactions")]


class CountAnswer(BaseModel):
    """How many items there are."""

    count: int


class FacetValueAnswer(BaseModel):
    """A value, and how many items have it."""

    value: str | float | bool | None
    count: int


class FacetsAnswer(BaseModel):
    """The values of a field, the most frequent first; ties by value: numbers, strings, false, true, null."""

    field: str
    values: list[FacetValueAnswer]
    distinct: Annotated[int, Field(description="different values in all")]
    items: Annotated[int, Field(description="items that were looked at: all, or those that the filter lets through")]


class IndexesAnswer(BaseModel):
    """The payload indexes of a collection; null: none is declared."""

    indexes: Annotated[
        dict[str, Any] | None,
        Field(description="fields: by name their kind, and whether they are ready in this worker; progress: of the building at hand, to 1"),
    ]


_NAMES = "by feature, those that were declared; only there if some were"


class FieldAnswer(BaseModel):
    """The configuration of one vector of items."""

    kernel: str
    parameters: Annotated[dict[str, float | str | list[float]], Field(description="of the kernel; empty if it has none")]
    dim: int | None
    sampler: str | None
    bands: int | None
    rows: int | None
    feature_names: Annotated[dict[str, str] | None, Field(description=_NAMES)] = None


class CollectionAnswer(BaseModel):
    """A collection: its configuration, its size, and how its index is built."""

    name: str
    items: Annotated[str, Field(description="what the items are: vectors, strings, series, points or images")]
    kernel: Annotated[str | None, Field(description="or distance; null, as the next five, where there are fields")]
    parameters: Annotated[dict[str, float | str | list[float]] | None, Field(description="of the kernel; empty if it has none")]
    dim: int | None
    sampler: str | None
    bands: int | None
    rows: int | None
    feature_names: Annotated[dict[str, str] | None, Field(description=_NAMES)] = None
    fields: Annotated[dict[str, FieldAnswer] | None, Field(description="only there if items have several vectors")] = None
    count: int
    stats: dict[str, Any]


class CollectionsAnswer(BaseModel):
    """The names of all collections, sorted."""

    collections: list[str]


class DroppedAnswer(BaseModel):
    """The collection is gone, with all its items."""

    dropped: str


class LimitAnswer(BaseModel):
    """One limit."""

    name: str
    value: float
    unit: str
    reason: str


class LimitsAnswer(BaseModel):
    """Every limit of this server."""

    limits: list[LimitAnswer]


class StatusAnswer(BaseModel):
    """The state of this worker."""

    status: Literal["starting", "ready", "stopping"]
    version: str
    compiling: Annotated[list[str], Field(description="Groups of kernels that are still being compiled", examples=[[], ["links"]])]
    background: Annotated[
        Literal["ok", "failing"],
        Field(description='"failing" while sealing, merging or linking fails; requests are answered, and it is tried again'),
    ]


class ProblemEntry(BaseModel):
    """One thing that is wrong with the body."""

    pointer: Annotated[str, Field(description="JSON pointer as a URI fragment", examples=["#/items/3/vector"])]
    detail: str


class ProblemAnswer(BaseModel):
    """An error (RFC 9457), smaller than 2 kB; of what was sent it repeats names of fields, and ids of a conflict, at most."""

    type: str
    title: str
    status: int
    code: Annotated[str, Field(description="for programs; never changes")]
    detail: str
    errors: Annotated[list[ProblemEntry], Field(max_length=8)]
    limit: Annotated[str | None, Field(description="the limit in /v1/limits that was passed")]
