"""Frozen records that the library takes and returns: plain data."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbin.errors import CorruptData, FormatMismatch, KinbinError, Problem
from kinbin.options import QueryOptions
from kinbin.parameters import Value

__all__ = [
    "AddResult",
    "Answer",
    "AnswerBatch",
    "BackupReport",
    "CheckReport",
    "CollectionConfig",
    "CompactReport",
    "DeleteResult",
    "FacetValue",
    "Facets",
    "FieldsConfig",
    "Group",
    "Hit",
    "Item",
    "Page",
    "PayloadResult",
    "Query",
    "RepairReport",
    "SnapshotInfo",
    "SnapshotReport",
    "Sparse",
    "Tokens",
    "numbered",
]


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A sparse vector: feature ids below 2**63 and their values, in any order."""

    indices: ArrayLike | Sequence[int]
    values: ArrayLike | Sequence[float]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A bag of strings: token → weight, or strings that count as often as they occur (`vectors.tokens` says which feature a token is)."""

    counts: Mapping[str, float] | Collection[str]


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """What a collection was created with; null means chosen by Kinbin, run by run."""

    kernel: str
    dim: int | None
    """Length of the vectors; None: sparse, with unbounded feature ids."""
    sampler: str
    """"gcws" or "dart"."""
    bands: int | None
    rows: int | None
    parameters: dict[str, Value] = field(default_factory=dict)
    """Of the kernel, all of them by name; empty if it has none."""
    items: str = "vectors"
    """What the items are: a name in `kinbin.KINDS`."""
    feature_names: dict[int, str] = field(default_factory=dict)
    """Names of features that were declared, ascending by feature; empty if none were."""


@dataclass(frozen=True, slots=True)
class FieldsConfig:
    """What a collection with several fields was created with."""

    fields: dict[str, CollectionConfig]
    """By name, in the order they were given."""


def numbered(beginning: str, count: int) -> list[str]:
    """Ids that were made by one call, in the order of their items."""
    return [f"{beginning}-{row:06d}" for row in range(count)]


@dataclass(frozen=True, slots=True)
class AddResult:
    """What an add did."""

    indexed: int
    """Items that are new."""
    updated: int
    """Items whose vector or payload was replaced."""
    unchanged: int
    """Items that were there with the same content."""
    count: int
    """Items in the collection afterwards."""
    skipped: int = 0
    """Bad items that were left out, where that was asked for."""
    problems: tuple[Problem, ...] = ()
    """Of the first hundred of these, by position."""
    replayed: bool = False
    """Whether the same add was done before under its idempotency key: this is its answer, and nothing was written."""

    next_row: int = field(default=0, repr=False, compare=False)
    """A number beyond those of all rows that there ever were: see `Together.add`."""

    made: tuple[str, int] | None = None
    """Where ids were made: what they begin with, and how many items came; see `ids`."""

    @property
    def ids(self) -> list[str] | None:
        """The ids that were made, one for each item that came; None if ids came with the items."""
        return None if self.made is None else numbered(*self.made)

    def plus(self, later: AddResult) -> AddResult:
        """What this add and a later one did together."""
        return AddResult(self.indexed + later.indexed, self.updated + later.updated, self.unchanged + later.unchanged, later.count)


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What a delete did."""

    deleted: int
    count: int
    atomic: bool = True
    """Whether all of it was one transaction; a delete of many by a filter is none, and decides in each anew."""


