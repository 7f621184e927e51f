"""Every error as one problem document (RFC 9457): the table of codes, the errors that routes raise, and what library errors become.

A document is smaller than 2 kB, has at most 8 entries, and repeats nothing of what was sent but the ids of a conflict,
which are printable and short, names of fields that are words, and the name of a collection that is in the way.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import kinbin
from kinbin_service.limits import PROBLEM_BYTES, PROBLEM_ENTRIES
from kinbin_service.objects import KEYS

__all__ = [
    "CODES",
    "MEDIA_TYPE",
    "REFUSED",
    "Code",
    "Entry",
    "Place",
    "Refusal",
    "answer_http_error",
    "answer_library_error",
    "answer_refusal",
    "from_library",
]

MEDIA_TYPE = "application/problem+json"
REFUSED = "kinbin.code"
"""Where the scope of a request that was answered with a problem document holds its code."""
DETAIL_CHARACTERS = 300
ENTRY_CHARACTERS = 160
RETRY_SECONDS = 1

log = logging.getLogger("kinbin.problems")


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of error: its status and its title, the same for ever."""

    status: int
    title: str


CODES: dict[str, Code] = {
    # The request as a message.
    "bad_request": Code(400, "The request is malformed"),
    "bad_json": Code(400, "The body is not JSON"),
    "bad_encoding": Code(400, "The body is not encoded as it says"),
    "bad_npy": Code(400, "The body is not an .npy matrix"),
    "bad_multipart": Code(400, "The body is not multipart/form-data with images"),
    "key_in_query": Code(400, "An API key does not belong into an address"),
    "unauthorized": Code(401, "The API key is missing or wrong"),
    "forbidden": Code(403, "The API key may not do this"),
    "foreign_origin": Code(403, "A web page of another host sent the request"),
    "not_found": Code(404, "There is no such route"),
    "method_not_allowed": Code(405, "The route has no such method"),
    "body_timeout": Code(408, "The body took too long to arrive"),
    "head_timeout": Code(408, "The head of the request took too long to arrive"),
    "body_too_large": Code(413, "The body is too large"),
    "range_not_satisfiable": Code(416, "The range lies beyond the end"),
    "unsupported_media_type": Code(415, "The content type is not read here"),
    "unsupported_encoding": Code(415, "The content encoding is not read"),
    "unknown_host": Code(421, "The request names a host that is not this server's"),
    "head_too_large": Code(431, "The head of the request is too large"),
    # What was asked for.
    "collection_not_found": Code(404, "There is no such collection"),
    "alias_not_found": Code(404, "There is no such alias"),
    "snapshot_not_found": Code(404, "There is no such snapshot"),
    "unknown_id": Code(404, "There is no such item"),
    "collection_exists": Code(409, "A collection of this name exists"),
    "item_conflict": Code(409, "Items conflict with stored ones"),
    "version_conflict": Code(409, "Items have other versions"),
    "key_reused": Code(409, "The idempotency key came with another add"),
    "alias_conflict": Code(409, "A name is taken by an alias, or an alias by a collection"),
    "cursor_expired": Code(409, "The collection has changed since the cursor's page"),
    # The body's content.
    "invalid_field": Code(422, "A field is missing, unknown or of the wrong type"),
    "bad_string": Code(422, "A string is not Unicode"),
    "bad_id": Code(422, "An id is not allowed"),
    "bad_name": Code(422, "A collection's name is not allowed"),
    "bad_vector": Code(422, "A vector is malformed"),
    "bad_object": Code(422, "A string, or another object, is malformed"),
    "bad_payload": Code(422, "A payload is not allowed"),
    "bad_filter": Code(422, "The filter is malformed"),
    "bad_parameter": Code(422, "A parameter is not allowed"),
    "non_finite": Code(422, "A number is not finite"),
    "out_of_range": Code(422, "A number is out of range"),
    "zero_vector": Code(422, "A vector has no value other than zero"),
    "negative_value": Code(422, "A value is negative in a collection that takes none"),
    "dimension_mismatch": Code(422, "A vector has the wrong dimension"),
    "corrupt_snapshot": Code(422, "The uploaded snapshot is damaged"),
    "no_snapshot": Code(422, "The uploaded file is no snapshot that is read here"),
    "duplicate_feature": Code(422, "A vector names a feature twice"),
    "duplicate_id": Code(422, "An id occurs twice in the batch"),
    "over_limit": Code(422, "A limit is passed"),
    # The state of the service.
    "overloaded": Code(429, "Too many requests wait already"),
    "internal": Code(500, "The service failed"),
    "corrupt_data": Code(500, "Stored data is damaged"),
    "format_mismatch": Code(500, "Stored data has another format"),
    "storage_error": Code(500, "The store failed"),
    "not_ready": Code(503, "The service is starting"),
    "stopping": Code(503, "The service is stopping"),
    "too_many_connections": Code(503, "Too many connections are open"),
    "deadline": Code(503, "The request waited too long"),
    "search_deadline": Code(503, "The search took too long"),
    "buffers_full": Code(503, "Too many bodies are being received"),
    "storage_busy": Code(503, "The store is busy"),
    "closed": Code(503, "The database is closed"),
    "cancelled": Code(503, "The search was given up"),
    "storage_full": Code(507, "The storage is full"),
    # Of a cluster, whose gateways answer as one server does.
    "not_in_cluster": Code(501, "A cluster does not offer this"),
    "changed_meanwhile": Code(409, "What was asked about has changed meanwhile"),
    "shard_unavailable": Code(503, "A part of the collection does not answer"),
    "lagging": Code(503, "No replica has applied the write yet"),
    "outcome_unknown": Code(503, "The write may have been done"),
}

