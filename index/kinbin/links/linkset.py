"""A link set as it lies in the store: which rows it covers, and where its codes and links are.

A link set covers all rows up to a row number that were alive when it was built. It never changes; it names rows,
not runs, so runs are sealed and merged without it. Rows that died since are passed through but not answered, rows that
came since are answered by the bands.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.coder import Coder, slots_for
from kinbin.codes.folded import LANES
from kinbin.codes.nodes import GRAPH
from kinbin.codes.packed import QUAD
from kinbin.codes.table import code_lines
from kinbin.errors import CorruptData
from kinbin.links.search import GONE, place_rows
from kinbin.links.widths import CalibrationTable
from kinbin.native.records import Record
from kinbin.rows.scratch import MOST_CODE_BYTES
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.headers import LinkSetHeader
from kinbin.storage.transactions import Reader

__all__ = ["LinkSet", "Links"]

_NO_OFFSETS = np.empty(0, np.uint32)
_VERIFYING = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class LinkSet:
    """A graph over the rows `row_numbers`: codes and links lie in the store's map."""

    number: int
    header: LinkSetHeader
    calibration: CalibrationTable
    coder: Coder
    row_numbers: NDArray[np.uint64]
    errors: NDArray[np.float32]
    entries: NDArray[np.uint32]
    graph: Record
    """What kernels are told, but for the places of the rows."""
    code_bytes: int
    """Of a code, in the mean."""
    kept: tuple[NDArray[Any], ...]
    """Arrays whose addresses stand in `graph`."""
    sound: list[bool] = field(default_factory=list)
    """Has a member once the codes' checksums have been verified."""

    @classmethod
    def load(cls, reader: Reader, number: int, geometry: str) -> LinkSet:
        """Read a link set's header, row numbers and errors, and the places of the rest. Cost: 16 to 20 bytes a row.

        geometry: what the distance of its codes has to bound, for the kernel's bounds to hold.

        Raises:
            CorruptData: it is not what its header says, or its codes are of another geometry (those of a version before this one).
        """
        header = reader.link_set_header(number)
        calibration = CalibrationTable.decode(header.calibration)
        rows = header.rows
        numbers = _numbers(reader, number, Part.ROW_NUMBERS, "<u8")
        errors = _numbers(reader, number, Part.ERRORS, "<f4")
        norms = _numbers(reader, number, Part.NORMS, "<f4") if header.norms else np.ones(1, np.float32)
        offsets = _numbers(reader, number, Part.LINK_OFFSETS, "<u4")
        entries = _numbers(reader, number, Part.ENTRIES, "<u4").copy()
        coder = _coder(reader, number, header)
        if coder.geometry != geometry:
            raise CorruptData(f"the codes of link set {number} bound the {coder.geometry}, and the kernel asks for the {geometry}")
        codes, code_bytes = reader.run_places(number, Part.CODES)
        quads = (code_bytes - np.uint64(CODE_PADDING)) // np.uint64(4 * QUAD)
        code_offsets = _numbers(reader, number, Part.CODE_OFFSETS, "<u4") if not coder.width else _NO_OFFSETS
        links, link_bytes = reader.run_places(number, Part.LINKS)
        code_shift, link_shift = header.code_shift, header.link_shift
        per_block = np.minimum(rows - (np.arange(len(codes)) << code_shift), 1 << code_shift)
        whole = (
            len(numbers) == len(errors) == len(offsets) == rows
            and (not header.norms or len(norms) == rows)
            and len(codes) == -(-rows >> code_shift)
            and len(links) == -(-rows >> link_shift)
            and (code_bytes >= CODE_PADDING + per_block * coder.width).all()
            and (entries < rows).all()
            and (_is_packed(coder, code_offsets, rows) or _is_bytes(coder, reader.configuration().dim))
        )
        if not whole:
            raise CorruptData(f"link set {number} is not what its header says")
        codes = codes + np.uint64(CODE_PADDING)
        words = link_bytes >> np.uint64(2)
        graph = GRAPH.record(
            **coder.fields(), shapes=int(not header.norms), nodes=rows, code_shift=code_shift, codes=codes, code_quads=quads,
            code_offsets=code_offsets, code_lines=code_lines(rows, int(quads.sum()) * 4 * QUAD), offsets=offsets, link_shift=link_shift,
            links=links, link_words=words, norms=norms, entries=entries, entry_count=len(entries), errors=errors,
        )  # fmt: skip
        mean_bytes = coder.width or int(quads.sum()) * 4 * QUAD // max(1, rows)
        kept = codes, quads, code_offsets, links, words, norms, offsets
        return cls(number, header, calibration, coder, numbers, errors, entries, graph, mean_bytes, kept)

    @property
    def horizon(self) -> int:
        """The last row number it covers."""
        return self.header.horizon

    @property
    def compare_ns(self) -> float:
        """Predicted time to compare one of its codes."""
        return self.coder.compare_ns(self.code_bytes)

    def verify_codes(self, reader: Reader) -> None:
        """Verify the checksums of all codes, once: a scan that skips by codes is only as exact as they are.

        Raises:
            CorruptData.
        """
        with _VERIFYING:
            # One thread at a time: a snapshot is no work for several.
            if not self.sound:
                reader.run_parts(self.number, Part.CODES, verify=True)
                self.sound.append(True)


