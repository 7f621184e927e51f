"""Filters on payloads: checked once, then a predicate on decoded JSON.

    {"year": 2020}                       the field equals
    {"year": {"$gte": 2018, "$lt": 2021}}    all of them hold
    {"$or": [{"a": 1}, {"b": {"$exists": false}}], "$not": {"tag": "old"}}

Operators: $eq $ne $gt $gte $lt $lte $in $nin $exists on fields, $and $or $not around filters. A dot in a
field's name goes into objects. A list in a payload matches if one of its elements does. Numbers compare
with numbers and strings with strings; any other pair is unequal and unordered. $ne and $nin are true
where $eq and $in are not, so also where the field is absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson

from kinbin.errors import InvalidInput, suggestion
from kinbin.limits import limit
from kinbin.options import OPTIONS

__all__ = ["Predicate", "compile_filter"]

Predicate = Callable[[Any], bool]
_ABSENT = object()
_SCALARS = (str, int, float, bool, type(None))


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return bool(value == wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(value: Any, wanted: Any) -> bool:
        numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (value, wanted))
        return (numbers or (isinstance(value, str) and isinstance(wanted, str))) and compare(value, wanted)

    return holds


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$gt": _ordered(lambda a, b: a > b),
    "$gte": _ordered(lambda a, b: a >= b),
    "$lt": _ordered(lambda a, b: a < b),
    "$lte": _ordered(lambda a, b: a <= b),
}


def _against(compare: Callable[[Any, Any], bool], wanted: Any) -> Predicate:
    return lambda value: compare(value, wanted)


def _among(listed: list[Any]) -> Predicate:
    """Whether a value equals one of the listed, in the time of one look-up: true and false are told from 1 and 0, as by `_equal`."""
    truths = {one for one in listed if isinstance(one, bool)}
    others = {one for one in listed if not isinstance(one, bool)}

    def holds(value: Any) -> bool:
        # Lists and objects, which cannot be looked up, equal nothing that may be listed.
        return isinstance(value, _SCALARS) and value in (truths if isinstance(value, bool) else others)

    return holds


_NEGATED = {"$ne": "$eq", "$nin": "$in"}
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$and", "$or", "$not")


def _bad(detail: str) -> InvalidInput:
    return InvalidInput.of("bad_filter", detail, field="filter")


def _unknown(operator: object) -> InvalidInput:
    if operator in OPERATORS:
        return _bad(
            f'{operator} does not stand here: $and, $or and $not join filters, the others test a field, as {{"year": {{"$gte": 2020}}}}'
        )
    return _bad(f"unknown operator; known ones are {', '.join(OPERATORS)}{suggestion(operator, OPERATORS)}")


def compile_filter(data: Any) -> Predicate:
    """A predicate on the JSON bytes of a payload (b"" for none).

    Raises:
        InvalidInput: codes "bad_filter", "over_limit".
    """
    test = _Compiler().filter(data, 1)
    try:
        orjson.dumps(data)
    except TypeError as error:
        raise _bad(f"a filter is JSON: {error}") from None
    return lambda payload: test(orjson.loads(payload) if payload else {})


class _Compiler:
    """Checks a filter while it is compiled, and counts its terms."""

    def __init__(self) -> None:
        self._terms = 0

    def filter(self, data: Any, depth: int) -> Predicate:
        """All members of one filter object."""
        if not isinstance(data, dict) or not data:
            raise _bad(f"a filter {OPTIONS['filter'].says}")
        if depth > limit("filter_depth"):
            raise InvalidInput.of(
                "over_limit", f"a filter is at most {limit('filter_depth')} levels deep", field="filter", limit="filter_depth"
            )
        tests = [self._member(key, value, depth) for key, value in data.items()]
        return tests[0] if len(tests) == 1 else lambda payload: all(test(payload) for test in tests)

    def _member(self, key: str, value: Any, depth: int) -> Predicate:
        if key == "$not":
            inner = self.filter(value, depth + 1)
            return lambda payload: not inner(payload)
        if key in ("$and", "$or"):
            if not isinstance(value, list) or not value:
                raise _bad(f"{key} takes a list of filters")
            tests = [self.filter(one, depth + 1) for one in value]
            join = all if key == "$and" else any
            return lambda payload: join(test(payload) for test in tests)
        if not isinstance(key, str) or key.startswith("$"):
            raise _unknown(key)
        return self._field(key.split("."), value)

    def _field(self, path: list[str], condition: Any) -> Predicate:
        operators = condition if isinstance(condition, dict) else {"$eq": condition}
        if not operators:
            raise _bad("a field's condition is a value or an object of operators, this object is empty")
        tests = [self._condition(operator, wanted) for operator, wanted in operators.items()]
        return lambda payload: all(test(_look_up(payload, path)) for test in tests)

    def _condition(self, operator: Any, wanted: Any) -> Predicate:
        negated = operator in _NEGATED
        name = _NEGATED.get(operator, operator)
        if name == "$exists":
            if not isinstance(wanted, bool):
                raise _bad("$exists takes true or false")
            self._count(1)
            return lambda value: (value is not _ABSENT) is wanted
        if name != "$in" and name not in _TESTS:
            raise _unknown(operator)
        listed = wanted if name == "$in" else [wanted]
        if not isinstance(listed, list) or not all(isinstance(one, _SCALARS) for one in listed):
            one = "a string, a number, a boolean or null"
            raise _bad(f"{operator} takes {f'a list, each {one}' if name == '$in' else one}")
        if any(isinstance(one, float) and not math.isfinite(one) for one in listed):
            raise _bad(f"{operator} takes finite numbers")
        self._count(len(listed))
        test = _among(listed) if name == "$in" else _against(_TESTS[name], wanted)

        def holds(value: Any) -> bool:
            if isinstance(value, list):
                return any(test(one) for one in value)
            return value is not _ABSENT and test(value)

        return (lambda value: not holds(value)) if negated else holds

    def _count(self, more: int) -> None:
        self._terms += more
        if self._terms > limit("filter_terms"):
            raise InvalidInput.of(
                "over_limit",
                f"a filter has at most {limit('filter_terms')} conditions and listed values",
                field="filter",
                limit="filter_terms",
            )


def _look_up(payload: Any, path: list[str]) -> Any:
    for name in path:
        if not isinstance(payload, dict) or name not in payload:
            return _ABSENT
        payload = payload[name]
    return payload
