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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.build import Cancelled, Parts
from kinbin.codes.coder import Coder, choose_coder
from kinbin.codes.projected import drifted, projected_coder
from kinbin.codes.table import Codes
from kinbin.errors import Closed, CorruptData
from kinbin.links.calibration import calibrate, neighbourhoods, uncalibrated
from kinbin.links.graph import Graph
from kinbin.links.linkset import Links, LinkSet
from kinbin.links.widths import CalibrationTable
from kinbin.native.jit import strict
from kinbin.query.view import View, Views
from kinbin.segments.source import Recipe, Source, gather, iterate_rows, read_records
from kinbin.spaces.space import SHAPES, UNIT_ROOTS
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.headers import LinkSetHeader
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from kinbin.upkeep.election import elected, is_wanted
from kinbin.upkeep.sealing import Upkeep, current

__all__ = ["LEAST_ROWS", "Linker", "Progress", "is_due", "is_enough", "unpacked"]

LEAST_ROWS = 4_096
"""Fewer rows than these are not linked by themselves: a scan of them takes a tenth of a millisecond."""
GROWTH = 8
"""New rows are linked when they are more than one in so many of the linked ones (in quiet times, of 8 times as many)."""
GONE_SHARE = 0.3
"""A link set with a larger share of dead rows is built anew."""
_BLOCK_BYTES = 1 << 20
_LINK_SHIFT = 12
"""A block holds the links of so many nodes, as a power of two."""
_SAMPLE_ROWS = 8_192

Progress = Callable[[int, int], None]

log = logging.getLogger("kinbin.upkeep")


def is_enough(items: int) -> bool:
    """Whether so many items may be linked by themselves."""
    return items >= LEAST_ROWS


