"""What a collection tells of its items besides neighbours: pages, counts, facets; and the payload indexes that make these fast."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from kinbin.parameters import STORED, at_most, field_name, included, whole
from kinbin.query.contents import Contents
from kinbin.query.faceting import facets
from kinbin.query.matching import Filters
from kinbin.query.ordering import next_page, order_of
from kinbin.query.view import View
from kinbin.records import Facets, Page
from kinbin.storage.transactions import Reader
from kinbin.upkeep.indexing import Indexing

__all__ = ["Browsed"]


class Browsed:
    """The part of a `Collection` that reads items by what they hold. Every method reads one snapshot of its own."""

    _contents: Contents
    _filters: Filters
    _indexing: Indexing

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def scroll(
        self, after: str | None = None, limit: int = 100, filter: Any = None, include: Iterable[str] = ("payload",), *,
        order_by: str | None = None, descending: bool = False,
    ) -> Page:  # fmt: skip
        """Items in the order of their ids (as UTF-8 bytes), from a cursor on; a page's `next` is the cursor after it.

        order_by: a field of payloads instead: its least value in each item first, or (descending) its greatest; numbers before
        strings, ties by id; items without one are left out. Every page is read from a snapshot of its own.
        """
        wanted = included(include, STORED)
        at_most("page", whole("limit", limit), "limit")
        with self._reading() as (reader, view):
            found, following = next_page(self._filters, reader, order_of(order_by, descending), filter, after, limit)
            return Page(self._contents.items(view, found, wanted), following)

    def facets(self, field: str, filter: Any = None, limit: int = 20) -> Facets:
        """The values of a field of payloads among the items that a filter lets through, with how many items have each.

        Exact, with an index and without. A list counts for each of its values once; objects are no values. The most frequent come
        first, ties by value. Cost: 5 ns an item where field and filter are indexed, else 1 µs.

        Raises:
            InvalidInput: the field is no name, or the filter is malformed.
        """
        field_name(field, "field")
        at_most("page", whole("limit", limit), "limit")
        with self._reading() as (reader, _):
            return facets(self._filters, reader, field, filter, limit)

    def count(self, filter: Any = None) -> int:
        """How many items there are, or how many a filter matches."""
        with self._reading() as (reader, view):
            return view.state.items if filter is None else self._filters.matching(reader, view, filter)[0].items

    def add_index(self, field: str, kind: str, *, wait: bool = False) -> None:
        """Index a field of payloads (a dot goes into objects): filters on it need not read payloads any more. Declared on return.

        kind: "number", "keyword", "datetime" or "geo" (`kinbin.indexes.values.KINDS`). Filters mean the same with an index and
        without one, whatever the payloads hold. It is built in the background (`stats()["indexes"]` tells how far); until then payloads
        are read. wait: until it is built. Cost: 2 µs an item in the background; 20 to 40 bytes of memory an item and field.

        Raises:
            InvalidInput: it is malformed, or the field is indexed as another kind.
        """
        self._indexing.add({field: kind})
        if wait:
            self._indexing.wait()

    def drop_index(self, field: str) -> None:
        """Drop the index of a field.

        Raises:
            InvalidInput: there is none.
        """
        self._indexing.drop(field)
