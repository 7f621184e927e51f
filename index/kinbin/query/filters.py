"""Filters on payloads: checked once, then a tree of conditions that is called with decoded JSON, or asked of payload indexes.

    {"year": 2020}                       the field equals
    {"year": {"$gte": 2018, "$lt": 2021}}    all of them hold
    {"$or": [{"a": 1}, {"b": {"$exists": false}}], "$not": {"tag": "old"}}
    {"seen": {"$gte": {"$date": "2026-01-31T12:00:00+01:00"}}}    strings of RFC 3339, compared as moments
    {"where": {"$geo_radius": {"lat": 52.5, "lon": 13.4, "meters": 2000}}}

Operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $prefix $geo_radius $geo_box on fields, $and $or $not around filters. A dot in a
field's name goes into objects. A list in a payload matches if one of its elements does. Numbers compare with numbers and strings with
strings; any other pair is unequal and unordered. $ne and $nin are true where $eq and $in are not, so also where the field is absent.
A string that is no date of RFC 3339 neither equals a `$date` nor is ordered with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import orjson

from kinbin.errors import LONGEST_WORD, InvalidInput, suggestion
from kinbin.indexes.values import ABSENT, GEO, SCALARS, Instant, instant_of, look_up, same
from kinbin.limits import limit
from kinbin.options import OPTIONS

__all__ = ["All", "Any_", "Condition", "Field", "Filter", "Node", "Not", "Predicate", "compile_filter"]

Predicate = Callable[[bytes], bool]
_Test = Callable[[Any], bool]
_Made = TypeVar("_Made")


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, wanted: Any) -> bool:
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, wanted))
        return (numbers or (isinstance(value, str) and isinstance(wanted, str))) and compare(value, wanted)

    return holds


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": same,
    "$gt": _ordered(lambda a, b: a > b),
    "$gte": _ordered(lambda a, b: a >= b),
    "$lt": _ordered(lambda a, b: a < b),
    "$lte": _ordered(lambda a, b: a <= b),
}
_MOMENTS: dict[str, Callable[[int, int], bool]] = {
    "$eq": lambda a, b: a == b,
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def _against(operator: str, wanted: Any) -> _Test:
    if isinstance(wanted, Instant):
        compare = _MOMENTS[operator]

        def holds(value: Any) -> bool:
            moment = instant_of(value) if isinstance(value, str) else None
            return moment is not None and compare(moment, wanted.microseconds)

        return holds
    test = _TESTS[operator]
    return lambda value: test(value, wanted)


def _among(listed: list[Any]) -> _Test:
    """Whether a value equals one of the listed, in the time of one look-up: true and false are told from 1 and 0, as by `same`."""
    moments = [_against("$eq", one) for one in listed if isinstance(one, Instant)]
    truths = {one for one in listed if isinstance(one, bool)}
    others = {one for one in listed if not isinstance(one, bool | Instant)}

    def holds(value: Any) -> bool:
        # Lists and objects, which cannot be looked up, equal nothing that may be listed.
        listed = isinstance(value, SCALARS) and value in (truths if isinstance(value, bool) else others)
        return listed or any(test(value) for test in moments)

    return holds


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One operator on a field."""

    operator: str
    """Of those that are not negated; "$exists" with its value in `wanted`."""
    wanted: Any
    """What the operator was given: scalars and moments; a list of them for "$in"; checked numbers for the two of places."""
    negated: bool
    test: _Test
    """Of one value, not a list."""

    def __call__(self, value: Any) -> bool:
        """Whether it holds of the value of a field, which may be a list or ABSENT."""
        if self.operator == "$exists":
            return (value is not ABSENT) is self.wanted
        holds = any(self.test(one) for one in value) if isinstance(value, list) else value is not ABSENT and self.test(value)
        return holds is not self.negated


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """All conditions on one field."""

    path: tuple[str, ...]
    conditions: tuple[Condition, ...]

    def __call__(self, payload: Any) -> bool:
        """Whether it holds of a decoded payload."""
        value = look_up(payload, self.path)
        return all(condition(value) for condition in self.conditions)


