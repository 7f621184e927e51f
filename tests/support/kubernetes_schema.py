"""Objects of Kubernetes held against its own schemas, strictly: a field that it does not know is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["wrong"]

_SCHEMA = json.loads((Path(__file__).resolve().parents[1] / "data/kubernetes/schema.json").read_text(encoding="utf-8"))
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "number": (int, float),
    "null": type(None),
}


def wrong(thing: dict[str, Any]) -> list[str]:
    """What is wrong with an object, each with its place. KeyError for a kind whose schema is not kept."""
    kind = f"{thing['apiVersion']} {thing['kind']}"
    return list(_wrong(thing, {"$ref": _SCHEMA["kinds"][kind]}, thing["kind"]))


def _wrong(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    while "$ref" in schema:
        schema = _SCHEMA["definitions"][schema["$ref"]]
    if "oneOf" in schema or "anyOf" in schema:
        choices = schema.get("oneOf") or schema["anyOf"]
        if all(list(_wrong(value, one, place)) for one in choices):
            yield f"{place}: {value!r} is none of {choices}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{place}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        yield from _object(value, schema, place)
    elif isinstance(value, list) and "items" in schema:
        for at, one in enumerate(value):
            yield from _wrong(one, schema["items"], f"{place}[{at}]")


def _object(value: dict[str, Any], schema: dict[str, Any], place: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place}: lacks {name}"
    for name, one in value.items():
        if name in known:
            yield from _wrong(one, known[name], f"{place}.{name}")
        elif isinstance(others, dict):
            yield from _wrong(one, others, f"{place}.{name}")
        elif known:
            yield f"{place}: there is no {name}"


def _is(value: Any, types: str | list[str]) -> bool:
    named = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in named
    return any(isinstance(value, _TYPES[name]) for name in named)
