"""Counts, pages, facets and payload indexes of a collection, blocking: the twin of `_async_browsing`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from kinbin_client import _flows, _requests
from kinbin_client._options import Filter, Include
from kinbin_client._requests import IndexKind, Operation
from kinbin_client.models import Facets, Item, Page

__all__ = ["Browsing"]

T = TypeVar("T")


class Browsing:
    """The part of a handle that reads items by what they hold, and declares payload indexes."""

    name: str

    def _do(self, operation: Operation[T]) -> T:
        """Send one request."""
        raise NotImplementedError

    def count(self, filter: Filter | None = None) -> int:
        """How many items there are (that fit a filter).

        Usage: `collection.count({"year": 2020})`
        """
        return self._do(_requests.count(self.name, filter))

    def facets(self, field: str, filter: Filter | None = None, limit: int = 20) -> Facets:
        """The values of a field of payloads with how many items (that fit a filter) have each, exactly, the most frequent first.

        Usage: `[(one.value, one.count) for one in collection.facets("tag", {"year": 2020}).values]`
        """
        return self._do(_requests.facets(self.name, field, filter, limit))

    def add_index(self, field: str, kind: IndexKind) -> None:
        """Index a field of payloads, in the background: filters on it need not read payloads then, and mean the same.

        Usage: `collection.add_index("year", "number")`
        """
        self._do(_requests.change_indexes(self.name, {field: kind}, []))

    def drop_index(self, field: str) -> None:
        """Drop the index of a field; InvalidInput if there is none. After a repeated request it may be gone already.

        Usage: `collection.drop_index("year")`
        """
        self._do(_requests.change_indexes(self.name, {}, [field]))

    def scroll(
        self, after: str | None = None, limit: int = 100, filter: Filter | None = None, include: Include = ("payload",), *,
        order_by: str | None = None, descending: bool = False,
    ) -> Page:  # fmt: skip
        """One page of the items in id order; its `next` is the `after` of the following page.

        order_by: a field of payloads instead: its least value in each item first, or (descending) its greatest; items without a number or
        string in it are left out. Send the same order with every `after`.

        Usage: `page = collection.scroll(limit=50)`, `collection.scroll(order_by="year", descending=True)`
        """
        return self._do(_requests.scroll(self.name, after, limit, filter, include, order_by, descending))

    def pages(
        self, limit: int = 100, filter: Filter | None = None, include: Include = ("payload",), after: str | None = None
    ) -> Iterator[Page]:
        """All pages from `after` on, each fetched when it is asked for.

        Usage: `for page in collection.pages(limit=1000): store(page.items)`
        """
        cursor = _flows.Cursor(self.name, limit, filter, include, after)
        while not cursor.finished:
            yield cursor.take(self._do(cursor.operation()))

    def items(self, limit: int = 100, filter: Filter | None = None, include: Include = ("payload",)) -> Iterator[Item]:
        """All items in id order, fetched in pages of `limit`.

        Usage: `ids = [item.id for item in collection.items()]`
        """
        for page in self.pages(limit, filter, include):
            yield from page.items
