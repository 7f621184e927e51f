"""Files taken away under processes that write: some at every run of the suite; `make torture ARGS=taken` goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nursery import Nursery
from torture.taken import PLANT, taken_campaign

pytestmark = [pytest.mark.slow, pytest.mark.durability]


def test_files_that_are_taken_away_cost_nothing(tmp_path: Path, a_seed: Callable[[], int]) -> None:
    """lock.mdb, data.mdb, the directory: what is acknowledged meanwhile is there afterwards, and everybody goes on."""
    with Nursery() as nursery:
        found = taken_campaign(nursery, tmp_path, a_seed(), 12)
    assert found.wrong == []
    assert found.good == 13


def test_writers_that_do_not_look_for_the_table_are_told(tmp_path: Path) -> None:
    """Processes that cannot see each other lose what the others acknowledge."""
    with Nursery() as nursery:
        found = taken_campaign(nursery, tmp_path, 1, 12, plant=PLANT, patience=10.0)
    assert found.wrong, found.table()
