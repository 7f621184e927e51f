"""Power failures of a node by the hundred, with their controls: the cases of `tests/cluster/test_power_loss.py`, for hours."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import kinbin
from nursery import Nursery
from torture.crashes import SOUND, Verdicts, power_campaign
from torture.disk import compile_disk

__all__ = ["power_runs"]

_OF_ONE = 250
"""Disks of one story; then it is told anew."""
CONTROLS = {
    "files not synced": (({"sync": False}, True), "faults.power"),
    "the sequence noted before the edits": (SOUND, "faults.power_planted"),
}
"""What is turned off to see that something is lost then: flags, and the story."""


def power_runs(work: Path, seed: int, count: int, seconds: float, told: Callable[[str], object]) -> bool:
    """Judge so many disk states. Returns whether something is wrong: a state that lost something, or a control that lost nothing."""
    work.mkdir(parents=True, exist_ok=True)
    kinbin.warm_up()
    began, total = time.monotonic(), Verdicts()
    with Nursery({"LD_PRELOAD": str(compile_disk(work))}) as nursery:
        while (left := count - total.good - len(total.wrong)) > 0 and (rest := seconds - (time.monotonic() - began)) > 0:
            found = power_campaign(nursery, work, seed, min(left, _OF_ONE), SOUND, rest, story="faults.power")
            total = Verdicts(total.good + found.good, total.wrong + found.wrong, total.kinds + found.kinds)
            nursery.end_children()
            seed += 1
            told(f"power: {time.monotonic() - began:.0f} s, through seed {seed - 1}: {total.table()}")
        lost = {name: power_campaign(nursery, work, seed, 60, control, story=story) for name, (control, story) in CONTROLS.items()}
    for name, one in lost.items():
        told(f"control, {name}: {len(one.wrong)} of {one.good + len(one.wrong)} lose")
    return bool(total.wrong) or not all(one.wrong for one in lost.values())
