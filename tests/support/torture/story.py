"""A life of a database, step by step, from a folder that is not there yet; and whether what is left of it is what was acknowledged."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kinbin
import kinbin.upkeep.sealing
from linked import still
from torture.disk import FAIL, KILL, SHORT, Shim
from workload import DIM, Stored, Workload, findings, same, stored_items

__all__ = ["ACTIONS", "STEPS", "after", "do_until_killed", "found_wrong", "judge_disks", "tell", "tell_until", "try_faults"]

NESTED = "new/folders/for/data"
"""Where the database is, below a folder that is on disk: none of these is there at first."""
_SEED = int(os.environ.get("TORTURE_STORY", "17"))
"""Of what is edited: the long runs tell another story each time (`python -m torture`)."""
_FIELDS: dict[str, Any] = {"colour": {"kernel": "ngmm", "dim": DIM}, "words": {"dim": DIM}}


def _create(database: Any, name: str) -> None:
    database.create_collection(name, dim=DIM, bands=6, rows=2, seed=7, exist_ok=True)


def _items(name: str, number: int) -> Callable[[Any], None]:
    return lambda database: Workload(_SEED, name).step(number).perform(database.collection(name))


def _sealed(database: Any) -> None:
    """What is fresh becomes a run."""
    kept = kinbin.upkeep.sealing.SEAL_ROWS
    kinbin.upkeep.sealing.SEAL_ROWS = 1
    try:
        database.collection("a")._upkeep.step()
    finally:
        kinbin.upkeep.sealing.SEAL_ROWS = kept


def _merged(database: Any) -> None:
    database.collection("a").compact()


def _linked(database: Any) -> None:
    database.collection("a").link()


def _dropped(database: Any) -> None:
    with suppress(kinbin.CollectionNotFound):
        database.drop_collection("b")


def _fields(database: Any) -> None:
    database.create_collection("f", fields=_FIELDS, seed=3, exist_ok=True)


def _shrunk(database: Any) -> None:
    database.collection("a").compact(shrink=True)


def _snapshot(database: Any) -> None:
    made = database.snapshots.create("a", keep=2)
    assert database.snapshots.verify("a", made.id).ok


Step = tuple[str, Callable[[Any], None]]


def _story() -> list[Step]:
    steps: list[Step] = [("create", lambda database: _create(database, "a"))]
    steps += [("edit", _items("a", number)) for number in range(14)]
    steps += [("seal", _sealed), ("create", lambda database: _create(database, "b"))]
    steps += [("edit", _items("b", number)) for number in range(4)]
    steps += [("edit", _items("a", number)) for number in range(14, 22)]
    steps += [("seal", _sealed), ("link", _linked), ("edit", _items("a", 22)), ("create", _fields), ("drop", _dropped)]
    steps += [("edit", _items("a", number)) for number in range(23, 27)]
    steps += [("merge", _merged), ("create", lambda database: _create(database, "b")), ("edit", _items("b", 4)), ("link", _linked)]
    steps += [("shrink", _shrunk), ("edit", _items("a", 27)), ("snapshot", _snapshot)]
    return steps


_SECOND_EDIT = 40
"""Of "b", after it was made anew."""
STEPS = _story()
"""(kind, what is done to the database); doing one twice is the same as once."""
ACTIONS = {
    "open": 31, "create": 16, "seal": 15, "link": 30, "drop": 33, "merge": 38, "edit": 31, "create fields": 32,
    "shrink": 42, "snapshot": 44,
}  # fmt: skip
"""By name, a step to be disturbed; "open" is the opening of a database that so many steps were done to."""


def after(steps: int) -> dict[str, Stored]:
    """What is stored by collection after so many steps."""
    out: dict[str, Stored] = {}
    begun = {"a": 0, "b": 0}
    for number, (kind, _) in enumerate(STEPS[:steps]):
        if kind == "create":
            name = "f" if number == ACTIONS["create fields"] else "a" if number == 0 else "b"
            out[name] = {}
            begun[name] = begun.get(name, 0) if name != "b" or number == ACTIONS["create"] else 4
        elif kind == "drop":
            del out["b"]
        elif kind == "edit":
            name = _edited(number)
            out[name] = Workload._apply(out[name], Workload(_SEED, name).step(begun[name]))
            begun[name] += 1
    return out


def _edited(number: int) -> str:
    """The collection that an edit is of."""
    first = ACTIONS["create"] + 1
    return "b" if first <= number < first + 4 or number == _SECOND_EDIT else "a"


def found_wrong(path: Path, allowed: list[int], *, whole: bool = True) -> str:
    """What is wrong with a database that holds the state after one of these numbers of steps; nothing if it does. whole: search as well."""
    with still(), kinbin.open(path) as database:
        stored: dict[str, Stored] = {}
        for name in database.collections():
            try:
                there: Any = database.collection(name)
            except kinbin.CollectionNotFound:
                # Its removal was cut short; whoever opens it ends that.
                continue
            if name == "f":
                report = there.check()
                if not report.ok or there.count():
                    return f"f: {report.problems[:2]}, {there.count()} items"
                stored[name] = {}
                continue
            for kept in database.snapshots.list(name):
                # One that is listed is whole.
                report = database.snapshots.verify(name, str(kept.id))
                if not report.ok:
                    return f"{name}: the snapshot {kept.id} is damaged: {report.problems}"
            stored[name] = stored_items(there)
            problems = findings(there, stored[name]) if whole else list(there.check().problems)
            if problems:
                return f"{name}: damaged: {problems[:3]}"
        for number in allowed:
            wanted = after(number)
            if wanted.keys() == stored.keys() and all(same(stored[name], wanted[name]) for name in wanted):
                return ""
        told = {name: len(items) for name, items in stored.items()}
        return f"lost: {told} is none of {[{name: len(items) for name, items in after(number).items()} for number in allowed]}"


def tell(connection: Connection, folder: str, record: str, flags: dict[str, Any], sync_folders: bool) -> None:
    """Live the story below a folder, noting each step when it is acknowledged. sync_folders: False: folders are not synced, a control."""
    from power_loss import opened_with

    shim = Shim()
    shim.watch(folder, record)
    with still(), opened_with(flags), _unsynced_folders(not sync_folders), kinbin.open(Path(folder) / NESTED) as database:
        shim.note(0)
        for number, (_, step) in enumerate(STEPS):
            step(database)
            shim.note(number + 1)
    connection.send(len(STEPS))


def tell_until(connection: Connection, folder: str, steps: int) -> None:
    """The same up to a step, and close the database."""
    with still(), kinbin.open(Path(folder) / NESTED) as database:
        for _, step in STEPS[:steps]:
            step(database)
    connection.send(steps)


def _unsynced_folders(off: bool) -> Any:
    """Let fsync of folders do nothing, if asked to."""
    import os
    import stat
    from contextlib import contextmanager

    import pytest

    @contextmanager
    def block() -> Any:
        with pytest.MonkeyPatch.context() as patch:
            if off:
                original = os.fsync

                def fsync(descriptor: int) -> None:
                    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                        original(descriptor)

                patch.setattr(os, "fsync", fsync)
            yield

    return block()


def judge_disks(connection: Connection) -> None:
    """Answer (folder, steps acknowledged) with what is wrong with the database below it, if anything."""
    while True:
        try:
            folder, acknowledged = connection.recv()
        except EOFError:
            return
        path = Path(folder) / NESTED
        try:
            verdict = found_wrong(path, [acknowledged, acknowledged + 1], whole=acknowledged % 4 == 0)
        except kinbin.KinbinError as error:
            verdict = f"refused: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - it is what is looked for
            verdict = f"untyped: {type(error).__name__}: {error}"
        connection.send(verdict)


def do_until_killed(connection: Connection, folder: str, number: int, skip: int, opening: bool) -> None:
    """Do one step of the story, or open the database, and be killed at the call number `skip`.

    Sends "done" and the calls if there are fewer.
    """
    shim = Shim()
    with still():
        if opening:
            shim.watch(folder)
            shim.plan(KILL, skip=skip)
        with kinbin.open(Path(folder) / NESTED) as database:
            if opening:
                for name in database.collections():
                    database.collection(name)
            else:
                _ = [database.collection(name) for name in database.collections()]
                shim.watch(folder)
                shim.plan(KILL, skip=skip)
                STEPS[number][1](database)
            connection.send(("done", shim.calls()))


def try_faults(connection: Connection) -> None:
    """For each (folder, step, opening, act, skip, times, error): do it with a fault, and again without.

    Sends the name of the error, whether the fault was met, and what is wrong.
    """
    shim = Shim()
    while True:
        try:
            folder, number, opening, act, skip, times, error = connection.recv()
        except EOFError:
            return
        with still():
            connection.send(_tried(shim, Path(folder), (number, opening), (act, skip, times, error)))


def _tried(shim: Shim, folder: Path, what: tuple[int, bool], fault: tuple[int, int, int, int]) -> tuple[str, bool, str]:
    (number, opening), (act, skip, times, error) = what, fault
    assert act in (FAIL, SHORT)
    path = folder / NESTED
    outcome = wrong = ""
    met = False

    def armed() -> None:
        shim.watch(str(folder))
        shim.plan(act, skip=skip, times=times, error=error)

    try:
        if opening:
            armed()
            try:
                _opened(path)
            except kinbin.KinbinError as raised:
                outcome = type(raised).__name__
            met = shim.calls() > skip
            _opened(path)
        else:
            with kinbin.open(path) as database:
                _ = [database.collection(name) for name in database.collections()]
                armed()
                try:
                    STEPS[number][1](database)
                except kinbin.KinbinError as raised:
                    outcome = type(raised).__name__
                met = shim.calls() > skip
                # Without a restart.
                STEPS[number][1](database)
        wrong = found_wrong(path, [number if opening else number + 1])
        if outcome and not met:
            wrong = f"{outcome} without a fault"
    except kinbin.KinbinError as raised:
        wrong = f"not recovered: {type(raised).__name__}: {raised}"
    except Exception as raised:  # noqa: BLE001 - it is what is looked for
        wrong = f"untyped: {type(raised).__name__}: {raised}"
    # Whatever it was that raised: nothing fails any more.
    return outcome, met or shim.calls() > skip, wrong


def _opened(path: Path) -> None:
    with kinbin.open(path) as database:
        for name in database.collections():
            database.collection(name)
