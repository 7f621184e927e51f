"""A collection that several processes drop and make anew: some rounds at every run of the suite; `make torture ARGS=renewed` goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nursery import Nursery
from torture.renewed import PLANT, renewed_campaign

pytestmark = [pytest.mark.slow, pytest.mark.durability]


def test_a_collection_that_is_made_anew_is_another_one(tmp_path: Path, a_seed: Callable[[], int]) -> None:
    """Dropped, made anew, shrunk, compacted by three processes: whoever held it is told that it was removed, and nothing else."""
    with Nursery() as nursery:
        found = renewed_campaign(nursery, tmp_path, a_seed(), 2)
    assert found.wrong == []
    assert found.good == 2


def test_a_removal_that_is_taken_for_damage_is_told(tmp_path: Path) -> None:
    """Nobody touched a file: any other error than that of a collection that was removed is wrong."""
    with Nursery() as nursery:
        found = renewed_campaign(nursery, tmp_path, 1, 8, plant=PLANT)
    assert found.wrong, found.table()
