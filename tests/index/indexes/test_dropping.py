"""A collection that is dropped while its payload indexes are built: nothing is left to do, and nothing has failed."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.indexes import file
from kinbin.indexes.index import Index
from kinbin.upkeep import indexing


@pytest.mark.parametrize("late", ["save", "built"])
def test_dropping_during_a_build_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, late: str
) -> None:
    """Whether the files go before the index is saved or while it is made, no warning is logged and no failure is counted."""
    begun = threading.Event()
    folder = tmp_path / "data" / "collections" / "c"

    def until_gone(act: Any) -> Any:
        def call(*arguments: Any) -> Any:
            begun.set()
            ends = time.monotonic() + 60
            while folder.exists() and time.monotonic() < ends:
                time.sleep(0.005)
            return act(*arguments)

        return call

    if late == "save":
        monkeypatch.setattr(indexing, "save", until_gone(file.save))
    else:
        monkeypatch.setattr(Index, "built", until_gone(Index.built))
    with caplog.at_level(logging.WARNING, "kinbin"), kinbin.open(tmp_path / "data") as database:
        collection = database.create_collection("c", dim=3, indexes={"n": "number"})
        collection.add(list("abc"), np.eye(3) + 1, [{"n": i} for i in range(3)])
        collection.count({"n": 1})
        assert begun.wait(60)
        database.drop_collection("c")
        assert collection.background()["indexes"]["failures"] == 0
    assert [record.getMessage() for record in caplog.records] == []
