"""Queries by examples, and many queries with options of their own: what a body says, as the library takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import kinbin
from kinbin_service.convert import answer, carried
from kinbin_service.ids import id_as_text
from kinbin_service.objects import KEYS, VECTOR, carried_by
from kinbin_service.problems import Entry, Refusal
from kinbin_service.routes.adding import check_key
from kinbin_service.schemas.queries import OneQueryFields, QueryEntry, QueryFields
from kinbin_service.schemas.validation import validate

__all__ = ["Asked", "asked_of", "entries_of", "has_entries"]

_PLAIN = ({"indices", "values"}, {"tokens"}, *({key} for key in KEYS))
"""What many queries are made of that have no options of their own: vectors that are objects, and objects under their key."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query, read but not yet searched for."""

    query: kinbin.Query
    keys: Sequence[tuple[str, str]]
    """What it carries, as "vector", and where it stands in the body."""

    def check(self, collection: kinbin.Collection | kinbin.FieldsCollection) -> None:
        """Refuse what items of a collection do not carry, and collections that answer no such query."""
        if isinstance(collection, kinbin.FieldsCollection):
            text = "a collection of several vectors takes neither examples nor queries with options of their own"
            raise Refusal("invalid_field", text, [Entry("#", text)])
        for key, pointer in self.keys:
            check_key(collection, key, pointer)

    def told(self, found: kinbin.Answer, collection: kinbin.Collection) -> dict[str, Any]:
        """The answer as it is sent."""
        asked = self.query.options
        return answer(found, asked, carried_by(collection))

    @property
    def hits(self) -> int:
        """How many there can be, those that are left out before them included."""
        asked = self.query.options
        return asked.k + asked.offset if asked.group_by is None else asked.group_by["groups"] * asked.group_by["size"]


def has_entries(queries: Sequence[Any]) -> bool:
    """Whether some of many queries have options of their own, or are stored items or examples."""
    return any(isinstance(one, dict) and one.keys() not in _PLAIN for one in queries)


def entries_of(query: QueryFields, content: Mapping[str, Any]) -> list[Asked]:
    """Many queries of a body, each with its own options before those of the body. content: the body."""
    common = {name: content[name] for name in kinbin.OPTIONS if name in content}
    found = []
    for position, raw in enumerate(query.queries or ()):
        alone = not isinstance(raw, dict) or raw.keys() in _PLAIN[:2]
        entry: dict[str, Any] = {VECTOR: raw} if alone else cast("dict[str, Any]", raw)
        one = _within(f"#/queries/{position}", {**common, **entry})
        found.append(Asked(one.query, [(key, f"#/queries/{position}{at[1:]}") for key, at in one.keys]))
    return found


def asked_of(query: OneQueryFields) -> Asked:
    """One query of a body."""
    options = query.options()
    keys: list[tuple[str, str]] = []
    if query.positive is not None:
        both = [
            [_example(raw, f"#/{name}/{position}", keys) for position, raw in enumerate(given or ())]
            for name, given in (("positive", query.positive), ("negative", query.negative))
        ]
        return Asked(kinbin.Query(positive=both[0], negative=both[1], options=options), keys)
    if query.id is not None:
        return Asked(kinbin.Query(id=query.id, options=options), keys)
    given = query.one()
    assert given is not None, "the model asks for one thing"
    key, raw = given
    keys.append((key, "#"))
    return Asked(kinbin.Query(carried(key, raw, f"#/{key}"), options=options), keys)


def _example(raw: Any, pointer: str, keys: list[tuple[str, str]]) -> Any:
    """An example as the library takes it; notes what it carries."""
    if isinstance(named := id_as_text(raw), str):
        return named
    key = next((name for name in KEYS if isinstance(raw, dict) and raw.keys() == {name}), None)
    if key is None:
        keys.append((VECTOR, pointer))
        return carried(VECTOR, raw, pointer)
    keys.append((key, pointer))
    return {key: carried(key, raw[key], f"{pointer}/{key}")}


def _within(pointer: str, entry: dict[str, Any]) -> Asked:
    """One of many queries, with refusals that point to it."""
    try:
        return asked_of(validate(QueryEntry, entry))
    except Refusal as refusal:
        entries = [Entry(pointer + one.pointer[1:], one.detail) for one in refusal.errors]
        raise Refusal(refusal.code, refusal.detail, entries, refusal.limit) from None
    except kinbin.InvalidInput as error:
        problem = error.problems[0]
        raise Refusal(problem.code, problem.detail, [Entry(f"{pointer}/{problem.field}", problem.detail)], problem.limit) from None
