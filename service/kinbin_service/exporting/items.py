"""The items of a collection, page by page: a library's or a client's, with vectors and objects in one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin

__all__ = ["Stored", "pages"]

PAGE_VALUES = 1_048_576
"""Numbers that a page is to hold at most: wide vectors make short pages."""


_NOTHING = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Stored:
    """An item as it is stored. A dense vector has float32 `values` and no `features`, a sparse one both."""

    id: str
    values: NDArray[np.float32]
    features: NDArray[np.int64] | None
    payload: dict[str, Any] | None
    fields: Mapping[str, tuple[NDArray[np.float32], NDArray[np.int64] | None]] | None = None
    """By field, values and features, of items that have several vectors and none of their own."""
    object: Any = None
    """A string, series or point set, which has neither of them."""


def pages(collection: Any, dim: int | None, condition: Any) -> Iterator[list[Stored]]:
    """All items that fit a filter (None: all), in the order of their ids, from a `kinbin.Collection` or a `kinbin_client.Collection`.

    Each page is one snapshot: items that are added, changed or deleted meanwhile may be in it as they were or as they are.
    """
    most = int(kinbin.LIMITS["page"].value)
    rows = max(1, min(most, PAGE_VALUES // (dim or 4_096)))
    after = None
    while True:
        page = collection.scroll(after=after, limit=rows, filter=condition, include=("payload", "vector"))
        held = [_stored(item) for item in page.items]
        if held:
            yield held
        after = page.next
        if after is None:
            return
        widest = max((_size(one) for one in held), default=1)
        rows = max(1, min(most, PAGE_VALUES // max(1, widest)))


def _size(item: Stored) -> int:
    """The numbers of an item."""
    return item.values.size if item.fields is None else sum(values.size for values, _ in item.fields.values())


def _stored(item: Any) -> Stored:
    if item.object is not None:
        stored = item.object if isinstance(item.object, str) else np.asarray(item.object, np.float32)
        return Stored(item.id, _NOTHING, None, item.payload, object=stored)
    if item.vectors is not None:
        return Stored(item.id, _NOTHING, None, item.payload, {name: _numbers(vector) for name, vector in item.vectors.items()})
    return Stored(item.id, *_numbers(item.vector), item.payload)


def _numbers(vector: Any) -> tuple[NDArray[np.float32], NDArray[np.int64] | None]:
    """Values and features of a vector of the library or the client."""
    if hasattr(vector, "indices"):
        return np.asarray(vector.values, np.float32), np.asarray(vector.indices, np.int64)
    return np.asarray(vector, np.float32), None
