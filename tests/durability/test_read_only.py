"""A database that may not be written is refused, with the reason, and stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

import kinbin
from kinbin.storage.errors import READ_ONLY, reraise

OPENING = """
import sys, kinbin
try:
    with kinbin.open(sys.argv[1]) as database:
        print(database.collections())
        print(database.collection("c").count())
except kinbin.KinbinError as error:
    print(type(error).__name__, error)
"""


def as_others() -> list[str]:
    """What lets a command respect permissions: nothing, or for root the loss of the right to pass over them."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root passes over permissions, and there is no setpriv to take that right away")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A database of two items; its files may not be written."""
    folder = tmp_path / "data"
    with kinbin.open(folder) as database:
        database.create_collection("c", dim=2).add(["a", "b"], [[1, 2], [2, 1]])
    inside = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in inside}
    for path in inside:
        path.chmod(modes[path] & ~0o222)
    yield folder
    for path, mode in modes.items():
        if path.exists():
            path.chmod(mode)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for the table of readers."""
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock.mdb"
    }


@pytest.mark.parametrize("locked", [True, False])
def test_a_database_that_may_not_be_written_is_refused_with_the_reason(closed_folder: Path, locked: bool) -> None:
    """Opening a collection there is a StorageError that says why and what to do, with a file for locks and without one; nothing changes."""
    if not locked:
        lock = next(closed_folder.rglob("lock.mdb"))
        lock.parent.chmod(0o755)
        lock.unlink()
        lock.parent.chmod(0o555)
    before = contents(closed_folder)
    command = [*as_others(), sys.executable, "-c", OPENING, str(closed_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['c']", f"StorageError {READ_ONLY}"]
    assert contents(closed_folder) == before


@pytest.mark.parametrize("text", ["x: Permission denied", "x: Read-only file system"])
def test_files_that_are_denied_are_told_alike(text: str) -> None:
    """Whether a folder or its disk is read-only, the reason is the same one."""
    with pytest.raises(kinbin.StorageError, match="cannot be written"):
        reraise(lmdb.Error(text))
