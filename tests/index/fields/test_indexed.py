"""Payload indexes of collections with several fields: answers are those without them, whatever is written in between."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import kinbin
import naive
from filtering import KINDS, some_filter, some_payload
from kinbin.storage.transactions import Reader
from nursery import until

pytestmark = pytest.mark.usefixtures("quiet")
FIELDS: dict[str, Any] = {"one": {"dim": 4}, "two": {"dim": 3}}


class Written:
    """A collection, and what it has to hold."""

    def __init__(self, collection: kinbin.FieldsCollection, seed: int) -> None:
        self.collection, self.rng = collection, random.Random(seed)
        self.payloads: dict[str, Any] = {}
        self.numbers = np.random.default_rng(seed)

    def vectors(self, n: int) -> dict[str, Any]:
        """Of n items."""
        return {"one": self.numbers.random((n, 4)) + 0.1, "two": self.numbers.random((n, 3)) + 0.1}

    def add(self, ids: list[str]) -> None:
        """Add or replace items."""
        payloads = [some_payload(self.rng) for _ in ids]
        self.collection.add(ids, self.vectors(len(ids)), payloads)
        self.payloads.update(zip(ids, payloads, strict=True))

    def change(self) -> None:
        """One write of some kind."""
        what, known = self.rng.randrange(10), sorted(self.payloads)
        if what < 2:
            for one in (gone := self.rng.sample(known, min(len(known), 30))):
                del self.payloads[one]
            self.collection.delete(gone)
        elif what == 2:
            some = self.rng.sample(known, 10)
            payloads: list[Any] = [{"n": self.rng.randrange(5)} for _ in some]
            self.collection.set_payload(some, payloads)
            self.payloads.update(zip(some, payloads, strict=True))
        elif what == 3:
            # A commit that touches no item.
            self.collection.add([known[0]], self.vectors(1), [self.payloads[known[0]]], "upsert", idempotency_key=f"{self.rng.random()}")
        else:
            self.add([f"{self.rng.randrange(300)}" for _ in range(1)] if what < 8 else [f"{i}" for i in range(what * 20, what * 20 + 60)])

    def matching(self, filter: Any) -> set[str]:
        """The ids that pass, by the twin."""
        return {one for one, payload in self.payloads.items() if naive.matches(filter, payload)}


@pytest.mark.slow
@pytest.mark.parametrize("when", ["from the start", "later", "never"])
def test_any_filter_after_any_writes_is_the_twins(db: kinbin.Database, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and neighbours of random filters are those of the twin after every write, indexed or not; indexed ones read no payloads."""
    db.create_collection("c", fields=FIELDS, indexes=KINDS if when == "from the start" else None)
    written = Written(db.fields_collection("c"), 4)
    written.add([f"{i}" for i in range(260)])
    if when == "later":
        written.collection.change_indexes(KINDS)
    if when != "never":
        written.collection._indexing.wait()
    reads: list[int] = []
    original = Reader.all_items

    def counted(reader: Reader) -> Any:
        reads.append(1)
        return original(reader)

    monkeypatch.setattr(Reader, "all_items", counted)
    rounds = settings().max_examples
    for _ in range(rounds):
        filter = some_filter(written.rng)
        expected = written.matching(filter)
        assert written.collection.count(filter) == len(expected), filter
        found = written.collection.query({"one": [1, 2, 3, 4]}, k=400, filter=filter)
        assert set(found.ids) == expected, filter
        written.change()
    assert len(reads) < rounds / 3 if when != "never" else len(reads) >= rounds * 0.9
    assert written.collection.check().ok


def test_indexes_outlive_the_process_and_go_with_their_field(tmp_path: Path) -> None:
    """They are kept beside the items, brought forward by the log when the database is opened again, told by `stats`, and dropped."""
    path = tmp_path / "again"
    with kinbin.open(path) as first:
        first.create_collection("c", fields=FIELDS, indexes={"year": "number"})
        c = first.fields_collection("c")
        rng = np.random.default_rng(1)
        vectors = {"one": rng.random((50, 4)) + 0.1, "two": rng.random((50, 3)) + 0.1}
        c.add([f"{i}" for i in range(50)], vectors, [{"year": i} for i in range(50)])
        c._indexing.wait()
        assert c.stats()["indexes"]["fields"] == {"year": {"kind": "number", "ready": True}}
        assert c.background()["indexes"]["failures"] == 0
    with kinbin.open(path) as second:
        c = second.fields_collection("c")
        c.delete(["3"])
        assert c.count({"year": {"$lt": 5}}) == 4
        c._indexing.wait()
        assert c.count({"year": {"$lt": 5}}) == 4
        assert c.check().ok
        c.drop_index("year")
        assert c.stats()["indexes"] is None
        assert c.count({"year": {"$lt": 5}}) == 4
        c.delete(["4"])
        assert c.count({"year": {"$lt": 5}}) == 3
        c.add_index("year", "number", wait=True)
        assert c.count({"year": {"$lt": 5}}) == 3
        # The file of before is replaced in the background.
        until(lambda: c.check().ok)


def test_an_index_that_is_not_that_of_the_payloads_is_found(db: kinbin.Database) -> None:
    """`check` holds the saved index against the payloads."""
    db.create_collection("c", fields=FIELDS)
    c = db.fields_collection("c")
    rng = np.random.default_rng(1)
    c.add(["a", "b"], {"one": rng.random((2, 4)) + 0.1, "two": rng.random((2, 3)) + 0.1}, [{"year": 1}, {"year": 2}])
    # Built of items that are there, it is saved as of now; one that came first would be brought forward by the log.
    c.change_indexes({"year": "number"})
    until(lambda: (c.stats()["indexes"] or {})["bytes"])
    assert c.check().ok
    with c._store.write() as writer:
        (item,) = writer.items([b"a"])
        assert item is not None
        writer.put_items([(b"a", item[0], b'{"year":7}')])
    assert any("payload indexes" in problem for problem in c.check().problems)
