"""How deep fields are searched: measured on stored items, so that the target is kept on queries to come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from fielded import hits, made
from linked import still

Loader = Callable[[str], dict[str, Any]]
N = 3_000
FIELDS: dict[str, dict[str, Any]] = {"colour": {"kernel": "chi2", "dim": 512}, "texture": {"kernel": "gmm", "dim": 48}}


@pytest.fixture
def patches(data_set: Loader) -> tuple[dict[str, Any], dict[str, Any]]:
    """Items and queries: colours and contrasts of the same patches of photographs."""
    sets = {"colour": data_set("photographs"), "texture": data_set("photograph contrasts")}
    return {name: one["X_train"][:N] for name, one in sets.items()}, {name: one["X_test"][:60] for name, one in sets.items()}


@pytest.mark.recall
@pytest.mark.slow
def test_auto_finds_what_a_scan_finds(tmp_path: Path, patches: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """At the default target auto finds 95 % of the ten best of sums and products, with exact scores; what was measured is kept."""
    X, Q = patches
    with still(), kinbin.open(tmp_path) as db:
        c = made(db, FIELDS, seed=1)
        c.add([str(i) for i in range(N)], X)
        c.link()
        for weights, combine in (({"colour": 0.7, "texture": 0.3}, "sum"), (None, "sum"), (None, "product")):
            exact = c.query_batch(Q, weights, combine, mode="exact")
            near = c.query_batch(Q, weights, combine, mode="links")
            auto = c.query_batch(Q, weights, combine)
            assert set(near.modes) <= {"links", "bands"}
            for found in (near, auto):
                recall = np.mean([hits(found.scores[i].tolist(), exact.scores[i], 10) for i in range(len(exact))])
                assert recall >= 0.95, recall
            known = {identifier: score for row in exact for identifier, score in zip(row.ids, row.scores, strict=True)}
            assert known
            for i in range(5):
                same = dict(zip(exact[i].ids, exact[i].scores, strict=True))
                assert all(same[one] == score for one, score in zip(near[i].ids, near[i].scores, strict=True) if one in same)
        told = c.stats()["depths"]
        assert len(told) == 6
        assert all(one["items"] == N for one in told.values())
    with kinbin.open(tmp_path) as db:
        again: Any = db.collection("c")
        assert again.stats()["depths"] == told


def test_depths_are_measured_anew_when_items_have_doubled() -> None:
    """What was measured serves until there are twice or half as many items."""
    from kinbin.fields.depths import Depth

    depth = Depth(1_000, 1_200, 40, 0.97, True, 10.0, 100.0)
    assert [depth.serves(items, 1_200) for items in (499, 500, 2_000, 2_001)] == [False, True, True, False]
    assert [depth.serves(1_000, written) for written in (1_700, 1_701)] == [True, False]
    assert not depth.scans
    assert Depth(1_000, 1_200, 40, 0.97, False, 10.0, 100.0).scans
    assert Depth(1_000, 1_200, 40, 0.97, True, 100.0, 10.0).scans


@pytest.mark.recall
def test_what_was_measured_serves_only_what_is_asked_so(db: kinbin.Database, quiet: None, rng: np.random.Generator) -> None:
    """A little weight is not none, a filter and more than a hundred neighbours are answered by everything, and replaced items count."""
    n = 2_400
    a = 1.0 + 0.01 * rng.random((n, 24))
    b = rng.gamma(0.3, size=(80, 24))[rng.integers(0, 80, n)] * rng.lognormal(0, 0.3, (n, 24)) + 1e-6
    c = made(db, {"a": {"dim": 24}, "b": {"dim": 24}}, seed=1)
    ids = [str(i) for i in range(n)]
    c.add(ids, {"a": a, "b": b}, payloads=[{"n": i} for i in range(n)])
    with still():
        c.link()
    queries = {"a": a[::60], "b": b[::60]}
    asked: list[dict[str, Any]] = [
        {"weights": {"a": 1.0, "b": 0.0}}, {"weights": {"a": 0.95, "b": 0.05}}, {"weights": {"a": 0.9, "b": 0.1}},
        {"filter": {"n": {"$lt": 700}}}, {"k": 300},
    ]  # fmt: skip
    for options in asked:
        exact = c.query_batch(queries, mode="exact", **options)
        auto = c.query_batch(queries, **options)
        k = options.get("k", 10)
        assert np.mean([hits(auto.scores[i].tolist(), exact.scores[i], k) for i in range(len(exact))]) >= 0.95, options
        if "filter" in options or k > 100:
            assert set(auto.modes) == {"exact"}
    before = {key: one["written"] for key, one in c.stats()["depths"].items()}
    c.add(ids, {"a": b, "b": a})
    c.query_batch(queries, weights={"a": 0.9, "b": 0.1})
    assert any(one["written"] > before.get(key, 10**9) for key, one in c.stats()["depths"].items())


def test_damaged_depths_are_measured_again(db: kinbin.Database, quiet: None) -> None:
    """What another version measured, or nobody can read, is passed over."""
    c = made(db, {"a": {"dim": 4}})
    with c._store.write() as writer:
        writer.put_depths({"x": {"items": 3}, "y": 5})
    from kinbin.fields.depths import Depths

    assert Depths(c._store).told() == {}
