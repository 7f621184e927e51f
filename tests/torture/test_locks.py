"""Processes killed with a lock: with some at every run of the suite; `make torture ARGS=locks` goes on for as long as it may."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import kinbin
from nursery import Nursery
from torture.held import LOCKS
from torture.locks import PLANTS, lock_campaign

pytestmark = [pytest.mark.slow, pytest.mark.durability]

NOT_COVERED = {"compiling.lock", "kinbin-dedup.lock"}
"""Of compiled kernels and of a command, not of a database."""


def test_every_lock_file_of_a_database_is_among_them() -> None:
    """Whoever adds a lock file adds a way to be killed with it."""
    sources = Path(kinbin.__file__).parent.rglob("*.py")
    named = {found for source in sources for found in re.findall(r'"([\w-]+\.lock)"', source.read_text(encoding="utf-8"))}
    assert "write.lock" in named
    assert named - NOT_COVERED <= set(LOCKS)


def test_nobody_waits_for_the_dead(watched: Nursery, tmp_path: Path, a_seed: Callable[[], int]) -> None:
    """Killed with some lock, a process stops nobody: others go on, what it had begun is completed, and nothing acknowledged is lost."""
    seed = a_seed()
    found = lock_campaign(watched, tmp_path, seed, random.Random(seed).sample(sorted(LOCKS), 2), moments=1)
    assert found.wrong == []
    assert found.good == 3


def test_a_lock_that_outlives_its_holder_is_told(watched: Nursery, tmp_path: Path) -> None:
    """Others that wait for the dead are told to do so; `make torture ARGS=locks` plants more."""
    (plant, name), told = next(iter(PLANTS.items()))
    found = lock_campaign(watched, tmp_path, 1, [name], moments=1, plant=plant, patience=2.0)
    assert [one for one in found.wrong if any(text in one for text in told)], found.table()
