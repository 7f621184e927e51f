"""The page at /docs: the OpenAPI document for people, in one file without scripts and without anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

import orjson

__all__ = ["render"]

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; font-size: 1.2rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: .6rem .8rem; border-radius: 6px; background: color-mix(in srgb, currentColor 7%, transparent) }
details { margin: .4rem 0; border: 1px solid color-mix(in srgb, currentColor 20%, transparent); border-radius: 6px; padding: .4rem .8rem }
summary { cursor: pointer } summary b { display: inline-block; min-width: 4.2em }
table { border-collapse: collapse } td { padding: .15rem .8rem .15rem 0; vertical-align: top }
"""


def render(document: dict[str, Any]) -> str:
    """The page of an OpenAPI document."""
    operations = [(path, method, operation) for path, methods in document["paths"].items() for method, operation in methods.items()]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    sections = "".join(
        f"<h2>{escape(tag.capitalize())}</h2>"
        + "".join(_operation(*described) for described in operations if described[2]["tags"][0] == tag)
        for tag in tags
    )
    paragraphs = "".join(f"<p>{escape(part)}</p>" for part in document["info"]["description"].split("\n\n"))
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    problems = "".join(
        f"<tr><td>{status}<td>{_marked(told['description'])}" for status, told in document["components"]["responses"].items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(document['info']['title'])}</title><style>{STYLE}</style>"
        f"<h1>{escape(document['info']['title'])}</h1>{paragraphs}"
        f'<p>The same for programs: <a href="openapi.json">openapi.json</a>. Limits: <a href="v1/limits">v1/limits</a>.</p>'
        f"{sections}<h2>Errors</h2><table>{problems}</table><h2>Schemas</h2>{schemas}</html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    examples = [
        f"<p>{escape(media_type)}{': ' + escape(content['schema']['description']) if 'description' in content['schema'] else ''}</p>"
        + "".join(f"<pre>{_json(example['value'])}</pre>" for example in content.get("examples", {}).values())
        for media_type, content in body.items()
    ]
    statuses = ", ".join(operation["responses"])
    parameters = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}<td>{escape(parameter.get('description', ''))}"
        for parameter in operation.get("parameters", ())
    )
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> {escape(operation['summary'])}</summary>"
        f"<p>{_marked(operation.get('description', ''))}</p><table>{parameters}</table>{''.join(examples)}"
        f"<p>Answers: {statuses}.</p></details>"
    )


def _schema(name: str, schema: dict[str, Any]) -> str:
    description = escape(schema.get("description", ""))
    return f"<details><summary><code>{escape(name)}</code> {description}</summary><pre>{_json(schema)}</pre></details>"


def _json(value: Any) -> str:
    return escape(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _marked(text: str) -> str:
    """A text whose `words` are code."""
    return "".join(f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(text.split("`")))
