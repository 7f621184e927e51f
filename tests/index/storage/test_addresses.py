"""Address space: a process has many stores open, and a file that grows is opened anew in a larger map."""

from __future__ import annotations

import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.storage import addresses
from nursery import Nursery

DIM = 64
MAP = 4 << 20


@pytest.fixture
def small_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps begin with some MiB."""
    monkeypatch.setattr(addresses, "_LEAST", MAP)


def vectors(n: int, seed: int) -> np.ndarray:
    """Rows of noise."""
    return np.random.default_rng(seed).random((n, DIM))


@pytest.mark.parametrize(("size", "bits"), [(0, 34), (1 << 32, 34), ((1 << 32) + 1, 35), (1 << 38, 40), (1 << 41, 40)])
def test_what_a_file_is_mapped_in(size: int, bits: int) -> None:
    """16 GiB at least, four times the file's size, 1 TiB at most."""
    assert addresses.map_for(size) == 1 << bits


def test_many_collections_are_open_at_once(db: kinbin.Database) -> None:
    """Two hundred in one process, which had room for 127 maps of 1 TiB."""
    opened = [db.create_collection(f"c{i}", dim=2) for i in range(200)]
    for one in (opened[0], opened[-1]):
        one.add(["a"], [[1.0, 2.0]])
        assert one.query([1.0, 2.0]).ids == ["a"]


def test_a_process_that_may_open_no_more_files_says_so(db: kinbin.Database) -> None:
    """And goes on with the collections that are open; those that were not made are not there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = db.create_collection("first", dim=2)
    first.add(["a"], [[1.0, 2.0]])
    # What is compiled is read from files.
    assert first.query([1.0, 2.0]).ids == ["a"]
    told = ""
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 30, hard))
    try:
        for i in range(20):
            db.create_collection(f"c{i}", dim=2)
    except kinbin.StorageError as error:
        told = str(error)
    found = first.query([1.0, 2.0]).ids
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "may open no more files" in told
    assert found == ["a"]
    assert len(db.collections()) > 3
    for name in db.collections():
        assert db.collection(name).check().ok


@pytest.mark.slow
@pytest.mark.usefixtures("small_maps")
def test_a_file_that_grows_is_opened_anew(db: kinbin.Database, nursery: Nursery) -> None:
    """Several times, beside readers of this process and of another one: all of them go on, and nothing is lost."""
    collection = db.create_collection("c", dim=DIM)
    collection.add(["first"], vectors(1, 0))
    other = nursery.start("nursery:serve_database", str(db.path), "c")
    assert other.receive() == "open"
    stop, wrong, asked = threading.Event(), [], 0

    def ask() -> None:
        nonlocal asked
        while not stop.is_set():
            try:
                if collection.query(vectors(1, 0)[0], k=1).ids != ["first"]:
                    wrong.append("an answer")
                asked += 1
            except kinbin.KinbinError as error:
                wrong.append(repr(error))

    reader = threading.Thread(target=ask)
    reader.start()
    opening = collection._store.opening
    for i in range(60):
        collection.add([f"{i}/{j}" for j in range(500)], vectors(500, i + 1))
        if i % 10 == 0:
            assert other.call("count") == 1 + 500 * (i + 1)
            collection.compact()
    stop.set()
    reader.join()
    assert wrong == []
    assert asked > 10
    assert collection._store.opening >= opening + 2
    assert collection._store.files.env.info()["map_size"] >= 4 * MAP
    assert collection.count() == other.call("count") == 30_001
    assert collection.check().ok


@pytest.mark.usefixtures("small_maps")
def test_a_long_read_keeps_the_map_until_it_is_nearly_full(db: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers go on in the map that is read, wait for the reader where it is nearly full, and are refused with nothing written."""
    monkeypatch.setattr("kinbin.storage.store._PATIENCE", 0.2)
    collection: Any = db.create_collection("c", dim=DIM)
    collection.add(["first"], vectors(1, 0))
    reading, go_on = threading.Event(), threading.Event()

    def read() -> None:
        with collection._store.read():
            reading.set()
            go_on.wait(60)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(60)
    stored = 1
    with pytest.raises(kinbin.StorageBusy, match="long read"):  # noqa: PT012 - until it is refused
        for i in range(200):
            collection.add([f"{i}/{j}" for j in range(100)], vectors(100, i + 1))
            stored += 100
    assert stored > 1_000
    go_on.set()
    reader.join()
    assert collection.count() == stored
    collection.add(["last"], vectors(1, 999))
    assert collection.count() == stored + 1
    assert collection.check().ok


def test_a_file_of_before_keeps_what_it_says_of_itself(db: kinbin.Database) -> None:
    """The meta pages say 1 TiB as ever: an older version opens what this one wrote."""
    collection = db.create_collection("c", dim=2)
    for i in range(4):
        collection.add([str(i)], [[1.0, i + 1.0]])
    head = Path(db.path / "collections" / "c" / "data.mdb").read_bytes()
    assert [int.from_bytes(head[page + 32 : page + 40], "little") for page in (0, 4096)] == [addresses.MAP_SIZE] * 2
