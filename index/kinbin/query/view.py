"""What one process knows of a collection at one moment: runs read in place, fresh rows mirrored.

A `View` is immutable once made and belongs to one state of the store: it may be used by any number of
threads, each inside a read snapshot of that very state (the addresses lie in the store's map). `Views`
keeps the newest and brings it forward cheaply: after a commit it reads the new journal entries only;
after a seal or a merge it reads the headers of the runs that are new.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinbin.cancelling import look
from kinbin.errors import CorruptData
from kinbin.links.linkset import Links, LinkSet
from kinbin.segments.fresh import Fresh, gone_in
from kinbin.segments.run import Run
from kinbin.segments.segments import Segments
from kinbin.storage.format import Commit, State
from kinbin.storage.transactions import Reader, Writer

__all__ = ["View", "Views"]


@dataclass(frozen=True, slots=True, eq=False)
class View(Segments):
    """The collection at one state."""

    state: State
    links: Links | None
    """None: not built, or damaged (`check` tells)."""
    plans: dict[float, object] = field(default_factory=dict)
    """What `plan` has worked out, by target."""
    ways: dict[tuple[int, float, str], object] = field(default_factory=dict)
    """What `alone` has worked out, by k, target and mode."""
    unlisted: bool = False
    """Whether there were runs or link sets that are not listed when the manifest was read: they are being built, or a crash left them."""

    @classmethod
    def of(cls, state: State, runs: tuple[Run, ...], fresh: Fresh, links: Links | None, unlisted: bool = False) -> View:
        """Put runs and fresh rows together.

        Raises:
            CorruptData: other rows are alive than the state counts.
        """
        live, total = sum(run.live for run in runs) + fresh.live, sum(run.rows for run in runs) + fresh.rows
        if state.rows not in (live, None):
            raise CorruptData(f"{live:,} rows are alive, the state record says {state.rows:,}")
        return cls(runs, fresh, live, total, state, links, unlisted=unlisted)

    def verify_rows(self, reader: Reader, cancel: threading.Event | None) -> None:
        """See that rows are what was written, once for each run in a process: an answer of all rows is complete only then.

        Raises:
            CorruptData. SearchCancelled.
        """
        for run in self.runs:
            look(cancel)
            run.verify_rows(reader)

    @property
    def unlinked_rows(self) -> int:
        """Rows in runs that no link set covers, dead ones included."""
        tails = (0,) * len(self.runs) if self.links is None else self.links.tails
        return sum(run.rows - tail for run, tail in zip(self.runs, tails, strict=True))


class Views:
    """The newest view of one store, brought forward on demand. Thread-safe."""

    def __init__(self, geometry: str) -> None:
        """geometry: what the kernel's bounds ask of codes (`Space.geometry`)."""
        self.geometry = geometry
        self._lock = threading.Lock()
        self._newest: tuple[int, bytes, View] | None = None
        """Opening of the files, state record, view."""
        self._written: tuple[int, list[tuple[int, Commit]]] = (0, [])
        """Opening of the files, and what this process committed last, until a view has it."""

    def at(self, reader: Reader) -> View | None:
        """The view of the reader's state; None if this process has already moved past it (read again)."""
        record = reader.state_record()
        newest = self._newest
        if newest is not None and newest[1] == record and newest[0] == reader.opening:
            return newest[2]
        state = reader.state()
        with self._lock:
            newest = self._newest
            # Addresses of another opening are void.
            view = newest[2] if newest is not None and newest[0] == reader.opening else None
            if view is not None:
                if view.state == state:
                    return view
                if view.state.sequence > state.sequence or view.state.manifest > state.manifest:
                    return None
            reader.refuse_empty_state()
            view = self._advanced(view, reader, state) if view is not None else self._loaded(None, reader, state)
            self._newest = reader.opening, record, view
            return view

    def written(self, writer: Writer) -> None:
        """Take what a writer has committed, which is on disk now: the next view need not read it back from the journal."""
        self._written = writer.opening, writer.commits

    def _advanced(self, view: View, reader: Reader, state: State) -> View:
        """The view brought forward to a later state."""
        if view.state.manifest != state.manifest:
            return self._loaded(view, reader, state)
        commits = self._commits(reader, view.state.sequence, state)
        gone = gone_in(commits)
        runs = tuple(_bury(run, gone) for run in view.runs) if len(gone) else view.runs
        return View.of(state, runs, view.fresh.extended(commits), view.links)

    def _commits(self, reader: Reader, after: int, state: State) -> list[Commit]:
        """The commits after one number, up to the state's: of the last transaction of this process from memory, else from the journal."""
        (opening, written), self._written = self._written, (0, [])
        if written and (opening, written[0][0], written[-1][0]) == (reader.opening, after + 1, state.sequence):
            return [commit for _, commit in written]
        return _journal(reader, after, state)

    def _loaded(self, view: View | None, reader: Reader, state: State) -> View:
        """A view read from the manifest; runs that are known keep their places."""
        known = {run.number: run for run in view.runs} if view is not None else {}
        runs = []
        for number in reader.manifest():
            run = known.get(number)
            runs.append(Run.load(reader, number) if run is None else run.replaced(reader.run_dead(number, run.rows)))
        links = self._links(view, reader, tuple(run.row_numbers for run in runs))
        return View.of(state, tuple(runs), self._fresh(view, reader, state), links, _has_unlisted(reader))

    def _fresh(self, view: View | None, reader: Reader, state: State) -> Fresh:
        """The rows that are in the journal only; those that a view knows are not read again."""
        if view is None or not view.state.sealed <= state.sealed <= view.state.sequence:
            return Fresh(state.sealed).extended(_journal(reader, state.sealed, state))
        return view.fresh.without(state.sealed).extended(self._commits(reader, view.state.sequence, state))

    def _links(self, view: View | None, reader: Reader, runs: tuple[NDArray[np.uint64], ...]) -> Links | None:
        """The link set, placed in these runs. One that is damaged is done without: bands and scans need no links."""
        try:
            for number in reader.link_sets():
                known = view.links.set if view is not None and view.links is not None and view.links.set.number == number else None
                return Links.of(known or LinkSet.load(reader, number, self.geometry), runs)
        except CorruptData:
            return None
        return None


def _bury(run: Run, gone: NDArray[np.uint64]) -> Run:
    """The run with those of the gone rows that are in it dead."""
    inside = gone[(gone >= run.row_numbers[0]) & (gone <= run.row_numbers[-1])]
    if not len(inside):
        return run
    place = np.searchsorted(run.row_numbers, inside)
    return run.with_dead(place[run.row_numbers[place] == inside])


def _has_unlisted(reader: Reader) -> bool:
    """Whether there are runs or link sets that are not listed. What is damaged is for others to tell."""
    try:
        return not reader.run_numbers() <= {*reader.manifest(), *reader.link_sets()}
    except CorruptData:
        return False


def _journal(reader: Reader, after: int, state: State) -> list[Commit]:
    """The commits after one number, up to the state's: each of them has its journal entry.

    Raises:
        CorruptData: one is missing.
    """
    entries = list(reader.journal(after))
    if [number for number, _ in entries] != list(range(after + 1, state.sequence + 1)):
        raise CorruptData(f"the journal has not just the commits {after + 1} to {state.sequence}")
    return [commit for _, commit in entries]
