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
for folder in sys.argv[1:]:
    try:
        with kinbin.open(folder) as database:
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
def closed_folders(tmp_path: Path) -> Iterator[list[Path]]:
    """Databases of two items, with a file for locks and without one; their files may not be written."""
    folders = [tmp_path / "locked", tmp_path / "without locks"]
    for folder in folders:
        with kinbin.open(folder) as database:
            database.create_collection("c", dim=2).add(["a", "b"], [[1, 2], [2, 1]])
    next(folders[1].rglob("lock.mdb")).unlink()
    inside = [tmp_path, *tmp_path.rglob("*")]
    modes = {path: path.stat().st_mode for path in inside}
    for path in inside:
        path.chmod(modes[path] & ~0o222)
    yield folders
    for path, mode in modes.items():
        if path.exists():
            path.chmod(mode)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, but for the table of readers."""
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock.mdb"
    }


def test_a_database_that_may_not_be_written_is_refused_with_the_reason(closed_folders: list[Path], tmp_path: Path) -> None:
    """Opening a collection there is a StorageError that says why and what to do, with a file for locks and without one; nothing changes."""
    assert len(list(tmp_path.rglob("lock.mdb"))) == 1
    before = contents(tmp_path)
    command = [*as_others(), sys.executable, "-c", OPENING, *map(str, closed_folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['c']", f"StorageError collection 'c': {READ_ONLY}"] * 2
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["x: Permission denied", "x: Read-only file system"])
def test_files_that_are_denied_are_told_alike(text: str) -> None:
    """Whether a folder or its disk is read-only, the reason is the same one."""
    with pytest.raises(kinbin.StorageError, match="cannot be written"):
        reraise(lmdb.Error(text))
