"""Writes of collections with several fields: an item is there with all its vectors or not at all, whatever happens in between."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
from crashing import at_write, die, failing_write
from fielded import FIELDS, filled, ids, made, some, vectors
from kinbin.collection import Collection
from kinbin.edits import bury_rows

N = 60
ONE_WRITE = len(FIELDS) + 1
"""Transactions of an add of new items: one for each field, and the commit."""


@pytest.fixture(name="X")
def vectors_of_items(rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    """Vectors of all items, and of as many more."""
    return vectors(rng, 2 * N)


def _holds(c: kinbin.FieldsCollection, want: dict[str, tuple[dict[str, Any], Any]]) -> None:
    """The collection holds just these items (vectors, payload), every query finds them, and nothing is damaged."""
    assert c.check().problems == []
    assert c.count() == len(want)
    assert [item.id for item in c.scroll(limit=1_000).items] == sorted(want)
    for item in c.get(list(want)):
        assert item is not None
        X, payload = want[item.id]
        assert item.payload == payload
        assert item.vectors is not None
        np.testing.assert_array_equal(item.vectors["colour"], X["colour"].astype(np.float32))
        np.testing.assert_array_equal(item.vectors["texture"], X["texture"].astype(np.float32))
        for mode in ("exact", "bands"):
            (hit, *_) = c.query(X, k=len(want), mode=mode)
            assert hit.score == pytest.approx(1.0, abs=1e-6)
        assert item.id in c.query(X, k=len(want), mode="exact").ids


def _of(X: dict[str, Any], first: int, n: int) -> dict[str, tuple[dict[str, Any], Any]]:
    return {name: (some(X, i), {"i": i}) for name, i in zip(ids(n, first), range(first, first + n), strict=True)}


def test_writes_do_what_they_say(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Counts of new, updated and unchanged items are right, and so is what is stored after each write, fresh and in runs."""
    first = some(X, slice(0, 8))
    c = filled(db, first)
    want = _of(X, 0, 8)
    assert c.add(ids(8), first, [{"i": i} for i in range(8)]) == kinbin.AddResult(0, 0, 8, 8)
    _holds(c, want)
    changed = some(X, [20, 1])
    changed["texture"] = X["texture"][[0, 1]]
    assert c.add(ids(2), changed, [{"i": 20}, None]) == kinbin.AddResult(0, 2, 0, 8)
    want["i0000"] = ({name: part[0] for name, part in changed.items()}, {"i": 20})
    want["i0001"] = (want["i0001"][0], None)
    _holds(c, want)
    c.compact()
    assert c.add(ids(2, 7), some(X, slice(7, 9)), [{"i": 7}, {"i": 8}]) == kinbin.AddResult(1, 0, 1, 9)
    want |= _of(X, 8, 1)
    _holds(c, want)
    assert c.delete(["i0003", "nobody"]) == kinbin.DeleteResult(1, 8)
    assert c.delete(filter={"i": {"$in": [4, 20]}}) == kinbin.DeleteResult(2, 6)
    for gone in ("i0003", "i0004", "i0000"):
        del want[gone]
    _holds(c, want)
    c.compact()
    _holds(c, want)


