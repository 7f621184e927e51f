"""Calls that fail in background threads alone, once or until cleared, while others write and search: sealing, merging, linking, saving."""

from __future__ import annotations

import errno
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.pools.pools
import kinbin.upkeep.background
import linked
from nursery import Child, Nursery
from torture.crashes import Verdicts
from torture.disk import FAIL, SHORT, Shim
from torture.planted import planted_background
from workload import DIM, Stored, findings

__all__ = ["FAULTS", "WORKS", "background_campaign", "prepare", "try_background"]

FAULTS = (
    ("an input/output error, once", FAIL, 1, errno.EIO), ("no space, once", FAIL, 1, errno.ENOSPC),
    ("half a write, once", SHORT, 1, errno.EIO), ("input/output errors until cleared", FAIL, -1, errno.EIO),
    ("no space until cleared", FAIL, -1, errno.ENOSPC),
)  # fmt: skip
ROWS = 150
_LONGEST = 60.0
_PATIENCE = _LONGEST
"""Seconds of a wait for what a planted bug keeps from happening; a test of such a bug has less."""
_THRESHOLDS = {"seal_rows": 64, "quiet_seal_rows": 32, "link_rows": 100_000, "quiet_seconds": 0.02}
_TOLD_TIMES = 2


@dataclass(frozen=True)
class Work:
    """Work of a background thread: how it comes to be due, what tells of it, and whether it is done."""

    told: str
    """Its name in `background`."""
    due: Callable[[Any], object]
    """Prepares a collection, in which nothing happens by itself."""
    done: Callable[[Any], bool]
    changes: dict[str, float]
    """Thresholds under which it is due."""


def _runs(collection: Any) -> int:
    with collection._store.read() as reader:
        return len(reader.manifest())


def _linked(collection: Any) -> bool:
    with collection._store.read() as reader:
        return bool(reader.link_sets())


def _sealed_thrice(collection: Any) -> None:
    """Three runs, of which only a quiet merge makes one."""
    for part in range(3):
        _add(collection, range(part * 50, part * 50 + 50))
        assert collection._upkeep.step(True)
    assert _runs(collection) == 3


def _sealed(collection: Any) -> None:
    _add(collection, range(ROWS))
    collection.compact()


def _index_saved(collection: Any) -> bool:
    told = collection._indexing.describe()
    return bool(told and told["ready"] and told["bytes"])


WORKS = {
    "seal": Work("upkeep", lambda collection: _add(collection, range(ROWS)), lambda collection: _runs(collection) == 1, {}),
    "merge": Work("upkeep", _sealed_thrice, lambda collection: _runs(collection) == 1, {}),
    "link": Work("links", _sealed, _linked, {"link_rows": 64}),
    "index": Work("indexes", lambda collection: _add(collection, range(ROWS)), _index_saved, {"seal_rows": 8192, "quiet_seal_rows": 4096}),
}


def stored() -> Stored:
    """What is in the collection."""
    vectors = np.random.default_rng(11).random((ROWS, DIM), np.float32) + np.float32(0.01)
    return {f"i{i:03}": (vectors[i], {"n": i}) for i in range(ROWS)}


def _add(collection: Any, which: range) -> None:
    items = list(stored().items())[which.start : which.stop]
    collection.add([name for name, _ in items], np.array([row for _, (row, _) in items]), [payload for _, (_, payload) in items])


@contextmanager
def _set(work: Work) -> Iterator[None]:
    before = kinbin.set_upkeep(**{**_THRESHOLDS, **work.changes})
    with pytest.MonkeyPatch.context() as patch:
        linked.roughly(patch)
        patch.setattr(kinbin.upkeep.background, "FIRST_PAUSE", 0.002)
        patch.setattr(kinbin.upkeep.background, "LONGEST_PAUSE", 0.02)
        yield
    kinbin.set_upkeep(**{name: getattr(before, name) for name in _THRESHOLDS})


def prepare(connection: Connection, path: str, name: str) -> None:
    """Make a database in which some work is due."""
    work = WORKS[name]
    with linked.still(), _quiet_indexes(), _set(work), kinbin.open(path) as database:
        work.due(database.create_collection("c", dim=DIM, bands=6, rows=2, seed=7, indexes={"n": "number"} if name == "index" else None))
    connection.send("made")


@contextmanager
def _quiet_indexes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinbin.upkeep.background.IndexThread, "wake", lambda thread: None)
        yield


def background_campaign(
    nursery: Nursery, work: Path, names: list[str] | None = None, *,
    every: int = 1, first: int = 0, seconds: float = 1e9, plant: str = "",
    patience: float = _LONGEST,
) -> Verdicts:  # fmt: skip
    """Let calls of background threads fail, in every way, and see that it is told, tried again, done; nothing lost.

    every: n-th call from `first` on, as long as there are any; 0: `first` alone. plant: a bug, as `planted_background` names it; the
    first that is told of it ends the campaign. patience: seconds until what failed has to be told, and done once it is cleared.
    """
    out, child, began = Verdicts(), None, time.monotonic()
    for name in names or list(WORKS):
        sound = work / f"due-{name}"
        nursery.start("torture.background:prepare", str(sound), name).receive(_LONGEST)
        for told, *fault in FAULTS:
            skip, met = first, True
            while met and time.monotonic() - began < seconds:
                place = work / "behind"
                shutil.copytree(sound, place)
                child = child or nursery.start("torture.background:try_background", plant, patience)
                met, verdict = _tried_in(child, (str(place), name, skip, *fault))
                child = None if verdict.startswith("the process") else child
                if met or verdict:
                    out.add(f"{name}, {told}, call {skip}", verdict, name)
                shutil.rmtree(place)
                if plant and out.wrong:
                    return out
                skip, met = skip + every, met and every > 0
    return out


