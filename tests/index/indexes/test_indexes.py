"""Payload indexes: answers are those without them, whatever is written in between; what is declared; facets, order, selectivity."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import kinbin
import naive
from filtering import KINDS, some_filter, some_payload
from kinbin.errors import InvalidInput
from kinbin.storage.transactions import Reader
from kinbin.upkeep.background import IndexThread

pytestmark = pytest.mark.usefixtures("quiet")
YEARS = {"year": "number"}


class Written:
    """A collection, and what it has to hold."""

    def __init__(self, collection: kinbin.Collection, seed: int) -> None:
        self.collection, self.rng = collection, random.Random(seed)
        self.payloads: dict[str, Any] = {}
        # So few vectors that many items share one.
        self.vectors = np.random.default_rng(seed).random((40, 4)).astype(np.float32) + 0.1

    def add(self, ids: list[str]) -> None:
        """Add or replace items: vectors, payloads or both change."""
        payloads = [some_payload(self.rng) for _ in ids]
        self.collection.add(ids, self.vectors[[self.rng.randrange(40) for _ in ids]], payloads)
        self.payloads.update(zip(ids, payloads, strict=True))

    def change(self) -> None:
        """One write of some kind."""
        what, known = self.rng.randrange(10), sorted(self.payloads)
        if what < 3:
            gone = self.rng.sample(known, min(len(known), self.rng.choice([1, 3, 40])))
            self.collection.delete(gone)
            for one in gone:
                del self.payloads[one]
        elif what == 3:
            self.collection.compact()
        else:
            self.add([f"{self.rng.randrange(700)}" for _ in range(1)] if what < 8 else [f"{i}" for i in range(what * 50, what * 50 + 200)])

    def matching(self, filter: Any) -> set[str]:
        """The ids that pass, by the twin."""
        return {one for one, payload in self.payloads.items() if naive.matches(filter, payload)}


@contextmanager
def unread() -> Iterator[list[int]]:
    """Counts how often all payloads were read."""
    reads: list[int] = []
    original = Reader.all_items

    def counted(reader: Reader) -> Any:
        reads.append(1)
        return original(reader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reader, "all_items", counted)
        yield reads


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_filter_after_any_writes_is_the_twins(seed: int, indexed: bool, db: kinbin.Database) -> None:
    """Counts, ids and neighbours of random filters are those of the twin after every write, with indexes and without."""
    # Declared before anything is there, all that follows comes by the log; declared afterwards, it is built.
    written = Written(db.create_collection("c", dim=4, indexes=KINDS if indexed and seed == 1 else None), seed)
    written.add([f"{i}" for i in range(600)])
    if indexed:
        written.collection._indexing.change(KINDS)
        written.collection._indexing.wait()
    rounds = settings().max_examples
    with unread() as reads:
        for _ in range(rounds):
            filter = some_filter(written.rng)
            expected = written.matching(filter)
            assert written.collection.count(filter) == len(expected), filter
            answer = written.collection.query(written.vectors[0], k=1_000, mode="exact", filter=filter)
            assert set(answer.ids) == expected, filter
            written.change()
    # Filters that mostly ask for what is not indexed read all; the others never do.
    assert len(reads) < rounds / 3 if indexed else len(reads) >= rounds
    assert written.collection.check().ok


def test_indexed_fields_are_filtered_without_reading_payloads(db: kinbin.Database) -> None:
    """Every operator on fields of the kind that is declared is answered without a look at any payload, also right after a write."""
    collection = db.create_collection("c", dim=2, indexes={**YEARS, "tag": "keyword", "seen": "datetime", "where": "geo"})
    payloads = [
        {"year": 2000 + i % 50, "tag": f"t{i % 7}", "seen": f"2026-01-{1 + i % 28:02}T00:00:00Z", "where": {"lat": i % 90, "lon": 0}}
        for i in range(1_000)
    ]
    collection.add([f"{i}" for i in range(1_000)], np.random.default_rng(0).random((1_000, 2)) + 0.1, payloads)
    collection._indexing.wait()
    filters: list[tuple[Any, int]] = [
        ({"year": 2007}, 20),
        ({"year": {"$gte": 2010, "$lt": 2012}}, 40),
        ({"tag": {"$in": ["t1", "t2"]}}, 286),
        ({"tag": {"$prefix": "t"}, "year": {"$ne": 2007}}, 980),
        ({"seen": {"$lt": {"$date": "2026-01-03T00:00:00+02:00"}}}, 72),
        ({"where": {"$geo_radius": {"lat": 0, "lon": 0, "meters": 120_000}}}, 24),
        ({"$or": [{"year": 2007}, {"$not": {"tag": {"$exists": True}}}]}, 20),
    ]
    with unread() as reads:
        for filter, count in filters:
            assert collection.count(filter) == count
        collection.add(["new"], [[1, 2]], [{"year": 2007}])
        assert collection.count({"year": 2007}) == 21
        assert collection.query([1, 2], k=3, filter={"year": 2007}).ids[0] == "new"
        assert reads == []
        assert collection.count({"other": 1}) == 0
        assert reads == [1]


def test_a_mixed_filter_reads_the_payloads_of_what_is_left(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a filter that is indexed in part, only the items that the indexed part leaves open are read."""
    collection = db.create_collection("c", dim=2)
    collection.add([f"{i}" for i in range(500)], np.ones((500, 2)), [{"year": i % 100, "free": i % 2} for i in range(500)])
    collection.add_index("year", "number", wait=True)
    asked: list[int] = []
    original = Reader.items

    def counted(reader: Reader, ids: Any) -> Any:
        asked.append(len(ids))
        return original(reader, ids)

    monkeypatch.setattr(Reader, "items", counted)
    with unread() as reads:
        assert collection.count({"year": {"$lt": 4}, "free": 1}) == 10
        assert collection.count({"$or": [{"year": {"$gte": 4}}, {"free": 1}]}) == 490
        assert (reads, asked) == ([], [20, 20])


