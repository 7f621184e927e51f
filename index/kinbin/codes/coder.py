"""What codes of some rows are made by; choosing them: bytes or packed entries, how many bytes, which features share one, and the step.

Chosen by measured error: of the widths that a row's features can be folded into, the smallest whose nearest
codes hold the true nearest rows; packed entries where they are faster, or where no number of bytes is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.folded import CODER, LANES, SLOTS, encode, fold_rows, merge_buckets
from kinbin.codes.nodes import GRAPH, distance_to, probe_node, release_probe
from kinbin.codes.packed import QUAD, UNIT_STEP, pack
from kinbin.codes.table import Codes
from kinbin.codes.units import encode_units
from kinbin.costs import COSTS
from kinbin.native.jit import strict
from kinbin.native.records import Record
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import BYTES, MOST_CODE_BYTES, PACKED, TABLE_WORDS, UNITS
from kinbin.spaces.space import SHAPES, UNIT_ROOTS, UNIT_ROWS
from kinbin.storage.headers import CoderHeader, ProjectionHeader

__all__ = [
    "ENOUGH", "WIDTHS", "Coder", "Projection", "choose_coder", "folded_coder", "node_cost", "packed_coder", "packed_unit_coder",
    "recall_of", "rounded", "slots_for", "walk_cost",
]  # fmt: skip

WIDTHS = (64, 128, 192, 256, 384, 512, 768, MOST_CODE_BYTES)
"""Bytes a code may have."""
ENOUGH = 0.99
"""The quality (`Coder.recall`) at which a code is not made wider."""
_MERGED_SLOTS = 1024
"""Rarer slots beyond so many are pooled at random before slots are merged by what they lose."""
_PAIRS = 3_072
"""Pairs of rows whose distances foldings keep. With 768, foldings of one set differed more than widths do."""
_UNSEEN = 32
"""One bucket in so many is kept for features that a sample does not show."""
_SAMPLE_ROWS = 8_192
_SAMPLE_CELLS = 1 << 23
"""Rows times slots of the sample."""
_CLIPS = 5
_PACKED_LEVELS = 65_535
_FINEST = 2.0**-31
"""No step is smaller: sums of weights fit 32 bits."""
_CACHED_BYTES = 1 << 25
"""Of codes that are taken to lie in the caches."""
_LOST = 30.0
"""Walks by codes that lose a share x of the neighbours are taken to be exp(_LOST x) times as wide. A guess that decides three sets as
measured walks do: word counts of two sizes for packed codes (the smaller just so), colour histograms for bytes."""
_NO_BUCKETS = np.empty(0, np.uint16)
_SQUARES = 1.4
"""What comparing bytes by squares takes, of what absolute differences take."""


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """The unit rows that are coded, and the directions on to which they are projected (`codes.projected` chooses them)."""

    matrix: NDArray[np.float32]
    """(slots + 1, width) what is added to the coordinates of every row; then of each slot its coordinates. No unit row becomes longer.
    Nothing where codes are packed."""
    known: NDArray[np.uint64]
    """(slots,) the features of the slots, ascending; none: each feature is a slot."""
    roots: bool
    """Whether unit rows are the square roots of rows that sum to 1."""
    residual: float
    """The share of the squares of the sample that lies in none of the directions."""


@dataclass(frozen=True, eq=False)
class Coder:
    """How rows become codes."""

    width: int
    """Bytes a code; 0: codes are packed entries, of whatever number."""
    hashed: bool
    """Whether features are hashed into slots first."""
    buckets: NDArray[np.uint16]
    """(slots,) the byte of each slot; none where codes are packed."""
    step: float
    """What one unit of a byte or a weight stands for, of a row that sums to 1."""
    offset: float
    """The byte that stands for nothing: 0, or 128 where values are signed."""
    recall: float
    """Of sampled rows, the share of the 100 nearest that are among the 120 nearest codes: the measured quality of the code."""
    projection: Projection | None = None
    """Where codes are of unit rows: there are no buckets then."""

    @property
    def layout(self) -> str:
        """Of the codes."""
        return PACKED if not self.width else BYTES if self.projection is None else UNITS

    @property
    def geometry(self) -> str:
        """What the distance of codes bounds (`spaces.space.Space.geometry`)."""
        return SHAPES if self.projection is None else UNIT_ROOTS if self.projection.roots else UNIT_ROWS

    def compare_ns(self, size: float) -> float:
        """Predicted time to compare a code of so many bytes, in the mean, once it is in the cache."""
        if not self.width:
            return COSTS.entry * size / 4
        return COSTS.line * size / LANES * (1.0 if self.projection is None else _SQUARES)

    def scan_ns(self, size: float) -> float:
        """The same of a scan, which compares eight codes of bytes together."""
        return self.compare_ns(size) * (COSTS.scan_line / COSTS.line if self.width else 1.0)

    def fields(self) -> dict[str, Any]:
        """What kernels are told (`folded.CODER`); the coder must live as long as it is used."""
        out = {
            "width": self.width, "step": self.step, "offset": self.offset, "hashed": int(self.hashed), "buckets": self.buckets,
            "slots": len(self.buckets),
        }  # fmt: skip
        if self.projection is None:
            return out
        if not self.width:
            return out | {"units": 1, "roots": int(self.projection.roots)}
        matrix, known = self.projection.matrix, self.projection.known
        more = {"slots": len(matrix) - 1, "roots": int(self.projection.roots), "matrix": matrix, "known": known}
        return out | more | {"known_count": len(known)}

    @cached_property
    def record(self) -> Record:
        """The same as a record."""
        return CODER.record(**self.fields())

    def encode(self, rows: Rows, asked: Record | None = None) -> tuple[Codes, NDArray[np.float32]]:
        """Codes and errors (n,) of n rows. asked: their record, where there is one."""
        asked, errors = queries_record(rows) if asked is None else asked, np.empty(len(rows), np.float32)
        if self.width:
            codes = np.empty((len(rows), self.width), np.uint8)
            if self.projection is not None:
                encode_units(self.record, asked, np.empty((1, self.width), np.float32), codes, errors)
                return Codes.of_bytes(codes), errors
            encode(self.record, asked, codes, errors)
            return Codes.of_bytes(codes), errors
        nonzeros = int(rows.indptr[-1] - rows.indptr[0])
        words, offsets = np.empty(nonzeros + (QUAD + 1) * len(rows), np.uint32), np.empty(len(rows), np.uint32)
        used = pack(self.record, asked, np.zeros(TABLE_WORDS, np.uint16), words, offsets, errors)
        starts = np.append(offsets.astype(np.int64), used // QUAD)
        return Codes(0, words[:used].reshape(-1, QUAD), starts), errors

    def probes(self, rows: Rows, asked: Record | None = None) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Codes (m, width) and errors (m,) of queries; packed codes are laid out one at a time, so that there are none of them."""
        codes, errors = self.encode(rows, asked)
        return codes.data if self.width else np.empty((len(rows), 0), np.uint8), errors

    def header(self) -> CoderHeader:
        """What is stored of it, but for the buckets and the directions."""
        projection = None if self.projection is None else ProjectionHeader(self.projection.roots, self.projection.residual)
        return CoderHeader(self.width, self.hashed, self.step, self.offset, round(self.recall, 4), projection)

    @classmethod
    def of(
        cls, header: CoderHeader, buckets: NDArray[np.uint16], directions: tuple[NDArray[np.float32], NDArray[np.uint64]] | None = None
    ) -> Coder:
        """From what is stored; directions: the matrix and the known features of a projection."""
        projection = None
        if header.projection is not None:
            matrix, known = directions or (np.empty((0, 0), np.float32), np.empty(0, np.uint64))
            projection = Projection(matrix, known, header.projection.roots, header.projection.residual)
        return cls(header.width, header.hashed, buckets, header.step, header.offset, header.recall, projection)


