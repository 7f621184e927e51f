"""Items: add, get, delete, scroll, count."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.bodies import JSON, NDJSON, NPY, parse_json, parse_lines
from kinbin_service.convert import VectorIn, item, vector_in, vectors_in
from kinbin_service.default_collection import add_to_default
from kinbin_service.documented import bulk, parameters, route
from kinbin_service.npy import new_ids, parse_ids, parse_matrix
from kinbin_service.problems import Entry, Place, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.received import DEFAULT, Name, no_options, options, received, received_json
from kinbin_service.schemas.answers import AddAnswer, CountAnswer, DeleteAnswer, GetAnswer, ScrollAnswer
from kinbin_service.schemas.requests import (
    AddOptions,
    AddRequest,
    CountRequest,
    DeleteRequest,
    FieldsAddRequest,
    GetRequest,
    ItemIn,
    ScrollRequest,
)  # fmt: skip
from kinbin_service.schemas.validation import validate
from kinbin_service.service import service_of

__all__ = ["router"]

router = APIRouter(tags=["items"])


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one add, from a body of any kind."""

    ids: list[str]
    vectors: Sequence[VectorIn] | NDArray[Any] | dict[str, list[VectorIn]]
    payloads: list[dict[str, Any] | None] | None
    mode: str
    ids_made: bool = False
    lines: Sequence[int] = ()
    """The line of each item, if the body was made of lines."""


def parse_batch(request: Request, media_type: str, body: bytes) -> Batch:
    """The items of a body."""
    if media_type == NPY:
        return _matrix_batch(request, body)
    lines: Sequence[int] = ()
    if media_type == NDJSON:
        values, lines = parse_lines(body)
        content: Any = {"items": values, "mode": options(request, AddOptions).mode}
    else:
        no_options(request)
        content = parse_json(body)
    if _by_field(content):
        given = validate(FieldsAddRequest, content, lines)
        by_field = vectors_in([one["vectors"] for one in given.items], "#/items/{}/vectors")
        return Batch([one["id"] for one in given.items], by_field, [one.get("payload") for one in given.items], given.mode, lines=lines)
    asked = validate(AddRequest, content, lines)
    vectors = [vector_in(given["vector"], f"#/items/{position}/vector") for position, given in enumerate(asked.items)]
    return Batch([given["id"] for given in asked.items], vectors, [given.get("payload") for given in asked.items], asked.mode, lines=lines)


def _by_field(content: Any) -> bool:
    """Whether the first item has several vectors."""
    items = content.get("items") if isinstance(content, dict) else None
    return isinstance(items, list) and bool(items) and isinstance(items[0], dict) and "vectors" in items[0]


def _matrix_batch(request: Request, body: bytes) -> Batch:
    mode = options(request, AddOptions).mode
    matrix = parse_matrix(body)
    most = int(kinbin.LIMITS["batch_items"].value)
    if len(matrix) > most:
        raise Refusal("over_limit", f"an add has at most {most:,} items", [Entry("#/items", "too many rows")], "batch_items")
    header = request.headers.get("x-kinbin-ids")
    if header is None:
        return Batch(new_ids(len(matrix)), matrix, None, mode, ids_made=True)
    ids = parse_ids(header.encode("latin-1"))
    if len(ids) != len(matrix):
        raise Refusal("invalid_field", f"the matrix has {len(matrix):,} rows, and the header X-Kinbin-Ids names {len(ids):,} ids")
    return Batch(ids, matrix, None, mode)


async def index(request: Request, name: str) -> Response:
    """Add or replace items in one transaction; the answer means durable, and found by every worker."""
    async with received(request, JSON, NDJSON, NPY) as (media_type, body):
        started = time.perf_counter()
        batch = parse_batch(request, media_type, body)
        request.state.place = Place("items", batch.ids, batch.lines)
        database = service_of(request).database

        def add() -> bytes:
            if isinstance(batch.vectors, dict):
                several = database.fields_collection(name)
                done = several.add(batch.ids, batch.vectors, payloads=batch.payloads, mode=batch.mode, atomic=True)
            elif name == DEFAULT:
                done = add_to_default(database, batch.ids, batch.vectors, batch.payloads, batch.mode)
            else:
                done = database.collection(name).add(batch.ids, batch.vectors, payloads=batch.payloads, mode=batch.mode, atomic=True)
            content: dict[str, Any] = {"indexed": done.indexed, "updated": done.updated, "unchanged": done.unchanged, "count": done.count}
            if batch.ids_made:
                content["ids"] = batch.ids
            return encode({**content, "took_ms": took_ms(started)})

        return reply(await service_of(request).work(request, add, writes=True))


INDEX = route(
    "Add or replace items",
    AddAnswer,
    body=(AddRequest, FieldsAddRequest),
    other_bodies=bulk(ItemIn),
    parameters=parameters(AddOptions, ids=True),
    refusals=frozenset({404, 409, 507}),
)


@router.post("/index", **INDEX)
async def index_default(request: Request) -> Response:
    """Into the collection `default`, which the first add creates: kernel ngmm, dense or sparse as its first vector is."""
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
    """Stored items with their payloads and vectors; ids that are not stored are listed as missing."""
    async with received_json(request, GetRequest) as asked:
        request.state.place = Place("ids")
        database = service_of(request).database

        def get() -> bytes:
            found = database.collection(name).get(asked.ids, include=tuple(asked.include))
            items = [item(stored, asked.include) for stored in found if stored is not None]
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
            page = database.collection(name).scroll(after=asked.after, limit=asked.limit, filter=asked.filter, include=tuple(asked.include))
            return encode({"items": [item(stored, asked.include) for stored in page.items], "next": page.next})

        return reply(await service_of(request).work(request, scroll))


@router.post("/v1/collections/{name}/count", **route("Count items", CountAnswer, body=CountRequest, refusals=frozenset({404})))
async def count_items(request: Request, name: Name) -> Response:
    """All items, or those that a filter matches."""
    async with received_json(request, CountRequest) as asked:
        database = service_of(request).database

        def count() -> bytes:
            return encode({"count": database.collection(name).count(filter=asked.filter)})

        return reply(await service_of(request).work(request, count))
