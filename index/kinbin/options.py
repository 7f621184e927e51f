"""The options of a query, described and judged once: fields, defaults and bounds that every other way in takes from here.

The service's schemas and the command line are made from `OPTIONS`; the client, which stands alone, is compared with it by a test.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypedDict, Unpack

from kinbin.errors import InvalidInput, suggestion
from kinbin.limits import LIMITS
from kinbin.parameters import INCLUDE, INCLUDED, MODES, at_most, included, is_number, listed_ids, one_of, whole

__all__ = ["OPTIONS", "AllOptions", "Asked", "Option", "QueryOptions", "check_cancel", "deeper", "options_of", "options_of_more"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a query: its default, and what it may be, for schemas, help texts and messages."""

    default: Any
    text: str
    """What it does, in a line."""
    says: str
    """What it has to be, as refusals say it."""
    least: float | None = None
    above: float | None = None
    """As `least`, but not this value itself."""
    most: float | None = None
    limit: str | None = None
    """The name in `kinbin.LIMITS` of a limit that is its largest value."""
    known: tuple[str, ...] = ()
    """The words that it may be, or list."""

    @property
    def largest(self) -> float | None:
        """The largest value: of the option itself, or of its limit."""
        return self.most if self.limit is None else LIMITS[self.limit].value


class Asked(TypedDict, total=False):
    """The options that queries take by their names only. See `QueryOptions`, which has each of them."""

    min_score: float | None
    filter: Any
    mode: str
    certify: bool
    include: Iterable[str]
    max_distance: float | None
    exclude: Iterable[str | int]
    include_self: bool
    offset: int
    cursor: str | None
    group_by: Mapping[str, Any] | None
    debug: bool


