"""The options of a query, described and judged once: fields, defaults and bounds that every other way in takes from here.

The service's schemas and the command line are made from `OPTIONS`; the client, which stands alone, is compared with it by a test.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, TypedDict, Unpack

from kinbin.errors import InvalidInput, suggestion
from kinbin.limits import LIMITS
from kinbin.parameters import INCLUDE, MODES, at_most, included, is_number, one_of, whole

__all__ = ["OPTIONS", "Asked", "Option", "QueryOptions", "check_cancel", "options_of"]


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
        metadata={"text": "what to return of each item", "says": f"lists some of {', '.join(INCLUDE)}", "known": INCLUDE},
    )
    max_distance: float | None = field(
        default=None,
        metadata={
            "text": "leave out neighbours that are farther; for kernels that print distances, in the place of min_score",
            "says": "is a finite number from 0 on, or null",
            "least": 0,
        },
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