def is_due(view: View, *, quiet: bool) -> bool:
    """Whether rows of this view should be linked now."""
    linked = 0 if view.links is None else view.links.linked
    unlinked = view.unlinked_rows
    if linked + unlinked < LEAST_ROWS:
        return False
    if view.links is not None and linked - _dead_linked(view, view.links) < (1 - GONE_SHARE) * len(view.links.places):
        return True
    least = max(LEAST_ROWS // 4, linked // (8 * GROWTH)) if quiet else max(LEAST_ROWS, linked // GROWTH)
    return unlinked >= least


def _dead_linked(view: View, links: Links) -> int:
    """Dead rows in runs that are linked (at least in part)."""
    return sum(run.rows - run.live for run, tail in zip(view.runs, links.tails, strict=True) if tail)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written."""
    same = array.view()
    same.flags.writeable = False
    return same


@dataclass(slots=True, eq=False)
class _Draft:
    """A link set that is being built."""

    row_numbers: NDArray[np.uint64]
    horizon: int
    coder: Coder
    errors: NDArray[np.float32]
    graph: Graph
    new: NDArray[np.int64]
    """Nodes that are not linked yet."""
    scratch_rows: int
    """Rows there were when the coder was chosen."""
    sets: list[int]
    """The link sets that were listed when it was begun."""
    linked: int = 0
    """New nodes that are linked already."""
    calibration: CalibrationTable | None = None

    def __post_init__(self) -> None:
        # As those of stored link sets are: kernels would be compiled again for arrays that may be written.
        self.row_numbers, self.errors = _read_only(self.row_numbers), _read_only(self.errors)


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
        self._name = store.path.name
        self._lock = store.path.parent.parent / "linker.lock"
        self._begun: _Draft | None = None
        """What was handed over, until somebody goes on with it or nothing is due any more."""

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
            Closed: the collection was closed meanwhile.
        """
        if not self._recipe.space.codes:
            return
        with elected(self._lock, wait=True):
            try:
                if self._build(progress, self._check):
                    self._build(progress, self._check)
            except Cancelled:
                raise Closed("the database was closed") from None

    def _check(self) -> None:
        if self.stop.is_set():
            raise Cancelled

    def _check_in_background(self) -> None:
        self._check()
        if is_wanted(self._lock) or is_wanted(self._upkeep.lock):
            raise _HandedOver

    def _build(self, progress: Progress | None, check: Callable[[], None]) -> bool:
        """Build a link set of all rows in runs, and swap it in; `check` raises to end that.

        Returns whether it had been begun before, so that rows of since then are left.
        """
        with self._store.read() as reader:
            view = current(self._views, reader)
            begun, self._begun = self._begun, None
            if _is_whole(reader, view, self._recipe.space.shapes):
                return False
            if begun is not None and begun.sets != reader.link_sets():
                # Another process has linked meanwhile.
                begun = None
            draft = begun
            if draft is None and any(run.live for run in view.runs):
                draft = self._draft(reader, view, check)
        if draft is None:
            # No row is left to link.
            with self._upkeep.elected(wait=True):
                self._swap(None)
            log.info("%s: removed the links: no row is left to link", self._name)
            return False
        try:
            self._complete(draft, progress, check)
        except _HandedOver:
            self._begun = draft
            raise
        return begun is not None

    def _complete(self, draft: _Draft, progress: Progress | None, check: Callable[[], None]) -> None:
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

    def _draft(self, reader: Reader, view: View, check: Callable[[], None]) -> _Draft:
        """Codes of all rows in runs; of the rows that are linked already also their links, without the dead."""
        source = gather(view.runs, None)
        old = view.links.set if view.links is not None else None
        if old is not None and len(source) < 8 * old.header.scratch_rows:
            try:
                kept = np.isin(old.row_numbers, source.row_numbers, assume_unique=True)
                if kept.mean() > 0.5 and not self._has_drifted(source, old, kept):
                    return self._extended(reader, view, source, old, kept, check)
            except CorruptData as error:
                log.warning("%s: link set %d is damaged (%s): it is built anew from the rows", self._name, old.number, error)
        coder = self._chosen(source, view)
        codes, errors, norms = self._encode(source, coder, check)
        graph = Graph.empty(codes, norms, coder.step, self._recipe.space.shapes, units=coder.projection is not None)
        return _Draft(source.row_numbers, _horizon(view), coder, errors, graph, np.arange(len(source)), len(source), reader.link_sets())

    def _chosen(self, source: Source, view: View) -> Coder:
        """Codes for these rows."""
        space, sample = self._recipe.space, _sample(source, self._recipe.wide)
        near = neighbourhoods(view, self._recipe)
        if space.geometry == SHAPES:
            return choose_coder(sample, self._dim, near, len(source))
        roots = space.geometry == UNIT_ROOTS
        return projected_coder(sample, self._dim, near, len(source), roots=roots, seed=self._recipe.sampler.seed)

    def _has_drifted(self, source: Source, old: LinkSet, kept: NDArray[np.bool_]) -> bool:
        """Whether the new rows are so unlike those that the codes of a link set were chosen by that these are chosen anew."""
        new = np.flatnonzero(np.isin(source.row_numbers, old.row_numbers[kept], assume_unique=True, invert=True))
        if old.coder.projection is None or not len(new):
            return False
        part = Source(source.row_numbers[new], source.addresses[new], source.rooms[new])
        if not drifted(old.coder, _sample(part, self._recipe.wide)):
            return False
        log.info("%s: new rows are unlike those that codes were chosen by: they are chosen anew", self._name)
        return True

    def _extended(
        self, reader: Reader, view: View, source: Source, old: LinkSet, kept: NDArray[np.bool_], check: Callable[[], None]
    ) -> _Draft:
        """The old link set without its dead rows, and room for the new ones."""
        was = unpacked(reader, old, self._recipe.space.shapes)
        renamed = np.full(len(kept), -1, np.int64)
        renamed[kept] = np.searchsorted(source.row_numbers, old.row_numbers[kept])
        new = np.setdiff1d(np.arange(len(source)), renamed[kept], assume_unique=True)
        part = Source(source.row_numbers[new], source.addresses[new], source.rooms[new])
        errors, norms = np.empty(len(source), np.float32), np.empty(len(source), np.float32)
        added, errors[new], norms[new] = self._encode(part, old.coder, check)
        still = np.flatnonzero(kept)
        codes = Codes.scattered(old.coder.width, len(source), [(renamed[still], was.codes.take(still)), (new, added)])
        errors[renamed[kept]] = old.errors[kept]
        norms[renamed[kept]] = was.norms[kept] if len(was.norms) == len(kept) else 1.0
        graph = was.thinned(codes, norms, renamed)
        return _Draft(source.row_numbers, _horizon(view), old.coder, errors, graph, new, old.header.scratch_rows, reader.link_sets())

    def _encode(self, source: Source, coder: Coder, check: Callable[[], None]) -> tuple[Codes, NDArray[np.float32], NDArray[np.float32]]:
        """Codes, errors and norms of stored rows, each checked."""
        errors, norms = np.empty(len(source), np.float32), np.empty(len(source), np.float32)

        def parts() -> Iterator[Codes]:
            for start, rows in iterate_rows(source, self._recipe.wide):
                check()
                here = slice(start, start + len(rows))
                part, errors[here] = coder.encode(rows)
                norms[here] = rows.norms
                yield part

        return Codes.joined(coder.width, len(source), parts()), errors, norms

    def _write(self, draft: _Draft, calibration: CalibrationTable, check: Callable[[], None]) -> int:
        """Write the link set in small transactions. Returns its number."""
        parts = Parts(self._store, check)
        graph = draft.graph
        code_shift, code_blocks, code_offsets = graph.codes.stored(_BLOCK_BYTES)
        link_shift = _LINK_SHIFT
        offsets, blocks = graph.packed(link_shift)
        padding = np.zeros(CODE_PADDING, np.uint8)
        for i, codes in enumerate(code_blocks):
            parts.put(Part.CODES, i, np.concatenate([padding, codes]))
        if not graph.codes.width:
            parts.put(Part.CODE_OFFSETS, 0, code_offsets)
        for i, block in enumerate(blocks):
            parts.put(Part.LINKS, i, block)
        parts.put(Part.LINK_OFFSETS, 0, offsets)
        parts.put(Part.ROW_NUMBERS, 0, draft.row_numbers)
        parts.put(Part.ERRORS, 0, draft.errors)
        if not graph.shapes:
            parts.put(Part.NORMS, 0, graph.norms)
        parts.put(Part.BUCKETS, 0, draft.coder.buckets)
        if draft.coder.projection is not None:
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


def _is_whole(reader: Reader, view: View, shapes: bool) -> bool:
    """Whether the link set is sound and has just the living rows of all runs."""
    links = view.links
    if links is None:
        return not view.unlinked_rows
    if view.unlinked_rows or links.linked < len(links.places) or _dead_linked(view, links):
        return False
    try:
        unpacked(reader, links.set, shapes)
    except CorruptData:
        return False
    return True


def _horizon(view: View) -> int:
    """The last row number in any run."""
    return max((int(run.row_numbers[-1]) for run in view.runs), default=-1)


def _sample(source: Source, wide: bool) -> Any:
    """Some random rows, to choose codes by."""
    rng = np.random.default_rng(len(source))
    picks = np.sort(rng.permutation(len(source))[:_SAMPLE_ROWS])
    return read_records(source.addresses[picks], source.rooms[picks], wide)


@strict
def _unpack_links(block, links, start):  # type: ignore[no-untyped-def]
    """Lay a block's lists out with a fixed stride. Returns the nodes read, -1 if a list is too long or names what is not there."""
    place = 0
    node = start
    while place < len(block):
        degree = int(block[place])
        if node >= len(links) or degree >= links.shape[1] or place + 1 + degree > len(block):
            return -1
        links[node, 0] = np.uint32(degree)
        for x in range(degree):
            other = block[place + 1 + x]
            if other >= len(links):
                return -1
            links[node, 1 + x] = other
        place += 1 + degree
        node += 1
    return node - start


def unpacked(reader: Reader, old: LinkSet, shapes: bool) -> Graph:
    """A stored link set in arrays, its checksums verified.

    Raises:
        CorruptData.
    """
    blocks = [np.frombuffer(part, np.uint8, offset=CODE_PADDING) for part in reader.run_parts(old.number, Part.CODES, verify=True)]
    offsets = np.empty(0, np.uint32)
    if not old.coder.width:
        offsets = np.frombuffer(reader.run_part(old.number, Part.CODE_OFFSETS, verify=True), "<u4")
    try:
        codes = Codes.of_blocks(old.coder.width, old.header.code_shift, blocks, offsets)
    except ValueError as error:
        raise CorruptData("codes are not what their header says") from error
    norms = np.ones(1, np.float32)
    if not shapes:
        norms = np.frombuffer(reader.run_part(old.number, Part.NORMS, verify=True), "<f4")
    graph = Graph.empty(codes, norms, old.coder.step, shapes, units=old.coder.projection is not None)
    start = 0
    for part in reader.run_parts(old.number, Part.LINKS, verify=True):
        read = _unpack_links(np.frombuffer(part, "<u4"), graph.links, start)
        if read < 0:
            raise CorruptData("a list of links is out of bounds")
        start += int(read)
    if start != len(graph.codes):
        raise CorruptData("some lists of links are missing")
    graph.entries = old.entries.copy()
    return graph
