"""Checking collections in a process of its own, which may die of what it finds: the parent's side. `checking` is the child.

The child opens the collections, so that files which end a process when they are opened are reported like all other damage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kinbin.records import CheckReport

__all__ = ["PROGRESS", "REPORT", "check_apart"]

REPORT, PROGRESS = "report", "progress"
"""What a line of the child is."""
_LAST_CHARACTERS = 300
"""Of what the child said last, which a report shows."""


def check_apart(path: Path, names: Sequence[str], progress: Callable[[str, str], None] | None = None) -> dict[str, CheckReport]:
    """What `Collection.check` finds in collections of the database at a path, by name, or how the process ended that looked.

    progress: is told of (name, what is looked at). After a process that died another one goes on with the next collection.
    Cost: that of the checks, and a second for each process.
    """
    reports: dict[str, CheckReport] = {}
    while left := [name for name in names if name not in reports]:
        ended = _checked(path, left, reports, progress)
        died_of = next((name for name in left if name not in reports), None)
        if died_of is not None:
            reports[died_of] = CheckReport(False, 0, 0, 0, [ended])
    return reports


def _checked(path: Path, names: list[str], reports: dict[str, CheckReport], progress: Callable[[str, str], None] | None) -> str:
    """Let one process check collections in turn, and take its reports; how it ended, as a sentence."""
    # The child finds the packages that this process found.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    command = [sys.executable, "-m", "kinbin.checking", os.fspath(path), *names]
    with (
        tempfile.TemporaryFile("w+", errors="replace") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as child,  # noqa: S603 - this very program
    ):
        assert child.stdout is not None
        try:
            for line in child.stdout:
                kind, name, said = json.loads(line)
                if kind == REPORT:
                    reports[name] = CheckReport(**said)
                elif progress is not None:
                    progress(name, said)
        except BaseException:
            child.kill()
            raise
        status = child.wait()
        errors.seek(0)
        last = errors.read()[-_LAST_CHARACTERS:].strip()
    how = f"was ended by signal {-status}" if status < 0 else f"failed with status {status}"
    return f"the process that read the collection {how}: the files are damaged ({last})"
