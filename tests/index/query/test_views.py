"""Views are brought forward from memory after this process's own commits; what they say is what the journal says."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.query.view import View, Views
from kinbin.storage.reading import Reader

DIM = 24


@pytest.fixture
def collection(tmp_path: Any) -> Any:
    """Rows that stay in the journal."""
    with kinbin.open(tmp_path / "data") as database:
        yield database.create_collection("rows", dim=DIM, seed=1)


def _fresh(view: View) -> list[tuple[Any, ...]]:
    """Every fresh row as a view knows it, its record by address."""
    fresh = view.fresh
    return [
        (
            int(fresh.row_numbers[i]), int(fresh.hashes[i]), fresh.keys[i].tolist(), fresh.dead.is_dead(i),
            ctypes.string_at(int(fresh.addresses[i]), int(fresh.rooms[i])),
        )
        for i in range(fresh.rows)
    ]  # fmt: skip


def _told(collection: Any) -> tuple[View, View]:
    """The view that the collection goes by, and one that is read from the files."""
    with collection._store.read() as reader:
        known, read = collection._views.at(reader), Views(collection._views.geometry).at(reader)
    assert known is not None
    assert read is not None
    return known, read


def test_a_view_after_own_commits_is_that_of_the_journal(collection: Any) -> None:
    """Row by row, after adds of few and of equal rows, and deletes."""
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, (600, DIM)).astype(np.float32) + np.eye(DIM, dtype=np.float32)[rng.integers(0, DIM, 600)]
    for step in range(120):
        size = int(rng.choice([1, 1, 2, 7]))
        which = rng.integers(0, len(rows), size)
        if step % 5 == 4:
            collection.delete([str(i) for i in rng.integers(0, 300, 3)])
        else:
            collection.add([str(i) for i in rng.choice(300, size, replace=False)], rows[which])
        known, read = _told(collection)
        assert known.state == read.state
        assert _fresh(known) == _fresh(read)
    assert _told(collection)[0].fresh.rows > 64, "arrays have grown"


def test_own_commits_are_not_read_back(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory is not read, decoded and proved again."""
    rows = np.random.default_rng(3).random((50, DIM)).astype(np.float32)
    collection.add(["first"], rows[:1])
    collection.query(rows[0])

    def refuses(*_: object) -> None:
        raise AssertionError("the journal is read")

    monkeypatch.setattr(Reader, "journal", refuses)
    for i in range(1, 20):
        collection.add([str(i)], rows[i : i + 1])
        assert collection.query(rows[i], k=1, mode="exact").ids == [str(i)]


def _as_another_process(collection: Any, patch: pytest.MonkeyPatch) -> None:
    """Commits from here on are those of somebody else: the collection's views hear of them by the journal only."""
    patch.setattr(collection, "_views", Views(collection._views.geometry))


def test_commits_of_others_come_from_the_journal(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own commits that do not reach to the state are no view of it."""
    rows = np.random.default_rng(4).random((50, DIM)).astype(np.float32)
    for i in range(0, 40, 2):
        collection.add([str(i)], rows[i : i + 1])
        with monkeypatch.context() as patch:
            _as_another_process(collection, patch)
            collection.add([str(i + 1)], rows[i + 1 : i + 2])
        known, read = _told(collection)
        assert known.state == read.state
        assert _fresh(known) == _fresh(read)


def test_what_failed_is_no_part_of_a_view(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that did not happen is never taken for the one that got its number."""
    rows = np.random.default_rng(5).random((50, DIM)).astype(np.float32)
    collection.add(["first"], rows[:1])
    collection.query(rows[0])
    finish = kinbin.edits.Transaction.finish

    def fails(self: Any) -> None:
        finish(self)
        raise kinbin.StorageFull("no room")

    with monkeypatch.context() as patch:
        patch.setattr("kinbin.edits.Transaction.finish", fails)
        with pytest.raises(kinbin.StorageFull):
            collection.add(["second"], rows[1:2])
    with monkeypatch.context() as patch:
        # The commit that has the failed one's number.
        _as_another_process(collection, patch)
        collection.add(["third"], rows[2:3])
    known, read = _told(collection)
    assert _fresh(known) == _fresh(read)
    assert known.fresh.rows == 2
