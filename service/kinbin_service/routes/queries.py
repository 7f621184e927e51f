"""Queries: the nearest items of one vector or object, of a stored item, or of many vectors or objects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

import kinbin
from kinbin_service.admission import Cancel
from kinbin_service.bodies import JSON, NPY, parse_json
from kinbin_service.columns import COLUMNS, answer_columns, takes_columns
from kinbin_service.convert import answer, batch_answers, carried, vectors_in
from kinbin_service.documented import NAMED, VECTORS, also, matrix, parameters, route, without
from kinbin_service.npy import parse_matrix
from kinbin_service.objects import KEYS, VECTOR, carried_by
from kinbin_service.problems import Entry, Place, Refusal
from kinbin_service.replies import encode, reply, took_ms
from kinbin_service.routes.adding import check_key
from kinbin_service.routes.asked import Asked, asked_of, entries_of, has_entries
from kinbin_service.routes.received import DEFAULT, Name, no_options, options, received
from kinbin_service.routing import routes
from kinbin_service.schemas.answers import BatchAnswer, ColumnsAnswer, QueryAnswer
from kinbin_service.schemas.queries import FieldsQueryFields, FieldsQueryRequest, QueryFields, QueryOptions, QueryRequest
from kinbin_service.schemas.validation import validate
from kinbin_service.service import service_of
from kinbin_service.settings import Settings

__all__ = ["many_in", "router"]

router = routes("queries")

Search = Callable[[kinbin.Database, str, threading.Event], dict[str, Any]]
"""A search that is ready to run in a collection of this name, until the event is set: gives the content of the answer, but for took_ms."""


def parse_query(request: Request, media_type: str, body: bytes, settings: Settings) -> Search:
    """The search that a body asks for."""
    if media_type == NPY:
        asked = options(request, QueryOptions)
        rows = parse_matrix(body)
        most = int(kinbin.LIMITS["batch_queries"].value)
        if len(rows) > most:
            raise Refusal("over_limit", f"a batch has at most {most:,} queries", [Entry("#/queries", "too many rows")], "batch_queries")
        return _search_many(request, rows, len(rows), asked.options(), settings)
    no_options(request)
    content = parse_json(body)
    if _by_field(content):
        return _search_fields(request, validate(FieldsQueryRequest, content), settings)
    query = validate(QueryRequest, content)
    if query.queries is not None and has_entries(query.queries):
        request.state.place = Place("queries", each=True)
        return _search_each(entries_of(query, content), settings)
    if query.queries is not None:
        key, vectors = many_in(query.queries)
        return _search_many(request, vectors, len(vectors), query.options(), settings, key)
    if query.positive is not None:
        return _search_examples(asked_of(query), settings)
    return _search_one(query, settings)


def many_in(given: Sequence[Any]) -> tuple[str, list[Any]]:
    """Many queries and what they carry: objects under their key, or vectors as they are."""
    first = given[0] if given and isinstance(given[0], dict) else {}
    key = next((name for name in KEYS if name in first), VECTOR)
    if key == VECTOR:
        return key, [carried(key, raw, f"#/queries/{position}") for position, raw in enumerate(given)]
    for position, raw in enumerate(given):
        if not isinstance(raw, dict) or raw.keys() != {key}:
            text = f'every query carries "{key}" alone, as the first one does'
            raise Refusal("invalid_field", text, [Entry(f"#/queries/{position}", text)])
    return key, [carried(key, raw[key], f"#/queries/{position}/{key}") for position, raw in enumerate(given)]


def _search_one(query: QueryFields, settings: Settings) -> Search:
    asked = query.options()
    check_answer_size(1, asked, settings)
    identifier = query.id
    given = query.one()
    key, vector = (VECTOR, None) if given is None else (given[0], carried(given[0], given[1], f"#/{given[0]}"))

    def search(database: kinbin.Database, name: str, cancel: threading.Event) -> dict[str, Any]:
        collection = database.collection(name)
        if identifier is not None:
            found = collection.query_id(identifier, cancel=cancel, options=asked)
        else:
            check_key(collection, key, "#")
            found = collection.query(vector, cancel=cancel, options=asked)
        return answer(found, asked, carried_by(collection))

    return search


def _search_examples(asked: Asked, settings: Settings) -> Search:
    check_answer_size(1, asked.query.options, settings)

    def search(database: kinbin.Database, name: str, cancel: threading.Event) -> dict[str, Any]:
        collection = database.collection(name)
        asked.check(collection)
        return asked.told(collection.query_each([asked.query], cancel)[0], collection)

    return search


def _search_each(asked: Sequence[Asked], settings: Settings) -> Search:
    refuse_large(sum(one.hits for one in asked), settings, contents=any(one.query.options.include for one in asked))

    def search(database: kinbin.Database, name: str, cancel: threading.Event) -> dict[str, Any]:
        collection = database.collection(name)
        for one in asked:
            one.check(collection)
        found = collection.query_each([one.query for one in asked], cancel)
        return {"answers": [one.told(answered, collection) for one, answered in zip(asked, found, strict=True)]}

    return search


def _search_many(request: Request, vectors: Any, number: int, asked: kinbin.QueryOptions, settings: Settings, key: str = VECTOR) -> Search:
    request.state.place = Place("queries")
    check_answer_size(number, asked, settings)

    def search(database: kinbin.Database, name: str, cancel: threading.Event) -> dict[str, Any]:
        collection = database.collection(name)
        check_key(collection, key, "#/queries/0")
        found = collection.query_batch(vectors, cancel=cancel, options=asked)
        return _told(request, found, asked, carried_by(collection))

    return search


def _told(request: Request, found: kinbin.AnswerBatch, asked: kinbin.QueryOptions, key: str = VECTOR) -> dict[str, Any]:
    """The content of the answer to many vectors."""
    return answer_columns(found) if takes_columns(request, asked) else {"answers": batch_answers(found, asked, key)}


def _by_field(content: Any) -> bool:
    """Whether a body asks about several vectors of items."""
    if not isinstance(content, dict):
        return False
    first = content["queries"][0] if isinstance(content.get("queries"), list) and content["queries"] else None
    return not content.keys().isdisjoint(("vectors", "weights", "combine", "fields")) or (isinstance(first, dict) and "vectors" in first)


def _search_fields(request: Request, query: FieldsQueryFields, settings: Settings) -> Search:
    """The search of a body about several vectors."""
    asked = query.options()
    how: dict[str, Any] = {"weights": query.weights, "combine": query.combine, "options": asked}
    check_answer_size(1 if query.queries is None else len(query.queries), asked, settings)
    if query.queries is not None:
        request.state.place = Place("queries")
        many = vectors_in([one["vectors"] for one in query.queries], "#/queries/{}/vectors")
        return lambda database, name, cancel: _told(
            request, database.fields_collection(name).query_batch(many, cancel=cancel, **how), asked
        )
    if query.id is not None:
        identifier = query.id
        return lambda database, name, cancel: answer(
            database.fields_collection(name).query_id(identifier, fields=query.fields, cancel=cancel, **how), asked
        )
    one = {name: of[0] for name, of in vectors_in([query.vectors], "#/vectors").items()}
    return lambda database, name, cancel: answer(database.fields_collection(name).query(one, cancel=cancel, **how), asked)


def check_answer_size(queries: int, asked: kinbin.QueryOptions, settings: Settings) -> None:
    """Refuse a request whose answer could hold too many results, k being what was asked for or the default."""
    each = asked.k + asked.offset if asked.group_by is None else asked.group_by["groups"] * asked.group_by["size"]
    refuse_large(queries * each, settings, contents=bool(asked.include))


def refuse_large(hits: int, settings: Settings, *, contents: bool) -> None:
    """Refuse a request whose answer could hold more results. contents: with payloads or vectors."""
    name, most = ("answer_contents", settings.max_answer_contents) if contents else ("answer_items", settings.max_answer_items)
    if hits > most:
        including = " with payloads or vectors" if contents else ""
        raise Refusal("over_limit", f"k times queries is at most {most:,}{including}", [Entry("#/k", "k times queries is too large")], name)


async def answer_query(request: Request, name: str) -> Response:
    """Answer one body."""
    async with received(request, JSON, NPY) as (media_type, body):
        started = time.perf_counter()
        service = service_of(request)
        search = await service.parsed(len(body), lambda: parse_query(request, media_type, body, service.settings))
        cancel = Cancel()

        def run() -> tuple[bytes, str]:
            content = search(service.database, name, cancel)
            service.metrics.answered(content)
            return encode({**content, "took_ms": took_ms(started)}), COLUMNS if "counts" in content else JSON

        told, form = await service.work(request, run, cancel=cancel)
        return reply(told, media_type=form)


QUERY = route(
    "Find the nearest items",
    QueryAnswer | BatchAnswer,
    body=(QueryRequest, FieldsQueryRequest),
    other_bodies=matrix(),
    parameters=parameters(QueryOptions),
    refusals=NAMED | VECTORS | {"bad_filter", "bad_id", "bad_npy", "bad_parameter", "cursor_expired", "search_deadline", "unknown_id"},
) | also(COLUMNS, ColumnsAnswer)


@router.post("/query", **without(QUERY, "bad_name"))
async def query_default(request: Request) -> Response:
    """In the collection `default`. `vector` and `id` give one answer; `queries` and a matrix give `answers`."""
    return await answer_query(request, DEFAULT)


@router.post("/v1/collections/{name}/query", **QUERY)
async def query(request: Request, name: Name) -> Response:
    """Scores are exact kernel values; `recall_lower_bound` is proved, or null with the reason. `queries` and a matrix give `answers`.

    With `Accept: application/vnd.kinbin.columns+json` these are columns, an array for each field, which are made and read several times
    as fast; answers with contents, groups, pages or `debug`, and to queries with options of their own, are objects all the same.
    """
    return await answer_query(request, name)