def test_modes_of_writing(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """insert refuses what is there, update what is not; nothing of a refused batch is written, in any field."""
    c = filled(db, some(X, slice(0, 4)))
    with pytest.raises(kinbin.ItemConflict, match="in the collection already"):
        c.add(ids(2, 3), some(X, slice(3, 5)), mode="insert")
    with pytest.raises(kinbin.ItemConflict, match="not in the collection"):
        c.add(ids(2, 3), some(X, slice(10, 12)), mode="update")
    with pytest.raises(kinbin.InvalidInput, match="position 0 already"):
        c.add(["a", "a"], some(X, slice(0, 2)))
    _holds(c, _of(X, 0, 4))
    assert c.add([], {name: part[:0] for name, part in X.items()}).count == 4
    assert all(one._backlog() == 4 for one in c._fields.values())


def test_large_adds_are_cut(db: kinbin.Database, quiet: None, X: dict[str, Any], set_limit: Callable[[str, int], None]) -> None:
    """More than a transaction takes goes in several, cut at the same items in every field, and is refused where it must be atomic."""
    set_limit("batch_items", 7)
    set_limit("batch_nonzeros", 60)
    c = made(db)
    told: list[int] = []
    n = 20
    c.add(ids(n), some(X, slice(0, n)), [{"i": i} for i in range(n)], progress=lambda done, of: told.append(done))
    assert told[-1] == n
    assert len(told) > 3
    with pytest.raises(kinbin.InvalidInput, match="at most"):
        c.add(ids(9), some(X, slice(0, 9)), atomic=True)
    set_limit("batch_items", 100)
    _holds(c, _of(X, 0, n))


@pytest.mark.slow
@pytest.mark.durability
@pytest.mark.parametrize("when", ["before", "in", "after"])
@pytest.mark.parametrize("number", range(2 * ONE_WRITE - 1))
def test_a_write_that_fails_in_any_step_is_done_or_not_done(
    db: kinbin.Database, quiet: None, X: dict[str, Any], number: int, when: str
) -> None:
    """An error in any transaction of an upsert leaves the old items or the new ones, and no later write is hindered."""
    old, new = some(X, slice(0, 6)), some(X, slice(30, 36))
    c = filled(db, old)
    before, after = _of(X, 0, 6), dict(zip(ids(6), _of(X, 30, 6).values(), strict=True))
    failed = False
    with failing_write(number, when, kinbin.StorageFull("the disk is full")):
        try:
            c.add(ids(6), new, [{"i": i} for i in range(30, 36)])
        except kinbin.StorageFull:
            failed = True
    committed = number > len(FIELDS) or (number == len(FIELDS) and when == "after")
    assert failed == (number <= len(FIELDS))
    _holds(c, after if committed else before)
    c.add(ids(1, 6), some(X, [6]), [{"i": 6}])
    _holds(c, (after if committed else before) | _of(X, 6, 1))
    assert all(one._backlog() - one.stats()["dead_rows"] == 7 for one in c._fields.values()), "nothing is left over"


def _upsert_and_die(connection: Connection, path: str, X: dict[str, Any], write: int, when: str) -> None:
    """Replace items, and die at some transaction."""
    collection: Any = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.add(ids(6), some(X, slice(30, 36)), [{"i": i} for i in range(30, 36)])
    connection.send("done")


@pytest.mark.slow
@pytest.mark.durability
@pytest.mark.parametrize(("number", "when", "committed"), [(1, "after", False), (3, "in", False), (3, "after", True), (5, "before", True)])
def test_a_crash_between_steps_leaves_whole_items(
    tmp_path: Path, quiet: None, X: dict[str, Any], number: int, when: str, committed: bool
) -> None:
    """After a crash in any step there are the old items or the new ones, and behind the next write nothing is left over in any field."""
    with kinbin.open(tmp_path) as db:
        filled(db, some(X, slice(0, 6)))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_upsert_and_die, args=(theirs, str(tmp_path), X, number, when))
    child.start()
    child.join(60)
    assert child.exitcode == -9
    assert not ours.poll()
    with kinbin.open(tmp_path) as db:
        c: Any = db.collection("c")
        want = dict(zip(ids(6), _of(X, 30, 6).values(), strict=True)) if committed else _of(X, 0, 6)
        _holds(c, want)
        c.add(ids(1, 6), some(X, [6]), [{"i": 6}])
        assert all(one.count() == 7 for one in c._fields.values())
        _holds(c, want | _of(X, 6, 1))


def test_readers_never_see_half_an_item(db: kinbin.Database, X: dict[str, Any]) -> None:
    """While items are replaced and deleted, every reader sees versions whose vectors belong together, and every item once."""
    tagged = {name: part.copy() for name, part in X.items()}
    c = made(db)

    def version(v: int, n: int = 12) -> dict[str, Any]:
        out = some(tagged, slice(0, n))
        out = {name: part.copy() for name, part in out.items()}
        out["colour"][:, 0], out["words"][:, 0], out["texture"][:, 0] = v, v, v
        return out

    c.add(ids(12), version(1), [{"v": 1}] * 12)
    stop = threading.Event()
    faults: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                answer = c.query(some(tagged, 0), k=12, include=["vector", "payload"], mode="bands" if len(faults) % 2 else "exact")
                assert len(set(answer.ids)) == len(answer.ids)
                assert len(answer) in (10, 12)
                for hit in answer:
                    assert hit.vectors is not None
                    assert hit.payload is not None
                    colour, words, texture = (hit.vectors[name] for name in FIELDS)
                    assert isinstance(words, kinbin.Sparse)
                    assert not isinstance(colour, kinbin.Sparse)
                    assert not isinstance(texture, kinbin.Sparse)
                    got = {float(colour[0]), float(np.array(words.values)[0]), float(texture[0]), float(hit.payload["v"])}
                    assert len(got) == 1, got
                assert c.count() in (10, 12)
        except BaseException as error:  # noqa: BLE001 - it is told in the main thread
            faults.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for v in range(2, 14):
        c.add(ids(12), version(v), [{"v": v}] * 12)
        c.delete(["i0003", "i0004"])
        if v % 5 == 0:
            c.compact()
    stop.set()
    for reader in readers:
        reader.join()
    assert faults == []
    assert c.check().problems == []


