"""`python -m kinbin.warmup`: compile all kernels and show how far it is; `--write` writes the table of what they are called with anew."""

from __future__ import annotations

import sys
import tempfile

from kinbin.database import Database
from kinbin.kernels.specialisations import TABLE, Specialisation, requested, written
from kinbin.warmup import warm_up
from kinbin.warmup.display import showing_compilation
from kinbin.warmup.workload import STAGES


def write_table() -> None:
    """Call every kernel, and write down what was called. Seconds are right if nothing was on disk before (`make kernels`)."""
    found: list[Specialisation] = []
    with tempfile.TemporaryDirectory(prefix="kinbin-") as folder, Database(folder) as database:
        for name, stage in STAGES.items():
            stage(database)
            found += requested(name, found)
    TABLE.write_text(written(found))


if "--write" in sys.argv[1:]:
    write_table()
else:
    with showing_compilation() as progress:
        warm_up(progress)
