"""Payloads, aliases, and what collections may hold."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from kinbin_service.documented import NAMED, route
from kinbin_service.problems import Place
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import NAME_RULE, Name, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.writes import (
    AliasAnswer,
    AliasDroppedAnswer,
    AliasesAnswer,
    AliasRequest,
    HoldsAnswer,
    HoldsRequest,
    PayloadAnswer,
    PayloadRequest,
)
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes()
Alias = Annotated[str, Path(description="name of the alias", examples=["live"], json_schema_extra=NAME_RULE)]

PAYLOAD = route(
    "Replace or patch payloads", PayloadAnswer, body=PayloadRequest,
    refusals=NAMED | {"bad_id", "bad_payload", "duplicate_id", "item_conflict", "over_limit", "storage_full", "version_conflict"},
)  # fmt: skip


@router.post("/v1/collections/{name}/payload", **PAYLOAD, tags=["items"])
async def write_payloads(request: Request, name: Name) -> Response:
    """Of stored items, in one atomic transaction; vectors stay as they are. An id that is not stored refuses all of it (409)."""
    async with received_json(request, PayloadRequest) as asked:
        ids = [one["id"] for one in asked.items]
        request.state.place = Place("items", ids)
        database = service_of(request).database
        payloads: list[Any] = [one["payload"] for one in asked.items]
        versions = [one.get("if_version") for one in asked.items]

        def write() -> bytes:
            collection = database.collection(name)
            call = collection.set_payload if asked.mode == "replace" else collection.patch_payload
            done = call(ids, payloads, if_versions=versions)
            return encode({"updated": done.updated, "unchanged": done.unchanged, "count": done.count})

        return reply(await service_of(request).work(request, write, writes=True))


SET_ALIAS = route("Set an alias", AliasAnswer, body=AliasRequest, refusals=NAMED | {"alias_conflict", "storage_full"})
DROP_ALIAS = route("Drop an alias", AliasDroppedAnswer, refusals=frozenset({"alias_not_found", "bad_name", "storage_full"}))
HOLDS = route("Limit a collection", HoldsAnswer, body=HoldsRequest, refusals=NAMED | {"storage_full"})


@router.put("/v1/collections/{name}/limits", **HOLDS, tags=["collections"])
async def put_limits(request: Request, name: Name) -> Response:
    """At most so many items and bytes. Adds that would pass them are refused (422, `over_limit`); what is there stays."""
    async with received_json(request, HoldsRequest) as asked:
        database = service_of(request).database

        def limit() -> bytes:
            collection = database.collection(name)
            collection.set_limits(items=asked.items, bytes=asked.bytes)
            return encode({**collection.limits(), "count": collection.count()})

        return reply(await service_of(request).work(request, limit, writes=True))


@router.get("/v1/collections/{name}/limits", **route("Limits of a collection", HoldsAnswer, refusals=NAMED), tags=["collections"])
async def get_limits(request: Request, name: Name) -> Response:
    """What the collection may hold; null: as much as there is room for."""
    database = service_of(request).database

    def read() -> bytes:
        collection = database.collection(name)
        return encode({**collection.limits(), "count": collection.count()})

    return reply(await service_of(request).work(request, read))


@router.put(
    "/v1/aliases/{name}",
    **SET_ALIAS,
    tags=["aliases"],
)
async def put_alias(request: Request, name: Alias) -> Response:
    """Another name leads to a collection, at once and for every worker, wherever it led before. All routes take it."""
    async with received_json(request, AliasRequest) as asked:
        database = service_of(request).database

        def swap() -> bytes:
            database.alias(name, asked.collection)
            return encode({"alias": name, "collection": asked.collection})

        return reply(await service_of(request).work(request, swap, writes=True))


@router.get("/v1/aliases", **route("List aliases", AliasesAnswer), tags=["aliases"])
async def list_aliases(request: Request) -> Response:
    """Collections by alias."""
    database = service_of(request).database
    return reply(await service_of(request).work(request, lambda: encode({"aliases": database.aliases()})))


@router.delete(
    "/v1/aliases/{name}",
    **DROP_ALIAS,
    tags=["aliases"],
)
async def drop_alias(request: Request, name: Alias) -> Response:
    """The alias is gone; its collection stays."""
    database = service_of(request).database

    def drop() -> bytes:
        database.drop_alias(name)
        return encode({"dropped": name})

    return reply(await service_of(request).work(request, drop, writes=True))
