"""What collections of one field and of several have in common: items by id, their pages, and writes cut into transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any, Generic, TypeVar

from kinbin.errors import Closed, InvalidInput, KinbinError
from kinbin.parameters import INCLUDE, STORED, at_most, cursor_after, included, open_cursor, sequence_of, whole
from kinbin.query.filters import compile_filter
from kinbin.records import AddResult, Item, Page
from kinbin.rows.identity import check_ids, encode_payloads
from kinbin.storage.transactions import Reader
from kinbin.writes import Writable

__all__ = ["Entry", "Front", "check_adding"]

Entry = tuple[bytes, int, bytes]
"""An item as it is stored: id, row or number, payload."""
At = TypeVar("At")
"""What a snapshot is read by."""
Part = TypeVar("Part")
"""The vectors of a transaction."""


class Front(Writable, Generic[At]):
    """Stored items by id. Who inherits it says what a snapshot is, and what of an item is read by it."""

    name: str

    def _reading(self) -> AbstractContextManager[At]:
        """A snapshot, for the block of a `with` statement."""
        raise NotImplementedError

    def _reader(self, at: At) -> Reader:
        """What reads the items of a snapshot."""
        raise NotImplementedError

    def _items(self, at: At, entries: list[Entry], wanted: Sequence[str]) -> list[Item]:
        """Items as users see them, with what is wanted of them."""
        raise NotImplementedError

    def count(self, filter: Any = None) -> int:
        """How many items there are, or how many a filter matches."""
        raise NotImplementedError

    # -- writing

    def _add_parts(
        self, parts: Iterator[Part], keys: list[bytes], payloads: Sequence[Any] | None, size: Callable[[Part], int],
        write: Callable[[list[bytes], list[bytes], Part], AddResult], progress: Callable[[int, int], object] | None,
    ) -> AddResult:  # fmt: skip
        """Add part after part, each in one transaction; an error tells how many items were stored before it."""
        encoded: list[bytes] | None = None
        done, result = 0, AddResult(0, 0, 0, 0)
        try:
            for part in parts:
                if encoded is None:
                    encoded = encode_payloads(payloads, len(keys))
                if not keys:
                    return replace(result, count=self.count())
                here = slice(done, done + size(part))
                result = result.plus(write(keys[here], encoded[here], part))
                done = here.stop
                if progress is not None:
                    progress(done, len(keys))
        except KinbinError as error:
            if not done:
                raise
            # A copy: the adds of other threads that shared the transaction have the same error.
            told = copy(error)
            told.acknowledged = done
            raise told from error.__cause__
        return result

    # -- reading

    def get(self, ids: Sequence[str], include: Iterable[str] = INCLUDE) -> list[Item | None]:
        """The items of these ids, in their order; None where there is none. Of several fields, `Item.vectors` has all vectors."""
        keys = check_ids(sequence_of("ids", ids), unique=False)
        at_most("batch_items", len(keys), "ids")
        wanted = included(include, STORED)
        with self._reading() as at:
            known = self._reader(at).items(keys)
            present = [(key, *item) for key, item in zip(keys, known, strict=True) if item is not None]
            items = iter(self._items(at, present, wanted))
            return [None if item is None else next(items) for item in known]

    def scroll(self, after: str | None = None, limit: int = 100, filter: Any = None, include: Iterable[str] = ("payload",)) -> Page:
        """Items in the order of their ids (as UTF-8 bytes), from a cursor on; a page's `next` is the cursor after it."""
        wanted = included(include, STORED)
        at_most("page", whole("limit", limit), "limit")
        start = None if after is None else open_cursor(after)
        predicate = None if filter is None else compile_filter(filter)
        with self._reading() as at:
            found: list[Entry] = []
            more = False
            for entry in self._reader(at).scan_items(start):
                if predicate is None or predicate(entry[2]):
                    if len(found) == limit:
                        more = True
                        break
                    found.append(entry)
            items = self._items(at, found, wanted)
        return Page(items, cursor_after(found[-1][0]) if more else None)

    # -- life

    def _is_current(self) -> bool:
        """Whether the collection is still there: neither closed nor removed by any process."""
        try:
            with self._store.read() as reader:
                return not reader.state().dropped
        except Closed:
            return False

    def _mark_dropped(self) -> None:
        """Refuse every further use, in every process."""
        with self._store.write() as writer:
            writer.put_state(writer.state().with_(dropped=True))


def check_adding(atomic: object, progress: object) -> None:
    """Refuse what no add takes.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    if not isinstance(atomic, bool):
        raise InvalidInput.of("bad_parameter", "atomic is true or false", field="atomic")
    if progress is not None and not callable(progress):
        raise InvalidInput.of("bad_parameter", "progress is something to call, or None", field="progress")
