"""One search: canonical queries and a view in, rows with exact scores and certificates out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.contrast import postings_cap
from kinbin.bands.search import search_bands
from kinbin.cancelling import event_now, look
from kinbin.errors import CorruptData
from kinbin.hashing import Sampler, band_keys
from kinbin.links.search import BROKEN, PROBES, room_for, scan_codes, search_links
from kinbin.links.widths import MOST_WIDTH, Width
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.query.desks import Desk
from kinbin.query.found import BANDS, EXACT, LINKS, Found, FoundAlone, FoundOne, joined, new_rows
from kinbin.query.plan import Plan
from kinbin.query.route import ALL, CERTIFIABLE, FAR, MISSED, REST, SHORT, UNCERTIFIED, Route, Step, Wanted, route_for
from kinbin.query.scanning import scan_in_parts
from kinbin.query.threads import parts, run_together
from kinbin.query.view import View
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.topk import ALIKE, NOTHING
from kinbin.segments.descriptors import CORRUPT, FRESH_BANDS
from kinbin.spaces.space import Space
from kinbin.storage.dead import DeadRows
from kinbin.storage.transactions import Reader

__all__ = ["Masks", "Searcher", "fresh_keys"]

Masks = Sequence[DeadRows] | None
"""For each run and the fresh rows, bits of the rows that must not be answered; None: the dead."""


_SLICE_NS = 2e8
_LEAST_SLICE = 16
"""Queries between two looks at whether a search was cancelled: so many as are scanned in some time, but no fewer."""
_LEAST_UNSCANNED = 128
"""The same where few of them will be scanned."""
_SCAN_WALK = 32
"""Pool of the walk that tells a scan what is too far."""
_SPARSE = 0.05
"""Of rows of which a filter lets a smaller share through all are scored: codes would be compared for nothing."""
_FIRST = np.zeros(1, np.int64)
_NOBODY = np.empty(0, np.int64)
_KEPT = 16
"""Desks that a collection keeps."""
Begun = tuple[Desk, FoundAlone] | None
"""A single query of which a walk is made already: the desk that it was made at, and what it found there."""


class Searcher:
    """Runs kernels for one collection: holds its space, its sampler and a pool of desks. Thread-safe."""

    def __init__(self, space: Space, sampler: Sampler, wide: bool) -> None:
        self.space = space
        self.sampler = sampler
        self.wide = wide
        self._pool: list[Desk] = []
        self._lock = threading.Lock()

    def borrow(self, queries: Rows) -> Desk:
        """A desk for such queries. Give it back; after an error let it go instead: its work space may not be clean."""
        nonzeros = queries.most_nonzeros if self.wide else 1
        with self._lock:
            desk = self._pool.pop() if self._pool else None
        if desk is None:
            desk = Desk(self.wide, nonzeros)
        desk.scratch.look_up(nonzeros)
        if self.space.objects is not None:
            desk.scratch.work(self.space.objects.room(queries))
        return desk

    def give_back(self, desk: Desk) -> None:
        """Keep a desk for the next search."""
        with self._lock:
            if len(self._pool) < _KEPT:
                self._pool.append(desk)

    def search_one(
        self, at: tuple[Reader, View], plan: Plan, query: Rows, wanted: Wanted, masks: Masks, begun: Begun = None
    ) -> FoundOne:  # fmt: skip
        """Answer one query: as `search`, with room that is used again. begun: by `alone`, whose walk is the first step of the route."""
        look(wanted.cancel)
        desk = self.borrow(query) if begun is None else begun[0]
        found = desk.found(wanted.k) if begun is None else begun[1]
        _Call(self, at, plan, desk, wanted, masks).run(query, desk.asked(query), found, begun=begun is not None)
        only = found.only()
        self.give_back(desk)
        return only

    def search(self, at: tuple[Reader, View], plan: Plan, queries: Rows, wanted: Wanted, masks: Masks) -> Found:
        """Answer m queries inside a read snapshot of the view's state (`at`: both).

        Raises:
            CorruptData: a stored number is out of bounds, or an answered row fails its check.
            SearchCancelled: wanted.cancel was set.
        """
        cuts = parts(len(queries))

        def task(cut: slice) -> Callable[[], Found]:
            return lambda: part_of(cut)

        def part_of(cut: slice) -> Found:
            part = queries if len(cuts) == 1 else queries.slice(cut.start, cut.stop)
            desk = self.borrow(part)
            found = _Call(self, at, plan, desk, wanted, masks).run_in_slices(part)
            self.give_back(desk)
            return found

        if len(cuts) == 1:
            return part_of(cuts[0])
        return joined(run_together([task(cut) for cut in cuts]))


class _Call:
    """One search in one thread: what every step of it needs."""

    def __init__(
        self,
        searcher: Searcher,
        at: tuple[Reader, View],
        plan: Plan,
        desk: Desk,
        wanted: Wanted,
        masks: Masks,
    ) -> None:
        self.searcher = searcher
        self.reader, self.view = at
        self.plan = plan
        self.desk = desk
        self.wanted = wanted
        self.masks = masks
        self.space = searcher.space.record
        self.segments = plan.segments if masks is None else self.masked(plan.segments)

    def masked(self, segments: Record) -> Record:
        """The segments with this call's masks."""
        if self.masks is None:
            return segments
        out = segments.copy()
        out["mask"] = [address_of(mask.bits) for mask in self.masks]
        out["live"] = np.minimum(out["live"], [mask.live for mask in self.masks])
        return out

    def run_in_slices(self, queries: Rows) -> Found:
        """Answer some queries after the other, and look whether the search was cancelled before each of these slices.

        A slice is as large as a scan of all its queries is expected to take 0.2 s: what they share (tiles of codes in the cache, a
        kernel call) is worth no more. Where it can be cancelled the first is small, and the next ones are as large as they took 0.2 s:
        what other ways than a scan take, nobody knows before.
        """
        least = _LEAST_SLICE if self.wanted.mode == "exact" else _LEAST_UNSCANNED
        most = max(least, int(_SLICE_NS / max(self.plan.scan_ns, 1.0)))
        watched = self.wanted.cancel is not None or event_now() is not None
        size, start = min(most, _LEAST_SLICE) if watched else most, 0
        done: list[Found] = []
        while start < len(queries) or not done:
            look(self.wanted.cancel)
            some = queries if start == 0 and size >= len(queries) else queries.slice(start, min(start + size, len(queries)))
            found = Found.empty(len(some), self.wanted.k)
            began = time.perf_counter_ns()
            self.run(some, queries_record(some), found)
            done.append(found)
            start += size
            if watched:
                fitting = int(size * _SLICE_NS / max(time.perf_counter_ns() - began, 1))
                size = max(_LEAST_SLICE, min(most, fitting))
        return done[0] if len(done) == 1 else joined(done)

    def run(self, queries: Rows, asked: Record, found: Found, *, begun: bool = False) -> None:
        """Take the steps of the route. asked: the queries' record. begun: the first, a sound walk, was taken already."""
        run = _Run(self, route_for(self.plan, self.wanted), queries, asked, found)
        run.begun = begun
        if not run.take_all():
            # Broken links are no reason not to answer.
            found.forget()
            _Run(self, route_for(self.plan, self.wanted, links=False), queries, asked, found).take_all()


