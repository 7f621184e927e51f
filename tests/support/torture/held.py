"""What the processes do that are killed while they hold a lock, or that go on beside them: children of `torture.locks`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.fields.collection
import kinbin.fields.writing
import kinbin.pools.pools
import kinbin.upkeep.background
import kinbin.upkeep.indexing
import kinbin.upkeep.linking
import kinbin.upkeep.sealing
import linked
from crashing import die
from kinbin.database import Database
from kinbin.snapshots.file import SnapshotWriter
from kinbin.snapshots.kept import Snapshots
from kinbin.storage.group import GroupCommit
from kinbin.storage.store import Snapshot, Store
from torture.disk import KILL, Shim
from torture.planted import planted_locks
from workload import DIM, Workload

__all__ = ["LOCKS", "SEED", "VICTIM", "WHERE", "be_killed", "begin", "go_on"]

SEED = 29
VICTIM = "v"
WHERE = ("taken", "inside", "leaving")
"""When a process is killed that holds a lock: when it has it, at one of its calls that change files, before it lets go."""
WORDS = 160
_FREEING = 100
"""So many edits free the reader slots of the dead, though some of them find nothing to delete."""
_ELECTING: tuple[Any, ...] = (
    kinbin.upkeep.sealing, kinbin.upkeep.linking, kinbin.upkeep.indexing, kinbin.fields.writing, kinbin.fields.collection,
    kinbin.pools.pools,
)  # fmt: skip
"""Modules that hold elections."""


class Trap:
    """Kills this process while a thread of it holds a lock, the so-many-th time that it is taken."""

    def __init__(self, shim: Shim, where: str, times: int, call: int) -> None:
        self._shim, self._where, self._times, self._call = shim, where, times, call
        self._counting = threading.Lock()

    def take(self) -> bool:
        """The calling thread has the lock now. Returns whether it is killed before it lets go."""
        with self._counting:
            self._times -= 1
            if self._times != -1:
                return False
        if self._where == "taken":
            die()
        if self._where == "inside":
            self._shim.mean()
            self._shim.plan(KILL, skip=self._call, meant_only=True)
        return True

    @contextmanager
    def holding(self, manager: Any, *, through: bool = False) -> Iterator[Any]:
        """Hold what a context manager holds. through: what it does at its end is inside of the lock, too."""
        chosen = False
        with manager as value:
            if value is not False:
                chosen = self.take()
            try:
                yield value
            finally:
                if chosen and not (through and self._where == "inside"):
                    die()
        if chosen:
            die()


class _TrappedLock:
    """A lock of threads."""

    def __init__(self, lock: Any, trap: Trap) -> None:
        self._lock, self._trap = lock, trap
        self._holds: list[Any] = []

    def __enter__(self) -> None:
        manager = self._trap.holding(self._lock_held())
        manager.__enter__()
        self._holds.append(manager)

    @contextmanager
    def _lock_held(self) -> Iterator[None]:
        with self._lock:
            yield

    def __exit__(self, *error: object) -> None:
        self._holds.pop().__exit__(None, None, None)


def _election(file: str) -> Callable[[pytest.MonkeyPatch, Trap], None]:
    def lay(patch: pytest.MonkeyPatch, trap: Trap) -> None:
        original = kinbin.upkeep.election.elected

        def elected(path: Path, *, wait: bool) -> Any:
            manager = original(path, wait=wait)
            return trap.holding(manager) if path.name == file else manager

        for module in _ELECTING:
            patch.setattr(module, "elected", elected)

    return lay


def _held_by(owner: type, name: str, *, through: bool = False) -> Callable[[pytest.MonkeyPatch, Trap], None]:
    """A method that gives a context manager."""

    def lay(patch: pytest.MonkeyPatch, trap: Trap) -> None:
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *given: trap.holding(original(*given), through=through))

    return lay


def _lock_of(owner: type, name: str) -> Callable[[pytest.MonkeyPatch, Trap], None]:
    """An attribute that is a lock of threads."""

    def lay(patch: pytest.MonkeyPatch, trap: Trap) -> None:
        original = owner.__init__  # type: ignore[misc]

        def made(self: Any, *given: Any, **named: Any) -> None:
            original(self, *given, **named)
            setattr(self, name, _TrappedLock(getattr(self, name), trap))

        patch.setattr(owner, "__init__", made)

    return lay


def _block_of(owner: type) -> Callable[[pytest.MonkeyPatch, Trap], None]:
    """An object that holds something for the block of a `with` statement."""

    def lay(patch: pytest.MonkeyPatch, trap: Trap) -> None:
        enter, leave = owner.__enter__, owner.__exit__  # type: ignore[attr-defined]
        chosen: list[bool] = []

        def entered(self: Any) -> Any:
            value = enter(self)
            chosen.append(trap.take())
            return value

        def left(self: Any, *error: Any) -> Any:
            if any(chosen):
                die()
            return leave(self, *error)

        patch.setattr(owner, "__enter__", entered)
        patch.setattr(owner, "__exit__", left)

    return lay


def _edit(database: Any, number: int) -> None:
    """The step of the workload that every victim does takes it."""


def _index(database: Any, number: int) -> None:
    collection = database.collection("a")
    # The one before may have been killed on either side of this.
    there = "place" in collection._indexing.kinds()
    collection.change_indexes({} if there else {"place": "number"}, ["place"] if there else [])
    collection._indexing.wake()
    time.sleep(0.01)


def _make_and_drop(database: Any, number: int) -> None:
    database.create_collection("victim", dim=DIM, exist_ok=True)
    database.drop_collection("victim")


def _restore(database: Any, number: int) -> None:
    """Of a snapshot that nobody else makes or removes."""
    if "restored" in database.collections():
        # Whoever was killed may have marked it as dropped, and it is listed until somebody opens it.
        with suppress(kinbin.CollectionNotFound):
            database.drop_collection("restored")
    database.restore(database.snapshots.create("f", keep=1), "restored")


def _receive(database: Any, number: int) -> None:
    with database.snapshots.draft() as (file, _):
        file.write(b"a snapshot that arrives")


def _fielded(database: Any, number: int) -> None:
    add_fielded(database, VICTIM, number)


@dataclass(frozen=True)
class Lock:
    """How a trap is laid in a lock, and work that takes it."""

    lay: Callable[[pytest.MonkeyPatch, Trap], None]
    work: Callable[[Any, int], object] = _edit
    most: int = 4
    """So often it is surely taken."""


LOCKS = {
    "writer of a store": Lock(_held_by(Store, "write", through=True)),
    "commits of a group": Lock(_lock_of(GroupCommit, "_lead")),
    "reader slot": Lock(_block_of(Snapshot)),
    "background thread": Lock(_lock_of(kinbin.upkeep.background._BackgroundThread, "_lock"), most=2),
    "creating and dropping": Lock(_held_by(Database, "_removing"), _make_and_drop),
    "creating, to restore": Lock(_held_by(Database, "_removing"), _restore, most=2),
    "creating, to name": Lock(_held_by(Database, "_removing"), lambda database, number: database.alias("named", "a")),
    "upkeep.lock, shrinking": Lock(_election("upkeep.lock"), lambda database, number: database.collection("a").compact(shrink=True)),
    "upkeep.lock": Lock(_election("upkeep.lock"), lambda database, number: database.collection("a").compact()),
    "linker.lock": Lock(_election("linker.lock"), lambda database, number: database.collection("a").link()),
    "indexes.lock": Lock(_election("indexes.lock"), _index, most=1),
    "pools.lock": Lock(_election("pools.lock"), lambda database, number: database.collection("w").link(), most=2),
    "write.lock": Lock(_election("write.lock"), _fielded),
    "draft of a snapshot": Lock(_block_of(SnapshotWriter), lambda database, number: database.snapshots.create("a", keep=2)),
    "draft that arrives": Lock(_held_by(Snapshots, "draft"), _receive),
}
"""Every lock that a process may die with, by name: those in files, those of LMDB, and those of threads that stand before them."""


@contextmanager
def _small() -> Iterator[None]:
    """Collections of some hundred items go through all states, in moments."""
    before = kinbin.set_upkeep(seal_rows=48, quiet_seal_rows=16, link_rows=64, quiet_seconds=0.05)
    with pytest.MonkeyPatch.context() as patch:
        linked.roughly(patch)
        patch.setattr(kinbin.upkeep.background, "FIRST_PAUSE", 0.05)
        patch.setattr(kinbin.pools.pools, "LEAST_OBJECTS", 100)
        yield
    kinbin.set_upkeep(**{name: getattr(before, name) for name in ("seal_rows", "quiet_seal_rows", "link_rows", "quiet_seconds")})


def begin(connection: Connection, folder: str) -> None:
    """Make the database: vectors with an index, items of two fields, and words."""
    rng = np.random.default_rng(SEED)
    with linked.still(), kinbin.open(folder) as database:
        database.create_collection("a", dim=DIM, bands=6, rows=2, seed=7, indexes={"step": "number"})
        database.create_collection("f", fields={"one": {"dim": 4}, "two": {"dim": 4}}, seed=3)
        words = database.create_collection("w", items="strings", distance="levenshtein", seed=5)
        words.add([f"w{i}" for i in range(WORDS)], ["".join(chr(97 + int(c)) for c in rng.integers(0, 26, 12)) for _ in range(WORDS)])
    connection.send("made")


def add_fielded(database: Any, prefix: str, number: int) -> None:
    """One item of two fields, whose payload is the number."""
    row = [[1.0 + number % 7, 2.0, 3.0, 1.0 + number % 5]]
    database.collection("f").add([f"{prefix}{number % 9}"], {"one": row, "two": row}, [{"number": number}])


def be_killed(connection: Connection, folder: str, name: str, how: tuple[str, int, int], start: int, plant: str) -> None:
    """Edit, and do what takes a lock, until the trap kills; sends the number of edits after each. how: where, times, call of the trap."""
    shim = Shim()
    shim.watch(folder)
    with _small(), planted_locks(plant), pytest.MonkeyPatch.context() as patch:
        LOCKS[name].lay(patch, Trap(shim, *how))
        with kinbin.open(folder) as database:
            connection.send(start)
            number = start
            while True:
                Workload(SEED, VICTIM).step(number).perform(database.collection("a"))
                number += 1
                connection.send(number)
                LOCKS[name].work(database, number)


def go_on(connection: Connection, folder: str, prefix: str, plant: str) -> None:
    """Do everything beside those that are killed; sends the number of edits after each, until told to end.

    Then sends what is not done in the background within so many seconds as it is told, and the last number of its items of fields.
    """
    with _small(), planted_locks(plant), kinbin.open(folder) as database:
        number = fielded = 0
        while not connection.poll():
            Workload(SEED, prefix).step(number).perform(database.collection("a"))
            number += 1
            connection.send(number)
            if number % 5 == 0:
                add_fielded(database, prefix, fielded)
                fielded += 1
            if number % 10 == 0:
                database.create_collection(prefix, dim=DIM, exist_ok=True)
                database.drop_collection(prefix)
            if number % 40 == 0:
                database.snapshots.create("a", keep=2)
            for mode in ("auto", "exact"):
                database.collection("a").query(np.ones(DIM), mode=mode, filter={"step": {"$gte": 0}})
        seconds = connection.recv()
        # Whatever was left to somebody who was killed.
        add_fielded(database, prefix, fielded)
        for step in range(number, number + _FREEING):
            Workload(SEED, prefix).step(step).perform(database.collection("a"))
            connection.send(step + 1)
        connection.send((_unfinished(database, seconds) + _held_by_the_dead(database.collection("a")._store), fielded))
        with suppress(EOFError):
            connection.recv()


def _unfinished(database: Any, seconds: float) -> list[str]:
    """What of the background's work is not done after so many seconds."""
    deadline = time.monotonic() + seconds
    while (left := _left(database)) and time.monotonic() < deadline:
        database.collection("a").query(np.ones(DIM))
        database.collection("w").query("abcdefghijkl")
        time.sleep(0.02)
    return left


