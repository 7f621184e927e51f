"""Snapshots: one moment, proved on the way out and in, whole or not there."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.snapshots.file as files
from background import no_background
from kinbin.snapshots import kept, making
from kinbin.storage.lookups import RUNS
from linked import still
from workload import DIM, Workload, findings, same, stored_items

ROUNDS = 30


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """A database in which nothing happens in the background."""
    with still(), no_background(), kinbin.open(tmp_path / "data") as database:
        yield database


def filled(database: Any, name: str = "c") -> tuple[Any, Workload]:
    """A collection with a run of dead rows, links, shared vectors and fresh rows."""
    collection = database.create_collection(name, dim=DIM, bands=6, rows=2, seed=7)
    workload = Workload(3, name)
    for number in range(ROUNDS):
        workload.step(number).perform(collection)
        if number == ROUNDS - 8:
            collection.link()
    return collection, workload


def drafts(folder: Path) -> list[str]:
    """What is left of unfinished work below a folder."""
    return [str(path) for path in folder.rglob(".new-*")]


def test_a_restored_collection_is_the_same(database: Any, tmp_path: Path) -> None:
    """A restored copy holds every item, answers alike, has its links, passes `check`, has files of its own, and can be written to."""
    collection, workload = filled(database)
    made = database.snapshots.create("c")
    assert database.snapshots.verify("c", made.id) == kinbin.SnapshotReport(True, collection.count(), [])
    copy = database.restore(made, "copy")
    stored = workload.after(ROUNDS)
    assert findings(copy, stored) == []
    assert copy.stats()["links"] == collection.stats()["links"] != None  # noqa: E711
    queries = np.array([vector for vector, _ in stored.values()])
    for one, other in zip(collection.query_batch(queries), copy.query_batch(queries), strict=True):
        assert (one.ids, one.scores.tolist(), one.recall_lower_bound) == (other.ids, other.scores.tolist(), other.recall_lower_bound)
    with collection._store.read() as old, copy._store.read() as new:
        assert old.identity().secret != new.identity().secret
    copy.add(["new"], np.ones((1, DIM)))
    copy.compact()
    assert copy.check().ok
    assert (copy.count(), collection.count()) == (len(stored) + 1, len(stored))
    with kinbin.open(tmp_path / "other") as other:
        assert same(stored_items(other.restore(database.snapshots.path("c", made.id), "c")), stored)
    assert drafts(tmp_path) == []


def test_it_is_of_one_moment_while_others_write(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written, merged and removed while it is made is not in it; readers and writers go on."""
    collection, workload = filled(database)
    monkeypatch.setattr(files, "_BLOCK_RECORDS", 16)
    late: list[str] = []

    def meanwhile(_: float) -> None:
        late.append(f"late{len(late)}")
        collection.add(late[-1:], np.random.default_rng(len(late)).random((1, DIM)))
        if len(late) == 2:
            collection.compact()
        assert collection.query(np.ones(DIM), k=1).ids

    monkeypatch.setattr("kinbin.snapshots.making.time.sleep", meanwhile)
    made = database.snapshots.create("c")
    monkeypatch.undo()
    assert len(late) > 4
    assert made.grown_bytes > 0
    assert findings(database.restore(made, "copy"), workload.after(ROUNDS)) == []
    assert collection.count() == len(workload.after(ROUNDS)) + len(late)
    assert collection.check().ok


def test_collections_of_every_form(database: Any, tmp_path: Path) -> None:
    """Several fields, strings, sparse rows and nothing at all come back."""
    several = database.create_collection("several", fields={"colour": {"dim": 4}, "words": {}})
    several.add(["a", "b"], {"colour": np.ones((2, 4)), "words": [{1: 2.0}, {3: 1.0}]}, [{"n": 1}, None])
    several.add(["a"], {"colour": [[1, 2, 3, 4]], "words": [{9: 2.0}]}, [{"n": 2}])
    words = database.create_collection("words", items="strings")
    words.add(["x", "y"], ["kitten", "sitting"])
    database.create_collection("empty")
    for name in ("several", "words", "empty"):
        original = database.collection(name)
        info = original.snapshot(tmp_path / f"{name}.kinbin")
        assert (info.id, info.items, info.collection) == (None, original.count(), name)
        copy = database.restore(tmp_path / f"{name}.kinbin", f"{name}2")
        assert copy.check().ok, name
        assert copy.count() == original.count()
    assert database.collection("words2").query("kitten").distances.tolist() == [0, 3]
    item = database.collection("several2").get(["a"])[0]
    assert (item.payload, item.vectors["colour"].tolist()) == ({"n": 2}, [1, 2, 3, 4])
    database.collection("several2").add(["c"], {"colour": [[1] * 4], "words": [{1: 1.0}]})
    assert database.collection("several2").check().ok


