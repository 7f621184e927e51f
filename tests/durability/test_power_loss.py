"""Power failure, simulated: whatever pages had not been synced are lost at random, and nothing acknowledged is.

Killing a process proves nothing about this, for the kernel writes its pages all the same. So that a
simulation that finds nothing means something, it must find losses as soon as syncing is turned off.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kinbin
from nursery import Child, Nursery
from power_loss import PAGE, SECTOR, Event, possible_disks, read_record

pytestmark = pytest.mark.durability

STEPS = 60
SEED = 11


def history(nursery: Nursery, folder: Path, flags: dict[str, Any]) -> list[Event]:
    """What a process wrote and synced that did all steps of a workload."""
    child = nursery.start("power_loss:record_history", str(folder / "first"), str(folder / "record"), SEED, STEPS, flags)
    assert child.receive() > 0, "runs were sealed"
    assert child.wait() == 0
    return read_record(folder / "record")


def verdicts(nursery: Nursery, folder: Path, events: list[Event], count: int) -> Counter[str]:
    """How many possible disks are as they must be (""), and what is wrong with the others."""
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    found: Counter[str] = Counter()
    child: Child | None = None
    for number, disk in enumerate(possible_disks(events, random.Random(seed), count)):
        place = folder / f"disk{number}"
        (place / "collections" / "c").mkdir(parents=True)
        (place / "collections" / "c" / "data.mdb").write_bytes(disk.content)
        if child is None:
            child = nursery.start("power_loss:judge", SEED)
        child.connection.send((str(place), disk.acknowledged, disk.begun))
        try:
            verdict = child.receive()
        except (EOFError, ConnectionResetError):
            verdict = f"the reader died: {child.wait()}"
            child = None
        found[verdict] += 1
        shutil.rmtree(place)
    return found


@pytest.mark.slow
def test_nothing_acknowledged_is_lost(watched: Nursery, tmp_path: Path) -> None:
    """Every disk that a power failure may leave holds all acknowledged steps, none by half, and is sound."""
    events = history(watched, tmp_path, {})
    kinds = Counter(event.kind + "d" * event.direct for event in events)
    assert kinds["n"] == STEPS + 1
    assert kinds["w"] > STEPS
    assert kinds["s"] >= STEPS, "every commit syncs its pages"
    assert kinds["wd"] >= STEPS, "every commit writes its meta page through to the disk"
    assert verdicts(watched, tmp_path, events, 150) == {"": 150}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [{"sync": False}, {"metasync": False}], ids=["sync off", "metasync off"])
def test_the_simulation_finds_what_is_not_synced(watched: Nursery, tmp_path: Path, flags: dict[str, Any]) -> None:
    """With syncing turned off the same simulation finds lost or damaged data: its silence above means something."""
    events = history(watched, tmp_path, flags)
    found = verdicts(watched, tmp_path, events, 60)
    wrong = sum(count for verdict, count in found.items() if verdict)
    assert wrong >= 3, found


def test_the_model_keeps_what_was_synced() -> None:
    """Synced and direct writes are on every possible disk, unsynced ones on some, a torn page differs by whole sectors."""
    events = [
        Event("n", False, 0, b""),
        Event("w", False, 0, b"a" * PAGE),
        Event("s", False, 0, b""),
        Event("w", False, PAGE, b"b" * 2 * PAGE),
        Event("w", True, 3 * PAGE, b"c" * SECTOR),
        Event("n", False, 1, b""),
    ]
    disks = [disk for disk in possible_disks(events, random.Random(1), 600) if disk.acknowledged == 1]
    assert len(disks) > 50
    seen = set()
    for disk in disks:
        assert disk.content[:PAGE] == b"a" * PAGE
        assert disk.content[3 * PAGE :] == b"c" * SECTOR
        for start in range(PAGE, 3 * PAGE, SECTOR):
            assert disk.content[start : start + SECTOR] in (b"b" * SECTOR, bytes(SECTOR))
        seen.add((disk.content[PAGE], disk.content[2 * PAGE]))
    assert len(seen) == 4
    early = {disk.content for disk in possible_disks(events[:2], random.Random(1), 100)}
    assert {b"", b"a" * PAGE} <= early
    assert kinbin.__version__
