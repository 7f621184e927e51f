"""Costs of rows by themselves: scanning and hashing them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kinbin.calibrate.fit import Measured
from kinbin.calibrate.stage import DIM, Segment, answers_for, random_rows, segments_of
from kinbin.hashing import make_sampler
from kinbin.rows.asked import queries_record
from kinbin.rows.rows import Rows
from kinbin.rows.scratch import Scratch
from kinbin.segments.scan import scan
from kinbin.spaces.registry import KERNELS

__all__ = ["hash_cost", "scan_costs", "scanning"]

_ROWS = 20_000
_QUERIES = 8
_ASKED = 64
"""Nonzeros of a query."""
_WIDE = 1 << 40
"""The largest feature of wide rows."""


def scanning(segment: Segment, queries: Rows, *, fresh: bool = False, wide: bool = False) -> Callable[[], object]:
    """An exact scan of a run, or of fresh rows."""
    segments = segments_of(fresh=segment) if fresh else segments_of(segment)
    space, asked, answers = KERNELS["ngmm"].record, queries_record(queries), answers_for(queries)
    scratch = Scratch(wide, queries.most_nonzeros)
    kept = segment, queries
    return lambda: (scan(space, segments, asked, scratch.record, answers.record), kept)


def scan_costs(measured: Measured) -> None:
    """scan, nonzero, wide_nonzero: exact scans, by the nonzeros of a row."""
    n = measured.rows(_ROWS)
    for wide, names in ((False, ("scan", "nonzero")), (True, ("", "wide_nonzero"))):
        dim = _WIDE if wide else DIM
        queries, sizes = random_rows(_QUERIES, _ASKED, dim), (4, 16, 64, 128)
        points = [scanning(Segment.of_rows(random_rows(n, z, dim), wide), queries, wide=wide) for z in sizes]
        measured.fit(names, points, [(_QUERIES * n, _QUERIES * n * z) for z in sizes])


def hash_cost(measured: Measured) -> None:
    """hash: codes of 1,000 rows, by hashes and nonzeros."""
    n = min(1_000, measured.rows(1_000))
    sampler = make_sampler("gcws", seed=1, normalise=True, dim=1_024)
    sizes = [(random_rows(n, z, 1_024), bands) for z in (16, 64) for bands in (64, 200)]
    points = [partial(sampler.codes, rows, 2, bands) for rows, bands in sizes]
    measured.fit(("", "hash"), points, [(1, len(rows.values) * 2 * bands) for rows, bands in sizes])