def test_no_damaged_snapshot_is_restored(database: Any, tmp_path: Path) -> None:
    """Any flipped bit, a cut at any place and anything behind the end is told before a collection is made."""
    filled(database)
    path = tmp_path / "sound.kinbin"
    database.collection("c").snapshot(path)
    sound = path.read_bytes()
    rng = random.Random(5)
    harmed = []
    for _ in range(60):
        flipped = bytearray(sound)
        flipped[rng.randrange(len(sound))] ^= 1 << rng.randrange(8)
        harmed.append(bytes(flipped))
    harmed += [sound[: rng.randrange(len(sound))] for _ in range(20)] + [sound + b"x", b"", sound[:8]]
    for data in harmed:
        (tmp_path / "harmed").write_bytes(data)
        with pytest.raises((kinbin.CorruptData, kinbin.FormatMismatch)):
            database.restore(tmp_path / "harmed", "copy")
    assert database.collections() == ["c"]
    assert drafts(tmp_path) == []


def test_records_that_are_left_out_are_told(database: Any, tmp_path: Path) -> None:
    """A snapshot with right checksums that lacks one record, or has those of another collection, is refused."""
    filled(database)
    collection = database.collection("c")
    collection.snapshot(tmp_path / "whole.kinbin")
    with (tmp_path / "whole.kinbin").open("rb") as file:
        reader = files.SnapshotReader(file, (tmp_path / "whole.kinbin").stat().st_size)
        ((_, records),) = ((field, list(records)) for field, records in reader.stores())
    of_each = {(tree, key[4:5] if tree == 4 else key if tree == 0 else b""): place for place, (tree, key, _) in enumerate(records)}
    # What a run has of each part is told by its header, and looked at before a snapshot is made; see below.
    optional = {(0, b"depths"), (0, b"identity")} | {kind for kind in of_each if kind[0] == 4 and kind[1] != b"h"}
    assert len(of_each) > 12
    for kind, place in of_each.items():
        if kind in optional:
            continue
        target = tmp_path / "lacking.kinbin"
        target.unlink(missing_ok=True)
        with files.SnapshotWriter(target, tmp_path / "draft") as writer:
            writer.head(reader.head)
            writer.store("")
            for record in records[:place] + records[place + 1 :]:
                writer.put(record)
            writer.finish()
        with pytest.raises((kinbin.CorruptData, kinbin.FormatMismatch)):
            database.restore(target, "copy")
    assert database.collections() == ["c"]


def test_a_source_that_lacks_a_value_is_told(database: Any, tmp_path: Path) -> None:
    """Without any one part of a run, or of a link set, no snapshot is made."""
    collection, _ = filled(database)
    with collection._store.read() as reader:
        last = {key[:5]: key for key, _ in reader.scan_tree(RUNS, b"")}
    assert len(last) > 12
    database.close()
    for key in last.values():
        shutil.rmtree(tmp_path / "lacking", ignore_errors=True)
        shutil.copytree(tmp_path / "data", tmp_path / "lacking")
        with kinbin.open(tmp_path / "lacking") as lacking, lacking.collection("c")._store.write() as writer:
            writer._delete(RUNS, [key])
            writer.put_state(writer.state())
        with kinbin.open(tmp_path / "lacking") as lacking, pytest.raises(kinbin.CorruptData):
            lacking.snapshots.create("c")
        assert drafts(tmp_path) == []


def test_damage_in_the_source_is_told(database: Any, tmp_path: Path) -> None:
    """A flipped bit in a row, a code or an item of the collection: no snapshot is kept, and nothing is left of it."""
    collection, _ = filled(database)
    with collection._reading() as (_, view):
        place = int(view.runs[0].places(np.array([0]))[0][0]) - collection._store.files.base
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    with file.open("r+b") as opened:
        opened.seek(place + 9)
        byte = opened.read(1)[0]
        opened.seek(place + 9)
        opened.write(bytes([byte ^ 4]))
    with pytest.raises(kinbin.CorruptData, match="checksum"):
        database.snapshots.create("c")
    assert database.snapshots.list("c") == []
    assert list((tmp_path / "data" / "snapshots" / "c").iterdir()) == []


