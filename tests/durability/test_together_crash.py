"""Edits that are done together, and the note of them, are one: a crash at any moment leaves all or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinbin
from crashing_edits import TOGETHER
from nursery import Nursery

pytestmark = pytest.mark.durability


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
def test_a_crash_leaves_edits_and_note_or_neither(
    tmp_path: Path, nursery: Nursery, kind: str, write: int, when: str, committed: bool
) -> None:
    """After a kill the note tells whether the edits were done, and all of them were, or none."""
    with kinbin.open(tmp_path) as database:
        collection: Any = database.create_collection("c", **TOGETHER[kind])
        old = [[7.0, 7.0]]
        collection.add(["old"], old if kind == "plain" else {"one": old, "two": old})
        collection.together().nothing().commit(lambda _: {b"at": b"1"})
    child = nursery.start("crashing_edits:commit_together", str(tmp_path), kind, write, when)
    assert child.wait() == -9
    assert child.rest() == []
    with kinbin.open(tmp_path) as database:
        collection = database.collection("c")
        assert collection.note(b"at") == (b"2" if committed else b"1")
        assert [item.id for item in collection.scroll().items] == (["1.0", "5.0", "b"] if committed else ["old"])
        assert collection.check().ok
