"""The pool index of one collection of objects: built, extended and built anew in the background, opened and asked by queries.

Built when there are enough objects, extended when enough are not covered, built anew when they have doubled. One process does that at
a time, elected by a file lock; it writes a new generation beside the old one, makes it current by a rename, and removes the other.
Whoever asks looks every quarter of a second whether another generation is current.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kinbin.bands.build import Cancelled
from kinbin.collection import Collection
from kinbin.errors import KinbinError, StorageError
from kinbin.items.embedding import Embedder
from kinbin.pools.building import calibrate, choose, embed
from kinbin.pools.index import Index
from kinbin.pools.measured import Measured
from kinbin.pools.search import Broken, PoolSearch
from kinbin.pools.side import Side
from kinbin.query.found import Found, FoundOne, joined
from kinbin.query.plan import Plan
from kinbin.query.route import Wanted
from kinbin.query.search import Masks
from kinbin.query.threads import parts, run_together
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.rows.topk import NOTHING
from kinbin.storage.transactions import Reader
from kinbin.upkeep.background import LinkThread
from kinbin.upkeep.election import elected
from kinbin.upkeep.linking import Progress

__all__ = ["FOLDER", "LEAST_OBJECTS", "Pools"]

FOLDER = "pools"
"""The directory of a collection in which its pool index lies."""
LEAST_OBJECTS = 2_000
"""Fewer objects than these are scanned; of objects whose distance takes long, a quarter of them."""
_ANEW = "; link the collection again (`kinbin link`)"
_LONG_NS = 1_000.0
_LOOK_SECONDS = 0.25
_GROWTH = 8
"""Objects are covered when one in so many is not (in quiet times, one in 8 times as many)."""
_GONE_SHARE = 0.3
_SLICE = 32
"""Queries between two looks at whether a search was cancelled."""

log = logging.getLogger("kinbin.upkeep")


class _Open:
    """An index that is open in this process."""

    def __init__(self, collection: Collection, index: Index) -> None:
        self.index = index
        embedding = next(one for one in collection._space.embeddings if one.name == index.embedding)
        self.told = embedding.told(index.settings)
        self.side = Side(collection._store.path / FOLDER / str(index.generation))
        self.embedder: Embedder = embedding.embedder(
            index.settings, collection._form, Measured(collection._space, collection._wide).distances
        )
        self.search = PoolSearch(collection._searcher, self.side, self.embedder)
        self.broken = False


class Pools:
    """See the head of this file. Methods may be called from any thread."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._folder = collection._store.path / FOLDER
        self._lock_file = collection._store.path / "pools.lock"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._stamp: tuple[int, int] | None = None
        self._looked = 0.0
        self._building: Side | None = None
        self._thread = LinkThread(f"{collection.name}-pools", self._step, lambda: None)

    # -- asking

    def search_one(self, at: tuple[Reader, View], plan: Plan, query: Rows, wanted: Wanted, masks: Masks) -> FoundOne | None:
        """The answer to one query; None: it is to be searched without a pool."""
        found = self.search(at, plan, query, wanted, masks)
        if found is None:
            return None
        answers = found.answers
        count = int(np.count_nonzero(answers.scores[0] > NOTHING))
        return FoundOne(
            answers.scores[0, :count], answers.runs[0, :count].tolist(), answers.rows[0, :count], int(answers.candidates[0]),
            int(answers.verified[0]), False, float(answers.certificates[0]), int(found.path[0]), bool(found.far[0]), found.steps[0],
        )  # fmt: skip

    def search(self, at: tuple[Reader, View], plan: Plan, queries: Rows, wanted: Wanted, masks: Masks) -> Found | None:
        """The answers to m queries; None: they are to be searched without a pool.

        Walks promise nothing of what they leave out, so whoever asks for a bound, or for all within a distance, is answered by a scan.
        """
        forced = wanted.mode == "links"
        if wanted.mode not in ("auto", "links") or (wanted.certify and not forced) or wanted.least > 0.0:
            return None
        current = self._current()
        if current is None or current.broken:
            return None
        chosen = current.index.calibration.pool(wanted.k, wanted.target, wanted.share, forced=forced, live=at[1].live_rows)
        if chosen is None:
            return None
        pool, far = chosen

        def task(cut: slice) -> Callable[[], Found | None]:
            return lambda: self._part(current, at, plan, queries.slice(cut.start, cut.stop), (wanted, pool, far), masks)

        cuts = parts(len(queries))
        try:
            done = [task(cuts[0])()] if len(cuts) == 1 else run_together([task(cut) for cut in cuts])
        except (Broken, StorageError) as error:
            self._collection._space.raise_failure()
            # What is derived is no reason not to answer.
            current.broken = True
            log.warning("%s: the pool index cannot be used: %s", self._collection.name, str(error) or "its links are damaged")
            self._thread.wake()
            return None
        whole = [one for one in done if one is not None]
        return joined(whole) if len(whole) == len(done) else None

    def _part(
        self, current: _Open, at: tuple[Reader, View], plan: Plan, queries: Rows, asked: tuple[Wanted, int, float], masks: Masks
    ) -> Found | None:
        """Some of the queries, in one thread."""
        wanted, pool, far = asked
        found = current.search.search(at[1], queries, wanted.k, pool, masks)
        if found is None:
            return None
        # Of one that is farther from its neighbours than all that were calibrated, or has too few, nothing is known.
        missing = found.last == NOTHING
        far_off = (found.last < far) & ~missing
        which = np.flatnonzero(far_off | missing if wanted.mode == "auto" else missing)
        if len(which):
            scans = replace(wanted, mode="exact")
            found.put(which, self._collection._searcher.search(at, plan, queries.take(which), scans, masks))
        found.far[:] = far_off
        return found

    def _current(self) -> _Open | None:
        """The index that is current, as of a quarter of a second ago."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return self._open
        with self._lock:
            self._looked = now
            stamp = Index.stamp(self._folder)
            if stamp == self._stamp:
                return self._open
            self._stamp = stamp
            index = Index.load(self._folder)
            known = self._open
            if index is None:
                self._open = None
            elif known is not None and known.index.generation == index.generation:
                known.index = index
            else:
                try:
                    self._open = _Open(self._collection, index)
                except (KinbinError, OSError, StopIteration, KeyError, ValueError) as error:
                    log.warning("%s: the pool index cannot be opened: %s", self._collection.name, error)
                    self._open = None
            return self._open

    def _look_again(self) -> _Open | None:
        self._looked = 0.0
        return self._current()

    # -- building

    def wake(self) -> None:
        """Tell of a write, or of a query that had to score many objects."""
        self._thread.wake()

    def look(self, view: View) -> None:
        """See to what a query has seen: whoever wrote these objects may be gone."""
        try:
            due = self._is_due(view, quiet=True)
        except StorageError:
            # The query is answered; whoever builds finds out what is the matter.
            due = True
        if due:
            self._thread.wake()

    def _least(self, view: View) -> int:
        """Objects from which on an index is built."""
        objects = self._collection._space.objects
        nonzeros = next((run.header.contrast.nonzeros for run in view.runs), 0.0)
        return LEAST_OBJECTS // 4 if objects is not None and objects.row_ns(nonzeros) > _LONG_NS else LEAST_OBJECTS

    def _is_due(self, view: View, *, quiet: bool) -> bool:
        """Whether an index should be built, extended, or built anew."""
        live = view.live_rows
        if live < self._least(view):
            return False
        current = self._current()
        if current is None or current.broken or self._is_old(current, view):
            return True
        rows = self._uncovered(current, view)
        return rows >= max(64, live // (8 * _GROWTH if quiet else _GROWTH))

    def _is_old(self, current: _Open, view: View) -> bool:
        """Whether the index is to be built anew."""
        with current.side.reading() as (_, side):
            gone = side.links is not None and side.links.linked > (1.0 + _GONE_SHARE) * view.live_rows
        return view.live_rows >= 2 * current.index.rows or gone

    @staticmethod
    def _uncovered(current: _Open, view: View) -> int:
        with current.side.reading() as (_, side):
            placed = current.search.placed(view, side)
        return view.live_rows if placed is None else placed.rest_rows

    def _step(self, *, quiet: bool) -> bool:
        """Do what is due, if nobody else does. Returns whether there is nothing left to do now."""
        with self._collection._reading() as (_, view):
            if not self._is_due(view, quiet=quiet):
                return True
        try:
            return self._build(wait=False, progress=None)
        except Cancelled:
            return True

    def build(self, progress: Progress | None) -> None:
        """Cover every object now, waiting for whoever is at it; an index that is damaged is built anew.

        Cost: besides building, what reading all of the index takes that is there.

        Raises:
            Closed, CollectionNotFound: the collection was closed, or removed, meanwhile.
        """
        with self._collection._reading() as (_, view):
            if not view.live_rows:
                return
        try:
            self._build(wait=True, progress=progress)
        except Cancelled:
            raise self._collection._store.over() from None

    def _build(self, *, wait: bool, progress: Progress | None) -> bool:
        """Build or extend, if this process is elected. Returns whether it was."""
        with elected(self._lock_file, wait=wait) as mine:
            if not mine:
                return False
            self._folder.mkdir(exist_ok=True)
            current = self._look_again()
            with self._collection._reading() as (_, view):
                anew = current is None or current.broken or self._is_old(current, view)
            # Whoever asks for it has perhaps read that it is damaged.
            anew = anew or (wait and current is not None and bool(current.side.problems()))
            if current is not None and not anew:
                self._extend(current, progress)
            else:
                self._make(progress)
            self._look_again()
            self._clean()
            return True

    def problems(self) -> list[str]:
        """What is damaged of the index: all of its files are read. What it lacks is no damage: it is derived."""
        current = self._look_again()
        if current is not None:
            return [f"pool index: {problem}{_ANEW}" for problem in current.side.problems()]
        # A record that leads to nothing that can be opened is no missing index.
        return [f"pool index: it is damaged, or of another version, and nothing is answered from it{_ANEW}"] if self._stamp else []

    def _check(self) -> None:
        if self._stop.is_set():
            raise Cancelled

    def _make(self, progress: Progress | None) -> None:
        """A new generation."""
        collection, began = self._collection, time.monotonic()
        chosen = choose(collection, self._check)
        if chosen is None:
            return
        embedding, settings, tried = chosen
        embedder = embedding.embedder(settings, collection._form, Measured(collection._space, collection._wide).distances)
        generation = 1 + max((int(entry.name) for entry in self._folder.iterdir() if entry.name.isdigit()), default=0)
        side = Side.create(self._folder / str(generation), embedding.kernel, embedder.dim, collection._seed)
        self._building = side
        try:
            rows = embed(collection, side, embedder, self._stop)
            side.link(progress)
            calibration = calibrate(collection, PoolSearch(collection._searcher, side, embedder), self._check)
        finally:
            self._building = None
            # Before anybody finds it: a process must not have the same files open twice.
            side.close()
        Index(generation, embedding.name, settings, tried, rows, calibration).save(self._folder)
        log.info("%s: pool index of %d objects by %s in %.2f s", collection.name, rows, embedding.name, time.monotonic() - began)

    def _extend(self, current: _Open, progress: Progress | None) -> None:
        """Cover the objects that came since."""
        self._building = current.side
        try:
            if embed(self._collection, current.side, current.embedder, self._stop):
                current.side.link(progress)
        finally:
            self._building = None

    def _clean(self) -> None:
        """Remove generations that are not current. Whoever has one open keeps reading it."""
        index = Index.load(self._folder)
        for entry in self._folder.iterdir():
            if entry.is_dir() and (index is None or entry.name != str(index.generation)):
                shutil.rmtree(entry, ignore_errors=True)

    # -- life

    def describe(self, view: View) -> dict[str, Any] | None:
        """What `stats` tells; None: there is no index."""
        current = self._look_again()
        if current is None:
            return None
        index, calibration = current.index, current.index.calibration
        uncovered = self._uncovered(current, view)
        chosen = calibration.pool(10, 0.9, 1.0, forced=False, live=view.live_rows)
        return {
            "embedding": index.embedding, "settings": current.told, "tried": index.tried, "built_for": index.rows,
            "covered": view.live_rows - uncovered, "uncovered": uncovered,
            "pool": None if chosen is None else chosen[0], "bytes": current.side.size_on_disk(),
            "calibration": {
                "queries": calibration.queries, "pools": calibration.pools, "recall": calibration.recall,
                "us": [round(ns / 1_000, 1) for ns in calibration.ns], "scan_us": round(calibration.scan_ns * view.live_rows / 1_000, 1),
                "fewer": {
                    k: {"us": [round(ns / 1_000, 1) for ns in took], "scan_us": round(scan_ns * view.live_rows / 1_000, 1)}
                    for k, (scan_ns, *took) in calibration.fewer.items()
                },
            },
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        """What failed in the background of this process."""
        return self._thread.report()

    def close(self) -> None:
        """Stop building, and let go of the files."""
        self._stop.set()
        building = self._building
        if building is not None:
            building.stop()
        self._thread.stop()
        if self._open is not None:
            self._open.side.close()
            self._open = None
