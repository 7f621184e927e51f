"""Generated rows, and runs in memory as kernels are told of stored ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.bands.tables import fill_table
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.rows.asked import Answers
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.rows.topk import NOTHING
from kinbin.segments.descriptors import FRESH_BANDS, RUN
from kinbin.storage.dead import DeadRows

__all__ = ["DIM", "K", "Segment", "answers_for", "random_rows", "rows_of", "segments_of"]

DIM = 4_096
"""Of rows with 16-bit features."""
K = 10
"""Answers a query."""


def rows_of(features: NDArray[np.uint64], values: NDArray[np.float32]) -> Rows:
    """Canonical rows of features and values (n, z), features ascending in each row."""
    n, z = values.shape
    norms = np.cumsum(values, axis=1, dtype=np.float64)[:, -1].copy()
    return Rows(np.arange(n + 1) * z, features.reshape(-1), values.reshape(-1), norms)


def random_rows(n: int, z: int, dim: int = DIM) -> Rows:
    """n rows of z nonzeros at random features below dim."""
    rng = np.random.default_rng(n + z)
    features = np.cumsum(rng.integers(1, dim // z, (n, z), dtype=np.uint64), axis=1, dtype=np.uint64)
    return rows_of(features, rng.random((n, z), dtype=np.float32) + np.float32(0.1))


def answers_for(queries: Rows) -> Answers:
    """Room for K answers of each query, of which there are none yet."""
    answers = Answers.empty(len(queries), K)
    answers.scores[:], answers.runs[:] = NOTHING, -1
    return answers


class Segment:
    """A run or fresh rows in memory: fields of `RUN`, and what they point to."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.fields: dict[str, object] = {
            "rows": rows, "live": rows, "mask": DeadRows.of(rows).bits, "r": 1, "bands": FRESH_BANDS, "collect": 255,
        }  # fmt: skip

    @classmethod
    def of_rows(cls, rows: Rows, wide: bool = False, *, fresh: bool = False) -> Segment:
        """Rows in one block, or, as fresh rows are, in a block each."""
        out = cls(len(rows))
        places = record_offsets(rows.indptr, wide)
        block = np.zeros(int(places[-1]), np.uint8)
        pack_rows(rows.indptr, rows.features, rows.values, rows.norms, wide, places, block)
        begin = np.uint64(address_of(block))
        out._block = block
        if fresh:
            blocks, lengths, offsets = begin + places[:-1].astype(np.uint64), np.diff(places).astype(np.uint64), np.zeros(len(rows), "<u4")
        else:
            blocks, lengths, offsets = np.array([begin]), np.array([block.size], np.uint64), places[:-1].astype(np.uint32)
        out.fields |= {"block_shift": 0 if fresh else 62, "blocks": blocks, "lengths": lengths, "offsets": offsets}
        return out

    def with_fresh_keys(self) -> Segment:
        """The same with random keys of fresh rows."""
        self.fields["fresh_keys"] = np.random.default_rng(self.rows).integers(0, 1 << 16, (self.rows, FRESH_BANDS), dtype=np.uint16)
        return self

    def with_tables(self, bands: int, slot_bits: int, most_key: int = 1 << 32, *, short: bool = False) -> Segment:
        """A copy with tables of random keys below a bound; rows share a slot with 2**slot_bits others where there is none.

        short: whether postings take two bytes.
        """
        rng = np.random.default_rng(slot_bits)
        slots = (1 << slot_bits) + 1
        held = np.empty((bands, slots + self.rows), np.uint32)
        for table in held:
            fill_table(rng.integers(0, most_key, self.rows, dtype=np.uint32), slot_bits, table[:slots], table[slots:])
        if short:
            # Postings lie behind the slots, at the same place, and take half the room.
            held[:, slots:].view(np.uint16)[:, : self.rows] = held[:, slots:].copy()
        tables = np.uint64(address_of(held)) + np.arange(bands, dtype=np.uint64) * np.uint64(held.strides[0])
        out = Segment(self.rows)
        out._block = held, self
        out.fields = self.fields | {"bands": bands, "slot_bits": slot_bits, "posting_bytes": 2 if short else 4, "tables": tables}
        return out

    _block: object = None
    """Memory that fields point to by numbers."""


_NONE = Segment(0)


def segments_of(run: Segment = _NONE, fresh: Segment = _NONE) -> Record:
    """What kernels are told of a run and of fresh rows, which must outlive it."""
    out = RUN.zeros(2)
    RUN.fill(out, **run.fields)
    RUN.fill(out[1:], **fresh.fields, base=run.rows)
    return out
