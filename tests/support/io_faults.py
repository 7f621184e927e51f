"""What children do whose writes and syncs the shim makes fail."""

from __future__ import annotations

import ctypes
import errno
import mmap
import shutil
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from kinbin.storage.format import Part
from shim import META, SYNCS, WRITES, Shim
from workload import Workload, findings, same, stored_items

SEED = 5
STEPS = 40
"""Steps of the workload that the template database holds."""
ALL = WRITES | SYNCS | META
_KEPT = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000 | 0x100000
"""Flags of Linux for addresses that nothing may use: with MAP_NORESERVE and MAP_FIXED_NOREPLACE, which Python's mmap does not name."""

ADD = next(number for number in range(STEPS, STEPS + 99) if not Workload(SEED, "f").step(number).delete)
DELETE = next(number for number in range(STEPS, STEPS + 99) if Workload(SEED, "f").step(number).delete)


@dataclass(frozen=True, slots=True)
class Fault:
    """Which calls fail, and how."""

    name: str
    error: int
    times: int = 1
    partial: bool = False


FAULTS = (
    Fault("an input/output error, once", errno.EIO),
    Fault("no space, once", errno.ENOSPC),
    Fault("half a write, once", errno.EIO, partial=True),
    Fault("an input/output error, until it is mended", errno.EIO, times=-1),
    Fault("no space, until there is some", errno.ENOSPC, times=-1),
)


def make_template(path: str) -> None:
    """The closed database that every case begins with: runs, fresh rows, dead rows."""
    workload = Workload(SEED, "f")
    with kinbin.open(path) as database:
        collection = database.create_collection("c", dim=24, bands=6, rows=2, seed=7)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        for number in range(STEPS):
            workload.step(number).perform(collection)
            if number == STEPS * 2 // 3:
                collection.compact()


def act(collection: Any, action: str) -> None:
    """One of the actions that a fault is injected into."""
    if action == "compact":
        collection.compact()
    else:
        Workload(SEED, "f").step(ADD if action == "add" else DELETE).perform(collection)


def after(action: str) -> Any:
    """What is stored when the action has been done."""
    stored = Workload(SEED, "f").after(STEPS)
    if action != "compact":
        stored = Workload._apply(stored, Workload(SEED, "f").step(ADD if action == "add" else DELETE))
    return stored


def try_faults(connection: Connection) -> None:
    """For each (path, action, fault, skip): do the action with a fault, and send what came of it and what is wrong."""
    shim = Shim()
    while True:
        try:
            path, action, fault, skip = connection.recv()
        except EOFError:
            return
        connection.send(_try(shim, path, action, fault, skip))


def _try(shim: Shim, path: str, action: str, fault: Fault, skip: int) -> tuple[str, bool, list[str]]:
    """Name of the error ("" for none), whether the fault was met, and problems."""
    problems: list[str] = []
    before, done = Workload(SEED, "f").after(STEPS), after(action)
    with kinbin.open(path) as database:
        collection = database.collection("c")
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        query = next(iter(before.values()))[0]
        expected = collection.query(query, mode="exact").ids
        shim.fail(ALL, skip=skip, times=fault.times, error=fault.error, partial=fault.partial)
        outcome = ""
        try:
            act(collection, action)
        except kinbin.KinbinError as error:
            outcome = type(error).__name__
        # The disk is as bad as it was, and answers go on.
        if (action == "compact" or outcome == "StorageFull") and collection.query(query, mode="exact").ids != expected:
            problems.append("another answer while writes fail")
        met = shim.calls() > skip
        if outcome and not met:
            problems.append("an error without a fault")
        stored = stored_items(collection)
        states = [before] if outcome == "StorageFull" else [done] if not outcome else [before, done]
        if not any(same(stored, state) for state in states):
            problems.append(f"after {outcome or 'success'} it holds something else")
        problems += findings(collection, stored)
        act(collection, action)
        problems += [f"repeated: {problem}" for problem in findings(collection, done)]
    with kinbin.open(path) as database:
        problems += [f"opened again: {problem}" for problem in findings(database.collection("c"), done)]
    return outcome, met, problems