def _numbers(reader: Reader, number: int, part: bytes, dtype: str) -> NDArray[Any]:
    """A part of numbers, its checksum verified."""
    body = reader.run_part(number, part, verify=True)
    if len(body) % np.dtype(dtype).itemsize:
        raise CorruptData(f"part {part.decode()!r} of link set {number} ends within a number")
    return np.frombuffer(body, dtype)


def _coder(reader: Reader, number: int, header: LinkSetHeader) -> Coder:
    """How its rows became codes.

    Raises:
        CorruptData: its directions are not of the width that the header says.
    """
    buckets, projection = _numbers(reader, number, Part.BUCKETS, "<u2").copy(), header.coder.projection
    if projection is None or not header.coder.width:
        return Coder.of(header.coder, buckets)
    known = _numbers(reader, number, Part.FEATURES, "<u8").copy()
    matrix = _numbers(reader, number, Part.DIRECTIONS, "<f4").copy()
    if len(matrix) % header.coder.width:
        raise CorruptData(f"the directions of link set {number} are not what its header says")
    return Coder.of(header.coder, buckets, (matrix.reshape(-1, header.coder.width), known))


def _is_packed(coder: Coder, offsets: NDArray[np.uint32], rows: int) -> bool:
    """Whether these may be packed codes of so many rows; where one lies is checked when it is read."""
    return coder.width == 0 and len(coder.buckets) == 0 and len(offsets) == rows and coder.step > 0.0


def _is_bytes(coder: Coder, dim: int | None) -> bool:
    """Whether these may be codes of bytes of rows of this dimension, folded or projected."""
    if not LANES <= coder.width <= MOST_CODE_BYTES or coder.width % LANES:
        return False
    if coder.projection is None:
        return bool((coder.buckets < coder.width).all()) and (coder.hashed, len(coder.buckets)) == slots_for(dim)
    matrix, known = coder.projection.matrix, coder.projection.known
    return (
        len(matrix) == 1 + (len(known) if coder.hashed else dim or 0)
        and coder.hashed == bool(len(known)) == slots_for(dim)[0]
        and bool(np.isfinite(matrix).all() and (known[1:] > known[:-1]).all())
        and coder.step > 0.0
    )


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """A link set as the runs of one manifest see it."""

    set: LinkSet
    places: NDArray[np.uint32]
    """(nodes,) rows of the runs before, plus the local row; GONE if the row is in no run."""
    linked: int
    """Nodes that are in a run."""
    tails: tuple[int, ...]
    """Of each run the first local row that is not linked."""
    graph: Record
    """What kernels are told."""

    @classmethod
    def of(cls, links: LinkSet, runs: tuple[NDArray[np.uint64], ...]) -> Links:
        """Place the nodes in runs, given by their row numbers. Cost: 2 ns a row."""
        places = np.full(len(links.row_numbers), GONE, np.uint32)
        base = 0
        tails = []
        for numbers in runs:
            place_rows(links.row_numbers, numbers, base, places)
            base += len(numbers)
            tails.append(int(np.searchsorted(numbers, np.uint64(links.horizon), side="right")))
        graph = links.graph.copy()
        GRAPH.fill(graph, places=places)
        return cls(links, places, int((places != GONE).sum()), tuple(tails), graph)
