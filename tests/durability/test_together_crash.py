"""Edits that are done together, and the note of them, are one: a crash at any moment leaves all or none."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import kinbin
from crashing import at_write, die

pytestmark = pytest.mark.durability
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"dim": 2, "seed": 1},
    "fields": {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}, "seed": 1},
}


def group(collection: Any, kind: str) -> Any:
    """Two adds and a delete."""
    schema = kinbin.Schema(**OPTIONS[kind])
    together = collection.together()
    for first in (1.0, 5.0):
        rows = [[first, 2.0], [first, 3.0]]
        done = schema.check([f"{first}", "b"], rows if kind == "plain" else {"one": rows, "two": rows})
        together.add(done.ids, done.rows, done.payloads, now=1.0)
    return together.delete(["old"])


def apply(connection: Connection, path: str, kind: str, write: int, when: str) -> None:
    """Do the group, and die at some transaction."""
    collection: Any = kinbin.open(path).collection("c")
    edits = group(collection, kind)
    with at_write(write, when, die):
        edits.commit(lambda _: {b"at": b"2"})
    connection.send("done")


@pytest.mark.parametrize(
    ("kind", "write", "when", "committed"),
    [
        ("plain", 0, "before", False),
        ("plain", 0, "in", False),
        ("plain", 0, "after", True),
        ("fields", 1, "after", False),
        ("fields", 2, "in", False),
        ("fields", 2, "after", True),
    ],
)
def test_a_crash_leaves_edits_and_note_or_neither(tmp_path: Path, kind: str, write: int, when: str, committed: bool) -> None:
    """After a kill the note tells whether the edits were done, and all of them were, or none."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **OPTIONS[kind])
        old = [[7.0, 7.0]]
        collection.add(["old"], old if kind == "plain" else {"one": old, "two": old})
        collection.together().nothing().commit(lambda _: {b"at": b"1"})
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=apply, args=(theirs, str(tmp_path), kind, write, when))
    child.start()
    child.join(100)
    assert child.exitcode == -9
    assert not ours.poll()
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        assert collection.note(b"at") == (b"2" if committed else b"1")
        assert [item.id for item in collection.scroll().items] == (["1.0", "5.0", "b"] if committed else ["old"])
        assert collection.check().ok
