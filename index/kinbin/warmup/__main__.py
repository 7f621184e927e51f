"""`python -m kinbin.warmup`: compile all kernels, and show how far it is.

--write            write the table of what they are called with anew (`make kernels`)
--ship FOLDER [LEVEL ...]  write machine code to be shipped (`shipping`)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kinbin.database import Database
from kinbin.native.specialisations import TABLE, Specialisation, requested, written
from kinbin.warmup import warm_up
from kinbin.warmup.display import showing_compilation
from kinbin.warmup.shipping import all_levels, ship
from kinbin.warmup.workload import STAGES


def write_table() -> None:
    """Call every kernel, and write down what was called. Seconds are right if nothing was on disk before (`make kernels`)."""
    found: list[Specialisation] = []
    with tempfile.TemporaryDirectory(prefix="kinbin-") as folder, Database(folder) as database:
        for name, stage in STAGES.items():
            stage(database, bool)
            found += requested(name, found)
    TABLE.write_text(written(found))


def main(arguments: list[str]) -> None:
    """Do what the arguments say."""
    match arguments:
        case []:
            with showing_compilation() as progress:
                warm_up(progress)
        case ["--write"]:
            write_table()
        case ["--ship", folder, *levels]:
            ship(Path(folder), levels or all_levels())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
