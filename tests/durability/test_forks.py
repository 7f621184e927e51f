"""A process that was forked after the database was opened: it is told so, and harms nothing of its parent's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kinbin
from kinbin.errors import Closed
from kinbin.storage.store import Store
from nursery import Nursery
from workload import DIM

pytestmark = pytest.mark.durability


def test_nothing_crosses_a_fork(nursery: Nursery, tmp_path: Path) -> None:
    """In a process forked after opening every use raises Closed, and closing is harmless; the parent goes on."""
    with kinbin.open(tmp_path / "data") as database:
        database.create_collection("c", dim=DIM)
    child = nursery.start("sharing:use_after_fork", str(tmp_path / "data"))
    told, count, sound = child.receive()
    assert told == ["Closed"] * 13 + ["1"]
    assert (count, sound) == (2, True)
    assert child.wait() == 0


def test_the_store_refuses_a_fork_by_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose process is not the one that opened it refuses to read, write and pin, and does not close the parent's files."""
    store = Store(folder / "collections" / "c")
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: -1)
        for use in (store.read, store.write, store.pinned):
            with pytest.raises(Closed, match="fork"), use():
                pass
        store.close()
    with store.read() as reader:
        assert reader.state().items == 0
    store.close()


AGAIN = """
import os, sys, kinbin
database = kinbin.open(sys.argv[1])
print(database.collection("c").count(), flush=True)
if os.fork() == 0:
    for closed in (False, True):
        try:
            kinbin.open(sys.argv[1]).collection("c").count()
        except kinbin.KinbinError as error:
            print(type(error).__name__, "was forked" in str(error), flush=True)
        database.close()
    os._exit(0)
os.wait()
database.close()
if os.fork() == 0:
    print(kinbin.open(sys.argv[1]).collection("c").count(), flush=True)
    os._exit(0)
os.wait()
print(kinbin.open(sys.argv[1]).collection("c").count())
"""


def test_a_child_is_told_that_its_parent_had_the_database_open(folder: Path) -> None:
    """LMDB opens the files no second time in a process: that is no damage. What was closed before the fork is opened in both."""
    done = subprocess.run([sys.executable, "-c", AGAIN, str(folder)], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split("\n") == ["0", "Closed True", "Closed True", "0", "0", ""]
