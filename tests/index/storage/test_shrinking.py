"""Giving disk back while others have the files open."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

import kinbin
import kinbin.storage.store as stores
from background import no_background
from kinbin.storage import shrinking
from kinbin.storage.datafile import DataFile
from nursery import Nursery

DIM = 8
X = np.random.default_rng(3).random((3_000, DIM)).astype(np.float32)


@pytest.fixture
def database(tmp_path: Path) -> Any:
    """A database whose collection "c" holds 200 of once 3,000 items."""
    with no_background(), kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", dim=DIM, seed=1)
        for start in range(0, 3_000, 500):
            collection.add([f"i{n}" for n in range(start, start + 500)], X[start : start + 500], [{"text": "x" * 2_000}] * 500)
        collection.delete([f"i{n}" for n in range(200, 3_000)])
        yield database


def answers(collection: Any) -> list[Any]:
    """What it answers to some queries."""
    return [(answer.ids, answer.scores.tolist()) for answer in collection.query_batch(X[:20], k=5, mode="exact")]


def test_disk_is_given_back(database: Any, tmp_path: Path) -> None:
    """The file is as long as what lives, and the report says so; the content is the same, sound, and can be written to at once."""
    collection = database.collection("c")
    plain = collection.compact()
    before = answers(collection)
    done = collection.compact(shrink=True)
    size = (tmp_path / "data" / "collections" / "c" / "data.mdb").stat().st_size
    assert plain.before_bytes > 3 * done.after_bytes
    assert done.after_bytes <= size < done.before_bytes / 3
    assert done.freed_bytes == done.before_bytes - done.after_bytes
    assert (answers(collection), collection.count()) == (before, 200)
    assert collection.check().ok
    collection.add(["new"], X[:1] + 1)
    assert collection.compact(shrink=True).after_bytes < 2 * done.after_bytes
    assert database.check(["c"])["c"].ok
    assert not list(tmp_path.rglob(".shrunk-*"))
    database.close()
    with kinbin.open(tmp_path / "data") as again:
        assert again.collection("c").count() == 201


def test_a_collection_with_fields(database: Any) -> None:
    """All its stores are shrunk, and it is the same."""
    several = database.create_collection("several", fields={"colour": {"dim": DIM}, "words": {}})
    ids = [f"i{n}" for n in range(1_000)]
    several.add(ids, {"colour": X[:1_000], "words": [{n % 50 + 1: 1.0, 99: 2.0} for n in range(1_000)]}, [{"text": "x" * 2_000}] * 1_000)
    several.delete(ids[20:])
    several.compact()
    done = several.compact(shrink=True)
    assert done.after_bytes < done.before_bytes - 1_000_000
    assert several.check().ok
    several.add(["new"], {"colour": X[:1], "words": [{5: 1.0}]})
    assert several.count() == 21
    assert several.check().ok


def test_others_follow(database: Any, tmp_path: Path, nursery: Nursery) -> None:
    """Another process, which has the old file open, sees what is committed to the new one, and writes to that; nothing is lost."""
    collection = database.collection("c")
    other = nursery.start("nursery:serve_database", str(tmp_path / "data"), "c")
    assert other.receive() == "open"
    assert other.call("count") == 200
    for number in range(4):
        collection.compact(shrink=True)
        if number % 2:
            collection.add([f"here{number}"], X[number : number + 1] + 2)
            assert other.call("count") == 201 + 2 * number
            assert other.call("run", "sharing:add_one_by_one", [f"there{number}"]) == collection.count()
        else:
            assert other.call("run", "sharing:add_one_by_one", [f"there{number}"]) == 201 + 2 * number
            assert collection.add([f"here{number}"], X[number : number + 1] + 2).count == 202 + 2 * number
    assert None not in other.call("get", [f"{where}{number}" for where in ("here", "there") for number in range(4)])
    assert "data.mdb (deleted)" not in Path(f"/proc/{other.pid}/maps").read_text()
    other.begin("run", "sharing:add_one_by_one", [f"many{number}" for number in range(60)])
    for _ in range(6):
        collection.compact(shrink=True)
    assert other.result() == 268
    other.kill()
    assert collection.count() == 268
    assert collection.check().ok


def test_a_file_that_is_made_anew_right_behind_a_commit(
    database: Any, tmp_path: Path, nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is written to is not made anew by another process before the commit is acknowledged; the new file has it."""
    collection = database.collection("c")
    other = nursery.start("nursery:serve_database", str(tmp_path / "data"), "c")
    assert other.receive() == "open"
    looks = DataFile.check_named
    committed: list[bool] = []
    # Without those that reads make now and then.
    collection._store._look_due = float("inf")

    def looked(file: DataFile) -> None:
        # The look behind a commit is the second of a write.
        committed.append(True)
        if len(committed) == 2:
            other.begin("compact", shrink=True)
            assert not other.connection.poll(1)
        looks(file)

    with monkeypatch.context() as patch:
        patch.setattr(DataFile, "check_named", looked)
        assert collection.add(["new"], X[:1] + 1).count == 201
    assert len(committed) == 2
    other.receive()
    assert collection.get(["new"])[0] is not None
    assert collection.add(["newer"], X[:1] + 2).count == 202
    assert collection.check().ok


