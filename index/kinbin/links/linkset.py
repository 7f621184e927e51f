"""A link set as it lies in the store, and how it is walked: which rows it covers, and how wide for which recall.

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
from kinbin.codes.folded import LANES, MOST_BYTES
from kinbin.codes.nodes import graph_of_fields
from kinbin.codes.packed import QUAD
from kinbin.codes.table import code_lines
from kinbin.errors import CorruptData
from kinbin.links.search import GONE, WIDE, grown_pool, place_rows
from kinbin.links.search import HARD as HARD_FROM
from kinbin.native.memory import address_of
from kinbin.storage.format import CODE_PADDING, Part
from kinbin.storage.transactions import Reader

__all__ = ["CALIBRATED_K", "HARD", "MOST_WIDTH", "SPREAD", "LinkSet", "Links", "Width", "worst_recalls"]

CALIBRATED_K = (1, 10, 100)
_NO_OFFSETS = np.empty(0, np.uint32)
_VERIFYING = threading.Lock()
_MET = 20.0
"""Nodes that a walk compares for each of its pool, where that was not measured."""
_FAR_SHARE = 0.01
_NORM_SLACK = 1.25
MOST_WIDTH = 4096
"""Of a pool."""
SPREAD = tuple(i / 32 for i in range(33))
"""Shares of the calibrated queries of which the greatest similarity of a k-th neighbour is kept."""
_NEIGHBOURS, _FAILED = 11, 3
"""Walks are not trusted where they fail so many of so many strange queries that follow each other by similarity."""
HARD = 1 / 8
"""The share of the calibrated queries whose k-th neighbours are the least similar: they are measured apart, and may get a wider pool."""


@dataclass(frozen=True, slots=True)
class Width:
    """How wide a walk has to be."""

    pool: int
    reaches: bool
    """Whether a calibrated walk of this width had the recall that is aimed at."""
    far: float = 0.0
    """A query whose k-th answer is less similar than this is none of the kind that was calibrated on."""
    growth: float = 1.0
    more: int = 0
    """Of the pool of such a query: see `grown_pool`."""
    alike: float = 1.0
    """Share of the calibrated queries whose k-th neighbour had anything in common with them."""
    trusted: float = 0.0
    """A query whose k-th answer is less similar than this, which is `far` or more, is not left to a walk."""
    finished: float = 0.0
    """Share of the calibrated queries that are not left to a walk, or whose k-th neighbour had nothing in common with them."""
    hard: float = 0.0
    """One calibrated query in eight had a k-th neighbour that was less similar than this."""
    wide: int = 0
    """The pool of such a query, where that is more."""
    beam: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    """The same as kernels are told it (`search_links`)."""

    def __post_init__(self) -> None:
        hard, wide = max(self.hard, self.far), max(self.wide, self.pool)
        object.__setattr__(self, "beam", np.array([self.pool, hard, wide, self.far, self.growth, self.more], np.float64))

    def pool_at(self, similarity: float) -> int:
        """The pool of a query whose k-th answer has this similarity, where walks grow."""
        return int(min(MOST_WIDTH, grown_pool.py_func(self.beam, similarity, True)))


@dataclass(frozen=True, slots=True, eq=False)
class LinkSet:
    """A graph over the rows `row_numbers`: codes and links lie in the store's map."""

    number: int
    header: dict[str, Any]
    coder: Coder
    row_numbers: NDArray[np.uint64]
    errors: NDArray[np.float32]
    entries: NDArray[np.uint32]
    graph: NDArray[np.uint64]
    """What kernels are told."""
    code_bytes: int
    """Of a code, in the mean."""
    kept: tuple[NDArray[Any], ...]
    """Arrays whose addresses stand in `graph`."""
    sound: list[bool] = field(default_factory=list)
    """Has a member once the codes' checksums have been verified."""

    @classmethod
    def load(cls, reader: Reader, number: int) -> LinkSet:
        """Read a link set's header, row numbers and errors, and the places of the rest. Cost: 16 to 20 bytes a row.

        Raises:
            CorruptData: it is not what its header says.
        """
        header = reader.run_header(number)
        rows = int(header["rows"])
        numbers = np.frombuffer(reader.run_part(number, Part.ROW_NUMBERS, verify=True), "<u8")
        errors = np.frombuffer(reader.run_part(number, Part.ERRORS, verify=True), "<f4")
        norms = np.frombuffer(reader.run_part(number, Part.NORMS, verify=True), "<f4") if header["norms"] else np.ones(1, np.float32)
        offsets = np.frombuffer(reader.run_part(number, Part.LINK_OFFSETS, verify=True), "<u4")
        entries = np.frombuffer(reader.run_part(number, Part.ENTRIES, verify=True), "<u4").copy()
        coder = Coder.from_header(header["coder"], np.frombuffer(reader.run_part(number, Part.BUCKETS, verify=True), "<u2").copy())
        codes, code_bytes = reader.run_places(number, Part.CODES)
        quads = (code_bytes - np.uint64(CODE_PADDING)) // np.uint64(4 * QUAD)
        code_offsets = np.frombuffer(reader.run_part(number, Part.CODE_OFFSETS, verify=True), "<u4") if not coder.width else _NO_OFFSETS
        links, link_bytes = reader.run_places(number, Part.LINKS)
        code_shift, link_shift = int(header["code_shift"]), int(header["link_shift"])
        per_block = np.minimum(rows - (np.arange(len(codes)) << code_shift), 1 << code_shift)
        whole = (
            len(numbers) == len(errors) == len(offsets) == rows
            and (not header["norms"] or len(norms) == rows)
            and len(codes) == -(-rows >> code_shift)
            and len(links) == -(-rows >> link_shift)
            and (code_bytes >= CODE_PADDING + per_block * coder.width).all()
            and (entries < rows).all()
            and (_is_packed(coder, code_offsets, rows) or _is_folded(coder, reader.configuration()["dim"]))
        )
        if not whole:
            raise CorruptData(f"link set {number} is not what its header says")
        # Whoever damaged the calibration without its checksum: it is needed later, and missed here.
        for recalls in (header["calibration"]["recall"], *worst_recalls(header["calibration"]).values()):
            _recall_at(recalls, 1)[: len(header["calibration"]["pools"])]
        for needed in (_far_at, _hard_at, _alike_at, _met_at):
            needed(header["calibration"], 1)
        _scanned(header["calibration"])
        codes = codes + np.uint64(CODE_PADDING)
        words = link_bytes >> np.uint64(2)
        fields = {
            "nodes": rows, "width": coder.width, "code_shift": code_shift, "codes": address_of(codes), "code_quads": address_of(quads),
            "code_offsets": address_of(code_offsets), "code_lines": code_lines(rows, int(quads.sum()) * 4 * QUAD),
            "offsets": address_of(offsets), "link_shift": link_shift, "links": address_of(links), "link_words": address_of(words),
            "norms": address_of(norms),
        }  # fmt: skip
        mean_bytes = coder.width or int(quads.sum()) * 4 * QUAD // max(1, rows)
        kept = codes, quads, code_offsets, links, words, norms, offsets
        return cls(number, header, coder, numbers, errors, entries, graph_of_fields(fields), mean_bytes, kept)

    @property
    def horizon(self) -> int:
        """The last row number it covers."""
        return int(self.header["horizon"])

    @property
    def compare_ns(self) -> float:
        """Predicted time to compare one of its codes."""
        return self.coder.compare_ns(self.code_bytes)

    def met(self, pool: int) -> float:
        """Nodes that a walk of this width compares, in the mean of the calibrated ones."""
        return _met_at(self.header["calibration"], pool)

    @property
    def scanned(self) -> float:
        """Rows that an exact scan for the most neighbours that were calibrated had to score, in the mean; 0 if that is not known."""
        return _scanned(self.header["calibration"])

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

    def width_for(self, k: float, aim: float, least: float) -> Width:
        """The smallest pool whose calibrated recall of the k nearest reached `aim`, and `least` in every group of queries.

        The widest if none did. The hard queries are a group of their own, with a pool of their own.
        """
        calibration = self.header["calibration"]
        rank, stretch = min(k, CALIBRATED_K[-1]), max(1.0, k / CALIBRATED_K[-1])
        pools = np.array(calibration["pools"])
        worst = {name: _recall_at(recalls, rank) for name, recalls in worst_recalls(calibration).items()}
        most = min(int(max(pools[-1], 2 * k) * stretch), MOST_WIDTH)

        def narrowest(good: NDArray[np.bool_]) -> int | None:
            enough = np.flatnonzero(good & (pools >= rank))
            return min(int(pools[enough[0]] * stretch), MOST_WIDTH) if len(enough) else None

        hard = worst["hard_recall"]
        wide = narrowest(hard >= least)
        others = (_recall_at(calibration["recall"], rank) - HARD * hard) / (1.0 - HARD)
        # What the hard queries find in their own pool counts, not what they would in the others'.
        of_hard = np.maximum(hard, hard[(pools * stretch >= (wide or most)).argmax()])
        pool = narrowest(((1.0 - HARD) * others + HARD * of_hard >= aim) & (worst["weakest"] >= least))
        return Width(pool or most, pool is not None and wide is not None, hard=_hard_at(calibration, k), wide=wide or most)

    def far_for(self, k: float) -> float:
        """The similarity that 99 of 100 calibrated queries reached with their k-th neighbour; 0 if that is not known.

        Queries whose k-th neighbour had nothing in common with them are left out: see `alike_for`.
        """
        return _far_at(self.header["calibration"], k)

    def trusted_from(self, width: Width, k: float) -> float:
        """The similarity from which walks of this width find the k nearest of strange queries, too; 0 if that is not known."""
        strange = self.header["calibration"].get("strange")
        if strange is None or k > CALIBRATED_K[-1]:
            return 0.0
        similarity, needs = (np.array(part) for part in strange[str(next(one for one in CALIBRATED_K if one >= k))])
        order = np.argsort(-similarity, kind="stable")
        similarity, needs = similarity[order], needs[order]
        pool = np.where(similarity >= width.beam[HARD_FROM], width.pool, width.beam[WIDE])
        failed = ((needs == 0) | (needs > pool)) & (similarity > 0.0)
        together = np.convolve(failed, np.ones(_NEIGHBOURS), "valid") if len(failed) >= _NEIGHBOURS else np.zeros(0)
        too_many = np.flatnonzero(together >= _FAILED)
        if not len(too_many):
            return 0.0
        first = too_many[0] + int(np.flatnonzero(failed[too_many[0] :])[0])
        return float(np.nextafter(similarity[first], 1.0))

    def similarity_at(self, share: float, k: float) -> float:
        """The similarity below which this share of the calibrated queries has its k-th neighbour; 0 if that is not known."""
        spread = self.header["calibration"].get("spread")
        if spread is None or k > CALIBRATED_K[-1]:
            return 0.0
        return float(np.interp(share, SPREAD, spread[str(next(one for one in CALIBRATED_K if one >= k))]))

    def share_below(self, similarity: float, k: float) -> float:
        """The share of the calibrated queries whose k-th neighbour is less similar, of those that have anything in common with it."""
        spread = self.header["calibration"].get("spread")
        if spread is None or k > CALIBRATED_K[-1]:
            return _FAR_SHARE
        return max(_FAR_SHARE, float(np.interp(similarity, spread[str(next(one for one in CALIBRATED_K if one >= k))], SPREAD)))

    @property
    def norms(self) -> tuple[float, float]:
        """The range that the norms of queries have if they are like those of the rows (all but 1 % at either end, and a quarter more)."""
        low, high = self.header["calibration"].get("norms", (0.0, np.inf))
        return low / _NORM_SLACK, high * _NORM_SLACK

    def alike_for(self, k: float) -> float:
        """The share of the calibrated queries whose k-th neighbour had anything in common with them."""
        return _alike_at(self.header["calibration"], min(k, CALIBRATED_K[-1]))


