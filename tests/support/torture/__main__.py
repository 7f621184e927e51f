"""The long runs, with their seeds printed: `python -m torture damage --flips 20000`, `power`, `kills`, ... (`_RUNS`), or `all`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import kinbin
from nursery import Nursery
from torture import locks, renewed
from torture.background import background_campaign
from torture.campaign import GRAVE, REPAIRS, USES, Case, Tally, damage_campaign
from torture.crashes import SOUND, Verdicts, fault_campaign, kill_campaign, power_campaign
from torture.disk import compile_disk
from torture.locks import lock_campaign
from torture.objects import object_campaign
from torture.renewed import renewed_campaign
from torture.served import served_campaign
from torture.taken import PLANT, taken_campaign

_OF_ONE = 500
"""Harms to one specimen, and disks of one story; then another one is made."""
CONTROLS = {
    "files not synced": ({"sync": False}, True),
    "meta pages not synced": ({"metasync": False}, True),
    "folders not synced": ({}, False),
}
"""What is turned off to see that something is lost then."""


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("what", choices=[*_RUNS, "all"])
    parser.add_argument("--flips", type=int, default=400)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--lost-writes", action="store_true", help="of damage and repairs: pages that are what they were before as well")
    parser.add_argument("--count", type=int, default=1_000, help="disks after a power failure")
    parser.add_argument("--kills", type=int, default=1_000, help="processes killed with locks, as they store objects, or as they serve")
    parser.add_argument("--every", type=int, default=1, help="disturb every n-th call")
    parser.add_argument("--first", type=int, default=0, help="the call to begin with")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--log", type=Path, default=None, help="where bad cases are written, one a line")
    parser.add_argument("--seconds", type=float, default=1e9, help="of each kind")
    parser.add_argument("--work", type=Path, default=None, help="a folder for databases, best in memory (/dev/shm)")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _log(asked: argparse.Namespace, lines: list[str]) -> None:
    if asked.log is not None and lines:
        with asked.log.open("a") as log:
            log.writelines(f"{line}\n" for line in lines)


def _damage(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    return _harmed("damage", asked, work, seed, USES)


def _repairs(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    return _harmed("repairs", asked, work, seed, REPAIRS)


def _harmed(what: str, asked: argparse.Namespace, work: Path, seed: int, judge: str) -> bool:
    total, began = Tally(), time.monotonic()
    flips, pages = asked.flips, asked.pages

    def told(case: Case) -> None:
        total.add(case)
        if case.outcome in GRAVE:
            _log(asked, [f"seed {seed}: {case.line()}"])

    with Nursery() as nursery:
        while (flips or pages) and time.monotonic() - began < asked.seconds:
            share = min(flips, _OF_ONE), min(pages, max(1, _OF_ONE * asked.pages // max(1, asked.flips)) if asked.flips else _OF_ONE)
            damage_campaign(
                nursery, work, seed, share, told, asked.seconds - (time.monotonic() - began), judge, lost_writes=asked.lost_writes
            )
            nursery.end_children()
            flips, pages, seed = flips - share[0], pages - share[1], seed + 1
            # It takes hours, and may be ended.
            _say(f"{time.monotonic() - began:.0f} s, through seed {seed - 1}: {total.table().splitlines()[0]}")
    _say(f"{what}: {time.monotonic() - began:.0f} s, through seed {seed - 1}\n{total.table()}")
    return not total.of(GRAVE)


def _power(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    began, total = time.monotonic(), Verdicts()
    with _watched(work) as nursery:
        while (left := asked.count - total.good - len(total.wrong)) > 0 and (rest := asked.seconds - (time.monotonic() - began)) > 0:
            found = power_campaign(nursery, work, seed, min(left, _OF_ONE), SOUND, rest)
            total = Verdicts(total.good + found.good, total.wrong + found.wrong, total.kinds + found.kinds)
            nursery.end_children()
            seed += 1
        _log(asked, total.wrong)
        _say(f"power: {time.monotonic() - began:.0f} s, through seed {seed - 1}: {total.table()}")
        lost = {name: power_campaign(nursery, work, seed, 60, control) for name, control in CONTROLS.items()}
    for name, found in lost.items():
        _say(f"control, {name}: {len(found.wrong)} of {found.good + len(found.wrong)} lose")
    return not total.wrong and all(found.wrong for found in lost.values())


def _kills(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    return _points("kills", asked, work, seed)


def _faults(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    return _points("faults", asked, work, seed)


def _background(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    return _points("background", asked, work, seed)


def _points(what: str, asked: argparse.Namespace, work: Path, _: int) -> bool:
    began = time.monotonic()
    with _watched(work) as nursery:
        found = _POINTS[what](nursery, work, every=asked.every, first=asked.first, seconds=asked.seconds)
    _log(asked, found.wrong)
    _say(f"{what}: {time.monotonic() - began:.0f} s: {found.table()}")
    return not found.wrong


def _again(what: str, asked: argparse.Namespace, work: Path, once: Callable[[Path, int, float], Verdicts], seed: int) -> bool:
    """A campaign again and again, with a seed more each time, until there were `--kills` or the time is over, or something was wrong."""
    began, total = time.monotonic(), Verdicts()
    while not total.wrong and total.good < asked.kills and (rest := asked.seconds - (time.monotonic() - began)) > 0:
        found = once(work, seed, rest)
        total = Verdicts(total.good + found.good, total.wrong + found.wrong, total.kinds + found.kinds)
        seed += 1
    _log(asked, total.wrong)
    _say(f"{what}: {time.monotonic() - began:.0f} s, through seed {seed - 1}: {total.table()}")
    return not total.wrong


def _locks(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    with _watched(work) as nursery:
        good = _again("locks", asked, work, lambda work, seed, rest: lock_campaign(nursery, work, seed, seconds=rest), seed)
        for (plant, name), told in locks.PLANTS.items():
            good &= _control(f"{plant}, {name}", lock_campaign(nursery, work, seed, [name], plant=plant, patience=5.0), told)
    return good


def _taken(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    with Nursery() as nursery:
        good = _again("taken", asked, work, lambda work, seed, rest: taken_campaign(nursery, work, seed, 50, seconds=rest), seed)
        return (
            _control(PLANT, taken_campaign(nursery, work, seed, 50, plant=PLANT, patience=10.0), ("lost", "ended", "check", "do not go on"))
            and good
        )


def _renewed(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    with Nursery() as nursery:
        good = _again("renewed", asked, work, lambda work, seed, _: renewed_campaign(nursery, work, seed, 2), seed)
        found = renewed_campaign(nursery, work, seed, 8, plant=renewed.PLANT)
        return _control(renewed.PLANT, found, ("Gone", "Replaced")) and good


def _objects(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    began = time.monotonic()
    with Nursery() as nursery:
        found = object_campaign(nursery, work, seed, asked.kills, seconds=asked.seconds)
        _log(asked, found.wrong)
        _say(f"objects: {time.monotonic() - began:.0f} s: {found.table()}")
        (work / "planted").mkdir()
        return _control("done late", object_campaign(nursery, work / "planted", seed, 2, late=True), ("lost",)) and not found.wrong


def _served(asked: argparse.Namespace, work: Path, seed: int) -> bool:
    began = time.monotonic()
    found = served_campaign(work, seed, asked.kills, seconds=asked.seconds)
    _log(asked, found.wrong)
    _say(f"served: {time.monotonic() - began:.0f} s: {found.table()}")
    (work / "planted").mkdir()
    return (
        _control("acknowledged when sent", served_campaign(work / "planted", seed, 20, hasty=True), ("torn", "should be", "count"))
        and not found.wrong
    )


def _control(plant: str, found: Verdicts, told: Sequence[str]) -> bool:
    """Say what was told of a planted bug; returns whether it was told as what it is."""
    fitting = [one for one in found.wrong if any(text in one for text in told)]
    _say(f"control, {plant}: {'found' if fitting else 'NOT FOUND'}: {(fitting or found.wrong)[:1]}")
    return bool(fitting)


def _watched(work: Path) -> Nursery:
    return Nursery({"LD_PRELOAD": str(compile_disk(work))})


_POINTS: dict[str, Callable[..., Verdicts]] = {"kills": kill_campaign, "faults": fault_campaign, "background": background_campaign}
_RUNS: dict[str, Callable[[argparse.Namespace, Path, int], bool]] = {
    "damage": _damage, "repairs": _repairs, "power": _power, "kills": _kills, "faults": _faults, "background": _background, "locks": _locks,
    "objects": _objects, "served": _served, "taken": _taken,
    "renewed": _renewed,
}  # fmt: skip


def main() -> int:
    """Run, print what was found; 1 if a promise was broken, or a control lost nothing."""
    asked = _parsed()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    _say(f"seed {seed}")
    # Inherited by the processes that are disturbed, and by those that judge what is left.
    os.environ["TORTURE_STORY"] = str(seed)
    logging.disable(logging.WARNING)
    kinbin.warm_up()
    good = True
    for name, run in _RUNS.items():
        if asked.what in (name, "all"):
            with tempfile.TemporaryDirectory(dir=asked.work) as work:
                good &= run(asked, Path(work), seed)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
