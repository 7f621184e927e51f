"""How routes describe themselves for the OpenAPI document: bodies, parameters, answers and refusals."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from kinbin_service.bodies import JSON, MULTIPART, NDJSON, NPY
from kinbin_service.problems import CODES

__all__ = [
    "EVERYWHERE",
    "FILTERED", "IDEMPOTENCY", "NAMED", "PROBLEMS", "REFERRED", "VECTORS", "also", "bulk", "in_address", "matrix", "parameters",
    "reference", "route", "without",
]  # fmt: skip

PROBLEMS = "x-problem-codes"
"""Where the document lists the codes of the errors that a route answers with; it has a response for each of their statuses."""

EVERYWHERE = frozenset({
    "bad_request", "body_too_large", "foreign_origin", "forbidden", "head_timeout", "head_too_large", "internal", "key_in_query",
    "too_many_connections", "unauthorized", "unknown_host",
})  # fmt: skip
WITH_BODY = frozenset({
    "bad_encoding", "bad_id", "bad_json", "bad_string", "body_timeout", "buffers_full", "invalid_field", "non_finite",
    "unsupported_encoding", "unsupported_media_type",
})  # fmt: skip
WITH_WORK = frozenset({
    "overloaded", "deadline", "not_ready", "stopping", "closed", "storage_busy", "storage_error", "corrupt_data", "format_mismatch",
})  # fmt: skip
NAMED = frozenset({"collection_not_found", "bad_name"})
"""Of routes that name a collection."""
FILTERED = frozenset({"bad_filter", "over_limit"})
"""Of routes that take a filter."""
VECTORS = frozenset({
    "bad_object", "bad_vector", "dimension_mismatch", "duplicate_feature", "negative_value", "non_finite", "out_of_range", "over_limit",
    "zero_vector",
})  # fmt: skip
"""Of routes that take vectors or objects."""

IDEMPOTENCY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "of this add: for 24 hours the same add with the same key is done once, and answered alike; 1 to 255 ASCII characters",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "example": "6f1c1c0e-8a57-4f0b-9d0a-3a8f8e1f6f9b",
}
IDS = "the ids of a matrix's rows, as a JSON array of strings or with commas; without it ids are made, sorted by time and row"


REFERRED: dict[str, type[BaseModel]] = {}
"""Models of requests that routes refer to by name."""


def reference(*models: type[BaseModel]) -> dict[str, Any]:
    """A reference to the schema of a model, or of any of several, which the document then holds."""
    REFERRED.update({model.__name__: model for model in models})
    listed = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    return listed[0] if len(listed) == 1 else {"anyOf": listed}


def route(
    summary: str,
    answer: Any,
    *,
    body: type[BaseModel] | tuple[type[BaseModel], ...] | None = None,
    other_bodies: dict[str, Any] | None = None,
    parameters: list[dict[str, Any]] | None = None,
    refusals: frozenset[str] = frozenset(),
    works: bool = True,
) -> dict[str, Any]:
    """Arguments of a route's decorator. `works`: it waits its turn and asks the library.

    refusals: codes of errors that it has besides; never a status, which would promise all of its codes.
    """
    codes = EVERYWHERE | refusals | (WITH_WORK if works else frozenset()) | (WITH_BODY if body else frozenset())
    assert codes <= CODES.keys(), f"no codes: {codes - CODES.keys()}"
    extra: dict[str, Any] = {PROBLEMS: sorted(codes)}
    if body:
        models = body if isinstance(body, tuple) else (body,)
        content = {JSON: {"schema": reference(*models), **_examples(*models)}, **(other_bodies or {})}
        extra["requestBody"] = {"required": True, "content": content}
    if parameters:
        extra["parameters"] = parameters
    return {"summary": summary, "response_model": answer, "openapi_extra": extra}


def also(media_type: str, answer: type[BaseModel] | str) -> dict[str, Any]:
    """Further arguments: the answer in another form, for who asks for its media type. A text describes what is no JSON."""
    schema = {"type": "string", "description": answer} if isinstance(answer, str) else reference(answer)
    return {"responses": {200: {"content": {media_type: {"schema": schema}}}}}


def without(described: dict[str, Any], *codes: str) -> dict[str, Any]:
    """The same route without some of its errors: it needs no name, or passes no gate."""
    extra = described["openapi_extra"]
    assert set(codes) <= set(extra[PROBLEMS]), f"not declared: {set(codes) - set(extra[PROBLEMS])}"
    return {**described, "openapi_extra": {**extra, PROBLEMS: [code for code in extra[PROBLEMS] if code not in codes]}}


def _examples(*models: type[BaseModel]) -> dict[str, Any]:
    """The examples of models, as a media type carries them."""
    found = [example for model in models for example in model.model_json_schema().get("examples", [])]
    return {"examples": {f"example {number}": {"value": value} for number, value in enumerate(found, 1)}} if found else {}


def matrix() -> dict[str, Any]:
    """The .npy body."""
    description = "an .npy file (version 1.0 or 2.0) of a 2-D little-endian float32 or float64 matrix, a vector a row"
    return {NPY: {"schema": {"type": "string", "format": "binary", "description": description}}}


def bulk(*items: type[Any]) -> dict[str, Any]:
    """The .npy body, the body of lines, and the form of images."""
    names = " or ".join(item.__name__ for item in items)
    description = f"one {names} as JSON a line; blank lines are skipped, and error pointers count the others: #/items/3"
    return {NDJSON: {"schema": {"type": "string", "description": description}}, **matrix(), **form()}


def form() -> dict[str, Any]:
    """The form of images."""
    image = {
        "type": "string",
        "format": "binary",
        "description": "a PNG, JPEG or WebP file; its name is the id if there is no part items",
    }
    listed = {"type": "string", "description": 'a JSON list of {"id", "payload"}, one for each image, in their order'}
    schema = {"type": "object", "properties": {"image": {"type": "array", "items": image}, "items": listed}, "required": ["image"]}
    return {MULTIPART: {"schema": schema}}


def in_address(options: type[BaseModel]) -> list[dict[str, Any]]:
    """The options of a request without a body, as parameters of the address."""
    listed: list[dict[str, Any]] = []
    for name, schema in options.model_json_schema()["properties"].items():
        schema.pop("title", None)
        listed.append({"name": name, "in": "query", "required": False, "description": schema.pop("description", ""), "schema": schema})
    return listed


def parameters(options: type[BaseModel], *, ids: bool = False) -> list[dict[str, Any]]:
    """The options of a body that is not JSON, as parameters of the address, and the header with its ids."""
    schemas = options.model_json_schema()["properties"]
    listed: list[dict[str, Any]] = []
    for name, schema in schemas.items():
        schema.pop("title", None)
        style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
        description = f"{schema.pop('description', '')} (not with a JSON body, which holds it itself)".strip()
        listed.append({"name": name, "in": "query", "required": False, "description": description, "schema": schema, **style})
    if ids:
        listed.append(
            {
                "name": "X-Kinbin-Ids",
                "in": "header",
                "required": False,
                "description": IDS,
                "schema": {"type": "string"},
                "example": "a,b",
            }
        )
    return listed
