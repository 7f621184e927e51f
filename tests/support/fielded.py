"""Items with several vectors, and the obvious slow twin of searching them: every score by its definition, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
import naive

FIELDS: dict[str, dict[str, Any]] = {
    "colour": {"kernel": "chi2", "dim": 16},
    "words": {"kernel": "ngmm"},
    "texture": {"kernel": "gmm", "dim": 6},
}
"""A narrow, a wide and a signed one."""


def vectors(rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
    """Vectors of n items; many of `words` are the same."""
    words = rng.integers(0, 3, (n, 5)).astype(np.float64)
    words[:, 0] += 1.0
    return {"colour": rng.random((n, 16)) + 0.01, "words": words, "texture": rng.normal(size=(n, 6))}


def ids(n: int, start: int = 0) -> list[str]:
    """Ids of n items."""
    return [f"i{i:04d}" for i in range(start, start + n)]


def some(X: Mapping[str, NDArray[Any]], which: Any) -> dict[str, Any]:
    """Vectors of some items."""
    return {name: part[which] for name, part in X.items()}


def made(database: kinbin.Database, fields: Mapping[str, Mapping[str, Any]] = FIELDS, **options: Any) -> kinbin.FieldsCollection:
    """A new collection."""
    database.create_collection("c", fields=fields, **options)
    return database.fields_collection("c")


def filled(database: kinbin.Database, X: Mapping[str, NDArray[Any]], **options: Any) -> kinbin.FieldsCollection:
    """A collection of these items, with their place as payload."""
    collection = made(database, **options)
    n = len(X["colour"])
    collection.add(ids(n), X, [{"i": i} for i in range(n)])
    return collection


def parts(q: Mapping[str, NDArray[Any]], X: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float64]]:
    """By field (n,) the scores of a query, by definition."""
    return {name: naive.dense_scores(FIELDS[name]["kernel"], x, X[name]) for name, x in q.items()}


def combined(of: Mapping[str, NDArray[np.float64]], weights: Mapping[str, float] | None, combine: str) -> NDArray[np.float64]:
    """(n,) the combined scores, by definition."""
    if combine == "product":
        return np.asarray(np.prod(list(of.values()), axis=0))
    return np.asarray(sum((1 / len(of) if weights is None else weights[name]) * scores for name, scores in of.items()))


def hits(found: list[float], truth: NDArray[np.float64], k: int) -> float:
    """Recall at k, neighbours of equal score alike."""
    worst = float(np.sort(truth)[::-1][:k][-1])
    return min(k, int(np.sum(np.array(found[:k]) >= worst - 1e-9))) / k
