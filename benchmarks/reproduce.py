"""Measure the tables and figures of the papers again: `python benchmarks/reproduce.py`, or `make reproduce`, `FULL=1 make reproduce`.

Every finished cell is a line on the screen and in a file of `--folder`. A run that was ended, however, goes on where it stopped.
`--document` writes docs/papers.md and its plots from that file.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import _commit as commit  # noqa: E402 - the scripts are programs: their folder is where they import from
from papers import nested  # noqa: E402
from papers.document import saved, write  # noqa: E402
from papers.ledger import Busy, Finished, Ledger, opened  # noqa: E402
from papers.plan import Cell, cells  # noqa: E402
from papers.published import PAPERS  # noqa: E402
from papers.run import run  # noqa: E402
from papers.sets import SETS  # noqa: E402
from papers.summary import key_of  # noqa: E402


def main() -> int:
    """Measure, or write the document; 130 when interrupted, 2 when there is no data or another run is at work."""
    given = _arguments()
    if given.document:
        if find_spec("matplotlib") is None:
            print("matplotlib draws the plots of the page, and is not installed here: make reproduce installs it; nothing is written")
            return 2
        write(given.folder)
        nested.write(given.folder)
        return 0
    console = Console(highlight=False, soft_wrap=True)
    try:
        with opened(given.folder) as ledger:
            started = time.monotonic()
            if given.only != "nested":
                _measure(given, ledger, console)
            if "nested".startswith(given.only):
                _measure_nested(given, console, started)
    except (Busy, ValueError) as error:
        console.print(f"{error}", markup=False)
        return 2
    except (KeyboardInterrupt, BrokenProcessPool):
        console.print(f"stopped; what is finished is in {given.folder}, and the same command goes on")
        return 130
    return 0


def _measure(given: argparse.Namespace, ledger: Ledger, console: Console) -> None:
    there = {file.stem for file in given.data.glob("*.npz")}
    shown = saved().figures if given.missing else {}
    plan = [cell for cell in cells(given.full) if given.only in cell.key and key_of(cell) not in shown]
    if not plan:
        if "nested".startswith(given.only):
            return
        if any(given.only in cell.key for cell in cells(given.full)):
            console.print("docs/papers.md shows figures of all of them")
            return
        near = next((f"; is {cell.key} meant?" for cell in cells(True) if given.only.lower() in cell.key.lower()), "")
        text = f"no cell has {given.only!r} in its key: capitals count, --full adds cells, and nested is a key of its own"
        raise ValueError(text + near)
    present = [cell for cell in plan if SETS[cell.paper][cell.set].file in there]
    absent = {f"{cell.set} ({SETS[cell.paper][cell.set].file}.npz)" for cell in set(plan) - set(present)}
    if absent and (present or given.only):
        console.print(f"not in {given.data}: {', '.join(sorted(absent))}", markup=False)
    if not present:
        raise ValueError(f"no data sets in {given.data}: KINBIN_DATA, or --data, names their folder")
    waiting = [cell for cell in present if cell.key not in ledger.cells]
    deadline = math.inf if given.full and given.minutes is None else time.monotonic() + 60 * (given.minutes or 56)
    columns = TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(present), completed=len(present) - len(waiting))
        left = len(waiting)

        def told(cell: Cell, finished: Finished) -> None:
            nonlocal left
            left -= 1
            bar.advance(task)
            console.print(line(cell, finished, left), markup=False)

        run(waiting, ledger, given.data, (given.processes, deadline), told, commit())
    console.print(f"{left} of {len(present)} cells are left" if left else "all of them are finished")


def _measure_nested(given: argparse.Namespace, console: Console, started: float) -> None:
    """Nested histograms: in what is left of the time."""
    if not (given.data / f"{nested.SET}.npz").exists():
        console.print(f"not in {given.data}: {nested.SET}.npz", markup=False)
        return
    grid = nested.grid_of(given.full)
    if given.missing and {
        (base, depth, rate, share) for base in nested.BASES for depth in nested.DEPTHS for rate in grid[0] for share in grid[1]
    } <= set(nested.saved()):
        console.print("docs/papers.md shows all of nested histograms")
        return
    minutes = math.inf if given.full and given.minutes is None else (given.minutes or 56) - (time.monotonic() - started) / 60
    done = nested.measure(given.data, given.folder, grid, minutes, lambda text: console.print(text, markup=False))
    console.print("nested histograms are finished" if done else "cells of nested histograms are left")


def line(cell: Cell, finished: Finished, left: int) -> str:
    """What is told of a finished cell."""
    accuracy, cost = finished.best
    described = PAPERS[cell.paper]
    printed = described.rows[cell.set][described.methods.index(cell.method)] if cell.method in described.methods and not cell.k else None
    beside = "" if printed is None else f"  paper {printed:6.2f}"
    return f"{cell.key:54s} {accuracy:6.2f} % at C = {cost:<6g} {finished.seconds:6.1f} s{beside}  ({left} left)"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=ROOT / "reproduced", help="where finished cells are kept (%(default)s)")
    data = Path(os.environ.get("KINBIN_DATA") or ROOT / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder of the data sets (KINBIN_DATA, otherwise data in the repository)")
    parser.add_argument("--full", action="store_true", help="everything, for many hours")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="only cells with this text in their key, as comparison/Letter/gmm; or nested"
    )
    parser.add_argument(
        "--minutes", type=float, help="begin no more cells after so long (56, so that it ends within an hour; with --full no end)"
    )
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="cells at a time (%(default)s)")
    parser.add_argument("--missing", action="store_true", help="only cells of figures that docs/papers.md does not show yet")
    parser.add_argument("--document", action="store_true", help="measure nothing; write docs/papers.md and its plots from the folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
