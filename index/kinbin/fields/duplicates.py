"""Duplicates of collections with several fields: items whose vectors in one field are near each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinbin.collection import Collection
from kinbin.duplicates.stream import Duplicates, Opened, Seen, checked
from kinbin.fields.moment import Moments
from kinbin.parameters import one_of

if TYPE_CHECKING:
    from kinbin.duplicates.search import Progress

__all__ = ["DuplicatedFields"]


class DuplicatedFields:
    """The part of a `FieldsCollection` that finds items that are near each other in one field."""

    _fields: dict[str, Collection]
    _moments: Moments
    _duplicates: Opened

    def duplicates(
        self, min_score: float | None = None, as_: str = "pairs", *, field: str, miss: float = 0.01, filter: Any = None,
        cancel: threading.Event | None = None, progress: Progress | None = None,
    ) -> Duplicates:  # fmt: skip
        """All pairs of items whose vectors in one field, `field`, score at least `min_score`, or the clusters they make.

        All else: see `Collection.duplicates`. Items of the same vector are pairs as any, since each has a row of its own.
        """
        one_of("field", field, self._fields)
        collection = self._fields[field]
        wanted = checked(collection._recipe.space, (min_score, None), as_, miss, filter, cancel, progress)
        return self._duplicates.of(partial(self._seen, field, filter), collection._recipe, Path(collection._store.path), wanted)

    @contextmanager
    def _seen(self, field: str, filter: Any) -> Iterator[Seen]:
        """One field at a moment, and the ids of the items."""
        with self._moments.open() as moment:
            passing = None if filter is None else moment.known.matching(moment.reader, filter)
            yield Seen(moment.reader, moment.parts[field].view, moment.masks(field, passing), None)
