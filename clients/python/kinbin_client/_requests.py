"""Requests, built: arguments in, method, path and bytes out, each with the parser of its answer. No I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, TypeAdapter

from kinbin_client._columns import COLUMNS_TYPE, parse_answers
from kinbin_client._objects import KEYS, encode_object
from kinbin_client._options import Filter, Include, QueryOptions, id_as_text, names
from kinbin_client._responses import Reply, discard, model_parser
from kinbin_client.errors import Conflict, InvalidArgument
from kinbin_client.models import (
    AddResult,
    Answer,
    AnswerBatch,
    CollectionInfo,
    Counted,
    DeleteResult,
    Facets,
    GetResult,
    Health,
    Limit,
    Page,
)
from kinbin_client.retry import Repeat
from kinbin_client.vectors import ByField, Vector, encode_vector, vector_fault

T = TypeVar("T")

Combine: TypeAlias = Literal["sum", "product"]
"""How scores of fields become one."""
Kernel: TypeAlias = str
"""A kernel's name, or a product as "gmm*acos". The service says which there are."""
Sampler: TypeAlias = Literal["gcws", "dart", "argmax", "sign", "cauchy", "gcws_sign", "dart_sign"]
"""How vectors are hashed. The service says which of them a kernel may be hashed by."""

IndexKind: TypeAlias = Literal["number", "keyword", "datetime", "geo"]
"""What values of a field are indexed."""


class CollectionOptions(TypedDict, total=False):
    """Options of a new collection that few need: see `Client.create_collection`."""

    parameters: Mapping[str, Any] | None
    sampler: Sampler | None
    bands: int | None
    rows: int | None
    seed: int | None
    feature_names: Mapping[int, str] | Sequence[str] | None
    cluster: Mapping[str, int | None] | None


_EMPTY = (type(None), bool, int, list)
"""Types of options that say nothing where they are false."""
_CONFIGURATION = {"kernel", "dim", "items", "distance", "indexes", *CollectionOptions.__annotations__}

JSON_TYPE = "application/json"
NPY_TYPE = "application/x-npy"
AFTER_HEADER = "x-kinbin-after"
"""Of a read of a cluster: the token of a write that it waits for."""
_PLAIN = {int, float}
_LISTED: TypeAdapter[list[Any]] = TypeAdapter(list[Any], config=ConfigDict(ser_json_inf_nan="constants"))
_NO_JSON = (ValueError, TypeError, RecursionError, OverflowError)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


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
    file: Path | None = None
    """The body, in the place of `body`, read as it is sent."""


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

_parse_added = model_parser(AddResult)
_parse_answer = model_parser(Answer)
_parse_get = model_parser(GetResult)
_parse_delete = model_parser(DeleteResult)
_parse_facets = model_parser(Facets)
_parse_page = model_parser(Page)
_parse_info = model_parser(CollectionInfo)
_parse_health = model_parser(Health)


class _Collections(BaseModel):
    collections: list[str]


class _Limits(BaseModel):
    limits: list[Limit]


_parse_count = model_parser(Counted)
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
    """The JSON of a value in UTF-8; InvalidArgument, naming `what`, if it has none (NaN, infinity, foreign objects).

    code: of the whole, whatever is wrong in it; None: "non_finite" of a NaN or an infinity, and none of all else.
    """
    try:
        return _dumps(value)
    except _NO_JSON as error:
        if code is None and str(error).startswith("Out of range float values"):
            code = "non_finite"
        raise InvalidArgument(f"the {what} has no JSON form: {error}", position, code) from None


def vector_json(encoded: Any, position: int | None = None) -> bytes:
    """The JSON of an encoded vector; InvalidArgument in the library's words if it has none."""
    try:
        return _numbers(encoded) or _dumps(encoded)
    except _NO_JSON:
        code, text = vector_fault(encoded)
        raise InvalidArgument(text, position, code) from None


def object_json(encoded: Any, key: str, position: int | None = None) -> bytes:
    """The JSON of an encoded object; InvalidArgument in the library's words if it has none."""
    try:
        return _dumps(encoded)
    except ValueError:
        text = f"the numbers of a {'series' if key == 'series' else 'point set'} are finite, this one has a NaN or an infinity"
        raise InvalidArgument(text, position, "non_finite") from None
    except _NO_JSON:
        text = f"a {'series' if key == 'series' else 'point set'} is an array of numbers, this one holds something else"
        raise InvalidArgument(text, position, "bad_object") from None