class AllOptions(Asked, total=False):
    """All options by their names."""

    k: int
    target_recall: float


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """What is asked for besides the vector: the options of `query`, `query_id` and `query_batch`, checked when it is made.

    target_recall: the probability with which each true neighbour is to be found; the one knob. min_score: answers below it are
    not wanted (fewer than k may come); max_distance: the same where the kernel prints distances. filter: on payloads
    (`query.filters`; it is judged by the query, not here). mode: "bands" answers from the band index whatever it certifies;
    "links" walks the neighbour graph, and searches rows that are not linked by their bands; "exact" scans; "auto" takes what is
    expected to be fastest, and scans what the bands cannot certify. certify: a walk gives no bound on recall; ask the bands for
    one (it costs what a search by bands costs; in auto mode it is then kept, by a scan if need be). include: what of the items
    comes with the answer, from the snapshot that is searched; kept as a tuple.

    exclude: ids that are not answered; those that are not stored are passed over. include_self: a query by id answers the item
    itself, too; of no effect on other queries. offset: so many of the nearest are left out. Each excluded item, and each that an offset
    leaves out, costs what a larger k does. cursor: pages of one answer, in one state of the collection (`query.cursors`). group_by:
    k groups of m hits (`query.grouping`). debug: `Answer.times`.

    Raises:
        InvalidInput: codes "bad_parameter", "over_limit"; `field` names the option.

    Cost: 1 µs.
    """

    k: int = field(default=10, metadata={"text": "how many neighbours", "says": "is a whole number from 1 on", "least": 1, "limit": "k"})
    target_recall: float = field(
        default=0.9,
        metadata={
            "text": "the recall that is wanted: bands are verified until so much is proved, walks are calibrated for it",
            "says": "is a number above 0 and at most 1",
            "above": 0,
            "most": 1,
        },
    )
    min_score: float | None = field(
        default=None,
        metadata={
            "text": "leave out neighbours with a lower score; most kernels' scores go from 0 to 1",
            "says": "is a finite number, or null",
        },
    )
    filter: Any = field(
        default=None,
        metadata={"text": "only items whose payload fits", "says": 'is an object with at least one field, as {"year": {"$gte": 2020}}'},
    )
    mode: str = field(
        default="auto",
        metadata={
            "text": "auto takes what is expected to be fastest: a walk over links where there are any, bands, or an exact scan",
            "says": f"is one of {', '.join(MODES)}",
            "known": MODES,
        },
    )
    certify: bool = field(
        default=False,
        metadata={"text": "ask the bands for a bound on the recall of a walk, which has none by itself", "says": "is true or false"},
    )
    include: Iterable[str] = field(
        default=(),
        metadata={"text": "what to return of each item", "says": f"lists some of {INCLUDED}", "known": INCLUDE},
    )
    max_distance: float | None = field(
        default=None,
        metadata={
            "text": "leave out neighbours that are farther; for kernels that print distances, in the place of min_score",
            "says": "is a finite number from 0 on, or null",
            "least": 0,
        },
    )
    exclude: Iterable[str | int] = field(
        default=(),
        metadata={
            "text": "ids of items that are not answered",
            "says": "is a list of ids, each a string that is not empty or a 64-bit integer",
        },
    )
    include_self: bool = field(
        default=False,
        metadata={"text": "with a query by id: answer the item itself, too", "says": "is true or false"},
    )
    offset: int = field(
        default=0,
        metadata={
            "text": "leave out so many of the nearest: the next page of an answer",
            "says": "is a whole number from 0 on",
            "least": 0,
            "limit": "offset",
        },
    )
    cursor: str | None = field(
        default=None,
        metadata={
            "text": "answer page by page: empty for the first page, then the next of the page before",
            "says": "is a string, or null; of one query, without an offset and without group_by",
        },
    )
    group_by: Mapping[str, Any] | None = field(
        default=None,
        metadata={
            "text": "answer the nearest items of each value of a payload field, in the place of the k nearest",
            "says": 'is an object as {"field": "shot", "groups": 5, "size": 2}, of one query, without an offset and without a cursor',
        },
    )
    debug: bool = field(
        default=False,
        metadata={"text": "tell what was done, and how long each step took", "says": "is true or false"},
    )

    def __post_init__(self) -> None:
        k, target = self.k, self.target_recall
        # The kinds that nearly always come are told by their type alone: every query passes here.
        if type(k) is not int or not 1 <= k <= LIMITS["k"].value:
            object.__setattr__(self, "k", whole("k", k))
            at_most("k", self.k, "k")
        if not (type(target) is float or is_number(target)) or not 0.0 < target <= 1.0:
            raise _refused("target_recall")
        if self.min_score is not None and not _is_finite(self.min_score):
            raise _refused("min_score")
        if self.max_distance is not None and not (_is_finite(self.max_distance) and self.max_distance >= 0.0):
            raise _refused("max_distance")
        if type(self.mode) is not str or self.mode not in MODES:
            one_of("mode", self.mode, MODES)
        if self.certify is not True and self.certify is not False:
            raise _refused("certify")
        if type(self.include) is not tuple or self.include:
            object.__setattr__(self, "include", included(self.include))
        if self.is_shaped:
            self._check_shape()

    @property
    def is_shaped(self) -> bool:
        """Whether an answer is more than the k nearest: something is left out of them, or done with them."""
        # What nearly always comes is told by its type alone.
        plain = (
            type(self.exclude) is tuple
            and not self.exclude
            and self.include_self is False
            and type(self.offset) is int
            and self.offset == 0
        )
        return not (plain and self.cursor is None and self.group_by is None and self.debug is False)

    def _check_shape(self) -> None:
        object.__setattr__(self, "exclude", listed_ids("exclude", self.exclude, OPTIONS["exclude"].says))
        at_most("exclude", len(self.exclude), "exclude")  # type: ignore[arg-type]  # it is a tuple now
        if self.include_self is not True and self.include_self is not False:
            raise _refused("include_self")
        offset: object = self.offset
        if not is_number(offset) or not hasattr(offset, "__index__") or offset < 0:  # type: ignore[operator]
            raise _refused("offset")
        object.__setattr__(self, "offset", int(offset))
        at_most("offset", self.offset, "offset")
        if self.cursor is not None and (not isinstance(self.cursor, str) or self.offset or self.group_by is not None):
            raise _refused("cursor")
        if self.group_by is not None:
            object.__setattr__(self, "group_by", self._grouping(self.group_by))
        if self.debug is not True and self.debug is not False:
            raise _refused("debug")

    def _grouping(self, by: object) -> dict[str, Any]:
        if not isinstance(by, Mapping) or not {"field"} <= by.keys() <= {"field", "groups", "size"} or self.offset:
            raise _refused("group_by")
        field_name, groups, size = by["field"], by.get("groups", 10), by.get("size", 1)
        if not isinstance(field_name, str) or not all(field_name.split(".")):
            raise _refused("group_by")
        for name, value in (("groups", groups), ("size", size)):
            if not is_number(value) or not hasattr(value, "__index__") or value < 1:
                raise InvalidInput.of("bad_parameter", f"group_by: {name} is a whole number from 1 on", field="group_by")
        if groups * size > LIMITS["k"].value:
            most = int(LIMITS["k"].value)
            raise InvalidInput.of("over_limit", f"group_by: groups times size is at most {most}", field="group_by", limit="k")
        return {"field": field_name, "groups": int(groups), "size": int(size)}


