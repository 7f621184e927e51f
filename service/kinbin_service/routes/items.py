"""Items: add, get, delete, scroll, count."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from kinbin_service.bodies import JSON, MULTIPART, NDJSON, NPY
from kinbin_service.convert import item
from kinbin_service.default_collection import add_to_default
from kinbin_service.documented import bulk, parameters, route
from kinbin_service.objects import VECTOR, carried_by
from kinbin_service.problems import Place
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import check_key, parse_batch
from kinbin_service.routes.received import DEFAULT, Name, received, received_json
from kinbin_service.schemas.answers import AddAnswer, CountAnswer, DeleteAnswer, GetAnswer, ScrollAnswer
from kinbin_service.schemas.requests import (
    AddOptions,
    AddRequest,
    CountRequest,
    DeleteRequest,
    FieldsAddRequest,
    GetRequest,
    ItemIn,
    ObjectItemIn,
    ObjectsAddRequest,
    ScrollRequest,
)  # fmt: skip
from kinbin_service.service import service_of

__all__ = ["router"]

router = APIRouter(tags=["items"])


async def index(request: Request, name: str) -> Response:
    """Add or replace items in one transaction; the answer means durable, and found by every worker."""
    async with received(request, JSON, NDJSON, NPY, MULTIPART) as (media_type, body):
        started = time.perf_counter()
        batch = parse_batch(request, media_type, body)
        request.state.place = Place("items", batch.ids, batch.lines)
        database = service_of(request).database

        def add() -> bytes:
            if isinstance(batch.vectors, dict):
                several = database.fields_collection(name)
                done = several.add(batch.ids, batch.vectors, payloads=batch.payloads, mode=batch.mode, atomic=True)
            elif name == DEFAULT and batch.key == VECTOR:
                done = add_to_default(database, batch.ids, batch.vectors, batch.payloads, batch.mode)
            else:
                collection = database.collection(name)
                check_key(collection, batch.key, "#/items/0")
                done = collection.add(batch.ids, batch.vectors, payloads=batch.payloads, mode=batch.mode, atomic=True)
            content: dict[str, Any] = {"indexed": done.indexed, "updated": done.updated, "unchanged": done.unchanged, "count": done.count}
            if batch.ids_made:
                content["ids"] = batch.ids
            return encode({**content, "took_ms": took_ms(started)})

        return reply(await service_of(request).work(request, add, writes=True))


INDEX = route(
    "Add or replace items",
    AddAnswer,
    body=(AddRequest, FieldsAddRequest, ObjectsAddRequest),
    other_bodies=bulk(ItemIn, ObjectItemIn),
    parameters=parameters(AddOptions, ids=True),
    refusals=frozenset({404, 409, 507}),
)


@router.post("/index", **INDEX)
async def index_default(request: Request) -> Response:
    """Into the collection `default`, which the first add of vectors creates: kernel ngmm, dense or sparse as its first vector is."""
    return await index(request, DEFAULT)


@router.post("/v1/collections/{name}/index", **INDEX)
async def index_collection(request: Request, name: Name) -> Response:
    """One atomic transaction: 200 means durable and found by every worker.

    The same upsert again changes nothing. An `insert` that was done is refused when it is repeated, and a matrix without ids is added
    once more under new ones: send ids with what you may have to repeat.
    """
    return await index(request, name)


@router.post("/v1/collections/{name}/get", **route("Get items by id", GetAnswer, body=GetRequest, refusals=frozenset({404})))
async def get_items(request: Request, name: Name) -> Response:
    """Stored items with their payloads and vectors, or objects; ids that are not stored are listed as missing."""
    async with received_json(request, GetRequest) as asked:
        request.state.place = Place("ids")
        database = service_of(request).database

        def get() -> bytes:
            collection = database.collection(name)
            found = collection.get(asked.ids, include=tuple(asked.include))
            key = carried_by(collection)
            items = [item(stored, asked.include, key) for stored in found if stored is not None]
            missing = [identifier for identifier, stored in zip(asked.ids, found, strict=True) if stored is None]
            return encode({"items": items, "missing": missing})

        return reply(await service_of(request).work(request, get))


@router.post("/v1/collections/{name}/delete", **route("Delete items", DeleteAnswer, body=DeleteRequest, refusals=frozenset({404, 507})))
async def delete_items(request: Request, name: Name) -> Response:
    """By ids in one transaction, or all that a filter matches in several. Ids that are not stored are no error.

    Every item that a filter deletes matched it when it was deleted. Items that begin to match during the request may stay.
    """
    async with received_json(request, DeleteRequest) as asked:
        request.state.place = Place("ids")
        database = service_of(request).database

        def delete() -> bytes:
            done = database.collection(name).delete(ids=asked.ids, filter=asked.filter)
            return encode({"deleted": done.deleted, "count": done.count})

        return reply(await service_of(request).work(request, delete, writes=True))


@router.post(
    "/v1/collections/{name}/scroll", **route("Read a collection page by page", ScrollAnswer, body=ScrollRequest, refusals=frozenset({404}))
)
async def scroll_items(request: Request, name: Name) -> Response:
    """Items in the order of their ids; `next` is the `after` of the next page."""
    async with received_json(request, ScrollRequest) as asked:
        database = service_of(request).database

        def scroll() -> bytes:
            collection = database.collection(name)
            page = collection.scroll(after=asked.after, limit=asked.limit, filter=asked.filter, include=tuple(asked.include))
            key = carried_by(collection)
            return encode({"items": [item(stored, asked.include, key) for stored in page.items], "next": page.next})

        return reply(await service_of(request).work(request, scroll))


@router.post("/v1/collections/{name}/count", **route("Count items", CountAnswer, body=CountRequest, refusals=frozenset({404})))
async def count_items(request: Request, name: Name) -> Response:
    """All items, or those that a filter matches."""
    async with received_json(request, CountRequest) as asked:
        database = service_of(request).database

        def count() -> bytes:
            return encode({"count": database.collection(name).count(filter=asked.filter)})

        return reply(await service_of(request).work(request, count))
