"""get, scroll, count, stats and check: reading what is stored."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kinbin

pytestmark = pytest.mark.usefixtures("quiet")

IDS = ["a", "B", "b", " ", "0", "10", "2", "é", "z", "日", "🦊", "a b", "a.b", "aa", "Z", "~", "€", "ａ"]


@pytest.fixture
def collection(db: kinbin.Database) -> kinbin.Collection:
    """A collection of the ids above, in that order."""
    made = db.create_collection("c", dim=3)
    made.add(IDS, np.random.default_rng(1).random((len(IDS), 3)), [{"n": i} for i in range(len(IDS))])
    return made


def walk(collection: kinbin.Collection, limit: int, **options: Any) -> list[str]:
    """All ids, page by page."""
    found: list[str] = []
    page = collection.scroll(limit=limit, **options)
    while True:
        assert len(page.items) <= limit
        found += [item.id for item in page.items]
        if page.next is None:
            return found
        assert len(page.items) == limit
        page = collection.scroll(page.next, limit=limit, **options)


@pytest.mark.parametrize("limit", [1, 2, 5, len(IDS) - 1, len(IDS), len(IDS) + 1, 1_000])
def test_pages_together_are_everything(limit: int, collection: kinbin.Collection) -> None:
    """Pages of any size give each id once, in the order of its UTF-8 bytes, and end with no cursor."""
    assert walk(collection, limit) == sorted(IDS, key=str.encode)
    assert walk(collection, limit, filter={"n": {"$lt": 7}}) == sorted(IDS[:7], key=str.encode)
    assert walk(collection, limit, filter={"n": -1}) == []


def test_an_empty_collection_is_one_empty_page(db: kinbin.Database) -> None:
    """There is nothing to list, count, get, or find."""
    collection = db.create_collection("c", dim=3)
    assert collection.scroll() == kinbin.Page([], None)
    assert collection.count() == collection.count(filter={"a": 1}) == 0
    assert collection.get(["a"]) == [None]
    assert collection.get([]) == []
    collection.compact()
    assert collection.check() == kinbin.CheckReport(True, 0, 0, 0, [])


def test_a_cursor_outlives_what_it_points_at(collection: kinbin.Collection) -> None:
    """A page after a cursor is right though the item it was made of, or those around it, are deleted, added or merged meanwhile."""
    order = sorted(IDS, key=str.encode)
    page = collection.scroll(limit=5)
    collection.delete(order[3:6])
    collection.add([order[4] + "!"], [[1, 2, 3]])
    collection.compact()
    rest = walk(collection, 4)
    assert rest == sorted({*order, order[4] + "!"} - set(order[3:6]), key=str.encode)
    following = collection.scroll(page.next, limit=1_000)
    assert [item.id for item in following.items] == [order[4] + "!", *order[6:]]


def test_include_says_what_items_hold(collection: kinbin.Collection) -> None:
    """get gives vector and payload, scroll the payload, unless `include` says otherwise; what is left out is None."""
    for include, vector, payload in (
        (("vector", "payload"), True, True), (["vector"], True, False), (("payload",), False, True), ((), False, False),
        ("vector", True, False), ({"payload"}, False, True),
    ):  # fmt: skip
        for item in (collection.get(["a"], include=include)[0], collection.scroll(limit=1, include=include).items[0]):
            assert item is not None
            assert (item.vector is not None, item.payload is not None) == (vector, payload)
    (item,) = collection.get(["a"])
    assert item is not None
    assert item.vector is not None
    assert item.payload == {"n": 0}
    assert collection.scroll(limit=1).items[0].vector is None


def test_get_keeps_the_order_of_the_ids(collection: kinbin.Collection) -> None:
    """Items come in the order asked for, once for each time asked, None for the ids that are not there."""
    ids = ["z", "nobody", "a", "z", "🦊", "", "a"][:5]
    assert [item and item.id for item in collection.get(ids)] == ["z", None, "a", "z", "🦊"]


def test_stats_are_plain_data(collection: kinbin.Collection) -> None:
    """Stats can be written as JSON and tell items, rows and runs apart."""
    stats = collection.stats()
    assert json.loads(json.dumps(stats)) == stats
    expected = {"name": "c", "items": "vectors", "kernel": "ngmm", "dim": 3, "sampler": "gcws", "bands": None, "rows_per_band": None}
    assert {key: stats[key] for key in expected} == expected
    assert (stats["count"], stats["rows"], stats["fresh_rows"], stats["dead_rows"], stats["runs"]) == (len(IDS), len(IDS), len(IDS), 0, [])
    collection.delete(["a"])
    collection.compact()
    collection.add(["a", "new"], [[1, 1, 1], [1, 1, 1]])
    collection.delete(["b"])
    stats = collection.stats()
    assert (stats["count"], stats["rows"], stats["fresh_rows"], stats["dead_rows"]) == (len(IDS), len(IDS) - 1, 1, 1)
    (run,) = stats["runs"]
    assert (run["rows"], run["live"]) == (len(IDS) - 1, len(IDS) - 2)
    assert run["bands"] >= 1
    assert run["r"] >= 1
    assert stats["bytes"] > 0


def test_stats_show_what_the_bands_were_fixed_to(db: kinbin.Database) -> None:
    """bands and rows given at creation are those of every run."""
    collection = db.create_collection("c", dim=3, bands=77, rows=3)
    for i in range(2):
        collection.add([str(i)], [[1, 2, 3 + i]])
        collection.compact()
    (run,) = collection.stats()["runs"]
    assert (run["bands"], run["r"]) == (77, 3)
    assert collection.query([1, 2, 3], mode="bands").ids[0] == "0"


def test_check_tells_its_progress_and_counts(collection: kinbin.Collection) -> None:
    """A check of sound files says what it looks at, and how many items, rows and runs it saw."""
    collection.add(["twin of a"], [collection.get(["a"])[0].vector])  # type: ignore[union-attr]
    told: list[str] = []
    assert collection.check(told.append) == kinbin.CheckReport(ok=True, items=len(IDS) + 1, rows=len(IDS), runs=0, problems=[])
    collection.compact()
    assert collection.check(told.append) == kinbin.CheckReport(ok=True, items=len(IDS) + 1, rows=len(IDS), runs=1, problems=[])
    assert any(text.startswith("run ") for text in told)
    assert "items" in told
