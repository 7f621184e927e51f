from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import lmdb
import pytest

import kinbin.storage.creation
import kinbin.storage.directories
from kinbin.errors import CorruptData, StorageError, StorageFull
from kinbin.storage.addresses import map_for
from kinbin.storage.creation import create_store
from kinbin.storage.lockfile import MAX_READERS, make_lock_file
from kinbin.storage.store import Store
from store_contract import StoreContract, add_row, everything
from stored_headers import CONFIGURATION


class TestLmdbStore(StoreContract):
    """The contract, kept by LMDB."""

    busy_slots = MAX_READERS

    def create(self, path: Path) -> None:
        """An empty store."""
        create_store(path, self.CONFIGURATION)

    def open(self, path: Path) -> Store:
        """An open store."""
        return Store(path)

    def slots_in_use(self, store: Any) -> int:
        """Lines of lmdb's reader table, without its heading."""
        return int(store.files.env.readers().strip().count("\n"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A new, empty store, closed."""
    create_store(tmp_path / "store", CONFIGURATION)
    return tmp_path / "store"


def test_every_commit_is_synced(place: Path) -> None:
    """The environment is opened to put pages and meta pages on disk at every commit, and never to write through the map."""
    store = Store(place)
    flags = store.files.env.flags()
    assert flags["sync"]
    assert flags["metasync"]
    assert not flags["writemap"]
    assert not flags["map_async"]
    assert flags["lock"]
    info = store.files.env.info()
    assert info["map_size"] == map_for(0) >= 1 << 34
    assert info["max_readers"] == MAX_READERS >= 1024
    store.close()


def test_a_new_store_is_complete_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are on disk, and named there, before the rename; the rename is put on disk as well."""
    events: list[tuple[str, str]] = []

    def sync(path: Path) -> None:
        events.append(("sync", path.name))
        assert (path / "data.mdb").exists() == path.name.startswith(".new-")

    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        events.append(("rename", path.name))
        return rename(path, target)

    monkeypatch.setattr(kinbin.storage.creation, "sync_directory", sync)
    monkeypatch.setattr(kinbin.storage.directories, "sync_directory", sync)
    monkeypatch.setattr(Path, "rename", renamed)
    create_store(tmp_path / "store", CONFIGURATION)
    draft = events[0][1]
    assert draft.startswith(".new-store-")
    above = [("sync", parent.name) for parent in tmp_path.parents]
    assert events[:3] == [("sync", draft), ("rename", draft), ("sync", tmp_path.name)]
    assert events[3:] == above[: len(events) - 3]
    mount = next(parent for parent in (tmp_path, *tmp_path.parents) if parent.is_mount())
    assert events[-1] == ("sync", mount.name)
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]
    assert sorted(entry.name for entry in (tmp_path / "store").iterdir()) == ["data.mdb", "lock.mdb"]


def test_syncing_a_directory_syncs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sync_directory calls fsync on that very directory."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor)))
    kinbin.storage.directories.sync_directory(tmp_path)
    assert [found.st_ino for found in synced] == [tmp_path.stat().st_ino]
    assert stat.S_ISDIR(synced[0].st_mode)


def test_a_name_is_taken_once(place: Path) -> None:
    """Creating a store where there is one raises FileExistsError, changes nothing and leaves nothing behind."""
    store = Store(place)
    add_row(store, 0)
    before = everything(store)
    with pytest.raises(FileExistsError):
        create_store(place, CONFIGURATION)
    assert everything(store) == before
    assert [entry.name for entry in place.parent.iterdir()] == ["store"]
    store.close()


def test_a_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a store cannot be written, no part of it stays, and the next attempt works."""

    def full(*_: Any) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("kinbin.storage.format.encode_state", full)
        with pytest.raises(StorageError):
            create_store(tmp_path / "store", CONFIGURATION)
    assert list(tmp_path.iterdir()) == []
    create_store(tmp_path / "store", CONFIGURATION)


def no_room(*_: Any) -> None:
    """In the place of posix_fallocate, on a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_the_table_of_readers_has_its_room(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no hole, whether it is made with the store or because it is missing; a page without room would end whoever reads there."""
    table = place / "lock.mdb"
    room = table.stat().st_size
    assert table.stat().st_blocks * 512 >= room
    Store(place).close()
    assert table.stat().st_size == room, "as large as LMDB makes it"
    table.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", no_room, raising=False)
        with pytest.raises(StorageFull):
            Store(place)
        assert [entry.name for entry in place.iterdir()] == ["data.mdb"]
    Store(place).close()
    assert table.stat().st_blocks * 512 >= table.stat().st_size == room


def test_a_store_without_room_for_its_readers_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that has no room for the table of readers is StorageFull, nothing stays, and the next attempt works."""
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", no_room, raising=False)
        with pytest.raises(StorageFull):
            create_store(tmp_path / "store", CONFIGURATION)
    assert list(tmp_path.iterdir()) == []
    create_store(tmp_path / "store", CONFIGURATION)
    Store(tmp_path / "store").close()


def test_a_table_of_readers_of_others_stays(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process makes the table meanwhile, that one is used, with whoever is in it."""
    table = place / "lock.mdb"
    table.unlink()

    def faster(*_: Any) -> None:
        table.write_bytes(b"theirs")

    monkeypatch.setattr("os.posix_fallocate", faster, raising=False)
    make_lock_file(place)
    assert table.read_bytes() == b"theirs"
    assert sorted(entry.name for entry in place.iterdir()) == ["data.mdb", "lock.mdb"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """A missing directory, an empty one and a file of something else are refused as Kinbin's errors, and nothing is created."""
    with pytest.raises(StorageError):
        Store(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError):
        Store(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "data.mdb").write_bytes(b"something else" * 4096)
    with pytest.raises(CorruptData, match="other bytes than those of a store"):
        Store(tmp_path / "other")


def test_opening_twice_in_a_process_is_refused(place: Path) -> None:
    """A second environment of the same files in one process would destroy isolation: it is refused, and the first one lives on."""
    store = Store(place)
    with pytest.raises(StorageError):
        Store(place)
    add_row(store, 0)
    assert len(everything(store)["items"]) == 1
    store.close()


def test_readers_of_dead_processes_are_swept_at_opening(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening asks lmdb to free the slots of processes that died, and so does a read that finds no slot."""
    store = Store(place)
    swept = []

    class Environment:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def reader_check(self) -> int:
            swept.append(True)
            return int(real.reader_check())

        def begin(self, **options: Any) -> Any:
            if not options.get("write") and not swept:
                raise lmdb.ReadersFullError("taken")
            return real.begin(**options)

    real = store.files.env
    monkeypatch.setattr(store.files, "env", Environment())
    with store.read() as reader:
        assert reader.state().items == 0
    assert swept == [True]
    monkeypatch.undo()
    store.close()
