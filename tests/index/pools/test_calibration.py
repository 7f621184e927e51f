"""Which pool a calibration chooses, or a scan."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from kinbin.pools.index import Calibration, Index
from kinbin.storage.format import decode_json, encode_json

MEASURED = Calibration(
    rows=1_000, queries=250, pools=[20, 50, 200], recall={"1": [0.9, 0.99, 1.0], "10": [0.8, 0.95, 1.0], "100": [0.1, 0.5, 0.97]},
    far={"1": 0.1, "10": 0.05, "100": 0.01}, ns=[1_000.0, 2_000.0, 4_000.0], scan_ns=10.0,
    fewer={"1": [10.0, 500.0, 600.0, 700.0], "10": [2.0, 800.0, 1_800.0, 3_600.0]},
)  # fmt: skip


@pytest.mark.parametrize(("k", "pool"), [(1, 50), (3, None), (10, None), (11, 200), (100, 200), (101, None)])
def test_pools_are_held_against_scans_for_as_many_neighbours(k: int, pool: int | None) -> None:
    """A scan for ten neighbours, which passes over most rows, is faster than the pool that finds them; one for a hundred is not."""
    chosen = MEASURED.pool(k, 0.9, 1.0, forced=False, live=1_000)
    assert (chosen and chosen[0]) == pool


def test_who_wants_a_pool_gets_one() -> None:
    """Though a scan is faster."""
    assert MEASURED.pool(10, 0.9, 1.0, forced=True, live=1_000) == (50, 0.05)


def test_what_was_not_measured_is_judged_by_the_most_neighbours() -> None:
    """As of an index that was built before scans for few were measured."""
    assert replace(MEASURED, fewer={}).pool(10, 0.9, 1.0, forced=False, live=1_000) == (50, 0.05)


def test_an_index_of_before_is_read(tmp_path: Path) -> None:
    """Its record has no times for few neighbours."""
    index = Index(3, "grams", {}, {}, 1_000, MEASURED)
    index.save(tmp_path)
    assert Index.load(tmp_path) == index
    record = decode_json((tmp_path / "current").read_bytes(), "the record")
    del record["calibration"]["fewer"]
    (tmp_path / "current").write_bytes(encode_json(record))
    assert Index.load(tmp_path) == replace(index, calibration=replace(MEASURED, fewer={}))
    assert asdict(MEASURED)["fewer"]["1"][0] == 10.0
