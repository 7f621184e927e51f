"""Files taken away, and put back, under processes that write: what they acknowledge is there, and they go on by themselves."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import kinbin
from kinbin.storage.datafile import DataFile
from nursery import Nursery
from torture.crashes import Verdicts
from torture.locks import Beside

__all__ = ["PLANT", "TAKEN", "judge", "taken_campaign", "write"]

PLANT = "forgets the table"
"""A bug: nobody looks for `lock.mdb` any more."""
_BEGIN, _MOST = 2, 6
"""Writers at the beginning, and at most. One more opens the files whenever the table was taken: it makes a new one."""
_PATIENCE = 60.0
_AT_ONCE = 1_000
_MOVES = 3
"""Items that each writer has to store after each taking."""
_RETRIED = (kinbin.CorruptData, kinbin.StorageBusy, kinbin.CollectionNotFound)
"""What a writer may be told while a file is away."""


def _lock(folder: Path, _: random.Random) -> None:
    (folder / "lock.mdb").unlink(missing_ok=True)


def _away(path: Path, rng: random.Random) -> None:
    aside = path.with_name(f".aside-{path.name}")
    path.rename(aside)
    time.sleep(rng.uniform(0.02, 0.3))
    aside.rename(path)


TAKEN: dict[str, Callable[[Path, random.Random], None]] = {
    "lock.mdb": _lock,
    "data.mdb": lambda folder, rng: _away(folder / "data.mdb", rng),
    "directory": _away,
}
"""By what is taken: how, from the directory of a collection. The table of readers is not put back."""


def write(connection: Connection, folder: str, prefix: str, plant: str) -> None:
    """Add one item after the other, each until it is acknowledged; send how many are. Ends when anything is received."""
    if plant == PLANT:
        DataFile.watch_lock = lambda file, lock: None  # type: ignore[method-assign, assignment]
    done = 0
    with kinbin.open(folder) as database:
        while not connection.poll(0):
            with suppress(*_RETRIED):
                database.collection("c").add([f"{prefix}{done}"], [[done + 1.0, 1.0]])
                done += 1
                connection.send(done)


def judge(connection: Connection, folder: str, done: dict[str, int]) -> None:
    """Send what is wrong with what is stored: nothing that was acknowledged may be missing."""
    try:
        with kinbin.open(folder) as database:
            collection = database.collection("c")
            ids = [f"{prefix}{i}" for prefix, count in done.items() for i in range(count)]
            lost: list[str] = []
            for first in range(0, len(ids), _AT_ONCE):
                some = ids[first : first + _AT_ONCE]
                lost += [one for one, item in zip(some, collection.get(some), strict=True) if item is None]
            problems = collection.check().problems
    except kinbin.KinbinError as error:
        connection.send(f"refused: {type(error).__name__}: {error}")
        return
    connection.send(f"{len(lost)} of {len(ids)} lost: {lost[:3]}" if lost else f"check: {problems[:2]}" if problems else "")


def taken_campaign(
    nursery: Nursery, work: Path, seed: int, count: int, *, plant: str = "", seconds: float = 1e9, patience: float = _PATIENCE
) -> Verdicts:
    """Take something so many times; a verdict each, and one at the end. The first that is wrong ends it.

    plant: "" or `PLANT`. patience: seconds that writers may take to go on.
    """
    rng, folder, out, began = random.Random(seed), work / "taken", Verdicts(), time.monotonic()
    with kinbin.open(folder) as database:
        database.create_collection("c", dim=2)
    writers: dict[str, Beside] = {}

    def begin() -> None:
        prefix = f"w{len(writers)}-"
        writers[prefix] = Beside(nursery.start("torture.taken:write", str(folder), prefix, plant))

    for _ in range(_BEGIN):
        begin()
    wrong = _told(writers, patience)
    for number in range(count):
        if wrong or time.monotonic() - began > seconds:
            break
        what = rng.choice(list(TAKEN))
        TAKEN[what](folder / "collections" / "c", rng)
        if what == "lock.mdb" and len(writers) < _MOST:
            begin()
        wrong = _told(writers, patience)
        out.add(f"seed {seed}, {what}, the {number + 1}th", wrong, what)
    if not wrong:
        out.add(f"seed {seed}, at the end", _at_the_end(nursery, folder, writers), "at the end")
    nursery.end_children()
    shutil.rmtree(folder)
    return out


def _told(writers: dict[str, Beside], patience: float) -> str:
    try:
        stuck = [prefix for prefix, one in writers.items() if not one.has_moved(_MOVES, patience)]
    except (EOFError, ConnectionResetError):
        return "a writer ended"
    return f"writers do not go on: {stuck}" if stuck else ""


def _at_the_end(nursery: Nursery, folder: Path, writers: dict[str, Beside]) -> str:
    for one in writers.values():
        one.stop(0.0)
    for one in writers.values():
        with suppress(EOFError, ConnectionResetError):
            while one.has_moved(1, 2.0):
                pass
    verdict: str = nursery.start("torture.taken:judge", str(folder), {p: one.edits for p, one in writers.items()}).receive(_PATIENCE)
    return verdict
