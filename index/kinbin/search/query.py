"""One search: canonical queries and a view in, rows with exact similarities and certificates out."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.hashing import Sampler, band_keys
from kinbin.kernels.registry import Kernel
from kinbin.kernels.rowscore import NARROW_DIMENSION
from kinbin.search._bandkernel import CORRUPT, FRESH_BANDS, TRUNCATED, search_bands
from kinbin.search._rundata import FIELDS
from kinbin.search._scankernel import scan
from kinbin.search.plan import Plan, postings_cap
from kinbin.search.view import View
from kinbin.vectors.rows import Rows

__all__ = ["Found", "Searcher", "is_wide"]


def is_wide(dim: int | None) -> bool:
    """Whether rows of a collection carry 64-bit feature ids (otherwise 16-bit ones)."""
    return dim is None or dim > NARROW_DIMENSION


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Raw answers to m queries: rows, not yet ids."""

    similarity: NDArray[np.float64]
    """(m, k), best first, -1 where there is none."""
    run: NDArray[np.int64]
    """(m, k) place of the run in the view, -1 where there is none."""
    row: NDArray[np.int64]
    """(m, k) local row."""
    candidates: NDArray[np.int64]
    verified: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    certificate: NDArray[np.float64]
    """(m,) at the similarity reached; meaningless where truncated."""
    scanned: NDArray[np.bool_]
    """(m,) answered by a scan: complete."""


class _Scratch:
    """Work space of one kernel call; kernels leave it as they found it."""

    def __init__(self, rows: int, slots: int, wide: bool) -> None:
        self.rows = rows
        self.slots = slots
        self.counts = np.zeros(rows + 63, np.uint8)
        self.listed = np.empty(rows, np.uint32)
        self.order = np.empty(rows, np.uint32)
        self.narrow = np.zeros(1 if wide else NARROW_DIMENSION, np.float32)
        self.keys = np.full(slots, ~np.uint64(0), np.uint64)
        self.weights = np.zeros(slots, np.float32)