def slots_for(dim: int | None) -> tuple[bool, int]:
    """Whether features of rows of this dimension are hashed into slots, and how many slots there are."""
    return (True, SLOTS) if dim is None or dim > SLOTS else (False, dim)


def choose_coder(rows: Rows, dim: int | None, neighbourhoods: tuple[Rows, int], nodes: int) -> Coder:
    """Codes for so many rows like these (a sample of what is to be encoded; some thousands are enough).

    neighbourhoods: rows in groups of so many: a row, and its nearest of *all* rows in order. Codes are judged by them.
    Cost: 0.2 to 0.4 s; 1 to 2 s for sparse rows of many features.
    """
    near, size = neighbourhoods
    packed = packed_coder(rows, near, size)
    folded = folded_coder(rows, dim, near, size, nodes)
    return packed if node_cost(packed, near) < node_cost(folded, near) else folded


def node_cost(coder: Coder, rows: Rows) -> float:
    """What a node of rows like these takes that a walk meets, times what the walk has to be wider for the neighbours that codes lose."""
    size = coder.width or 4 * len(rows.values) / max(1, len(rows))
    return (COSTS.node + coder.compare_ns(size)) * float(np.exp(_LOST * max(0.0, ENOUGH - coder.recall)))


def walk_cost(coder: Coder, nodes: int) -> float:
    """The same of codes of bytes of so many nodes, with all that a walk does besides, and with the way from memory."""
    lines = coder.width / LANES
    squares = 1.0 if coder.projection is None else _SQUARES
    step = COSTS.node + lines * (COSTS.line * squares if nodes * coder.width <= _CACHED_BYTES else COSTS.far_line)
    return step * float(np.exp(_LOST * max(0.0, ENOUGH - coder.recall)))