def test_threads_go_on(database: Any) -> None:
    """Readers and writers of the same process go on: every answer is right, every acknowledged item stays."""
    collection = database.collection("c")
    before, stop = answers(collection), threading.Event()
    wrong: list[Any] = []
    added: list[str] = []

    def read() -> None:
        while not stop.is_set():
            if answers(collection) != before:
                wrong.append("another answer")

    def write() -> None:
        while not stop.is_set():
            # Far from every query.
            collection.add([f"t{len(added)}"], np.eye(DIM, dtype=np.float32)[:1] * 1e-9 + np.arange(DIM) * 1e6 * (len(added) + 1))
            added.append(f"t{len(added)}")

    def guarded(work: Any) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (read, read, write)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        collection.compact(shrink=True)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert collection.count() == 200 + len(added)
    assert None not in collection.get(added, include=()) if added else True
    assert collection.check().ok


def test_only_what_was_made_of_it_takes_its_place(database: Any, tmp_path: Path) -> None:
    """An older copy of the file, from before a shrink or after it, is no successor: nothing is acknowledged."""
    collection = database.collection("c")
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    for name in ("before", "after"):
        shutil.copyfile(file, tmp_path / name)
        collection.compact(shrink=True)
        collection.add([name], X[:1] + 1)
    for name in ("before", "after"):
        shutil.copyfile(tmp_path / name, tmp_path / "copy")
        (tmp_path / "copy").rename(file)
        with pytest.raises(kinbin.CorruptData, match="replaced"):
            collection.add(["lost"], X[:1] + 2)


def test_damage_leaves_the_old_file(database: Any, tmp_path: Path) -> None:
    """A flipped bit in a record is told; the file stays as it is, and no draft of another one."""
    collection = database.collection("c")
    collection.compact()
    with collection._reading() as (_, view):
        place = int(view.runs[0].places(np.array([0]))[0][0]) - collection._store.files.base
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    number = file.stat().st_ino
    with file.open("r+b") as opened:
        opened.seek(place + 9)
        byte = opened.read(1)[0]
        opened.seek(place + 9)
        opened.write(bytes([byte ^ 4]))
    with pytest.raises(kinbin.CorruptData, match="checksum"):
        collection.compact(shrink=True)
    assert file.stat().st_ino == number
    assert not list(tmp_path.rglob(".shrunk-*"))


def test_a_long_read_is_waited_for(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a snapshot is read for long, the file is shrunk, others of the process are told to try again, and afterwards all is well.

    Whoever reads reads on: it would wait for itself.
    """
    collection = database.collection("c")
    monkeypatch.setattr(stores, "_PATIENCE", 0.1)
    with collection._store.read() as reader:
        thread = threading.Thread(target=lambda: collection.compact(shrink=True))
        thread.start()
        thread.join()
        assert reader.state().items == 200
        assert collection.count() == 200
        with ThreadPoolExecutor(1) as pool, pytest.raises(kinbin.StorageBusy, match="try again"):
            pool.submit(collection.count).result()
        with pytest.raises(kinbin.StorageBusy, match="try again"):
            collection.add(["new"], X[:1])
    assert collection.count() == 200
    assert collection.add(["new"], X[:1]).count == 201


def test_a_draft_that_a_crash_left_goes_away(database: Any, tmp_path: Path) -> None:
    """The next upkeep removes it."""
    draft = tmp_path / "data" / "collections" / "c" / f"{shrinking._DRAFT}{database.collection('c')._store.identity}-1"
    draft.mkdir()
    (draft / "data.mdb").write_bytes(b"x")
    database.collection("c").compact()
    assert not draft.exists()


def test_a_file_that_is_replaced_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew between Kinbin's look at the file and LMDB's, it is opened again: places of the old one are never used for the new one."""
    folder = tmp_path / "data" / "collections" / "c"

    def keep(old: Path, new: Path) -> None:
        shutil.copy(old, tmp_path / "old.mdb")
        shutil.copy(new, tmp_path / "new.mdb")

    with monkeypatch.context() as patch, no_background(), kinbin.open(tmp_path / "data") as database:
        # Both as they are when the new one gets the name: they say the same transaction.
        patch.setattr(shrinking, "_like", keep)
        collection = database.create_collection("c", dim=DIM)
        collection.add([str(i) for i in range(100)], X[:100])
        collection.delete([str(i) for i in range(0, 100, 2)])
        collection.compact(shrink=True)
    (tmp_path / "old.mdb").replace(folder / "data.mdb")
    opened = lmdb.open
    replaced: list[bool] = []

    def open_late(*arguments: Any, **options: Any) -> Any:
        if not replaced and Path(arguments[0]) == folder:
            replaced.append(True)
            (tmp_path / "new.mdb").replace(folder / "data.mdb")
        return opened(*arguments, **options)

    monkeypatch.setattr("kinbin.storage.opening.lmdb.open", open_late)
    with kinbin.open(tmp_path / "data") as database:
        collection = database.collection("c")
        assert replaced
        assert collection.count() == 50
        assert collection.query(X[1], k=1).ids == ["1"]
        assert collection.check().ok
