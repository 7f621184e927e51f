"""An idempotency key and its add are one: a crash at any moment leaves both or neither."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import kinbin
from crashing import at_write, die

pytestmark = pytest.mark.durability
IDS = ["a", "b", "c"]
ROWS = [[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]


def vectors(kind: str) -> Any:
    """The rows in the form of the collection."""
    return ROWS if kind == "plain" else {"one": ROWS, "two": ROWS}


def insert(connection: Connection, path: str, kind: str, write: int, when: str) -> None:
    """Insert under a key, and die at some transaction."""
    collection: Any = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.add(IDS, vectors(kind), mode="insert", idempotency_key="key")
    connection.send("done")


@pytest.mark.parametrize(
    ("kind", "write", "when", "committed"),
    [
        ("plain", 0, "in", False),
        ("plain", 0, "after", True),
        ("fields", 1, "after", False),
        ("fields", 2, "in", False),
        ("fields", 2, "after", True),
    ],
)
def test_a_crash_leaves_the_add_and_its_key_or_neither(tmp_path: Path, kind: str, write: int, when: str, committed: bool) -> None:
    """After a crash the same insert under its key succeeds: as a replay if it was committed, as the first one if it was not."""
    given: dict[str, Any] = {"dim": 2} if kind == "plain" else {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}}
    with kinbin.open(tmp_path) as database:
        database.create_collection("c", **given)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=insert, args=(theirs, str(tmp_path), kind, write, when))
    child.start()
    child.join(100)
    assert child.exitcode == -9
    assert not ours.poll()
    with kinbin.open(tmp_path) as database:
        collection: Any = database.collection("c")
        assert collection.count() == (3 if committed else 0)
        done = collection.add(IDS, vectors(kind), mode="insert", idempotency_key="key")
        assert (done.replayed, done.indexed, done.count) == (committed, 3, 3)
        assert collection.check().ok