def test_ids_lists_and_retention(database: Any, tmp_path: Path) -> None:
    """They are listed in the order they were made; `keep` deletes the oldest of this collection alone; unknown ids are refused."""
    for name in "ab":
        database.create_collection(name, dim=3).add(["x"], [[1, 2, 3]])
    first = [database.snapshots.create("a") for _ in range(3)]
    other = database.snapshots.create("b")
    assert database.snapshots.list("a") == first
    last = database.snapshots.create("a", keep=2)
    assert database.snapshots.list("a") == [first[2], last]
    assert database.snapshots.list("b") == [other]
    database.drop_collection("a")
    assert database.restore(last, "a").count() == 1
    database.snapshots.delete("a", last.id)
    for call in ("path", "info", "delete", "verify"):
        for number in (last.id, "../../collections/a/data", "", "x" * 30):
            with pytest.raises(kinbin.SnapshotNotFound, match="no such snapshot"):
                getattr(database.snapshots, call)("a", number)
    with pytest.raises(kinbin.InvalidInput, match="keep"):
        database.snapshots.create("a", keep=0)
    with pytest.raises(kinbin.InvalidInput, match="name"):
        database.snapshots.list("../x")
    assert database.snapshots.list("none") == []


def test_what_is_told_of_a_snapshot_is_read_from_it_if_need_be(database: Any) -> None:
    """Without what lies beside it a snapshot is listed all the same; one that was altered since is told by `verify`."""
    database.create_collection("a", dim=3).add(["x"], [[1, 2, 3]])
    made = database.snapshots.create("a")
    path = database.snapshots.path("a", made.id)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o077) == (0o600, 0)
    path.with_suffix(".json").unlink()
    assert database.snapshots.list("a") == [made] == [database.snapshots.info("a", made.id)]
    database.collection("a").add(["y"], [[1, 2, 4]])
    later = database.snapshots.create("a")
    path.write_bytes(database.snapshots.path("a", later.id).read_bytes())
    assert database.snapshots.verify("a", made.id).problems == ["its SHA-256 is another than when it was made"]


def test_what_lies_beside_a_snapshot_is_believed_if_its_checksum_holds(database: Any) -> None:
    """Any flipped bit: what is told is read from the snapshot itself, and is what it was. Without it, one that was cut is told as that."""
    database.create_collection("a", dim=3).add(["x"], [[1, 2, 3]])
    made = database.snapshots.create("a")
    path = database.snapshots.path("a", made.id)
    beside = path.with_suffix(".json")
    content = beside.read_bytes()
    for bit in range(0, 8 * len(content), 5):
        beside.write_bytes(content[: bit >> 3] + bytes([content[bit >> 3] ^ 1 << (bit & 7)]) + content[(bit >> 3) + 1 :])
        assert database.snapshots.list("a") == [made]
        assert database.snapshots.verify("a", made.id).ok
    for odd in (b"null", b"5", b"[]", b"{}", b'"a"', b""):
        beside.write_bytes(odd)
        assert database.snapshots.list("a") == [made]
    later = database.snapshots.create("a")
    other = database.snapshots.path("a", later.id).with_suffix(".json")
    mine, theirs = beside.read_bytes(), other.read_bytes()
    beside.write_bytes(theirs)
    other.write_bytes(mine)
    assert database.snapshots.list("a") == [made, later]
    beside.unlink()
    path.write_bytes(path.read_bytes()[:-1])
    assert "cut off" in database.snapshots.list("a")[0].problem


def test_the_snapshot_that_was_listed_is_restored_or_none(database: Any) -> None:
    """An older one of the same collection under its name is whole, and another one."""
    collection = database.create_collection("a", dim=3)
    collection.add(["x", "y"], [[1, 2, 3], [3, 2, 1]])
    older = database.snapshots.create("a")
    collection.delete(["x"])
    newer = database.snapshots.create("a")
    path = database.snapshots.path("a", newer.id)
    path.write_bytes(database.snapshots.path("a", older.id).read_bytes())
    with pytest.raises(kinbin.CorruptData, match="another than the one that was listed"):
        database.restore(newer, "again")
    assert database.restore(older, "again").count() == 2


