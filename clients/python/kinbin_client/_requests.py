"""Requests, built: arguments in, method, path and bytes out, each with the parser of its answer. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from kinbin_client._responses import Reply, discard, model_parser
from kinbin_client.errors import InvalidArgument
from kinbin_client.models import AddResult, Answer, AnswerBatch, CollectionInfo, DeleteResult, GetResult, Health, Limit, Page
from kinbin_client.retry import Repeat
from kinbin_client.vectors import Vector, encode_vector, vector_fault

T = TypeVar("T")

Filter: TypeAlias = Mapping[str, Any]
"""{"field": value} or {"field": {"$gte": 3}}, with $eq $ne $gt $gte $lt $lte $in $nin $exists, $and, $or and $not."""

Include: TypeAlias = Sequence[Literal["payload", "vector"]]
"""What comes with the items of an answer."""

AddMode: TypeAlias = Literal["insert", "update", "upsert"]
QueryMode: TypeAlias = Literal["auto", "bands", "links", "exact"]
Kernel: TypeAlias = Literal["minmax", "gmm", "ngmm", "gint"]
Sampler: TypeAlias = Literal["gcws", "dart"]

JSON_TYPE = "application/json"
NPY_TYPE = "application/x-npy"
_NO_JSON = (ValueError, TypeError, RecursionError, OverflowError)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class QueryOptions(TypedDict, total=False):
    """The options of query, query_id and query_batch.

    `target_recall` (0.9): the recall that is wanted. `min_score` (None): leave out what scores less.
    `filter` (None): only items whose payload fits. `mode` ("auto"): or "bands", "links" (a walk over
    the neighbour graph, of calibrated recall but without a bound) or "exact". `certify` (False): ask
    the bands for a bound where a walk answers. `include` (()): what comes with each hit besides its
    id and score: "payload", "vector".
    """

    target_recall: float
    min_score: float | None
    filter: Filter | None
    mode: QueryMode
    certify: bool
    include: Include


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request without address and credentials.

    `repeat` says when it may be sent again, `timeout` (seconds) replaces the client's if it is set.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeat: Repeat = Repeat.ALWAYS
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A request with the parser of its answer."""

    request: Request
    parse: Callable[[Reply], T]


@dataclass(frozen=True, slots=True)
class Scope:
    """Where adds and queries go: the short routes of the default collection, or those of a named one."""

    index_path: str
    query_path: str


DEFAULT_SCOPE = Scope("/index", "/query")

_parse_add = model_parser(AddResult)
_parse_answer = model_parser(Answer)
_parse_answers = model_parser(AnswerBatch)
_parse_get = model_parser(GetResult)
_parse_delete = model_parser(DeleteResult)
_parse_page = model_parser(Page)
_parse_info = model_parser(CollectionInfo)
_parse_health = model_parser(Health)


class _Count(BaseModel):
    count: int


class _Collections(BaseModel):
    collections: list[str]


class _Limits(BaseModel):
    limits: list[Limit]


_parse_count = model_parser(_Count)
_parse_collections = model_parser(_Collections)
_parse_limits = model_parser(_Limits)


def collection_path(name: str) -> str:
    """/v1/collections/NAME; InvalidArgument for a name that would lead to another route.

    The service decides which names are good; here only those are refused that no path can carry.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument("the name of a collection consists of letters, digits, '_', '-' and '.', and does not begin with '.'")
    return f"/v1/collections/{quote(name, safe='')}"


def collection_scope(name: str) -> Scope:
    """The routes of a named collection."""
    path = collection_path(name)
    return Scope(f"{path}/index", f"{path}/query")


def to_json(value: Any, what: str, position: int | None = None, code: str | None = None) -> bytes:
    """The JSON of a value in UTF-8; InvalidArgument, naming `what`, if it has none (NaN, infinity, foreign objects)."""
    try:
        return _dumps(value)
    except _NO_JSON as error:
        raise InvalidArgument(f"the {what} has no JSON form: {error}", position, code) from None


def vector_json(encoded: Any, position: int | None = None) -> bytes:
    """The JSON of an encoded vector; InvalidArgument in the library's words if it has none."""
    try:
        return _dumps(encoded)
    except _NO_JSON:
        code, text = vector_fault(encoded)
        raise InvalidArgument(text, position, code) from None


