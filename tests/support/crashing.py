"""What the children do that crash tests kill: endless work on a collection, each step reported once it is acknowledged."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection

import pytest

import kinbin
from kinbin.storage.store import Store
from kinbin.storage.transactions import Writer
from workload import Workload


def make_runs_small(rows: int = 64) -> None:
    """Seal often and merge at once: in the few moments that a child lives it does what takes others days."""
    import kinbin.upkeep.background
    import kinbin.upkeep.sealing

    kinbin.upkeep.sealing.SEAL_ROWS = rows
    kinbin.upkeep.background.QUIET_SECONDS = 0.02


def work(connection: Connection, path: str, seed: int, starts: dict[str, int]) -> None:
    """One thread for each prefix does its steps from a number on, for ever; sends (prefix, number) after each."""
    make_runs_small()
    database = kinbin.open(path)
    collection = database.collection("c")
    connection.send("open")
    told = threading.Lock()

    def steps(prefix: str, number: int) -> None:
        workload = Workload(seed, prefix)
        while True:
            workload.step(number).perform(collection)
            with told:
                connection.send((prefix, number))
            number += 1

    threads = [threading.Thread(target=steps, args=start) for start in starts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def at_write(number: int, when: str, act: Callable[[], object]) -> Iterator[list[int]]:
    """Act at write transaction `number` of this process: before it begins, in it after its edits, or after its commit.

    Gives a count of the transactions.
    """
    original = Store.write
    count = [0]

    @contextmanager
    def write(store: Store) -> Iterator[Writer]:
        here = count[0] == number
        count[0] += 1
        if here and when == "before":
            act()
        with original(store) as writer:
            yield writer
            if here and when == "in":
                act()
        if here:
            act()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "write", write)
        yield count


def failing_write(number: int, when: str, error: BaseException) -> AbstractContextManager[list[int]]:
    """Write transaction `number` raises. See `at_write`."""

    def fail() -> None:
        raise error

    return at_write(number, when, fail)


def crash_while_merging(connection: Connection, path: str, write: int, when: str) -> None:
    """Merge everything, and die at write transaction `write`: before it, in it, or after its commit.

    Sends "done" if there are fewer transactions than that.
    """
    collection = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.compact()
    connection.send("done")


def die() -> None:
    """End as a crash does, without a chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)
