"""Drafts of link sets: which rows, their codes, and of the rows that are linked already their links.

What a draft takes a row lies in work space (`storage.workspace`): in memory up to `most_bytes()`, the rest in files of the collection's
folder. So memory is bounded whatever the number of rows; and the links are the same, for it is decided nowhere else where they lie.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.coder import Coder, choose_coder
from kinbin.codes.projected import choose_unit_coder, drifted
from kinbin.codes.table import Codes
from kinbin.errors import CorruptData
from kinbin.links.calibration import neighbourhoods
from kinbin.links.graph import Graph
from kinbin.links.linkset import LinkSet
from kinbin.links.search import GONE, place_rows
from kinbin.links.widths import CalibrationTable
from kinbin.native.jit import strict
from kinbin.query.view import View
from kinbin.rows.rows import Rows
from kinbin.segments.source import Recipe, Source, gather, iterate_rows, read_records
from kinbin.spaces.space import SHAPES, UNIT_ROOTS
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.machine import usable_memory
from kinbin.storage.store import Store
from kinbin.storage.transactions import Reader
from kinbin.storage.workspace import WorkSpace, pieces

__all__ = ["LINK_BYTES", "Draft", "Drafting", "horizon_of", "most_bytes", "unpacked"]

LINK_BYTES: int | None = None
"""Linking takes so much memory at most of what it needs a row; see `most_bytes`."""
_SHARE, _LEAST_BYTES = 4, 256 << 20
_WRITTEN_BYTES = 24
"""A row, while row numbers are written: they are one value, which is sealed, and then a page of the store's."""
_SAMPLE_ROWS = 8_192

log = logging.getLogger("kinbin.upkeep")


