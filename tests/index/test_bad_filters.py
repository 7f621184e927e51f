"""Filters that cannot be taken: the same code, text and field from every method that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kinbin
from refusals import refused, unchanged

Call = Callable[..., Any]


def filled(db: kinbin.Database) -> kinbin.Collection:
    """A collection with two items."""
    made = db.create_collection("c", dim=3)
    made.add(["a", "b"], [[1, 2, 3], [3, 2, 1]], [{"year": 2020}, None])
    return made


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kinbin.Collection]:
    """One for all tests that change nothing in it."""
    with kinbin.open(tmp_path_factory.mktemp("parameters")) as db:
        yield filled(db)


KNOWN = "known ones are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $prefix, $geo_radius, $geo_box, $and, $or, $not"
MISPLACED = '{} does not stand here: $and, $or and $not join filters, the others test a field, as {{"year": {{"$gte": 2020}}}}'
SHAPE = 'a filter is an object with at least one field, as {"year": {"$gte": 2020}}'
SCALAR = "a string, a number, a boolean or null"
LIST = "a list, each a string, a number, a boolean or null"

BAD_FILTERS: dict[str, tuple[Any, str]] = {
    "a string": ("year", SHAPE),
    "a list": ([{"year": 2020}], SHAPE),
    "a number": (0, SHAPE),
    "false": (False, SHAPE),
    "empty": ({}, SHAPE),
    "an unknown operator": ({"year": {"$regex": "a"}}, f"unknown operator '$regex'; {KNOWN}"),
    "a misspelt operator": ({"year": {"$lte": 4, "$greater": 3}}, f"unknown operator '$greater'; {KNOWN}; did you mean '$gte'?"),
    "an operator without a dollar": ({"year": {"gte": 3}}, f"unknown operator 'gte'; {KNOWN}; did you mean '$gte'?"),
    "a number as operator": ({"year": {3: 3}}, f"unknown operator; {KNOWN}"),
    "an unknown join": ({"$nor": [{"a": 1}]}, f"unknown operator '$nor'; {KNOWN}; did you mean '$or'?"),
    "an operator as field": ({"$gte": 3}, MISPLACED.format("$gte")),
    "a join as a condition": ({"year": {"$or": [1, 2]}}, MISPLACED.format("$or")),
    "a number as field": ({3: 3}, f"unknown operator; {KNOWN}"),
    "no condition": ({"year": {}}, "a field's condition is a value or an object of operators, this object is empty"),
    "$and of an object": ({"$and": {"a": 1}}, "$and takes a list of filters"),
    "$or of nothing": ({"$or": []}, "$or takes a list of filters"),
    "$and of numbers": ({"$and": [1]}, SHAPE),
    "$or of empty": ({"$or": [{"a": 1}, {}]}, SHAPE),
    "$not of a list": ({"$not": [{"a": 1}]}, SHAPE),
    "$not of a value": ({"$not": 5}, SHAPE),
    "$exists of a number": ({"a": {"$exists": 1}}, "$exists takes true or false"),
    "$eq of a list": ({"a": {"$eq": [1]}}, f"$eq takes {SCALAR}"),
    "a list as value": ({"a": [1, 2]}, f"$eq takes {SCALAR}"),
    "$gt of an object": ({"a": {"$gt": {"b": 1}}}, f"$gt takes {SCALAR}"),
    "$in of a value": ({"a": {"$in": 1}}, f"$in takes {LIST}"),
    "$in of a string": ({"a": {"$in": "abc"}}, f"$in takes {LIST}"),
    "$in of lists": ({"a": {"$in": [[1]]}}, f"$in takes {LIST}"),
    "$nin of a value": ({"a": {"$nin": 1}}, f"$nin takes {LIST}"),
    "$lt of NaN": ({"a": {"$lt": float("nan")}}, "$lt takes finite numbers"),
    "$in of infinity": ({"a": {"$in": [1, float("inf")]}}, "$in takes finite numbers"),
    "$prefix of a number": ({"a": {"$prefix": 1}}, "$prefix takes a string"),
    "$date of no date": (
        {"a": {"$gt": {"$date": "2026-02-30"}}},
        '$gt: $date takes a date of RFC 3339, as "2026-01-31T12:00:00Z" or "2026-01-31"',
    ),
    "$date without a zone": (
        {"a": {"$date": "2026-01-31T12:00:00"}},
        '$eq: $date takes a date of RFC 3339, as "2026-01-31T12:00:00Z" or "2026-01-31"',
    ),
    "a radius below 0": (
        {"a": {"$geo_radius": {"lat": 0, "lon": 0, "meters": -1}}},
        '$geo_radius takes {"lat": degrees, "lon": degrees, "meters": 0 or more}',
    ),
    "a box upside down": (
        {"a": {"$geo_box": {"south": 1, "north": 0, "west": 0, "east": 0}}},
        '$geo_box takes {"south": degrees, "west": degrees, "north": degrees, "east": degrees}, south at most north',
    ),
    "bytes": ({"a": b"1"}, f"$eq takes {SCALAR}"),
    "a lone surrogate as operator": ({"a": {"$\ud800": 1}}, f"unknown operator '$\\ud800'; {KNOWN}"),
    "a long operator below a name with a slash": (
        {"$or": [{"b": 1}, {"a/b~c": {"$" + "x" * 50: 1}}]},
        f"unknown operator '${'x' * 39}'; {KNOWN}",
    ),
    "70 bits": ({"a": 2**70}, "a filter is JSON: Integer exceeds 64-bit range"),
    "a lone surrogate": ({"a": "\ud800"}, "a filter is JSON: str is not valid UTF-8: surrogates not allowed"),
    "a lone surrogate as field": ({"\ud800": 1}, "a filter is JSON: str is not valid UTF-8: surrogates not allowed"),
}

PLACES = {
    "an unknown operator": "/year/$regex",
    "a misspelt operator": "/year/$greater",
    "an operator without a dollar": "/year/gte",
    "a number as operator": "/year/3",
    "an unknown join": "/$nor",
    "an operator as field": "/$gte",
    "a join as a condition": "/year/$or",
    "a number as field": "/3",
    "no condition": "/year",
    "$and of an object": "/$and",
    "$or of nothing": "/$or",
    "$and of numbers": "/$and/0",
    "$or of empty": "/$or/1",
    "$not of a list": "/$not",
    "$not of a value": "/$not",
    "$exists of a number": "/a/$exists",
    "$eq of a list": "/a/$eq",
    "a list as value": "/a",
    "$gt of an object": "/a/$gt",
    "$in of a value": "/a/$in",
    "$in of a string": "/a/$in",
    "$in of lists": "/a/$in",
    "$nin of a value": "/a/$nin",
    "$lt of NaN": "/a/$lt",
    "$in of infinity": "/a/$in",
    "$prefix of a number": "/a/$prefix",
    "$date of no date": "/a/$gt",
    "$date without a zone": "/a",
    "a radius below 0": "/a/$geo_radius",
    "a box upside down": "/a/$geo_box",
    "bytes": "/a",
    "a lone surrogate as operator": "/a/$\\ud800",
    "a long operator below a name with a slash": f"/$or/1/a~1b~0c/${'x' * 39}",
}
"""Where in the filter, as a JSON pointer; nowhere for what is wrong as a whole."""

FILTERED: dict[str, Callable[[kinbin.Collection, Any], Any]] = {
    "query": lambda c, filter: c.query([1, 2, 3], filter=filter),
    "query_id": lambda c, filter: c.query_id("a", filter=filter),
    "query_batch": lambda c, filter: c.query_batch([[1, 2, 3]], filter=filter),
    "count": lambda c, filter: c.count(filter=filter),
    "scroll": lambda c, filter: c.scroll(filter=filter),
    "scroll in order": lambda c, filter: c.scroll(filter=filter, order_by="year"),
    "facets": lambda c, filter: c.facets("year", filter=filter),
    "delete": lambda c, filter: c.delete(filter=filter),
}


@pytest.mark.parametrize("label", BAD_FILTERS)
def test_a_bad_filter_is_refused(label: str, collection: kinbin.Collection) -> None:
    """Every method with a filter refuses a malformed one with its text and place, and deletes nothing."""
    filter, detail = BAD_FILTERS[label]
    with unchanged(collection):
        for call in FILTERED.values():
            with refused("bad_filter", detail, field="filter" + PLACES.get(label, "")):
                call(collection, filter)


def nested(levels: int) -> dict[str, Any]:
    """A filter of so many levels."""
    filter: dict[str, Any] = {"year": 2020}
    for _ in range(levels - 1):
        filter = {"$not": filter}
    return filter


@pytest.mark.parametrize(
    ("name", "most", "more", "detail"),
    [
        ("filter_depth", nested(8), nested(9), "a filter is at most 8 levels deep"),
        (
            "filter_terms",
            {"year": {"$in": [2020] * 256}},
            {"year": {"$in": [2020] * 257}},
            "a filter has at most 256 conditions and listed values",
        ),
        (
            "filter_terms",
            {"$or": [{"year": 2020}] * 256},
            {"$or": [{"year": 2020}] * 128 + [{"a": {"$gt": 1, "$exists": True}}] * 65},
            "a filter has at most 256 conditions and listed values",
        ),
    ],
    ids=["depth", "listed values", "conditions"],
)
def test_a_filter_over_a_limit_is_refused(name: str, most: Any, more: Any, detail: str, collection: kinbin.Collection) -> None:
    """A filter of just the limit is evaluated, a larger one refused by the limit's name."""
    collection.count(filter=most)
    with unchanged(collection):
        for call in FILTERED.values():
            with refused("over_limit", detail, field="filter", limit=name):
                call(collection, more)


def test_a_filter_that_holds_itself_is_refused(collection: kinbin.Collection) -> None:
    """A filter without an end is one of too many levels."""
    filter: dict[str, Any] = {}
    filter["$not"] = filter
    with refused("over_limit", "a filter is at most 8 levels deep", field="filter", limit="filter_depth"):
        collection.count(filter=filter)
