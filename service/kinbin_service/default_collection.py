"""The collection of the short routes, which nobody has to create: the first add does."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import kinbin
from kinbin_service.convert import VectorIn

__all__ = ["NAME", "add_to_default"]

NAME = "default"
KERNEL = "ngmm"


def add_to_default(
    database: kinbin.Database, ids: list[str] | None, vectors: Any, payloads: list[dict[str, Any] | None] | None, terms: Mapping[str, Any]
) -> kinbin.AddResult:
    """Add items to `default`; if it is not there, create it as its first vector is: of that dimension, or sparse.

    A first add that is refused leaves no collection behind, as its dimension would bind the next
    add: so it is tried on a database of its own before.
    """
    try:
        collection = database.collection(NAME)
    except kinbin.CollectionNotFound:
        if not len(vectors):
            return kinbin.AddResult(0, 0, 0, 0)
        dim = dimension(vectors[0])
        with tempfile.TemporaryDirectory(prefix="kinbin-first-add-") as scratch, kinbin.open(scratch) as trial:
            tried = trial.create_collection(NAME, kernel=KERNEL, dim=dim).add(ids, vectors, payloads=payloads, **terms)
        if not tried.count:
            return tried
        try:
            collection = database.create_collection(NAME, kernel=KERNEL, dim=dim)
        except kinbin.CollectionExists:
            collection = database.collection(NAME)
    return collection.add(ids, vectors, payloads=payloads, **terms)


def dimension(vector: VectorIn | Sequence[float]) -> int | None:
    """The dimension that a first vector gives a collection; None for a sparse one, and for tokens."""
    if isinstance(vector, kinbin.Sparse | kinbin.Tokens) or (len(vector) and isinstance(vector[0], str)):
        return None
    return len(vector)
