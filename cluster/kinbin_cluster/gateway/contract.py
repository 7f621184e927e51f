"""The OpenAPI document of a gateway: that of one server, with what answers and requests of a cluster have besides.

What a cluster does not offer is there as what it is, a refusal; and of models and responses there are those that some route refers to.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import orjson
from pydantic import TypeAdapter

from kinbin_cluster.gateway.collections import SpreadIn
from kinbin_cluster.gateway.insights import REFUSED
from kinbin_cluster.gateway.tokens import HEADER
from kinbin_cluster.gateway.writes import NO_COMPACTION
from kinbin_cluster.overview import ClusterOverview
from kinbin_service.app import create_app
from kinbin_service.documented import EVERYWHERE, PROBLEMS
from kinbin_service.openapi import document
from kinbin_service.problems import CODES
from kinbin_service.settings import Settings

__all__ = ["NOT_OFFERED", "contract"]

_OF = "/v1/collections/{name}"
_PARTIAL = (("post", "/query"), *(("post", f"{_OF}/{word}") for word in ("query", "get", "scroll", "count", "facets")))
"""Reads that take a part of the shards."""
_READS = (*_PARTIAL, ("post", f"{_OF}/explain"), ("get", _OF), ("get", f"{_OF}/limits"))
_COUNTING = (("post", "/index"), *(("post", f"{_OF}/{word}") for word in ("index", "delete", "payload")))
NOT_OFFERED = {**REFUSED, ("POST", f"{_OF}/compact"): NO_COMPACTION}
"""By method and path, what a gateway refuses, whoever asks."""
_DROPS = (("delete", _OF), ("delete", "/v1/aliases/{name}"))
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
_CONNECTED = {"type": "boolean", "description": "whether this gateway is connected to NATS: without, it reads and does not write"}
_ATOMIC = {"type": "boolean", "description": "whether all of it went to one shard, and so is there or not as one"}


_REFERENCE = re.compile(rb'"#/components/(schemas|responses)/(\w+)"')


@cache
def contract() -> dict[str, Any]:
    """The document, made once."""
    made = copy.deepcopy(document(create_app(Settings())))
    schemas = made["components"]["schemas"]
    schemas["SpreadIn"] = SpreadIn.model_json_schema()
    spread = {"anyOf": [{"$ref": "#/components/schemas/SpreadIn"}, {"type": "null"}], "description": "null: 3 shards of 2 replicas"}
    _extend(made, made["paths"][_OF]["put"]["requestBody"], {"cluster": spread})
    _add_overview(made)
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
    for method, path in _DROPS:
        _refuses(made["paths"][path][method], "changed_meanwhile", "outcome_unknown")
    for (method, path), what in NOT_OFFERED.items():
        made["paths"][path][method.lower()] = _refused(made["paths"][path][method.lower()], what)
    _keep_what_is_used(made)
    return made


def _refuses(operation: dict[str, Any], *codes: str) -> None:
    """Say that a route is answered with these problems, too."""
    operation[PROBLEMS] = sorted({*operation[PROBLEMS], *codes})
    operation["responses"] |= {str(CODES[code].status): {"$ref": f"#/components/responses/{CODES[code].status}"} for code in codes}


def _refused(operation: dict[str, Any], what: str) -> dict[str, Any]:
    """A route that is there to say what to do instead."""
    told = {name: operation[name] for name in ("tags", "summary", "operationId") if name in operation}
    parameters = [one for one in operation.get("parameters", ()) if one["in"] == "path"]
    refused = told | {"description": f"A cluster does not offer this: {what}.", "parameters": parameters, "responses": {}, PROBLEMS: []}
    _refuses(refused, "not_in_cluster", *(code for code in operation[PROBLEMS] if code in EVERYWHERE))
    return refused


def _add_overview(made: dict[str, Any]) -> None:
    """Add the one route that a cluster has and a server has not. Its refusals are those of the list of collections."""
    schema = TypeAdapter(ClusterOverview).json_schema(ref_template="#/components/schemas/{model}")
    made["components"]["schemas"].update(schema.pop("$defs"))
    schema["properties"]["nats_connected"] = _CONNECTED
    schema["required"].append("nats_connected")
    made["components"]["schemas"]["ClusterOverview"] = schema
    like = made["paths"]["/v1/collections"]["get"]
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/ClusterOverview"}}}
    told = {"description": "nodes, gateways and shards as this gateway knows them; nobody is asked for it", "content": content}
    made["paths"]["/v1/cluster"] = {
        "get": {
            "operationId": "get_cluster", "summary": "How the cluster is", "tags": ["operations"],
            "description": "Nodes with lag and disk, shards with their copies, what moves and lacks. Not for keys of some collections.",
            "responses": {**{code: one for code, one in like["responses"].items() if code != "200"}, "200": told},
            PROBLEMS: like[PROBLEMS],
            **({"security": like["security"]} if "security" in like else {}),
        }
    }  # fmt: skip


def _keep_what_is_used(made: dict[str, Any]) -> None:
    """Leave out models and responses that nothing refers to, from any route on."""
    components = made["components"]
    used: set[tuple[bytes, bytes]] = set()
    new = set(_REFERENCE.findall(orjson.dumps(made["paths"])))
    while new:
        used |= new
        found = [components[kind.decode()].get(name.decode()) for kind, name in new]
        new = set(_REFERENCE.findall(orjson.dumps(found))) - used
    for kind in ("schemas", "responses"):
        components[kind] = {name: one for name, one in components[kind].items() if (kind.encode(), name.encode()) in used}


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