def packed_coder(rows: Rows, near: Rows, size: int) -> Coder:
    """Packed entries whose largest weight is that of the rows."""
    largest = float((np.abs(rows.values) / np.repeat(rows.norms, np.diff(rows.indptr))).max())
    return _judged(Coder(0, True, _NO_BUCKETS, max(largest / _PACKED_LEVELS, _FINEST), 0.0, 1.0), near, size)


def packed_unit_coder(near: Rows, size: int, *, roots: bool) -> Coder:
    """Packed entries of unit rows. roots: of the square roots of shapes."""
    plain = Projection(np.empty((0, 0), np.float32), np.empty(0, np.uint64), roots, 0.0)
    return _judged(Coder(0, True, _NO_BUCKETS, UNIT_STEP, 0.0, 1.0, plain), near, size)


def _judged(coder: Coder, near: Rows, size: int) -> Coder:
    """A coder of packed entries with its recall."""
    codes, _ = coder.encode(near)
    keep: list[object] = []
    graph = GRAPH.record(**codes.fields(keep), **_packing(coder), shapes=1)
    distance = np.empty((len(near) // size, size), np.float32)
    _group_distances(graph, np.zeros(TABLE_WORDS, np.uint16), distance)
    return replace(coder, recall=recall_of(distance[:, 1:]))


def _packing(coder: Coder) -> dict[str, Any]:
    """What kernels are told of packing."""
    return {name: value for name, value in coder.fields().items() if name in ("step", "units", "roots")}


@strict
def _group_distances(graph, table, distance):  # type: ignore[no-untyped-def]
    """Distances of the codes of groups of nodes from the first of their group."""
    groups, size = distance.shape
    for g in range(groups):
        probe = probe_node(graph[0], g * size, table)
        for x in range(size):
            distance[g, x] = distance_to(graph[0], g * size + x, probe)
        release_probe(graph[0], g * size, table)


def folded_coder(rows: Rows, dim: int | None, near: Rows, size: int, nodes: int) -> Coder:
    """Bytes: of the widths up to the smallest that is enough, the one with the cheapest walks."""
    hashed, count = slots_for(dim)
    sample = rows.slice(0, min(len(rows), _SAMPLE_ROWS, _SAMPLE_CELLS // count))
    best: Coder | None = None
    for width, buckets in _foldings(sample, hashed, count):
        groups = _fold(near, hashed, buckets, width).reshape(-1, size, width)
        found, step, offset = max(
            (recall_of(_distances(rounded(groups, *scale))), *scale) for scale in _scales(_fold(sample, hashed, buckets, width))
        )
        coder = Coder(width, hashed, buckets, step, offset, found)
        if best is None or walk_cost(coder, nodes) < walk_cost(best, nodes):
            best = coder
        if found >= ENOUGH:
            break
    assert best is not None
    return best


def _distances(groups: NDArray[np.float32]) -> NDArray[np.float32]:
    """(groups, size - 1) L1 distances of the codes of groups from the first of their group."""
    distance: NDArray[np.float32] = np.abs(groups[:, 1:] - groups[:, :1]).sum(axis=2)
    return distance


def recall_of(distance: NDArray[np.float32]) -> float:
    """Of groups of rows, by columns in their true order: the share of the nearer half among as many nearest codes, and a fifth more.

    Not of the ten nearest: stored rows often have a few near doubles, which any code finds. A query has none; its neighbours
    are a crowd like the one behind the doubles.
    """
    size = distance.shape[1] + 1
    nearest = size // 2
    if not nearest:
        return 1.0
    worst = np.sort(distance, axis=1)[:, min(nearest + nearest // 5, size - 1) - 1 :][:, :1]
    return float((distance[:, :nearest] <= worst).mean())


def _foldings(sample: Rows, hashed: bool, count: int) -> list[tuple[int, NDArray[np.uint16]]]:
    """(width, bucket of each slot) for every width that saves something, ascending."""
    rng = np.random.default_rng(len(sample))
    whole = -(-count // LANES) * LANES
    widths = [width for width in WIDTHS if width < count]
    pooled = _pool_rare(_fold(sample, hashed, np.arange(count, dtype=np.uint16), count), rng)
    out: list[tuple[int, NDArray[np.uint16]]] = []
    if widths:
        pools = int(pooled.max()) + 1
        some = _fold(sample.slice(0, min(len(sample), 4 * _PAIRS)), hashed, pooled, pools)
        left, right = rng.integers(0, len(some), (2, _PAIRS))
        differences = some[left] - some[right]
        seen = np.flatnonzero(differences.any(axis=0))
        # What the sample's pairs do not show may come: it has some buckets of its own, or it would blur the others.
        spare = {width: min(pools - len(seen), max(1, width // _UNSEEN)) for width in widths}
        merged = [width for width in widths if width - spare[width] < len(seen)]
        table = np.empty((len(merged), len(seen)), np.uint16)
        merge_buckets(np.ascontiguousarray(differences[:, seen].T), np.array([w - spare[w] for w in merged[::-1]], np.int64), table)
        for width in widths:
            buckets = width - 1 - rng.permutation(pools) % max(1, spare[width])
            buckets[seen] = table[merged[::-1].index(width)] if width in merged else np.arange(len(seen))
            out.append((width, buckets.astype(np.uint16)[pooled]))
    if whole <= WIDTHS[-1]:
        out.append((whole, np.arange(count, dtype=np.uint16)))
    return out


def _pool_rare(weights: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.uint16]:
    """Slots pooled into at most _MERGED_SLOTS: the heavier half have one each, the others share the rest at random."""
    count = weights.shape[1]
    if count <= _MERGED_SLOTS:
        return np.arange(count, dtype=np.uint16)
    half = _MERGED_SLOTS // 2
    pool = np.empty(count, np.uint16)
    order = np.argsort(-np.abs(weights).sum(axis=0), kind="stable")
    pool[order[:half]] = np.arange(half)
    pool[order[half:]] = half + rng.permutation(count - half) % (_MERGED_SLOTS - half)
    return pool


def _fold(rows: Rows, hashed: bool, buckets: NDArray[np.uint16], width: int) -> NDArray[np.float32]:
    """(n, width) sums of the slots of each bucket."""
    out = np.zeros((len(rows), width), np.float32)
    fold_rows(queries_record(rows), hashed, buckets, out)
    return out


def _scales(folded: NDArray[np.float32]) -> list[tuple[float, float]]:
    """(step, offset) to choose from: a larger step rounds more, a smaller one cuts more of the largest values off."""
    signed = bool(folded.min() < 0)
    levels, offset = (127, 128.0) if signed else (255, 0.0)
    most = float(np.abs(folded).max()) or 1.0
    return [(most / levels * 0.5 ** (i / 2), offset) for i in range(_CLIPS)]


def rounded(folded: NDArray[np.float32], step: float, offset: float) -> NDArray[np.float32]:
    """The codes, as float32."""
    codes: NDArray[np.float32] = np.clip(np.rint(folded / np.float32(step)) + np.float32(offset), 0, 255)
    return codes
