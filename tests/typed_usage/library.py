"""The library as a user of it writes: this file is checked by mypy in strict mode, and run by a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import kinbin


def build(folder: Path) -> kinbin.Collection:
    """Databases and collections."""
    db = kinbin.open(folder)
    assert_type(db, kinbin.Database)
    assert_type(db.path, Path)
    photos = db.create_collection("photos", kernel="ngmm", dim=3, sampler="gcws", bands=64, rows=2, seed=1)
    assert_type(photos, kinbin.Collection)
    db.create_collection("photos", dim=3, exist_ok=True)
    db.create_collection("texts")
    assert_type(db.collections(), list[str])
    assert_type(db.collection("photos"), kinbin.Collection)
    assert_type(photos.name, str)
    assert_type(photos.config, kinbin.CollectionConfig)
    assert_type(photos.config.dim, int | None)
    assert_type(photos.config.kernel, str)
    return photos


def fill(photos: kinbin.Collection, texts: kinbin.Collection) -> None:
    """Vectors in their forms."""
    X = np.random.default_rng(1).random((3, 3))
    added = photos.add(["a", "b", "c"], X, [{"year": 2020}, None, {"tags": ["x"]}])
    assert_type(added, kinbin.AddResult)
    assert_type((added.indexed, added.updated, added.unchanged, added.count), tuple[int, int, int, int])
    photos.add(("a", "b"), X[:2].astype(np.float32), mode="update")
    photos.add(["d"], [[1, 2.5, 0]], mode="insert")
    texts.add(["t"], [{"red": 3, "apple": 1}])
    texts.add(["u"], [kinbin.Tokens({"red": 1})])
    texts.add(["s", "s2", "s3"], [{"red", "apple"}, ["red", "apple"], kinbin.Tokens(["red"])])
    assert_type(kinbin.shingles("The quick brown fox", words=2), dict[str, int])
    texts.add(["s4"], [kinbin.shingles("The quick brown fox", characters=5, segments="unicode")])
    texts.add(["v", "w"], [{7: 1.5, 2**40: 2}, kinbin.Sparse([1, 2], [0.5, 0.5])])
    texts.add(["x"], [kinbin.Sparse(np.array([1, 2]), np.array([0.5, 0.5]))])
    assert_type(kinbin.token_feature("red"), int)
    gone = photos.delete(["d"])
    assert_type(gone, kinbin.DeleteResult)
    assert_type(gone.deleted, int)
    photos.delete(filter={"year": {"$lt": 2000}})


def ask(photos: kinbin.Collection) -> list[str]:
    """Queries."""
    answer = photos.query([1, 0, 2.5], k=2, target_recall=0.8, min_score=0.1, filter={"year": 2020}, mode="bands")
    answer = photos.query(np.ones(3))
    assert_type(answer, kinbin.Answer)
    assert_type(answer.ids, list[str])
    assert_type(answer.scores, NDArray[np.float64])
    assert_type(answer.recall_lower_bound, float | None)
    assert_type(answer.no_bound, str | None)
    assert_type((answer.verified, answer.candidates), tuple[int, int])
    assert_type(answer.truncated, list[str])
    assert_type(answer.mode, str)
    assert_type(photos.query_id("a", k=1), kinbin.Answer)
    assert_type(photos.query_id("a", include=["payload"]).items, list[kinbin.Item] | None)
    assert_type(photos.query_id("a", exclude=["b"], include_self=True, cursor="", debug=True).next, str | None)
    assert_type(photos.query([1, 0, 2.5], group_by={"field": "shot", "size": 2}).groups, list[kinbin.Group] | None)
    assert_type(photos.query_examples(["a", [1, 0, 2.5]], ["b"], k=3, mode="exact"), kinbin.Answer)
    assert_type(photos.query_each([kinbin.Query(id="a", options=kinbin.QueryOptions(k=2))]), list[kinbin.Answer])
    batch = photos.query_batch(np.ones((2, 3)), k=2, include=("payload", "vector"))
    assert_type(batch.items, dict[str, kinbin.Item] | None)
    assert_type(batch, kinbin.AnswerBatch)
    assert_type(batch.recall_lower_bounds, NDArray[np.float64])
    assert_type(batch.no_bounds, list[str | None])
    assert_type(batch[0], kinbin.Answer)
    return [name for one in batch for name in one.ids] + answer.ids


def read(photos: kinbin.Collection) -> dict[str, Any]:
    """Items, pages, numbers."""
    items = photos.get(["a", "nobody"], include=["vector"])
    assert_type(items, list[kinbin.Item | None])
    first = items[0]
    assert first is not None
    assert_type(first.id, str)
    assert_type(first.payload, dict[str, Any] | None)
    assert isinstance(first.vector, np.ndarray)
    page = photos.scroll(limit=2, include=("payload", "vector"))
    assert_type(page.items, list[kinbin.Item])
    assert_type(page.next, str | None)
    page = photos.scroll(page.next, filter={"year": {"$exists": True}})
    assert_type(photos.count(), int)
    photos.count(filter={"$or": [{"year": 2020}, {"tags": "x"}]})
    report = photos.check(lambda text: None)
    assert_type(report, kinbin.CheckReport)
    assert_type(report.problems, list[str])
    photos.compact()
    stats = photos.stats()
    assert_type(stats, dict[str, Any])
    return stats


def refuse(photos: kinbin.Collection) -> tuple[str, int | None]:
    """Errors."""
    try:
        photos.add(["a"], [[0, 0, 0]])
    except kinbin.InvalidInput as error:
        assert_type(error.problems, tuple[kinbin.Problem, ...])
        assert_type(error.problems[0].position, int | None)
        assert_type(error.problems[0].limit, str | None)
        return error.code, error.problems[0].position
    except kinbin.KinbinError as error:
        assert_type(error.code, str)
        raise
    raise AssertionError


def tables() -> list[str]:
    """Kernels and limits as data."""
    assert_type(kinbin.KERNELS, Mapping[str, kinbin.Kernel])
    assert_type(kinbin.LIMITS, dict[str, kinbin.Limit])
    kernel = kinbin.KERNELS["gint"]
    assert_type((kernel.name, kernel.title, kernel.signed, kernel.normalised), tuple[str, str, bool, bool])
    assert_type(kinbin.LIMITS["k"].value, int | float)
    assert_type(kinbin.__version__, str)
    return sorted(kinbin.KERNELS)


def main(folder: Path) -> dict[str, Any]:
    """All of it, one after the other."""
    photos = build(folder)
    with kinbin.open(folder) as db:
        fill(photos, db.collection("texts"))
        found = {"asked": ask(photos), "stats": read(photos), "refused": refuse(photos), "kernels": tables()}
        db.drop_collection("texts")
    return found
