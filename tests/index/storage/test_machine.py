"""The memory that a process may use: the least of the machine's and of every limit that it lies under."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kinbin.storage.machine import usable_memory

MEBIBYTE = 1 << 20
MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 4 << 30


def laid_out(root: Path, groups: str, limits: dict[str, str]) -> Path:
    """A root with what the process is told of its groups, and these files of limits."""
    told = root / "proc" / "self" / "cgroup"
    told.parent.mkdir(parents=True)
    told.write_text(groups)
    for path, limit in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        pytest.param("0::/\n", {"memory.max": f"{64 * MEBIBYTE}\n"}, 64, id="a container of version 2"),
        pytest.param(
            "0::/a/b\n", {"memory.max": "max\n", "a/memory.max": f"{90 * MEBIBYTE}\n", "a/b/memory.max": "max\n"}, 90, id="a slice"
        ),
        pytest.param("0::/a/b\n", {"a/memory.max": f"{70 * MEBIBYTE}", "a/b/memory.max": f"{80 * MEBIBYTE}"}, 70, id="the outer is less"),
        pytest.param("4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": f"{32 * MEBIBYTE}"}, 32, id="version 1"),
        pytest.param("5:cpu,memory:/x/y\n", {"memory/memory.limit_in_bytes": f"{33 * MEBIBYTE}"}, 33, id="a container of version 1"),
        pytest.param("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, None, id="no limit in version 1"),
        pytest.param("3:cpu:/x\n", {"cpu/x/memory.limit_in_bytes": "5", "memory.max": "5"}, None, id="groups of other things"),
        pytest.param("0::/\n", {"memory.max": "nonsense"}, None, id="no number"),
        pytest.param("garbage\n\n", {}, None, id="no groups"),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], expected: int | None) -> None:
    """expected: MiB; None: what the machine has."""
    assert usable_memory(laid_out(tmp_path, groups, limits)) == (MACHINE if expected is None else expected * MEBIBYTE)


def test_where_no_groups_are_told_the_machine_counts(tmp_path: Path) -> None:
    """Without such files (another system) it is what the machine has."""
    assert usable_memory(tmp_path) == MACHINE