def _held_by_the_dead(store: Any) -> list[str]:
    """Reader slots whose process is gone."""
    slots = [line.split()[0] for line in store.files.env.readers().splitlines()[1:]]
    return [f"a reader slot of the dead process {pid} is not freed" for pid in slots if not Path(f"/proc/{pid}").exists()]


def _left(database: Any) -> list[str]:
    """What is to be done in the background."""
    out = []
    for name in ("a", "f", "w"):
        collection = database.collection(name)
        parts = collection._fields if name == "f" else {name: collection}
        for part in parts.values():
            with part._store.read() as reader:
                view = part._views.at(reader)
                if view is None or kinbin.upkeep.sealing.next_task(view, quiet=True) is not None:
                    out.append(f"{name}: something is not sealed or merged")
                elif part._space.codes and kinbin.upkeep.linking.is_due(view, quiet=True):
                    out.append(f"{name}: something is not linked")
                if reader.run_numbers() - set(reader.manifest()) - set(reader.link_sets()):
                    out.append(f"{name}: a crash's run is not removed")
            told = part._indexing.describe()
            if told is not None and not (told["ready"] and told["bytes"]):
                out.append(f"{name}: an index is not saved")
            out += [f"{name}: {work} fails: {one['last_failure']}" for work, one in part.background().items() if one["in_a_row"]]
    return out
