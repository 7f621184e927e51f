"""Opening, closing and sharing: nothing is leaked, nothing is left running."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kinbin
from kinbin.errors import Closed, InvalidInput, StorageError
from nursery import until
from workload import DIM, Workload, findings

pytestmark = pytest.mark.durability

LONG = 30.0


def descriptors(folder: Path) -> list[str]:
    """What this process has open below a folder, as far as the system tells (other tests' files are not looked at)."""
    opened = Path("/proc/self/fd")
    if not opened.exists():
        pytest.skip("the system does not tell which files are open")
    out = []
    for entry in opened.iterdir():
        try:
            out.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return sorted(path for path in out if path.startswith(os.path.realpath(folder)))


def maps(folder: Path) -> int:
    """How many files below a folder this process has mapped."""
    return Path("/proc/self/maps").read_text().count(os.path.realpath(folder))


def upkeep_threads() -> set[threading.Thread]:
    """The library's threads that run."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("kinbin")}


@pytest.mark.usefixtures("small_runs")
def test_fifty_openings_leak_nothing(folder: Path) -> None:
    """Opened, written, searched, kept up and closed fifty times: no file, map, thread or reader slot is left."""
    assert descriptors(folder) == []
    before = upkeep_threads()
    workload = Workload(1, "l")
    for number in range(50):
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            workload.step(number).perform(collection)
            collection.query(np.ones(DIM), k=3)
            if number % 10 == 0:
                collection.compact()
            assert [thread.name for thread in upkeep_threads() - before] == ["kinbin-upkeep-c"]
            until(lambda store=collection._store: store.files.env.readers().strip().count("\n") == 0)
            assert len(descriptors(folder)) >= 2
            assert maps(folder) > 0
        assert upkeep_threads() <= before
        assert descriptors(folder) == []
        assert maps(folder) == 0
    with kinbin.open(folder) as database:
        assert findings(database.collection("c"), workload.after(50)) == []


def test_two_hundred_reads_at_once_leave_no_slot(folder: Path) -> None:
    """Two hundred concurrent queries, and errors kept with their tracebacks, leave no reader slot taken."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        vectors = np.random.default_rng(1).random((100, DIM)) + 0.01
        collection.add([f"i{i}" for i in range(100)], vectors)
        start = threading.Barrier(200)

        def search(i: int) -> list[str]:
            start.wait(LONG)
            return collection.query(vectors[i % 100], k=1).ids

        with ThreadPoolExecutor(200) as threads:
            assert list(threads.map(search, range(200))) == [[f"i{i % 100}"] for i in range(200)]
        kept = []
        for _ in range(300):
            try:
                collection.query_id("nobody")
            except InvalidInput as error:
                kept.append(error)
        assert len(kept) == 300
        assert collection._store.files.env.readers().strip().count("\n") == 0


def test_databases_of_one_directory_share_its_files(folder: Path) -> None:
    """A directory opened twice in a process, by any path, is one set of files, which stays open until the last user closes."""
    other = folder.parent / "link"
    other.symlink_to(folder)
    first, second = kinbin.open(folder), kinbin.open(str(other))
    one, two = first.collection("c"), second.collection("c")
    assert one is two
    one.add(["a"], np.ones((1, DIM)))
    first.close()
    assert two.query(np.ones(DIM)).ids == ["a"]
    with pytest.raises(Closed):
        first.collection("c")
    second.close()
    with pytest.raises(Closed):
        two.query(np.ones(DIM))
    assert descriptors(folder) == []


def test_a_file_is_no_database(tmp_path: Path) -> None:
    """Who opens a file as a database is told that it is one."""
    place = tmp_path / "notes.txt"
    place.write_text("mine")
    with pytest.raises(StorageError, match=r"notes\.txt is a file; a database is a directory"):
        kinbin.open(place)
    assert place.read_text() == "mine"


def test_a_closed_database_refuses_everything(folder: Path) -> None:
    """After close(), which may be repeated, every use of the database and its collections raises Closed."""
    database = kinbin.open(folder)
    collection = database.collection("c")
    collection.add(["a"], np.ones((1, DIM)))
    database.close()
    database.close()
    for use in (
        lambda: database.collection("c"),
        database.collections,
        lambda: database.create_collection("d"),
        lambda: database.drop_collection("c"),
        lambda: collection.add(["b"], np.ones((1, DIM))),
        lambda: collection.delete(["a"]),
        lambda: collection.query(np.ones(DIM)),
        lambda: collection.query_id("a"),
        lambda: collection.get(["a"]),
        collection.scroll,
        collection.count,
        collection.stats,
        collection.check,
        collection.compact,
    ):
        with pytest.raises(Closed, match="closed"):
            use()


def test_closing_waits_for_what_is_under_way(folder: Path) -> None:
    """Threads that search and write while the database is closed get answers or Closed; every acknowledged item is there afterwards."""

    def write(collection: kinbin.Collection, prefix: str, done: list[str]) -> None:
        number = 0
        while True:
            name = f"{prefix}n{number}"
            try:
                collection.add([name], np.arange(1.0, DIM + 1)[None] + number)
                done.append(name)
                assert collection.query(np.ones(DIM), k=1).ids == ["a"]
            except Closed:
                return
            number += 1

    for round_ in range(5):
        database = kinbin.open(folder)
        collection = database.collection("c")
        collection.add(["a"], np.ones((1, DIM)))
        done: list[str] = []
        with ThreadPoolExecutor(4) as threads:
            workers = [threads.submit(write, collection, f"r{round_}w{worker}", done) for worker in range(4)]
            while len(done) < 20:
                threading.Event().wait(0.001)
            database.close()
            for worker in workers:
                worker.result(LONG)
        with kinbin.open(folder) as again:
            collection = again.collection("c")
            assert None not in collection.get(done, include=())
            assert collection.check().ok


def test_new_directories_are_put_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All directories that open() makes are synced, up to the first that existed: a power failure leaves a name to find the data by."""
    synced: list[Path] = []
    monkeypatch.setattr("kinbin.storage.directories.sync_directory", synced.append)
    deep = tmp_path / "made" / "now" / "data"
    kinbin.open(deep).close()
    made = {deep / "collections", deep, tmp_path / "made" / "now", tmp_path / "made", tmp_path}
    assert {path.resolve() for path in made} <= {path.resolve() for path in synced}
    synced.clear()
    kinbin.open(deep).close()
    assert synced == []


def test_a_creation_whose_last_sync_failed_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where just a collection's name could not be put on disk, the same call again sees to it; another one is refused."""
    with kinbin.open(tmp_path / "data") as database:

        def broken(_: Path) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("kinbin.storage.directories.sync_directory", broken)
            for _ in range(2):
                with pytest.raises(kinbin.StorageError):
                    database.create_collection("c", dim=4)
        with pytest.raises(kinbin.CollectionExists):
            database.create_collection("c", dim=5)
        synced: list[Path] = []
        monkeypatch.setattr("kinbin.storage.directories.sync_directory", synced.append)
        assert database.create_collection("c", dim=4).add(["a"], [[1, 2, 3, 4]]).count == 1
        assert (tmp_path / "data" / "collections").resolve() in synced
        with pytest.raises(kinbin.CollectionExists):
            database.create_collection("c", dim=4)


def test_what_the_system_forbids_is_told_as_a_storage_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the operating system, wherever a path is looked at, reaches the caller as Kinbin's."""

    def forbidden(path: object, *_: object) -> object:
        raise PermissionError(13, "Permission denied")

    with kinbin.open(folder) as database:
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", forbidden)
            # Which there are is told by their directories alone: those that may be read are used.
            assert database.collections() == ["c"]
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", forbidden)
            uses: list[Callable[[], object]] = [lambda: database.collection("c"), lambda: database.create_collection("d")]
            for use in uses:
                with pytest.raises(kinbin.StorageError, match="Permission denied"):
                    use()
        assert database.collection("c").count() == 0


def test_an_abandoned_database_keeps_nobody_waiting(folder: Path) -> None:
    """A database that was forgotten, not closed, does not keep the interpreter's collector or the next user from its files."""
    database = kinbin.open(folder)
    database.collection("c").add(["a"], np.ones((1, DIM)))
    del database
    gc.collect()
    with kinbin.open(folder) as again:
        assert again.collection("c").count() == 1
        assert os.path.realpath(again.path) == os.path.realpath(folder)
    _close_forgotten()


def _close_forgotten() -> None:
    """Close what the test above forgot, so that no other test finds it open."""
    from kinbin.sharing import SHARED

    for collection, _ in list(SHARED._open.values()):
        SHARED.release(collection, forget=True)
