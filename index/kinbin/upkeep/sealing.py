"""When runs are sealed and merged, and the swap: the background half of the band index.

One process at a time keeps a collection up, elected by a file lock that dies with its holder. Queries
and adds go on meanwhile; the only thing they wait for are write transactions of a few milliseconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import Cancelled, write_run
from kinbin.query.view import View, Views
from kinbin.segments.fresh import Fresh
from kinbin.segments.run import Run
from kinbin.segments.source import Recipe, gather
from kinbin.storage.creation import logged_name
from kinbin.storage.format import Part
from kinbin.storage.shrinking import remove_drafts, shrink
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader, Writer
from kinbin.upkeep.election import elected

__all__ = ["SEAL_ROWS", "Task", "Upkeep", "current", "must_seal", "next_task"]

SEAL_ROWS = 8_192
"""Fresh rows that are sealed into a run."""
QUIET_SEAL_ROWS = 4_096
"""The same once writes have paused: so many rows may be linked, and what is linked lies in runs."""
FAN_IN = 4
"""At least so many runs are merged at a time while rows arrive."""
DEAD_SHARE = 0.3
"""A run with a larger share of dead rows is written anew."""

log = logging.getLogger("kinbin.upkeep")


@dataclass(frozen=True, slots=True)
class Task:
    """Runs first … last-1 of the view (and the fresh rows, if `seal`) become one run."""

    first: int
    last: int
    seal: bool


def must_seal(view: View) -> bool:
    """Whether enough rows are fresh to be sealed, whatever else goes on."""
    return view.fresh.rows >= SEAL_ROWS


def next_task(view: View, *, quiet: bool = False) -> Task | None:
    """What should be done to this view, if anything.

    Fresh rows are sealed when they are `SEAL_ROWS` (`QUIET_SEAL_ROWS` when quiet).
    Runs are merged from the newest backwards, as many as possible, when they are at least `FAN_IN`
    (2 when quiet) and none is larger than all others together (three quarters of all, when quiet): so a
    row is written about log4(n / SEAL_ROWS) times.
    """
    count = len(view.runs)
    if must_seal(view) or (quiet and view.fresh.rows >= QUIET_SEAL_ROWS):
        return Task(count, count, seal=True)
    sizes = [run.rows for run in view.runs]
    fewest, largest = (2, 0.75) if quiet else (FAN_IN, 0.5)
    for first in range(count - fewest + 1):
        tail = sizes[first:]
        if max(tail) <= largest * sum(tail):
            return Task(first, count, seal=False)
    for i, run in enumerate(view.runs):
        if run.rows - run.live > DEAD_SHARE * run.rows:
            return Task(i, i + 1, seal=False)
    return None


class Upkeep:
    """Seals and merges one collection. Methods may be called from any thread; work is done by one at a time."""

    def __init__(self, store: Store, views: Views, recipe: Recipe) -> None:
        self._store = store
        self._views = views
        self._recipe = recipe
        self._name = logged_name(store.path)
        self.stop = threading.Event()
        """Set it to end the build at hand early: its unlisted run is removed by the next upkeep."""

    @property
    def lock(self) -> Path:
        """The collection's upkeep lock."""
        return self._store.path / "upkeep.lock"

    @contextmanager
    def elected(self, *, wait: bool) -> Iterator[bool]:
        """Hold the collection's upkeep lock; False if another process or thread holds it (and not `wait`).

        Raises:
            CollectionNotFound: it was removed meanwhile, also while the lock was held.
        """
        with elected(self.lock, wait=wait) as mine:
            yield mine

    def step(self, quiet: bool = False) -> bool:
        """Do the next task, if there is one and no other process is at it. Returns whether something was done."""
        with self.elected(wait=False) as mine:
            if not mine:
                return False
            with self._store.read() as reader:
                view = self._views.at(reader)
                task = next_task(view, quiet=quiet) if view is not None else None
            # What a crash left goes in any case: a quiet collection has no task.
            self.remove_orphans()
            if task is None:
                return False
            try:
                self._perform(task)
            except Cancelled:
                log.info("%s: gave up %s: the collection is being closed", self._name, "sealing" if task.seal else "a merge")
                return False
            return True

    def merge_all(self) -> None:
        """Everything into one run, without the dead rows.

        Raises:
            Closed, CollectionNotFound: the collection was closed, or removed, meanwhile.
        """
        with self.elected(wait=True):
            self.remove_orphans()
            with self._store.read() as reader:
                view = current(self._views, reader)
                runs, fresh = view.runs, view.fresh.rows
                clean = all(run.live == run.rows for run in runs)
            if fresh or len(runs) > 1 or not clean:
                try:
                    self._perform(Task(0, len(runs), seal=fresh > 0))
                except Cancelled:
                    raise self._store.over() from None

    def rebuild(self, r: int | None, bands: int | None) -> None:
        """Everything into one run of so many bands of r hashes, as all runs that come later; None: chosen for each run.

        Queries go on; what they are answered from is the old runs until the swap. A crash before it leaves these, and the new choice.

        Raises:
            Closed, CollectionNotFound: the collection was closed, or removed, meanwhile.
        """
        with self.elected(wait=True):
            self.remove_orphans()
            with self._store.write() as writer:
                writer.put_configuration(replace(writer.configuration(), r=r, bands=bands))
            with self._store.read() as reader:
                view = current(self._views, reader)
            try:
                self._perform(Task(0, len(view.runs), seal=view.fresh.rows > 0))
            except Cancelled:
                raise self._store.over() from None

    def shrink(self) -> None:
        """Give disk back: see `storage.shrinking`."""
        with self.elected(wait=True):
            self.remove_orphans()
            began = time.monotonic()
            before = self._store.size_on_disk()
            shrink(self._store)
            after = self._store.size_on_disk()
            log.info("%s: shrunk from %d to %d bytes in %.2f s", self._name, before, after, time.monotonic() - began)

    def _perform(self, task: Task) -> None:
        """Build the task's run and swap it in.

        No snapshot is held while building: only the elected process removes runs, so theirs stay where they are.
        """
        began = time.monotonic()
        with self._store.pinned():
            with self._store.read() as reader:
                view = current(self._views, reader)
                chosen = reader.configuration()
                runs = view.runs[task.first : task.last]
                for run in runs:
                    if not len(run.checks):
                        # Of a run of format 2 nothing else proves that each record is that of its row: now, whatever was seen before.
                        reader.run_parts(run.number, Part.BLOCK, verify=True)
            # Another process may have rebuilt the collection with others since it was opened here.
            recipe = replace(self._recipe, r=chosen.r, bands=chosen.bands)
            source = gather(runs, view.fresh if task.seal else None)
            number = write_run(self._store, source, recipe, self.stop) if len(source) else None
            sealed = view.state.sequence if task.seal else None
        with self._store.write() as writer:
            self._swap(writer, [run.number for run in runs], number, source.row_numbers, sealed)
        log.info("%s: %s in %.2f s", self._name, _told(task, len(source), number), time.monotonic() - began)

    def _swap(self, writer: Writer, old: list[int], number: int | None, included: NDArray[np.uint64], sealed: int | None) -> None:
        """Replace the old runs and the sealed part of the journal by the new run, in one transaction."""
        view = current(self._views, writer)
        manifest = writer.manifest()
        place = manifest.index(old[0]) if old else len(manifest)
        if number is not None:
            # Rows that died while the run was built.
            replaced = tuple(run for run in view.runs if run.number in old)
            gone = np.intersect1d(_dead_rows(replaced, view.fresh if sealed is not None else None), included)
            writer.mark_dead(number, np.searchsorted(included, gone))
        manifest[place : place + len(old)] = [] if number is None else [number]
        for run in old:
            writer.delete_run(run)
        state = writer.state()
        if sealed is not None:
            writer.trim_journal(sealed)
            state = state.with_(sealed=sealed)
        writer.put_manifest(manifest)
        writer.put_state(state.with_(manifest=state.manifest + 1))

    def remove_orphans(self) -> None:
        """Remove runs, link sets and files that a crash left unfinished. Only the elected process writes them, so they are nobody's."""
        remove_drafts(self._store)
        with self._store.read() as reader:
            orphans = reader.run_numbers() - set(reader.manifest()) - set(reader.link_sets())
        if orphans:
            with self._store.write() as writer:
                for run in orphans:
                    writer.delete_run(run)
            log.info("%s: removed %d unfinished runs or link sets", self._name, len(orphans))


def _told(task: Task, rows: int, number: int | None) -> str:
    """What was done, for the log."""
    into = f"{rows} rows into {'no run' if number is None else f'run {number}'}"
    count = task.last - task.first
    if not count:
        return f"sealed {into}"
    return f"merged {count} run{'s' if count > 1 else ''}{' and the fresh rows' if task.seal else ''}: {into}"


def current(views: Views, reader: Reader) -> View:
    """The view of the reader's state, which is not behind this process's."""
    view = views.at(reader)
    return view if view is not None else Views(views.geometry).at(reader)  # type: ignore[return-value]


def _dead_rows(runs: tuple[Run, ...], fresh: Fresh | None) -> NDArray[np.uint64]:
    """Row numbers of the dead rows of runs and journal."""
    gone = [np.empty(0, np.uint64)]
    gone += [run.row_numbers[run.dead.gone()] for run in runs]
    if fresh is not None:
        gone.append(fresh.row_numbers[fresh.dead.gone()])
    return np.concatenate(gone)
