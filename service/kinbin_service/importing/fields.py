"""Items with several vectors on their way into a collection that has several fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinbin_service.importing.batches import Batch

__all__ = ["FIELDS", "by_field", "refusal_of_fields", "refuse_fields"]

FIELDS = "fields"
"""What items are that have a vector for each field, in the place of a kind."""


def refuse_fields(name: str, items: str) -> str | None:
    """Why items of this kind cannot go into a collection with several fields; None if they can."""
    if items == FIELDS:
        return None
    return f'{name} has several fields, and the file holds {items}: write NDJSON of {{"id", "vectors": {{field: vector, …}}}}'


def refusal_of_fields(name: str, *, options: bool) -> str:
    """Why items of several fields cannot go where there is no such collection. options: whether some were given for a new one."""
    what = "--kernel, --dim and --parameter are of each field: " if options else ""
    return f"{name} is not there, or has no fields: {what}make it first, as kinbin create {name} --field colour:chi2:512 --field words:ngmm"


def by_field(batch: Batch, fields: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """The vectors of a batch by field.

    Raises ValueError with the position of an item that has other fields than the collection (None: than the first item), and the text.
    """
    items: list[dict[str, Any]] = list(batch.vectors)
    names = list(items[0] if fields is None else fields)
    for position, one in enumerate(items):
        if one.keys() != set(names):
            raise ValueError(position, f"the item has vectors of {', '.join(one) or 'no field'}, the collection has {', '.join(names)}")
    return {name: [one[name] for one in items] for name in names}
