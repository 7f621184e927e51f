"""Integers as ids: an integer of 64 bits is the id of its decimal digits, wherever an id is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinbin
from refusals import refused

pytestmark = pytest.mark.usefixtures("quiet")

LEAST, LARGEST = -(2**63), 2**64 - 1
X = np.eye(4, dtype=np.float32) + np.float32(0.1)


@pytest.fixture
def collection(db: kinbin.Database) -> kinbin.Collection:
    """Four items that came with integers as ids."""
    made = db.create_collection("c", dim=4, seed=1)
    made.add([5, LEAST, LARGEST, "x"], X, [{"n": i} for i in range(4)])
    return made


def test_an_integer_and_its_digits_are_one_id(collection: kinbin.Collection) -> None:
    """What came under 5 is "5" in every answer, and is found, replaced and removed by either; "05" is another id."""
    assert [item.id for item in collection.scroll().items] == [str(LEAST), str(LARGEST), "5", "x"]
    assert [None if one is None else one.id for one in collection.get([5, "5", "05", LARGEST])] == ["5", "5", None, str(LARGEST)]
    assert collection.add(["5"], X[1:2]).updated == 1
    assert collection.count() == 4
    assert collection.versions([5]) == collection.versions(["5"]) != [0]
    assert collection.delete([5, LEAST, "nobody"]).deleted == 2


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8, np.uint16])
def test_arrays_of_integers_are_ids(db: kinbin.Database, kind: Any) -> None:
    """An array of NumPy's integers, and a list of them, name items as Python's integers do."""
    collection = db.create_collection("c", dim=4, seed=1)
    numbers: Any = np.arange(4).astype(kind)
    collection.add(numbers, X)
    assert collection.add([kind(3)], X[:1]).updated == 1
    assert [item is not None for item in collection.get([0, 1, 2, 3])] == [True] * 4


def test_queries_take_integers(collection: kinbin.Collection) -> None:
    """Queries by id, exclusions and examples take integers, and mean the same as with digits."""
    assert collection.query_id(5, k=3).ids == collection.query_id("5", k=3).ids
    assert collection.query(X[0], k=4, exclude=[5, LEAST]).ids == collection.query(X[0], k=4, exclude=["5", str(LEAST)]).ids
    assert collection.query_examples([5], [LARGEST], k=4).ids == collection.query_examples(["5"], [str(LARGEST)], k=4).ids
    assert collection.query_each([kinbin.Query(id=5)])[0].ids == collection.query_id(5).ids


def test_payloads_are_written_by_integers(collection: kinbin.Collection) -> None:
    """Payload-only writes take integers."""
    assert collection.set_payload([5], [{"n": 7}]).updated == 1
    assert collection.patch_payload([LARGEST], [{"m": 8}]).updated == 1
    assert [item.payload for item in collection.get([5, LARGEST]) if item is not None] == [{"n": 7}, {"n": 2, "m": 8}]


def test_the_same_id_twice_is_refused_in_either_form(collection: kinbin.Collection) -> None:
    """5 and "5" in one add are the same id twice; where bad items are skipped, the first of them counts."""
    with refused("duplicate_id", "the id '5' is at position 0 already; send each id once", field="id", position=1):
        collection.add([5, "5"], X[:2])
    done = collection.add([6, "6"], X[:2], on_error="skip")
    assert (done.indexed, done.skipped) == (1, 1)


def test_fields_take_integers(db: kinbin.Database) -> None:
    """Collections with several fields take integers as well."""
    collection = db.create_collection("f", fields={"a": {"dim": 4}, "b": {"dim": 4}})
    collection.add([1, 2], {"a": X[:2], "b": X[2:]})
    assert collection.query_id(1, k=1).ids == ["2"]