def lose_the_map(connection: Connection, path: str) -> None:
    """Fail a meta page while readers are about; the files must be opened anew, at another address, under nobody's feet."""
    import kinbin.storage.opening

    module: Any = kinbin.storage.opening
    shim = Shim()
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    library.mmap.restype = ctypes.c_void_p
    original = module.lmdb.open

    def elsewhere(*arguments: Any, **options: Any) -> Any:
        # Whatever still points into the old map points into this, and ends the process. It fails while the old map is there.
        library.mmap(first, end - first, 0, _KEPT, -1, 0)
        return original(*arguments, **options)

    before, done = Workload(SEED, "f").after(STEPS), after("add")
    with kinbin.open(path) as database:
        collection = database.collection("c")
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        problems = findings(collection, before)
        place = _address(collection)
        first, end = _mapping(place)
        module.lmdb.open = elsewhere
        answers: list[str] = []
        with collection._store.read() as reader:
            shim.fail(META, skip=0, times=1, error=errno.EIO)
            for attempt in (lambda: act(collection, "add"), collection.count, lambda: act(collection, "add"), collection.compact):
                try:
                    attempt()
                    answers.append("")
                except kinbin.KinbinError as error:
                    answers.append(type(error).__name__)
            # The old reader goes on in the old map.
            if len(list(reader.scan_items(None))) != len(before):
                problems.append("the open reader lost its moment")
        shim.calls()
        connection.send(answers)
        stored = stored_items(collection)
        if not same(stored, before) and not same(stored, done):
            problems.append("it holds something else")
        problems += findings(collection, stored)
        if _address(collection) == place:
            problems.append("the map was not moved: the test proves nothing")
        act(collection, "add")
        problems += findings(collection, done)
        collection.compact()
        problems += findings(collection, done)
        module.lmdb.open = original
    connection.send(problems)


def end_after_a_lost_commit(connection: Connection, path: str) -> None:
    """Let a meta page fail, of a commit that needs no more pages than the ones before, and end."""
    shim = Shim()
    with kinbin.open(path) as database:
        collection = database.create_collection("c", dim=2)
        for number in range(8):
            collection.add(["a"], [[1.0, 1.0 + number]])
        shim.fail(META, skip=0, times=1, error=errno.EIO)
        try:
            collection.add(["b"], [[1.0, 1.0]])
        except kinbin.StorageBusy:
            connection.send("lost")


def merge_on_a_full_disk(connection: Connection, path: str, ballast: str) -> None:
    """Merge with the work space in a file, as a merge of a million rows has it, on a disk that has room for half of that."""
    import kinbin.bands.build

    module: Any = kinbin.bands.build
    module._IN_MEMORY = 0
    vectors = np.random.default_rng(1).random((2000, 24)) + 0.01
    with kinbin.open(path) as database:
        collection = database.create_collection("c", dim=24, bands=128, rows=1, seed=1)
        collection._upkeep_thread.wake = lambda: None  # type: ignore[method-assign]
        collection.add([f"i{i}" for i in range(2000)], vectors)
        with Path(ballast).open("wb") as file:
            file.write(bytes(shutil.disk_usage(ballast).free - 4 * 128 * 2000 // 2))
        try:
            collection.compact()
            connection.send("merged")
        except kinbin.KinbinError as error:
            connection.send(type(error).__name__)
        connection.send(collection.query(vectors[7], k=1).ids)
        Path(ballast).unlink()
        collection.compact()
        connection.send(collection.query(vectors[7], k=1, mode="bands").ids)


def _mapping(place: int) -> tuple[int, int]:
    """The addresses, from and to, of what is mapped around this one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(number, 16) for number in line.split()[0].split("-"))
        if first <= place < end:
            return first, end
    raise LookupError(f"nothing is mapped at {place:#x}")


def _address(collection: Any) -> int:
    with collection._store.read() as reader:
        part = reader.run_part(reader.manifest()[0], Part.BAND)
        return int(np.frombuffer(part, np.uint8).__array_interface__["data"][0])
