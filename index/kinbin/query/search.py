"""One search: canonical queries and a view in, rows with exact similarities and certificates out."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.contrast import postings_cap
from kinbin.bands.search import TRUNCATED, search_bands
from kinbin.errors import CorruptData, SearchCancelled
from kinbin.hashing import Sampler, band_keys
from kinbin.links.graph import WalkSpace
from kinbin.links.search import BROKEN, scan_codes, search_links
from kinbin.links.widths import MOST_WIDTH, Width
from kinbin.native.memory import address_of
from kinbin.query.found import BANDS, EXACT, LINKS, Found, Wanted, cut_below, empty, joined, new_rows
from kinbin.query.plan import Plan
from kinbin.query.threads import parts, run_together
from kinbin.query.view import View
from kinbin.rows.lookup import NARROW_DIMENSION, lookup_space
from kinbin.rows.rows import Rows
from kinbin.segments.descriptors import CORRUPT, FIELDS, FRESH_BANDS
from kinbin.segments.scan import scan
from kinbin.spaces.registry import Kernel
from kinbin.storage.dead import DeadRows
from kinbin.storage.transactions import Reader

__all__ = ["Searcher", "fresh_keys", "is_wide"]


def is_wide(dim: int | None) -> bool:
    """Whether rows of a collection carry 64-bit feature ids (otherwise 16-bit ones)."""
    return dim is None or dim > NARROW_DIMENSION


_FEW_ROWS = 512
"""So many rows that are not linked are scanned rather than hashed for."""
_SLICE_NS = 2e8
_LEAST_SLICE = 16
"""Queries between two looks at whether a search was cancelled: so many as are scanned in some time, but no fewer."""
_LEAST_UNSCANNED = 128
"""The same where few of them will be scanned."""
_SCAN_WALK = 32
"""Pool of the walk that tells a scan what is too far."""
_SPARSE = 0.05
"""A filter that lets a smaller share of the rows through is answered by scoring just those."""
_FIRST = np.zeros(1, np.int64)
_NOBODY = np.empty(0, np.int64)
_ANY_NORM = 0.0, float("inf")
_NO_SKIPS = np.zeros((1024, 2), np.int64)


class _Scratch:
    """Work space of one kernel call; kernels leave it as they found it."""

    def __init__(self, rows: int, nonzeros: int, wide: bool) -> None:
        self.rows = rows
        self.nonzeros = nonzeros
        self.counts = np.zeros(rows + 63, np.uint8)
        self.listed = np.empty(rows, np.uint32)
        self.order = np.empty(rows, np.uint32)
        self.cells, self.keys, self.weights = lookup_space(wide, nonzeros)
        self._walks: WalkSpace | None = None

    def walks(self, nodes: int) -> WalkSpace:
        """Work space of walks over so many nodes."""
        if self._walks is None or self._walks.nodes < nodes:
            self._walks = WalkSpace(nodes + nodes // 8, MOST_WIDTH)
        return self._walks


class Searcher:
    """Runs kernels for one collection: holds its sampler and a pool of work space. Thread-safe.

    Work space of a search by bands is 9 bytes a row, of one by links a bit a row and 1 MB.
    """

    def __init__(self, kernel: Kernel, sampler: Sampler, wide: bool) -> None:
        self.kernel = kernel
        self.sampler = sampler
        self.wide = wide
        self._pool: list[_Scratch] = []
        self._lock = threading.Lock()

    def borrow(self, rows: int, queries: Rows) -> _Scratch:
        """Work space for bands over so many rows (0: none). Give it back; after an error let it go instead: it may not be clean."""
        nonzeros = 1 << max(8, queries.most_nonzeros.bit_length()) if self.wide else 0
        with self._lock:
            for i in range(len(self._pool) - 1, -1, -1):
                if self._pool[i].rows >= rows and self._pool[i].nonzeros >= nonzeros:
                    return self._pool.pop(i)
            # What is too small for this search would be for the next.
            self._pool.clear()
        return _Scratch(rows + rows // 8 if rows else 0, nonzeros, self.wide)

    def give_back(self, scratch: _Scratch) -> None:
        """Keep work space for the next search."""
        with self._lock:
            if len(self._pool) < 16:
                self._pool.append(scratch)

    def search(self, reader: Reader, view: View, plan: Plan, queries: Rows, wanted: Wanted, masks: Sequence[DeadRows] | None) -> Found:
        """Answer m queries inside a read snapshot of the view's state.

        masks: for each run and the fresh rows, the rows that must not be answered (None: the dead).

        Raises:
            CorruptData: a stored number is out of bounds, or an answered row fails its check.
            SearchCancelled: wanted.cancel was set.
        """
        if len(queries) == 1 and wanted.cancel is None:
            return _Call(self, reader, view, plan, queries, wanted, masks).run()
        cuts = parts(len(queries)) if len(queries) > 1 else []
        if len(cuts) < 2:
            return _Call(self, reader, view, plan, queries, wanted, masks).run_in_slices()
        calls = [_Call(self, reader, view, plan, queries.slice(cut.start, cut.stop), wanted, masks) for cut in cuts]
        return joined(run_together([call.run_in_slices for call in calls]))


class _Call:
    """One search: what every path of it needs."""

    def __init__(
        self,
        searcher: Searcher,
        reader: Reader,
        view: View,
        plan: Plan,
        queries: Rows,
        wanted: Wanted,
        masks: Sequence[DeadRows] | None,
    ) -> None:
        self.searcher = searcher
        self.reader = reader
        self.view = view
        self.plan = plan
        self.queries = queries
        self.wanted = wanted
        self.masks = masks

    def run_in_slices(self) -> Found:
        """Answer some queries after the other, and look whether the search was cancelled before each of these slices.

        A slice is as large as a scan of all its queries is expected to take 0.2 s: what they share (tiles of codes in the cache, a
        kernel call) is worth no more.
        """
        least = _LEAST_SLICE if self.wanted.mode == "exact" else _LEAST_UNSCANNED
        size = max(least, int(_SLICE_NS / max(self.plan.scan_ns, 1.0)))
        found = []
        for start in range(0, len(self.queries), size) or (0,):
            if self.wanted.cancel is not None and self.wanted.cancel.is_set():
                raise SearchCancelled("the search was cancelled")
            call = self
            if size < len(self.queries):
                some = self.queries.slice(start, min(start + size, len(self.queries)))
                call = _Call(self.searcher, self.reader, self.view, self.plan, some, self.wanted, self.masks)
            found.append(call.run())
        return found[0] if len(found) == 1 else joined(found)

    def run(self) -> Found:
        """Choose the path and take it."""
        wanted, plan = self.wanted, self.plan
        found = empty(len(self.queries), wanted.k)
        everyone = _FIRST if len(self.queries) == 1 else np.arange(len(self.queries))
        if wanted.mode == "exact":
            return self.scan(everyone, found, afresh=True)
        width = None
        if wanted.mode in ("links", "auto") and plan.links is not None:
            width = plan.links.width(wanted.k, wanted.share, forced=wanted.mode == "links")
        if width is None:
            return self.scan(everyone, found, afresh=True) if wanted.mode == "auto" and plan.prefers_scan else self.by_bands(found)
        return self.by_links(everyone, found, width)

    def by_links(self, everyone: NDArray[np.int64], found: Found, width: Width) -> Found:
        """Walk the links; complete by bands or a scan what they do not cover."""
        wanted, links = self.wanted, self.plan.links
        assert links is not None
        # Auto tells by the k-th nearest whether a query is far, wanted or not: such a query is not left to a walk.
        auto = wanted.mode == "auto"
        if not self.walk(found, width, 0.0 if auto else wanted.least, grows=not auto):
            # Broken links are no reason not to answer.
            return self.by_bands(found)
        unsure = self.mark_far(found, width)
        if auto and len(unsure) and not self.plan.scans_far:
            call, part = self.only(unsure, found)
            call.walk(part, width, 0.0, grows=True)
            found.put(unsure, part)
        if auto and wanted.least > 0.0:
            cut_below(found, wanted.least)
        if wanted.certify:
            self.bands(self.descriptors(self.plan.descriptors), found, more=True)
            if auto:
                self.scan(np.flatnonzero(found.truncated | (found.certificate < wanted.target)), found)
        elif links.rest_rows:
            self.complete(everyone, found)
        if auto and len(unsure) and not wanted.certify:
            self.finish(unsure, found)
        if wanted.least <= 0.0:
            # A walk that met too few rows that may be answered (a filter, many deleted rows) is no answer.
            last = found.similarity[:, -1]
            if last.item() < 0.0 if last.size == 1 else last.min(initial=0.0) < 0.0:
                self.scan(np.flatnonzero(last < 0.0), found)
        return found

    def mark_far(self, found: Found, width: Width) -> NDArray[np.int64]:
        """Mark the queries that a walk found far. Returns them, and those of which that is not known: fewer than k rows were met."""
        last = found.similarity[:, -1]
        low, high = _ANY_NORM if self.searcher.kernel.normalised else self.linked_norms()
        if last.size == 1:
            # One query alone: arrays would take as long as all else that is done here.
            similarity = last.item()
            if similarity > 0.0 and similarity >= width.trusted and low <= self.queries.norms.item() <= high:
                return _NOBODY
            found.far[0] = similarity >= 0.0
            return _FIRST
        unsure = (last < width.trusted) | (last <= 0.0) | (self.queries.norms < low) | (self.queries.norms > high)
        found.far[:] = unsure & (last >= 0.0)
        return np.flatnonzero(unsure)

    def linked_norms(self) -> tuple[float, float]:
        """The range of the norms of queries that are like the linked rows."""
        assert self.view.links is not None
        return self.view.links.set.calibration.usual_norms

    def finish(self, which: NDArray[np.int64], found: Found) -> None:
        """Search further for queries that a walk found far: to the target, by bands or a scan, whichever is expected to be faster.

        Where a scan would take too long for that, bands add what they find and say what they can vouch for; only those queries are
        scanned of which they show that the walk missed more than half of the neighbours.
        """
        plan = self.plan
        if plan.scans_far:
            least = np.maximum(found.similarity[which, -1], self.wanted.least)
            by_bands = (least >= plan.certifiable) & (plan.far_bands_ns < plan.scan_ns)
            self.scan(which[~by_bands], found)
            if by_bands.any():
                call, part = self.only(which[by_bands], found)
                found.put(which[by_bands], call.by_bands(part, more=True))
            return
        call, part = self.only(which, found)
        before = part.run.copy(), part.row.copy()
        call.bands(self.descriptors(plan.descriptors), part, more=True)
        missed = new_rows(before, part)
        found.put(which, part)
        shown = np.maximum(min(2, self.wanted.k), part.certificate * self.wanted.k / 2)
        self.scan(which[part.truncated | (missed >= shown)], found)

    def only(self, which: NDArray[np.int64], found: Found) -> tuple[_Call, Found]:
        """The search for some of the queries, and a copy of their answers."""
        call = _Call(self.searcher, self.reader, self.view, self.plan, self.chosen(which), self.wanted, self.masks)
        return call, found.rows(which)

    def complete(self, everyone: NDArray[np.int64], found: Found) -> None:
        """Search the rows that are not linked: by bands, or by a scan where that is faster or bands cannot vouch for it."""
        links = self.plan.links
        assert links is not None
        rest = self.descriptors(links.rest)
        if links.rest_rows <= _FEW_ROWS or links.scans_rest:
            self.scan_rows(rest, everyone, found)
            return
        self.bands(rest, found, more=True)
        if self.wanted.mode == "auto":
            unsure = np.flatnonzero(found.truncated | (found.certificate < self.wanted.target))
            if len(unsure):
                self.scan_rows(rest, unsure, found)
                found.truncated[unsure] = False
        found.certificate[:] = np.nan

    def by_bands(self, found: Found, *, more: bool = False) -> Found:
        """Search the bands; in auto mode scan what they cannot certify. more: besides what was found already."""
        self.bands(self.descriptors(self.plan.descriptors), found, more=more)
        found.path[:] = BANDS
        if self.wanted.mode == "auto":
            full = (found.similarity[:, -1] >= 0.0) | (self.wanted.least > 0.0)
            self.scan(np.flatnonzero(found.truncated | (found.certificate < self.wanted.target) | ~full), found)
        return found

    def descriptors(self, plain: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Descriptors with this call's masks."""
        if self.masks is None:
            return plain
        masked = plain.copy()
        masked[:, FIELDS["mask"]] = [address_of(mask.bits) for mask in self.masks]
        return masked

    def walk(self, found: Found, width: Width, least: float, *, grows: bool = False) -> bool:
        """Walk for all queries; answers below `least` are not wanted. grows: far queries are walked for on.

        Returns whether the links are sound.
        """
        view, queries, searcher = self.view, self.queries, self.searcher
        assert view.links is not None
        links = view.links.set
        coder = links.coder
        scratch = searcher.borrow(0, queries)
        space = scratch.walks(len(links.row_numbers))
        flags = search_links(
            links.graph, coder.step, coder.offset, coder.hashed, coder.buckets, view.links.places, links.errors, links.entries,
            _no_skips(len(queries)), width.beam, grows, self.descriptors(self.plan.descriptors),
            searcher.wide, searcher.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, least,
            space.sums, space.code, space.table_for(coder.width), space.pool, space.visited, space.listed, space.found,
            scratch.cells, scratch.keys, scratch.weights,
            found.similarity, found.run, found.row, found.candidates, found.verified,
        )  # fmt: skip
        searcher.give_back(scratch)
        _check(flags)
        found.path[:] = LINKS
        found.certificate[:] = np.nan
        return not flags & BROKEN

    def bands(self, descriptors: NDArray[np.uint64], found: Found, *, more: bool) -> None:
        """Search the bands of some runs for all queries; `more`: besides what was found already."""
        view, plan, queries, searcher = self.view, self.plan, self.queries, self.searcher
        r = max((layout[0] for layout in plan.layouts), default=1)
        bands = max((layout[1] for layout in plan.layouts), default=FRESH_BANDS)
        codes = searcher.sampler.codes(queries, r, max(bands, FRESH_BANDS))
        of_layouts = [band_keys(codes, height, width) for height, width in plan.layouts]
        if len(of_layouts) == 1:
            keys = of_layouts[0]
        else:
            keys = np.ascontiguousarray(np.concatenate([*of_layouts, np.zeros((len(queries), 1), np.uint32)], axis=1))
        numbers = np.empty((len(queries), 4), np.int64)
        scratch = searcher.borrow(view.total_rows, queries)
        search_bands(
            descriptors, plan.need, plan.suggest, plan.aim, searcher.wide, searcher.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, keys, fresh_keys(codes),
            self.wanted.least, more, postings_cap(view.total_rows),
            scratch.counts[: view.total_rows + 63], scratch.listed, scratch.order, scratch.cells, scratch.keys, scratch.weights,
            found.similarity, found.run, found.row, numbers, found.certificate,
        )  # fmt: skip
        searcher.give_back(scratch)
        _check_all(numbers)
        found.candidates[:] += numbers[:, 0]
        found.verified[:] += numbers[:, 1]
        found.truncated[:] = numbers[:, 3] & TRUNCATED != 0

    def scan(self, which: NDArray[np.int64], found: Found, *, afresh: bool = False) -> Found:
        """Answer some of the queries exactly; codes, where there are any, spare most rows. afresh: nothing was found before."""
        if not len(which):
            return found
        part = found.rows(which) if len(which) < len(self.queries) else found
        part.candidates[:] = 0
        links, plan_links = self.view.links, self.plan.links
        if links is not None and plan_links is not None and self.wanted.share >= _SPARSE and self.scan_codes(which, part, afresh):
            if plan_links.rest_rows:
                self.scan_rows(self.descriptors(plan_links.rest), None, part, self.chosen(which))
        else:
            part.similarity[:] = -1.0
            part.run[:] = -1
            part.row[:] = -1
            self.scan_rows(self.descriptors(self.plan.descriptors), None, part, self.chosen(which))
        part.truncated[:] = False
        part.certificate[:] = 1.0
        part.path[:] = EXACT
        if part is not found:
            found.put(which, part)
        return found

    def scan_codes(self, which: NDArray[np.int64], part: Found, afresh: bool) -> bool:
        """Scan the linked rows by code. Returns False if the codes cannot be relied on."""
        assert self.view.links is not None
        links = self.view.links.set
        try:
            links.verify_codes(self.reader)
        except CorruptData:
            return False
        queries = self.chosen(which)
        if afresh:
            # What a short walk finds tells the scan what is too far.
            call = _Call(self.searcher, self.reader, self.view, self.plan, queries, self.wanted, self.masks)
            if not call.walk(part, Width(max(_SCAN_WALK, 2 * self.wanted.k), reaches=False), self.wanted.least):
                return False
        codes, errors = links.coder.probes(queries)
        numbers = np.zeros((len(queries), 4), np.int64)
        searcher = self.searcher
        scratch = searcher.borrow(0, queries)
        table = scratch.walks(len(links.row_numbers)).table_for(links.coder.width)
        scan_codes(
            links.graph, links.coder.step, self.view.links.places, links.errors, codes, errors, table, _no_skips(len(queries)),
            self.descriptors(self.plan.descriptors), searcher.wide, searcher.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, self.wanted.least,
            scratch.cells, scratch.keys, scratch.weights, part.similarity, part.run, part.row, numbers,
        )  # fmt: skip
        searcher.give_back(scratch)
        _check_all(numbers)
        part.verified[:] += numbers[:, 1]
        part.candidates[:] = self.view.links.linked
        return True

    def chosen(self, which: NDArray[np.int64] | None) -> Rows:
        """Some of the queries (None: all)."""
        return self.queries if which is None or len(which) == len(self.queries) else _take(self.queries, which)

    def scan_rows(self, descriptors: NDArray[np.uint64], which: NDArray[np.int64] | None, found: Found, chosen: Rows | None = None) -> None:
        """Score all rows of some descriptors, besides what was found already. which: places of the queries in `found` (None: all)."""
        queries = self.chosen(which) if chosen is None else chosen
        part = found if which is None or len(which) == len(found.path) else found.rows(which)
        numbers = np.empty((len(queries), 4), np.int64)
        searcher = self.searcher
        scratch = searcher.borrow(0, queries)
        scan(
            descriptors, searcher.wide, searcher.kernel.normalised, queries.indptr, queries.features, queries.values, queries.norms,
            self.wanted.least, True, scratch.cells, scratch.keys, scratch.weights, part.similarity, part.run, part.row, numbers,
        )  # fmt: skip
        searcher.give_back(scratch)
        _check_all(numbers)
        part.verified[:] += numbers[:, 1]
        part.candidates[:] += numbers[:, 0]
        if part is not found and which is not None:
            found.put(which, part)


def _no_skips(m: int) -> NDArray[np.int64]:
    """(m, 2): no node is left out."""
    return _NO_SKIPS[:m] if m <= len(_NO_SKIPS) else np.zeros((m, 2), np.int64)


def fresh_keys(codes: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """(n, 128) keys of fresh rows: the top halves of the keys of bands of one hash."""
    return (band_keys(codes, 1, FRESH_BANDS) >> np.uint32(16)).astype(np.uint16)


def _check_all(numbers: NDArray[np.int64]) -> None:
    _check(int(np.bitwise_or.reduce(numbers[:, 3])))


def _check(flags: int) -> None:
    if flags & CORRUPT:
        raise CorruptData("a stored row or posting list is damaged; it was not answered from (`kinbin check` lists the damage)")


def _take(queries: Rows, which: NDArray[np.int64]) -> Rows:
    """Some of the queries, as rows of their own."""
    sizes = np.diff(queries.indptr)[which]
    indptr = np.zeros(len(which) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    places = np.repeat(queries.indptr[which] - indptr[:-1], sizes) + np.arange(indptr[-1])
    return Rows(indptr, queries.features[places], queries.values[places], queries.norms[which])
