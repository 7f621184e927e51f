"""Sealing and merging: many rows, from the journal or from older runs, become one immutable run.

The rows are hashed again with the r and L that suit the new run, so a collection that grows re-bands
itself. A run is written in small transactions under a number that no manifest lists; the last, short
transaction swaps it in. A crash before that leaves values that nobody reads and the next build removes.
Memory: 4 bytes a row and band while building, in a temporary file once that passes 256 MiB. The file lies on
the collection's disk and takes all its room before a row is written: a full disk fails the build there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.contrast import BINS, SAMPLE_K, Contrast, choose_bands
from kinbin.bands.tables import fill_table
from kinbin.hashing import band_keys, content_hash
from kinbin.native.jit import strict
from kinbin.native.memory import u8_at
from kinbin.rows.asked import queries_record
from kinbin.rows.record import CHECK_AT, record_offsets
from kinbin.rows.scratch import Scratch
from kinbin.segments.scan import sample_scores
from kinbin.segments.source import CHUNK, Recipe, Source, iterate_rows, read_records
from kinbin.spaces.space import Space
from kinbin.storage.format import Part
from kinbin.storage.headers import RunHeader
from kinbin.storage.store import Store
from kinbin.storage.workspace import WorkSpace

__all__ = ["Cancelled", "Parts", "slot_bits_of", "write_run"]

_SLICE_BYTES = 4 << 20
_PAUSE_SECONDS = 0.001
_IN_MEMORY = 256 << 20
_BLOCK_BYTES = 1 << 20
_SAMPLE_ROWS = 65_536


class Cancelled(Exception):
    """The build was told to stop; what it wrote is an orphan."""


def sample_contrast(source: Source, space: Space, wide: bool) -> tuple[Contrast, Contrast]:
    """Similarities of 24 or 64 sampled rows to (a sample of) all rows. The sample is the same for the same rows.

    Twice: with the similarity of the neighbours, by which bands find them and are chosen; and with that which the neighbours' scores
    vouch for, by which bands certify and queries are planned.
    """
    n = len(source)
    rng = np.random.default_rng(n)
    among = np.arange(n) if n <= _SAMPLE_ROWS else np.sort(rng.choice(n, _SAMPLE_ROWS, replace=False))
    picks = np.sort(rng.choice(len(among), min(len(among), 24 if n < 8 * CHUNK else 64), replace=False))
    addresses, rooms = source.addresses[among], source.rooms[among]
    queries = read_records(addresses[picks], rooms[picks], wide)
    histogram = np.zeros((len(picks), BINS), np.int64)
    if space.objects is not None:
        # There is nothing to choose by it, and a distance may take long.
        unknown = Contrast(histogram[:1].astype(np.float64), np.zeros(1), float(np.diff(queries.indptr).mean()), wide)
        return unknown, unknown
    asked, scratch = queries_record(queries), Scratch(wide, queries.most_nonzeros)
    best = np.empty((len(picks), SAMPLE_K))
    # In a sample of a part of the rows, the neighbour of the same rank is farther away than among all. That is
    # wanted: rows often lie in clusters of their own kind, and real queries, from outside, have less near neighbours.
    sample_scores(space.law, addresses, rooms, picks, asked, scratch.record, histogram, best)
    scaled: NDArray[np.float64] = histogram.astype(np.float64) * (n / len(among))
    by_similarity = Contrast(scaled, best[:, -1].copy(), float(np.diff(queries.indptr).mean()), wide)
    if space.code is None:
        return by_similarity, by_similarity
    sample_scores(space.record, addresses, rooms, picks, asked, scratch.record, np.zeros_like(histogram), best)
    vouched = np.array([space.least_similarity(score) for score in best[:, -1].tolist()])
    return by_similarity, replace(by_similarity, kth=vouched)


@strict
def _copy_records(addresses, sizes, offsets, out):  # type: ignore[no-untyped-def]
    """Copy records of `sizes` bytes end to end (whole 8-byte words)."""
    for i in range(len(addresses)):
        for b in range(sizes[i]):
            out[offsets[i] + b] = u8_at(addresses[i] + np.uint64(b))


class Parts:
    """Writes a run's values in transactions of a few MiB with pauses, so that nobody waits long for the writer."""

    def __init__(self, store: Store, check: Callable[[], None]) -> None:
        """check is called before each value, and raises to end the build."""
        self._store = store
        self._check = check
        self._waiting: list[tuple[bytes, int, Any]] = []
        self._bytes = 0
        with store.write() as writer:
            state = writer.state()
            self.number = state.next_run
            writer.put_state(state.with_(next_run=self.number + 1))

    def put(self, part: bytes, index: int, body: NDArray[Any] | bytes) -> None:
        """Write a value, now or with the next ones."""
        self._check()
        self._waiting.append((part, index, body))
        self._bytes += len(body) if isinstance(body, bytes) else body.nbytes
        if self._bytes >= _SLICE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is waiting."""
        if not self._waiting:
            return
        with self._store.write() as writer:
            for part, index, body in self._waiting:
                writer.put_run_part(self.number, part, index, body)
        self._waiting.clear()
        self._bytes = 0
        time.sleep(_PAUSE_SECONDS)


def write_run(store: Store, source: Source, recipe: Recipe, stop: threading.Event) -> int:
    """Write a run of all rows of the source, which must stay readable meanwhile. Returns its number.

    The caller lists it in the manifest.
    Cost: hashing (0.25 ns a nonzero and hash), some 8 ns a row and band.

    Raises:
        Cancelled: soon after `stop` is set.
        StorageFull: no room for the run or its work space; what was written is an orphan.
    """
    n = len(source)
    by_similarity, contrast = sample_contrast(source, recipe.space, recipe.wide)
    height, width = choose_bands(by_similarity, n, r=recipe.r, bands=recipe.bands) if recipe.space.hashes else (1, 0)
    slot_bits = slot_bits_of(n)
    posting = np.dtype("<u2") if n <= 65_536 else np.dtype("<u4")

    def check() -> None:
        if stop.is_set():
            raise Cancelled

    parts = Parts(store, check)
    keys = WorkSpace(store.path, _IN_MEMORY).empty((width, n), np.uint32)
    shift, offsets, checks, content = _write_rows(parts, source, recipe, height, keys)
    for j in range(width):
        table = np.empty((1 << slot_bits) + 1, np.uint32)
        postings = np.empty(n, posting)
        fill_table(keys[j], slot_bits, table, postings)
        parts.put(Part.BAND, j, table.tobytes() + postings.tobytes())
    del keys
    order = np.argsort(content, kind="stable")
    parts.put(Part.OFFSETS, 0, offsets)
    parts.put(Part.ROW_NUMBERS, 0, source.row_numbers)
    parts.put(Part.CHECKS, 0, checks)
    parts.put(Part.CONTENT, 0, content[order])
    parts.put(Part.CONTENT_ROWS, 0, order.astype(np.uint32))
    parts.flush()
    header = RunHeader(n, height, width, slot_bits, posting.itemsize, shift, recipe.sampler.name, contrast.header())
    with store.write() as writer:
        writer.put_header(parts.number, header)
    return parts.number


def slot_bits_of(rows: int) -> int:
    """Bits of a key that choose the slot of a band's table, in a run of so many rows: two to four rows a slot."""
    return min(24, max(4, (rows - 1).bit_length() - 2))


