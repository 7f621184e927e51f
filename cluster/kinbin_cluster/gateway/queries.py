"""Queries at a gateway: every shard is asked, and the answers are merged by exact score."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_cluster.gateway.asking import Query, ages_of, incomplete
from kinbin_cluster.gateway.grouping import grouped
from kinbin_cluster.gateway.merging import merged_batch
from kinbin_cluster.gateway.paging import page_of
from kinbin_cluster.gateway.quick import quick_of
from kinbin_cluster.gateway.reading import Body, Part, Pointers, Reading, gateway_of, heard, not_in_cluster, take_partial
from kinbin_cluster.quick_message import MEDIA_TYPE, PATH
from kinbin_service.bodies import JSON, NPY, parse_json
from kinbin_service.problems import Entry, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.received import DEFAULT, no_options, options, received
from kinbin_service.schemas.queries import QueryOptions, QueryRequest
from kinbin_service.schemas.validation import validate

__all__ = ["query", "query_default"]

_MOST = int(kinbin.LIMITS["k"].value)


async def query(request: Request) -> Response:
    """POST /v1/collections/{name}/query."""
    return await _answered(request, request.path_params["name"])


async def query_default(request: Request) -> Response:
    """POST /query: the collection `default`."""
    return await _answered(request, DEFAULT)


async def _answered(request: Request, name: str) -> Response:
    async with received(request, JSON, NPY) as (media_type, body):
        started = time.perf_counter()
        reading = Reading.of(request, name)
        async with heard(request):
            if media_type == NPY:
                content = await _matrix(request, reading, body)
            else:
                no_options(request)
                content = await _json(reading, body)
        content = reading.told(content)
        gateway_of(request).metrics.answered(content)
        return reply(encode({**content, "took_ms": took_ms(started)}))


async def _json(reading: Reading, body: bytes) -> dict[str, Any]:
    content = await reading.gateway.parsed(len(body), lambda: parse_json(body))
    if not isinstance(content, dict):
        content = validate(QueryRequest, content).model_dump()
    changed = "allow_partial" in content
    reading.partial, reading.takes_part = take_partial(content), True
    # Queries that are shaped in themselves are merged in ways of their own.
    for shape, answered in (("cursor", page_of), ("group_by", grouped)):
        if content.get(shape) is not None:
            return await answered(reading, content)
    asked = Query.of(content)
    _refuse_shaped(asked)
    if asked.is_plain:
        return await _merged(reading, asked, await _ask_plain(reading, content, content if changed else body))
    _check_size(reading, asked)
    await asked.resolve(reading)
    bodies = [asked.bodies(shard) for shard in reading.shards]
    pointers = {shard: asked.pointers(counts) for shard, (_, counts) in enumerate(bodies)}
    parts = await _ask_each(reading, [of for of, _ in bodies], pointers)
    return await _merged(reading, asked, parts, [bodies[part.shard][1] for part in parts])


async def _ask_plain(reading: Reading, content: dict[str, Any], body: Body) -> list[Part]:
    """What all shards answer to the same query: the short way, where that is open to it."""
    quick = quick_of(reading.collection, content)
    if quick is None:
        return await reading.ask_all("/query", body)
    return await reading.ask([(shard, PATH, quick.pack(shard)) for shard in reading.shards], media_type=MEDIA_TYPE)


async def _ask_each(reading: Reading, bodies: Sequence[dict[str, Any]], pointers: Mapping[int, Pointers]) -> list[Part]:
    """What all shards answer to a query of each."""
    quick = [quick_of(reading.collection, body) for body in bodies]
    if any(one is None for one in quick):
        return await reading.ask_all("/query", lambda shard: bodies[shard], pointers=pointers)
    packed = [(shard, PATH, one.pack(shard)) for shard, one in enumerate(quick) if one is not None]
    return await reading.ask(packed, media_type=MEDIA_TYPE)


async def _merged(reading: Reading, asked: Query, parts: list[Part], counts: list[list[int]] | None = None) -> dict[str, Any]:
    if counts is None:
        counts = [[1] * len(asked.shapes)] * len(parts)
    answers = await asked.merge(reading, parts, counts)
    if reading.missing:
        answers = [incomplete(one) for one in answers]
    return {"answers": answers} if asked.many else answers[0]


def _refuse_shaped(asked: Query) -> None:
    """Of many queries none has pages, or groups."""
    for position, one in enumerate(asked.singles if asked.many else ()):
        for shape in ("cursor", "group_by"):
            if one.get(shape) is not None:
                raise not_in_cluster(f"in a cluster {shape} is of one query alone", f"#/queries/{position}/{shape}")


def _check_size(reading: Reading, asked: Query) -> None:
    """Refuse what makes an answer too large; plain queries the nodes refuse."""
    settings = reading.gateway.settings
    contents = bool(asked.content.get("include")) or any(one.get("include") for one in asked.singles)
    name, most = ("answer_contents", settings.max_answer_contents) if contents else ("answer_items", settings.max_answer_items)
    if sum(k + offset for k, offset in asked.shapes) > most:
        text = f"k times queries is at most {most:,}{' with payloads or vectors' if contents else ''}"
        raise Refusal("over_limit", text, [Entry("#/k", "k times queries is too large")], name)


async def _matrix(request: Request, reading: Reading, body: bytes) -> dict[str, Any]:
    """The answers to the rows of a matrix, with options in the address."""
    allowed = request.query_params.get("allow_partial", "false")
    listed = [(name, value) for name, value in request.query_params.multi_items() if name != "allow_partial"]
    # As the nodes read them: what is a number to them, and what stands there twice.
    read = options(Request({**request.scope, "query_string": urlencode(listed).encode()}), QueryOptions).options()
    given = dict(listed)
    if allowed not in ("true", "false"):
        text = "allow_partial is true or false"
        raise Refusal("invalid_field", text, [Entry("#/allow_partial", text)])
    reading.partial, reading.takes_part = allowed == "true", True
    k, offset = read.k, read.offset
    if k + offset > _MOST:
        text = f"of a matrix, k and offset are at most {_MOST:,} together in a cluster; send the vectors as JSON"
        raise not_in_cluster(text, "#/offset")
    if offset:
        given |= {"k": str(k + offset)}
        del given["offset"]
    path = "/query" + (f"?{urlencode(given)}" if given else "")
    parts = await reading.ask([(shard, path, _raw(body)) for shard in reading.shards], media_type=NPY)
    told = [part.content["answers"] for part in parts]
    shapes = [(k, offset)] * len(told[0])
    answers = merged_batch(told, shapes, await ages_of(reading, parts, told, shapes))
    return {"answers": [incomplete(one) for one in answers] if reading.missing else answers}


def _raw(body: bytes) -> Body:
    return body
