"""Costs of searches by bands: bands, postings, verified rows, fresh rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinbin.bands.search import BANDS, LEVELS, search_bands
from kinbin.calibrate.fit import Measured
from kinbin.calibrate.rows import scanning
from kinbin.calibrate.stage import Segment, answers_for, random_rows, segments_of
from kinbin.native.records import Record
from kinbin.rows.asked import queries_record
from kinbin.rows.scratch import Scratch
from kinbin.segments.descriptors import FRESH_BANDS
from kinbin.spaces.registry import KERNELS

__all__ = ["band_costs", "far_posting_cost", "fresh_costs", "posting_cost", "short_posting_cost", "verify_cost"]

_QUERIES = 256
_SCANS = 64
"""Queries of exact scans."""
_NONZEROS = 40
_LOOKED_UP, _LOOKED_UP_BITS = 32_768, 13
"""Rows whose bands are looked up, and slots of their tables: so few that counting them takes no longer than their bands."""
_SHORT_ROWS, _CACHED_ROWS, _FAR_ROWS = 32_768, 131_072, 1 << 20
_VERIFIED_ROWS = 50_000
"""A collection of the usual kind: larger than a core's caches, not than the last one."""
_FRESH_ROWS = 8_000
_HALF = 1 << 31
"""Band keys of rows lie below, where queries are to find none."""


def _searching(segments: Record, bands: int, kept: object, *, least_key: int = 0, verify: bool = False) -> Callable[[], int]:
    """Searches with random keys from `least_key` on, which verify all rows that share a band or none. Returns the rows verified."""
    rng = np.random.default_rng(bands)
    queries = random_rows(_QUERIES, _NONZEROS)
    keys = rng.integers(least_key, 1 << 32, (_QUERIES, bands), dtype=np.uint32)
    fresh_keys = rng.integers(0, 1 << 16, (_QUERIES, FRESH_BANDS), dtype=np.uint16)
    # No score is needed to be certified, or none is enough.
    need, suggest = np.full((len(segments), LEVELS), np.inf if verify else -np.inf), np.full((len(segments), LEVELS), 0.5)
    told = BANDS.record(
        need=need, suggest=suggest, aim=1.0, keys=keys, columns=bands, fresh_keys=fresh_keys, most_postings=1 << 40,
    )  # fmt: skip
    asked, answers, scratch = queries_record(queries), answers_for(queries), Scratch(wide=False)
    scratch.count(int(segments["rows"].sum()))
    space, held = KERNELS["ngmm"].record, (need, suggest, keys, fresh_keys, queries, kept)

    def search() -> int:
        answers.forget()
        search_bands(space, segments, asked, told, scratch.record, answers.record)
        assert held
        return int(answers.verified.sum())

    return search


def band_costs(measured: Measured) -> None:
    """band: searches of a run without postings, by its bands."""
    sizes = (25, 100, 200)
    run = Segment(measured.rows(_LOOKED_UP)).with_tables(sizes[-1], _LOOKED_UP_BITS, _HALF)
    points = []
    for bands in sizes:
        segments = segments_of(run)
        segments["bands"][0] = bands
        points.append(_searching(segments, bands, run, least_key=_HALF))
    measured.fit(("", "band"), points, [(_QUERIES, _QUERIES * bands) for bands in sizes])


def _postings(measured: Measured, name: str, rows: int, bands: int, slot_bits: tuple[int, ...], *, short: bool = False) -> None:
    """Searches by bands that verify nothing, by the postings that they read."""
    n = measured.rows(rows)
    runs = [Segment(n).with_tables(bands, bits, short=short) for bits in slot_bits]
    points = [_searching(segments_of(run), bands, run) for run in runs]
    measured.fit(("", name), points, [(_QUERIES, _QUERIES * bands * n / (1 << bits)) for bits in slot_bits])


def posting_cost(measured: Measured) -> None:
    """posting: where counts fit the second-level cache."""
    _postings(measured, "posting", _CACHED_ROWS, 32, (5, 6, 7, 8))


def far_posting_cost(measured: Measured) -> None:
    """far_posting: the same of a million rows."""
    _postings(measured, "far_posting", _FAR_ROWS, 16, (7, 8, 10))


def short_posting_cost(measured: Measured) -> None:
    """short_posting: where postings take two bytes."""
    _postings(measured, "short_posting", _SHORT_ROWS, 64, (4, 5, 6, 7), short=True)


def verify_cost(measured: Measured) -> None:
    """verify: searches by bands, by rows verified, less their postings and nonzeros."""
    rows = Segment.of_rows(random_rows(measured.rows(_VERIFIED_ROWS), _NONZEROS))
    rows.fields["collect"] = 1
    runs = [rows.with_tables(1, bits) for bits in (5, 6, 8)]
    points = [_searching(segments_of(run), 1, run, verify=True) for run in runs]
    counts = [(_QUERIES, point()) for point in points]
    measured.fit(("", "verify"), points, counts, less=lambda known: (0.0, known["posting"] + _NONZEROS * known["nonzero"]))


def fresh_costs(measured: Measured) -> None:
    """fresh, fresh_scan: searches by bands and exact scans of fresh rows, by their number."""
    most = measured.rows(_FRESH_ROWS)
    sizes = (most // 4, most // 2, most)
    fresh = [Segment.of_rows(random_rows(n, _NONZEROS), fresh=True).with_fresh_keys() for n in sizes]
    measured.fit(("", "fresh"), [_searching(segments_of(fresh=one), 1, one) for one in fresh], [(_QUERIES, _QUERIES * n) for n in sizes])
    queries = random_rows(_SCANS, _NONZEROS)
    measured.fit(("", "fresh_scan"), [scanning(one, queries, fresh=True) for one in fresh], [(_SCANS, _SCANS * n) for n in sizes])
