"""SciPy is not imported on the way, and numba's linear algebra works as ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

OPENS = """
import sys, kinbin
with kinbin.open(sys.argv[1]) as database:
    collection = database.create_collection("c", dim=8, seed=1)
    collection.add(["a"], [[1.0] * 8])
    assert collection.query([1.0] * 8, k=1).ids == ["a"]
assert not [name for name in sys.modules if name.startswith("scipy.linalg")], "SciPy was imported"
assert not [name for name in sys.modules if name in ("kinbin.tuning.judging", "kinbin.explaining.explain", "kinbin.duplicates.search")]
"""
USES = """
import kinbin, numba, numpy as np
kinbin.open
@numba.njit
def product(a, b):
    return a @ b, np.cross(a[0], b[0]), np.linalg.norm(a)
found = product(np.eye(3), 2.0 * np.eye(3))
assert found[0].tolist() == (2.0 * np.eye(3)).tolist() and abs(found[2] - 3.0**0.5) < 1e-12
from numba.np import arraymath, linalg
assert arraymath.ensure_blas is linalg.ensure_blas and arraymath._HAVE_BLAS
"""


def run(program: str, *arguments: str) -> None:
    """A program in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_database_is_used_without_scipy(tmp_path: Path) -> None:
    """Opening, adding and asking import neither SciPy's linear algebra nor what tunes, explains and compares all pairs."""
    run(OPENS, str(tmp_path))


@pytest.mark.slow
def test_linear_algebra_of_others_compiles() -> None:
    """Another user of numba in the process has its linear algebra, as without Kinbin."""
    pytest.importorskip("scipy")
    run(USES)