def _dumps(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode("ascii")


def _plain(value: Any) -> Any:
    """What json does not know: scalars and arrays of NumPy (and of anything alike) as numbers and lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def json_request(method: str, path: str, body: bytes, repeat: Repeat = Repeat.ALWAYS) -> Request:
    """A request with a JSON body."""
    return Request(method, path, body, {"content-type": JSON_TYPE}, repeat)


def npy_request(
    path: str, parameters: Mapping[str, Any], body: bytes, headers: Mapping[str, str], repeat: Repeat = Repeat.ALWAYS
) -> Request:
    """A request with a matrix as its body: everything else stands in the address and in headers."""
    return Request("POST", f"{path}?{urlencode(parameters)}", body, {"content-type": NPY_TYPE, **headers}, repeat)


def add_repeat(mode: AddMode) -> Repeat:
    """Adding the same items twice is adding them once with mode upsert only: insert and update would then answer a conflict."""
    return Repeat.ALWAYS if mode == "upsert" else Repeat.IF_NOT_DONE


def add(request: Request) -> Operation[AddResult]:
    """One request of an add (built by `_chunks`)."""
    return Operation(request, _parse_add)


def query(scope: Scope, vector: Vector, k: int, options: QueryOptions) -> Operation[Answer]:
    """The k nearest of one vector."""
    body = b'{"vector":' + vector_json(encode_vector(vector)) + b"," + to_json(query_fields(k, options), "query")[1:]
    return Operation(json_request("POST", scope.query_path, body), _parse_answer)


def query_id(scope: Scope, id: str, k: int, options: QueryOptions) -> Operation[Answer]:
    """The k nearest of a stored item."""
    body = {"id": id, **query_fields(k, options)}
    return Operation(json_request("POST", scope.query_path, to_json(body, "query")), _parse_answer)


def query_batch(request: Request) -> Operation[AnswerBatch]:
    """One request of a batch of queries (built by `_chunks`)."""
    return Operation(request, _parse_answers)


def query_fields(k: int, options: QueryOptions) -> dict[str, Any]:
    """The fields of a query besides its vector; TypeError for an option that does not exist."""
    return _query_fields(k, **options)


def _query_fields(
    k: int,
    *,
    target_recall: float = 0.9,
    min_score: float | None = None,
    filter: Filter | None = None,
    mode: QueryMode = "auto",
    certify: bool = False,
    include: Include = (),
) -> dict[str, Any]:
    _refuse_non_finite("target_recall", target_recall, "is a number above 0 and at most 1")
    _refuse_non_finite("min_score", min_score, "is a number from 0 to 1, or null")
    fields: dict[str, Any] = {"k": k, "target_recall": target_recall, "mode": mode, "include": _names(include)}
    if min_score is not None:
        fields["min_score"] = min_score
    if not isinstance(certify, bool):
        raise InvalidArgument("certify is true or false", code="bad_parameter")
    if certify:
        # Only where it is asked for: services before links do not know it.
        fields["certify"] = certify
    if filter is not None:
        fields["filter"] = _conditions(filter)
    return fields


def get(name: str, ids: Sequence[str], include: Include) -> Operation[GetResult]:
    """Stored items by id."""
    return _post(f"{collection_path(name)}/get", {"ids": id_list(ids), "include": _names(include)}, _parse_get)


def delete(name: str, ids: Sequence[str] | None, filter: Filter | None) -> Operation[DeleteResult]:
    """Delete by exactly one of ids and filter."""
    if (ids is None) == (filter is None):
        raise InvalidArgument("delete takes exactly one of ids and filter")
    body: dict[str, Any] = {"ids": id_list(ids)} if ids is not None else {"filter": _conditions(filter)}
    return _post(f"{collection_path(name)}/delete", body, _parse_delete)


def scroll(name: str, after: str | None, limit: int, filter: Filter | None, include: Include) -> Operation[Page]:
    """One page of the items in id order."""
    body = {"after": after, "limit": limit, "filter": _conditions(filter), "include": _names(include)}
    return _post(f"{collection_path(name)}/scroll", body, _parse_page)


def count(name: str, filter: Filter | None) -> Operation[int]:
    """How many items there are."""
    body = {"filter": _conditions(filter)}
    return _post(f"{collection_path(name)}/count", body, lambda reply: _parse_count(reply).count)


def create_collection(name: str, config: Mapping[str, Any]) -> Operation[CollectionInfo]:
    """Create a collection, or find one that is alike."""
    body = to_json(dict(config), "configuration")
    return Operation(json_request("PUT", collection_path(name), body), _parse_info)


def collection_info(name: str) -> Operation[CollectionInfo]:
    """The configuration of a collection."""
    return Operation(Request("GET", collection_path(name)), _parse_info)


def drop_collection(name: str) -> Operation[None]:
    """Drop a collection; never repeated when it may have been done, for the second would miss it (or hit a new one)."""
    return Operation(Request("DELETE", collection_path(name), repeat=Repeat.IF_NOT_DONE), discard)


def collections() -> Operation[list[str]]:
    """The names of all collections."""
    return Operation(Request("GET", "/v1/collections"), lambda reply: _parse_collections(reply).collections)


def limits() -> Operation[dict[str, Limit]]:
    """The limits of the service by name."""
    return Operation(Request("GET", "/v1/limits"), lambda reply: {limit.name: limit for limit in _parse_limits(reply).limits})


def health() -> Operation[Health]:
    """Whether the service answers at all."""
    return Operation(Request("GET", "/healthz"), _parse_health)


def ready(timeout: float | None = None) -> Operation[None]:
    """Whether the service takes requests: Unavailable if not yet."""
    return Operation(Request("GET", "/readyz", timeout=timeout), discard)


def _refuse_non_finite(name: str, value: Any, rule: str) -> None:
    """Refuse an option that JSON has no number for; what else may be wrong with it, the service says."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidArgument(f"{name} {rule}", code="bad_parameter")


def _conditions(filter: Filter | None) -> dict[str, Any] | None:
    """A filter as it is sent; None stays None."""
    if filter is None:
        return None
    if not isinstance(filter, Mapping):
        raise InvalidArgument('a filter is an object with at least one field, as {"year": {"$gte": 2020}}', code="bad_filter")
    conditions = dict(filter)
    to_json(conditions, "filter", code="bad_filter")
    return conditions


def id_list(ids: Sequence[str]) -> list[str]:
    """The ids as a list of plain strings; InvalidArgument for one string in place of a list, or for an id that is none."""
    if isinstance(ids, str | bytes):
        raise InvalidArgument("ids are a list of strings", code="bad_parameter")
    listed: Any = ids.tolist() if hasattr(ids, "tolist") and not isinstance(ids, type) else ids
    if isinstance(listed, str | bytes | Set | Mapping) or hasattr(listed, "tocsr") or not isinstance(listed, Iterable):
        raise InvalidArgument("ids are a list of strings", code="bad_parameter")
    listed = list(listed)
    for position, identifier in enumerate(listed):
        if not isinstance(identifier, str):
            text = f"an id is a string, this is {type(identifier).__name__}; convert it with str()"
            raise InvalidArgument(text, position, "bad_id")
    names: list[str] = listed
    return names


def _names(include: Include) -> list[str]:
    if isinstance(include, str):
        raise InvalidArgument("include is a sequence of names, such as ('payload', 'vector'), not one string", code="bad_parameter")
    if not isinstance(include, Iterable) or hasattr(include, "tocsr") or getattr(include, "ndim", 1) == 0:
        raise InvalidArgument(f"include lists some of vector, payload, not {type(include).__name__}", code="bad_parameter")
    return list(include)


def _post(path: str, body: Mapping[str, Any], parse: Callable[[Reply], T]) -> Operation[T]:
    return Operation(json_request("POST", path, to_json(body, "request")), parse)
