"""What a collection may hold at most: a record of the tree `meta`, and what is held against it inside of a write transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinbin.errors import InvalidInput
from kinbin.storage.headers import Fields
from kinbin.storage.transactions import Reader, Writer

__all__ = ["QUOTA", "Quota", "put_quota", "quota_of"]

QUOTA = b"quota"
"""The key of the record."""


@dataclass(frozen=True, slots=True)
class Quota:
    """At most so many items and bytes; None: as many as there is room for."""

    items: int | None = None
    bytes: int | None = None

    @classmethod
    def decode(cls, data: object) -> Quota:
        """From JSON.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, "what the collection may hold")
        return cls(fields.whole_or_none("items", 0), fields.whole_or_none("bytes", 0))

    def refuse(self, items: int, new: int, more: int, used: Callable[[], int]) -> None:
        """Refuse a write that leaves so many items, some of them new, and needs so many bytes more than are used.

        What adds no item is not held against the number of items: a limit that is set lower than what is there freezes nothing.

        Raises:
            InvalidInput: code "over_limit"; `limit` is "collection_items" or "collection_bytes".
        """
        if self.items is not None and new and items > self.items:
            text = f"this collection takes at most {self.items} items, and would have {items}; nothing was written"
            raise InvalidInput.of("over_limit", text, field="items", limit="collection_items")
        if self.bytes is not None and more and used() + more > self.bytes:
            text = f"this collection takes at most {self.bytes} bytes, and would pass that; nothing was written"
            raise InvalidInput.of("over_limit", text, field="items", limit="collection_bytes")


def quota_of(reader: Reader) -> Quota:
    """What is set for the collection that is read."""
    found = reader.json(QUOTA, "what the collection may hold")
    return Quota() if found is None else Quota.decode(found)


def put_quota(writer: Writer, quota: Quota) -> None:
    """Set it."""
    writer.put_json(QUOTA, {"items": quota.items, "bytes": quota.bytes})
