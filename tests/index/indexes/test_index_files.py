"""Payload indexes on disk: opened again, damaged, of another history; failing writes; several processes; kills."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.indexes.file import load, save
from kinbin.storage.changes import change_key
from kinbin.storage.lookups import META
from kinbin.storage.transactions import Reader
from kinbin.upkeep.background import IndexThread
from kinbin.upkeep.indexing import FILE
from nursery import Nursery, until

pytestmark = pytest.mark.usefixtures("quiet")
KINDS = {"year": "number", "tag": "keyword", "seen": "datetime", "where": "geo"}
COUNT = 300


def made(path: Path) -> tuple[kinbin.Database, kinbin.Collection]:
    """A collection with indexes that are built and on disk."""
    db = kinbin.open(path)
    collection = db.create_collection("c", dim=2)
    payloads = [
        {"year": i % 10, "tag": [f"t{i % 3}", None], "seen": f"2026-01-{1 + i % 9:02}", "where": {"lat": i % 80, "lon": i % 7}}
        for i in range(COUNT)
    ]
    collection.add([f"{i}" for i in range(COUNT)], np.random.default_rng(0).random((COUNT, 2)) + 0.1, payloads)
    collection._indexing.change(KINDS)
    collection._indexing.wait()
    settle(collection)
    return db, collection


def settle(collection: kinbin.Collection) -> None:
    """Do in the foreground what the background would."""
    # While it does nothing, the thread of the same process is at it.
    until(collection._indexing._step)


def file_of(collection: kinbin.Collection) -> Path:
    """Where its indexes are on disk."""
    return collection._store.path / FILE


def is_right(collection: kinbin.Collection) -> bool:
    """Whether filters on every kind of index tell what the payloads say."""
    inside = {"$geo_box": {"south": 10, "west": -1, "north": 19, "east": 7}}
    since = {"$gte": {"$date": "2026-01-09"}}
    counts = [
        collection.count(one)
        for one in (
            {"year": {"$lt": 2}},
            {"tag": "t1"},
            {"seen": since},
            {"where": inside},
            {"tag": None},
        )
    ]
    return counts == [60, 100, 33, 40, 300]


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every reading of all payloads."""
    reads: list[int] = []
    original = Reader.all_items

    def counted(reader: Reader) -> Any:
        reads.append(1)
        return original(reader)

    monkeypatch.setattr(Reader, "all_items", counted)
    return reads


def test_an_index_is_opened_from_its_file(tmp_path: Path, unread: list[int]) -> None:
    """After opening again, indexes come from disk and are brought forward by the log: no payload is read that was not touched."""
    db, collection = made(tmp_path)
    collection.add(["0", "x"], [[1, 2], [2, 1]], [{"year": 3, "seen": "2026-01-01"}, {"year": 0, "tag": "t9"}])
    collection.delete(["1"])
    db.close()
    unread.clear()
    with kinbin.open(tmp_path) as again:
        there = again.collection("c")
        there._indexing.wait()
        assert [there.count({"year": one}) for one in (0, 1, 3)] == [30, 29, 31]
        assert there.count({"tag": "t9"}) == 1
        assert unread == []
        assert there.check().ok


@pytest.mark.parametrize("at", [0, 5, 12, 40, 0.5, 0.9, -1])
def test_a_damaged_file_is_told_and_built_anew(at: float, tmp_path: Path) -> None:
    """A flipped bit anywhere in the file, or a file that was cut, is told by check, never answered from, and healed."""
    db, collection = made(tmp_path)
    path = file_of(collection)
    assert collection.check().ok
    db.close()
    data = bytearray(path.read_bytes())
    data[int(at * len(data)) if isinstance(at, float) else at] ^= 4
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch, kinbin.open(tmp_path) as again:
        patch.setattr(IndexThread, "wake", lambda _: None)
        there = again.collection("c")
        assert there.check().problems == [
            f"the payload indexes on disk ({FILE}) are damaged: nothing is answered from them, they are built anew"
        ]
        assert is_right(there)
        settle(there)
        assert there.check().ok
        assert is_right(there)
    assert load(path) is not None


