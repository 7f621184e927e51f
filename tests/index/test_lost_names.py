"""Files that lose their name while they are open: whoever asks for the collection does not get them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kinbin

OTHER = """
import sys, kinbin
with kinbin.open(sys.argv[1]) as database:
    database.drop_collection("c", damaged=True)
    database.create_collection("c", dim=2).add(["new"], [[1.0, 1.0]])
"""


def filled(database: kinbin.Database) -> kinbin.Collection:
    """A collection of ten items."""
    collection = database.create_collection("c", dim=2)
    collection.add([str(i) for i in range(10)], [[i + 1.0, 2.0] for i in range(10)])
    return collection


def damaged(file: Path) -> None:
    """No process may write to a file any more: its list of free pages is damaged. Reading goes on."""
    data = bytearray(file.read_bytes())
    newest = max((0, 4096), key=lambda page: int.from_bytes(data[page + 144 : page + 152], "little"))
    root = int.from_bytes(data[newest + 80 : newest + 88], "little")
    data[root * 4096 + 12 : root * 4096 + 14] = b"\xff\xff"
    with file.open("r+b") as opened:
        opened.write(data)


@pytest.mark.parametrize("gone", [False, True])
def test_a_collection_that_another_process_dropped_is_looked_for_anew(db: kinbin.Database, gone: bool) -> None:
    """One that could not be marked as dropped, as it was damaged: whoever asks for it gets the new one."""
    old = filled(db)
    for i in range(4):
        old.delete([str(i)])
    file = db.path / "collections" / "c" / "data.mdb"
    file.unlink() if gone else damaged(file)
    assert old.count() == 6
    subprocess.run([sys.executable, "-c", OTHER, str(db.path)], check=True, timeout=100)
    with pytest.raises(kinbin.CorruptData, match="removed or replaced"):
        old.add(["x"], [[1.0, 1.0]])
    new = db.collection("c")
    assert new.query([1.0, 1.0], mode="exact").ids == ["new"]
    assert (new.count(), new.get(["0"]), db.collections()) == (1, [None], ["c"])


def test_a_directory_that_was_removed_holds_no_collection(db: kinbin.Database) -> None:
    """It is not found any more; one that is made in its place is the new one."""
    filled(db)
    shutil.rmtree(db.path / "collections" / "c")
    with pytest.raises(kinbin.CollectionNotFound):
        db.collection("c")
    made = db.create_collection("c", dim=7)
    assert (made.config.dim, made.count()) == (7, 0)


def test_a_file_that_was_made_anew_keeps_its_name(db: kinbin.Database) -> None:
    """A file that shrank is another one, and the same collection."""
    collection = filled(db)
    collection.compact(shrink=True)
    assert db.collection("c") is collection
    assert collection.count() == 10
