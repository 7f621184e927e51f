"""The options of a query: names, defaults and bounds, the same as the library's (a test compares them, as this imports nothing of it)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, TypedDict

from kinbin_client.errors import InvalidArgument

__all__ = [
    "AllOptions",
    "Asked",
    "Filter",
    "Include",
    "Query",
    "QueryMode",
    "QueryOptions",
    "listed",
    "names",
    "options_of",
    "options_of_more",
]

Filter: TypeAlias = Mapping[str, Any]
"""{"field": value} or {"field": {"$gte": 3}}, with $eq $ne $gt $gte $lt $lte $in $nin $exists, $and, $or and $not."""

Include: TypeAlias = list[str] | tuple[str, ...]
"""What comes with items: "payload", "vector", fields of payloads, as "payload.year"; of `get` and `scroll` also "version"."""

QueryMode: TypeAlias = Literal["auto", "bands", "links", "exact"]
_MODES: tuple[QueryMode, ...] = ("auto", "bands", "links", "exact")
_CONTENTS: Include = ("vector", "payload")
_INCLUDED = "vector, payload, payload.FIELD"
_GROUPING = 'is an object as {"field": "shot", "groups": 5, "size": 2}, of one query, without an offset and without a cursor'


class Asked(TypedDict, total=False):
    """The options that queries take by their names only. See `QueryOptions`, which has each of them."""

    min_score: float | None
    filter: Filter | None
    mode: QueryMode
    certify: bool
    include: Include
    max_distance: float | None
    exclude: Sequence[str | int]
    include_self: bool
    offset: int
    cursor: str | None
    group_by: Mapping[str, Any] | None
    debug: bool
    after: str | None
    allow_partial: bool


class AllOptions(Asked, total=False):
    """All options by their names."""

    k: int
    target_recall: float


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What is asked for besides the vector: the options of `query`, `query_id` and `query_batch`.

    `k`: how many neighbours. `target_recall`: the recall that is wanted. `min_score`: leave out what scores less;
    `max_distance`: what is farther, where the kernel prints distances. `filter`: only items whose payload fits. `mode`: "auto",
    or "bands", "links" (a walk over the neighbour graph, of calibrated recall but without a bound) or "exact". `certify`: ask
    the bands for a bound where a walk answers. `include`: what comes with each hit besides its id and score: "payload", "vector".
    `exclude`: ids that are not answered. `include_self`: a query by id answers the item itself, too. `offset`: leave out so many
    of the nearest. `cursor`: pages of one answer; empty for the first, then `next` of the page before. `group_by`: the nearest items
    of each value of a payload field, as {"field": "shot", "groups": 5, "size": 2}. `debug`: what was done, in `Answer.debug`.
    Of a cluster: `after`: the `token` of a write that the answer has to know. `allow_partial`: what the other shards answer where
    nobody answers for some (`Answer.partial`); both are of a request, not of one of many queries.

    Numbers out of their bounds and what has no JSON form raise InvalidArgument; everything else the service judges.

    Usage: `options = QueryOptions(k=5, include=("payload",)); client.query([0.1, 0, 2], options=options)`
    """

    k: int = field(default=10, metadata={"says": "is a whole number from 1 on", "least": 1, "limit": "k"})
    target_recall: float = field(default=0.9, metadata={"says": "is a number above 0 and at most 1", "above": 0, "most": 1})
    min_score: float | None = field(default=None, metadata={"says": "is a finite number, or null"})
    filter: Filter | None = field(default=None, metadata={"says": 'is an object with at least one field, as {"year": {"$gte": 2020}}'})
    mode: QueryMode = field(default="auto", metadata={"says": f"is one of {', '.join(_MODES)}", "known": _MODES})
    certify: bool = field(default=False, metadata={"says": "is true or false"})
    include: Include = field(default=(), metadata={"says": f"lists some of {_INCLUDED}", "known": _CONTENTS})
    max_distance: float | None = field(default=None, metadata={"says": "is a finite number from 0 on, or null", "least": 0})
    exclude: Sequence[str | int] = field(
        default=(), metadata={"says": "is a list of ids, each a string that is not empty or a 64-bit integer"}
    )
    include_self: bool = field(default=False, metadata={"says": "is true or false"})
    offset: int = field(default=0, metadata={"says": "is a whole number from 0 on", "least": 0, "limit": "offset"})
    cursor: str | None = field(
        default=None, metadata={"says": "is a string, or null; of one query, without an offset and without group_by"}
    )
    group_by: Mapping[str, Any] | None = field(default=None, metadata={"says": _GROUPING})
    debug: bool = field(default=False, metadata={"says": "is true or false"})
    after: str | None = field(default=None, metadata={"says": "is the token of a write, or null"})
    allow_partial: bool = field(default=False, metadata={"says": "is true or false"})

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Real) and not isinstance(value, bool) and not _within(value, **one.metadata):
                raise _refused(one.name)
        for name in ("certify", "include_self", "debug", "allow_partial"):
            if not isinstance(getattr(self, name), bool):
                raise _refused(name)
        if not (self.after is None or (isinstance(self.after, str) and self.after.isascii() and self.after.isprintable())):
            raise _refused("after")
        if type(self.exclude) is not tuple or self.exclude:
            object.__setattr__(self, "exclude", _ids("exclude", self.exclude))
        object.__setattr__(self, "include", tuple(names(self.include)))


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One of many queries, with options of its own: a vector or object `x`, the id of a stored item, or examples.

    Just one of x, id and positive is given; negative goes with positive. Examples: see `Collection.query_examples`.

    Usage: `client.query_each([Query(id="a", options=QueryOptions(k=3)), Query([0.1, 0, 2])])`
    """

    x: Any = None
    id: str | int | None = None
    positive: Sequence[Any] | None = None
    negative: Sequence[Any] = ()
    options: QueryOptions = field(default_factory=QueryOptions)


_FIELDS = {one.name: one for one in fields(QueryOptions)}


@lru_cache(maxsize=64)
def _of_two(k: int, target_recall: float) -> QueryOptions:
    """Options that came before: judging them again takes longer than writing the query down."""
    return QueryOptions(k, target_recall)


def options_of(options: object, k: int, target_recall: float, asked: Asked) -> QueryOptions:
    """The options that came as one, or else those that came one by one; InvalidArgument if both came, TypeError if there is no such."""
    if options is None and not asked and type(k) is int and type(target_recall) is float:
        return _of_two(k, target_recall)
    for name in asked:
        if name not in _FIELDS:
            raise TypeError(f"a query has no option {name!r}; there are {', '.join(_FIELDS)}")
    single = QueryOptions(k, target_recall, **asked)
    if options is None:
        return single
    if not isinstance(options, QueryOptions):
        raise InvalidArgument(f"options are QueryOptions or None, not {type(options).__name__}", code="bad_parameter")
    if single != QueryOptions():
        given = ", ".join(name for name, one in _FIELDS.items() if getattr(single, name) != one.default)
        raise InvalidArgument(f"options came beside {given}; put all of them into options", code="bad_parameter")
    return options


def options_of_more(options: object, asked: AllOptions) -> QueryOptions:
    """The options that came as one, or those that came by their names. See `options_of`."""
    others = {name: value for name, value in asked.items() if name not in ("k", "target_recall")}
    return options_of(options, asked.get("k", 10), asked.get("target_recall", 0.9), others)  # type: ignore[arg-type]  # names are looked at


def listed(given: Any) -> Any:
    """What may be read once, as a list, so that it can be sent again; what is no list of things stays as it is, and is refused later."""
    return given if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) else list(given)


def names(include: Include, *, stored: bool = False) -> list[str]:
    """What is to be included, as a list; one string is one name. stored: with stored items, which have versions too."""
    if isinstance(include, str):
        return [include]
    if not isinstance(include, Iterable) or hasattr(include, "tocsr") or getattr(include, "ndim", 1) == 0:
        says = str(_FIELDS["include"].metadata["says"])
        says = says.replace("payload,", "payload, version,") if stored else says
        raise InvalidArgument(f"include {says}, not {type(include).__name__}", code="bad_parameter")
    return list(include)


def _ids(name: str, value: Any) -> tuple[str, ...]:
    """Ids as a tuple, each once; InvalidArgument for what is no list of them."""
    listed = value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, Sequence | Set) else None
    named = [id_as_text(one) for one in listed] if isinstance(listed, list) and not isinstance(value, str | bytes) else [""]
    if not all(isinstance(one, str) and one for one in named):
        raise _refused(name)
    return tuple(dict.fromkeys(named))


def id_as_text(identifier: Any) -> Any:
    """An integer of 64 bits as the id that it stands for: its decimal digits. All else stays as it is, and is judged later."""
    if isinstance(identifier, str) or not isinstance(identifier, Integral) or isinstance(identifier, bool):
        return identifier
    number = int(identifier)
    return str(number) if -(2**63) <= number < 2**64 else identifier


def _refused(name: str) -> InvalidArgument:
    return InvalidArgument(f"{name} {_FIELDS[name].metadata['says']}", code="bad_parameter")


def _within(value: Any, *, least: float | None = None, above: float | None = None, most: float | None = None, **_: object) -> bool:
    """Whether a number is finite and within bounds. What a limit says, the service knows."""
    try:
        # NumPy's narrow numbers overflow beside the largest float.
        value = float(value)
    except OverflowError:
        return False
    too_low = (least is not None and value < least) or (above is not None and value <= above)
    return abs(value) <= sys.float_info.max and not too_low and (most is None or value <= most)