def _numbers(value: Any) -> bytes | None:
    """The JSON of a list of Python's own numbers, in a fifth of the time that `json` takes; None: it is looked at more closely."""
    if type(value) is not list or not set(map(type, value)) <= _PLAIN:
        return None
    try:
        written = _LISTED.dump_json(value)
    except ValueError:
        return None
    # NaN and infinities.
    return None if b"N" in written or b"I" in written else written


def _dumps(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode("ascii")


def _plain(value: Any) -> Any:
    """What json does not know: scalars and arrays of NumPy (and of anything alike) as numbers and lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")


def json_request(method: str, path: str, body: bytes, repeat: Repeat = Repeat.ALWAYS, headers: Mapping[str, str] | None = None) -> Request:
    """A request with a JSON body."""
    return Request(method, path, body, {"content-type": JSON_TYPE, **(headers or {})}, repeat)


def npy_request(
    path: str, parameters: Mapping[str, Any], body: bytes, headers: Mapping[str, str], repeat: Repeat = Repeat.ALWAYS
) -> Request:
    """A request with a matrix as its body: everything else stands in the address and in headers."""
    return Request("POST", f"{path}?{urlencode(parameters)}", body, {"content-type": NPY_TYPE, **headers}, repeat)


def _parse_add(reply: Reply) -> AddResult:
    added = _parse_added(reply)
    return added.model_copy(update={"replayed": True}) if reply.headers.get("idempotency-replayed") == "true" else added


def add(request: Request) -> Operation[AddResult]:
    """One request of an add (built by `_chunks`)."""
    return Operation(request, _parse_add)


def query(scope: Scope, given: Any, options: QueryOptions, items: str = "vectors") -> Operation[Answer]:
    """The k nearest of one vector, or of one object of a kind of items."""
    key = KEYS[items]
    sent = vector_json(encode_vector(given)) if items == "vectors" else object_json(encode_object(items, given), key)
    body = b'{"' + key.encode() + b'":' + sent + b"," + to_json(query_fields(options), "query")[1:]
    return Operation(json_request("POST", scope.query_path, body, headers=waiting(options)), _parse_answer)


def answered(request: Request) -> Operation[Answer]:
    """One query that is written already (built by `_asked`)."""
    return Operation(request, _parse_answer)


def query_id(scope: Scope, id: str | int, options: QueryOptions) -> Operation[Answer]:
    """The k nearest of a stored item."""
    body = {"id": id_as_text(id), **query_fields(options)}
    return Operation(json_request("POST", scope.query_path, to_json(body, "query"), headers=waiting(options)), _parse_answer)


def query_fields_of(scope: Scope, vectors: ByField[Vector], how: Mapping[str, Any], options: QueryOptions) -> Operation[Answer]:
    """The k nearest by several vectors. how: weights and combine, see `combined`."""
    given = b",".join(to_json(name, "field") + b":" + vector_json(encode_vector(vector)) for name, vector in named(vectors).items())
    body = b'{"vectors":{' + given + b"}," + to_json({**how, **query_fields(options)}, "query")[1:]
    return Operation(json_request("POST", scope.query_path, body, headers=waiting(options)), _parse_answer)


def query_id_of(scope: Scope, id: str | int, how: Mapping[str, Any], options: QueryOptions) -> Operation[Answer]:
    """The k nearest of a stored item by several vectors."""
    body = {"id": id_as_text(id), **how, **query_fields(options)}
    return Operation(json_request("POST", scope.query_path, to_json(body, "query"), headers=waiting(options)), _parse_answer)


def combined(weights: Mapping[str, float] | None, combine: str, fields: Iterable[str] | None = None) -> dict[str, Any]:
    """How scores of fields become one, as it is sent."""
    how: dict[str, Any] = {"combine": combine}
    if weights is not None:
        how["weights"] = dict(named(weights, "weights"))
    if fields is not None:
        how["fields"] = id_list(fields if isinstance(fields, Sequence) else list(fields))
    return how


def named(given: Any, what: str = "vectors") -> Mapping[str, Any]:
    """A mapping by field, as far as its form goes; InvalidArgument if it is none."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"{what} are a mapping of field to value, not {type(given).__name__}", code="bad_parameter")
    return given


def query_batch(request: Request) -> Operation[AnswerBatch]:
    """One request of a batch of queries (built by `_chunks`)."""
    headers = {**request.headers, "accept": f"{COLUMNS_TYPE}, {JSON_TYPE}"}
    return Operation(replace(request, headers=headers), parse_answers)


def query_fields(options: QueryOptions) -> dict[str, Any]:
    """The fields of a query besides its vector."""
    made: dict[str, Any] = {
        "k": options.k, "target_recall": options.target_recall, "mode": options.mode, "include": list(options.include)
    }  # fmt: skip
    if options.min_score is not None:
        made["min_score"] = options.min_score
    if options.max_distance is not None:
        made["max_distance"] = options.max_distance
    if options.certify:
        # Only where it is asked for: services before links do not know it.
        made["certify"] = options.certify
    if options.filter is not None:
        made["filter"] = _conditions(options.filter)
    # The same for what came later.
    return made | {name: value for name, value in _later(options).items() if not isinstance(value, _EMPTY) or value}


def waiting(options: QueryOptions) -> Mapping[str, str]:
    """The headers of a query."""
    return {} if options.after is None else {AFTER_HEADER: options.after}


def _later(options: QueryOptions) -> dict[str, Any]:
    """Options that are sent only where they are asked for."""
    return {
        "exclude": list(options.exclude),
        "include_self": options.include_self,
        "offset": options.offset,
        "cursor": options.cursor,
        "group_by": options.group_by,
        "debug": options.debug,
        "allow_partial": options.allow_partial,
    }


def get(name: str, ids: Sequence[str | int], include: Include) -> Operation[GetResult]:
    """Stored items by id."""
    return _post(f"{collection_path(name)}/get", {"ids": id_list(ids), "include": names(include, stored=True)}, _parse_get)


def delete(
    name: str, ids: Sequence[str | int] | None, filter: Filter | None, if_versions: Sequence[int | None] | None = None
) -> Operation[DeleteResult]:
    """Delete by exactly one of ids and filter. On condition of versions it is not repeated when it may have been done."""
    if (ids is None) == (filter is None):
        raise InvalidArgument("delete takes exactly one of ids and filter")
    body: dict[str, Any] = {"ids": id_list(ids)} if ids is not None else {"filter": _conditions(filter)}
    if if_versions is None:
        return _post(f"{collection_path(name)}/delete", body, _parse_delete)
    body["if_versions"] = list(if_versions)
    request = json_request("POST", f"{collection_path(name)}/delete", to_json(body, "request"), Repeat.IF_NOT_DONE)
    return Operation(request, _parse_delete)


def scroll(
    name: str, after: str | None, limit: int, filter: Filter | None, include: Include, order_by: str | None = None, descending: bool = False
) -> Operation[Page]:
    """One page of the items in id order, or in that of a field."""
    body: dict[str, Any] = {"after": after, "limit": limit, "filter": _conditions(filter), "include": names(include, stored=True)}
    if order_by is not None or descending:
        # Only where it is asked for: services before payload indexes do not know it.
        body |= {"order_by": order_by, "descending": descending}
    return _post(f"{collection_path(name)}/scroll", body, _parse_page)


def count(name: str, filter: Filter | None) -> Operation[Counted]:
    """How many items there are."""
    body = {"filter": _conditions(filter)}
    return _post(f"{collection_path(name)}/count", body, _parse_count)


def facets(name: str, field: str, filter: Filter | None, limit: int) -> Operation[Facets]:
    """The values of a field with their counts."""
    body = {"field": field, "filter": _conditions(filter), "limit": limit}
    return _post(f"{collection_path(name)}/facets", body, _parse_facets)


def change_indexes(name: str, add: Mapping[str, IndexKind], drop: Sequence[str]) -> Operation[None]:
    """Add and drop payload indexes."""
    body: dict[str, Any] = {"add": dict(add), "drop": list(drop)}
    return _post(f"{collection_path(name)}/indexes", body, discard)


def create_collection(name: str, config: Mapping[str, Any], exist_ok: bool) -> Operation[CollectionInfo]:
    """Create a collection; with exist_ok, or find one that is alike.

    The service answers 200 in place of 201 where it found one. Without exist_ok a request that may have been done is not sent again:
    its second answer would take the collection that the first has made for one that was there.
    """
    if not isinstance(exist_ok, bool):
        raise InvalidArgument("exist_ok is true or false", code="bad_parameter")

    def parse(reply: Reply) -> CollectionInfo:
        info = _parse_info(reply)
        if reply.status == 200 and not exist_ok:
            raise Conflict(409, "collection_exists", "the collection exists; choose another name or drop it first")
        return info

    repeat = Repeat.ALWAYS if exist_ok else Repeat.IF_NOT_DONE
    return Operation(json_request("PUT", collection_path(name), to_json(dict(config), "configuration"), repeat), parse)


def configuration(config: Mapping[str, Any], fields: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """A configuration as it is sent: with fields, or of objects, only what was chosen. The service says what goes together.

    Services before objects know neither `items` nor a kernel that is null. TypeError for an option that there is not.
    """
    for name in config:
        if name not in _CONFIGURATION:
            raise TypeError(f"a new collection has no option {name!r}; there are {', '.join(CollectionOptions.__annotations__)}")
    kept = {name: value for name, value in config.items() if value is not None}
    if isinstance(kept.get("items"), str) and kept["items"] == "vectors":
        del kept["items"]
    if "parameters" in kept:
        kept["parameters"] = dict(kept["parameters"])
    if "cluster" in kept:
        kept["cluster"] = dict(named(kept["cluster"], "cluster"))
    kept |= _names_of(kept)
    if fields is None and not kept.keys() & {"items", "distance"}:
        plain = {name: config.get(name) for name in ("dim", "sampler", "bands", "rows", "seed")}
        return {"kernel": "ngmm", **plain, **kept}
    if fields is None:
        return kept
    own = {name: dict(named(of, f"the options of field {name!r}")) for name, of in named(fields, "fields").items()}
    return {**kept, "fields": {name: of | _names_of(of) for name, of in own.items()}}


def _names_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Names of features as JSON has them, whose keys are strings; nothing where they are none, or a list."""
    names = options.get("feature_names")
    return {"feature_names": {str(feature): one for feature, one in names.items()}} if isinstance(names, Mapping) else {}


def collection_info(name: str) -> Operation[CollectionInfo]:
    """The configuration of a collection."""
    return Operation(Request("GET", collection_path(name)), _parse_info)


def drop_collection(name: str, *, damaged: bool = False) -> Operation[None]:
    """Drop a collection; never repeated when it may have been done, for the second would miss it (or hit a new one)."""
    path = collection_path(name) + ("?damaged=true" if damaged else "")
    return Operation(Request("DELETE", path, repeat=Repeat.IF_NOT_DONE), discard)


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


def _conditions(filter: Filter | None) -> dict[str, Any] | None:
    """A filter as it is sent; None stays None."""
    if filter is None:
        return None
    if not isinstance(filter, Mapping):
        raise InvalidArgument('a filter is an object with at least one field, as {"year": {"$gte": 2020}}', code="bad_filter")
    conditions = dict(filter)
    to_json(conditions, "filter", code="bad_filter")
    return conditions


def id_list(ids: Sequence[str | int]) -> list[str]:
    """The ids as plain strings, integers as their digits; InvalidArgument for one string in place of a list, or for an id that is none."""
    if isinstance(ids, str | bytes):
        raise InvalidArgument("ids are a list of strings", code="bad_parameter")
    listed: Any = ids.tolist() if hasattr(ids, "tolist") and not isinstance(ids, type) else ids
    if isinstance(listed, str | bytes | Set | Mapping) or hasattr(listed, "tocsr") or not isinstance(listed, Iterable):
        raise InvalidArgument("ids are a list of strings", code="bad_parameter")
    listed = [one if isinstance(one, str) else id_as_text(one) for one in listed]
    for position, identifier in enumerate(listed):
        if not isinstance(identifier, str):
            text = f"an id is a string or a 64-bit integer, this is {type(identifier).__name__}; convert it with str()"
            if isinstance(identifier, int) and not isinstance(identifier, bool):
                text = "an integer id has 64 bits: from -2**63 to 2**64 - 1; convert others with str()"
            raise InvalidArgument(text, position, "bad_id")
    names: list[str] = listed
    return names


def _post(path: str, body: Mapping[str, Any], parse: Callable[[Reply], T]) -> Operation[T]:
    return Operation(json_request("POST", path, to_json(body, "request")), parse)
