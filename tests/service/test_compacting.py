"""Compaction over HTTP."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import kinbin
from service_app import App, eventually

AT = "/v1/collections/c"


@pytest.fixture
async def filled(app: App) -> App:
    """A collection of 400 items, nine in ten of which were deleted."""
    rows = np.random.default_rng(1).random((400, 32)).tolist()
    await app.put(AT, {"dim": 32})
    await app.post(f"{AT}/index", {"items": [{"id": str(i), "vector": row} for i, row in enumerate(rows)]})
    await app.post(f"{AT}/delete", {"ids": [str(i) for i in range(360)]})
    return app


async def test_everything_becomes_one_run(filled: App) -> None:
    """What lives is in one run afterwards, is answered as before, and the answer says what the files take; no body will do."""
    asked = {"vector": [1] * 32, "k": 40, "mode": "exact"}
    before = await filled.post(f"{AT}/query", asked)
    done = await filled.post(f"{AT}/compact", {})
    assert done["freed_bytes"] == done["before_bytes"] - done["after_bytes"]
    stats = (await filled.get(AT))["stats"]
    assert (len(stats["runs"]), stats["runs"][0]["rows"]) == (1, 40)
    assert (await filled.post(f"{AT}/query", asked))["results"] == before["results"]
    assert (await filled.client.post(f"{AT}/compact")).status_code == 200


async def test_disk_is_given_back(filled: App) -> None:
    """With shrink the files get shorter than merging leaves them, and everything is there."""
    await filled.post(f"{AT}/compact", {})
    done = await filled.post(f"{AT}/compact", {"shrink": True})
    assert done["after_bytes"] < done["before_bytes"]
    assert (await filled.post(f"{AT}/count", {}))["count"] == 40


async def test_refusals(filled: App) -> None:
    """What is no option, and a collection that is not there, is refused."""
    assert (await filled.post(f"{AT}/compact", {"shrink": "yes"}, status=422))["errors"][0]["pointer"] == "#/shrink"
    assert (await filled.post("/v1/collections/none/compact", {}, status=404))["code"] == "collection_not_found"


async def test_one_at_a_time(filled: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a worker compacts it refuses to do it again, and answers queries."""
    gate, begun = threading.Event(), threading.Event()
    compact = kinbin.Collection.compact

    def slow(collection: kinbin.Collection, **asked: Any) -> Any:
        begun.set()
        assert gate.wait(30)
        return compact(collection, **asked)

    monkeypatch.setattr(kinbin.Collection, "compact", slow)
    first = asyncio.create_task(filled.post(f"{AT}/compact", {}))
    await eventually(begun.is_set)
    refused = await filled.post(f"{AT}/compact", {}, status=429)
    assert (refused["code"], refused["limit"]) == ("overloaded", "long_work")
    assert len((await filled.post(f"{AT}/query", {"id": "399", "k": 3}))["results"]) == 3
    gate.set()
    await first
