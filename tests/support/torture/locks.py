"""Processes killed while they hold a lock, one after the other, beside others that have to go on, and to end what was begun."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kinbin
from nursery import Child, Nursery
from torture.crashes import Verdicts
from torture.held import LOCKS, SEED, VICTIM, WHERE
from workload import Workload, findings, same, stored_items

__all__ = ["PLANTS", "Beside", "judge", "lock_campaign"]

PLANTS = {
    ("outlive", "write.lock"): ("does not go on",), ("outlive", "upkeep.lock"): ("not completed", "does not go on"),
    ("lost", "writer of a store"): ("lost",), ("kept", "reader slot"): ("a reader slot of the dead",),
}  # fmt: skip
"""By bug, as `planted_locks` names it, and lock: what may be told of it. Where rows are not sealed, writes wait for that at last."""
SURVIVORS = ("s0-", "s1-")
_MOST_CALL = 12
_COMING = {"victim", "restored"}
"""Collections that come and go."""
_PATIENCE = 120.0
_SECONDS = 30.0
"""Others that do not go on for so long wait for the dead, however busy the machine is."""


class Beside:
    """A process that goes on, and what it has acknowledged."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.edits = 0

    def look(self) -> None:
        """Take what it has told.

        Raises:
            EOFError: it ended.
        """
        while self._child.connection.poll(0):
            self.edits = self._child.connection.recv()

    def has_moved(self, edits: int, seconds: float) -> bool:
        """Whether it acknowledges so many edits more, within some time."""
        self.look()
        wanted, deadline = self.edits + edits, time.monotonic() + seconds
        while self.edits < wanted and time.monotonic() < deadline:
            self._child.connection.poll(0.2)
            self.look()
        return self.edits >= wanted

    def stop(self, seconds: float) -> None:
        """Let it write no more, and look so long whether all is done."""
        self._child.connection.send(seconds)

    def end(self, seconds: float) -> tuple[list[str], int]:
        """What it finds not done, and the number of its last item of fields."""
        while isinstance(told := self._child.receive(seconds + 60), int):
            self.edits = told
        left: tuple[list[str], int] = told
        return left


def lock_campaign(
    nursery: Nursery, work: Path, seed: int, names: list[str] | None = None, *,
    moments: int = len(WHERE), plant: str = "", seconds: float = 1e9, patience: float = _PATIENCE,
) -> Verdicts:  # fmt: skip
    """Kill a process with each of these locks, at so many of the moments in `WHERE`; a verdict a lock and moment, and one at the end.

    The first that is wrong ends it.

    seed: of how often the lock was taken before, and of the call inside. plant: a bug, as `planted_locks` names it.
    patience: seconds that the others may take to go on, and to end what was begun.
    """
    rng, folder, out, began = random.Random(seed), work / "locks", Verdicts(), time.monotonic()
    nursery.start("torture.held:begin", str(folder)).receive(_PATIENCE)
    beside = [Beside(nursery.start("torture.held:go_on", str(folder), prefix, plant)) for prefix in SURVIVORS]
    edits, chosen = 0, [(name, where) for name in names or LOCKS for where in rng.sample(WHERE, moments)]
    rng.shuffle(chosen)
    for name, where in chosen:
        how = where, rng.randrange(LOCKS[name].most), rng.randrange(_MOST_CALL)
        edits, wrong = _killed(nursery, folder, (name, how, edits), plant)
        try:
            died = time.monotonic()
            stuck = [one for one in beside if not one.has_moved(6, min(patience, _SECONDS))]
            wrong = wrong or ("a process beside it does not go on" if stuck else "")
            took = time.monotonic() - died
            out.kinds[f"gone on within {next((most for most in (1, 5, 10, _SECONDS) if took < most), _PATIENCE):g} s"] += not wrong
        except EOFError:
            wrong = "a process beside it ended"
        out.add(f"seed {seed}, {name}, {how}", wrong, name)
        if wrong or time.monotonic() - began > seconds:
            break
    if not out.wrong:
        # Whoever is stuck does not end either.
        out.add(f"seed {seed}, at the end", _at_the_end(nursery, folder, beside, edits, patience), "at the end")
    nursery.end_children()
    shutil.rmtree(folder)
    return out


def _killed(nursery: Nursery, folder: Path, what: tuple[str, tuple[str, int, int], int], plant: str) -> tuple[int, str]:
    """Let one process be killed. what: the lock, how, the edit to begin at. Returns the edits that are acknowledged, and what is wrong."""
    edits = what[2]
    child = nursery.start("torture.held:be_killed", str(folder), *what, plant)
    deadline = time.monotonic() + 2 * _PATIENCE
    try:
        while time.monotonic() < deadline:
            edits = child.receive(_PATIENCE)
    except TimeoutError:
        child.kill()
        return edits, "it was not killed: it waits for somebody"
    except (EOFError, ConnectionResetError):
        status = child.wait()
        return edits, "" if status == -9 else f"it ended by itself: {status}"
    child.kill()
    return edits, "it was not killed: nothing took the lock"


def _at_the_end(nursery: Nursery, folder: Path, beside: list[Beside], edits: int, patience: float) -> str:
    try:
        for one in beside:
            one.stop(patience)
        ends = [one.end(patience) for one in beside]
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return "a process beside those ended"
    except TimeoutError:
        return "a process beside those does not go on"
    if left := [left for lefts, _ in ends for left in lefts]:
        return f"not completed: {left[:3]}"
    done = {prefix: [one.edits] for prefix, one in zip(SURVIVORS, beside, strict=True)} | {VICTIM: [edits, edits + 1]}
    verdict: str = nursery.start("torture.locks:judge", str(folder), done, [fielded for _, fielded in ends]).receive(_PATIENCE)
    return verdict


def judge(connection: Connection, folder: str, done: dict[str, list[int]], fielded: list[int]) -> None:
    """Send what is wrong with what is stored. done: by prefix, how many edits may have been done; fielded: each survivor's last."""
    with kinbin.open(folder) as database:
        connection.send(_wrong(database, done, fielded))


def _wrong(database: Any, done: dict[str, list[int]], fielded: list[int]) -> str:
    collection = database.collection("a")
    stored = stored_items(collection)
    for prefix, numbers in done.items():
        mine = {name: item for name, item in stored.items() if name.startswith(prefix)}
        if not any(same(mine, Workload(SEED, prefix).after(number)) for number in numbers):
            return f"lost: the {len(mine)} items of {prefix} are not those after {numbers} edits"
    if problems := findings(collection, stored):
        return f"a: damaged: {problems[:3]}"
    names = {f"{prefix}{number % 9}": number for prefix, last in zip(SURVIVORS, fielded, strict=True) for number in range(last + 1)}
    items = database.collection("f").get(list(names))
    if missing := [name for name, item in zip(names, items, strict=True) if item is None or item.payload != {"number": names[name]}]:
        return f"f: lost: {missing}"
    there = database.collections()
    for name in there:
        # One that was marked as dropped is listed until somebody opens it.
        with suppress(kinbin.CollectionNotFound) if name in _COMING else nullcontext():
            if not (report := database.collection(name).check()).ok:
                return f"{name}: damaged: {report.problems[:3]}"
    for kept in database.snapshots.list("a"):
        if not (proof := database.snapshots.verify("a", str(kept.id))).ok:
            return f"a snapshot is damaged: {proof.problems}"
    return "" if {"a", "f", "w"} <= set(there) <= {"a", "f", "w"} | _COMING else f"there are {there}"
