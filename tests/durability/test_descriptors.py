"""A process that may open no further files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.durability

NO_FILES = """
import os, resource, sys, kinbin, numpy as np
database = kinbin.open(sys.argv[1])
c = database.collection("c")
c.add(["a", "b"], np.ones((2, c.config.dim)) * [[1], [2]])
for work in (c.compact, c.link, lambda: c.compact(shrink=True), database.check):
    work()
held = []
resource.setrlimit(resource.RLIMIT_NOFILE, (60, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
works = (c.compact, lambda: c.compact(shrink=True), c.link, database.check, database.collections, lambda: database.recoverable("c"),
         lambda: database.stores_of_fields("c"), lambda: database.repair("c"), lambda: database.snapshots.list("c"))
wrong = []
for left in range(5):
    for number, work in enumerate(works):
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for _ in range(left):
            os.close(held.pop())
        try:
            work()
        except kinbin.KinbinError:
            pass
        except Exception as error:
            wrong.append(f"{left} {number} {error!r}")
for one in held:
    os.close(one)
print(wrong, c.count(), c.check().ok)
"""


@pytest.mark.slow
def test_a_process_without_room_for_files_gets_typed_errors(folder: Path) -> None:
    """Whatever cannot be opened any more: an error of Kinbin says so, and nothing is harmed."""
    done = subprocess.run([sys.executable, "-c", NO_FILES, str(folder)], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "[] 2 True\n", done.stderr
