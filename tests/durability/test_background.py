"""Background threads that meet errors, foreseen or not: they go on, try again, and say what failed."""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.bands.build
import kinbin.collection
import kinbin.upkeep.background
import kinbin.upkeep.linking
import kinbin.upkeep.sealing
from background import no_background
from kinbin.errors import CorruptData, StorageFull
from kinbin.storage.format import Part
from linked import link_sets, roughly
from nursery import until
from workload import DIM

pytestmark = [pytest.mark.durability, pytest.mark.usefixtures("small_runs")]

module: Any = kinbin.upkeep.background
QUIET = {"failures": 0, "in_a_row": 0, "last_failure": None}


class Fault(Exception):
    """A mistake, as opposed to an error that Kinbin knows."""


class Untold(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise Fault("no text")


ERRORS: list[BaseException] = [
    Fault("planted"), IndexError("planted"), AssertionError("planted"), UnicodeError("\udcff planted"), RecursionError("planted"),
    StorageFull("planted"), CorruptData("planted"), OSError(28, "planted"), MemoryError("planted"), SystemExit("planted"),
    KeyboardInterrupt("planted"), Untold(),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed work is tried again at once, links wait for no long pause, and are chosen roughly."""
    roughly(monkeypatch)
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.01)
    monkeypatch.setattr(kinbin.upkeep.linking, "LEAST_ROWS", 64)


def fill(collection: kinbin.Collection, count: int = 200) -> None:
    """Enough rows to be sealed and linked, in one write: nothing wakes the threads after it."""
    collection.add([f"v{i}" for i in range(count)], np.random.default_rng(1).random((count, DIM)) + 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("work", ["upkeep", "links"])
def test_no_error_ends_background_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, work: str, error: BaseException
) -> None:
    """Whatever is raised, the work is tried again without another write until it is done; each failure is a warning, and counted."""
    raised: list[BaseException] = []
    times = 2
    owner, name = (kinbin.upkeep.sealing.Upkeep, "_perform") if work == "upkeep" else (kinbin.upkeep.linking.Linker, "_write")
    original = getattr(owner, name)

    def fail_first(*arguments: Any) -> Any:
        if len(raised) < times:
            raised.append(error)
            raise error
        return original(*arguments)

    monkeypatch.setattr(owner, name, fail_first)
    with caplog.at_level(logging.DEBUG, "kinbin.upkeep"), kinbin.open(folder) as database:
        collection = database.collection("c")
        fill(collection)
        until(lambda: collection.stats()["runs"] and link_sets(collection) and collection.stats()["background"][work]["in_a_row"] == 0)
        background = collection.stats()["background"]
        last = background[work]["last_failure"]
        assert background.pop(work)["failures"] == times
        assert list(background.values()) == [QUIET, QUIET]
        assert collection.check().ok
    if isinstance(error, Untold):
        assert last["error"] == "Untold"
        return
    warnings = [record for record in caplog.records if record.name == "kinbin.upkeep" and record.levelno == logging.WARNING]
    assert len(warnings) == times
    assert all(type(error).__name__ in record.getMessage() and not record.exc_info for record in warnings)
    traces = [record.exc_info[1] for record in caplog.records if record.name == "kinbin.upkeep" and record.exc_info]
    assert traces == [error] * times
    assert all(record.levelno == logging.DEBUG for record in caplog.records if record.exc_info)


def test_a_log_that_fails_ends_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that cannot even be logged is counted, and tried again."""
    original = kinbin.upkeep.sealing.Upkeep._perform
    tried: list[None] = []

    def fail_first(*arguments: Any) -> Any:
        tried.append(None)
        if len(tried) == 1:
            raise Fault("planted")
        return original(*arguments)

    def refuse(*arguments: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(kinbin.upkeep.sealing.Upkeep, "_perform", fail_first)
    monkeypatch.setattr(module.log, "warning", refuse)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        fill(collection)
        until(lambda: collection.stats()["runs"])
        assert collection.background()["upkeep"]["failures"] == 1
        assert database.background() == {"c": collection.background()}
    assert database.background() == {}


def test_work_that_is_done_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was sealed, merged, linked and removed is logged at INFO, with rows, runs and seconds, and without ids."""
    with caplog.at_level(logging.INFO, "kinbin.upkeep"), kinbin.open(folder) as database:
        collection = database.collection("c")
        fill(collection)
        until(lambda: collection.stats()["runs"] and link_sets(collection))
        fill(collection, 230)
        collection.link()
        collection.delete([f"v{i}" for i in range(230)])
        collection.link()
    told = "\n".join(record.getMessage() for record in caplog.records if record.name == "kinbin.upkeep")
    assert re.search(r"^c: sealed 200 rows into run \d+ in \d+\.\d\d s$", told, re.MULTILINE), told
    assert re.search(r"^c: merged 1 run and the fresh rows: 230 rows into run \d+ in \d+\.\d\d s$", told, re.MULTILINE), told
    assert re.search(r"^c: linked 230 rows, \d+ of them new, in link set \d+ in \d+\.\d\d s$", told, re.MULTILINE), told
    assert re.search(r"rows into no run in", told), told
    assert "c: removed the links: no row is left to link" in told
    assert not re.search(r"\bv\d", told)
    assert all(record.levelno == logging.INFO for record in caplog.records if record.name == "kinbin.upkeep")


def test_work_that_is_given_up_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What an interruption left is removed, and what is given up is said so, at INFO."""
    with no_background(), caplog.at_level(logging.INFO, "kinbin.upkeep"), kinbin.open(folder) as database:
        collection = database.collection("c")
        fill(collection)
        with collection._store.write() as writer:
            writer.put_run_part(4_000, Part.BLOCK, 0, b"left")
        monkeypatch.setattr(kinbin.upkeep.sealing.Upkeep, "_perform", refuse_with(kinbin.bands.build.Cancelled))
        assert not collection._upkeep.step()
        monkeypatch.undo()
        collection.compact()
        monkeypatch.setattr(kinbin.upkeep.linking, "LEAST_ROWS", 64)
        for signal, result in ((kinbin.bands.build.Cancelled, True), (kinbin.upkeep.linking._HandedOver, False)):
            with monkeypatch.context() as patch:
                patch.setattr(kinbin.upkeep.linking.Linker, "_build", refuse_with(signal))
                assert collection._linker.step(quiet=True) is result
    told = [record.getMessage() for record in caplog.records if record.name == "kinbin.upkeep"]
    assert "c: removed 1 unfinished runs or link sets" in told
    assert "c: gave up sealing: the collection is being closed" in told
    assert "c: gave up linking: the collection is being closed" in told
    assert "c: linking is handed over to a call that waits for it" in told


def refuse_with(error: type[Exception]) -> Any:
    """A step that ends with an error."""

    def refuse(*arguments: Any) -> None:
        raise error

    return refuse


def test_stats_say_what_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While work fails stats name the last error, when it was and how often in a row, as JSON; nothing of it is an error of a caller."""

    def fail(*arguments: Any) -> Any:
        raise Fault("\udcff" + "planted " * 200)

    monkeypatch.setattr(kinbin.upkeep.sealing.Upkeep, "_perform", fail)
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        assert collection.stats()["background"] == {"upkeep": QUIET, "links": QUIET, "indexes": QUIET}
        fill(collection)
        until(lambda: collection.stats()["background"]["upkeep"]["in_a_row"] >= 2)
        stats = json.loads(json.dumps(collection.stats()).encode())
        last = stats["background"]["upkeep"]["last_failure"]
        assert last.keys() == {"time", "error", "detail"}
        assert last["error"] == "Fault"
        assert last["detail"].startswith("\\udcffplanted planted")
        assert len(last["detail"]) <= 310
        assert last["time"].endswith("+00:00")
        assert stats["background"]["links"] == QUIET
        assert collection.count() == 200


def test_work_that_succeeds_is_in_order_again_while_writes_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failure the first success counts, though writes keep the thread from ever coming to an end of its work."""
    monkeypatch.setattr(module, "QUIET_SECONDS", 60.0)
    asked: list[bool] = []

    def fail_once(quiet: bool) -> bool:
        asked.append(quiet)
        if len(asked) == 1:
            raise Fault("planted")
        return False

    keeper = module.UpkeepThread("c", fail_once, lambda: 0)
    keeper.wake()
    until(lambda: keeper.report()["failures"] == 1 and keeper.report()["in_a_row"] == 0)
    keeper.stop()
    assert asked == [False, False]


def test_pauses_double_up_to_a_minute() -> None:
    """Work that goes on failing is tried ever more rarely, but at least once a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FIRST_PAUSE", 0.5)
        assert [module.pause_after(n) for n in (1, 2, 3, 7, 8, 9, 5_000)] == [0.5, 1.0, 2.0, 32.0, 60.0, 60.0, 60.0]


@pytest.mark.parametrize("ended", ["never started", "ended"])
def test_a_thread_that_is_not_there_is_started_by_the_next_write(folder: Path, monkeypatch: pytest.MonkeyPatch, ended: str) -> None:
    """If a thread could not be started, or has ended, no write is refused for it, and the next write starts one."""
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        with monkeypatch.context() as patch:
            if ended == "ended":
                patch.setattr(module.UpkeepThread, "_run", lambda self: None)
                patch.setattr(module.LinkThread, "_run", lambda self: None)
            else:

                def refuse(self: Any) -> None:
                    raise RuntimeError("can't start new thread")

                patch.setattr(threading.Thread, "start", refuse)
            fill(collection)
            threads = [collection._upkeep_thread._thread, collection._link_thread._thread]
            until(lambda: not any(thread is not None and thread.is_alive() for thread in threads))
        assert collection.stats()["background"]["upkeep"]["failures"] == (1 if ended == "never started" else 0)
        fill(collection, 201)
        until(lambda: collection.stats()["runs"] and link_sets(collection))


def test_what_fails_only_in_quiet_times_is_tried_ever_more_seldom() -> None:
    """A pass that finds nothing to do is no success: where every merge fails, failures follow each other in the count and the pauses."""
    tried: list[bool] = []

    def step(quiet: bool) -> bool:
        if quiet:
            tried.append(quiet)
            raise ZeroDivisionError("planted")
        return False

    thread = module.UpkeepThread("c", step, lambda: 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUIET_SECONDS", 0.01)
        patch.setattr(module, "FIRST_PAUSE", 0.05)
        thread.look()
        until(lambda: len(tried) >= 4, 30)
        assert thread.report()["in_a_row"] >= 3
        thread.stop()


def test_writes_that_come_fast_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a look that a write woke the thread pauses, whatever comes meanwhile; then the last write is looked at, too."""
    looks: list[int] = []
    pauses: list[float] = []
    gate = threading.Event()

    def step(quiet: bool) -> bool:
        looks.append(keeper._writes)
        return False

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return not gate.wait(60)

    keeper = module.UpkeepThread("c", step, lambda: 0)
    monkeypatch.setattr(module, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(keeper._stop, "wait", pause)
    keeper.wake()
    until(lambda: looks)
    keeper.wake()
    until(lambda: pauses, 10)
    for _ in range(50):
        keeper.wake()
    assert (len(looks), pauses) == (1, [module.LOOK_PAUSE])
    gate.set()
    until(lambda: looks[-1] == 52)
    keeper.stop()


def test_a_write_looks_at_the_backlog_when_it_may_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """While few rows are fresh writes do not count them one by one; once there are too many every write waits until they are sealed."""
    counts = iter([0, *[module.BACKLOG_ROWS + 1] * 3, 7])
    asked: list[int] = []

    def backlog() -> int:
        asked.append(next(counts))
        return asked[-1]

    keeper = module.UpkeepThread("c", lambda quiet: False, backlog)
    monkeypatch.setattr(module, "CALM_SECONDS", 1.0)
    for _ in range(50):
        keeper.wake()
    assert asked == [0]
    keeper._calm_until = 0.0
    keeper.wake()
    assert asked == [0, *[module.BACKLOG_ROWS + 1] * 3, 7]
    keeper.stop()
