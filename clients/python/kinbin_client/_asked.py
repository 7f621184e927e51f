"""Queries by examples, and queries with options of their own, as they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kinbin_client._chunks import Chunk, Chunking, json_chunks
from kinbin_client._cluster import Reading, reading_request
from kinbin_client._objects import KEYS, encode_object
from kinbin_client._options import Query, QueryOptions, id_as_text
from kinbin_client._requests import Scope, json_request, object_json, query_fields, to_json, vector_json, waiting
from kinbin_client.errors import InvalidArgument
from kinbin_client.vectors import encode_vector

__all__ = ["each_chunks", "example_chunk"]


def example_chunk(scope: Scope, query: Query, items: str) -> Chunk:
    """The request of one query."""
    return Chunk(json_request("POST", scope.query_path, _encoded(query, items, None), headers=waiting(query.options)), 1)


def each_chunks(scope: Scope, queries: Iterable[Query], items: str, chunking: Chunking, asked: Reading) -> tuple[int, Iterator[Chunk]]:
    """How many queries there are, and their requests; none is one request of none. asked: of each request."""
    if isinstance(queries, str | bytes | Mapping) or not isinstance(queries, Iterable):
        raise InvalidArgument(f"queries are a list of Query, not {type(queries).__name__}", code="bad_parameter")
    several = list(queries)
    for position, query in enumerate(several):
        if isinstance(query, Query) and isinstance(query.options, QueryOptions) and (query.options.after or query.options.allow_partial):
            text = "after and allow_partial are of all queries of a call: give them to query_each"
            raise InvalidArgument(text, position, "bad_parameter")
    parts = (_encoded(query, items, position) for position, query in enumerate(several))

    def build(body: bytes) -> Any:
        return reading_request(json_request("POST", scope.query_path, body), asked)

    return len(several), json_chunks(parts, chunking, b'{"queries":[', build)


def _encoded(query: Query, items: str, position: int | None) -> bytes:
    """The JSON of one query with its options."""
    if not isinstance(query, Query) or not isinstance(query.options, QueryOptions):
        text = f"queries are a list of Query with QueryOptions, not {type(query).__name__}"
        raise InvalidArgument(text, position, "bad_parameter")
    if sum(one is not None for one in (query.x, query.id, query.positive)) != 1:
        raise InvalidArgument("a query has just one of x, id and positive", position, "bad_parameter")
    options = to_json(query_fields(query.options), "query", position)[1:]
    if query.id is not None:
        return b'{"id":' + to_json(id_as_text(query.id), "id", position) + b"," + options
    if query.x is not None:
        return b'{"' + KEYS[items].encode() + b'":' + _one(query.x, items, position) + b"," + options
    positive = _examples("positive", query.positive, items, position)
    negative = _examples("negative", query.negative, items, position)
    if not positive:
        raise InvalidArgument("positive has at least one example", position, "bad_parameter")
    told = b'{"positive":[' + b",".join(positive) + b"]"
    return told + (b',"negative":[' + b",".join(negative) + b"]" if negative else b"") + b"," + options


def _examples(name: str, given: Any, items: str, position: int | None) -> list[bytes]:
    """The JSON of some examples: ids, vectors, or objects under their key."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise InvalidArgument(f"{name} is a list of examples: ids, or vectors", position, "bad_parameter")
    return [_example(one, items, position) for one in given]


def _example(one: Any, items: str, position: int | None) -> bytes:
    if isinstance(named := id_as_text(one), str):
        return to_json(named, "id", position)
    if items == "vectors":
        return _one(one, items, position)
    key = KEYS[items]
    if not isinstance(one, Mapping) or set(one) != {key}:
        raise InvalidArgument(f'an example is an id, or {{"{key}": …}}', position, "bad_parameter")
    return b'{"' + key.encode() + b'":' + _one(one[key], items, position) + b"}"


def _one(given: Any, items: str, position: int | None) -> bytes:
    if items == "vectors":
        return vector_json(encode_vector(given), position)
    return object_json(encode_object(items, given), KEYS[items], position)
