"""The long runs, with their seeds printed: `python -m faults --count 300`, `--controls`, `--moves 30`, `--reshards 30`, `--power 1000`."""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from faults.campaign import Plan, campaign
from faults.controls import TRIES, control_of_reshards, controlled
from faults.kinds import KINDS
from faults.moving import moves, reshards
from faults.power_runs import power_runs


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="faults, one after the other")
    parser.add_argument("--only", default="", help="kinds whose names hold this")
    parser.add_argument("--plant", default="", help="a bug to be planted: see faults.plants")
    parser.add_argument("--no-gaps", action="store_true", help="on a machine that has other work: gaps are told, and not judged")
    parser.add_argument("--controls", action="store_true", help="see that each class finds its planted bug")
    parser.add_argument("--share", default="0/1", help="with --controls: every n-th class, as 0/2 and 1/2 on two machines")
    parser.add_argument("--tries", type=int, default=TRIES, help="with --controls: faults of a class in which its bug has to show")
    parser.add_argument("--moves", type=int, default=0, help="replicas to be moved")
    parser.add_argument("--reshards", type=int, default=0, help="how often a collection is cut into other shards")
    parser.add_argument("--power", type=int, default=0, help="states of a node's disk after a power failure")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--work", type=Path, default=None, help="a folder for everything, kept where something is wrong")
    return parser.parse_args()


def main() -> int:
    """Run what is asked for; 1 where something is wrong."""
    asked = _parsed()
    # Ended so, too, it ends all that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    folder = asked.work or Path(tempfile.mkdtemp(prefix="kinbin-faults-"))
    _say(f"seed {asked.seed}, in {folder}")
    kinds = [kind for kind in KINDS if asked.only in kind.name]
    wrong = False
    if asked.count:
        plan = Plan(asked.seed, asked.count, kinds, asked.plant, seconds=asked.seconds, gaps=not asked.no_gaps)
        report = campaign(folder / "sound", plan, told=_say)
        _say(report.table())
        wrong |= bool(report.wrong)
    if asked.moves:
        moved = moves(folder / "moves", asked.seed, asked.moves, _say)
        _say(moved.line())
        wrong |= bool(moved.wrong)
    if asked.reshards:
        cut = reshards(folder / "reshards", asked.seed, asked.reshards, _say)
        _say(cut.line())
        wrong |= bool(cut.wrong)
    if asked.power:
        wrong |= power_runs(folder / "power", asked.seed, asked.power, asked.seconds, _say)
    if asked.controls:
        first, step = map(int, asked.share.split("/"))
        found = controlled(folder, asked.seed, kinds[first::step], _say, tries=asked.tries)
        found += control_of_reshards(folder, asked.seed, _say) if asked.only in "reshard" and not first else []
        wrong |= not all(one.how for one in found)
    if not wrong and asked.work is None:
        shutil.rmtree(folder, ignore_errors=True)
    return int(wrong)


def _with_mounts() -> None:
    """Go on where disks can be mounted that nobody else sees, and that are gone with this process: as root, with `unshare`."""
    program = shutil.which("unshare")
    if program is None or os.geteuid() != 0 or "KINBIN_FAULTS_MOUNTS" in os.environ:
        return
    os.environ["KINBIN_FAULTS_MOUNTS"] = "1"
    again = [sys.executable, "-m", "faults", *sys.argv[1:]]
    # Where it may not, all goes on here, with limits of files in the place of disks.
    tried = f'"{program}" --mount true 2>/dev/null && exec "{program}" --mount "$@"; KINBIN_FAULTS_MOUNTS=0 exec "$@"'
    os.execv("/bin/sh", ["/bin/sh", "-c", tried, "sh", *again])


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    _with_mounts()
    sys.exit(main())
