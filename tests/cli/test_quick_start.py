"""What the command line imports: help and mistakes are answered before anything heavy is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numba", "llvmlite", "numpy", "lmdb", "fastapi", "httpx")

PROGRAM = """
import sys
sys.argv[0] = "kinbin"
try:
    from kinbin_service.cli import app
    app()
except SystemExit as end:
    print("loaded", *(name for name in sys.argv.pop().split(",") if name in sys.modules))
    print("code", end.code)
"""


def ended(*arguments: str) -> tuple[list[str], int]:
    """What of the heavy modules was loaded when a command ended, and its exit code."""
    command = [sys.executable, "-c", PROGRAM.replace("sys.argv.pop()", repr(",".join(HEAVY))), *arguments]
    *_, loaded, code = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    return loaded.split()[1:], int(code.split()[1])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["query", "--help"], 0),
        (["import", "--help"], 0),
        (["nonsense"], 2),
        (["query", "--nonsense"], 2),
        (["serve", "--port", "70000"], 2),
    ],
)
def test_nothing_heavy_is_loaded(arguments: list[str], code: int) -> None:
    """Help, and mistakes in the arguments, need no library."""
    assert ended(*arguments) == ([], code)


def test_mistakes_are_told_before_the_library_is_loaded(tmp_path: Path) -> None:
    """A database that is not there, or an address that cannot be listened on, is told without compiler and arrays."""
    assert ended("stats", "--data", str(tmp_path)) == ([], 1)
    assert ended("query", "--data", str(tmp_path), "--id", "a") == ([], 1)
    assert ended("serve", "--data", str(tmp_path), "--host", "192.0.2.1") == ([], 3)


def test_the_front_door_opens_when_it_is_asked() -> None:
    """`import kinbin` loads neither compiler nor arrays; names, and modules that are public, are there when they are asked for."""
    program = """
import sys
import kinbin
print([name for name in ("numba", "numpy") if name in sys.modules])
kinbin.InvalidInput, kinbin.LIMITS, kinbin.errors.KinbinError, kinbin.limits.limit
print("numba" in sys.modules, set(kinbin.__all__) <= set(dir(kinbin)))
kinbin.open
print("numba" in sys.modules, hasattr(kinbin, "nonsense"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["[]", "False True", "True False"]
