"""What the service answers, as typed and immutable models. Fields that this version does not know are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from kinbin_client._lazy import Lazy, maker_of
from kinbin_client.vectors import Sparse

__all__ = [
    "AddResult",
    "Answer",
    "AnswerBatch",
    "BandsForecast",
    "CollectionInfo",
    "CompactReport",
    "Counted",
    "CurrentSetting",
    "Debug",
    "DeleteResult",
    "FacetValue",
    "Facets",
    "GetResult",
    "Group",
    "Health",
    "Hit",
    "Holds",
    "Item",
    "Limit",
    "ModeRecall",
    "Page",
    "PayloadResult",
    "Rebuilt",
    "RecallReport",
    "SimilarityHistogram",
    "SkippedItem",
    "Step",
    "Suggestion",
    "Tuning",
    "WalkForecast",
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hit(_Model):
    """One neighbour: `score` is what the kernel prints, exactly; where that is a distance, `distance` is the same number."""

    id: str
    # A service sends one of them. An alias costs nothing, a validator in Python a microsecond a hit.
    score: float = Field(validation_alias=AliasChoices("score", "distance"))
    payload: dict[str, Any] | None = None
    vector: list[float] | Sparse | None = None
    string: str | None = None
    series: list[float] | list[list[float]] | None = None
    points: list[list[float]] | None = None
    """One of these in the place of `vector`, where items are such objects; `object` is the one that is there."""
    distance: float | None = None
    parts: dict[str, float] | None = None
    """By field that was asked for, the exact score that `score` is made of, in a collection with several."""
    vectors: dict[str, list[float] | Sparse] | None = None
    """By field, in the place of `vector`."""

    @property
    def object(self) -> Any:
        """The string, series or points, where items are objects and `include` named "vector"."""
        return _object_of(self)


class Group(_Model):
    """The hits of one value of the field that an answer is grouped by."""

    value: str | int | float | bool
    ids: list[str]
    """Best first."""


class Step(_Model):
    """One step of a search, and how many milliseconds it took."""

    step: str
    ms: float


class Debug(_Model):
    """What a search did."""

    candidates: int
    verified: int
    truncated: list[str] = []
    steps: list[Step] = []


class Answer(Lazy, _Model):
    """The nearest items, best first, with what is known about how complete they are; iterate over it for its hits.

    `recall_lower_bound` is proved (None with the reason in `no_bound` when none can be stated, as of a
    walk over links: mode "links"); `verified` items were scored exactly, out of `candidates`; `truncated` names the caps that were hit,
    `steps` says what was done for it, in order.
    `out_of_distribution`: the query is unlike the stored items that walks were calibrated on.
    """

    results: list[Hit]
    recall_lower_bound: float | None = None
    no_bound: str | None = None
    mode: str
    candidates: int
    verified: int
    truncated: list[str] = []
    steps: list[str] = []
    out_of_distribution: bool = False
    groups: list[Group] | None = None
    """With `group_by`: which results belong together; these come group by group."""
    next: str | None = None
    """With `cursor`: that of the next page; None: this is the last."""
    debug: Debug | None = None
    took_ms: float | None = None
    partial: bool = False
    """Of a cluster, with `allow_partial`: nobody answered for the shards in `shards_missing`."""
    shards_missing: list[int] = []

    @property
    def ids(self) -> list[str]:
        """The ids of the results, best first."""
        made = maker_of(self)
        return [hit.id for hit in self.results] if made is None else made.ids

    @property
    def scores(self) -> list[float]:
        """The scores of the results, best first."""
        made = maker_of(self)
        return [hit.score for hit in self.results] if made is None else made.scores

    @property
    def distances(self) -> list[float] | None:
        """The scores, where they are distances."""
        made = maker_of(self)
        if made is not None:
            return made.scores if made.ascending and made.ids else None
        return self.scores if any(hit.distance is not None for hit in self.results) else None

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Hit]:  # type: ignore[override]  # an answer iterates over its hits, not over its fields
        return iter(self.results)


class AnswerBatch(Lazy, _Model):
    """One Answer per query, in the order of the queries; a sequence of them.

    `ids` and `scores` of all queries at once are the fastest way to what was found: hits are made when they are looked at.
    """

    answers: list[Answer]
    took_ms: float | None = None
    partial: bool = False
    """As of `Answer`, of any of them."""
    shards_missing: list[int] = []

    @property
    def ids(self) -> list[list[str]]:
        """Of each query the ids of its results, best first."""
        made = maker_of(self)
        return [answer.ids for answer in self.answers] if made is None else made.ids

    @property
    def scores(self) -> list[list[float]]:
        """Of each query the scores of its results, best first."""
        made = maker_of(self)
        return [answer.scores for answer in self.answers] if made is None else made.scores

    def __len__(self) -> int:
        made = maker_of(self)
        return len(self.answers if made is None else made)

    def __getitem__(self, index: int) -> Answer:
        return self.answers[index]

    def __iter__(self) -> Iterator[Answer]:  # type: ignore[override]  # a batch iterates over its answers, not over its fields
        return iter(self.answers)


class SkippedItem(_Model):
    """An item of an add that was left out: where it stands, and why."""

    pointer: str
    code: str
    detail: str

    @property
    def position(self) -> int:
        """Its place in the add."""
        return int(self.pointer.split("/")[2])

    def shifted(self, offset: int) -> SkippedItem:
        """The same, its place counted from `offset` items further back."""
        parts = self.pointer.split("/")
        parts[2] = str(self.position + offset)
        return self.model_copy(update={"pointer": "/".join(parts)})


class AddResult(_Model):
    """What an add did: `indexed` new items, `updated` replaced ones, `unchanged` ones stored alike before; `count` items now.

    `skipped`: bad items that were left out, where that was asked for; `problems`: what was wrong with the first hundred.
    """

    indexed: int
    updated: int
    unchanged: int = 0
    count: int | None
    skipped: int = 0
    problems: list[SkippedItem] = []
    took_ms: float | None = None
    token: str | None = None
    """Of a cluster: a read `after` it knows this write."""
    replayed: bool = False
    """The add had been done before, under the same idempotency key: this is what it did then."""

    def shifted(self, offset: int) -> AddResult:
        """The same, as a part of an add that begins `offset` items later."""
        if not offset or not self.problems:
            return self
        return self.model_copy(update={"problems": [problem.shifted(offset) for problem in self.problems]})


class PayloadResult(_Model):
    """What a write of payloads did: `updated` items, `unchanged` ones whose payload was the same; `count` items there are."""

    updated: int
    unchanged: int
    count: int | None
    token: str | None = None
    """As of `AddResult`."""


class Holds(_Model):
    """What a collection may hold at most, None: as much as there is room for; and the items that it has."""

    items: int | None = None
    bytes: int | None = None
    count: int | None
    token: str | None = None
    """As of `AddResult`, of a change."""


class CompactReport(_Model):
    """What a compaction did to the files: bytes on disk before and after it; `freed_bytes` below 0: they grew."""

    before_bytes: int
    after_bytes: int
    freed_bytes: int


class DeleteResult(_Model):
    """What a delete did: `deleted` items are gone, `count` are left; `atomic` is false where a filter took several transactions."""

    deleted: int
    count: int | None
    atomic: bool = True
    token: str | None = None
    """As of `AddResult`."""


class Item(_Model):
    """A stored item; `payload` and `vector` as far as they were asked for and are there.

    The numbers of a vector are float32, written with as few digits as tell them apart: make them float32 to compare.
    """

    id: str
    payload: dict[str, Any] | None = None
    vector: list[float] | Sparse | None = None
    vectors: dict[str, list[float] | Sparse] | None = None
    """By field, in the place of `vector`, in a collection with several."""
    string: str | None = None
    series: list[float] | list[list[float]] | None = None
    points: list[list[float]] | None = None
    """One of these in the place of `vector`, where items are such objects; `object` is the one that is there."""
    version: int | None = None
    """Changes with vector and payload; for `if_versions` of a write."""

    @property
    def object(self) -> Any:
        """The string, series or points, where items are objects and `include` named "vector"."""
        return _object_of(self)


def _object_of(item: Hit | Item) -> Any:
    """The object of an item, whatever it is; None if there is none."""
    return next((one for one in (item.string, item.series, item.points) if one is not None), None)


class GetResult(_Model):
    """The items that are there, and the ids that are `missing`."""

    items: list[Item]
    missing: list[str] = []
    partial: bool = False
    """As of `Answer`: what those shards hold is told neither as there nor as missing."""
    shards_missing: list[int] = []

    def find(self, id: str) -> Item | None:
        """The item of this id, or None."""
        return next((item for item in self.items if item.id == id), None)


class Page(_Model):
    """One page of a scroll, in id order; `next` goes into the `after` of the next page, and is None on the last."""

    items: list[Item]
    next: str | None = None
    partial: bool = False
    """As of `Answer`."""
    shards_missing: list[int] = []


class FacetValue(_Model):
    """A value of a field, and how many items have it."""

    value: Any = None
    count: int


class Facets(_Model):
    """The values of a field, the most frequent first: `distinct` are there in all, among `items` items."""

    field: str
    values: list[FacetValue]
    distinct: int
    items: int
    partial: bool = False
    """As of `Answer`."""
    shards_missing: list[int] = []


class Counted(_Model):
    """How many items there are, of a cluster perhaps only in some shards: see `Answer`."""

    count: int
    partial: bool = False
    shards_missing: list[int] = []


class SimilarityHistogram(_Model):
    """How near rows are to each other, by the probability that one hash of a pair agrees: shares of all pairs, and of the k nearest."""

    edges: list[float]
    pairs: list[float]
    neighbours: list[float]


class BandsForecast(_Model):
    """What bands would do. recall_error: the standard error of recall. uncertified: the share of queries that mode auto has to scan for."""

    rows: int
    bands: int
    recall: float
    recall_error: float
    uncertified: float
    postings: float
    verified: float
    bytes_per_row: float
    microseconds: float


class WalkForecast(_Model):
    """What walks of one width find and take."""

    width: int
    recall: float
    microseconds: float


class CurrentSetting(_Model):
    """The bands that are there, predicted and measured with the same rows."""

    rows: int
    bands: int
    runs: int
    recall: float
    measured_recall: float
    microseconds: float
    measured_microseconds: float


class Suggestion(_Model):
    """A setting for `rebuild`."""

    rows: int
    bands: int
    why: str


class Tuning(_Model):
    """What `tune` says of a collection; `walks` is empty where no links were built."""

    sample: int
    k: int
    target_recall: float
    similarity_histogram: SimilarityHistogram
    bands: list[BandsForecast]
    walks: list[WalkForecast]
    current: CurrentSetting
    suggested: Suggestion


class ModeRecall(_Model):
    """What one mode found: mean recall, that of the query that fared worst (None: nothing to measure), certificates' mean and share."""

    mode: str
    recall: float | None
    lowest: float | None
    certificate: float | None
    certified: float
    milliseconds: float
    """Median of a query that is asked alone, without HTTP."""


