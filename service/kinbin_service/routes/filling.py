"""Batches into collections, whatever their items carry."""

from __future__ import annotations

from typing import Any

import kinbin
from kinbin_service.default_collection import add_to_default
from kinbin_service.objects import VECTOR, all_carried_by
from kinbin_service.routes.adding import Batch, check_key
from kinbin_service.routes.received import DEFAULT

__all__ = ["added", "fitted"]


def fitted(database: kinbin.Database, name: str, batch: Batch) -> Batch:
    """A batch that leaves out bad items, without those that carry something else than the collection's; others as they are."""
    if batch.source is None:
        return batch
    try:
        return batch.fitted(all_carried_by(database.collection(name)))
    except kinbin.CollectionNotFound:
        # The first add of vectors makes it.
        return batch.fitted((VECTOR,)) if name == DEFAULT else batch


def added(database: kinbin.Database, name: str, batch: Batch, terms: dict[str, Any]) -> kinbin.AddResult:
    """What the add of a batch did."""
    if batch.ids == [] and batch.bad:
        # Nothing good came: all that can be said is what there is.
        return kinbin.AddResult(0, 0, 0, database.collection(name).count())
    if isinstance(batch.vectors, dict):
        return database.fields_collection(name).add(batch.ids, batch.vectors, payloads=batch.payloads, **terms)
    if name == DEFAULT and batch.key == VECTOR:
        return add_to_default(database, batch.ids, batch.vectors, batch.payloads, terms)
    collection = database.collection(name)
    check_key(collection, batch.key, "#/items/0")
    return collection.add(batch.ids, batch.vectors, payloads=batch.payloads, **terms)