def test_declarations(db: kinbin.Database) -> None:
    """An index may be added and dropped at any time, twice is once, another kind is refused, and filters always mean the same."""
    collection = db.create_collection("c", dim=2)
    collection.add(["a", "b", "c"], np.eye(3)[:, :2] + 0.1, [{"year": 1}, {"year": 2}, {"year": "2"}])
    assert collection.stats()["indexes"] is None
    for _ in range(2):
        collection.add_index("year", "number", wait=True)
        told = collection.stats()["indexes"]
        assert (told["fields"], told["ready"], told["progress"]) == ({"year": {"kind": "number", "ready": True}}, True, 1.0)
        assert [collection.count({"year": one}) for one in (1, 2, "2")] == [1, 1, 1]
        with pytest.raises(InvalidInput, match="indexed as number; drop that index first"):
            collection.add_index("year", "keyword")
    collection.drop_index("year")
    collection.add(["d"], [[3, 1]], [{"year": 2}])
    assert collection.count({"year": 2}) == 2
    with pytest.raises(InvalidInput, match="no field is indexed"):
        collection.drop_index("year")
    assert collection.stats()["indexes"] is None
    collection.add_index("year", "keyword", wait=True)
    assert [collection.count({"year": one}) for one in (2, "2")] == [2, 1]
    assert db.create_collection("c", dim=2, exist_ok=True, indexes={"tag": "keyword"}).stats()["indexes"]["fields"].keys() == {
        "year",
        "tag",
    }


