"""Writes through a gateway: the bodies and the answers of one node, and in these what is atomic and the token of what was written.

A write is cut by shard. Each part is atomic, and 200 means that a quorum of the log's servers has all of them on disk, and that a
replica of each shard has applied its part. See `publishing` for what is refused in part, or not known.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.gateway.adding import added
from kinbin_cluster.gateway.changing import changing, index_parts, limit_parts
from kinbin_cluster.gateway.collections import refuse_bytes
from kinbin_cluster.gateway.cutting import Part, edits_by_id, same_for_all
from kinbin_cluster.gateway.fanout import Asked
from kinbin_cluster.gateway.publishing import Written, written
from kinbin_cluster.gateway.schemas import collection_named
from kinbin_cluster.gateway.streaming import stream_index
from kinbin_cluster.gateway.tokens import HEADER, Token
from kinbin_cluster.gateway.transport import Request as HttpRequest
from kinbin_cluster.message import Edit
from kinbin_cluster.picture import Collection
from kinbin_service.bodies import JSON, MULTIPART, NDJSON, NPY
from kinbin_service.documented import without
from kinbin_service.limits import is_stream
from kinbin_service.problems import Place, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import parse_batch
from kinbin_service.routes.compacting import COMPACT
from kinbin_service.routes.indexes import CHANGE
from kinbin_service.routes.items import DELETE, INDEX
from kinbin_service.routes.received import DEFAULT, Name, received, received_json
from kinbin_service.routes.writes import HOLDS, PAYLOAD
from kinbin_service.schemas.requests import DeleteRequest, IndexesRequest
from kinbin_service.schemas.writes import HoldsRequest, PayloadRequest
from kinbin_service.service import service_of

__all__ = ["routes"]

routes = APIRouter()
_TELL_SECONDS = 5.0
NO_COMPACTION = "each node compacts its own replicas in the background; there is no compaction of a whole cluster"


async def index(request: Request, name: str) -> Response:
    """Add or replace items."""
    if is_stream(request.scope):
        return await stream_index(request, name)
    async with received(request, JSON, NDJSON, NPY, MULTIPART) as (media_type, body):
        started = time.perf_counter()
        service: Any = service_of(request)
        batch = await service.parsed(len(body), lambda: parse_batch(request, media_type, body))
        request.state.place = Place("items", batch.ids or (), batch.lines)
        done = await added(service, name, batch, len(body), request.headers.get("idempotency-key"))
        headers = {"Idempotency-Replayed": "true"} if done.replayed else None
        return reply(encode({**done.content, "took_ms": took_ms(started)}), headers=headers)


@routes.post("/index", **without(INDEX, "bad_name"), tags=["items"])
async def add_items_default(request: Request) -> Response:
    """Into the collection `default`, which the first add of vectors creates."""
    return await index(request, DEFAULT)


@routes.post("/v1/collections/{name}/index", **INDEX, tags=["items"])
async def add_items(request: Request, name: Name) -> Response:
    """Atomic in each shard: 200 means durable, and found by reads that carry `token` as X-Kinbin-After."""
    return await index(request, name)


@routes.post("/v1/collections/{name}/delete", **DELETE, tags=["items"])
async def delete_items(request: Request, name: Name) -> Response:
    """By ids, or all that a filter matches when each shard applies it."""
    async with received_json(request, DeleteRequest) as asked:
        request.state.place = Place("ids", asked.ids or ())
        service: Any = service_of(request)
        collection = collection_named(service.picture, name)
        if asked.filter is not None:
            service.schemas.of(collection).check_filter(asked.filter)
            parts = same_for_all(Edit("delete_by_filter", filter=asked.filter), collection.shards)
        else:
            parts = _delete_parts(service, collection, asked)
        done = await _written(request, collection, parts)
        atomic = done.atomic and all(one.get("atomic", True) for one in done.done.values())
        return reply(encode({"deleted": done.sum("deleted"), **done.told(), "atomic": atomic}))


def _delete_parts(service: Any, collection: Collection, asked: DeleteRequest) -> list[Part]:
    assert asked.ids is not None, "the schema takes one of ids and filter"
    versions = asked.if_versions
    _refuse_versions(service, collection, versions)
    keys = kinbin.Schema.check_ids(asked.ids, versions)
    if versions is None:
        keys = list(dict.fromkeys(keys))
    return edits_by_id(Edit("delete", keys, versions=versions), collection.shards)


def _refuse_versions(service: Any, collection: Collection, versions: Sequence[int | None] | None) -> None:
    if versions is not None and any(one is not None for one in versions) and service.schemas.of(collection).has_fields:
        raise Refusal("not_in_cluster", "items of several vectors have other versions on each replica: none is asked for in a cluster")


@routes.post("/v1/collections/{name}/payload", **PAYLOAD, tags=["items"])
async def write_payloads(request: Request, name: Name) -> Response:
    """Of stored items; vectors stay as they are. An id that is not stored refuses all that its shard was to do (409)."""
    async with received_json(request, PayloadRequest) as asked:
        ids = [one["id"] for one in asked.items]
        request.state.place = Place("items", ids)
        service: Any = service_of(request)
        collection = collection_named(service.picture, name)
        given = [one.get("if_version") for one in asked.items]
        versions = given if any(one is not None for one in given) else None
        _refuse_versions(service, collection, versions)
        keys, payloads = kinbin.Schema.check_payloads(ids, [one["payload"] for one in asked.items])
        op = "set_payload" if asked.mode == "replace" else "patch_payload"
        edit = Edit(op, keys, payloads, versions=versions, positions=list(range(len(keys))))
        done = await _written(request, collection, edits_by_id(edit, collection.shards) if keys else [])
        return reply(encode({"updated": done.sum("updated"), "unchanged": done.sum("unchanged"), **done.told()}))


@routes.post("/v1/collections/{name}/indexes", **CHANGE, tags=["items"])
async def change_indexes(request: Request, name: Name) -> Response:
    """Declared by every shard, one after the other in no order; built in the background by every replica."""
    async with received_json(request, IndexesRequest) as asked:
        request.state.place = Place(called={"indexes": "add"})
        service: Any = service_of(request)
        collection = collection_named(service.picture, name)
        async with changing(service, collection) as lease:
            done = await _written(request, collection, index_parts(collection, asked.add, asked.drop, lease))
        return reply(encode({"indexes": await _indexes(service, collection, done), "token": done.token}))


async def _indexes(service: Any, collection: Collection, done: Written) -> Any:
    """The indexes, as a replica of the first shard tells them after the change; None where none tells."""
    sequence = Token.read(done.token).sequences[0]
    asked = Asked(0, HttpRequest("GET", "", headers=((HEADER, str(sequence)),)))
    (told,) = await service.fanout.ask(collection.uid, [asked], _TELL_SECONDS)
    if told is None or told.status != 200:
        return None
    return orjson.loads(told.body).get("stats", {}).get("indexes")


@routes.put("/v1/collections/{name}/limits", **HOLDS, tags=["collections"])
async def put_limits(request: Request, name: Name) -> Response:
    """At most so many items. Each shard holds its share: an add is refused (422, `over_limit`) when that of one of its shards is full."""
    async with received_json(request, HoldsRequest) as asked:
        service: Any = service_of(request)
        collection = collection_named(service.picture, name)
        refuse_bytes(asked.bytes)
        async with changing(service, collection) as lease:
            done = await _written(request, collection, limit_parts(collection, asked.items, lease))
        return reply(encode({"items": asked.items, "bytes": None, "count": done.count, "token": done.token}))


@routes.post("/v1/collections/{name}/compact", **COMPACT, tags=["collections"])
async def compact_collection() -> Response:
    """Nodes seal and merge by themselves; by hand it goes at a node."""
    raise Refusal("not_in_cluster", NO_COMPACTION)


async def _written(request: Request, collection: Collection, parts: Sequence[Part]) -> Written:
    """Write parts, and wait for what comes of them."""
    service: Any = service_of(request)
    place: Place = getattr(request.state, "place", Place())
    nodes = (service.picture, service.fanout)
    with service.writing.enter():
        return await written(service.log, nodes, collection, parts, place, service.cluster_settings.publish_seconds)
