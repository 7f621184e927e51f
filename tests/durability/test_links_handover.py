"""link() and background linking in one process: what was begun at low priority is gone on with by the caller, and nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import kinbin.bands.build
import kinbin.links.graph
import kinbin.upkeep.linking
from kinbin.upkeep.election import is_wanted
from linked import link_sets, orphans, still
from nursery import until
from workload import DIM

pytestmark = [pytest.mark.durability, pytest.mark.usefixtures("small_runs")]

LONG = 60.0
ROWS = 600
graph_module: Any = kinbin.links.graph
linking: Any = kinbin.upkeep.linking


class Pieces:
    """Which thread linked how many nodes; a background thread stops after some until `wanted` says that somebody waits."""

    def __init__(self) -> None:
        self.done: list[tuple[bool, int]] = []
        self.begun = threading.Event()
        self.wanted: Callable[[], bool] = lambda: True
        self.after = 3

    def linked(self, *, background: bool) -> int:
        """Nodes that were linked by one of the two."""
        return sum(count for behind, count in self.done if behind == background)


def in_background() -> bool:
    """Whether this is the thread of the test's executor."""
    return threading.current_thread() is not threading.main_thread()


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> Pieces:
    """Nodes are linked 32 at a time, and counted."""
    seen = Pieces()
    insert = graph_module.insert

    def insert_and_count(*arguments: Any) -> None:
        insert(*arguments)
        seen.done.append((in_background(), len(arguments[2])))
        if in_background() and len(seen.done) == seen.after:
            seen.begun.set()
            until(seen.wanted, LONG)

    monkeypatch.setattr(graph_module, "_PIECE", 32)
    monkeypatch.setattr(graph_module, "insert", insert_and_count)
    monkeypatch.setattr(linking, "LEAST_ROWS", 64)
    return seen


@pytest.fixture
def database(folder: Path) -> Iterator[kinbin.Database]:
    """A database in which nothing is done by itself, and a collection "c" of sealed rows that are not linked."""
    with still(), kinbin.open(folder) as opened:
        collection = opened.collection("c")
        add(collection, 0, ROWS)
        collection.compact()
        yield opened


def vectors(start: int, stop: int) -> Any:
    """Rows by number."""
    return (np.random.default_rng(5).random((2 * ROWS, DIM)) + 0.01).astype(np.float32)[start:stop]


def add(collection: kinbin.Collection, start: int, stop: int) -> None:
    """Add items by number."""
    collection.add([f"v{i}" for i in range(start, stop)], vectors(start, stop))


def assert_linked(collection: kinbin.Collection, count: int) -> None:
    """Every row is linked, soundly, and found by a walk; nothing unfinished is left."""
    stats = collection.stats()
    assert (stats["links"]["rows"], stats["links"]["unlinked_rows"]) == (count, 0)
    assert orphans(collection) == set()
    assert collection.check().ok
    answers = collection.query_batch(vectors(0, count), k=1, mode="links")
    assert [answer.ids[0] for answer in answers] == [f"v{i}" for i in range(count)]


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of how many rows walks were calibrated, each time."""
    seen: list[int] = []
    calibrate = linking.calibrate

    def calibrate_and_note(*arguments: Any) -> Any:
        seen.append(len(arguments[1]))
        return calibrate(*arguments)

    monkeypatch.setattr(linking, "calibrate", calibrate_and_note)
    return seen


@pytest.mark.parametrize("more", [0, 100], ids=["nothing new", "new rows"])
def test_link_goes_on_where_the_background_stopped(database: kinbin.Database, pieces: Pieces, calibrated: list[int], more: int) -> None:
    """link() does not wait until a background build has ended: that stops, and link() does the rest, and the rows that came since.

    All are calibrated together, once: calibrating takes as long as linking.
    """
    collection: Any = database.collection("c")
    pieces.wanted = lambda: is_wanted(collection._linker._lock)
    with ThreadPoolExecutor(1) as threads:
        building: Future[bool] = threads.submit(collection._linker.step, quiet=True)
        assert pieces.begun.wait(LONG)
        add(collection, ROWS, ROWS + more)
        collection.link()
        assert building.result(LONG) is False, "it was not done, but handed over"
    assert pieces.linked(background=True) < 100
    assert pieces.linked(background=True) + pieces.linked(background=False) == ROWS - 1 + more, "the first node is in by itself"
    assert calibrated == [ROWS + more]
    assert collection.stats()["links"]["calibration"][-1]["recall@10"] > 0.9
    assert_linked(collection, ROWS + more)


def test_links_that_were_not_calibrated_yet_are_due(
    database: kinbin.Database, pieces: Pieces, calibrated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may end between the two: whoever comes next calibrates, however few rows are left, and though they are gone."""
    collection: Any = database.collection("c")
    linker, build = collection._linker, collection._linker._build
    pieces.wanted = lambda: is_wanted(linker._lock)

    def build_once(*arguments: Any, again: bool = False) -> bool:
        if not again:
            raise KeyboardInterrupt
        return bool(build(*arguments, again=again))

    with ThreadPoolExecutor(1) as threads:
        threads.submit(linker.step, quiet=True)
        assert pieces.begun.wait(LONG)
        monkeypatch.setattr(linker, "_build", build_once)
        add(collection, ROWS, ROWS + 3)
        with pytest.raises(KeyboardInterrupt):
            collection.link()
    monkeypatch.undo()
    assert (calibrated, len(link_sets(collection))) == ([], 1)
    collection.delete([f"v{i}" for i in range(ROWS, ROWS + 3)])
    linker.step(quiet=True)
    assert collection.stats()["links"]["calibration"][-1]["recall@10"] > 0.9
    assert_linked(collection, ROWS)


