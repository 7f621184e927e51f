"""The options of a query: names, defaults and bounds, the same as the library's (a test compares them, as this imports nothing of it)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal, TypeAlias, TypedDict

from kinbin_client.errors import InvalidArgument

__all__ = ["Asked", "Filter", "Include", "QueryMode", "QueryOptions", "names", "options_of"]

Filter: TypeAlias = Mapping[str, Any]
"""{"field": value} or {"field": {"$gte": 3}}, with $eq $ne $gt $gte $lt $lte $in $nin $exists, $and, $or and $not."""

Include: TypeAlias = Sequence[Literal["payload", "vector"]]
"""What comes with the items of an answer."""

QueryMode: TypeAlias = Literal["auto", "bands", "links", "exact"]
_MODES: tuple[QueryMode, ...] = ("auto", "bands", "links", "exact")
_CONTENTS: Include = ("vector", "payload")


class Asked(TypedDict, total=False):
    """The options that queries take by their names only. See `QueryOptions`, which has each of them."""

    min_score: float | None
    filter: Filter | None
    mode: QueryMode
    certify: bool
    include: Include
    max_distance: float | None


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What is asked for besides the vector: the options of `query`, `query_id` and `query_batch`.

    `k`: how many neighbours. `target_recall`: the recall that is wanted. `min_score`: leave out what scores less;
    `max_distance`: what is farther, where the kernel prints distances. `filter`: only items whose payload fits. `mode`: "auto",
    or "bands", "links" (a walk over the neighbour graph, of calibrated recall but without a bound) or "exact". `certify`: ask
    the bands for a bound where a walk answers. `include`: what comes with each hit besides its id and score: "payload", "vector".

    Numbers out of their bounds and what has no JSON form raise InvalidArgument; everything else the service judges.

    Usage: `options = QueryOptions(k=5, include=("payload",)); client.query([0.1, 0, 2], options=options)`
    """

    k: int = field(default=10, metadata={"says": "is a whole number from 1 on", "least": 1, "limit": "k"})
    target_recall: float = field(default=0.9, metadata={"says": "is a number above 0 and at most 1", "above": 0, "most": 1})
    min_score: float | None = field(default=None, metadata={"says": "is a finite number, or null"})
    filter: Filter | None = field(default=None, metadata={"says": 'is an object with at least one field, as {"year": {"$gte": 2020}}'})
    mode: QueryMode = field(default="auto", metadata={"says": f"is one of {', '.join(_MODES)}", "known": _MODES})
    certify: bool = field(default=False, metadata={"says": "is true or false"})
    include: Include = field(default=(), metadata={"says": f"lists some of {', '.join(_CONTENTS)}", "known": _CONTENTS})
    max_distance: float | None = field(default=None, metadata={"says": "is a finite number from 0 on, or null", "least": 0})

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Real) and not isinstance(value, bool) and not _within(value, **one.metadata):
                raise _refused(one.name)
        if not isinstance(self.certify, bool):
            raise _refused("certify")
        object.__setattr__(self, "include", tuple(names(self.include)))


_FIELDS = {one.name: one for one in fields(QueryOptions)}


def options_of(options: object, k: int, target_recall: float, asked: Asked) -> QueryOptions:
    """The options that came as one, or else those that came one by one; InvalidArgument if both came, TypeError if there is no such."""
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


def names(include: Include) -> list[str]:
    """What is to be included, as a list; one string is one name."""
    if isinstance(include, str):
        return [include]
    if not isinstance(include, Iterable) or hasattr(include, "tocsr") or getattr(include, "ndim", 1) == 0:
        raise InvalidArgument(f"include {_FIELDS['include'].metadata['says']}, not {type(include).__name__}", code="bad_parameter")
    return list(include)


def _refused(name: str) -> InvalidArgument:
    return InvalidArgument(f"{name} {_FIELDS[name].metadata['says']}", code="bad_parameter")


def _within(value: Any, *, least: float | None = None, above: float | None = None, most: float | None = None, **_: object) -> bool:
    """Whether a number is finite and within bounds. What a limit says, the service knows."""
    too_low = (least is not None and value < least) or (above is not None and value <= above)
    return abs(value) <= sys.float_info.max and not too_low and (most is None or value <= most)
