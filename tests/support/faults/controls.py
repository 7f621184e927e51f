"""Each class of faults against a bug that it has to show: a campaign that is silent about a sound cluster has to tell of these."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from faults.campaign import Plan, campaign
from faults.kinds import NOTHING, Kind
from faults.moving import reshards

__all__ = ["CONTROLS", "TRIES", "Found", "control_of_reshards", "controlled"]

CONTROLS = {
    "the leader killed": "answers-before-the-quorum",
    "a server killed": "answers-before-the-quorum",
    "all servers killed": "answers-before-the-quorum",
    "the servers killed, then the gateways": "answers-before-the-quorum",
    "the leader stopped for 10 s": "answers-before-the-quorum",
    "the leader cut from the servers": "answers-before-the-quorum",
    "a server cut from the servers": "answers-before-the-quorum",
    "a server's disk full": "answers-before-the-quorum",
    "a gateway killed": "forgets-keys",
    "a gateway stopped for 10 s": "forgets-keys",
    "a gateway cut from the servers": "forgets-message-ids",
    "a node killed": "notes-the-sequence-first",
    "all nodes killed": "notes-the-sequence-first",
    "everything killed": "notes-the-sequence-first",
    "a node stopped for 10 s": "waits-for-the-silent",
    "a node cut from the gateways": "waits-for-the-silent",
    "a node cut from the servers": "reads-what-is-there",
    "a node's disk full": "passes-over-what-does-not-fit",
    "a node killed in a snapshot": "names-snapshots-first",
    "a node killed in a restore": "notes-before-it-restores",
    "a node killed as a shard moves": "notes-the-sequence-first",
    "a node's files damaged": "keeps-what-is-damaged",
    "a node's disk an old copy": "follows-from-the-end",
}
"""By class: the bug that is planted (`faults.plants`)."""

_SHOWS_IN_GAPS = "waits-for-the-silent"
TRIES = 4
"""Faults in which a bug has to show: some need the right moment."""


@dataclass(frozen=True)
class Found:
    """What became of one bug under one class."""

    kind: str
    plant: str
    faults: int
    """That were done until it was found."""
    how: str
    """What told of it; "": nothing did."""
    calm: bool = False
    """Whether it shows without any fault, too."""

    def line(self) -> str:
        """For people."""
        found = f"found at fault {self.faults}: {self.how}" if self.how else "NOT FOUND"
        return f"{self.kind} | {self.plant} | {found}{' (without a fault, too)' if self.calm else ''}"


def controlled(
    folder: Path, seed: int, kinds: Sequence[Kind], told: Callable[[str], object], *, tries: int = TRIES
) -> list[Found]:  # fmt: skip
    """Do each class so many times to a cluster with its bug, and nothing to another one."""
    found: list[Found] = []
    calm: dict[str, bool] = {}
    for number, kind in enumerate(kinds):
        plant = CONTROLS[kind.name]
        if plant not in calm:
            calm[plant] = bool(_wrong(folder, Plan(seed, 1, [NOTHING], plant, gaps=plant == _SHOWS_IN_GAPS))[1])
        faults, wrong = _wrong(folder, Plan(seed + number, tries, [kind], plant, check_every=1, gaps=plant == _SHOWS_IN_GAPS))
        found.append(Found(kind.name, plant, faults, wrong[0] if wrong else "", calm[plant]))
        told(found[-1].line())
    return found


def _wrong(folder: Path, plan: Plan) -> tuple[int, list[str]]:
    """How many faults were done, and what was wrong then."""
    try:
        report = campaign(folder / "control", plan)
    except (TimeoutError, RuntimeError, httpx.HTTPError) as error:
        return 0, [f"the cluster does not come up again: {error}"]
    finally:
        shutil.rmtree(folder / "control", ignore_errors=True)
    return len(report.happened), report.wrong


def control_of_reshards(folder: Path, seed: int, told: Callable[[str], object]) -> list[Found]:
    """Cut a collection into other shards by a command that does not close it."""
    plant = "does-not-close"
    report = reshards(folder / "control-reshards", seed, 2, plant=plant)
    found = Found("a reshard killed", plant, report.done + sum(report.killed.values()), report.wrong[0] if report.wrong else "")
    told(found.line())
    return [found]