@dataclass(frozen=True, slots=True, eq=False)
class All:
    """All of them hold."""

    parts: tuple[Node, ...]

    def __call__(self, payload: Any) -> bool:
        """Whether it holds of a decoded payload."""
        return all(part(payload) for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class Any_:  # noqa: N801 - Any is another thing
    """One of them holds at least."""

    parts: tuple[Node, ...]

    def __call__(self, payload: Any) -> bool:
        """Whether it holds of a decoded payload."""
        return any(part(payload) for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """It does not hold."""

    part: Node

    def __call__(self, payload: Any) -> bool:
        """Whether it holds of a decoded payload."""
        return not self.part(payload)


Node = All | Any_ | Not | Field


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A filter that was checked."""

    node: Node
    """Called with decoded payloads."""

    def __call__(self, payload: bytes) -> bool:
        """Whether the JSON bytes of a payload (b"" for none) pass."""
        return self.node(orjson.loads(payload) if payload else {})


_NEGATED = {"$ne": "$eq", "$nin": "$in"}
OPERATORS = (
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$prefix", "$geo_radius", "$geo_box", "$and", "$or", "$not",
)  # fmt: skip


def _bad(detail: str) -> InvalidInput:
    return InvalidInput.of("bad_filter", detail, field="filter")


def _unknown(operator: object) -> InvalidInput:
    if operator in OPERATORS:
        return _bad(
            f'{operator} does not stand here: $and, $or and $not join filters, the others test a field, as {{"year": {{"$gte": 2020}}}}'
        )
    named = f"unknown operator {operator[:LONGEST_WORD]!r}" if isinstance(operator, str) else "unknown operator"
    return _bad(f"{named}; known ones are {', '.join(OPERATORS)}{suggestion(operator, OPERATORS)}")


def compile_filter(data: Any) -> Filter:
    """A filter, checked.

    Raises:
        InvalidInput: codes "bad_filter", its field the place in the filter ("filter/year/$near", as in a JSON pointer), and "over_limit".
    """
    compiler = _Compiler()
    try:
        node = compiler.filter(data, 1)
    except InvalidInput as error:
        raise InvalidInput([replace(one, field=compiler.place()) if one.code == "bad_filter" else one for one in error.problems]) from None
    try:
        orjson.dumps(data)
    except TypeError as error:
        raise _bad(f"a filter is JSON: {error}") from None
    return Filter(node)


class _Compiler:
    """Checks a filter while it is compiled, and counts its terms."""

    def __init__(self) -> None:
        self._terms = 0
        self._at: list[object] = []
        """The names that lead to what is looked at. It stays as it is where something is refused."""

    def place(self) -> str:
        """Where it is, from "filter" on, as a JSON pointer without its "#/" (RFC 6901); long names are cut."""
        escaped = (str(name)[:LONGEST_WORD].replace("~", "~0").replace("/", "~1") for name in self._at)
        # Names may hold lone surrogates, which no answer can.
        return "/".join(("filter", *escaped)).encode(errors="backslashreplace").decode()

    def _below(self, name: object, made: Callable[[], _Made]) -> _Made:
        """What is made of the value under a name."""
        self._at.append(name)
        found = made()
        self._at.pop()
        return found

    def filter(self, data: Any, depth: int) -> Node:
        """All members of one filter object."""
        if not isinstance(data, dict) or not data:
            raise _bad(f"a filter {OPTIONS['filter'].says}")
        if depth > limit("filter_depth"):
            raise InvalidInput.of(
                "over_limit", f"a filter is at most {limit('filter_depth')} levels deep", field="filter", limit="filter_depth"
            )
        parts = [self._below(key, partial(self._member, key, value, depth)) for key, value in data.items()]
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _member(self, key: str, value: Any, depth: int) -> Node:
        if key == "$not":
            return Not(self.filter(value, depth + 1))
        if key in ("$and", "$or"):
            if not isinstance(value, list) or not value:
                raise _bad(f"{key} takes a list of filters")
            parts = tuple(self._below(place, partial(self.filter, one, depth + 1)) for place, one in enumerate(value))
            return All(parts) if key == "$and" else Any_(parts)
        if not isinstance(key, str) or key.startswith("$"):
            raise _unknown(key)
        return self._field(tuple(key.split(".")), value)

    def _field(self, path: tuple[str, ...], condition: Any) -> Field:
        operators = condition if isinstance(condition, dict) else {"$eq": condition}
        if not operators:
            raise _bad("a field's condition is a value or an object of operators, this object is empty")
        if "$date" in operators or not isinstance(condition, dict):
            return Field(path, (self._condition("$eq", condition),))
        given = operators.items()
        return Field(path, tuple(self._below(operator, partial(self._condition, operator, wanted)) for operator, wanted in given))

    def _condition(self, operator: Any, wanted: Any) -> Condition:
        negated = operator in _NEGATED
        name = _NEGATED.get(operator, operator)
        if name == "$exists":
            if not isinstance(wanted, bool):
                raise _bad("$exists takes true or false")
            self._count(1)
            return Condition(name, wanted, False, bool)
        if name in GEO:
            self._count(1)
            place = GEO[name].of(wanted)
            if place is None:
                raise _bad(f"{name} takes {GEO[name].says}")
            return Condition(name, place, False, place.contains)
        if name == "$prefix":
            if not isinstance(wanted, str):
                raise _bad("$prefix takes a string")
            self._count(1)
            return Condition(name, wanted, False, lambda value: isinstance(value, str) and value.startswith(wanted))
        if name != "$in" and name not in _TESTS:
            raise _unknown(operator)
        listed = self._listed(operator, name, wanted)
        if name == "$in":
            return Condition(name, listed, negated, _among(listed))
        return Condition(name, listed[0], negated, _against(name, listed[0]))

    def _listed(self, operator: str, name: str, wanted: Any) -> list[Any]:
        """What an operator compares with."""
        listed = wanted if name == "$in" else [wanted]
        if not isinstance(listed, list):
            raise _bad(f"{operator} takes a list, each {_ONE}")
        listed = [_moment(operator, one) if isinstance(one, dict) and one.keys() == {"$date"} else one for one in listed]
        if not all(isinstance(one, (*SCALARS, Instant)) for one in listed):
            raise _bad(f"{operator} takes {f'a list, each {_ONE}' if name == '$in' else _ONE}")
        if any(isinstance(one, float) and not math.isfinite(one) for one in listed):
            raise _bad(f"{operator} takes finite numbers")
        self._count(len(listed))
        return listed

    def _count(self, more: int) -> None:
        self._terms += more
        if self._terms > limit("filter_terms"):
            raise InvalidInput.of(
                "over_limit",
                f"a filter has at most {limit('filter_terms')} conditions and listed values",
                field="filter",
                limit="filter_terms",
            )


_ONE = "a string, a number, a boolean or null"


def _moment(operator: str, wanted: dict[str, Any]) -> Instant:
    text = wanted["$date"]
    moment = instant_of(text) if isinstance(text, str) else None
    if moment is None:
        raise _bad(f'{operator}: $date takes a date of RFC 3339, as "2026-01-31T12:00:00Z" or "2026-01-31"')
    return Instant(moment)