def most_bytes() -> int:
    """Bytes that linking takes of memory: as it was set, or a quarter of what the process may use, 256 MiB at least.

    Links are written at random places. In files the system writes the same pages out again and again, and the disk sets the pace.
    """
    return max(_LEAST_BYTES, usable_memory() // _SHARE) if LINK_BYTES is None else LINK_BYTES


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written."""
    same = array.view()
    same.flags.writeable = False
    return same


@dataclass(slots=True, eq=False)
class Draft:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    """What a link set becomes: its rows, and others."""

    renamed: NDArray[np.int64]
    """The new number of each of its nodes; -1: the row is dead."""
    kept: int
    """Its nodes that stay."""
    new: NDArray[np.int64]
    """The numbers of the other rows, ascending."""


class Drafting:
    """Begins the link sets of one collection."""

    def __init__(self, store: Store, recipe: Recipe, dim: int | None, name: str) -> None:
        self._store, self._recipe, self._dim, self._name = store, recipe, dim, name

    def room_for(self, rows: int) -> WorkSpace:
        """Work space for links of so many rows: with what writing them takes it has `most_bytes()` in memory, or 24 bytes a row."""
        return WorkSpace(self._store.path, max(0, most_bytes() - _WRITTEN_BYTES * rows))

    def draft(self, reader: Reader, view: View, check: Callable[[], None]) -> Draft:
        """Codes of all rows in runs; of the rows that are linked already also their links, without the dead.

        Raises:
            StorageFull: the disk has no room for the work space. CorruptData: a row is damaged.
        """
        room = self.room_for(sum(run.live for run in view.runs))
        source = gather(view.runs, None, room)
        # Before all else, so that they lie in memory if anything does: they are written at random places.
        links = Graph.no_links(len(source), room)
        old = view.links.set if view.links is not None else None
        if old is not None and len(source) < 8 * old.header.scratch_rows:
            try:
                change = _change(old, source, room)
                if 2 * change.kept > len(old.row_numbers) and not self._has_drifted(source, old, change.new, room):
                    return self._extended((reader, view), source, old, change, links, room, check)
            except CorruptData as error:
                log.warning("%s: link set %d is damaged (%s): it is built anew from the rows", self._name, old.number, error)
                links[...] = 0
        coder = self._chosen(source, view, room)
        codes, errors, norms = self._encode(source, coder, room, check)
        graph = Graph.empty(codes, norms, coder.step, self._recipe.space.shapes, units=coder.projection is not None, links=links)
        new = room.numbers(len(source))
        return Draft(source.row_numbers, horizon_of(view), coder, errors, graph, new, len(source), reader.link_sets())

    def _chosen(self, source: Source, view: View, room: WorkSpace) -> Coder:
        """Codes for these rows."""
        space, sample = self._recipe.space, self._sample(source, room.numbers(len(source)))
        near = neighbourhoods(view, self._recipe, room)
        if space.geometry == SHAPES:
            return choose_coder(sample, self._dim, near, len(source))
        roots = space.geometry == UNIT_ROOTS
        return choose_unit_coder(sample, self._dim, near, len(source), roots=roots, seed=self._recipe.sampler.seed)

    def _has_drifted(self, source: Source, old: LinkSet, new: NDArray[np.int64], room: WorkSpace) -> bool:
        """Whether the new rows are so unlike those that the codes of a link set were chosen by that these are chosen anew."""
        if old.coder.projection is None or not len(new):
            return False
        if not drifted(old.coder, self._sample(source, room.copy(new))):
            return False
        log.info("%s: new rows are unlike those that codes were chosen by: they are chosen anew", self._name)
        return True

    def _sample(self, source: Source, among: NDArray[np.int64]) -> Rows:
        """Some random rows of those at these places, to choose codes by. among is put in another order."""
        np.random.default_rng(len(among)).shuffle(among)
        picks = np.sort(among[:_SAMPLE_ROWS])
        return read_records(source.addresses[picks], source.rooms[picks], self._recipe.wide)

    def _extended(
        self, at: tuple[Reader, View], source: Source, old: LinkSet, change: _Change, links: NDArray[np.uint32], room: WorkSpace,
        check: Callable[[], None],
    ) -> Draft:  # fmt: skip
        """The old link set without its dead rows, and room for the new ones. links: room for the links of all."""
        reader, view = at
        was = unpacked(reader, old, self._recipe.space.shapes, room)
        renamed, new = change.renamed, change.new
        added, errors_added, norms_added = self._encode(source.taken(new, room), old.coder, room, check)
        errors, norms = room.empty(len(source), np.float32), room.empty(len(source), np.float32)
        errors[new], norms[new] = errors_added, norms_added
        for first, past in pieces(len(renamed)):
            stay = first + np.flatnonzero(renamed[first:past] >= 0)
            errors[renamed[stay]] = old.errors[stay]
            norms[renamed[stay]] = was.norms[stay] if len(was.norms) == len(renamed) else 1.0

        def parts() -> Iterator[tuple[NDArray[np.int64], Codes]]:
            for which, codes in was.codes.pieces():
                stay = np.flatnonzero(renamed[which] >= 0)
                yield renamed[which[stay]], codes.take(stay)
            for which, codes in added.pieces():
                yield new[which], codes

        graph = was.thinned(Codes.scattered(old.coder.width, len(source), parts, room), norms, renamed, links)
        for part in (Part.ROW_NUMBERS, Part.ERRORS):
            # Read in the file until now: what was damaged since it was opened would get checksums of its own.
            reader.run_part(old.number, part, verify=True)
        return Draft(source.row_numbers, horizon_of(view), old.coder, errors, graph, new, old.header.scratch_rows, reader.link_sets())

    def _encode(
        self, source: Source, coder: Coder, room: WorkSpace, check: Callable[[], None]
    ) -> tuple[Codes, NDArray[np.float32], NDArray[np.float32]]:
        """Codes, errors and norms of stored rows, each checked."""
        errors, norms = room.empty(len(source), np.float32), room.empty(len(source), np.float32)

        def parts() -> Iterator[Codes]:
            for start, rows in iterate_rows(source, self._recipe.wide):
                check()
                here = slice(start, start + len(rows))
                part, errors[here] = coder.encode(rows)
                norms[here] = rows.norms
                yield part

        return Codes.joined(coder.width, len(source), parts(), room), errors, norms


def _change(old: LinkSet, source: Source, room: WorkSpace) -> _Change:
    """What a link set becomes with the rows that are there now."""
    places = room.empty(len(old.row_numbers), np.uint32)
    places[:] = GONE
    place_rows(old.row_numbers, _read_only(source.row_numbers), 0, places)
    renamed, taken, kept = room.empty(len(places), np.int64), room.zeros(len(source), np.bool_), 0
    for first, past in pieces(len(places)):
        some = places[first:past]
        renamed[first:past] = np.where(some == GONE, -1, some.astype(np.int64))
        taken[some[some != GONE]] = True
        kept += int((some != GONE).sum())
    new, count = room.empty(len(source) - kept, np.int64), 0
    for first, past in pieces(len(taken)):
        others = first + np.flatnonzero(~taken[first:past])
        new[count : count + len(others)] = others
        count += len(others)
    return _Change(renamed, kept, new)


def horizon_of(view: View) -> int:
    """The last row number in any run."""
    return max((int(run.row_numbers[-1]) for run in view.runs), default=-1)


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


def unpacked(reader: Reader, old: LinkSet, shapes: bool, room: WorkSpace) -> Graph:
    """A stored link set in arrays, its checksums verified. room: for its codes and links.

    Raises:
        CorruptData.
    """
    blocks = [np.frombuffer(part, np.uint8, offset=CODE_PADDING) for part in reader.run_parts(old.number, Part.CODES, verify=True)]
    offsets = np.empty(0, np.uint32)
    if not old.coder.width:
        offsets = np.frombuffer(reader.run_part(old.number, Part.CODE_OFFSETS, verify=True), "<u4")
    try:
        codes = Codes.of_blocks(old.coder.width, old.header.code_shift, blocks, offsets, room)
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