@pytest.mark.parametrize(
    ("indexes", "says"),
    [
        ({"year": "float"}, "the kind of an index is one of number, keyword, datetime, geo$"),
        ({"": "number"}, "indexes names a field"),
        ({"a..b": "number"}, "indexes names a field"),
        ({"$not": "number"}, "indexes names a field"),
        ({1: "number"}, "indexes names a field of payloads, as year or size.width$"),
        ("year", "indexes are a mapping of fields to kinds"),
        ({f"f{i}": "number" for i in range(33)}, "at most 32 indexes"),
    ],
)
def test_malformed_declarations_are_refused(indexes: Any, says: str, db: kinbin.Database) -> None:
    """A declaration that is malformed is refused, and no collection is made."""
    with pytest.raises(InvalidInput, match=says):
        db.create_collection("c", dim=2, indexes=indexes)
    assert db.collections() == []


def test_writes_without_indexes_log_nothing(db: kinbin.Database) -> None:
    """The log of ids is written only while indexes are declared, and is gone when the last one was dropped."""
    collection = db.create_collection("c", dim=2)
    collection.add(["a"], [[1, 2]])

    def logged() -> int:
        with collection._store.read() as reader:
            return len(list(reader.changes(0)))

    assert logged() == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexThread, "wake", lambda _: None)
        collection.add_index("year", "number")
        collection.add(["b"], [[1, 3]])
        collection.delete(["a"])
        assert logged() == 2
        collection.drop_index("year")
        collection.add(["c"], [[1, 4]])
        assert logged() == 0


def test_many_writes_between_two_questions(db: kinbin.Database) -> None:
    """Thousands of changes are folded into segments, joined, saved and trimmed, and every count stays that of the twin."""
    collection = db.create_collection("c", dim=2, indexes=YEARS)
    payloads: dict[str, Any] = {}
    rng = np.random.default_rng(5)
    for n in range(12):
        ids = [f"{i}" for i in range(500 * n, 500 * n + 700)]
        some = [{"year": int(year)} for year in rng.integers(0, 9, len(ids))]
        collection.add(ids, rng.random((len(ids), 2)) + 0.1, some)
        payloads.update(zip(ids, some, strict=True))
        if n == 1:
            collection._indexing.wait()
        assert collection.count({"year": 4}) == sum(one == {"year": 4} for one in payloads.values())
    for _ in range(100):
        if collection._indexing._step():
            break
    told = collection.stats()["indexes"]
    assert told["behind"] < 5_000
    assert collection.count({"year": {"$lt": 4}}) == sum(one["year"] < 4 for one in payloads.values())


# ---------------------------------------------------------------------------------------------- facets and order


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [True, False])
def test_facets_count_what_count_counts(indexed: bool, db: kinbin.Database) -> None:
    """Every value of a field comes with just as many items as a filter on it counts, most frequent first, after any writes."""
    written = Written(db.create_collection("c", dim=4, indexes=KINDS if indexed else None), 9)
    written.add([f"{i}" for i in range(400)])
    if indexed:
        written.collection._indexing.wait()
    for _ in range(5):
        filter = written.rng.choice([None, some_filter(written.rng)])
        passing = written.payloads if filter is None else written.matching(filter)
        for field in ("n", "t", "o.d", "free"):
            told = written.collection.facets(field, filter, limit=1_000)
            assert told.items == len(passing)
            assert told.distinct == len(told.values)
            assert [one.count for one in told.values] == sorted((one.count for one in told.values), reverse=True)
            for one in told.values:
                both = {"$and": [{field: one.value}, filter or {"$not": {"$and": [{"x": 1}, {"x": 2}]}}]}
                assert one.count == len(written.matching(both)), (field, one)
            some = written.collection.facets(field, filter, limit=3)
            assert (some.values, some.distinct) == (told.values[:3], told.distinct)
        for _ in range(5):
            written.change()


