"""The schemas of collections, kept as long as their collections are used: making one takes a millisecond."""

from __future__ import annotations

from collections import OrderedDict

import kinbin
from kinbin.errors import nearest
from kinbin_cluster.picture import Collection, Picture

__all__ = ["Schemas", "collection_named"]

_KEPT = 256


class Schemas:
    """By the uid of their collection; for one event loop."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, kinbin.Schema] = OrderedDict()

    def of(self, collection: Collection) -> kinbin.Schema:
        """The schema of a collection."""
        found = self._kept.get(collection.uid)
        if found is None:
            found = self._kept[collection.uid] = kinbin.Schema(**collection.configuration)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(collection.uid)
        return found


def collection_named(picture: Picture, name: str) -> Collection:
    """The collection of a name, or alias.

    Raises:
        kinbin.CollectionNotFound; kinbin.InvalidInput: code "bad_name".
    """
    kinbin.Schema.check_name(name)
    found = picture.resolved(name)
    if found is None:
        raise kinbin.CollectionNotFound(f"no collection is named {name!r}", nearest(name, sorted(picture.collections)))
    return found