OPTIONS: dict[str, Option] = {one.name: Option(one.default, **one.metadata) for one in fields(QueryOptions)}
"""Every option of a query, by name."""
_DEFAULTS = QueryOptions()


def _is_finite(value: object) -> bool:
    """Whether this is a number, neither infinite nor NaN."""
    try:
        return is_number(value) and math.isfinite(float(value))  # type: ignore[arg-type]
    except OverflowError:
        # A whole number beyond all floats.
        return False


def _refused(name: str) -> InvalidInput:
    return InvalidInput.of("bad_parameter", f"{name} {OPTIONS[name].says}", field=name)


@lru_cache(maxsize=64, typed=True)
def _known(k: int, target_recall: float, **asked: Unpack[Asked]) -> QueryOptions:
    """Options that came before: to find them takes a fifth of what judging them again does."""
    return QueryOptions(k, target_recall, **asked)


def options_of(options: object, k: int, target_recall: float, asked: Asked) -> QueryOptions:
    """The options of a call: those that came as one, or else those that came one by one. Cost: 0.6 µs if they came before.

    Raises:
        InvalidInput: one is malformed, or both forms came, so that nobody could tell which is meant. TypeError: there is no such option.
    """
    if not asked.keys() <= OPTIONS.keys():
        unknown = next(name for name in asked if name not in OPTIONS)
        raise TypeError(f"a query has no option {unknown!r}{suggestion(unknown, OPTIONS)}")
    if options is not None:
        return _chosen(options, QueryOptions(k, target_recall, **asked))
    if asked.get("filter") is None and type(asked.get("include", ())) is tuple:
        try:
            return _known(k, target_recall, **asked)  # type: ignore[arg-type]  # what has no hash is caught
        except (TypeError, ValueError):
            # Something in it has no hash, or is refused: with its reasons below.
            pass
    return QueryOptions(k, target_recall, **asked)


def options_of_more(options: object, asked: AllOptions) -> QueryOptions:
    """The options that came as one, or those that came by their names. See `options_of`."""
    others = {name: value for name, value in asked.items() if name not in ("k", "target_recall")}
    return options_of(options, asked.get("k", 10), asked.get("target_recall", 0.9), others)  # type: ignore[arg-type]  # names are looked at


def deeper(asked: QueryOptions, k: int) -> QueryOptions:
    """The same options for so many neighbours, which may be more than users may ask for; plain: nothing is left out of them."""
    plain = object.__new__(QueryOptions)
    for name in _NAMES:
        object.__setattr__(plain, name, getattr(asked, name))
    for name, value in _PLAIN:
        object.__setattr__(plain, name, value)
    object.__setattr__(plain, "k", k)
    return plain


_NAMES = tuple(OPTIONS)
_PLAIN = (("exclude", ()), ("include_self", False), ("offset", 0), ("cursor", None), ("group_by", None))


def _chosen(options: object, single: QueryOptions) -> QueryOptions:
    if not isinstance(options, QueryOptions):
        raise InvalidInput.of("bad_parameter", f"options are QueryOptions or None, not {type(options).__name__}", field="options")
    if single != _DEFAULTS:
        given = ", ".join(one.name for one in fields(single) if getattr(single, one.name) != one.default)
        raise InvalidInput.of("bad_parameter", f"options came beside {given}; put all of them into options", field="options")
    return options


def check_cancel(cancel: object) -> None:
    """Refuse what is no event.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if cancel is not None and not isinstance(cancel, threading.Event):
        raise InvalidInput.of("bad_parameter", f"cancel is a threading.Event or None, not {type(cancel).__name__}", field="cancel")