RETRIED = frozenset({429, 503})
"""Statuses that come with Retry-After: the same request may succeed later."""

OWN_TEXTS = {
    "collection_not_found": "no collection has this name: PUT /v1/collections/{name} creates it, and the first POST /index of vectors "
    "creates default",
    "snapshot_not_found": "the collection has no snapshot of this id: GET /v1/collections/{name}/snapshots lists them",
    "item_conflict": "nothing was written: insert takes ids that are not stored, update takes ids that are",
    "version_conflict": "nothing was written: an item has another version than if_version says; get it and decide anew",
    "key_reused": "nothing was written: the Idempotency-Key came within a day with another add; take a new key for each",
    "alias_conflict": "a name is a collection or an alias, and aliases lead to collections: take a name that is free, or drop the alias "
    "first (GET /v1/aliases lists them, DELETE /v1/aliases/{name} drops one); a collection is dropped after its aliases",
    "alias_not_found": "no alias has this name: GET /v1/aliases lists them",
    "cursor_expired": "the collection has changed since the page before: begin again, with an empty cursor",
    "storage_full": "nothing was written (a delete by filter may be done in part); queries go on",
    "storage_busy": "nothing was acknowledged, and a write may have been done: try again, but look first if it was no upsert and no delete",
    "closed": "the database is closed; try again",
    "cancelled": "the search was given up, as its client seemed to have left; try again",
    "corrupt_data": "what is stored is damaged, and was not used; the log says more, kinbin check lists the damage, kinbin repair saves "
    "what is whole",
    "format_mismatch": "the files were written by another version; the log says which",
    "storage_error": "files could not be read or written, and nothing was acknowledged (a delete by filter may be done in part); "
    "the log says why",
}
"""Details of library errors whose own text names files or ids."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is wrong with a body: a JSON pointer as a URI fragment, and what is wrong there."""

    pointer: str
    detail: str


