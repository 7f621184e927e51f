"""The long run: `python -m faults --count 300`, with its seed printed."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from pathlib import Path

from faults.campaign import Plan, campaign
from faults.kinds import KINDS
from faults.plants import PLANTS

CONTROLS = {
    "answers-before-the-quorum": ("the servers killed, then the gateways",),
    "notes-the-sequence-first": ("all nodes killed",),
}
"""Faults that a planted bug shows in."""


def main() -> int:
    """Run a campaign; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    parser.add_argument("--plant", default="", help="a bug to be planted: see faults.plants")
    parser.add_argument("--controls", action="store_true", help="see then that each planted bug is found")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--work", type=Path, default=None, help="a folder for everything, kept where something is wrong")
    asked = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder = asked.work or Path(tempfile.mkdtemp(prefix="kinbin-faults-"))
    kinds = [kind for kind in KINDS if asked.only in kind.name]
    _say(f"seed {asked.seed}, in {folder}")
    plan = Plan(asked.seed, asked.count, kinds, asked.plant, seconds=asked.seconds)
    report = campaign(folder / "sound", plan, told=_say)
    _say(report.table())
    silent = [name for name in PLANTS if asked.controls and not _found(folder, name, asked.seed)]
    return bool(report.wrong or silent)


def _found(folder: Path, plant: str, seed: int) -> bool:
    """Whether a planted bug is found by the faults that it shows in."""
    plan = Plan(seed, 4, [kind for kind in KINDS if kind.name in CONTROLS[plant]], plant, check_every=1, gaps=False)
    report = campaign(folder / plant, plan, told=_say)
    _say(f"control, {plant}: {'found: ' + report.wrong[0] if report.wrong else 'NOT FOUND'}")
    return bool(report.wrong)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
