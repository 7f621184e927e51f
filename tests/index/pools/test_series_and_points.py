"""Pools of series and of point sets: exact distances, calibrated recall, and the same after reopening."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.distances.named import matrix_of
from kinbin.distances.ragged import ragged

CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "dtw": ({"items": "series", "dim": 2}, {"parts of time", "landmarks"}),
    "euclidean": ({"items": "series", "dim": 2, "parameters": {"length": 24}}, {"parts of time", "landmarks"}),
    "hausdorff": ({"items": "points", "dim": 2}, {"anchors", "landmarks"}),
    "modified_hausdorff": ({"items": "points", "dim": 4}, {"random sets", "landmarks"}),
}

SETTINGS = {
    "parts of time": {"parts", "low", "high"},
    "landmarks": {"landmarks", "gamma"},
    "anchors": {"anchors", "gamma", "low", "high"},
    "random sets": {"random_sets", "gamma", "centre", "radius"},
}
"""What `stats` tells of each kind of rows."""


def _curves(rng: np.random.Generator, count: int, dims: int) -> list[np.ndarray]:
    """Noisy copies of a few dozen walks."""
    walks = np.cumsum(np.random.default_rng(11).normal(size=(count // 6, 24, dims)), axis=1)
    return [(walks[i % len(walks)] + rng.normal(size=(24, dims)) * 0.2).astype(np.float32) for i in range(count)]


@pytest.mark.slow
@pytest.mark.recall
@pytest.mark.parametrize("distance", CASES)
def test_pools_find_the_nearest(distance: str, db: kinbin.Database, rng: np.random.Generator, pools: None) -> None:
    """Linked objects are found by a pool: each distance is exact, nine in ten of the nearest are there, and reopening changes nothing."""
    settings, tried = CASES[distance]
    stored, queries = _curves(rng, 420, settings["dim"]), _curves(rng, 20, settings["dim"])
    collection = db.create_collection("c", distance=distance, seed=1, **settings)
    collection.add([str(i) for i in range(420)], stored)
    collection.link()
    told = collection.stats()["pools"]
    assert set(told["tried"]) == tried
    assert set(told["settings"]) == SETTINGS[told["embedding"]]
    for name, greatest in (("low", np.min), ("high", np.max)):
        if name in told["settings"]:
            np.testing.assert_array_equal(told["settings"][name], greatest(stored, axis=(0, 1)))
    exact = matrix_of(distance, {"window": 0.1})(ragged(queries), ragged(stored))
    with kinbin.open(db.path) as again:
        for one in (collection, again.collection("c")):
            assert one.stats()["pools"]["settings"] == told["settings"]
            found = 0.0
            for query, row in zip(queries, exact, strict=True):
                answer = one.query(query, k=5, mode="links")
                assert answer.mode == "pool"
                np.testing.assert_allclose(answer.scores, [row[int(key)] for key in answer.ids], rtol=1e-9)
                found += float((answer.scores <= np.sort(row)[4] * (1 + 1e-9)).mean()) / len(queries)
            assert found >= 0.9


@pytest.mark.parametrize(("items", "one"), [("strings", "word"), ("series", [1.0, 2.0, 3.0]), ("points", [[0.0, 1.0], [2.0, 3.0]])])
def test_one_object_is_linked(items: str, one: Any, db: kinbin.Database, pools: None) -> None:
    """Where all objects are one, there is nothing to choose an embedding by: linking warns of nothing, and the one is found."""
    collection = db.create_collection("c", items=items, dim=2 if items == "points" else None)
    collection.add(["a", "b"], [one, one])
    collection.link()
    assert collection.query(one, k=2).ids == ["a", "b"]
    json.dumps(collection.stats(), allow_nan=False)