class _Run:
    """The steps of one route for some queries."""

    def __init__(self, call: _Call, route: Route, queries: Rows, asked: Record, found: Found) -> None:
        self.call = call
        self.route = route
        self.queries = queries
        self.asked = asked
        self.found = found
        self.everyone = _FIRST if len(queries) == 1 else np.arange(len(queries))
        self.far = _NOBODY
        """Queries that a walk found far, or met fewer than k rows for, and that nothing has certified since."""
        self.uncertified = _NOBODY
        self.missed = _NOBODY
        self.full = False
        """Whether a single query is known to have all its answers."""
        self.uncut = False
        """Whether answers may be among those found that score less than is wanted."""
        self.begun = False
        """Whether the next walk was made already."""

    def take_all(self) -> bool:
        """Take every step for the queries that it is for. Returns False if the links are broken; nothing is found then."""
        self.found.route = self.route
        times = self.call.wanted.times
        for place, step in enumerate(self.route.steps):
            which = self.far if step.queries == FAR else self.everyone if step.queries == ALL else self.of(step)
            if not len(which):
                continue
            began = 0.0 if times is None else time.perf_counter()
            if self.uncut and step.way != "walk":
                self.found.cut_below(self.call.wanted.least)
                self.uncut = False
            if step.way == "walk":
                if not self.walk(step, which):
                    return False
            elif step.way == "bands":
                self.bands(step, which)
            elif step.rows == REST:
                self.scan_rest(which)
            else:
                self.scan(which)
            if which is self.everyone:
                self.found.common |= 1 << place
            else:
                self.found.taken[which] |= 1 << place
            if times is not None:
                times.append((str(step), (time.perf_counter() - began) * 1e3))
        if self.uncut:
            self.found.cut_below(self.call.wanted.least)
        return True

    def of(self, step: Step) -> NDArray[np.int64]:
        """The queries that a step is for, if they are neither all nor those that are far."""
        if step.queries == SHORT:
            if self.full:
                return _NOBODY
            last = self.found.last
            if last.size == 1:
                return _FIRST if last.item() == NOTHING else _NOBODY
            return np.flatnonzero(last == NOTHING)
        if step.queries == UNCERTIFIED:
            return self.uncertified
        if step.queries == MISSED:
            return self.missed
        assert step.queries == CERTIFIABLE
        reached = np.maximum(self.found.last[self.far], self.call.wanted.least)
        return self.far[reached >= self.call.plan.certifiable]

    def some(self, which: NDArray[np.int64]) -> tuple[Rows, Record, Found]:
        """Some of the queries, and their answers: to be put back if they are not all."""
        if len(which) == len(self.queries):
            return self.queries, self.asked, self.found
        queries = self.queries.take(which)
        return queries, queries_record(queries), self.found.part(which)

    def put(self, which: NDArray[np.int64], part: Found) -> None:
        """Put answers back."""
        if part is not self.found:
            self.found.put(which, part)

    def ask(self, asked: Record, least: float, *, more: bool) -> Record:
        """Say in a record what is asked of a kernel."""
        self.call.desk.told = True
        asked["least"], asked["more"] = least, more
        return asked

    # -- walks

    def walk(self, step: Step, which: NDArray[np.int64]) -> bool:
        """Walk the links. Returns whether they are sound."""
        wanted, width = self.call.wanted, self.route.width
        assert width is not None
        queries, asked, part = self.some(which)
        # Auto tells by the k-th nearest whether a query is far, wanted or not.
        least = 0.0 if wanted.mode == "auto" else wanted.least
        if not self.begun and not self.call_walk(asked, part, width.growing if step.grows else width.beam, least):
            return False
        self.begun = False
        part.path[:] = LINKS
        part.answers.certificates[:] = np.nan
        self.put(which, part)
        if step.queries == ALL:
            self.far = self.mark_far(queries, width)
        self.uncut = wanted.mode == "auto" and wanted.least > 0.0
        return True

    def call_walk(self, asked: Record, part: Found, beam: Record, least: float) -> bool:
        """Call the kernel. Returns whether the links are sound."""
        call, links = self.call, self.call.view.links
        assert links is not None
        scratch = call.desk.scratch
        table = scratch.walk(len(links.places), MOST_WIDTH, links.set.coder.layout)
        if least > 0.0 or call.desk.told:
            self.ask(asked, least, more=False)
        flags = search_links(call.space, call.segments, links.graph, beam, asked, scratch.record, table, part.answers.record)
        _check(flags)
        return not flags & BROKEN

    def mark_far(self, queries: Rows, width: Width) -> NDArray[np.int64]:
        """Mark the queries that a walk found far. Returns them, and those of which that is not known: fewer than k rows were met."""
        links = self.call.view.links
        assert links is not None
        found, last = self.found, self.found.last
        low, high = (0.0, np.inf) if self.call.searcher.space.shapes else links.set.calibration.usual_norms
        if last.size == 1:
            # One query alone: arrays would take as long as all else that is done here.
            score = last.item()
            self.full = score > NOTHING
            if score > ALIKE and score >= width.trusted and (high == np.inf or low <= queries.norms.item() <= high):
                return _NOBODY
            found.far[0] = score > NOTHING
            return _FIRST
        unsure = (last < width.trusted) | (last <= ALIKE) | (queries.norms < low) | (queries.norms > high)
        found.far[:] = unsure & (last > NOTHING)
        return np.flatnonzero(unsure)

    # -- bands

    def bands(self, step: Step, which: NDArray[np.int64]) -> None:
        """Search the bands of some rows, and note whom they certified."""
        call, plan, wanted = self.call, self.call.plan, self.call.wanted
        assert step.rows != REST or plan.links is not None
        queries, asked, part = self.some(which)
        first = step is self.route.steps[0]
        improves = step.queries in (FAR, CERTIFIABLE)
        before = (part.answers.runs.copy(), part.answers.rows.copy()) if improves else None
        segments = call.segments if step.rows != REST or plan.links is None else call.masked(plan.links.rest)
        self.call_bands(queries, self.ask(asked, wanted.least, more=not first), segments, part)
        answers = part.answers
        whole = first or step.queries == CERTIFIABLE
        if whole:
            part.path[:] = BANDS
        unsure = part.unsure(wanted.target, full=whole and wanted.least <= 0.0)
        if step.rows == REST:
            answers.certificates[:] = np.nan
        self.uncertified = which[unsure]
        if before is not None:
            shown = np.maximum(min(2, wanted.k), answers.certificates * wanted.k / 2)
            self.missed = which[part.truncated | (new_rows(before, answers) >= shown)]
            self.far = np.setdiff1d(self.far, which[~unsure], assume_unique=True)
        self.put(which, part)

    def call_bands(self, queries: Rows, asked: Record, segments: Record, part: Found) -> None:
        """Hash the queries, and call the kernel."""
        call, keys = self.call, self.call.plan.keys
        codes = call.searcher.sampler.codes(queries, keys.r, keys.bands)
        room = call.desk.keys(len(queries), keys.columns)
        column = 0
        for height, width in keys.layouts:
            room.keys[:, column : column + width] = band_keys(codes, height, width)
            column += width
        if keys.fresh:
            room.fresh[:] = _fresh_keys_of(codes)
        told = call.plan.bands.copy()
        one = told[0]
        one["keys"], one["fresh_keys"] = room.places
        one["most_postings"] = postings_cap(call.view.total_rows)
        scratch = call.desk.scratch
        scratch.count(call.view.total_rows)
        _check(search_bands(call.space, segments, asked, told, scratch.record, part.answers.record))

    # -- scans

    def scan(self, which: NDArray[np.int64]) -> None:
        """Answer some of the queries exactly; codes, where there are any, spare most rows."""
        plan = self.call.plan
        self.call.view.verify_rows(self.call.reader, self.call.wanted.cancel)
        queries, asked, part = self.some(which)
        part.answers.candidates[:] = 0
        coded = plan.links is not None and self.call.wanted.share >= _SPARSE and self.scan_codes(queries, asked, part)
        if not coded:
            self.scan_rows(asked, part, self.call.segments, more=False)
        elif plan.links is not None and plan.links.rest_rows:
            self.scan_rows(asked, part, self.call.masked(plan.links.rest), more=True)
        part.answers.flags[:] = 0
        part.answers.certificates[:] = 1.0
        part.path[:] = EXACT
        self.put(which, part)

    def scan_codes(self, queries: Rows, asked: Record, part: Found) -> bool:
        """Scan the linked rows by code. Returns False if the codes cannot be relied on."""
        call, links, wanted = self.call, self.call.view.links, self.call.wanted
        assert links is not None
        try:
            links.set.verify_codes(call.reader)
        except CorruptData:
            return False
        if self.route.path == "exact" and not self.call_walk(asked, part, _scan_beam(wanted.k), wanted.least):
            # What a short walk finds tells the scan what is too far.
            return False
        codes, errors = links.set.coder.probes(queries, asked)
        scratch = call.desk.scratch
        table = scratch.table_for(links.set.coder.layout)
        room = room_for(len(errors))
        probes = PROBES.record(codes=codes, errors=errors, room=room)
        told = self.ask(asked, wanted.least, more=True)
        _check(scan_codes(call.space, call.segments, links.graph, probes, told, scratch.record, table, part.answers.record))
        part.answers.candidates[:] = links.linked
        return True

    def scan_rest(self, which: NDArray[np.int64]) -> None:
        """Score the rows that are not linked."""
        plan = self.call.plan
        assert plan.links is not None
        _, asked, part = self.some(which)
        certificates = part.answers.certificates.copy()
        self.scan_rows(asked, part, self.call.masked(plan.links.rest), more=True)
        part.answers.certificates[:] = certificates
        self.put(which, part)

    def scan_rows(self, asked: Record, part: Found, segments: Record, *, more: bool) -> None:
        """Score all rows of some segments. more: besides what was found already."""
        call = self.call
        told = self.ask(asked, call.wanted.least, more=more)
        space, scratch = call.searcher.space, call.desk.scratch.record
        _check(scan_in_parts(space, segments, told, scratch, part.answers.record, call.wanted.cancel))


_SCAN_BEAMS: dict[int, Record] = {}


def _scan_beam(k: int) -> Record:
    """The beam of the walk that begins a scan for the k nearest."""
    beam = _SCAN_BEAMS.get(k)
    if beam is None:
        beam = _SCAN_BEAMS[k] = Width(max(_SCAN_WALK, 2 * k), reaches=False).beam
    return beam


def fresh_keys(space: Space, sampler: Sampler, rows: Rows) -> NDArray[np.uint16]:
    """(n, 128) keys of fresh rows: the top halves of the keys of bands of one hash. Zeros of rows that are not hashed."""
    return _fresh_keys_of(sampler.codes(rows, 1, FRESH_BANDS)) if space.hashes else np.zeros((len(rows), FRESH_BANDS), np.uint16)


def _fresh_keys_of(codes: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """The same by the codes of rows."""
    return (band_keys(codes, 1, FRESH_BANDS) >> np.uint32(16)).astype(np.uint16)


def _check(flags: int) -> None:
    if flags & CORRUPT:
        raise CorruptData("a stored row or posting list is damaged; it was not answered from")
