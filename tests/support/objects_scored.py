"""Scores of rows of objects by a space's own code, without a collection."""

from __future__ import annotations

import numpy as np

from kinbin.rows.asked import queries_record
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.scores import score_rows
from kinbin.spaces.space import Space


def scores_of(space: Space, queries: Rows, stored: Rows) -> np.ndarray:
    """(m, n) scores of queries with stored rows; NaN of rows that are damaged."""
    offsets = record_offsets(stored.indptr, False)
    records = np.zeros(int(offsets[-1]), np.uint8)
    pack_rows(stored.indptr, stored.features, stored.values, stored.norms, False, offsets, records)
    scratch = Scratch(False)
    assert space.objects is not None
    scratch.work(space.objects.room(queries))
    places = np.uint64(records.ctypes.data) + offsets[:-1].astype(np.uint64), np.diff(offsets)
    out = np.full((len(queries), len(stored)), np.nan)
    for i in range(len(queries)):
        asked = queries_record(queries.slice(i, i + 1))
        for j in range(len(stored)):
            one = np.empty(1)
            span = np.array([[j, j + 1, 0]], np.int64)
            if score_rows(space.record, asked, *places, span, scratch.record, one) == 0:
                out[i, j] = one[0]
    return out
