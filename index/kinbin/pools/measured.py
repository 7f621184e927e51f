"""All scores of some rows with others, by a space's own code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.rows.asked import queries_record
from kinbin.rows.record import pack_rows, record_offsets
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.scores import score_rows
from kinbin.spaces.space import Space

__all__ = ["Measured", "Packed"]


class Packed:
    """Rows as records in memory, end to end."""

    def __init__(self, rows: Rows, wide: bool) -> None:
        offsets = record_offsets(rows.indptr, wide)
        self.records = np.zeros(max(1, int(offsets[-1])), np.uint8)
        pack_rows(rows.indptr, rows.features, rows.values, rows.norms, wide, offsets, self.records)
        self.addresses = np.uint64(self.records.ctypes.data) + offsets[:-1].astype(np.uint64)
        self.rooms = np.diff(offsets)


class Measured:
    """Scores of one space. Thread-safe. The rows of the last call are kept packed: landmarks are the same every time."""

    def __init__(self, space: Space, wide: bool) -> None:
        self._space = space
        self._wide = wide
        self._last: tuple[Rows, Packed] | None = None
        self._desks: list[Scratch] = []

    def scores(self, queries: Rows, rows: Rows) -> NDArray[np.float64]:
        """(m, n) scores. Cost: 20 µs, and m · n rows scored."""
        last = self._last
        if last is None or last[0] is not rows:
            last = self._last = rows, Packed(rows, self._wide)
        m, n = len(queries), len(rows)
        out = np.empty(m * n)
        spans = np.zeros((m, 3), np.int64)
        spans[:, 1], spans[:, 2] = n, np.arange(m) * n
        try:
            scratch = self._desks.pop()
        except IndexError:
            scratch = Scratch(self._wide)
        scratch.look_up(queries.most_nonzeros if self._wide else 1)
        if self._space.objects is not None:
            scratch.work(self._space.objects.room(queries))
        if score_rows(self._space.record, queries_record(queries), last[1].addresses, last[1].rooms, spans, scratch.record, out):
            self._space.raise_failure()
            raise CorruptData("a row is damaged that was sound when it was read")
        self._desks.append(scratch)
        return out.reshape(m, n)

    def distances(self, queries: Rows, rows: Rows) -> NDArray[np.float64]:
        """(m, n) as they are printed."""
        printed: NDArray[np.float64] = self._space.printed(self.scores(queries, rows))
        return printed
