"""Validation of a value by a model, with refusals that name places and repeat nothing of what was sent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

import kinbin
from kinbin.errors import suggestion
from kinbin_service.objects import KEYS, VECTOR
from kinbin_service.problems import Entry, Refusal
from kinbin_service.schemas.requests import FieldsAddRequest, FieldsItemIn, ItemIn, ObjectItemIn, ObjectsAddRequest

__all__ = ["validate"]

LIMIT_OF = (
    {"items": "batch_items", "queries": "batch_queries", "ids": "batch_items", "limit": "page", "dim": "dimension", "exclude": "exclude"}
    | {"include": "include", "positive": "examples", "negative": "examples"}
    | {name: option.limit for name, option in kinbin.OPTIONS.items() if option.limit}
)
"""The limit that is passed when a field is too long or too large."""

SAYS = {name: option.says for name, option in kinbin.OPTIONS.items()} | {"limit": "is a whole number from 1 on"}
"""What a field has to be, in the library's words, which are those of the client's users as well."""

_ITEMS: dict[type[BaseModel], type[Any]] = {FieldsAddRequest: FieldsItemIn, ObjectsAddRequest: ObjectItemIn}
"""The items of adds other than those of vectors."""

_FORM = re.compile(r"(?:list|dict|set|tuple)\[.*\]")
"""A step that pydantic adds for one of several forms a field may have; bodies have no such place."""

_IDS = frozenset({"id", "query_id", "ids"})
"""Fields of ids, which are strings, or integers that are made strings before they are judged."""

Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], value: Any, lines: Sequence[int] = ()) -> Model:
    """The value as a model; refused with the places of what is wrong in it. lines: of each item, if the body was made of lines."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)[:8]
    entries = [_entry(model, problem, lines) for problem in found]
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
        item = next((item for adds, item in _ITEMS.items() if issubclass(model, adds)), ItemIn)
        known = (
            list(item.__annotations__)
            if len(path) == 2
            else [field.alias or name for name, field in model.model_fields.items() if not field.exclude]
        )
        detail = f"unknown field; known are {', '.join(known)}{suggestion(field, known)}"
    elif kind == "literal_error":
        known = re.findall("'([^']*)'", context["expected"])
        verb = "lists some" if path[0] == "include" else "is one"
        detail = f"{path[0]} {verb} of {', '.join(known)}{suggestion(problem['input'], _NAMED.get(field, known))}"
    elif _limit(model, problem):
        detail = f"{field}: at most {context.get('le', context.get('max_length'))}"
    elif kind == "string_type" and field in _IDS:
        detail = f"{field}: should be a string or a 64-bit integer"
    elif field in SAYS:
        detail = f"{field} {SAYS[field]}"
    else:
        detail = problem["msg"].replace("Input should", "should").replace("Field required", "this field is required")
        detail = re.sub(r" or instance of \w+", "", detail)
        detail = f"{field}: {detail}" if field else detail
        if kind == "missing" and field == VECTOR and len(path) > 1:
            detail += f" (objects carry {', '.join(KEYS)} in its place, items of several fields vectors)"
    if lines and len(path) > 1 and isinstance(path[1], int):
        detail = f"line {lines[path[1]]}: {detail}"
    return Entry("/".join(["#", *map(str, path)]), detail)


def _limit(model: type[BaseModel], problem: ErrorDetails) -> str | None:
    """The name of the limit that is passed, if that is what is wrong. A model may have others than most, as its `LIMITS`."""
    if problem["type"] not in ("too_long", "less_than_equal") or len(problem["loc"]) != 1:
        return None
    field = str(problem["loc"][0])
    name: str | None = getattr(model, "LIMITS", {}).get(field) or LIMIT_OF.get(field)
    return name
