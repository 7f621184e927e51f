"""Collections at a gateway: their names, what they are and hold, where their shards lie and how far each replica is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinbin_cluster.gateway.describing import configuration, together
from kinbin_cluster.gateway.reading import Part, Reading, gateway_of, heard
from kinbin_service.keys import visible
from kinbin_service.replies import encode, reply

__all__ = ["get_collection", "get_limits", "list_aliases", "list_collections"]


async def list_collections(request: Request) -> Response:
    """GET /v1/collections: their names, sorted; for a key of some collections, theirs."""
    names = sorted(gateway_of(request).picture.collections)
    return reply(encode({"collections": visible(request.scope, names)}))


async def list_aliases(request: Request) -> Response:
    """GET /v1/aliases: collections by alias."""
    aliases = gateway_of(request).picture.aliases
    return reply(encode({"aliases": {name: aliases[name].collection for name in sorted(aliases)}}))


async def get_collection(request: Request) -> Response:
    """GET /v1/collections/{name}: configuration, number of items, and of each shard who holds it, how far it is, and its index."""
    reading = Reading.of(request, request.path_params["name"])
    reading.partial = True
    async with heard(request):
        parts = await reading.ask([(shard, "", b"") for shard in reading.shards], method="GET")
    gateway, collection = reading.gateway, reading.collection
    told = configuration(gateway.schemas.of(collection), collection)
    told |= {"count": sum(part.content["count"] for part in parts), "stats": _stats(reading, parts)}
    return reply(encode(reading.told(told)))


async def get_limits(request: Request) -> Response:
    """GET /v1/collections/{name}/limits: of all shards together."""
    reading = Reading.of(request, request.path_params["name"])
    async with heard(request):
        parts = await reading.ask([(shard, "/limits", b"") for shard in reading.shards], method="GET")
    contents = [part.content for part in parts]
    items = None if any(one["items"] is None for one in contents) else sum(one["items"] for one in contents)
    return reply(encode({"items": items, "bytes": None, "count": sum(one["count"] for one in contents)}))


def _stats(reading: Reading, parts: Sequence[Part]) -> dict[str, Any]:
    picture, uid = reading.gateway.picture, reading.collection.uid
    by_shard = {part.shard: part.content["stats"] for part in parts}
    shards = []
    for shard in reading.shards:
        record = picture.shards.get((uid, shard))
        replicas = [_replica(reading, shard, node) for node in (record.nodes if record else ())]
        applied = [one["applied"] for one in replicas if one["applied"] is not None]
        lag = max(applied) - min(applied) if applied else None
        shards.append({"shard": shard, "replicas": replicas, "lag": lag, "stats": by_shard.get(shard)})
    return {"name": reading.collection.name, **together(by_shard), "shards": shards}


def _replica(reading: Reading, shard: int, node: str) -> Mapping[str, Any]:
    picture = reading.gateway.picture
    told = picture.replica(reading.collection.uid, shard, node)
    return {
        "node": node,
        "live": picture.is_live(node),
        "state": None if told is None else told.state,
        "applied": None if told is None else told.applied,
        "problem": None if told is None else told.problem,
    }
