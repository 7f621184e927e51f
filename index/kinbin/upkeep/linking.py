"""Building link sets: which rows, from what, when, and the swap.

A link set is built beside everything else: rows are read and encoded under one short snapshot, links are made on the
codes alone, and what comes of it is written in small transactions under a number that no list names; the last, short
transaction swaps it in. A crash before that leaves values that nobody reads and the next upkeep removes. One
process at a time links, over all collections of a database; writing, it holds the collection's upkeep lock as well.

Work in the background, at low priority, is handed over to a `link()` of the same process that waits for either lock: it stops
at its next check and keeps the draft, and whoever links the collection next goes on with it where it stopped. Checks lie between
pieces of 4,096 rows encoded, 256 nodes linked, pools calibrated and 1 MiB written; choosing codes has none (seconds).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kinbin.bands.build import Cancelled, Parts
from kinbin.errors import CorruptData
from kinbin.links.calibration import calibrate, is_yet, uncalibrated, uncalibrated_yet
from kinbin.links.linkset import Links
from kinbin.links.widths import CalibrationTable
from kinbin.query.view import View, Views
from kinbin.segments.source import Recipe
from kinbin.storage.creation import logged_name
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.headers import LinkSetHeader
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from kinbin.upkeep.drafts import Draft, Drafting, horizon_of, unpacked
from kinbin.upkeep.election import elected, is_wanted
from kinbin.upkeep.sealing import Upkeep, current

__all__ = ["LEAST_ROWS", "Linker", "Progress", "is_due", "is_enough"]

LEAST_ROWS = 4_096
"""Fewer rows than these are not linked by themselves: a scan of them takes a tenth of a millisecond."""
GROWTH = 8
"""New rows are linked when they are more than one in so many of the linked ones (in quiet times, of 8 times as many)."""
GONE_SHARE = 0.3
"""A link set with a larger share of dead rows is built anew."""
_BLOCK_BYTES = 1 << 20
_LINK_SHIFT = 12
"""A block holds the links of so many nodes, as a power of two."""

Progress = Callable[[int, int], None]

log = logging.getLogger("kinbin.upkeep")


def is_enough(items: int) -> bool:
    """Whether so many items may be linked by themselves."""
    return items >= LEAST_ROWS


def is_due(view: View, *, quiet: bool) -> bool:
    """Whether rows of this view should be linked now."""
    linked = 0 if view.links is None else view.links.linked
    unlinked = view.unlinked_rows
    if view.links is not None and is_yet(view.links.set.calibration):
        return True
    if linked + unlinked < LEAST_ROWS:
        return False
    if view.links is not None and linked - _dead_linked(view, view.links) < (1 - GONE_SHARE) * len(view.links.places):
        return True
    least = max(LEAST_ROWS // 4, linked // (8 * GROWTH)) if quiet else max(LEAST_ROWS, linked // GROWTH)
    return unlinked >= least


def _dead_linked(view: View, links: Links) -> int:
    """Dead rows in runs that are linked (at least in part)."""
    return sum(run.rows - run.live for run, tail in zip(view.runs, links.tails, strict=True) if tail)


def _covers(draft: Draft, view: View) -> bool:
    """Whether a draft has all rows that are in runs."""
    return draft.horizon == horizon_of(view) and len(draft.row_numbers) >= sum(run.live for run in view.runs)


class _HandedOver(Exception):
    """A thread of this process waits for the work that is done in the background."""


class Linker:
    """Links the rows of one collection. Methods may be called from any thread; work is done by one at a time."""

    def __init__(
        self, store: Store, views: Views, recipe: Recipe, dim: int | None, upkeep: Upkeep, *, calibrates: bool = True
    ) -> None:  # fmt: skip
        """calibrates: False where somebody else measures what walks find."""
        self._store = store
        self._views = views
        self._recipe = recipe
        self._dim = dim
        self._calibrates = calibrates
        self._upkeep = upkeep
        self.stop = threading.Event()
        """Set it to end the build at hand early: nothing of it stays."""
        self._name = logged_name(store.path)
        self._drafting = Drafting(store, recipe, dim, self._name)
        self._begun: Draft | None = None
        """What was handed over, until somebody goes on with it or nothing is due any more."""

    @property
    def _lock(self) -> Path:
        return self._store.path.parent.parent / "linker.lock"

    def step(self, *, quiet: bool) -> bool:
        """Link what is due, if nobody else in the database links. Returns whether there is nothing left to do now."""
        with self._store.read() as reader:
            view = self._views.at(reader)
            if view is None or view.state.dropped or not self._recipe.space.codes or not is_due(view, quiet=quiet):
                self._begun = None
                return True
        with elected(self._lock, wait=False) as mine:
            if not mine:
                return False
            try:
                return not self._build(None, self._check_in_background)
            except Cancelled:
                log.info("%s: gave up linking: the collection is being closed", self._name)
                return True
            except _HandedOver:
                log.info("%s: linking is handed over to a call that waits for it", self._name)
                return False

    def link_all(self, progress: Progress | None) -> None:
        """Link every row that is in a run, waiting for whoever links now. progress is told of rows linked, and of how many.

        What this process does in the background is not waited for, but gone on with here.

        Raises:
            Closed, CollectionNotFound: the collection was closed, or removed, meanwhile.
        """
        if not self._recipe.space.codes:
            return
        with elected(self._lock, wait=True):
            try:
                if self._build(progress, self._check, again=True):
                    self._build(progress, self._check)
            except Cancelled:
                raise self._store.over() from None

    def _check(self) -> None:
        if self.stop.is_set():
            raise Cancelled

    def _check_in_background(self) -> None:
        self._check()
        if is_wanted(self._lock) or is_wanted(self._upkeep.lock):
            raise _HandedOver

    def _build(self, progress: Progress | None, check: Callable[[], None], *, again: bool = False) -> bool:
        """Build a link set of all rows in runs, and swap it in; `check` raises to end that.

        again: whether rows that are left are linked at once. Then the first set of a collection is not calibrated before they are: until
        then `auto` goes on as it did without links. Returns whether it had been begun before, so that rows of since then are left.
        """
        with self._store.read() as reader:
            view = current(self._views, reader)
            begun, self._begun = self._begun, None
            if self._is_whole(reader, view):
                return False
            if begun is not None and begun.sets != reader.link_sets():
                # Another process has linked meanwhile.
                begun = None
            draft = begun
            if draft is None and any(run.live for run in view.runs):
                draft = self._drafting.draft(reader, view, check)
        if draft is None:
            # No row is left to link.
            with self._upkeep.elected(wait=True):
                self._swap(None)
            log.info("%s: removed the links: no row is left to link", self._name)
            return False
        if again and begun is not None and begun.calibration is None and view.links is None and not _covers(begun, view):
            draft.calibration = uncalibrated_yet()
        try:
            self._complete(draft, progress, check)
        except _HandedOver:
            self._begun = draft
            raise
        return begun is not None

    def _is_whole(self, reader: Reader, view: View) -> bool:
        """Whether the link set is sound and has just the living rows of all runs."""
        links = view.links
        if links is None:
            return not view.unlinked_rows
        if view.unlinked_rows or links.linked < len(links.places) or _dead_linked(view, links) or is_yet(links.set.calibration):
            return False
        try:
            unpacked(reader, links.set, self._recipe.space.shapes, self._drafting.room_for(len(links.places)))
        except CorruptData:
            return False
        return True

    def _complete(self, draft: Draft, progress: Progress | None, check: Callable[[], None]) -> None:
        """Link the nodes of a draft that are not linked yet, and swap it in."""
        began, before = time.monotonic(), draft.linked

        def going_on(done: int) -> bool:
            draft.linked = done
            if progress is not None:
                progress(done, len(draft.new))
            check()
            return True

        draft.graph.insert(draft.new, going_on, draft.linked)
        draft.graph.join_strays()
        if not self._calibrates:
            draft.calibration = uncalibrated()
        if draft.calibration is None:
            with self._store.read() as reader:
                draft.calibration = calibrate(
                    current(self._views, reader), draft.row_numbers, draft.graph, draft.coder, draft.errors, self._recipe, check
                )
        check()
        with self._upkeep.elected(wait=True):
            self._upkeep.remove_orphans()
            number = self._write(draft, draft.calibration, check)
            self._swap(number)
        new, seconds = len(draft.new) - before, time.monotonic() - began
        log.info("%s: linked %d rows, %d of them new, in link set %d in %.2f s", self._name, len(draft.row_numbers), new, number, seconds)

    def _write(self, draft: Draft, calibration: CalibrationTable, check: Callable[[], None]) -> int:
        """Write the link set in small transactions. Returns its number."""
        parts = Parts(self._store, check)
        graph = draft.graph
        code_shift, code_blocks, code_offsets = graph.codes.stored(_BLOCK_BYTES)
        link_shift = _LINK_SHIFT
        offsets = graph.codes.room.empty(len(graph.codes), np.uint32)
        padding = np.zeros(CODE_PADDING, np.uint8)
        for i, codes in enumerate(code_blocks):
            parts.put(Part.CODES, i, np.concatenate([padding, codes]))
        if not graph.codes.width:
            parts.put(Part.CODE_OFFSETS, 0, code_offsets)
        for i, block in enumerate(graph.packed(link_shift, offsets)):
            parts.put(Part.LINKS, i, block)
        parts.put(Part.LINK_OFFSETS, 0, offsets)
        parts.put(Part.ROW_NUMBERS, 0, draft.row_numbers)
        parts.put(Part.ERRORS, 0, draft.errors)
        if not graph.shapes:
            parts.put(Part.NORMS, 0, graph.norms)
        parts.put(Part.BUCKETS, 0, draft.coder.buckets)
        if draft.coder.projection is not None and draft.coder.width:
            parts.put(Part.DIRECTIONS, 0, draft.coder.projection.matrix)
            parts.put(Part.FEATURES, 0, draft.coder.projection.known)
        parts.put(Part.ENTRIES, 0, graph.entries)
        parts.flush()
        header = LinkSetHeader(
            rows=len(draft.row_numbers), horizon=draft.horizon, coder=draft.coder.header(), norms=not graph.shapes,
            code_shift=code_shift, link_shift=link_shift, scratch_rows=draft.scratch_rows, link_count=int(graph.links[:, 0].sum()),
            calibration=calibration.encode(),
        )  # fmt: skip
        with self._store.write() as writer:
            writer.put_header(parts.number, header)
        return parts.number

    def _swap(self, number: int | None) -> None:
        """Replace the link set, in one transaction."""
        with self._store.write() as writer:
            sets = writer.link_sets()
            if not sets and number is None:
                return
            for old in sets:
                writer.delete_run(old)
            writer.put_link_sets([] if number is None else [number])
            state = writer.state()
            writer.put_state(state.with_(manifest=state.manifest + 1))
