"""Snapshots and shrinking beside what else a collection keeps: payload indexes, idempotency keys, aliases, other owners."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin

X = np.random.default_rng(5).random((30, 4)) + 0.1


@pytest.fixture
def database(tmp_path: Path) -> Iterator[kinbin.Database]:
    """A database."""
    with kinbin.open(tmp_path / "data") as opened:
        yield opened


def filled(database: kinbin.Database, name: str = "c", **terms: Any) -> kinbin.Collection:
    """A collection with an index, and items whose payloads it covers."""
    collection = database.create_collection(name, dim=4, indexes={"n": "number"})
    collection.add([str(i) for i in range(30)], X, [{"n": i % 3} for i in range(30)], **terms)
    return collection


@pytest.mark.parametrize("terms", [{}, {"idempotency_key": "once"}])
@pytest.mark.parametrize("written", ["nothing", "payloads", "deletes"])
def test_indexes_and_keys_are_in_snapshots(database: kinbin.Database, terms: dict[str, Any], written: str) -> None:
    """A collection with payload indexes and idempotency keys is copied as any other, whatever its log holds; filters answer alike."""
    collection = filled(database, **terms)
    if written == "payloads":
        collection.set_payload(["1"], [{"n": 2}])
    elif written == "deletes":
        collection.delete(filter={"n": 1})
    made = database.snapshots.create("c")
    assert database.snapshots.verify("c", str(made.id)).ok
    copy = database.restore(made, "copy")
    for n in range(3):
        assert copy.count({"n": n}) == collection.count({"n": n})
        assert copy.query(X[0], k=30, filter={"n": n}).ids == collection.query(X[0], k=30, filter={"n": n}).ids
    assert copy.check().ok


def test_shrinking_keeps_keys_and_indexes(database: kinbin.Database) -> None:
    """After a shrink an add that comes again with its key is not done twice, and the index answers what it did."""
    collection = filled(database, idempotency_key="once")
    collection.delete(["0", "3"])
    before = collection.count({"n": 0})
    collection.compact(shrink=True)
    again = collection.add([str(i) for i in range(30)], X, [{"n": i % 3} for i in range(30)], idempotency_key="once")
    assert again.replayed
    assert (collection.count(), collection.count({"n": 0})) == (28, before)
    assert collection.check().ok
    assert database.repair("c", "saved").problems == []


def test_snapshots_by_an_alias_are_those_of_the_collection(database: kinbin.Database) -> None:
    """Whatever name a snapshot is asked for by, it is one of the collection: listed, kept, verified and restored so."""
    for name in ("one", "two"):
        filled(database, name)
    database.alias("live", "one")
    first = database.snapshots.create("live")
    assert [one.id for one in database.snapshots.list("one")] == [one.id for one in database.snapshots.list("live")] == [first.id]
    assert database.snapshots.verify("one", str(first.id)).ok
    assert database.restore(first, "restored").count() == 30
    database.alias("live", "two")
    database.snapshots.create("live", keep=1)
    assert [one.id for one in database.snapshots.list("one")] == [first.id]
    assert len(database.snapshots.list("two")) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")
def test_a_shrunk_file_belongs_to_whom_the_old_one_did(database: kinbin.Database, tmp_path: Path) -> None:
    """Root may shrink what another user serves: owner and rights of the file stay."""
    collection = filled(database)
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    os.chown(file, 65_534, 65_534)
    file.chmod(0o640)
    collection.compact(shrink=True)
    found = file.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65_534, 65_534, 0o640)


def test_a_limit_below_what_is_there_freezes_nothing(database: kinbin.Database) -> None:
    """Items that are there may be replaced and their payloads written, however low the limit is; new ones are refused."""
    collection = filled(database)
    collection.set_limits(items=1)
    assert collection.add(["1"], X[5:6] * 2).updated == 1
    assert collection.set_payload(["2"], [{"n": 9}]).updated == 1
    with pytest.raises(kinbin.InvalidInput) as refused:
        collection.add(["1", "new"], X[:2])
    assert (refused.value.code, refused.value.problems[0].limit) == ("over_limit", "collection_items")
    assert collection.count() == 30


def test_names_that_are_no_unicode_and_endless_distances_are_refused(database: kinbin.Database) -> None:
    """Bad fields and numbers are InvalidInput, as everything that is malformed."""
    collection = filled(database)
    for call in (
        lambda: collection.facets("\ud800"),
        lambda: collection.scroll(order_by="\ud800"),
        lambda: collection.add_index("\ud800", "number"),
        lambda: collection.count({"g": {"$geo_radius": {"lat": 0, "lon": 0, "meters": 10**400}}}),
    ):
        with pytest.raises(kinbin.InvalidInput):
            call()
