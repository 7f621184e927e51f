"""Collections and aliases of a cluster: create, drop, lead elsewhere. They are records of the registry."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.errors import Aliased, Changed, Exists, LogUnavailable, NotThere
from kinbin_cluster.gateway.changing import changing, index_parts
from kinbin_cluster.gateway.creating import SHARDS, created, not_known
from kinbin_cluster.gateway.describing import describe
from kinbin_cluster.gateway.publishing import written
from kinbin_cluster.gateway.schemas import collection_named
from kinbin_cluster.picture import Collection
from kinbin_cluster.shards import MOST_SHARDS
from kinbin_service.documented import NAMED, route
from kinbin_service.problems import Place, Refusal
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import Name, received_json
from kinbin_service.routes.writes import DROP_ALIAS, SET_ALIAS, Alias
from kinbin_service.schemas.answers import CollectionAnswer, DroppedAnswer
from kinbin_service.schemas.requests import CollectionRequest
from kinbin_service.schemas.vectors import STRICT
from kinbin_service.schemas.writes import AliasRequest
from kinbin_service.service import service_of

__all__ = ["ClusterRequest", "routes"]

routes = APIRouter()
_CREATES = frozenset(
    {"alias_conflict", "bad_name", "bad_parameter", "collection_exists", "over_limit", "outcome_unknown", "shard_unavailable"}
)


class SpreadIn(BaseModel):
    """How a collection lies in the cluster."""

    model_config = STRICT
    shards: Annotated[int, Field(ge=1, le=MOST_SHARDS, description="parts of the collection; it keeps their number")] = SHARDS
    replicas: Annotated[int | None, Field(ge=1, le=16, description="nodes that have each shard; null: 2, or 1 where there is one node")] = (
        None
    )


class ClusterRequest(CollectionRequest):
    """The configuration of a collection, and how it lies in the cluster."""

    cluster: Annotated[SpreadIn | None, Field(description="null: 3 shards of 2 replicas")] = None


@routes.put(
    "/v1/collections/{name}",
    **route("Create a collection", CollectionAnswer, body=ClusterRequest, refusals=_CREATES),
    responses={201: {"model": CollectionAnswer, "description": "Created"}},
    tags=["collections"],
)
async def create_collection(request: Request, name: Name) -> Response:
    """201 when it was created, 200 when it exists alike, 409 when it exists with another configuration."""
    async with received_json(request, ClusterRequest) as asked:
        service: Any = service_of(request)
        wanted = asked.model_dump(exclude={"cluster"})
        if wanted["fields"] is None:
            del wanted["fields"]
        kinbin.Schema.check_name(name)
        schema = kinbin.Schema(**wanted)
        if name in service.picture.aliases:
            raise kinbin.AliasConflict("the name is an alias")
        held = service.picture.collections.get(name)
        spread = asked.cluster or SpreadIn()
        if held is None:
            try:
                made = await created(service, name, schema, spread.shards, spread.replicas)
                return reply(encode(await describe(service, made)), 201)
            except Exists as exists:
                held = exists.held
        assert isinstance(held, Collection)
        service.schemas.of(held).refuse_other(schema, wanted)
        if asked.cluster is not None and (held.shards != spread.shards or spread.replicas not in (None, held.replicas)):
            text = f"the collection exists with {held.shards} shards of {held.replicas} replicas; choose another name or drop it first"
            raise kinbin.CollectionExists(text)
        if wanted["indexes"]:
            async with changing(service, held) as lease:
                parts, seconds = index_parts(held, wanted["indexes"], (), lease), service.cluster_settings.publish_seconds
                await written(service.log, (service.picture, service.fanout), held, parts, Place(), seconds)
        return reply(encode(await describe(service, held)), 200)


@routes.delete(
    "/v1/collections/{name}",
    **route("Drop a collection", DroppedAnswer, refusals=NAMED | {"alias_conflict", "changed_meanwhile", "outcome_unknown"}),
    tags=["collections"],
)
async def drop_collection(request: Request, name: Name) -> Response:
    """The name is gone at once; nodes and logs let go of the items after it. Of several that drop it one is answered with 200."""
    service: Any = service_of(request)
    leading = sorted(alias for alias, told in service.picture.aliases.items() if told.collection == name)
    if name in service.picture.aliases or leading:
        error = kinbin.AliasConflict("the name is an alias, or aliases lead to it")
        error.leading = tuple(leading[:3])
        raise error
    try:
        await service.registry.drop_collection(collection_named(service.picture, name).name, aliased=False)
    except Aliased:
        raise kinbin.AliasConflict("aliases lead to it") from None
    except NotThere:
        raise kinbin.CollectionNotFound(f"no collection is named {name!r}") from None
    except Changed:
        text = "the collection was dropped meanwhile, and another one has its name: that one was not dropped; look at it first"
        raise Refusal("changed_meanwhile", text) from None
    except LogUnavailable:
        raise not_known() from None
    return reply(encode({"dropped": name}))


@routes.put("/v1/aliases/{name}", **SET_ALIAS, tags=["aliases"])
async def put_alias(request: Request, name: Alias) -> Response:
    """Another name leads to a collection, wherever it led before. Gateways see it within milliseconds, not at once."""
    async with received_json(request, AliasRequest) as asked:
        service: Any = service_of(request)
        picture = service.picture
        for one in (name, asked.collection):
            kinbin.Schema.check_name(one)
        if asked.collection in picture.aliases:
            raise kinbin.AliasConflict("an alias leads to a collection, not to an alias")
        if name in picture.collections:
            raise kinbin.AliasConflict(f"a collection is named {name!r}")
        collection_named(picture, asked.collection)
        try:
            await service.registry.set_alias(name, asked.collection)
        except NotThere:
            raise kinbin.CollectionNotFound(f"no collection is named {asked.collection!r}") from None
        except Exists:
            raise kinbin.AliasConflict(f"a collection is named {name!r}") from None
        except LogUnavailable:
            raise not_known() from None
        return reply(encode({"alias": name, "collection": asked.collection}))


@routes.delete("/v1/aliases/{name}", **DROP_ALIAS, tags=["aliases"])
async def drop_alias(request: Request, name: Alias) -> Response:
    """The alias is gone; its collection stays. Of several that drop it one is answered with 200."""
    service: Any = service_of(request)
    kinbin.Schema.check_name(name)
    try:
        await service.registry.drop_alias(name)
    except NotThere:
        raise kinbin.errors.AliasNotFound(f"no alias is named {name!r}") from None
    except Changed:
        text = "the alias was led elsewhere meanwhile, and was not dropped; look where it leads first"
        raise Refusal("changed_meanwhile", text) from None
    except LogUnavailable:
        raise not_known() from None
    return reply(encode({"dropped": name}))


def refuse_bytes(given: int | None) -> None:
    """Refuse a limit of bytes: the files of two replicas have different sizes, and they have to decide alike."""
    if given is not None:
        raise Refusal("not_in_cluster", "a limit of bytes is not held in a cluster, whose replicas' files differ in size: limit the items")
