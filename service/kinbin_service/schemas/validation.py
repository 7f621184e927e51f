"""Validation of a value by a model, with refusals that name places, and repeat nothing of what was sent but names of unknown fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

import kinbin
from kinbin.errors import suggestion
from kinbin.limits import LIMITS
from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.problems import Entry, Refusal
from kinbin_service.schemas.places import fields_at

__all__ = ["validate"]

LIMIT_OF = (
    {"items": "batch_items", "queries": "batch_queries", "ids": "batch_items", "limit": "page", "dim": "dimension", "exclude": "exclude"}
    | {"include": "include", "positive": "examples", "negative": "examples"}
    | {name: option.limit for name, option in kinbin.OPTIONS.items() if option.limit}
)
"""The limit that is passed when a field is too long or too large."""

SAYS = {name: option.says for name, option in kinbin.OPTIONS.items()} | {"limit": "is a whole number from 1 on"}
"""What a field has to be, in the library's words, which are those of the client's users as well."""

_FORM = re.compile(r"(?:list|dict|set|tuple)\[.*\]")
"""A step that pydantic adds for one of several forms a field may have; bodies have no such place."""

_IDS = frozenset({"id", "query_id", "ids"})
"""Fields of ids, which are strings, or integers that are made strings before they are judged."""

_CARRIED = (VECTOR, *KEYS)
"""What items carry, each one of these."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
"""A name of an unknown field that is repeated: what is longer, or no word, is no name that was mistyped."""

_EXPECTED = {
    "dict_type": "an object", "model_type": "an object", "model_attributes_type": "an object", "list_type": "a list",
    "string_type": "a string",
}  # fmt: skip
"""By kinds of problems, what was to come."""

_CAME = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
"""By types of Python, what came."""

_FEW = 8
"""Objects with so many fields at most are told by these where another value came."""

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], value: Any, lines: Sequence[int] = ()) -> Model:
    """The value as a model; refused with the places of what is wrong in it. lines: of each item, if the body was made of lines."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)[:8]
    entries = list(dict.fromkeys(_entry(model, problem, lines) for problem in found))
    limit = _limit(model, found[0])
    code = "over_limit" if limit else "invalid_field"
    raise Refusal(code, entries[0].detail, entries, limit)


_NAMED: dict[str, Mapping[str, object]] = {"kernel": kinbin.KERNELS, "distance": kinbin.OBJECT_KERNELS}
"""Words that go by other names elsewhere, by field: what is meant may be one of these."""


def _entry(model: type[BaseModel], problem: ErrorDetails, lines: Sequence[int]) -> Entry:
    """What is wrong, without naming fields or words that are not Kinbin's; one that is near is what may be meant."""
    path = [step for step in problem["loc"] if not _FORM.fullmatch(str(step))]
    kind, context = problem["type"], problem.get("ctx", {})
    field = next((step for step in reversed(path) if isinstance(step, str)), "")
    if kind == "extra_forbidden":
        path.pop()
        detail = _unknown(field, fields_at(model, path))
    elif kind == "literal_error":
        known = re.findall("'([^']*)'", context["expected"])
        verb = "lists some" if isinstance(path[-1], int) else "is one"
        detail = f"{field} {verb} of {', '.join(known)}{suggestion(problem['input'], _NAMED.get(field, known))}"
    elif _limit(model, problem):
        detail = f"{field}: at most {context.get('le', context.get('max_length'))}"
    elif kind == "string_type" and field in _IDS:
        detail = f"{field}: should be a string or a 64-bit integer"
    elif field in SAYS:
        detail = f"{field} {SAYS[field]}"
    else:
        detail = _told(problem, fields_at(model, path))
        detail = f"{field}: {detail}" if field else detail
        if kind == "missing" and field == VECTOR and len(path) > 1:
            detail += f" (objects carry {', '.join(KEYS)} in its place, items of several fields vectors)"
    if lines and len(path) > 1 and isinstance(path[1], int):
        detail = f"line {lines[path[1]]}: {detail}"
    return Entry("/".join(["#", *map(str, path)]), detail)


def _unknown(field: str, known: Sequence[str]) -> str:
    """What is wrong with a field that an object does not have. What may be meant comes before the list, which may be cut."""
    if field in _CARRIED and any(name in _CARRIED for name in known):
        return f"an item carries one of {', '.join(_CARRIED)}, and all items of an add the same"
    named = f" {field!r}" if _WORD.fullmatch(field) else ""
    return f"unknown field{named}{suggestion(field, known) or ';'} known are {', '.join(known)}"


def _told(problem: ErrorDetails, known: Sequence[str]) -> str:
    """What is wrong with a value, in words of JSON. known: the fields of the object that it should be."""
    kind = problem["type"]
    if kind in _EXPECTED:
        of = f" with the fields {', '.join(known)}" if 0 < len(known) <= _FEW else ""
        return f"{_EXPECTED[kind]}{of} is expected, not {_CAME.get(type(problem['input']), 'this')}"
    if kind == "too_short" and problem["ctx"]["min_length"] == 1:
        return "has at least one entry"
    return problem["msg"].replace("Input should", "should").replace("Field required", "this field is required")


def _limit(model: type[BaseModel], problem: ErrorDetails) -> str | None:
    """The name of the limit that is passed, if that is what is wrong. A model may have others than most, as its `LIMITS`."""
    if problem["type"] not in ("too_long", "less_than_equal") or len(problem["loc"]) != 1:
        return None
    field = str(problem["loc"][0])
    name: str | None = getattr(model, "LIMITS", {}).get(field) or LIMIT_OF.get(field)
    passed = problem["ctx"].get("le", problem["ctx"].get("max_length"))
    # A field of the same name may have another bound elsewhere.
    return name if name is not None and passed == LIMITS[name].value else None