def _is_packed(coder: Coder, offsets: NDArray[np.uint32], rows: int) -> bool:
    """Whether these may be packed codes of so many rows; where one lies is checked when it is read."""
    return coder.width == 0 and len(coder.buckets) == 0 and len(offsets) == rows and coder.step > 0.0


def _is_folded(coder: Coder, dim: int | None) -> bool:
    """Whether these may be codes of bytes of rows of this dimension."""
    return (
        LANES <= coder.width <= MOST_BYTES
        and coder.width % LANES == 0
        and bool((coder.buckets < coder.width).all())
        and (coder.hashed, len(coder.buckets)) == slots_for(dim)
    )


def _far_at(calibration: dict[str, Any], k: float) -> float:
    """See `LinkSet.far_for`."""
    far = calibration.get("far")
    if far is None or k > CALIBRATED_K[-1]:
        return 0.0
    return _between(far, k)


def _alike_at(calibration: dict[str, Any], k: float) -> float:
    """See `LinkSet.alike_for`. Where it was not counted, a similarity of 0 among 99 of 100 queries says that it is not all."""
    alike = calibration.get("alike")
    return _between(alike, k) if alike is not None else float(_far_at(calibration, k) > 0.0)


def _between(values: dict[str, float], k: float) -> float:
    """The value of k, between those of the calibrated ones on a scale of log k."""
    return float(np.interp(np.log(k), np.log(CALIBRATED_K), [values[str(one)] for one in CALIBRATED_K]))


