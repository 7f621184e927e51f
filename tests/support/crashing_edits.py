"""What the children do that crash tests of single edits kill: one edit, in which they die at some transaction."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import kinbin
from crashing import at_write, die

__all__ = ["IDS", "TOGETHER", "commit_together", "edits_together", "insert_under_a_key", "vectors_of"]

IDS = ["a", "b", "c"]
ROWS = [[1.0, 2.0], [2.0, 1.0], [3.0, 3.0]]
TOGETHER: dict[str, dict[str, Any]] = {
    "plain": {"dim": 2, "seed": 1},
    "fields": {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}, "seed": 1},
}
"""Collections in which edits are done together, by kind."""


def vectors_of(kind: str) -> Any:
    """Three rows in the form of a collection of this kind."""
    return ROWS if kind == "plain" else {"one": ROWS, "two": ROWS}


def insert_under_a_key(connection: Connection, path: str, kind: str, write: int, when: str) -> None:
    """Insert under a key, and die at some transaction. Sends "done" if there are fewer than that."""
    collection: Any = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.add(IDS, vectors_of(kind), mode="insert", idempotency_key="key")
    connection.send("done")


def edits_together(collection: Any, kind: str) -> Any:
    """Two adds and a delete."""
    schema = kinbin.Schema(**TOGETHER[kind])
    together = collection.together()
    for first in (1.0, 5.0):
        rows = [[first, 2.0], [first, 3.0]]
        done = schema.check([f"{first}", "b"], rows if kind == "plain" else {"one": rows, "two": rows})
        together.add(done.ids, done.rows, done.payloads, now=1.0)
    return together.delete(["old"])


def commit_together(connection: Connection, path: str, kind: str, write: int, when: str) -> None:
    """Do the group, and die at some transaction. Sends "done" if there are fewer than that."""
    collection: Any = kinbin.open(path).collection("c")
    edits = edits_together(collection, kind)
    with at_write(write, when, die):
        edits.commit(lambda _: {b"at": b"2"})
    connection.send("done")
