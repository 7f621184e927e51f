"""Every write and sync that fails: the right error, nothing half done, answers go on, and it works again without reopening."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import io_faults
import kinbin
from io_faults import FAULTS, Fault
from kinbin.errors import StorageFull
from kinbin.storage.datafile import DataFile
from kinbin.storage.lockfile import last_commit
from kinbin.storage.mapped import _state_transaction
from nursery import Nursery
from workload import DIM

pytestmark = pytest.mark.durability


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database with runs, fresh rows and dead rows."""
    folder = tmp_path_factory.mktemp("template") / "data"
    io_faults.make_template(str(folder))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("action", ["add", "delete", "compact"])
def test_every_call_that_fails(watched: Nursery, template: Path, tmp_path: Path, action: str, fault: Fault) -> None:
    """Whichever call fails: an error that says whether to repeat, the old content or the new, and both work afterwards."""
    child = watched.start("io_faults:try_faults")
    outcomes: Counter[str] = Counter()
    # A merge has many calls that are alike; each of the first is tried, then some.
    skip, step = 0, 1
    while True:
        place = tmp_path / str(skip)
        shutil.copytree(template, place)
        child.connection.send((str(place), action, fault, skip))
        outcome, met, problems = child.receive()
        assert problems == [], f"call {skip} failed: {problems}"
        shutil.rmtree(place)
        if not met:
            assert outcome == ""
            break
        outcomes[outcome] += 1
        skip += step
        step = 1 if action != "compact" or skip < 8 else 5
    assert outcomes[""] == 0 or fault.partial, "a call failed and nobody was told"
    assert set(outcomes) <= {"", "StorageFull", "StorageBusy"}
    assert outcomes["StorageFull"] > 0
    if fault.times == 1 and not fault.partial:
        assert outcomes["StorageBusy"] > 0, "the last page of a commit failed: its outcome is unknown"


def test_the_files_are_opened_anew_under_nobodys_feet(watched: Nursery, template: Path, tmp_path: Path) -> None:
    """After a failed meta page everything is refused while a reader is left; then the next use opens the files anew, anywhere."""
    shutil.copytree(template, tmp_path / "data")
    child = watched.start("io_faults:lose_the_map", str(tmp_path / "data"))
    assert child.receive() == ["StorageBusy"] * 4
    assert child.receive() == []
    assert child.wait() == 0


@pytest.mark.slow
def test_a_commit_that_failed_is_told_from_one_that_is_undone(watched: Nursery, tmp_path: Path) -> None:
    """LMDB leaves the bytes that one flipped bit leaves as well; the table of readers tells which it was, and without it nobody knows."""
    child = watched.start("io_faults:end_after_a_lost_commit", str(tmp_path / "data"))
    assert child.receive() == "lost"
    assert child.wait() == 0
    file = DataFile(tmp_path / "data" / "collections" / "c")
    assert _state_transaction(file.descriptor, file.before) == file.meta.transaction + 1
    file.close()
    shutil.copytree(tmp_path / "data", tmp_path / "copied", ignore=shutil.ignore_patterns("lock.mdb"))
    # While LMDB opens a store alone the number is 0: what an opening leaves that is killed just then, or fails.
    for number in (None, 0):
        place = tmp_path / "data" / "collections" / "c" / "lock.mdb"
        if number is not None:
            table = bytearray(place.read_bytes())
            at = table.index(file.meta.transaction.to_bytes(8, "little"), 8)
            table[at : at + 8] = bytes(8)
            place.write_bytes(table)
        with kinbin.open(tmp_path / "data") as database:
            assert database.collection("c").count() == 1
            assert database.check()["c"].ok
    with kinbin.open(tmp_path / "copied") as database:
        with pytest.raises(kinbin.CorruptData, match="which state is the last is not known"):
            database.collection("c")
        states = database.recoverable("c")
        assert [state.items for state in states] == [2, 1]
        database.recover("c", states[1].transaction)
        assert database.collection("c").count() == 1
        assert database.check()["c"].ok


def test_the_table_is_read_by_one_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never closed, and no other one is opened; a table that cannot be read says nothing of damage."""
    with kinbin.open(tmp_path) as database:
        database.create_collection("c", dim=2).add(["a"], [[1.0, 2.0]])
    folder = tmp_path / "collections" / "c"
    assert last_commit(folder) is not None
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert {last_commit(folder) for _ in range(20)} == {DataFile(folder).meta.transaction}
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    (folder / "lock.mdb").unlink()
    assert last_commit(folder) is None
    (folder / "lock.mdb").touch()

    def refused(*arguments: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr("kinbin.storage.lockfile.os.open", refused)
    with pytest.raises(OSError, match="too many"):
        last_commit(folder)


def test_a_full_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the map is full, adds and deletes raise StorageFull and leave nothing, and answers go on; a larger map has room again."""
    monkeypatch.setattr("kinbin.storage.creation.MAP_SIZE", 3 << 20)
    monkeypatch.setattr("kinbin.storage.addresses.MAP_SIZE", 3 << 20)
    rng = np.random.default_rng(1)
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2)
        kept = _fill(collection, rng)
        _still_works(collection, kept)
        with pytest.raises(StorageFull):
            collection.delete(list(kept)[::2])
        _still_works(collection, kept)
    monkeypatch.setattr("kinbin.storage.addresses.MAP_SIZE", 30 << 20)
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        gone = [item.id for item in collection.scroll(limit=100).items]
        kept = {key: vector for key, vector in kept.items() if key not in gone}
        assert collection.delete(gone).count == len(kept)
        collection.compact()
        _still_works(collection, kept)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB, where the system lets this user make one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "kinbin-test", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except OSError as error:
        pytest.skip(f"no small file system can be made here: {error}")
    if done.returncode:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True, timeout=20)


