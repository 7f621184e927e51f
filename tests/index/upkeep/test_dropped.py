"""A collection that is dropped while its upkeep is at work: the work ends quietly, and other failures are told as before."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinbin
from kinbin.errors import CollectionNotFound
from kinbin.upkeep.background import UpkeepThread

pytestmark = pytest.mark.usefixtures("quiet")

ALIVE_SECONDS = 20.0


def once_before_listing(monkeypatch: pytest.MonkeyPatch, folder: Path, act: Callable[[], Any]) -> threading.Event:
    """Let `act` happen between upkeep's look whether a folder is there and its listing of it; set once it has happened."""
    happened = threading.Event()
    scandir = os.scandir

    def listing(path: Any = ".") -> Any:
        if not isinstance(path, int) and Path(path) == folder and not happened.is_set():
            act()
            happened.set()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listing)
    return happened


def test_a_drop_under_upkeep_ends_it_quietly(
    db: kinbin.Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The folder that is gone when upkeep lists it is no failure: nothing is logged, counted or tried again."""
    collection = db.create_collection("c", dim=2)
    thread = UpkeepThread("c", collection._upkeep.step, lambda: 0)
    folder = collection._store.path

    def bury() -> None:
        # As `drop_collection` does, before it ends the threads.
        collection._mark_dropped()
        db._bury("c")

    happened = once_before_listing(monkeypatch, folder, bury)
    with caplog.at_level(logging.DEBUG, "kinbin.upkeep"):
        thread._start()
        thread._wake.set()
        assert happened.wait(ALIVE_SECONDS)
        thread.stop()
    assert not folder.exists()
    assert thread.report() == {"failures": 0, "in_a_row": 0, "last_failure": None}
    assert [record.getMessage() for record in caplog.records if "failed" in record.getMessage()] == []


def test_who_calls_for_upkeep_of_a_dropped_collection_is_told(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacting ends with CollectionNotFound where another one drops the collection under it, not with an error of the system."""
    collection = db.create_collection("c", dim=2)
    collection.add(["a"], [[1, 2]])
    happened = once_before_listing(monkeypatch, collection._store.path, lambda: db._bury("c"))
    with pytest.raises(CollectionNotFound):
        collection.compact()
    assert happened.is_set()


def test_a_failure_of_a_collection_that_is_there_stays_one(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder is there, an error of the system under upkeep is told as it is."""
    collection = db.create_collection("c", dim=2)
    collection.add(["a"], [[1, 2]])

    def fail() -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(collection._upkeep, "remove_orphans", fail)
    with pytest.raises(PermissionError):
        collection._upkeep.step()


@pytest.mark.parametrize("fields", [None, {"x": {"dim": 2}, "y": {"dim": 2}}])
def test_a_handle_of_what_was_dropped_says_so(db: kinbin.Database, fields: Any) -> None:
    """Whatever is asked of a dropped collection, the refusal is CollectionNotFound: the database is open."""
    made: Any = db.create_collection("c", dim=None if fields else 2, fields=fields)
    vector: Any = {"x": [1, 2], "y": [2, 1]} if fields else [1, 2]
    rows: Any = {"x": [[1, 2]], "y": [[2, 1]]} if fields else [[1, 2]]
    more = {"field": "x"} if fields else {}
    made.add(["a"], rows)
    db.drop_collection("c")
    uses: dict[str, Callable[[], Any]] = {
        "add": lambda: made.add(["b"], rows),
        "delete": lambda: made.delete(["a"]),
        "get": lambda: made.get(["a"]),
        "count": made.count,
        "stats": made.stats,
        "check": made.check,
        "compact": made.compact,
        "link": made.link,
        "query": lambda: made.query(vector),
        "query_batch": lambda: made.query_batch(rows),
        "query_id": lambda: made.query_id("a"),
        "tune": lambda: made.tune(**more),
        "recall": made.recall,
        "rebuild": lambda: made.rebuild(2, 2, **more),
        "duplicates": lambda: list(made.duplicates(0.5, **more)),
        "map": lambda: made.map(**more),
        "explain": lambda: made.explain([1, 2], id="a", **more),
    }
    said = {}
    for name, use in uses.items():
        with pytest.raises(CollectionNotFound) as caught:
            use()
        said[name] = str(caught.value)
    assert said == dict.fromkeys(uses, "the collection was removed")
    assert not made._is_current()
