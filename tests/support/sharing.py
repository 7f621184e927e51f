"""What children do in tests of several processes on one database (`nursery.serve_database` does the rest)."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

import kinbin
import linked
from workload import Stored, Workload, findings


def find_differences(collection: Any, expected: Stored) -> list[str]:
    """`findings`, in the child that is asked."""
    return findings(collection, expected)


def do_step(collection: Any, seed: int, prefix: str, number: int) -> None:
    """A step of a workload."""
    Workload(seed, prefix).step(number).perform(collection)


def add_one_by_one(collection: Any, ids: list[str]) -> int:
    """A commit for each item; returns how many there are in the end."""
    told = 0
    for place, identifier in enumerate(ids):
        told = collection.add([identifier], np.full((1, 8), place + 4.0) + np.arange(8) * len(identifier)).count
    return told


def edit_for_ever(connection: Connection, path: str) -> None:
    """Add two items with years at a time, and delete one now and then; sends how often after each."""
    collection = kinbin.open(path).collection("c")
    number = 0
    while True:
        years = [{"year": number % 7}, {"year": number % 5}]
        collection.add([f"w{number}", f"v{number // 2}"], [[1, number + 1], [number + 1, 1]], years)
        if number % 9 == 8:
            collection.delete([f"w{number - 4}"])
        number += 1
        connection.send(number)


def be_quiet(collection: Any) -> None:
    """No background work in this child from now on, and links are chosen in less time, as in `linked.still`."""
    collection._upkeep_thread.wake = lambda: None
    linked.roughly(pytest.MonkeyPatch())


def do_steps(connection: Connection, path: str, seed: int, prefixes: list[str], steps: int) -> None:
    """A thread for each prefix does so many steps; runs are small and kept up in the background."""
    from crashing import make_runs_small

    make_runs_small()
    with kinbin.open(path) as database:
        collection = database.collection("c")
        connection.send("open")
        connection.recv()

        def run(prefix: str) -> None:
            for number in range(steps):
                Workload(seed, prefix).step(number).perform(collection)

        threads = [threading.Thread(target=run, args=(prefix,)) for prefix in prefixes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    connection.send("done")


def hold_upkeep(connection: Connection, path: str) -> None:
    """Be the elected maintainer until told to stop, or killed."""
    with kinbin.open(path) as database, database.collection("c")._upkeep.elected(wait=False) as mine:
        connection.send(mine)
        connection.recv()


def hold_upkeep_and_fork(connection: Connection, path: str) -> None:
    """Be the elected maintainer and fork a child that outlives it, which tells of itself when asked."""
    with kinbin.open(path) as database, database.collection("c")._upkeep.elected(wait=False) as mine:
        if os.fork() == 0:
            connection.recv()
            connection.send("still here")
            os._exit(0)
        connection.send(mine)
        signal.pause()


def hold_writer(connection: Connection, path: str) -> None:
    """Be inside a write transaction, with something put, until told to stop, or killed."""
    with kinbin.open(path) as database:
        store = database.collection("c")._store
        with store.write() as writer:
            writer.put_items([(b"half", 0, b"")])
            connection.send("inside")
            connection.recv()


def hold_reader(connection: Connection, path: str) -> None:
    """Be inside a read until told to stop, or killed."""
    with kinbin.open(path) as database, database.collection("c")._store.read() as reader:
        connection.send(reader.state().sequence)
        connection.recv()


def create_at_once(connection: Connection, path: str, names: list[str]) -> None:
    """Create collections when told, as others do at the same moment; send what came of each."""
    with kinbin.open(path) as database:
        connection.send("open")
        connection.recv()
        out = []
        for name in names:
            try:
                collection = database.create_collection(name, dim=4)
                out.append("created")
            except kinbin.CollectionExists:
                collection = database.create_collection(name, dim=4, exist_ok=True)
                out.append("there")
            collection.add([f"of {os.getpid()}"], [[1.0, 2, 3, 4]])
        connection.send(out)


def drop_at_once(connection: Connection, path: str, names: list[str]) -> None:
    """Drop collections when told, as others do at the same moment; send what came of each."""
    with kinbin.open(path) as database:
        connection.send("open")
        connection.recv()
        out = []
        for name in names:
            try:
                database.drop_collection(name)
                out.append("dropped")
            except kinbin.CollectionNotFound:
                out.append("gone")
        connection.send(out)


def use_after_fork(connection: Connection, path: str) -> None:
    """Open a database, fork, and tell what each use of it in the forked child raises; then use it here."""
    database = kinbin.open(path)
    collection = database.collection("c")
    be_quiet(collection)
    collection.add(["a"], [[1.0] * 24])
    reader_end, writer_end = os.pipe()
    held, forked = threading.Event(), threading.Event()

    def be_busy() -> None:
        # Whatever another thread holds at the moment of the fork nobody in the child will ever let go.
        store, upkeep = collection._store, collection._upkeep
        with database._lock, collection._writes._lead, store._write_lock, store._idle, upkeep.elected(wait=True):
            held.set()
            forked.wait(60)

    busy = threading.Thread(target=be_busy)
    busy.start()
    held.wait(60)
    pid = os.fork()
    if pid == 0:
        told = []
        forked.wait(0.2)
        for use in (
            lambda: collection.query([1.0] * 24),
            lambda: collection.add(["b"], [[1.0] * 24]),
            lambda: collection.delete(["a"]),
            lambda: collection.get(["a"]),
            collection.count,
            collection.scroll,
            collection.stats,
            collection.check,
            collection.compact,
            lambda: database.collection("c"),
            database.collections,
            lambda: database.create_collection("d"),
            lambda: database.drop_collection("c"),
        ):
            try:
                use()
                told.append("nothing")
            except Exception as error:  # noqa: BLE001 - its name is the answer
                told.append(type(error).__name__)
        database.close()
        with kinbin.open(path + "-other") as other:
            other.create_collection("c", dim=2).add(["x"], [[1.0, 2.0]])
            told.append(str(other.collection("c").count()))
        os.write(writer_end, ",".join(told).encode())
        os._exit(0)
    forked.set()
    busy.join()
    os.close(writer_end)
    # The child lives on, and does not keep what the parent has let go.
    with collection._upkeep.elected(wait=False) as mine:
        assert mine
    os.waitpid(pid, 0)
    told = os.read(reader_end, 10_000).decode().split(",")
    os.close(reader_end)
    collection.add(["c"], [[1.0] * 24])
    connection.send((told, collection.count(), collection.check().ok))
    database.close()