def _hard_at(calibration: dict[str, Any], k: float) -> float:
    """The similarity that all but an eighth of the calibrated queries reached with their k-th neighbour; 0 if that is not known."""
    hard = calibration.get("hard")
    return 0.0 if hard is None or k > CALIBRATED_K[-1] else _between(hard, k)


def worst_recalls(calibration: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """By k the recalls of the hard queries, and of the group of the others that fared worst; those of all where that was not measured."""
    return {name: calibration.get(name, calibration["recall"]) for name in ("hard_recall", "weakest")}


def _met_at(calibration: dict[str, Any], pool: int) -> float:
    """See `LinkSet.met`."""
    pools = calibration["pools"]
    met = calibration.get("met", [_MET * one for one in pools])
    return float(np.interp(pool, pools, met) * max(1.0, pool / pools[-1]))


def _scanned(calibration: dict[str, Any]) -> float:
    """See `LinkSet.scanned`."""
    return float(calibration.get("scanned", 0.0))


def _recall_at(recall: dict[str, list[float]], k: float) -> NDArray[np.float64]:
    """(pools,) recall of the k nearest, between the calibrated ones on a scale of log k."""
    known = np.log(CALIBRATED_K)
    table = np.array([recall[str(one)] for one in CALIBRATED_K])
    return np.array([np.interp(np.log(k), known, column) for column in table.T])


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
        return cls(links, places, int((places != GONE).sum()), tuple(tails))