@pytest.mark.parametrize("fields", [False, True])
@pytest.mark.parametrize("harm", ["both exchanged", "copied, and nothing beside", "made before ids were said"])
def test_a_snapshot_says_which_it_is(database: Any, tmp_path: Path, harm: str, fields: bool) -> None:
    """Another one of its collection under its name is told, and restored by its path alone; one that says no id is believed."""
    of = {"fields": {"a": {"dim": 3}, "b": {"dim": 3}}} if fields else {"dim": 3}
    rows = [[1, 2, 3], [3, 2, 1]]
    collection = database.create_collection("a", **of)
    collection.add(["x", "y"], {"a": rows, "b": rows} if fields else rows)
    older = database.snapshots.create("a")
    collection.delete(["x"])
    if harm == "made before ids were said":
        path = database.snapshots.path("a", older.id)
        path.unlink()
        path.with_suffix(".json").unlink()
        assert database.collection("a").snapshot(path).id is None
        assert b'"id"' not in path.read_bytes()[:300]
        (found,) = database.snapshots.list("a")
        assert (found.id, found.items, found.problem) == (older.id, 1, "")
        assert database.snapshots.verify("a", older.id).ok
        assert database.restore(found, "again").count() == 1
        return
    newer = database.snapshots.create("a")
    paths = [database.snapshots.path("a", one.id) for one in (older, newer)]
    if harm == "both exchanged":
        for ending in (".kinbin", ".json"):
            one, two = (path.with_suffix(ending) for path in paths)
            content = one.read_bytes()
            one.write_bytes(two.read_bytes())
            two.write_bytes(content)
    else:
        paths[0].write_bytes(paths[1].read_bytes())
        paths[0].with_suffix(".json").unlink()
    found = database.snapshots.info("a", older.id)
    assert found == database.snapshots.list("a")[0] == database.snapshots.info("a", older.id)
    assert (found.id, found.problem) == (older.id, f"it is the snapshot {newer.id}")
    report = database.snapshots.verify("a", older.id)
    assert not report.ok
    with pytest.raises(kinbin.CorruptData, match="in the place of its own"):
        database.restore(found, "again")
    assert database.collections() == ["a"]
    assert database.restore(paths[0], "again").count() == 1
    shutil.copy(paths[0], tmp_path / "renamed")
    assert database.restore(tmp_path / "renamed", "renamed").count() == 1


def test_it_is_given_up(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth beyond its bound, and a flag that is set, end it, and nothing is left."""
    filled(database)
    monkeypatch.setattr(files, "_BLOCK_RECORDS", 16)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(kinbin.Closed, match="given up"):
        database.snapshots.create("c", cancel=stopped)
    sound = database.snapshots.create("c")
    with pytest.raises(kinbin.Closed, match="given up"):
        database.restore(sound, "copy", cancel=stopped)
    sizes = iter([10, *[3 << 30] * 100])
    monkeypatch.setattr(making, "_size", lambda _: next(sizes))
    with pytest.raises(kinbin.StorageBusy, match="grew by"):
        database.snapshots.create("c")
    assert database.snapshots.list("c") == [sound]
    assert drafts(tmp_path) == []
    assert database.collections() == ["c"]


@pytest.mark.parametrize("room", [0, 8, 100])
def test_a_full_disk_leaves_nothing(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Wherever the disk is full, from the first byte on, it is StorageFull, and no part of the snapshot stays."""
    collection = database.create_collection("c", dim=3)
    collection.add(["x"], [[1, 2, 3]])
    fdopen = os.fdopen

    class Full:
        def __init__(self, file: Any) -> None:
            self._file, self._room = file, room

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def write(self, data: memoryview) -> int:
            if len(data) > self._room:
                raise OSError(errno.ENOSPC, "planted")
            self._room -= len(data)
            return int(self._file.write(data))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda *given, **options: Full(fdopen(*given, **options)))
        with pytest.raises(kinbin.StorageFull):
            collection.snapshot(tmp_path / "mine")
        with pytest.raises(kinbin.StorageFull):
            database.snapshots.create("c")
    assert drafts(tmp_path) == []
    assert database.snapshots.list("c") == []


def test_a_kill_while_deleting_leaves_nothing_for_good(database: Any) -> None:
    """What is told of a snapshot whose file is gone is removed when the next one is made."""
    database.create_collection("c", dim=3).add(["x"], [[1, 2, 3]])
    first = database.snapshots.create("c")
    path = database.snapshots.path("c", first.id)
    path.unlink()
    assert path.with_suffix(".json").exists()
    second = database.snapshots.create("c")
    assert {entry.stem for entry in path.parent.iterdir()} == {second.id}


