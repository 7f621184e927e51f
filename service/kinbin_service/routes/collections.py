"""Collections: create, describe, list, drop."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.documented import NAMED, in_address, route
from kinbin_service.keys import visible
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import Name, options, received_json
from kinbin_service.routing import routes
from kinbin_service.schemas.answers import CollectionAnswer, CollectionsAnswer, DroppedAnswer
from kinbin_service.schemas.requests import CollectionRequest, DropOptions
from kinbin_service.service import service_of

__all__ = ["router"]

router = routes("collections")


def describe(collection: kinbin.Collection | kinbin.FieldsCollection) -> dict[str, Any]:
    """A collection's name, configuration, size and index. Its seed stays secret: who knows it can craft colliding vectors."""
    # First: it looks whether another worker has rebuilt the collection.
    stats = collection.stats()
    if isinstance(collection, kinbin.FieldsCollection):
        fields = {name: _configuration(config) for name, config in collection.config.fields.items()}
        config = dict.fromkeys(("kernel", "parameters", "dim", "sampler", "bands", "rows")) | {"items": "vectors", "fields": fields}
    else:
        config = {"items": collection.config.items, **_configuration(collection.config)}
    return {"name": collection.name, **config, "count": collection.count(), "stats": stats}


def _configuration(config: kinbin.CollectionConfig) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kernel": config.kernel,
        "parameters": config.parameters,
        "dim": config.dim,
        "sampler": config.sampler,
        "bands": config.bands,
        "rows": config.rows,
    }
    if config.feature_names:
        told["feature_names"] = {str(feature): name for feature, name in config.feature_names.items()}
    return told


PUT = route(
    "Create a collection",
    CollectionAnswer,
    body=CollectionRequest,
    refusals=frozenset({"alias_conflict", "bad_name", "bad_parameter", "collection_exists", "over_limit", "storage_full"}),
)


@router.put("/v1/collections/{name}", **PUT, responses={201: {"model": CollectionAnswer, "description": "Created"}})
async def create_collection(request: Request, name: Name) -> Response:
    """201 when it was created, 200 when it exists alike, 409 when it exists with another configuration."""
    async with received_json(request, CollectionRequest) as asked:
        database = service_of(request).database
        wanted = asked.model_dump()
        if wanted["fields"] is None:
            del wanted["fields"]

        def create() -> tuple[int, bytes]:
            try:
                return 201, encode(describe(database.create_collection(name, **wanted)))
            except kinbin.CollectionExists:
                return 200, encode(describe(database.create_collection(name, **wanted, exist_ok=True)))

        status, body = await service_of(request).work(request, create, writes=True)
        return reply(body, status)


@router.get("/v1/collections/{name}", **route("Describe a collection", CollectionAnswer, refusals=NAMED))
async def get_collection(request: Request, name: Name) -> Response:
    """Configuration, number of items, and the runs of the index with the rows and bands that were chosen for them."""
    database = service_of(request).database
    return reply(await service_of(request).work(request, lambda: encode(describe(database.collection(name)))))


DROP = route(
    "Drop a collection",
    DroppedAnswer,
    parameters=in_address(DropOptions),
    refusals=NAMED | {"alias_conflict", "invalid_field", "storage_full"},
)


@router.delete("/v1/collections/{name}", **DROP)
async def drop_collection(request: Request, name: Name) -> Response:
    """The collection and all its items are gone for every worker. One that is damaged is dropped only if that is asked for."""
    database = service_of(request).database
    damaged = options(request, DropOptions).damaged == "true"

    def drop() -> bytes:
        database.drop_collection(name, damaged=damaged)
        return encode({"dropped": name})

    return reply(await service_of(request).work(request, drop, writes=True))


@router.get("/v1/collections", **route("List collections", CollectionsAnswer))
async def list_collections(request: Request) -> Response:
    """The names of all collections, sorted; for a key of some collections, theirs."""
    database = service_of(request).database
    names = await service_of(request).work(request, database.collections)
    return reply(encode({"collections": visible(request.scope, names)}))
