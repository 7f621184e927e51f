"""Kills, power loss and failing calls at chosen or at all points of a story, and what is left."""

from __future__ import annotations

import errno
import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nursery import Child, Nursery
from torture.disk import FAIL, SHORT, moments, read_events
from torture.story import ACTIONS

__all__ = ["FAULTS", "SOUND", "Control", "Templates", "Verdicts", "fault_campaign", "kill_campaign", "power_campaign"]

FAULTS = (
    ("an input/output error, once", FAIL, 1, errno.EIO), ("no space, once", FAIL, 1, errno.ENOSPC),
    ("half a write, once", SHORT, 1, errno.EIO), ("no memory, once", FAIL, 1, errno.ENOMEM),
    ("not permitted, once", FAIL, 1, errno.EACCES),
)  # fmt: skip
Control = tuple[dict[str, Any], bool]
"""Flags of LMDB to open with, and whether folders are synced."""
SOUND: Control = ({}, True)


@dataclass
class Verdicts:
    """How many cases were as they must be, and what was wrong with the others."""

    good: int = 0
    wrong: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, verdict: str, kind: str) -> None:
        """Count one; verdict: what is wrong, if anything."""
        self.kinds[kind] += 1
        if verdict:
            self.wrong.append(f"{what}: {verdict}")
        else:
            self.good += 1

    def table(self) -> str:
        """For people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        first = f"{self.good + len(self.wrong)} cases, {len(self.wrong)} wrong ({kinds})"
        return "\n".join([first, *(f"  {one}" for one in self.wrong[:10])])


class _Judge:
    """A child that looks at what is left; it is replaced when it dies."""

    def __init__(self, nursery: Nursery, story: str = "torture.story") -> None:
        self._nursery = nursery
        self._story = story
        self._child: Child | None = None

    def verdict(self, folder: Path, acknowledged: int) -> str:
        """What is wrong with a database after so many acknowledged steps, of which one more may have been done."""
        if self._child is None:
            self._child = self._nursery.start(f"{self._story}:judge_disks")
        try:
            self._child.connection.send((str(folder), acknowledged))
            verdict: str = self._child.receive(240)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            verdict = f"the reader died: {self._child.wait()}"
            self._child = None
        return verdict


def power_campaign(
    nursery: Nursery, work: Path, seed: int, count: int, control: Control = SOUND, seconds: float = 1e9, *, story: str = "torture.story"
) -> Verdicts:
    """What is left by power failures at `count` moments of a story. control: what is turned off, so that something must be lost.

    story: a module that can `tell` it, and `judge_disks`.
    """
    rng = random.Random(seed)
    folder, record = work / "told", work / "record"
    folder.mkdir()
    child = nursery.start(f"{story}:tell", str(folder), str(record), *control)
    child.receive(240)
    child.wait()
    events = read_events(record)
    out, judge, began = Verdicts(), _Judge(nursery, story), time.monotonic()
    for moment in moments(events, str(folder), rng, count):
        place = work / "disk"
        moment.tree.lost(place, rng, ordered=moment.ordered, last=moment.last)
        if moment.acknowledged:
            verdict = judge.verdict(place, moment.acknowledged)
            how = "ordered" if moment.ordered else "posix"
            out.add(f"seed {seed}, event {moment.last}, {how}, {moment.acknowledged} acknowledged", verdict, how)
        shutil.rmtree(place)
        if time.monotonic() - began > seconds:
            break
    shutil.rmtree(folder)
    record.unlink()
    return out


class Templates:
    """Databases to which some steps of the story were done."""

    def __init__(self, nursery: Nursery, work: Path) -> None:
        self._nursery, self._work = nursery, work
        self._made: dict[int, Path] = {}

    def copy(self, steps: int, target: Path) -> None:
        """A fresh copy of the folder."""
        if steps not in self._made:
            path = self._work / f"template{steps}"
            path.mkdir()
            child = self._nursery.start("torture.story:tell_until", str(path), steps)
            child.receive(240)
            child.wait()
            self._made[steps] = path
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self._made[steps], target)


def kill_campaign(
    nursery: Nursery, work: Path, actions: dict[str, int] = ACTIONS, *, every: int = 1, first: int = 0, seconds: float = 1e9
) -> Verdicts:
    """Kill a process at each call (or at every n-th) of each action that changes files, and look at what is left."""
    templates, judge, out = Templates(nursery, work), _Judge(nursery), Verdicts()
    began = time.monotonic()
    for name, number in actions.items():
        skip = first
        while time.monotonic() - began < seconds:
            place = work / "killed"
            templates.copy(number, place)
            child = nursery.start("torture.story:do_until_killed", str(place), number, skip, name == "open")
            try:
                child.receive(240)
            except (EOFError, ConnectionResetError):
                child.wait()
                # What was not done may have been, but nothing that was acknowledged is lost.
                out.add(f"{name}, call {skip}", judge.verdict(place, number), name)
                skip += every
                continue
            child.wait()
            break
    return out


def fault_campaign(
    nursery: Nursery, work: Path, actions: dict[str, int] = ACTIONS, *, every: int = 1, first: int = 0, seconds: float = 1e9
) -> Verdicts:
    """Make each call (or every n-th) of each action fail in every way, once; do it again, and look at what is there."""
    templates, out = Templates(nursery, work), Verdicts()
    began = time.monotonic()
    child: Child | None = None
    for name, number in actions.items():
        for fault, act, times, error in FAULTS:
            skip, met = first, True
            while met and time.monotonic() - began < seconds:
                place = work / "failed"
                templates.copy(number, place)
                child = child or nursery.start("torture.story:try_faults")
                try:
                    child.connection.send((str(place), number, name == "open", act, skip, times, error))
                    outcome, met, verdict = child.receive(240)
                except (EOFError, ConnectionResetError, BrokenPipeError):
                    outcome, met, verdict = "", True, f"the process died: {child.wait()}"
                    child = None
                if met:
                    out.add(f"{name}, {fault}, call {skip}, {outcome or 'done'}", verdict, name)
                skip += every
    return out