def test_only_into_a_new_collection(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is never overwritten: neither a collection nor a file; and other hashes, kernels and formats are refused."""
    collection, _ = filled(database)
    made = database.snapshots.create("c")
    with pytest.raises(kinbin.CollectionExists, match="into a new one"):
        database.restore(made, "c")
    (tmp_path / "there").write_text("mine")
    with pytest.raises(kinbin.InvalidInput, match="overwrites nothing"):
        collection.snapshot(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "mine"
    with pytest.raises(kinbin.FormatMismatch, match="no snapshot"):
        database.restore(tmp_path / "data" / "collections" / "c" / "data.mdb", "copy")
    with pytest.raises(kinbin.StorageError):
        database.restore(tmp_path / "none", "copy")
    with pytest.raises(kinbin.InvalidInput, match="path"):
        collection.snapshot(3)
    for name, value, text in (("HASH_VERSION", 77, "hash version"), ("format", 3, "format 3")):
        with monkeypatch.context() as patch:
            told = (
                {"HASH_VERSION": value}
                if name == "HASH_VERSION"
                else {"Head": lambda *given: dataclasses.replace(files.Head(*given), version=3)}
            )
            for one, other in told.items():
                patch.setattr(making, one, other)
            collection.snapshot(tmp_path / name)
        with pytest.raises(kinbin.FormatMismatch, match=text):
            database.restore(tmp_path / name, "copy")
    assert database.collections() == ["c"]


CHILD = """
import sys, time
from pathlib import Path
from kinbin.snapshots.file import Head, SnapshotWriter
path = Path(sys.argv[1])
with SnapshotWriter(path, path.with_name(f".new-{path.name}-1")) as writer:
    writer.head(Head("c", "", 0, None, 1))
    print("in the middle", flush=True)
    time.sleep(600)
"""


def test_a_kill_leaves_nothing_that_is_listed(database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle it is not there; the next one removes what was left, and nothing that another process is at."""
    filled(database)
    monkeypatch.setattr(kept, "_ABANDONED_SECONDS", -1.0)
    first = database.snapshots.create("c")
    target = database.snapshots.folder / "c" / "20260101T000000000Z-000000.kinbin"
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(target)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "in the middle\n"
        second = database.snapshots.create("c")
        assert len(drafts(tmp_path)) == 1
    finally:
        child.kill()
        child.communicate()
    assert database.snapshots.list("c") == [first, second]
    third = database.snapshots.create("c")
    assert drafts(tmp_path) == []
    assert database.snapshots.list("c") == [first, second, third]


def test_a_damaged_one_is_listed_as_that(database: Any) -> None:
    """Cut, emptied, another's, or without its beginning: it is told, what was written of it stays, and it is none of those to be kept."""
    for name in "ab":
        database.create_collection(name, dim=3).add(["x", name], [[1, 2, 3], [3, 2, 1]])
    kept = [database.snapshots.create("a") for _ in range(5)]
    cut, empty, foreign, headless, sound = kept
    paths = [database.snapshots.path("a", one.id) for one in kept]
    beside = paths[0].with_suffix(".json").read_bytes()
    paths[0].write_bytes(paths[0].read_bytes()[:40])
    paths[1].write_bytes(b"")
    paths[1].with_suffix(".json").unlink()
    paths[2].write_bytes(database.snapshots.path("b", database.snapshots.create("b").id).read_bytes())
    paths[2].with_suffix(".json").unlink()
    paths[3].write_bytes(bytes(64) + paths[3].read_bytes()[64:])
    told = database.snapshots.list("a")
    assert [one.id for one in told] == [one.id for one in kept]
    assert told[0].problem == f"it has 40 bytes, and had {cut.bytes:,} when it was made"
    assert [bool(one.problem) for one in told] == [True, True, True, True, False]
    assert told[3].problem == "this is no snapshot of Kinbin"
    assert told[2].problem == "it is one of the collection 'b'"
    assert paths[0].with_suffix(".json").read_bytes() == beside
    assert [database.snapshots.verify("a", one.id).ok for one in kept] == [False, False, False, False, True]
    for one in (cut, empty, foreign, headless):
        with pytest.raises((kinbin.CorruptData, kinbin.FormatMismatch)):
            database.restore(one, "again")
    last = database.snapshots.create("a", keep=2)
    assert [one.id for one in database.snapshots.list("a")] == [*(one.id for one in kept), last.id]
    assert sound.problem == ""
