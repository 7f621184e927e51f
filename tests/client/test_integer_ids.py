"""Integers as ids in the client: they travel as their digits, so that services of every version take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kinbin_client import AsyncClient, Client, Query

X = np.eye(4, dtype=np.float32) + np.float32(0.1)


def test_a_client_takes_integers_wherever_it_takes_ids(local_path: Path) -> None:
    """Adds, gets, queries, exclusions, examples, versions, payloads and deletes take integers; answers hold strings."""
    with Client(path=local_path) as client:
        client.create_collection("c", dim=4)
        collection = client.collection("c")
        mixed: list[Any] = [5, np.int64(6), "7", 2**64 - 1]
        assert collection.add(mixed, X).indexed == 4
        assert [item.id for item in collection.get([5, 6]).items] == ["5", "6"]
        assert collection.query_id(5, k=1, exclude=[6]).ids == collection.query_id("5", k=1, exclude=["6"]).ids
        assert collection.query_examples([5], [6], k=1).ids == collection.query_examples(["5"], ["6"], k=1).ids
        assert collection.query_each([Query(id=5)])[0].ids == collection.query_id("5").ids
        assert collection.versions([5, 8]) == [*collection.versions(["5"]), 0]
        assert collection.set_payload([5], [{"n": 1}]).updated == 1
        array: Any = np.arange(5, 7)
        assert collection.add(array, X[:2], [{"n": 1}, None]).updated == 0
        assert collection.delete([5, "6"]).deleted == 2


async def test_an_async_client_does_too(local_path: Path) -> None:
    """The awaited half takes integers alike."""
    async with AsyncClient(path=local_path) as client:
        await client.create_collection("c", dim=4)
        collection = client.collection("c")
        await collection.add([5, 6], X[:2])
        assert (await collection.query_id(5, k=1)).ids == ["6"]
        assert await collection.versions([5, 8]) == [*await collection.versions(["5"]), 0]
        assert (await collection.delete([5])).deleted == 1
