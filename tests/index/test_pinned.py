"""The items of a pinned collection, with their canonical rows and digests: what another collection is filled with, and compared by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin

PLAIN: dict[str, Any] = {"kernel": "minmax", "dim": 4, "seed": 5}
FIELDS: dict[str, Any] = {"fields": {"one": {"dim": 4}, "two": {"dim": 4, "kernel": "chi2"}}, "seed": 5}
STRINGS: dict[str, Any] = {"items": "strings", "seed": 5}
ALL = [PLAIN, FIELDS, STRINGS]


def objects(options: dict[str, Any], rng: np.random.Generator, n: int) -> Any:
    """What n items of a collection are made of."""
    X = rng.random((n, 4)) + 0.1
    if options is STRINGS:
        return [f"the string {i} of {n - i}" for i in range(n)]
    return {"one": X, "two": X[::-1].copy()} if options is FIELDS else X


def some(options: dict[str, Any], X: Any, which: range) -> Any:
    """Those of some items."""
    if options is FIELDS:
        return {name: one[list(which)] for name, one in X.items()}
    return [X[i] for i in which]


def filled(database: kinbin.Database, name: str, options: dict[str, Any], X: Any, which: range) -> Any:
    """A collection of some of the items."""
    collection: Any = database.create_collection(name, **options)
    collection.add([f"i{i}" for i in which], some(options, X, which), [{"n": i} if i % 2 else None for i in which])
    return collection


@pytest.mark.parametrize("options", ALL, ids=["plain", "fields", "strings"])
def test_digests_of_parts_add_up(tmp_path: Path, rng: np.random.Generator, options: dict[str, Any]) -> None:
    """However items are spread over collections, the sums add up to that of all in one; another payload, vector or id is another sum."""
    X = objects(options, rng, 30)

    def digest(collection: Any) -> int:
        with collection.pinned() as pinned:
            return int(pinned.set_digest(), 16)

    with kinbin.open(tmp_path) as database:
        whole = filled(database, "whole", options, X, range(30))
        parts = [filled(database, f"part{at}", options, X, range(at, 30, 3)) for at in range(3)]
        parts[0].compact()
        total = digest(whole)
        assert sum(map(digest, parts)) % (1 << 128) == total != 0
        seen = {total}
        whole.set_payload(["i1"], [{"n": 2}])
        seen.add(digest(whole))
        whole.add(["i2"], some(options, X, range(3, 4)))
        seen.add(digest(whole))
        whole.delete(["i3"])
        seen.add(digest(whole))
        assert len(seen) == 4


@pytest.mark.parametrize("options", ALL, ids=["plain", "fields", "strings"])
def test_contents_and_rows_make_the_same_collection(tmp_path: Path, rng: np.random.Generator, options: dict[str, Any]) -> None:
    """A collection that is filled with the ids, payloads and rows of a pinned one has its digest, and holds nothing written later."""
    X = objects(options, rng, 30)
    with kinbin.open(tmp_path) as database:
        source = filled(database, "source", options, X, range(20))
        target: Any = database.create_collection("target", **options)
        with source.pinned() as pinned:
            source.add(["later"], some(options, X, range(25, 26)))
            for items in pinned.contents():
                assert all(len(one) == 16 for one in items.digests)
                target.together().add(items.ids, pinned.rows(items.numbers), items.payloads, now=0.0).commit(lambda _: {})
            with target.pinned() as copied:
                assert (copied.count, copied.digest(), copied.set_digest()) == (20, pinned.digest(), pinned.set_digest())
