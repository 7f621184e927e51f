"""Renders what the chart uses of Helm's templates, so that it is checked where Helm is not: fields, if, range over a map, four functions.

Anything else in a template is an error here. Where `helm` is installed, tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_TAG = re.compile(r"(?P<trim>[ \t\n]*\{\{-|\{\{)\s*(?P<body>.*?)\s*\}\}")


def render(chart: Path, values: dict[str, Any] | None = None, release: str = "kinbin", namespace: str = "default") -> list[dict[str, Any]]:
    """The objects of a chart with these values over its own."""
    scope = _scope(chart, values, release, namespace)
    objects = []
    for path in sorted((chart / "templates").glob("*.yaml")):
        rendered = _render(list(_tokens(path.read_text(encoding="utf-8"))), scope)
        objects += [one for one in yaml.safe_load_all(rendered) if one]
    return objects


def notes(chart: Path, values: dict[str, Any] | None = None, release: str = "kinbin", namespace: str = "default") -> str:
    """What Helm tells people who installed it."""
    text = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    return _render(list(_tokens(text)), _scope(chart, values, release, namespace))


def _scope(chart: Path, values: dict[str, Any] | None, release: str, namespace: str) -> dict[str, Any]:
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    given = _merged(yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8")), values or {})
    return {"Values": given, "Release": {"Name": release, "Namespace": namespace}, "Chart": {"AppVersion": about["appVersion"]}}


def _merged(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    both = own | given
    return both | {k: _merged(own[k], v) for k, v in given.items() if isinstance(v, dict) and isinstance(own.get(k), dict)}


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for tag in _TAG.finditer(text):
        yield "text", text[at : tag.start()]
        yield "tag", tag["body"]
        at = tag.end()
    yield "text", text[at:]


def _render(tokens: list[tuple[str, str]], scope: dict[str, Any]) -> str:
    """The text of tokens up to the end, or up to the `end` of their block; takes them from the list."""
    out: list[str] = []
    while tokens:
        kind, body = tokens.pop(0)
        if kind == "text":
            out.append(body)
        elif body == "end":
            break
        elif body.startswith("if "):
            inside = _block(tokens)
            out.append(_render(inside, scope) if _value(body[3:], scope) else "")
        elif found := re.fullmatch(r"range \$(\w+), \$(\w+) := (\S+)", body):
            inside = _block(tokens)
            for name, value in sorted(_value(found[3], scope).items()):
                out.append(_render(inside.copy(), scope | {f"${found[1]}": name, f"${found[2]}": value}))
        else:
            out.append(_text(_value(body, scope)))
    return "".join(out)


def _block(tokens: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The tokens up to the `end` of this block, with it, taken from the list."""
    depth, taken = 1, []
    while depth:
        token = tokens.pop(0)
        taken.append(token)
        if token[0] == "tag":
            depth += token[1].startswith(("if ", "range ")) - (token[1] == "end")
    return taken


def _value(expression: str, scope: dict[str, Any]) -> Any:
    first, *pipes = [part.strip() for part in expression.split("|")]
    words = first.split()
    if words[0] == "toYaml":
        value: Any = yaml.safe_dump(_field(words[1], scope), sort_keys=False).rstrip("\n")
    else:
        (word,) = words
        value = _field(word, scope)
    for pipe in pipes:
        name, *arguments = pipe.split()
        if name == "quote":
            value = '"' + _text(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
        elif name == "default":
            value = value or _field(arguments[0], scope)
        elif name == "nindent":
            value = "\n" + "\n".join(" " * int(arguments[0]) + line for line in str(value).splitlines())
        else:
            raise ValueError(f"the function {name} is not known here")
    return value


def _field(path: str, scope: dict[str, Any]) -> Any:
    value: Any = scope
    for step in path.lstrip(".").split("."):
        value = value[step]
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
