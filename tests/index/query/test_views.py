"""Views are brought forward from memory after this process's own commits; what they say is what the journal says."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import kinbin
import linked
from kinbin.bands.build import write_run
from kinbin.query.view import View, Views
from kinbin.storage.reading import Reader

DIM = 24


@pytest.fixture
def collection(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Rows that stay in the journal until they are sealed, which takes one of them."""
    monkeypatch.setattr("kinbin.upkeep.sealing.QUIET_SEAL_ROWS", 1)
    with linked.still(), kinbin.open(tmp_path / "data") as database:
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


def _edit(collection: Any, rng: np.random.Generator, rows: Any) -> None:
    """Some of 300 items are written, or deleted."""
    size = int(rng.choice([1, 2, 40]))
    if rng.random() < 0.2:
        collection.delete([str(i) for i in rng.integers(0, 300, 3)])
    else:
        collection.add([str(i) for i in rng.choice(300, size, replace=False)], rows[rng.integers(0, len(rows), size)])


def test_a_view_after_seals_and_merges_is_that_of_the_files(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that stay fresh are those that a view had, with what died of them; views of before stay as they were."""
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 4, (900, DIM)).astype(np.float32) + np.eye(DIM, dtype=np.float32)[rng.integers(0, DIM, 900)]

    def built_while_others_write(*given: Any) -> Any:
        made = write_run(*given)
        for _ in range(rng.integers(0, 4)):
            _edit(collection, rng, rows)
            if rng.random() < 0.5:
                _told(collection)
        return made

    kept: list[tuple[View, list[tuple[Any, ...]]]] = []
    with monkeypatch.context() as patch:
        patch.setattr("kinbin.upkeep.sealing.write_run", built_while_others_write)
        for step in range(140):
            _edit(collection, rng, rows)
            if step % 14 == 13:
                collection.compact()
            elif step % 7 in (2, 6):
                collection._upkeep.step(quiet=True)
            if step % 41 == 40:
                _as_another_process(collection, patch)
            known, read = _told(collection)
            assert known.state == read.state
            assert (known.live_rows, len(known.runs)) == (read.live_rows, len(read.runs))
            assert _fresh(known) == _fresh(read)
            kept.append((known, _fresh(known)))
    assert all(_fresh(view) == fresh for view, fresh in kept)
    assert sum(bool(view.runs and view.fresh.rows) for view, _ in kept) > 50


def test_an_attempt_that_failed_leaves_nothing_in_the_next_view(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it added to arrays and lists that views share is not counted twice, before a seal or after it."""
    rows = np.random.default_rng(8).random((60, DIM)).astype(np.float32)
    collection.add([str(i) for i in range(20)], rows[:20])
    _told(collection)

    fresh = iter(range(20, 60))

    def refuses(*_: object) -> None:
        raise kinbin.CorruptData("not now")

    def built_while_others_write(*given: Any) -> Any:
        made = write_run(*given)
        collection.add(["later"], rows[next(fresh) :][:1])
        with monkeypatch.context() as inner:
            inner.setattr(View, "of", refuses)
            with pytest.raises(kinbin.CorruptData):
                collection.query(rows[0])
        collection.add(["last"], rows[next(fresh) :][:1])
        _told(collection)
        return made

    with monkeypatch.context() as patch:
        patch.setattr("kinbin.upkeep.sealing.write_run", built_while_others_write)
        assert collection._upkeep.step(quiet=True)
        assert _fresh(_told(collection)[0]) == _fresh(_told(collection)[1])
        assert collection._upkeep.step(quiet=True)
    known, read = _told(collection)
    assert _fresh(known) == _fresh(read)
    assert collection.query(rows[23], k=1, mode="exact").ids == ["last"]


def test_rows_that_arrive_while_others_are_sealed_are_not_read_again(collection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query after a seal waits for no look at thousands of rows that it knew, and finds them."""
    rows = np.random.default_rng(7).random((400, DIM)).astype(np.float32)
    collection.add([str(i) for i in range(200)], rows[:200])
    read: list[int] = []

    def built_while_rows_arrive(*given: Any) -> Any:
        made = write_run(*given)
        collection.add([str(i) for i in range(200, 400)], rows[200:])
        collection.query(rows[399], k=1)
        collection.delete(["300"])
        collection.query(rows[399], k=1)
        read.clear()
        return made

    collection.query(rows[0], k=1)
    original = Reader.journal

    def noted(reader: Reader, after: int) -> Any:
        read.append(after)
        return original(reader, after)

    with monkeypatch.context() as patch:
        patch.setattr("kinbin.upkeep.sealing.write_run", built_while_rows_arrive)
        patch.setattr(Reader, "journal", noted)
        assert collection._upkeep.step(quiet=True)
        assert collection.query(rows[399], k=1, mode="exact").ids == ["399"]
        assert collection.query(rows[300], k=1, mode="exact").ids != ["300"]
        assert set(read) <= {3}, "commits are read that were known"
    known, from_files = _told(collection)
    assert _fresh(known) == _fresh(from_files)
    assert (known.fresh.rows, len(known.runs)) == (200, 1)
