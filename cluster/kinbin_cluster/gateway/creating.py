"""New collections: their logs first, then the registry's records; the record of the name is what makes a collection."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import Any

import kinbin
from kinbin_cluster.errors import Aliased, Exists, LogUnavailable
from kinbin_cluster.errors import NoPlace as NoNodes
from kinbin_cluster.picture import Collection, Picture
from kinbin_cluster.placement import place
from kinbin_service.default_collection import KERNEL, dimension
from kinbin_service.problems import Refusal
from kinbin_service.routes.adding import Batch
from kinbin_service.routes.received import DEFAULT

__all__ = ["REPLICAS", "SHARDS", "created", "created_default", "not_known"]

SHARDS = 3
REPLICAS = 2
"""Of a collection that asks for no other numbers; of a cluster of fewer nodes, as many replicas as there are."""
_LIVE_SECONDS = 10.0


async def created(service: Any, name: str, schema: kinbin.Schema, shards: int, replicas: int | None) -> Collection:
    """A new collection; returns when each shard has a replica that answers, or after 10 seconds; or when it was dropped meanwhile.

    replicas: None: two, or as many as there are nodes.

    Raises:
        Exists: there is one of this name, `held`. AliasConflict: the name is an alias. Refusal: no node is there for so many replicas; NATS
        does not answer.
    """
    nodes = service.picture.reached()
    uid = secrets.token_hex(6)
    try:
        wanted = min(REPLICAS, max(1, len(nodes))) if replicas is None else replicas
        placement = place(uid, shards, wanted, nodes)
    except NoNodes as error:
        raise Refusal("shard_unavailable", f"{error}; nothing was created") from None
    collection = Collection(name, uid, shards, wanted, schema.options, time.time())
    try:
        await asyncio.gather(*(service.log.ensure_stream(uid, shard) for shard in range(shards)))
        await service.registry.create_collection(collection, placement)
    except Aliased:
        raise kinbin.AliasConflict("the name is an alias") from None
    except LogUnavailable:
        raise not_known() from None
    await service.registry.wait_for(lambda picture: picture.collection_of(uid) is None or _answers(picture, collection), _LIVE_SECONDS)
    return collection


def not_known() -> Refusal:
    """The refusal of a change that the registry did not acknowledge."""
    return Refusal("outcome_unknown", "the registry did not acknowledge it in time: it may be done or not; send it again")


async def created_default(service: Any, batch: Batch) -> Collection:
    """The collection `default`, as the first vector of a batch is. A batch that is refused leaves none behind."""
    vectors: Any = batch.vectors
    schema = kinbin.Schema(kernel=KERNEL, dim=dimension(vectors[0]))
    ids = batch.ids if batch.ids is not None else [str(number) for number in range(len(vectors))]
    checked = schema.check(ids, vectors, batch.payloads, batch.mode, on_error=batch.on_error)
    if batch.mode == "update" and batch.on_error == "reject":
        raise kinbin.ItemConflict(f"{len(ids)} of {len(ids)} ids are not in the collection; use mode insert or upsert; nothing was written")
    if not checked.ids:
        raise kinbin.CollectionNotFound("no item is good, and the collection default is not there yet")
    try:
        return await created(service, DEFAULT, schema, SHARDS, None)
    except Exists as exists:
        held = exists.held
        assert isinstance(held, Collection)
        return held


def _answers(picture: Picture, collection: Collection) -> bool:
    """Whether each shard has a replica that is live."""
    for shard in range(collection.shards):
        told: Mapping[str, int] = picture.applied(collection.uid, shard)
        replicas = [picture.replica(collection.uid, shard, name) for name in told]
        if not any(one is not None and one.state == "live" for one in replicas):
            return False
    return True
