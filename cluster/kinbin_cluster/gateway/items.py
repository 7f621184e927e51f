"""Reads of items at a gateway: by id, page by page, counts and facets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.gateway.merging import merged_facets
from kinbin_cluster.gateway.reading import Reading, heard, not_in_cluster, take_partial
from kinbin_cluster.gateway.scrolling import ScrollOrder, joined_page
from kinbin_cluster.shards import shards_of
from kinbin_service.bodies import JSON, parse_json
from kinbin_service.replies import encode, reply
from kinbin_service.routes.received import no_options, received
from kinbin_service.schemas.requests import CountRequest, FacetsRequest, GetRequest, ScrollRequest
from kinbin_service.schemas.validation import validate

__all__ = ["count", "facets", "get", "scroll"]

_PAGE = int(kinbin.LIMITS["page"].value)


async def get(request: Request) -> Response:
    """POST /v1/collections/{name}/get: each shard is asked for its own."""

    async def answered(reading: Reading, content: Any) -> dict[str, Any]:
        asked = validate(GetRequest, content)
        places = _by_shard(asked.ids, reading.collection.shards)
        parts = await reading.ask(
            [(shard, "/get", {"ids": [asked.ids[i] for i in listed], "include": asked.include}) for shard, listed in places.items()],
            pointers={shard: _pointers(listed) for shard, listed in places.items()},
        )
        items = {item["id"]: item for part in parts for item in part.content["items"]}
        missing = {one for part in parts for one in part.content["missing"]}
        found = [items[one] for one in asked.ids if one in items]
        return {"items": found, "missing": [one for one in asked.ids if one in missing]}

    return await _answered(request, answered)


async def count(request: Request) -> Response:
    """POST /v1/collections/{name}/count."""

    async def answered(reading: Reading, content: Any) -> dict[str, Any]:
        asked = validate(CountRequest, content)
        parts = await reading.ask_all("/count", {"filter": asked.filter})
        return {"count": sum(part.content["count"] for part in parts)}

    return await _answered(request, answered)


async def facets(request: Request) -> Response:
    """POST /v1/collections/{name}/facets: exact, or refused where a shard has more different values than a page."""

    async def answered(reading: Reading, content: Any) -> dict[str, Any]:
        asked = validate(FacetsRequest, content)
        parts = await reading.ask_all("/facets", {"field": asked.field, "filter": asked.filter, "limit": _PAGE})
        told = merged_facets([part.content for part in parts], asked.limit)
        if told is None:
            raise not_in_cluster(f"in a cluster facets are of fields with at most {_PAGE:,} different values a shard", "#/field")
        return told

    return await _answered(request, answered)


async def scroll(request: Request) -> Response:
    """POST /v1/collections/{name}/scroll: the next of every shard, of which the first are the page. Cursors are those of one server."""

    async def answered(reading: Reading, content: Any) -> dict[str, Any]:
        asked = validate(ScrollRequest, content)
        order = ScrollOrder.of(asked.order_by, asked.descending, asked.include)
        body = {**asked.model_dump(), "include": order.include}
        parts = await reading.ask_all("/scroll", body)
        return joined_page([part.content for part in parts], order, asked.limit)

    return await _answered(request, answered)


async def _answered(request: Request, answer: Any) -> Response:
    """The reply to a JSON body that may say `allow_partial`."""
    async with received(request, JSON) as (_, body):
        reading = Reading.of(request, request.path_params["name"])
        no_options(request)
        content = await reading.gateway.parsed(len(body), lambda: parse_json(body))
        reading.partial, reading.takes_part = take_partial(content), True
        async with heard(request):
            told = await answer(reading, content)
        return reply(encode(reading.told(told)))


def _by_shard(ids: Sequence[str], shards: int) -> dict[int, list[int]]:
    """By shard, the places of its ids. Ids that are no Unicode go to the first, which refuses them."""
    keys = [one.encode("utf-8", "surrogatepass") for one in ids]
    places: dict[int, list[int]] = {}
    for place, shard in enumerate(shards_of(keys, shards).tolist()):
        places.setdefault(shard, []).append(place)
    # Without ids there is still a body to judge.
    return places or {0: []}


def _pointers(places: Sequence[int]) -> Any:
    def told(pointer: str) -> str:
        parts = pointer.split("/")
        if parts[:2] == ["#", "ids"] and len(parts) > 2 and parts[2].isdecimal():
            parts[2] = str(places[int(parts[2])])
        return "/".join(parts)

    return told
