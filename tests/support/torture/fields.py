"""A collection of two fields, used like one of a single vector: what an item has in one field stands turned round in the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin

__all__ = ["FILES", "InTwoFields", "create"]

_NAMES = ("plain", "turned")
FILES = ("data.mdb", *(f"fields/{name}/data.mdb" for name in _NAMES))
"""Of such a collection, within its directory."""


def create(database: kinbin.Database, name: str, options: dict[str, Any], seed: int) -> InTwoFields:
    """Make a collection with two fields."""
    return InTwoFields(database.create_collection(name, fields=dict.fromkeys(_NAMES, options), seed=seed))


def _both(vectors: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Rows of other bytes in each field, and the same kernel of any two of them: it is a sum over features."""
    return {"plain": vectors, "turned": vectors[..., ::-1]}


class InTwoFields:
    """The methods that a campaign uses. The mean of the kernels of both fields is the kernel of one vector."""

    def __init__(self, collection: Any) -> None:
        self.collection = collection
        for name in ("count", "delete", "link", "compact", "check", "scroll"):
            setattr(self, name, getattr(collection, name))

    @property
    def parts(self) -> list[Any]:
        """The collection of each field."""
        return list(self.collection._fields.values())

    def add(self, ids: list[str], vectors: NDArray[np.float32], payloads: list[Any]) -> Any:
        """See `Collection`, as of the others."""
        return self.collection.add(ids, _both(vectors), payloads)

    def get(self, ids: list[str]) -> list[Any]:
        """An item with different vectors has none."""
        found = self.collection.get(ids)
        return [None if item is None else kinbin.Item(item.id, _one(item.vectors), item.payload) for item in found]

    def query(self, vector: NDArray[np.float32], **asked: Any) -> Any:
        """By both fields."""
        return self.collection.query(_both(vector), **asked)

    def query_batch(self, vectors: NDArray[np.float32], **asked: Any) -> Any:
        """By both fields."""
        return self.collection.query_batch(_both(vectors), **asked)


def _one(vectors: dict[str, Any]) -> Any:
    plain, turned = vectors["plain"], vectors["turned"]
    return plain if np.array_equal(plain, turned[::-1]) else None