def test_a_reader_that_misses_every_moment_keeps_writers_out(
    db: kinbin.Database, quiet: None, X: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there was a commit between all looks at the first store, all stores are opened while nobody can commit."""
    import kinbin.fields.moment

    c = filled(db, some(X, slice(0, 5)))
    monkeypatch.setattr(kinbin.fields.moment, "_PATIENCE", 0)
    _holds(c, _of(X, 0, 5))
    c.add(ids(1, 5), some(X, [5]), [{"i": 5}])
    _holds(c, _of(X, 0, 6))


def test_rows_that_are_not_of_the_commit_are_hidden(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Rows of a write that has not ended, and superseded ones that live still, are neither found, counted nor scored, in any mode."""
    c = filled(db, some(X, slice(0, 6)))
    with failing_write(len(FIELDS), "before", kinbin.StorageFull("the disk is full")), pytest.raises(kinbin.StorageFull):
        c.add(ids(2, 4), some(X, slice(40, 42)))
    with c._moments.open() as moment:
        assert all(part.masks is not None for part in moment.parts.values())
    _holds(c, _of(X, 0, 6))
    # What the first left is removed before the second begins.
    with failing_write(2 * len(FIELDS) + 1, "before", kinbin.StorageFull("the disk is full")):
        c.add(ids(2), some(X, slice(40, 42)), [{"i": 40}, {"i": 41}])
    with c._moments.open() as moment:
        assert all(part.masks is not None for part in moment.parts.values())
    _holds(c, _of(X, 0, 6) | dict(zip(ids(2), _of(X, 40, 2).values(), strict=True)))
    for mode in ("auto", "exact", "bands", "links"):
        assert len(c.query(some(X, 0), k=20, mode=mode)) == 6
        assert len(c.query(some(X, 0), k=20, mode=mode, filter={"i": {"$lt": 100}})) == 6


def test_writers_share_commits(db: kinbin.Database, quiet: None, X: dict[str, Any]) -> None:
    """Threads that write at once lose nothing, and each is told what it did."""
    c = made(db)

    def write(t: int) -> None:
        for j in range(3):
            i = 3 * t + j
            assert c.add([f"i{i:04d}"], some(X, [i]), [{"i": i}], mode="insert").indexed == 1
            c.add(["shared"], some(X, [i]), [{"i": i}])

    threads = [threading.Thread(target=write, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert c.count() == 13
    c.delete(["shared"])
    _holds(c, _of(X, 0, 12))


def test_two_openings_and_a_removal(tmp_path: Path, X: dict[str, Any]) -> None:
    """A collection with fields is listed once, is opened again as it was, is removed whole, and may be made anew."""
    with kinbin.open(tmp_path) as db:
        c = filled(db, some(X, slice(0, 5)), seed=7)
        assert db.collections() == ["c"]
        assert made(db, seed=7, exist_ok=True) is c
        for other in (FIELDS | {"colour": {"kernel": "ngmm", "dim": 16}}, {"colour": FIELDS["colour"]}):
            with pytest.raises(kinbin.CollectionExists, match="exists with"):
                db.create_collection("c", fields=other, exist_ok=True)
        with pytest.raises(kinbin.CollectionExists, match="with the fields colour, words, texture"):
            db.create_collection("c", dim=16, exist_ok=True)
        with pytest.raises(kinbin.CollectionExists, match="another seed"):
            db.create_collection("c", fields=FIELDS, seed=8, exist_ok=True)
    with kinbin.open(tmp_path) as db:
        again: Any = db.collection("c")
        assert isinstance(again, kinbin.FieldsCollection)
        assert list(again.config.fields) == list(FIELDS)
        _holds(again, _of(X, 0, 5))
        assert again.stats()["fields"]["words"]["count"] == 5
        assert set(again.background()) == {f"{work} {name}" for work in ("upkeep", "links") for name in FIELDS} | {"indexes"}
        db.drop_collection("c")
        with pytest.raises((kinbin.CollectionNotFound, kinbin.Closed)):
            again.count()
        assert db.collections() == []
        assert made(db, {"one": {}}).count() == 0
        db.create_collection("plain")
        with pytest.raises(kinbin.InvalidInput, match="has no fields"):
            db.fields_collection("plain")


def test_a_removal_that_was_cut_short_is_completed(tmp_path: Path, X: dict[str, Any]) -> None:
    """Whoever died between the mark of a removal and that of the files leaves a name that is free."""
    with kinbin.open(tmp_path) as db:
        filled(db, some(X, slice(0, 5)))._mark_dropped()
    with kinbin.open(tmp_path) as db:
        with pytest.raises(kinbin.CollectionNotFound):
            db.collection("c")
        assert filled(db, some(X, slice(0, 3))).count() == 3
        with pytest.raises(kinbin.CollectionExists):
            made(db)


BAD_FIELDS: tuple[tuple[Any, str], ...] = (
    ({}, "fields are a mapping"),
    (["colour"], "fields are a mapping"),
    ({"Colour": {}}, "a field's name"),
    ({"colour": "chi2"}, "'colour' is a mapping"),
    ({"colour": {"kernels": "chi2"}}, "did you mean 'kernel'"),
    ({"colour": {"kernel": "chi3"}}, "kernel is one of"),
    ({"colour": {"dim": 0}}, "dim is a whole number"),
    ({f"f{i}": {} for i in range(17)}, "at most 16 fields"),
)


@pytest.mark.parametrize(("fields", "says"), BAD_FIELDS)
def test_fields_that_cannot_be_are_refused(db: kinbin.Database, fields: Any, says: str) -> None:
    """What is wrong with the fields of a new collection is told, and nothing is made."""
    with pytest.raises(kinbin.InvalidInput, match=says):
        db.create_collection("c", fields=fields)
    with pytest.raises(kinbin.InvalidInput, match="each field has its own"):
        db.create_collection("c", fields=FIELDS, dim=5)
    assert db.collections() == []


def _lose_a_row(field: Collection) -> None:
    """One row of a field dies without its item."""
    with field._store.write() as writer:
        view = field._views.at(writer)
        assert view is not None
        bury_rows(writer, view, np.array([2], np.uint64))
    field.compact()


def test_damage_is_told(tmp_path: Path, quiet: None, X: dict[str, Any]) -> None:
    """An item without its row in one field is CorruptData where it is needed, and check names the field; a lost store is told as well."""
    with kinbin.open(tmp_path) as db:
        c = filled(db, some(X, slice(0, 6)))
        _lose_a_row(c._fields["texture"])
        assert any("field texture: 1 items have no row" in problem for problem in c.check().problems)
        with pytest.raises(kinbin.CorruptData, match="field 'texture' has 5 rows for 6 items"):
            c.query(some(X, 0), mode="exact")
        with pytest.raises(kinbin.CorruptData, match="no row in one of its fields"):
            c.get(["i0002"])
        assert c.add(["i0002"], some(X, [2]), [{"i": 2}]).updated == 1
        _holds(c, _of(X, 0, 6))
    shutil.rmtree(tmp_path / "collections" / "c" / "fields" / "words")
    with kinbin.open(tmp_path) as db, pytest.raises(kinbin.CorruptData, match=r"collection 'c/words': data\.mdb is not there"):
        db.collection("c")


def test_an_entry_of_the_journal_that_is_ahead_is_found(db: kinbin.Database, X: dict[str, Any]) -> None:
    """Its key may be damaged, which no checksum covers: every write refuses, so `check` tells of it."""
    c = filled(db, some(X, slice(0, 6)))
    assert c.check().ok
    with c._store.write() as writer:
        sequence = writer.state().sequence
        (entry,) = [commit for _, commit in writer.journal(0)]
        writer.append_commit(sequence + 7, entry)
    with pytest.raises(kinbin.CorruptData, match="the journal is ahead of the state record"):
        c.add(["new"], some(X, [7]))
    assert any("has an entry that is not of the last commit" in problem for problem in c.check().problems)
