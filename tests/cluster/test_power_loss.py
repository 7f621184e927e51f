"""A few power failures of a node at each run of the suite; `make torture-cluster` has a thousand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import kinbin
from nursery import Nursery
from torture.crashes import power_campaign
from torture.disk import compile_disk

pytestmark = [pytest.mark.durability, pytest.mark.timeout(400)]
STORY = "faults.power"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Children that the shim watches, or the reason why there are none."""
    try:
        shim = compile_disk(tmp_path_factory.mktemp("shim"))
    except NotImplementedError as reason:
        pytest.skip(str(reason))
    kinbin.warm_up()
    with Nursery({"LD_PRELOAD": str(shim)}) as nursery:
        yield nursery


@pytest.mark.slow
def test_a_node_whose_power_fails_goes_on_where_it_was(watched: Nursery, tmp_path: Path) -> None:
    """Whatever the disk holds, the rest of the log makes the replica what every other is: items, versions and verdicts."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    found = power_campaign(watched, tmp_path, seed, 12, story=STORY)
    assert found.wrong == []
    assert found.good >= 6


@pytest.mark.slow
def test_a_node_that_syncs_nothing_is_found_out(watched: Nursery, tmp_path: Path) -> None:
    """With files left unsynced the same failures lose what was applied: finding nothing above means something."""
    assert power_campaign(watched, tmp_path, 5, 16, ({"sync": False}, True), story=STORY).wrong


@pytest.mark.slow
def test_a_node_that_notes_too_early_is_found_out(watched: Nursery, tmp_path: Path) -> None:
    """A sequence that is noted in another transaction than its edits shows by what is missing: one transaction for both matters."""
    assert power_campaign(watched, tmp_path, 6, 24, story="faults.power_planted").wrong
