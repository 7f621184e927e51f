"""`check` of payload indexes that others bring forward meanwhile: what is sound is never called damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kinbin
from background import no_background
from kinbin.indexes import file
from kinbin.upkeep import indexing

X = np.eye(4, dtype=np.float32) + np.float32(0.1)


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[kinbin.Collection]:
    """Four items with an index, which is on disk. Its background has ended: nobody but the test reads and writes the file."""
    with kinbin.open(tmp_path / "data") as database:
        made = database.create_collection("c", dim=4, indexes={"n": "number"})
        made.add(list("abcd"), X, [{"n": i} for i in range(4)])
        made._indexing.wait()
        made._indexing._thread.stop()
        with no_background():
            yield made


def write_and_save(collection: kinbin.Collection, number: int) -> None:
    """A commit, and the index on disk as of it, as another process may leave it."""
    collection.set_payload(["a"], [{"n": number}])
    with collection._store.read() as reader:
        index = collection._indexing.at(reader)
    assert index is not None
    collection._indexing._save(index[0])


def test_what_is_saved_during_a_check_is_sound(collection: kinbin.Collection) -> None:
    """A file that is newer than the snapshot that is checked is no damage."""
    told: list[str] = []

    def meanwhile(text: str) -> None:
        told.append(text)
        write_and_save(collection, len(told))

    assert collection.check(meanwhile).problems == []
    assert told


def test_what_is_saved_between_file_and_log_is_sound(collection: kinbin.Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that was cut behind the file that was read, as a newer file took its place, is no damage."""
    loaded: list[int] = []

    def load(path: Path) -> object:
        found = file.load(path)
        if len(loaded) < 2:
            loaded.append(len(loaded))
            write_and_save(collection, 10 + len(loaded))
        return found

    monkeypatch.setattr(indexing, "load", load)
    assert collection.check().problems == []
    assert len(loaded) == 2


def test_a_log_that_does_not_continue_the_file_is_told(collection: kinbin.Collection) -> None:
    """Where the log really lacks a commit, check says so."""
    collection.set_payload(["a"], [{"n": 5}])
    collection.set_payload(["a"], [{"n": 6}])
    with collection._store.write() as writer:
        writer.trim_changes(writer.state().sequence)
    assert any("does not continue what is on disk" in problem for problem in collection.check().problems)
