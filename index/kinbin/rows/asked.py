"""Queries and their answers as kernels are handed them."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline
from kinbin.native.memory import f32_array, f64_array, i64_array, i64_at, u64_array
from kinbin.native.records import Layout, Record
from kinbin.rows.rows import Rows
from kinbin.rows.topk import Best

__all__ = ["ANSWERS", "QUERIES", "Answers", "Asked", "answers_to", "asked_of", "count_up", "left_out", "queries_record"]

U64 = np.uint64
QUERIES = Layout(
    "QUERIES",
    count=("count", "queries"),
    indptr=("i64[]", "(m + 1,) places of their first nonzeros, and the end"),
    features=("u64[]", "feature ids"),
    values=("f32[]", "signed values"),
    norms=("f64[]", "(m,) sums of magnitudes"),
    least=("number", "answers that score less are not wanted"),
    more=("count", "whether the answers hold rows already, which stay if they are better"),
    skips=("i64[]", "(m, 2) of each query the first node of a graph that is left out, and the first after those; 0: none is"),
    pool=("count", "nodes that walks keep, of rows that were made of objects (`links.pool`)"),
)
ANSWERS = Layout(
    "ANSWERS",
    k=("count", "answers a query"),
    scores=("f64[]", "(m, k), best first"),
    runs=("i64[]", "(m, k) places of the runs"),
    rows=("i64[]", "(m, k) local rows"),
    candidates=("i64[]", "(m,) rows met: that share a band, nodes compared, or rows scanned; added to"),
    verified=("i64[]", "(m,) rows scored; added to"),
    flags=("i64[]", "(m,) what went wrong"),
    certificates=("f64[]", "(m,) bounds on recall, where bands give them"),
)


class Asked(NamedTuple):
    """Queries as compiled code sees them: canonical rows."""

    indptr: Any
    features: Any
    values: Any
    norms: Any


@inline
def asked_of(record):
    """The queries of a record."""
    indptr = i64_array(record.indptr, record.count + 1)
    end = indptr[record.count]
    return Asked(indptr, u64_array(record.features, end), f32_array(record.values, end), f64_array(record.norms, record.count))


@inline
def left_out(record, m):
    """The nodes that a query leaves out: the first, and the first after those."""
    if record.skips == U64(0):
        return np.int64(0), np.int64(0)
    address = record.skips + U64(16 * m)
    return i64_at(address), i64_at(address + U64(8))


@inline
def answers_to(record, m):
    """The list of the best of one query."""
    skip = U64(8) * U64(m) * U64(record.k)
    return Best(f64_array(record.scores + skip, record.k), i64_array(record.runs + skip, record.k), i64_array(record.rows + skip, record.k))


@inline
def count_up(record, m, candidates, verified, flags):
    """Note what answering one query took, and what went wrong."""
    i64_array(record.candidates, m + 1)[m] += candidates
    i64_array(record.verified, m + 1)[m] += verified
    i64_array(record.flags, m + 1)[m] = flags


def queries_record(rows: Rows, **others: Any) -> Record:
    """The record of queries, which must outlive it. others: see `QUERIES`. Cost: 8 µs."""
    return QUERIES.record(count=len(rows), indptr=rows.indptr, features=rows.features, values=rows.values, norms=rows.norms, **others)


@dataclass(slots=True, eq=False)
class Answers:
    """Room for the answers of m queries: what kernels write. `record` is what they are handed."""

    scores: NDArray[np.float64]
    """(m, k), best first, `NOTHING` where there is none."""
    runs: NDArray[np.int64]
    """(m, k) place of the run in the segments, -1 where there is none."""
    rows: NDArray[np.int64]
    """(m, k) local row."""
    candidates: NDArray[np.int64]
    verified: NDArray[np.int64]
    flags: NDArray[np.int64]
    certificates: NDArray[np.float64]
    """(m,) of the bands; meaningless where they were not asked."""
    record: Record

    @classmethod
    def of(cls, *arrays: NDArray[Any]) -> Answers:
        """Answers in given arrays, in the order of the fields. Cost: 15 µs."""
        named: dict[str, Any] = dict(zip(_ARRAYS, arrays, strict=True))
        return cls(**named, record=ANSWERS.record(k=arrays[0].shape[1], **named))

    @classmethod
    def empty(cls, m: int, k: int) -> Answers:
        """Room for k answers of each of m queries; scores, runs and rows are what the first kernel writes."""
        return cls.of(
            np.empty((m, k)), np.empty((m, k), np.int64), np.empty((m, k), np.int64),
            np.zeros(m, np.int64), np.zeros(m, np.int64), np.zeros(m, np.int64), np.empty(m),
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """The answers of parts of the queries, in order."""
        return cls.of(*(np.concatenate([getattr(one, name) for one in parts]) for name in _ARRAYS))

    def forget(self) -> None:
        """Count from 0 again."""
        self.candidates[:] = self.verified[:] = self.flags[:] = 0

    def part(self, which: NDArray[np.int64]) -> Answers:
        """A copy of some of the answers."""
        return Answers.of(*(getattr(self, name)[which] for name in _ARRAYS))

    def put(self, which: NDArray[np.int64], part: Answers) -> None:
        """Replace some of the answers."""
        for name in _ARRAYS:
            getattr(self, name)[which] = getattr(part, name)


_ARRAYS = ("scores", "runs", "rows", "candidates", "verified", "flags", "certificates")
