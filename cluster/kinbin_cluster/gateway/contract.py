"""The OpenAPI document of a gateway: that of one server, with what answers and requests of a cluster have besides."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

from kinbin_cluster.gateway.collections import SpreadIn
from kinbin_cluster.gateway.tokens import HEADER
from kinbin_service.app import create_app
from kinbin_service.openapi import document
from kinbin_service.settings import Settings

__all__ = ["contract"]

_OF = "/v1/collections/{name}"
_PARTIAL = (("post", "/query"), *(("post", f"{_OF}/{word}") for word in ("query", "get", "scroll", "count", "facets")))
"""Reads that take a part of the shards."""
_READS = (*_PARTIAL, ("post", f"{_OF}/explain"), ("get", _OF), ("get", f"{_OF}/limits"))
_COUNTING = (("post", "/index"), *(("post", f"{_OF}/{word}") for word in ("index", "delete", "payload")))
_WRITES = (*_COUNTING, ("post", f"{_OF}/indexes"), ("put", f"{_OF}/limits"))
_AFTER = {
    "name": HEADER, "in": "header", "required": False, "schema": {"type": "string"},
    "description": "the token of a write: the answer knows it, or is 503 `lagging`",
}  # fmt: skip
_ALLOW = {"type": "boolean", "default": False, "description": "true: where nobody answers for a shard, what the others answer"}
_TOLD: dict[str, Any] = {
    "partial": {"type": "boolean", "description": "there, and true, where shards are missing"},
    "shards_missing": {"type": "array", "items": {"type": "integer"}, "description": "the shards that nobody answered for"},
}
_TOKEN = {"type": "string", "description": f"of a write: a read with it as {HEADER} knows the write"}
_ATOMIC = {"type": "boolean", "description": "whether all of it went to one shard, and so is there or not as one"}


@cache
def contract() -> dict[str, Any]:
    """The document, made once."""
    made = copy.deepcopy(document(create_app(Settings())))
    schemas = made["components"]["schemas"]
    schemas["SpreadIn"] = SpreadIn.model_json_schema()
    spread = {"anyOf": [{"$ref": "#/components/schemas/SpreadIn"}, {"type": "null"}], "description": "null: 3 shards of 2 replicas"}
    _extend(made, made["paths"][_OF]["put"]["requestBody"], {"cluster": spread})
    for method, path in _READS:
        made["paths"][path][method].setdefault("parameters", []).append(_AFTER)
    for method, path in _PARTIAL:
        operation = made["paths"][path][method]
        _extend(made, operation["requestBody"], {"allow_partial": _ALLOW})
        _extend(made, operation["responses"]["200"], _TOLD)
        if path.endswith("/query"):
            said = f"{_ALLOW['description']} (not with a JSON body, which holds it itself)"
            schema = {name: value for name, value in _ALLOW.items() if name != "description"}
            operation.setdefault("parameters", []).append({"name": "allow_partial", "in": "query", "description": said, "schema": schema})
    for method, path in _WRITES:
        _extend(made, made["paths"][path][method]["responses"]["200"], {"token": _TOKEN})
    for method, path in _COUNTING:
        _extend(made, made["paths"][path][method]["responses"]["200"], {"atomic": _ATOMIC})
    return made


def _extend(made: dict[str, Any], body: dict[str, Any], properties: dict[str, Any]) -> None:
    """Add properties to every schema that the JSON of a body refers to."""
    for name in _named(body["content"]["application/json"]["schema"]):
        made["components"]["schemas"][name]["properties"].update(properties)


def _named(schema: dict[str, Any]) -> Iterator[str]:
    """The names of the schemas that one stands for."""
    if "$ref" in schema:
        yield schema["$ref"].rsplit("/", 1)[-1]
    for one in schema.get("anyOf", ()):
        yield from _named(one)
