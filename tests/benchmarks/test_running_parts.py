"""What scripts of benchmarks wait for, held against what collections tell of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
import running_parts
from running_parts import LINKED_FROM, Parts, is_linked, wait_until_linked

NEWEST = 300


class Collections:
    """A client whose collections have these statistics, whichever is asked for."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self.stats = lambda: stats
        self.collection = lambda _: self

    def __enter__(self) -> Collections:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_newest_rows_without_links_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's worth of rows stays without links for ever, and is no reason to wait."""
    rows = np.random.default_rng(5).random((LINKED_FROM + NEWEST, 4), np.float32)
    ids = [str(i) for i in range(len(rows))]
    with kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("plain", dim=4)
        collection.add(ids[:LINKED_FROM], rows[:LINKED_FROM])
        before = collection.stats()
        assert before["links"] is None
        assert not is_linked(before, LINKED_FROM)
        collection.compact()
        collection.link()
        collection.add(ids[LINKED_FROM:], rows[LINKED_FROM:])
        after = collection.stats()
    assert after["links"]["unlinked_rows"] == NEWEST, "they stay so until there are enough of them"
    assert is_linked(after, len(rows))
    assert not is_linked(after, len(rows) + 1), "one is not counted yet"

    shards = {"shards": [{"stats": after}, {"stats": before}]}
    assert not is_linked(shards, len(rows) + LINKED_FROM), "every shard counts"
    assert is_linked({"shards": [{"stats": after}] * 3}, 3 * len(rows))

    monkeypatch.setattr(running_parts, "PATIENCE", 0.0)
    monkeypatch.setattr(running_parts, "Client", lambda *_, **__: Collections(shards))
    with pytest.raises(RuntimeError, match=r"300 of 12,588 have no links, 12,288 of 12,288 have no links"):
        wait_until_linked(Parts("http://127.0.0.1:1", {}, {}), len(rows) + LINKED_FROM)
