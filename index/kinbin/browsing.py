"""What a collection tells of its items besides neighbours: pages, counts, facets; and the payload indexes that make these fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kinbin.parameters import field_name, sequence_of
from kinbin.query.filters import Filter
from kinbin.query.matching import Filters
from kinbin.query.view import View
from kinbin.storage.transactions import Reader
from kinbin.upkeep.indexing import Indexing

__all__ = ["Browsed", "Indexed"]


class Indexed:
    """The part of a collection that has payload indexes."""

    _filters: Filters
    _indexing: Indexing

    def _asked_filters(self) -> Filters:
        return self._filters

    def _ids_of(self, reader: Reader, matches: Filter, filter: Any) -> list[bytes]:
        return self._filters.ids(reader, matches, filter)

    def add_index(self, field: str, kind: str, *, wait: bool = False) -> None:
        """Index a field of payloads (a dot goes into objects): filters on it need not read payloads any more. Declared on return.

        kind: "number", "keyword", "datetime" or "geo" (`kinbin.INDEX_KINDS`). Filters mean the same with an index and
        without one, whatever the payloads hold. It is built in the background (`stats()["indexes"]` tells how far); until then payloads
        are read. wait: until it is built. Cost: 4 µs an item in the background; some 20 to 40 bytes of memory an item and field.

        Raises:
            InvalidInput: it is malformed, or the field is indexed as another kind.
        """
        self._indexing.change({_key(field): kind})
        if wait:
            self._indexing.wait()

    def drop_index(self, field: str) -> None:
        """Drop the index of a field.

        Raises:
            InvalidInput: there is none.
        """
        self._indexing.change({}, [_key(field)])

    def change_indexes(self, add: Mapping[str, str], drop: Sequence[str] = ()) -> dict[str, Any] | None:
        """Drop and add several indexes in one transaction. Returns what `stats()["indexes"]` is then.

        Raises:
            InvalidInput: as the two above; nothing is changed then.
        """
        self._indexing.change(add, sequence_of("drop", drop))
        return self._indexing.describe()


def _key(field: str) -> str:
    """What may be looked up; of strings more is asked later."""
    return field if isinstance(field, str) else field_name(field, "field")


class Browsed(Indexed):
    """The part of a `Collection` that reads items by what they hold. Every method reads one snapshot of its own."""

    def _reading(self) -> AbstractContextManager[tuple[Reader, View]]:
        """A snapshot and the view of its state."""
        raise NotImplementedError

    def count(self, filter: Any = None) -> int:
        """How many items there are, or how many a filter matches."""
        with self._reading() as (reader, view):
            return view.state.items if filter is None else self._filters.matching(reader, view, filter)[0].items