@dataclass(frozen=True, slots=True)
class PayloadResult:
    """What a write of payloads did."""

    updated: int
    unchanged: int
    """Items whose payload was the same before."""
    count: int
    """Items in the collection."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A stored item; vector and payload are None unless they were asked for."""

    id: str
    vector: NDArray[np.float32] | Sparse | None = None
    payload: dict[str, Any] | None = None
    vectors: dict[str, NDArray[np.float32] | Sparse] | None = None
    """By field, in a collection with several; `vector` is None then."""
    object: Any = None
    """Where items are objects, the string, series or points; `vector` is None then."""
    version: int | None = None
    """Changes whenever the vector or the payload does; see `if_versions` of the writes."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some items in the order of their ids; `next` continues after them, None: there are no more."""

    items: list[Item]
    next: str | None


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a field, and how many items have it."""

    value: Any
    """A string, a number, a boolean or null."""
    count: int


@dataclass(frozen=True, slots=True)
class Facets:
    """The values of a field, the most frequent first."""

    field: str
    values: list[FacetValue]
    """As many as were asked for at most."""
    distinct: int
    """How many different values there are."""
    items: int
    """Items that were looked at: all, or those that the filter lets through."""


@dataclass(frozen=True, slots=True, eq=False)
class Hit:
    """One neighbour: `score` is what the kernel prints, exactly; vector and payload are None unless `include` named them."""

    id: str
    score: float
    payload: dict[str, Any] | None = None
    vector: NDArray[np.float32] | Sparse | None = None
    ascending: bool = False
    """Whether the score is a distance: the smaller the nearer."""
    vectors: dict[str, NDArray[np.float32] | Sparse] | None = None
    """By field, in a collection with several."""
    parts: dict[str, float] | None = None
    """By field that was asked for, what its kernel prints, exactly: what `score` is made of."""
    object: Any = None
    """Where items are objects, what was stored; None unless `include` named "vector"."""

    @property
    def distance(self) -> float | None:
        """The score, where it is a distance."""
        return self.score if self.ascending else None


@dataclass(frozen=True, slots=True)
class Group:
    """The hits of one value of the field that an answer is grouped by."""

    value: str | int | float | bool
    ids: list[str]
    """Best first."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One of many queries, with options of its own: a vector or object `x`, the id of a stored item, or examples.

    Just one of x, id and positive is given; negative goes with positive. Examples: see `Collection.query_examples`.
    """

    x: Any = None
    id: str | int | None = None
    positive: Sequence[Any] | None = None
    negative: Sequence[Any] = ()
    options: QueryOptions = field(default_factory=QueryOptions)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to one query, best first: iterate over it for its `Hit`s; `ids` and `scores` are the same as columns.

    `recall_lower_bound`: each true neighbour was found with at least this probability, over the random
    seed (1.0: everything was scanned); None when nothing can be said, and `no_bound` says why.
    """

    ids: list[str]
    scores: NDArray[np.float64]
    """Exact kernel values of `ids`, the nearest first; distances where the kernel prints these (`ascending`)."""
    recall_lower_bound: float | None
    no_bound: str | None
    verified: int
    """Rows whose exact score was computed."""
    candidates: int
    """Rows that shared a band with the query, whose code a walk compared, or that a scan passed."""
    truncated: list[str]
    """Names of the limits that cut the search short."""
    mode: str
    """"bands", "links", "exact", or of objects "pool": the path that gave the answer."""
    steps: tuple[str, ...] = ()
    """What was done for it, in order, and why: "walk linked rows", "scan all rows: far"."""
    out_of_distribution: bool = False
    """Whether a walk found the query unlike the stored rows that its recall was calibrated on: less similar to its neighbours than 99
    in 100 of them, or of another norm. Auto completes the answer by bands or a scan."""
    items: list[Item] | None = None
    """The items of `ids`, with what `include` asked for, from the snapshot that was searched; None: it asked for nothing."""
    ascending: bool = False
    """Whether scores are distances: the smaller the nearer."""
    parts: dict[str, NDArray[np.float64]] | None = None
    """By field that was asked for, its exact scores of `ids`; None where there is but one vector."""
    groups: list[Group] | None = None
    """With `group_by`, which of `ids` belong together, the group of the nearest item first; `ids` come group by group then."""
    next: str | None = None
    """With `cursor`, that of the next page; None: this is the last."""
    times: tuple[tuple[str, float], ...] | None = None
    """With `debug`, what was done and how many milliseconds it took, in order."""
    row_numbers: NDArray[np.uint64] | None = field(default=None, repr=False)
    """Of the rows of `ids`: what has the same score is in their order, as `Collection.numbers_of` tells them. None: not kept, as of
    groups, of examples, of batches and of several fields."""

    @property
    def distances(self) -> NDArray[np.float64] | None:
        """The scores, where they are distances."""
        return self.scores if self.ascending else None

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        if self.parts is not None:
            return self._hits_of_fields(self.parts)
        if self.items is None:
            pairs = zip(self.ids, self.scores.tolist(), strict=True)
            return (Hit(identifier, score, ascending=self.ascending) for identifier, score in pairs)
        return (
            Hit(item.id, score, item.payload, item.vector, self.ascending, object=item.object)
            for item, score in zip(self.items, self.scores.tolist(), strict=True)
        )

    def _hits_of_fields(self, parts: Mapping[str, NDArray[np.float64]]) -> Iterator[Hit]:
        items = [Item(identifier) for identifier in self.ids] if self.items is None else self.items
        for place, (item, score) in enumerate(zip(items, self.scores.tolist(), strict=True)):
            told = {name: float(scores[place]) for name, scores in parts.items()}
            yield Hit(item.id, score, item.payload, vectors=item.vectors, parts=told)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerBatch:
    """The answers to m queries as arrays; `batch[i]` and iteration give `Answer`s."""

    ids: NDArray[np.object_]
    """(m, k) strings, padded with None."""
    scores: NDArray[np.float64]
    """(m, k), padded with nan."""
    recall_lower_bounds: NDArray[np.float64]
    """(m,), nan where there is none."""
    no_bounds: list[str | None]
    verified: NDArray[np.int64]
    candidates: NDArray[np.int64]
    truncated: list[list[str]]
    modes: list[str]
    """(m,) the path that gave each answer."""
    steps: list[tuple[str, ...]]
    """(m,) what was done for each, in order."""
    out_of_distribution: NDArray[np.bool_]
    """(m,)"""
    items: dict[str, Item] | None = None
    """Every item that is in an answer, by id, with what `include` asked for, from the snapshot that was searched; None: it asked
    for nothing."""
    ascending: bool = False
    """Whether scores are distances: the smaller the nearer."""
    parts: dict[str, NDArray[np.float64]] | None = None
    """By field that was asked for, (m, k) its exact scores, padded with nan; None where there is but one vector."""
    shapes: list[tuple[list[Group] | None, str | None, tuple[tuple[str, float], ...] | None]] | None = None
    """(m,) `groups`, `next` and `times` of each answer; None if none of them was asked for."""

    @property
    def distances(self) -> NDArray[np.float64] | None:
        """(m, k) the scores, where they are distances."""
        return self.scores if self.ascending else None

    @property
    def mode(self) -> str:
        """The path of all answers, or "mixed"."""
        return self.modes[0] if len(set(self.modes)) == 1 else "mixed"

    def __len__(self) -> int:
        return len(self.modes)

    def __getitem__(self, i: int) -> Answer:
        found = [identifier for identifier in self.ids[i] if identifier is not None]
        bound = float(self.recall_lower_bounds[i])
        groups, following, times = (None, None, None) if self.shapes is None else self.shapes[i]
        return Answer(
            ids=found,
            scores=self.scores[i, : len(found)],
            recall_lower_bound=None if np.isnan(bound) else bound,
            no_bound=self.no_bounds[i],
            verified=int(self.verified[i]),
            candidates=int(self.candidates[i]),
            truncated=self.truncated[i],
            mode=self.modes[i],
            steps=self.steps[i],
            out_of_distribution=bool(self.out_of_distribution[i]),
            items=None if self.items is None else [self.items[identifier] for identifier in found],
            ascending=self.ascending,
            parts=None if self.parts is None else {name: scores[i, : len(found)] for name, scores in self.parts.items()},
            groups=groups,
            next=following,
            times=times,
        )

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `check` found; `problems` are sentences."""

    ok: bool
    items: int
    rows: int
    runs: int
    problems: list[str] = field(default_factory=list)
    checked: bool = True
    """False: the files could not be read, which says nothing of what is in them: `problems` say why."""
    advice: str = ""
    """What to do about the problems, where `Database.repair` is not the first thing."""

    def with_problems(self, more: list[str]) -> CheckReport:
        """The same with more problems."""
        return replace(self, ok=self.ok and not more, problems=[*self.problems, *more])

    @classmethod
    def of(cls, error: Exception) -> CheckReport:
        """What an error tells that ended a check."""
        if isinstance(error, CorruptData):
            _, _, field_name = error.collection.partition("/")
            where = f"field {field_name}: " if field_name else ""
            return cls(False, 0, 0, 0, [where + error.what], advice=error.own_advice)
        if isinstance(error, KinbinError):
            return cls(False, 0, 0, 0, [str(error)], checked=isinstance(error, FormatMismatch))
        return cls(False, 0, 0, 0, [f"reading it failed: {type(error).__name__}: {error}"])


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did to the files."""

    before_bytes: int
    """On disk."""
    after_bytes: int

    @property
    def freed_bytes(self) -> int:
        """Given back to the file system; below 0: the files grew."""
        return self.before_bytes - self.after_bytes


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A snapshot: one file that holds a collection as it was at one moment."""

    collection: str
    """The name of the collection that it was made of."""
    id: str | None
    """Among the snapshots of its collection that the database keeps, ascending with time; None: a file that somebody keeps elsewhere."""
    created: str
    """When, in UTC (ISO 8601)."""
    items: int
    bytes: int
    sha256: str
    """Of the whole file, as `sha256sum` prints it."""
    grown_bytes: int = 0
    """What the collection's files grew by while it was made: what others wrote meanwhile found no free pages."""
    problem: str = ""
    """What is wrong with the file, as far as its size and its beginning show; `Snapshots.verify` reads all of it."""


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup of a database holds."""

    collections: tuple[SnapshotInfo, ...]
    """In the order of their names."""
    aliases: dict[str, str]
    """Collections by alias."""


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """What `Snapshots.verify` found."""

    ok: bool
    items: int
    """Items that were proved."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What `Database.repair` saved, and what it did not."""

    name: str
    """Of the new collection."""
    items: int
    """Items that are in it."""
    lost: int
    """Items that are known and whose vectors are lost."""
    lost_ids: list[str]
    """Their ids, the first thousand."""
    bare: int
    """Items that are in it without a payload, because the record that held it, if there was one, is lost."""
    bare_ids: list[str]
    """Their ids, the first thousand."""
    problems: list[str] = field(default_factory=list)
    """What else was found, as sentences."""
    stored: int | None = None
    """Items that the last state record counts; None: it is lost, and so is how many there were."""