class RecallReport(_Model):
    """Recall of each mode, measured against an exact scan; `sampled`: with stored rows, each left out of its own answers."""

    queries: int
    k: int
    target_recall: float
    sampled: bool
    modes: list[ModeRecall]


class Rebuilt(_Model):
    """How rows lie after a rebuild: hashes a band and bands of the largest run, None if there are no rows."""

    rows: int | None
    bands: int | None
    count: int
    seconds: float


class CollectionInfo(_Model):
    """A collection: its configuration (`feature_names`: those that were declared), its size, and in `stats` how its index is built.

    `sampler`, `bands` and `rows` are None when Kinbin chooses them by itself, run by run. Where items have several vectors, `fields` has
    these numbers of each, and `kernel` and `parameters` are None as well. `cluster`: of a cluster its `shards`, and `replicas` of each.
    """

    name: str
    items: str = "vectors"
    """What the items are: "vectors", "strings", "series", "points" or "images"."""
    kernel: str | None = None
    parameters: dict[str, float | str | list[float]] | None = {}
    dim: int | None = None
    sampler: str | None = None
    bands: int | None = None
    rows: int | None = None
    feature_names: dict[int, str] | None = None
    fields: dict[str, dict[str, Any]] | None = None
    cluster: dict[str, int] | None = None
    count: int
    stats: dict[str, Any] = {}


class Snapshot(_Model):
    """A snapshot that a service keeps: the `id` is among those of its collection, `sha256` that of the file."""

    id: str
    collection: str
    created: str
    items: int
    bytes: int
    sha256: str
    grown_bytes: int = 0
    problem: str = ""
    """What is wrong with its file, as far as its size and its beginning show."""


class SnapshotReport(_Model):
    """What reading all of a snapshot found."""

    ok: bool
    items: int
    problems: list[str] = []


class Limit(_Model):
    """One limit of the service: its value in `unit`, and why it is there."""

    name: str
    value: int | float
    unit: str = ""
    reason: str = ""


class Health(_Model):
    """The state of the worker that answered: "starting", "ready" or "stopping", its version, and its background work: "ok" or "failing"."""

    status: str
    version: str
    background: str = ""
