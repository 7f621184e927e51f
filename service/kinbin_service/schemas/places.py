"""Places in a body: which fields the object has that a path leads to, by the types of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import is_typeddict

__all__ = ["fields_at"]


def fields_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The names of the fields of the object at a place, in their order, of all forms that it may have; empty: it is no object of fields."""
    kinds: list[Any] = [model]
    for step in path:
        kinds = [inner for kind in kinds for inner in _inside(kind, step)]
    return list(dict.fromkeys(name for kind in kinds for name in _members(kind)))


def _inside(kind: Any, step: int | str) -> Iterator[Any]:
    """The forms of what lies one step inside of a form."""
    members = _members(kind)
    if step in members:
        yield from _forms(members[str(step)])
    elif get_origin(kind) in (list, dict):
        yield from _forms(get_args(kind)[-1])


def _forms(kind: Any) -> Iterator[Any]:
    """A type without its annotations; of one of several, each of them."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _forms(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for one in get_args(kind):
            yield from _forms(one)
    else:
        yield kind


def _members(kind: Any) -> dict[str, Any]:
    """The types of an object's fields, by name; empty for what has none."""
    if is_typeddict(kind):
        return get_type_hints(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items() if not field.exclude}
    return {}