def test_a_full_disk(small_disk: Path) -> None:
    """When the disk is full, adds raise StorageFull and lose nothing, answers go on, and freed space is used without reopening."""
    rng = np.random.default_rng(2)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3 << 20))
    with kinbin.open(small_disk / "data") as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2)
        kept = _fill(collection, rng)
        _still_works(collection, kept)
        with pytest.raises(StorageFull):
            collection.compact()
        _still_works(collection, kept)
        ballast.unlink()
        more = rng.random((50, DIM)) + 0.01
        collection.add([f"late{i}" for i in range(50)], more)
        kept |= {f"late{i}": more[i] for i in range(50)}
        collection.compact()
        _still_works(collection, kept)
    with kinbin.open(small_disk / "data") as database:
        _still_works(database.collection("c"), kept)


def test_a_disk_that_becomes_full_during_a_large_merge(small_disk: Path, nursery: Nursery) -> None:
    """A merge whose work space is in a file raises StorageFull when the disk is full, and works when it is not; nothing is lost."""
    child = nursery.start("io_faults:merge_on_a_full_disk", str(small_disk / "data"), str(small_disk / "ballast"))
    try:
        assert child.receive() == "StorageFull"
        assert child.receive() == ["i7"]
        assert child.receive() == ["i7"]
    except EOFError:
        pytest.fail(f"the process died: {child.wait()}")
    assert child.wait() == 0
    vectors = np.random.default_rng(1).random((2000, 24)) + 0.01
    with kinbin.open(small_disk / "data") as database:
        collection = database.collection("c")
        assert [run["rows"] for run in collection.stats()["runs"]] == [2000]
        _still_works(collection, {f"i{i}": vectors[i] for i in range(2000)})


def test_no_room_for_the_work_space_of_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file of a merge's work space gets no room, that is StorageFull, answers go on, and the next upkeep merges."""
    monkeypatch.setattr("kinbin.bands.build._IN_MEMORY", 0)
    monkeypatch.setattr("kinbin.upkeep.sealing.SEAL_ROWS", 64)
    vectors = np.random.default_rng(3).random((100, DIM)) + 0.01

    def refuse(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "planted")

    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        collection.add([f"i{i}" for i in range(100)], vectors)
        kept = {f"i{i}": vectors[i] for i in range(100)}
        with monkeypatch.context() as patch:
            patch.setattr("os.posix_fallocate", refuse)
            for merge in (collection._upkeep.step, collection.compact):
                with pytest.raises(StorageFull):
                    merge()
                _still_works(collection, kept)
        assert collection._upkeep.step()
        assert [run["rows"] for run in collection.stats()["runs"]] == [100]
        _still_works(collection, kept)


@pytest.mark.parametrize("fallocate", ["missing", "not supported"])
def test_room_is_taken_where_it_cannot_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fallocate: str) -> None:
    """Without posix_fallocate (macOS), or on a file system that has none, a merge's work space is written, so that its room is taken."""
    places, end = [], 0
    pwrite = os.pwrite

    def write_a_part(descriptor: int, data: bytes, place: int) -> int:
        nonlocal end
        places.append((place, end))
        count = pwrite(descriptor, memoryview(data)[: max(1, len(data) // 2)], place)
        end += count
        return count

    def refuse(*arguments: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "planted")

    monkeypatch.setattr("kinbin.bands.build._IN_MEMORY", 0)
    vectors = np.random.default_rng(3).random((2_000, DIM)) + 0.01
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2)
        if fallocate == "missing":
            monkeypatch.delattr("os.posix_fallocate")
        else:
            monkeypatch.setattr("os.posix_fallocate", refuse)
        monkeypatch.setattr("os.pwrite", write_a_part)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        collection.add([f"i{i}" for i in range(2_000)], vectors)
        collection.compact()
        assert all(place == before for place, before in places), "every byte is written"
        assert end == 4 * 6 * 2_000
        _still_works(collection, {f"i{i}": vectors[i] for i in range(2_000)})


def test_no_room_where_none_can_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills while the work space is written is StorageFull, before anything is mapped."""

    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "planted")

    monkeypatch.setattr("kinbin.bands.build._IN_MEMORY", 0)
    vectors = np.random.default_rng(3).random((100, DIM)) + 0.01
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=DIM, bands=6, rows=2)
        monkeypatch.delattr("os.posix_fallocate")
        monkeypatch.setattr("os.pwrite", refuse)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        collection.add([f"i{i}" for i in range(100)], vectors)
        with pytest.raises(StorageFull):
            collection.compact()
        _still_works(collection, {f"i{i}": vectors[i] for i in range(100)})


def _fill(collection: kinbin.Collection, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Add batches until one is refused for want of space. Returns what was acknowledged."""
    collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
    kept: dict[str, np.ndarray] = {}
    for batch in range(1000):
        vectors = rng.random((50, DIM)) + 0.01
        ids = [f"b{batch}i{i}" for i in range(50)]
        try:
            collection.add(ids, vectors)
        except StorageFull as error:
            refused = error
            break
        kept |= dict(zip(ids, vectors, strict=True))
    else:
        raise AssertionError("it never became full")
    assert str(refused).startswith("collection 'c': the ")
    assert collection.get(ids) == [None] * 50
    return kept


def _still_works(collection: kinbin.Collection, kept: dict[str, np.ndarray]) -> None:
    assert collection.count() == len(kept)
    answers = collection.query_batch(np.array(list(kept.values())), k=1, mode="bands")
    assert [answer.ids[0] for answer in answers] == list(kept)
    report = collection.check()
    assert report.ok, report.problems