class Searcher:
    """Runs kernels for one collection: holds its sampler and a pool of work space. Thread-safe.

    Work space is 9 bytes a row for each search that runs at the same time.
    """

    def __init__(self, kernel: Kernel, sampler: Sampler, wide: bool) -> None:
        self.kernel = kernel
        self.sampler = sampler
        self.wide = wide
        self._pool: list[_Scratch] = []
        self._lock = threading.Lock()

    def _scratch(self, rows: int, queries: Rows) -> _Scratch:
        slots = 2
        if self.wide:
            most = int(np.diff(queries.indptr).max(initial=1))
            slots = 1 << max(6, (3 * most).bit_length())
        with self._lock:
            while self._pool:
                scratch = self._pool.pop()
                if scratch.rows >= rows and scratch.slots >= slots:
                    return scratch
        return _Scratch(max(1024, rows + rows // 8), slots, self.wide)

    def _give_back(self, scratch: _Scratch) -> None:
        with self._lock:
            if len(self._pool) < 16:
                self._pool.append(scratch)

    def search(
        self,
        view: View,
        plan: Plan,
        queries: Rows,
        k: int,
        *,
        least: float,
        target: float,
        mode: str,
        masks: Sequence[NDArray[np.uint8]] | None,
    ) -> Found:
        """Answer m queries inside a read snapshot of the view's state.

        mode "bands": bands only; "exact": scan; "auto": bands where they are expected to be faster, and a
        scan for each query that they cannot certify at `target`.
        masks: for each run and the fresh rows, bits of the rows that must not be answered (None: the dead).

        Raises:
            CorruptData: a stored number is out of bounds, or an answered row fails its check.
        """
        descriptors = plan.descriptors
        if masks is not None:
            descriptors = descriptors.copy()
            descriptors[:, FIELDS["mask"]] = [mask.__array_interface__["data"][0] for mask in masks]
        found = _empty(len(queries), k)
        if mode == "exact" or (mode == "auto" and plan.prefers_scan):
            self._scan(descriptors, queries, np.arange(len(queries)), least, found)
            return found
        self._bands(view, plan, descriptors, queries, least, found)
        if mode == "auto":
            full = (found.similarity[:, -1] >= 0.0) | (least > 0.0)
            rest = np.flatnonzero(found.truncated | (found.certificate < target) | ~full)
            if len(rest):
                self._scan(descriptors, queries, rest, least, found)
        return found

    def _bands(self, view: View, plan: Plan, descriptors: NDArray[np.uint64], queries: Rows, least: float, found: Found) -> None:
        r = max((layout[0] for layout in plan.layouts), default=1)
        bands = max((layout[1] for layout in plan.layouts), default=FRESH_BANDS)
        codes = self.sampler.codes(queries, r, max(bands, FRESH_BANDS))
        parts = [band_keys(codes, height, width) for height, width in plan.layouts]
        keys = (
            np.ascontiguousarray(np.concatenate(parts, axis=1))
            if len(parts) > 1
            else parts[0]
            if parts
            else np.zeros((len(queries), 1), np.uint32)
        )
        numbers = np.empty((len(queries), 4), np.int64)
        scratch = self._scratch(view.total_rows, queries)
        search_bands(
            descriptors, plan.need, plan.suggest, self.wide, self.kernel.normalised,
            queries.indptr, queries.features, queries.values, queries.norms, keys, fresh_keys(codes),
            least, postings_cap(view.total_rows),
            scratch.counts[: view.total_rows + 63], scratch.listed, scratch.order, scratch.narrow, scratch.keys, scratch.weights,
            found.similarity, found.run, found.row, numbers, found.certificate,
        )  # fmt: skip
        _check(numbers)
        self._give_back(scratch)
        found.candidates[:] = numbers[:, 0]
        found.verified[:] = numbers[:, 1]
        found.truncated[:] = numbers[:, 3] & TRUNCATED != 0

    def _scan(self, descriptors: NDArray[np.uint64], queries: Rows, which: NDArray[np.int64], least: float, found: Found) -> None:
        chosen = queries if len(which) == len(queries) else _take(queries, which)
        k = found.similarity.shape[1]
        part = _empty(len(which), k)
        numbers = np.empty((len(which), 4), np.int64)
        scratch = self._scratch(0, queries)
        scan(
            descriptors, self.wide, self.kernel.normalised, chosen.indptr, chosen.features, chosen.values, chosen.norms, least,
            scratch.narrow, scratch.keys, scratch.weights, part.similarity, part.run, part.row, numbers,
        )  # fmt: skip
        _check(numbers)
        self._give_back(scratch)
        found.similarity[which] = part.similarity
        found.run[which] = part.run
        found.row[which] = part.row
        found.candidates[which] = numbers[:, 0]
        found.verified[which] += numbers[:, 1]
        found.truncated[which] = False
        found.certificate[which] = 1.0
        found.scanned[which] = True


def fresh_keys(codes: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """(n, 128) keys of fresh rows: the top halves of the keys of bands of one hash."""
    return (band_keys(codes, 1, FRESH_BANDS) >> np.uint32(16)).astype(np.uint16)


def _empty(m: int, k: int) -> Found:
    return Found(
        np.full((m, k), -1.0), np.full((m, k), -1, np.int64), np.full((m, k), -1, np.int64), np.zeros(m, np.int64),
        np.zeros(m, np.int64), np.zeros(m, np.bool_), np.zeros(m), np.zeros(m, np.bool_),
    )  # fmt: skip


def _check(numbers: NDArray[np.int64]) -> None:
    if (numbers[:, 3] & CORRUPT).any():
        raise CorruptData("a stored row or posting list is damaged; it was not answered from (`kinbin check` lists the damage)")


def _take(queries: Rows, which: NDArray[np.int64]) -> Rows:
    """Some of the queries, as rows of their own."""
    sizes = np.diff(queries.indptr)[which]
    indptr = np.zeros(len(which) + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    places = np.repeat(queries.indptr[which] - indptr[:-1], sizes) + np.arange(indptr[-1])
    return Rows(indptr, queries.features[places], queries.values[places], queries.norms[which])
