"""Explanations at a gateway; and what one server tells of a collection and a cluster does not, each with the reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kinbin_cluster.gateway.asking import stored
from kinbin_cluster.gateway.reading import Reading, heard, not_in_cluster, take_partial
from kinbin_cluster.shards import shard_of
from kinbin_service.bodies import JSON, parse_json
from kinbin_service.ids import id_as_text
from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.problems import Entry, Refusal
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import no_options, received

__all__ = ["REFUSED", "explain", "refuse"]

REFUSED: Mapping[tuple[str, str], str] = {
    (
        "POST",
        "/v1/collections/{name}/duplicates",
    ): "pairs in two shards are not looked for: import into one server, or query by id",
    ("POST", "/v1/collections/{name}/tune"): "settings are predicted by a sample of one server's rows; tune a sample there",
    ("GET", "/v1/collections/{name}/recall"): "recall is measured on one server: send queries with mode exact and compare",
    ("POST", "/v1/collections/{name}/recall"): "recall is measured on one server: send queries with mode exact and compare",
    ("POST", "/v1/collections/{name}/rebuild"): "shards are laid out as each chooses: give bands and rows when the collection is created",
    ("POST", "/v1/collections/{name}/map"): "a map takes the rows of all shards in one place: export a sample into one server",
    ("POST", "/v1/collections/{name}/snapshots"): "nodes make snapshots of shards by themselves; `kinbin export` copies a collection",
    ("GET", "/v1/collections/{name}/snapshots"): "nodes make snapshots of shards by themselves; `kinbin cluster status` tells of them",
    ("GET", "/v1/collections/{name}/snapshots/{id}"): "snapshots of shards are the cluster's own; `kinbin export` copies a collection",
    ("DELETE", "/v1/collections/{name}/snapshots/{id}"): "snapshots of shards are the cluster's own, which keeps the newest two",
    ("POST", "/v1/collections/{name}/snapshots/{id}/verify"): "nodes compare their contents by themselves (`kinbin cluster status`)",
    ("POST", "/v1/restore"): "a snapshot is of one server: restore it there, and import its export",
}
"""By method and path, what is refused and what to do instead."""


async def explain(request: Request) -> Response:
    """POST /v1/collections/{name}/explain: the shard of the item tells; a stored query is fetched from its own."""
    async with received(request, JSON) as (_, body):
        reading = Reading.of(request, request.path_params["name"])
        no_options(request)
        content = await reading.gateway.parsed(len(body), lambda: parse_json(body))
        take_partial(content)
        async with heard(request):
            return reply(encode(await _explained(reading, content)))


async def _explained(reading: Reading, content: Any) -> dict[str, Any]:
    identifier = id_as_text(content.get("id")) if isinstance(content, dict) else None
    query = id_as_text(content.get("query_id")) if isinstance(content, dict) else None
    shard = _shard(identifier, reading)
    # One that is about a vector as well the node refuses.
    if isinstance(query, str) and content.keys().isdisjoint((VECTOR, *KEYS)) and _shard(query, reading) != shard:
        items = await stored(reading, [(query, "#/query_id")])
        if query not in items:
            text = "no item of this collection has the query_id that was given"
            raise Refusal("unknown_id", text, [Entry("#/query_id", text)])
        content = {name: value for name, value in content.items() if name != "query_id"} | _carried(items[query], content)
    (part,) = await reading.ask([(shard, "/explain", content if isinstance(content, dict) else encode(content))])
    return part.content


def _carried(item: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """What an item is asked by: its vector or object; of several vectors that of the field."""
    vectors = item.get("vectors")
    if vectors is None:
        return {name: value for name, value in item.items() if name != "id"}
    field = content.get("field")
    # The node says what is wrong with a field that is not there, or none at all.
    return {"vector": vectors.get(field if isinstance(field, str) else None, next(iter(vectors.values())))}


def _shard(identifier: Any, reading: Reading) -> int:
    """The shard of an id; what is none is refused by any."""
    try:
        return shard_of(identifier, reading.collection.shards) if isinstance(identifier, str) else 0
    except UnicodeEncodeError:
        return 0


def refuse(what: str) -> Callable[[Request], Awaitable[Response]]:
    """The handler of a route that a cluster does not offer."""

    async def refused(_request: Request) -> Response:
        raise not_in_cluster(what)

    return refused