class Refusal(Exception):
    """A request that is answered with a problem document; `code` is a key of CODES."""

    def __init__(self, code: str, detail: str, errors: Sequence[Entry] = (), limit: str | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.limit = limit

    def response(self, headers: dict[str, str] | None = None) -> Response:
        """The answer, with Retry-After where trying again may help."""
        code = CODES[self.code]
        extra = {"Retry-After": str(RETRY_SECONDS)} if code.status in RETRIED else {}
        if code.status == 401:
            extra["WWW-Authenticate"] = "Bearer"
        body = document(self.code, self.detail, self.errors, self.limit)
        return _Problem(self.code, body, code.status, {**extra, **(headers or {})}, MEDIA_TYPE)


class _Problem(Response):
    """A problem document, whose code the log and the metrics find in the scope of the request."""

    def __init__(self, code: str, body: bytes, status: int, headers: dict[str, str], media_type: str) -> None:
        super().__init__(body, status, headers, media_type)
        self._code = code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        scope[REFUSED] = self._code
        await super().__call__(scope, receive, send)


def document(code: str, detail: str, errors: Sequence[Entry] = (), limit: str | None = None) -> bytes:
    """A problem document, cut to its limits."""
    kind = CODES[code]
    entries = [{"pointer": _cut(entry.pointer, ENTRY_CHARACTERS), "detail": _cut(entry.detail, ENTRY_CHARACTERS)} for entry in errors]
    del entries[PROBLEM_ENTRIES:]
    while True:
        body = orjson.dumps(
            {
                "type": f"urn:kinbin:problem:{code}",
                "title": kind.title,
                "status": kind.status,
                "code": code,
                "detail": _cut(detail, DETAIL_CHARACTERS),
                "errors": entries,
                "limit": limit,
            }
        )
        if len(body) < PROBLEM_BYTES or not entries:
            return body
        entries.pop()


def _cut(text: str, length: int) -> str:
    """A text without lone surrogates (JSON has none), of at most `length` characters."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= length else text[: length - 1] + "…"


# ------------------------------------------------------------------------------------- library errors


_OF_ITEMS = frozenset({None, "id", "ids", "vector", "payload", "payloads", "if_version", *KEYS})
"""Fields of problems that are about the items of a batch, and not about another part of the body."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a body the library's arguments came from: makes JSON pointers of positions and fields."""

    batch: str | None = None
    """The array that positions count in: "items", "queries" or "ids"; None: the body is about one vector."""
    ids: Sequence[str] = ()
    """The ids of the batch, to find the positions of conflicting ones."""
    lines: Sequence[int] = ()
    """The line of each item, if the body was made of lines."""
    each: bool = False
    """Whether queries have fields of their own."""
    places: Sequence[int] | None = None
    """Of the items in the body; None: one after the other."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Fields of the body that the library calls otherwise, by its names."""

    def pointer(self, position: int | None, field: str | None) -> str:
        """The pointer of one problem."""
        if self.batch is None:
            # A collection's name stands in the address, not in the body.
            return {None: "#", "name": "#", "x": "#/vector"}.get(field, f"#/{self.called.get(str(field), field)}")
        if position is None:
            return f"#/{self.batch}" if field in _OF_ITEMS or field == self.batch else f"#/{field}"
        inner = f"/{field}" if (self.batch == "items" or self.each) and field else ""
        return f"#/{self.batch}/{position}{inner}"

    def detail(self, problem: kinbin.Problem) -> str:
        """What is wrong, with the line that it stands on; of an id that is there twice, where it is first instead of the id itself."""
        text, position = problem.detail, problem.position
        if position is None:
            return text
        if problem.code == "duplicate_id":
            text = f"the same id is {self._first(position)} already; send each id once"
        return f"line {self.lines[position]}: {text}" if self.lines else text

    def _first(self, position: int) -> str:
        """Where the id of this position is first."""
        if position >= len(self.ids):
            return "in the batch"
        first = self.ids.index(self.ids[position])
        if self.lines:
            return f"on line {self.lines[first]}"
        return f"at {self.pointer(first if self.places is None else self.places[first], 'id')}"


def from_library(error: kinbin.KinbinError, place: Place) -> Refusal:
    """The refusal that a library error is answered with."""
    code = error.code if error.code in CODES else "invalid_field" if isinstance(error, kinbin.InvalidInput) else "storage_error"
    if isinstance(error, kinbin.InvalidInput):
        entries = [Entry(place.pointer(problem.position, problem.field), place.detail(problem)) for problem in error.problems]
        limit = next((problem.limit for problem in error.problems if problem.limit), None)
        return Refusal(code, entries[0].detail, entries, limit)
    if isinstance(error, kinbin.ItemConflict):
        known = {identifier: position for position, identifier in reversed(list(enumerate(place.ids)))}
        positions = sorted(known[identifier] for identifier in error.ids if identifier in known)
        # Its own text names ids, and nothing else.
        text = str(error) if error.ids else OWN_TEXTS[code]
        return Refusal(code, text, [Entry(place.pointer(position, "id"), "conflicts with what is stored") for position in positions])
    if isinstance(error, kinbin.CollectionNotFound):
        return Refusal(code, OWN_TEXTS[code] + (f"; did you mean '{error.near}'?" if error.near else ""))
    if isinstance(error, kinbin.AliasConflict) and error.leading:
        return Refusal(code, f"{OWN_TEXTS[code]}; these lead to it: {', '.join(error.leading)}")
    # Which collection is damaged where names neither files nor ids; nor do the parts of a configuration that differ.
    damaged = isinstance(error, kinbin.CorruptData) and bool(error.collection)
    if CODES[code].status >= 500:
        # Each use of a damaged collection is refused: where that was found says no more than the text.
        log.error(str(error) if damaged else "library error", exc_info=None if damaged else error, extra={"fields": {"code": code}})
    named = damaged or isinstance(error, kinbin.CollectionExists)
    return Refusal(code, str(error) if named else OWN_TEXTS[code])


# ---------------------------------------------------------------------------------- exception handlers


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """Handler of `Refusal`."""
    assert isinstance(error, Refusal)
    return error.response()


async def answer_library_error(request: Request, error: Exception) -> Response:
    """Handler of `kinbin.KinbinError`; the route has said where its arguments came from in `request.state.place`."""
    assert isinstance(error, kinbin.KinbinError)
    place: Place = getattr(request.state, "place", Place())
    return from_library(error, place).response()


async def answer_http_error(_request: Request, error: Exception) -> Response:
    """Handler of what the router raises: unknown routes and methods."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "bad_request" if status < 500 else "internal")
    detail = {404: "see /docs for the routes", 405: "the header Allow names the methods"}.get(status, HTTPStatus(status).phrase)
    headers: dict[str, Any] = dict(error.headers or {})
    return Refusal(code, detail).response(headers)