def _write_rows(
    parts: Parts, source: Source, recipe: Recipe, r: int, keys: NDArray[np.uint32]
) -> tuple[int, NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
    """Write the row blocks; fill the key columns. Returns block shift, and of each row (n,) its offset, check and content hash."""
    n, width = len(source), len(keys)
    content = np.empty(n, np.uint64)
    offsets, checks = np.empty(n, np.uint32), np.empty(n, np.uint32)
    shift: int | None = None
    for start, rows in iterate_rows(source, recipe.wide):
        stop = start + len(rows)
        record = record_offsets(rows.indptr, recipe.wide)
        if shift is None:
            shift = max(0, min(12, (_BLOCK_BYTES // max(1, int(record[-1]) // len(rows))).bit_length() - 1))
        if width:
            keys[:, start:stop] = band_keys(recipe.sampler.codes(rows, r, width), r, width).T
        content[start:stop] = content_hash(rows)
        for first in range(0, len(rows), 1 << shift):
            last = min(first + (1 << shift), len(rows))
            place = record[first : last + 1] - record[first]
            block = np.empty(int(place[-1]), np.uint8)
            _copy_records(source.addresses[start + first : start + last], np.diff(place), place, block)
            offsets[start + first : start + last] = place[:-1]
            checks[start + first : start + last] = block.view(np.uint32)[(place[:-1] + CHECK_AT) >> 2]
            parts.put(Part.BLOCK, (start + first) >> shift, block)
    return shift or 0, offsets, checks, content