def test_another_collection_is_linked_in_between(database: kinbin.Database, pieces: Pieces) -> None:
    """link() of another collection takes the one lock over; the background then goes on with its own where it stopped."""
    collection: Any = database.collection("c")
    other = database.create_collection("other", dim=DIM, bands=24, rows=2)
    add(other, 0, 200)
    pieces.wanted = lambda: is_wanted(collection._linker._lock)
    with ThreadPoolExecutor(1) as threads:
        building = threads.submit(collection._linker.step, quiet=True)
        assert pieces.begun.wait(LONG)
        other.link()
        assert building.result(LONG) is False
        assert_linked(other, 200)
        assert link_sets(collection) == []
        threads.submit(collection._linker.step, quiet=True).result(LONG)
    assert pieces.linked(background=True) == ROWS - 1
    assert_linked(collection, ROWS)


def test_link_does_not_wait_until_links_are_written(database: kinbin.Database, pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    """A background build that is being written lets go of the lock of merges, too; it is written anew, not linked or calibrated anew."""
    collection: Any = database.collection("c")
    calibrated = []
    calibrate, put = linking.calibrate, kinbin.bands.build.Parts.put
    writing = threading.Event()

    def calibrate_and_count(*arguments: Any) -> Any:
        calibrated.append(in_background())
        return calibrate(*arguments)

    def put_when_wanted(self: Any, *arguments: Any) -> None:
        if in_background():
            writing.set()
            until(lambda: is_wanted(collection._upkeep.lock), LONG)
        put(self, *arguments)

    monkeypatch.setattr(linking, "calibrate", calibrate_and_count)
    monkeypatch.setattr(kinbin.bands.build.Parts, "put", put_when_wanted)
    with ThreadPoolExecutor(1) as threads:
        building = threads.submit(collection._linker.step, quiet=True)
        assert writing.wait(LONG)
        collection.link()
        assert building.result(LONG) is False
    assert calibrated == [True]
    assert pieces.linked(background=False) == 0
    assert_linked(collection, ROWS)


def test_what_was_begun_before_another_link_set_is_not_used(database: kinbin.Database, pieces: Pieces) -> None:
    """If another process has swapped in a link set since, what was handed over is dropped and the rows are linked from that set."""
    collection: Any = database.collection("c")
    pieces.wanted = lambda: is_wanted(collection._linker._lock)
    other = database.create_collection("other", dim=DIM, bands=24, rows=2)
    with ThreadPoolExecutor(1) as threads:
        building = threads.submit(collection._linker.step, quiet=True)
        assert pieces.begun.wait(LONG)
        other.link()
        assert building.result(LONG) is False
    collection._linker._begun.sets = [12_345]
    collection.link()
    assert pieces.linked(background=False) == ROWS - 1
    assert_linked(collection, ROWS)
