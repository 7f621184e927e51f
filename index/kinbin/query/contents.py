"""Stored items in the form they are returned in: vectors and payloads, read in the snapshot that names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from kinbin.cancelling import look
from kinbin.errors import CorruptData
from kinbin.items.kind import Form, Kind
from kinbin.query.view import View
from kinbin.records import Item
from kinbin.rows.rows import Rows
from kinbin.segments.source import read_records
from kinbin.spaces.space import Space
from kinbin.storage.transactions import Reader
from kinbin.storage.versions import version_of

__all__ = ["Contents", "payload_reader", "versioned"]


def versioned(items: list[Item], entries: list[tuple[bytes, int, bytes]]) -> list[Item]:
    """The items with their versions. entries: (id, row, payload) of each."""
    return [replace(item, version=version_of(*entry)) for item, entry in zip(items, entries, strict=True)]


def payload_reader(wanted: Collection[str]) -> Callable[[bytes], dict[str, Any] | None]:
    """What reads of a stored payload (b"" for none) what `include` names: all of it, some of its fields where they are, or nothing."""
    if "payload" in wanted:
        return lambda data: orjson.loads(data) if data else None
    paths = [name.split(".")[1:] for name in wanted if name.startswith("payload.")]
    if not paths:
        return lambda _: None
    return lambda data: _selected(orjson.loads(data), paths) if data else None


def _selected(payload: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    """The fields at these paths, each in its object; those that are not there are left out."""
    out: dict[str, Any] = {}
    for path in paths:
        inner: Any = payload
        for name in path:
            inner = inner.get(name, _ABSENT) if isinstance(inner, dict) else _ABSENT
        if inner is _ABSENT:
            continue
        place = out
        for name in path[:-1]:
            place = place.setdefault(name, {})
        # Of a path and a longer one the shorter has both: it comes first, as names are sorted.
        if isinstance(place, dict) and path[-1] not in place:
            place[path[-1]] = inner
    return out


_ABSENT = object()
_AT_ONCE = 1_000
"""Items that are read between two looks at whether somebody still waits for them."""


class Contents:
    """Reads the contents of items of one collection. Every call is made inside a snapshot of the view's state."""

    def __init__(self, kind: Kind, form: Form, space: Space) -> None:
        self._kind = kind
        self._form = form
        self._wide = kind.wide(form)
        self._space = space

    def of(self, reader: Reader, view: View, ids: Iterable[str], wanted: Collection[str]) -> dict[str, Item]:
        """The items of ids that are there, by id.

        Raises:
            CorruptData: one of them is not there, or its vector is damaged.
        """
        keys = [identifier.encode() for identifier in dict.fromkeys(ids)]
        entries = []
        for key, known in zip(keys, reader.items(keys), strict=True):
            if known is None:
                raise CorruptData("a row names an item that is not there")
            entries.append((key, *known))
        return {item.id: item for item in self.items(view, entries, wanted)}

    def items(self, view: View, entries: list[tuple[bytes, int, bytes]], wanted: Collection[str]) -> list[Item]:
        """Items of (id, row, payload), with what is wanted of them. Many may be given up (`cancelling`)."""
        if len(entries) > _AT_ONCE:
            parts = [entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE)]
            return [item for part in parts for item in self.items(view, part, wanted)]
        look()
        stored: list[Any] = [None] * len(entries)
        if "vector" in wanted and entries:
            rows = self._space.vectors_of(self.rows(view, [row for _, row, _ in entries]))
            stored = [self._kind.item(rows, i, self._form) for i in range(len(entries))]
        payload, vectors = payload_reader(wanted), self._kind.vectors
        items = [
            Item(key.decode(), one if vectors else None, payload(data), object=None if vectors else one)
            for (key, _, data), one in zip(entries, stored, strict=True)
        ]
        return versioned(items, entries) if "version" in wanted else items

    def rows(self, view: View, numbers: list[int]) -> Rows:
        """Stored rows by number, checked."""
        places = [view.find(row)[1:] for row in numbers]
        return read_records(
            np.array([address for address, _ in places], np.uint64), np.array([room for _, room in places], np.int64), self._wide
        )
