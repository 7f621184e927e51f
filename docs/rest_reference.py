"""The REST reference of the documentation site, in Markdown, from the OpenAPI description (`service/openapi.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

METHODS = ("get", "put", "post", "delete", "patch")


def _name_of(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def _cell(text: str) -> str:
    """Text that may stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def type_of(schema: dict[str, Any]) -> str:
    """A schema in a few words; components are links to their sections."""
    if "$ref" in schema:
        name = _name_of(schema["$ref"])
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            # Several forms of the same words (arrays with other bounds) are told once.
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[key]))
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_of(schema['additionalProperties'])}"
    return str(schema.get("format", schema.get("type", "anything")))


def _presence(schema: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    return f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if "default" in schema else ""


def _text_of(schema: dict[str, Any]) -> str:
    """What a schema says about itself, or else what its forms say."""
    said = [schema.get("description", "")] if "description" in schema else [one.get("description", "") for one in schema.get("anyOf", ())]
    return _cell("; ".join(dict.fromkeys(one for one in said if one)))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        yield "| " + " | ".join(head) + " |"
        yield "|" + "---|" * len(head)
        yield from ("| " + " | ".join(row) + " |" for row in rows)
        yield ""


def _example(content: dict[str, Any]) -> Iterator[str]:
    examples = content.get("examples", {})
    for one in list(examples.values())[:1]:
        yield from ("```json", json.dumps(one["value"], indent=2, ensure_ascii=False), "```", "")


def _operation(method: str, path: str, told: dict[str, Any]) -> Iterator[str]:
    # Most routes are longer than a table of contents is wide; the short ones do what others do, too.
    label = told["summary"] + ("" if path.startswith("/v1/") else f": {path}")
    yield from (
        f'### `{method.upper()} {path}` {{ data-toc-label="{label}" }}',
        "",
        f"**{told['summary']}.** {told.get('description', '')}".rstrip(),
        "",
    )
    parameters = [
        (f"`{one['name']}`", one["in"], type_of(one["schema"]), _presence(one["schema"], one.get("required", False)), _text_of(one))
        for one in told.get("parameters", ())
    ]
    yield from _table(("parameter", "in", "is", "default", "what it does"), parameters)
    bodies = told.get("requestBody", {}).get("content", {})
    yield from _table(("body", "is", ""), [(f"`{kind}`", type_of(c["schema"]), _text_of(c["schema"])) for kind, c in bodies.items()])
    for content in bodies.values():
        yield from _example(content)
    rows = []
    for status, answer in told["responses"].items():
        if status.startswith("2"):
            for kind, content in answer.get("content", {"": {"schema": {}}}).items():
                rows.append((status, f"`{kind}`" if kind else "", type_of(content["schema"]) if content.get("schema") else ""))
    yield from _table(("answer", "body", "is"), rows)
    refused = ", ".join(status for status in told["responses"] if not status.startswith("2"))
    if refused:
        yield from (f"Refusals: {refused}, as [ProblemAnswer](#problemanswer).", "")


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "")
    if "description" in schema:
        yield from (schema["description"], "")
    required = schema.get("required", ())
    rows = [
        (f"`{field}`", type_of(one), _presence(one, field in required), _text_of(one))
        for field, one in schema.get("properties", {}).items()
    ]
    yield from _table(("field", "is", "default", "what it is"), rows)
    if not rows:
        yield from (type_of(schema), "")


def rest_reference(api: dict[str, Any]) -> str:
    """All routes by subject, then all schemas, each under its own heading."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method in METHODS:
            if method in methods:
                told = methods[method]
                by_tag.setdefault(told.get("tags", ["other"])[0], []).extend(_operation(method, path, told))
    lines = [api["info"]["description"], ""]
    for tag, told in by_tag.items():
        lines += [f"## {tag.capitalize()}", "", *told]
    lines += ["## Schemas", ""]
    for name, schema in api["components"]["schemas"].items():
        lines += _schema(name, schema)
    return "\n".join(lines)
