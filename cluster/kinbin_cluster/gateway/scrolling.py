"""Pages over all shards, in the order of ids or of a field: which items are next, and the cursor behind them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

__all__ = ["ScrollOrder", "joined_page"]

_Place = tuple[int, Any]


@dataclass(frozen=True, slots=True)
class ScrollOrder:
    """The order of pages, as `kinbin.query.ordering` has it: by ids, or the least (greatest) number or string of a field; ties by id."""

    field: str | None
    descending: bool
    include: list[str]
    """What shards are asked for: what the client asks for, and the field."""
    added: bool
    """Whether the field is there for the order alone."""

    @classmethod
    def of(cls, field: str | None, descending: bool, include: Sequence[str]) -> ScrollOrder:
        """The order that a body asks for."""
        if field is None:
            return cls(None, descending, list(include), added=False)
        steps = field.split(".")
        if not all(steps):
            return cls(field, descending, list(include), added=False)  # the nodes say what is wrong with it
        held = {"payload", *(".".join(["payload", *steps[:depth]]) for depth in range(1, len(steps) + 1))}
        if held.isdisjoint(include):
            return cls(field, descending, [*include, f"payload.{field}"], added=True)
        return cls(field, descending, list(include), added=False)

    def sort(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Items in this order."""
        items = sorted(items, key=lambda item: item["id"].encode())
        if self.field is not None:
            items.sort(key=self._value, reverse=self.descending)
        return items

    def cursor(self, item: Mapping[str, Any]) -> str:
        """The cursor that goes on behind an item."""
        if self.field is None:
            return _text(item["id"].encode())
        return _text(orjson.dumps([self.field, self.descending, *self._value(item), item["id"]]))

    def shown(self, item: dict[str, Any], include: Sequence[str]) -> dict[str, Any]:
        """An item without what was asked for the order alone."""
        if not self.added:
            return item
        if not any(name.startswith("payload.") for name in include):
            return {name: value for name, value in item.items() if name != "payload"}
        assert self.field is not None
        payload = item["payload"]
        return {**item, "payload": _without(payload, self.field.split(".")) if isinstance(payload, dict) else payload}

    def _value(self, item: Mapping[str, Any]) -> _Place:
        assert self.field is not None
        value: Any = item["payload"]
        for name in self.field.split("."):
            value = value[name]
        listed = value if isinstance(value, list) else [value]
        ranked = [
            (1 if isinstance(one, str) else 0, one) for one in listed if isinstance(one, int | float | str) and not isinstance(one, bool)
        ]
        return (max if self.descending else min)(ranked)


def joined_page(parts: Sequence[Mapping[str, Any]], order: ScrollOrder, limit: int) -> dict[str, Any]:
    """The page of all shards. parts: the page of each."""
    items = order.sort([item for part in parts for item in part["items"]])
    page = items[:limit]
    more = len(items) > limit or any(part["next"] is not None for part in parts)
    asked = order.include[:-1] if order.added else order.include
    return {"items": [order.shown(item, asked) for item in page], "next": order.cursor(page[-1]) if more else None}


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _without(payload: dict[str, Any], steps: Sequence[str]) -> dict[str, Any]:
    """A payload without the field at these steps, and without objects that were there for it alone."""
    out = dict(payload)
    name = steps[0]
    if len(steps) == 1:
        out.pop(name, None)
        return out
    if isinstance(out.get(name), dict):
        out[name] = _without(out[name], steps[1:])
        if not out[name]:
            del out[name]
    return out
