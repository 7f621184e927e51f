"""The page at /docs: the OpenAPI document for people, and forms that try its requests, in one file without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from pathlib import Path
from typing import Any

import orjson

__all__ = ["CONTENT_SECURITY_POLICY", "render"]

SCRIPT = Path(__file__).with_name("docs_page.js").read_text(encoding="utf-8")

# This very script runs, and asks this very server; nothing else is loaded, sent or embedded.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; font-size: 1.2rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: .6rem .8rem; border-radius: 6px; background: color-mix(in srgb, currentColor 7%, transparent) }
details { margin: .4rem 0; border: 1px solid color-mix(in srgb, currentColor 20%, transparent); border-radius: 6px; padding: .4rem .8rem }
summary { cursor: pointer } summary b { display: inline-block; min-width: 4.2em }
form { margin: .8rem 0 } form label { display: block; margin: .4rem 0 } form select, form button { margin: .3rem .5rem .3rem 0 }
input, textarea, select, button { font: 14px/1.45 ui-monospace, monospace; padding: .2rem .4rem }
textarea { display: block; box-sizing: border-box; width: 100%; height: 9rem }
output { display: block; white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.45 ui-monospace, monospace }
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
    paragraphs = "".join(f"<p>{_marked(part)}</p>" for part in document["info"]["description"].split("\n\n"))
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    problems = "".join(
        f"<tr><td>{status}<td>{_marked(told['description'])}" for status, told in document["components"]["responses"].items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(document['info']['title'])}</title><style>{STYLE}</style>"
        f"<h1>{escape(document['info']['title'])}</h1>{paragraphs}"
        f'<p>The same for programs: <a href="openapi.json">openapi.json</a>. Limits: <a href="v1/limits">v1/limits</a>.</p>'
        "<p>Each route below can be tried, on the data of this server. "
        '<label>API key, where one is set: <input id="key" type="password" autocomplete="off"></label></p>'
        f"{sections}<h2>Errors</h2><table>{problems}</table><h2>Schemas</h2>{schemas}"
        f"<script>{SCRIPT}</script></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    examples = [
        f"<p>{escape(media_type)}{': ' + _marked(content['schema']['description']) if 'description' in content['schema'] else ''}</p>"
        + "".join(f"<pre>{_json(example['value'])}</pre>" for example in content.get("examples", {}).values())
        for media_type, content in body.items()
    ]
    statuses = ", ".join(operation["responses"])
    parameters = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}<td>{_marked(parameter.get('description', ''))}"
        for parameter in operation.get("parameters", ())
    )
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> {escape(operation['summary'])}</summary>"
        f"<p>{_marked(operation.get('description', ''))}</p><table>{parameters}</table>{''.join(examples)}"
        f"<p>Answers: {statuses}.</p>{_form(path, method, operation)}</details>"
    )


def _form(path: str, method: str, operation: dict[str, Any]) -> str:
    """What tries an operation: fields of its address and, where it has a body, JSON that begins with the first example."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    fields = "".join(
        f'<label><code>{escape(parameter["name"])}</code> <input name="{escape(parameter["name"])}" value="default" required></label>'
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "path"  # parameters of the query string are fields of a JSON body
    )
    if body:
        examples = [_text(example["value"]) for example in body.get("examples", {}).values()] or ["{}"]
        chosen = "".join(f'<option value="{escape(text)}">example {number}</option>' for number, text in enumerate(examples, 1))
        fields += f"<select>{chosen}</select>" if len(examples) > 1 else ""
        fields += f'<textarea name="body" spellcheck="false">{escape(examples[0])}</textarea>'
    return f'<form data-method="{method.upper()}" data-path="{escape(path)}">{fields}<button>Send</button><output></output></form>'


def _schema(name: str, schema: dict[str, Any]) -> str:
    description = _marked(schema.get("description", ""))
    return f"<details><summary><code>{escape(name)}</code> {description}</summary><pre>{_json(schema)}</pre></details>"


def _json(value: Any) -> str:
    return escape(_text(value))


def _text(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _marked(text: str) -> str:
    """A text whose `words` are code."""
    return "".join(f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(text.split("`")))
