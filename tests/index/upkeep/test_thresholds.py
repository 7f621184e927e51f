"""Thresholds of upkeep as settings: what they change, what they refuse."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.errors import InvalidInput
from kinbin.upkeep import drafts


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Whatever a test sets is set back."""
    before = kinbin.set_upkeep()
    yield
    kinbin.set_upkeep(**asdict(before))


def test_a_small_collection_goes_through_all_states(tmp_path: Path, rng: np.random.Generator) -> None:
    """With small thresholds some hundred rows are sealed, merged and linked in the background, and answers are right."""
    kinbin.set_upkeep(seal_rows=50, quiet_seal_rows=20, link_rows=60, quiet_seconds=0.05)
    vectors = rng.random((240, 8)).astype(np.float32) + np.float32(0.1)
    with kinbin.open(tmp_path) as database:
        collection = database.create_collection("c", dim=8, seed=1, bands=8, rows=1)
        for start in range(0, 240, 40):
            collection.add([f"i{i}" for i in range(start, start + 40)], vectors[start : start + 40])
        end = time.monotonic() + 60
        while (stats := collection.stats())["links"] is None or stats["fresh_rows"] >= 20:
            assert time.monotonic() < end, stats
            time.sleep(0.05)
        assert stats["runs"]
        assert collection.query_batch(vectors, k=1, mode="exact").ids[:, 0].tolist() == [f"i{i}" for i in range(240)]
        assert collection.check().ok


def test_what_was_set_is_told() -> None:
    """A change gives what was there before, leaves the others alone, and the defaults are those of the documentation."""
    before = kinbin.set_upkeep(seal_rows=7)
    assert before == kinbin.Thresholds()
    assert kinbin.set_upkeep(**asdict(before)) == kinbin.Thresholds(seal_rows=7)
    assert kinbin.set_upkeep() == before
    assert {one.name for one in fields(before)} == {"seal_rows", "quiet_seal_rows", "link_rows", "quiet_seconds", "link_bytes"}


@pytest.mark.parametrize(("usable", "expected"), [(8 << 30, 2 << 30), (100 << 20, 256 << 20)])
def test_linking_takes_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch, usable: int, expected: int) -> None:
    """Unless it is told a number: a quarter of what the process may use, and 256 MiB at least."""
    monkeypatch.setattr(drafts, "usable_memory", lambda: usable)
    assert drafts.most_bytes() == expected
    kinbin.set_upkeep(link_bytes=3 << 20)
    assert drafts.most_bytes() == 3 << 20
    kinbin.set_upkeep(link_bytes=None)
    assert drafts.most_bytes() == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"seal_rows": 0},
        {"seal_rows": 1.5},
        {"link_rows": True},
        {"quiet_seconds": 0.0},
        {"quiet_seconds": 1e9},
        {"rows": 3},
        {"link_bytes": 1_000_000},
        {"link_bytes": 2e9},
        {"link_bytes": 0},
        {"link_rows": None},
        {"quiet_seconds": None},
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    """A value out of range, or a name that there is not, is refused, and nothing is changed."""
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        kinbin.set_upkeep(**{"quiet_seal_rows": 9, **wrong})
    assert kinbin.set_upkeep() == kinbin.Thresholds()