NUMBERS: list[Any] = [1, 1.0, 1, 2.5, True, "1", 0, -0.0, 2**53 + 1, 10**18, 1e18, 1e300, -1e300, -(2**63), 2**64 - 1, 2.0**64, None]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("written", [NUMBERS, NUMBERS[::-1]])
def test_facets_tell_a_number_however_it_is_written(indexed: bool, written: list[Any], db: kinbin.Database) -> None:
    """1 and 1.0 are one value, told as 1, whichever came first, with an index and without; what no integer of 64 bits is stays as it is."""
    collection = db.create_collection("c", kernel="minmax", dim=2, indexes={"n": "number"} if indexed else None)
    collection.add([f"{i}" for i in range(len(written))], np.ones((len(written), 2)), [{"n": one} for one in written])
    if indexed:
        collection._indexing.wait()
    told = {(type(one.value), one.value): one.count for one in collection.facets("n", limit=100).values}
    assert told == {
        (int, 1): 3, (float, 2.5): 1, (bool, True): 1, (str, "1"): 1, (int, 0): 2, (int, 2**53 + 1): 1, (int, 10**18): 2,
        (float, 1e300): 1, (float, -1e300): 1, (int, -(2**63)): 1, (int, 2**64 - 1): 1, (float, 2.0**64): 1, (type(None), None): 1,
    }  # fmt: skip


def test_facets_of_many_values(db: kinbin.Database) -> None:
    """Of many different values just the most frequent are told, over segments and what came last."""
    collection = db.create_collection("c", dim=2, indexes={"tag": "keyword"})
    tags = [f"t{i % 700}" for i in range(1_000)]
    collection.add([f"{i}" for i in range(1_000)], np.ones((1_000, 2)), [{"tag": tag} for tag in tags])
    collection._indexing.wait()
    for i, tag in enumerate(["t699"] * 4 + ["new"] * 3):
        collection.add([f"x{i}"], [[1, 1]], [{"tag": tag}])
        tags.append(tag)
    told = collection.facets("tag", limit=4)
    expected = sorted(Counter(tags).items(), key=lambda one: (-one[1], one[0]))
    assert [(one.value, one.count) for one in told.values] == expected[:4]
    assert (told.distinct, told.items) == (701, 1_007)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("indexed", [True, False])
def test_pages_in_the_order_of_a_field(indexed: bool, descending: bool, db: kinbin.Database) -> None:
    """All items with a number or string come once, in order, whatever the page size; the filter holds; ties are by id."""
    written = Written(db.create_collection("c", dim=4, indexes=KINDS if indexed else None), 13)
    written.add([f"{i}" for i in range(250)])
    if indexed:
        written.collection._indexing.wait()
    for field, size in (("n", 7), ("t", 40), ("o.d", 1_000), ("free", 11)):
        filter = some_filter(written.rng)

        def key(one: str, field: str = field) -> list[Any]:
            here: Any = written.payloads[one] or {}
            for name in field.split("."):
                here = here.get(name) if isinstance(here, dict) else None
            values = here if isinstance(here, list) else [here]
            return [(isinstance(x, str), x) for x in values if isinstance(x, int | float | str) and not isinstance(x, bool)]

        ids = [one for one in sorted(written.matching(filter)) if key(one)]
        expected = sorted(ids, key=lambda one: (max if descending else min)(key(one)), reverse=descending)
        if descending:
            # The order of equal ones is turned around as well: by id again.
            expected = [one for value in dict.fromkeys(max(key(x)) for x in expected) for one in ids if max(key(one)) == value]
        got: list[str] = []
        after = None
        while True:
            page = written.collection.scroll(after, size, filter, order_by=field, descending=descending)
            got += [item.id for item in page.items]
            after = page.next
            if after is None:
                break
        assert got == expected
        for _ in range(3):
            written.change()


@pytest.mark.parametrize("asked", [{"descending": True}, {"order_by": "$x"}, {"order_by": "n", "after": "eA"}, {"order_by": 3}])
def test_malformed_orders_are_refused(asked: dict[str, Any], db: kinbin.Database) -> None:
    """An order without a field, of no field, or continued with the cursor of another order is refused."""
    collection = db.create_collection("c", dim=2)
    with pytest.raises(InvalidInput):
        collection.scroll(**asked)
    with pytest.raises(InvalidInput):
        collection.facets("a..b")
