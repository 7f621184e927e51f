"""An idempotency key and its add are one: a crash at any moment leaves both or neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinbin
from crashing_edits import IDS, vectors_of
from nursery import Nursery

pytestmark = pytest.mark.durability


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
def test_a_crash_leaves_the_add_and_its_key_or_neither(
    tmp_path: Path, nursery: Nursery, kind: str, write: int, when: str, committed: bool
) -> None:
    """After a crash the same insert under its key succeeds: as a replay if it was committed, as the first one if it was not."""
    given: dict[str, Any] = {"dim": 2} if kind == "plain" else {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}}
    with kinbin.open(tmp_path) as database:
        database.create_collection("c", **given)
    child = nursery.start("crashing_edits:insert_under_a_key", str(tmp_path), kind, write, when)
    assert child.wait() == -9
    assert child.rest() == []
    with kinbin.open(tmp_path) as database:
        collection: Any = database.collection("c")
        assert collection.count() == (3 if committed else 0)
        done = collection.add(IDS, vectors_of(kind), mode="insert", idempotency_key="key")
        assert (done.replayed, done.indexed, done.count) == (committed, 3, 3)
        assert collection.check().ok
