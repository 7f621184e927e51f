"""Items: add, get, delete, scroll, count."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinbin_service.bodies import JSON, MULTIPART, NDJSON, NPY
from kinbin_service.convert import item
from kinbin_service.documented import FILTERED, IDEMPOTENCY, NAMED, VECTORS, also, bulk, parameters, route, without
from kinbin_service.limits import is_stream
from kinbin_service.objects import carried_by
from kinbin_service.problems import Place
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import parse_batch, told_skipped
from kinbin_service.routes.filling import added, fitted
from kinbin_service.routes.received import DEFAULT, Name, received, received_json
from kinbin_service.routes.streaming import stream_index
from kinbin_service.routing import routes
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

router = routes("items")

DELETES = frozenset({"bad_id", "bad_parameter", "duplicate_id", "storage_full", "version_conflict"})


async def index(request: Request, name: str) -> Response:
    """Add or replace items in one transaction; the answer means durable, and found by every worker. A stream is many of them."""
    if is_stream(request.scope):
        return await stream_index(request, name)
    async with received(request, JSON, NDJSON, NPY, MULTIPART) as (media_type, body):
        started = time.perf_counter()
        parsed = await service_of(request).parsed(len(body), lambda: parse_batch(request, media_type, body))
        database = service_of(request).database
        key = request.headers.get("idempotency-key")

        def add() -> tuple[bytes, bool]:
            batch = fitted(database, name, parsed)
            request.state.place = Place("items", batch.ids or (), batch.lines)
            done = added(database, name, batch, batch.terms(key))
            content: dict[str, Any] = {"indexed": done.indexed, "updated": done.updated, "unchanged": done.unchanged, "count": done.count}
            if done.ids is not None:
                content["ids"] = done.ids
            if batch.on_error == "skip":
                content |= told_skipped(done, batch)
            return encode({**content, "took_ms": took_ms(started)}), done.replayed

        answer, replayed = await service_of(request).work(request, add, writes=True)
        return reply(answer, headers={"Idempotency-Replayed": "true"} if replayed else None)


INDEX = route(
    "Add or replace items",
    AddAnswer,
    body=(AddRequest, FieldsAddRequest, ObjectsAddRequest),
    other_bodies=bulk(ItemIn, ObjectItemIn),
    parameters=[*parameters(AddOptions, ids=True), IDEMPOTENCY],
    refusals=NAMED
    | VECTORS
    | {"bad_id", "bad_multipart", "bad_npy", "bad_parameter", "bad_payload", "duplicate_id", "item_conflict", "key_reused"}
    | {"storage_full", "version_conflict"},
) | also(NDJSON, "receipts of a stream, as JSON a line; the last one has done, or error")


@router.post("/index", **without(INDEX, "bad_name"))
async def add_items_default(request: Request) -> Response:
    """Into the collection `default`, which the first add of vectors creates: kernel ngmm, dense or sparse as its first vector is."""
    return await index(request, DEFAULT)


@router.post("/v1/collections/{name}/index", **INDEX)
async def add_items(request: Request, name: Name) -> Response:
    """One atomic transaction: 200 means durable and found by every worker.

    The same upsert again changes nothing. For a day any add may be sent again with the header `Idempotency-Key` that it had: it is done
    once, and the answer is that of the first (`Idempotency-Replayed: true`). Without it, an `insert` that was done is refused when it is
    repeated, and a matrix without ids is added once more under new ones.

    Lines with `stream=true` may be any number: they go in batches of at most 1,000, each one transaction, in order. The answer is lines
    as well: `{"lines", "indexed", "updated", "unchanged", "skipped", "count"}`, in sum, of what is durable; receipts are left out for a
    reader that is slow. The last line has `"done": true`, or `error`, a problem document. After an error, or a lost connection, send the
    lines that follow the last receipt, with `after` their number.
    """
    return await index(request, name)


@router.post(
    "/v1/collections/{name}/get",
    **route("Get items by id", GetAnswer, body=GetRequest, refusals=NAMED | {"bad_id", "over_limit", "search_deadline"}),
)
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

        return reply(await service_of(request).read(request, get))


DELETE = route("Delete items", DeleteAnswer, body=DeleteRequest, refusals=NAMED | FILTERED | DELETES)


@router.post("/v1/collections/{name}/delete", **DELETE)
async def delete_items(request: Request, name: Name) -> Response:
    """By ids, or all that a filter matches, in one transaction. Ids that are not stored are no error.

    With `if_versions` nothing is deleted unless every item has the version that is named for it (409 `version_conflict`).

    More than 10,000 matches go in several transactions, and `atomic` is false: every item that is deleted matched when it was, and
    items that begin to match during the request may stay.
    """
    async with received_json(request, DeleteRequest) as asked:
        request.state.place = Place("ids", asked.ids or ())
        database = service_of(request).database

        def delete() -> bytes:
            done = database.collection(name).delete(ids=asked.ids, filter=asked.filter, if_versions=asked.if_versions)
            return encode({"deleted": done.deleted, "count": done.count, "atomic": done.atomic})

        return reply(await service_of(request).work(request, delete, writes=True))


@router.post(
    "/v1/collections/{name}/scroll",
    **route(
        "Read a collection page by page", ScrollAnswer, body=ScrollRequest, refusals=NAMED | FILTERED | {"bad_parameter", "search_deadline"}
    ),
)
async def scroll_items(request: Request, name: Name) -> Response:
    """Items in the order of their ids, or of a field; `next` is the `after` of the next page, asked for in the same order."""
    async with received_json(request, ScrollRequest) as asked:
        database = service_of(request).database

        def scroll() -> bytes:
            collection = database.collection(name)
            page = collection.scroll(
                after=asked.after, limit=asked.limit, filter=asked.filter, include=tuple(asked.include), order_by=asked.order_by,
                descending=asked.descending,
            )  # fmt: skip
            key = carried_by(collection)
            return encode({"items": [item(stored, asked.include, key) for stored in page.items], "next": page.next})

        return reply(await service_of(request).read(request, scroll))


@router.post(
    "/v1/collections/{name}/count", **route("Count items", CountAnswer, body=CountRequest, refusals=NAMED | FILTERED | {"search_deadline"})
)
async def count_items(request: Request, name: Name) -> Response:
    """All items, or those that a filter matches."""
    async with received_json(request, CountRequest) as asked:
        database = service_of(request).database

        def count() -> bytes:
            return encode({"count": database.collection(name).count(filter=asked.filter)})

        return reply(await service_of(request).read(request, count))
