"""Ranges of indexed values: both ends at once where that is the same as one after the other, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinbin
import naive
from kinbin.indexes.columns import Column

pytestmark = pytest.mark.usefixtures("quiet")
PAYLOADS: dict[str, list[Any]] = {
    "single": [{"f": value} for value in [*range(40), 2.5, -7, 0.0, 3]],
    "lists": [{"f": value} for value in [*range(40), [1, 30], [5], [], [2, 2], [39, -1]]],
    "other kinds": [{"f": value} for value in [*range(40), "5", None, True, [3, "x"], {"a": 1}, 2**62 + 1, 2**53 + 1]],
    "absent": [{"f": 3}, {}, {"g": 4}, {"f": 7}],
    "dates": [{"f": f"2024-01-{day:02}T00:00:00Z"} for day in range(1, 29)] + [{"f": "no date"}, {"f": "2024"}],
    "lists of dates": [{"f": f"2024-01-{day:02}"} for day in range(1, 29)] + [{"f": ["2024-01-02", "2024-01-27"]}],
    "words": [{"f": word} for word in ("a", "ab", "b", "é", "", "z", "zz")],
}
NUMBERS: list[Any] = [
    {"$gte": 3, "$lt": 7}, {"$gt": 3, "$lte": 7}, {"$gt": 7, "$lt": 3}, {"$gte": 5, "$lte": 5}, {"$gt": 5, "$lt": 5},
    {"$gte": 2.5, "$lt": 2**62 + 1}, {"$gte": 3, "$gt": 4, "$lt": 9}, {"$gte": 3, "$lt": 30, "$ne": 4},
    {"$gte": 3, "$lt": 30, "$exists": True}, {"$gt": -1, "$lt": 31, "$nin": [2]}, {"$gte": 3, "$lt": "7"},
]  # fmt: skip
DATES: list[Any] = [
    {"$gte": "2024-01-03", "$lt": "2024-01-20"}, {"$gt": {"$date": "2024-01-03T00:00:00Z"}, "$lte": {"$date": "2024-01-20T00:00:00Z"}},
    {"$gte": "2024-01-03", "$lt": {"$date": "2024-01-20T00:00:00Z"}},
]  # fmt: skip
WORDS: list[Any] = [{"$gte": "a", "$lt": "b"}, {"$gt": "", "$lte": "é"}, {"$gt": "a", "$lt": 3}]
KINDS = {"dates": "datetime", "lists of dates": "datetime", "words": "keyword"}


def filters_of(name: str) -> list[Any]:
    """The ranges that are asked of some payloads."""
    return DATES if "dates" in name else WORDS if name == "words" else NUMBERS


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_range_is_all_of_its_ends(name: str, db: kinbin.Database) -> None:
    """What an index lets through of ranges is what the twin does, for single values, lists, values of other kinds and absent ones."""
    payloads = PAYLOADS[name]
    ids = [f"{i}" for i in range(len(payloads))]
    collection = db.create_collection("c", dim=2)
    collection.add(ids, np.ones((len(ids), 2), np.float32), payloads)
    collection.add_index("f", KINDS.get(name, "number"), wait=True)
    for asked in filters_of(name):
        for filter in ({"f": asked}, {"$not": {"f": asked}}, {"$or": [{"f": asked}, {"g": 4}]}):
            passing = {one for one, payload in zip(ids, payloads, strict=True) if naive.matches(filter, payload)}
            found = {item.id for item in collection.scroll(limit=100, filter=filter).items}
            assert found == passing, filter
            assert collection.count(filter) == len(passing)


@pytest.mark.parametrize(("name", "fused"), [("single", True), ("absent", True), ("lists", False), ("other kinds", False)])
def test_both_ends_are_met_at_once_where_values_are_single(
    name: str, fused: bool, db: kinbin.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither end of a range is looked up by itself unless an item may pass each of them with another value."""
    payloads = PAYLOADS[name]
    collection = db.create_collection("c", dim=2)
    collection.add([f"{i}" for i in range(len(payloads))], np.ones((len(payloads), 2), np.float32), payloads)
    collection.add_index("f", "number", wait=True)
    asked: list[str] = []
    original = Column.matching

    def matching(self: Column, operator: str, *rest: Any) -> Any:
        asked.append(operator)
        return original(self, operator, *rest)

    monkeypatch.setattr(Column, "matching", matching)
    assert collection.count({"f": {"$gte": 3, "$lt": 9, "$ne": 8}}) > 0
    assert asked == ["$eq"] if fused else sorted(asked) == ["$eq", "$gte", "$lt"]