def _tried_in(child: Child, asked: tuple[Any, ...]) -> tuple[bool, str]:
    try:
        child.connection.send(asked)
        found: tuple[bool, str] = child.receive(300)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return True, f"the process died: {child.wait()}"
    return found


def try_background(connection: Connection, plant: str, patience: float) -> None:
    """For each (path, work, skip, act, times, error): whether the fault was met, and what is wrong then. patience: of each wait, in s."""
    global _PATIENCE  # noqa: PLW0603 - of this child
    _PATIENCE = patience
    shim = Shim()
    run = kinbin.upkeep.background._BackgroundThread._run

    def meant(self: Any) -> None:
        shim.mean()
        run(self)

    with pytest.MonkeyPatch.context() as patch, planted_background(plant):
        patch.setattr(kinbin.upkeep.background._BackgroundThread, "_run", meant)
        while True:
            try:
                path, name, skip, act, times, error = connection.recv()
            except EOFError:
                return
            try:
                connection.send(_tried(shim, Path(path), WORKS[name], (act, skip, times, error)))
            except kinbin.KinbinError as raised:
                connection.send((True, f"refused: {type(raised).__name__}: {raised}"))
            except Exception as raised:  # noqa: BLE001 - it is what is looked for
                connection.send((True, f"untyped: {type(raised).__name__}: {raised}"))


def _tried(shim: Shim, path: Path, work: Work, fault: tuple[int, int, int, int]) -> tuple[bool, str]:
    act, skip, times, error = fault
    with _set(work), _listening() as lines, kinbin.open(path) as database:
        collection = database.collection("c")
        shim.watch(str(path))
        shim.plan(act, skip=skip, times=times, error=error, meant_only=True)
        _wake(collection)
        began = _within(lambda: shim.met() > 0 or _is_done(collection, work), _LONGEST)
        wrong = "" if began else f"not begun: {collection.background()}"
        if times < 0 and shim.met():
            wrong = _while_it_fails(collection, work)
        met = shim.met() > 0
        shim.calls()
        if met and not wrong:
            wrong = _after_it(collection, work, lines, lasting=times < 0)
    if met and not wrong:
        with linked.still(), kinbin.open(path) as database:
            lost = _lost(database.collection("c"))
            wrong = lost and f"opened again: {lost}"
    return met, wrong


def _wake(collection: Any) -> None:
    """As a write does it."""
    collection._upkeep_thread.look()
    collection._link_thread.wake()
    collection._indexing.wake()


def _answered(call: Callable[[], Any]) -> Any:
    """What a call gives in the end; while files are opened anew whose meta page could not be written it may be told to try again."""
    deadline = time.monotonic() + _LONGEST
    while True:
        try:
            return call()
        except kinbin.StorageBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def _is_done(collection: Any, work: Work) -> bool:
    return _answered(lambda: work.done(collection)) and not collection.background()[work.told]["in_a_row"]


def _within(condition: Callable[[], bool], seconds: float | None = None) -> bool:
    deadline = time.monotonic() + (_PATIENCE if seconds is None else seconds)
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _while_it_fails(collection: Any, work: Work) -> str:
    """What is wrong while all calls of the background fail: it is told, and others write and search."""

    def told() -> bool:
        failures = collection.background()[work.told]["failures"]
        # What failed may have been what is done behind the work, and is of no use alone.
        return failures >= _TOLD_TIMES or (failures > 0 and _is_done(collection, work))

    if not _within(told):
        return f"not told, or not tried again: {collection.background()[work.told]}"
    one = np.arange(1.0, DIM + 1.0, dtype=np.float32)[None]
    _answered(lambda: collection.add(["beside"], one, [{"n": -1}]))
    found = [_answered(partial(collection.query, one[0], k=1, mode=mode)).ids for mode in ("exact", "bands")]
    _answered(lambda: collection.delete(["beside"]))
    if found != [["beside"], ["beside"]]:
        return f"what was written beside is not found: {found}"
    last = collection.stats()["background"][work.told]["last_failure"]
    return "" if last and last["error"] in ("StorageError", "StorageFull", "StorageBusy") else f"told as {last}"


def _after_it(collection: Any, work: Work, lines: list[str], *, lasting: bool) -> str:
    """What is wrong once nothing fails any more: it is done, nothing is lost, and what failed was told and logged."""
    if not _within(lambda: _is_done(collection, work)):
        return f"not done: {collection.background()[work.told]}"
    failures = sum(one["failures"] for one in collection.background().values())
    if lasting and not failures:
        return "not told"
    if len([line for line in lines if " failed (" in line]) < failures:
        return f"{failures} failures, and fewer in the log: {lines}"
    return _lost(collection)


def _lost(collection: Any) -> str:
    try:
        problems = findings(collection, stored())
    except kinbin.KinbinError as error:
        problems = [f"{type(error).__name__}: {error}"]
    return f"lost or damaged: {problems[:3]}" if problems else ""


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What is logged in the background."""
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, log = Handler(), logging.getLogger("kinbin.upkeep")
    log.addHandler(handler)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