def test_what_is_not_of_the_payloads_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with right checksums whose values are not those of the payloads is told by check."""
    db, collection = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("kinbin.indexes.columns.Collector.take", lambda *_: None)
        file_of(collection).unlink()
        collection._indexing._versions = []
        settle(collection)
    assert collection.check().problems == ["the payload indexes are not those of the payloads: drop them and add them again"]
    db.close()


def _other_history(collection: kinbin.Collection) -> None:
    """The file is of the same commits of another history, in which all were a year older."""
    index = load(file_of(collection))
    assert index is not None
    ((segment, kept),) = index.parts
    column = segment.columns["year"]
    older = replace(column.ordered["number"], values=np.asarray(column.ordered["number"].values) + 1)
    columns = {**segment.columns, "year": replace(column, ordered={"number": older})}
    save(replace(index, mark=b"another!", parts=((replace(segment, columns=columns), kept),)), file_of(collection))


def _no_log(collection: kinbin.Collection) -> None:
    with collection._store.write() as writer:
        writer.trim_changes(writer.state().sequence + 1)


def _damaged_log(collection: kinbin.Collection) -> None:
    with collection._store.write() as writer:
        writer._put(META, change_key(writer.state().sequence), b"damaged")


@pytest.mark.parametrize("harm", [_other_history, _no_log, _damaged_log])
def test_what_does_not_fit_the_log_is_not_used(harm: Callable[[kinbin.Collection], None], tmp_path: Path, unread: list[int]) -> None:
    """A file of another history, and one whose log is missing or damaged, are not answered from; the index is built anew."""
    db, collection = made(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexThread, "wake", lambda _: None)
        collection.add(["x"], [[1, 2]], [{"year": 77}])
        harm(collection)
        db.close()
        with kinbin.open(tmp_path) as again:
            there = again.collection("c")
            assert there.count({"year": 77}) == 1
            settle(there)
            unread.clear()
            assert there.count({"year": {"$gte": 77}}) == 1
            assert is_right(there)
            assert unread == []
            # A damaged record is told as long as it is there: snapshots refuse it.
            assert there.check().problems == (["a record of what commits changed is damaged"] if harm is _damaged_log else [])


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file cannot be written, adds and filters go on, the failure is told, and the file comes later; the log stays until then."""
    with kinbin.open(tmp_path) as db:
        collection = db.create_collection("c", dim=2)

        def full(*_: Any) -> None:
            raise kinbin.StorageError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr("kinbin.upkeep.indexing.save", full)
            collection.add_index("year", "number", wait=True)
            collection.add(["a"], [[1, 2]], [{"year": 1}])
            assert collection.count({"year": 1}) == 1
            until(lambda: collection.background()["indexes"]["last_failure"] is not None)
            assert collection.background()["indexes"]["last_failure"]["detail"] == "the disk is full"
            assert not file_of(collection).exists()
        settle(collection)
        assert file_of(collection).exists()
        collection.add(["b"], [[1, 3]], [{"year": 1}])
        assert collection.count({"year": 1}) == 2


@pytest.mark.durability
def test_another_process_writes_and_is_killed(tmp_path: Path, nursery: Nursery) -> None:
    """What another process commits is in the index at the next question, up to the moment when it is killed; nothing needs to heal."""
    db, collection = made(tmp_path)
    other = nursery.start("sharing:edit_for_ever", str(tmp_path))
    for _ in range(20):
        n = other.receive()
        with collection._reading() as (reader, _):
            assert collection._filters._indexed(reader) is not None
        assert collection.count({"year": {"$exists": True}}) >= COUNT + n // 3
    other.kill()
    for year in range(10):
        expected = sum(item.payload is not None and item.payload.get("year") == year for item in everything(collection))
        assert collection.count({"year": year}) == expected
    assert collection.check().ok
    db.close()


def everything(collection: kinbin.Collection) -> list[Any]:
    """All items."""
    found, after = [], None
    while True:
        page = collection.scroll(after, 1_000)
        found += page.items
        after = page.next
        if after is None:
            return found
