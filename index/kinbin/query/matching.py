"""What a filter lets through at one state of a collection: a bit a row, remembered for the last few filters.

By payload indexes where they can tell (`judging`), else by every payload.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.cancelling import cancelled_by, event_now
from kinbin.indexes.index import Index
from kinbin.query.filters import Filter, Predicate, compile_filter
from kinbin.query.judging import Judged, TooManyUnknown, judged
from kinbin.query.view import View
from kinbin.storage.dead import DeadRows
from kinbin.storage.transactions import Reader

__all__ = ["Filters", "Matching", "Passing", "key_of", "masks_of"]

_KEPT = 4
"""Filters that are remembered: a bit a row each."""
_Key = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """The items that a filter lets through, at one state."""

    items: int
    rows: int
    """Distinct vectors of those items."""
    masks: list[DeadRows]
    """For each run of the view, and its fresh rows: all rows are dead but the living ones of matching items."""


class Passing:
    """The ids that a filter lets through, asked one by one of the snapshot that is searched.

    Only ids of rows that several items share need to be asked for: a row of one item is let through or masked.
    Cost: 3 µs an id, once.
    """

    def __init__(self, reader: Reader, predicate: Predicate) -> None:
        self._reader = reader
        self._predicate = predicate
        self._known: dict[bytes, bool] = {}

    def __contains__(self, key: bytes) -> bool:
        known = self._known.get(key)
        if known is None:
            (item,) = self._reader.items([key])
            known = self._known[key] = item is not None and self._predicate(item[1])
        return known


class Filters:
    """Asks payload indexes what a filter lets through, or looks it up in all payloads, once for each state. Thread-safe.

    indexed: the payload index at a snapshot with the fields that are declared; None: there is none just now.
    """

    def __init__(self, indexed: Callable[[Reader], tuple[Index, dict[str, str]] | None] = lambda _: None) -> None:
        self._indexed = indexed
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, Matching] = OrderedDict()

    def matching(self, reader: Reader, view: View, filter: Any, cancel: threading.Event | None = None) -> tuple[Matching, Passing]:
        """What a filter lets through in a snapshot of the view's state. cancel: see `cancelling`.

        Cost: about 1 µs an item the first time; 5 ns an item that passes where its fields are indexed.

        Raises:
            InvalidInput: the filter is malformed. SearchCancelled.
        """
        predicate = compile_filter(filter)
        # A merge lays rows out anew without a commit.
        key = view.state.sequence, view.state.manifest, key_of(filter)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            with cancelled_by(cancel or event_now()):
                known = self._look(reader, view, predicate, key[2])
            with self._lock:
                self._known[key] = known
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return known, Passing(reader, predicate)

    def judged(self, reader: Reader, filter: Filter | None, key: bytes) -> tuple[Index, Judged] | None:
        """What an index says of a filter (None: everything passes); None: it cannot tell, or there is none."""
        found = self._indexed(reader)
        if found is None:
            return None
        try:
            return found[0], judged(found[0], reader, filter, key, found[1])
        except TooManyUnknown:
            return None

    def ids(self, reader: Reader, filter: Filter, asked: Any) -> list[bytes]:
        """The ids that a filter lets through, which was asked so. Cost: as of `matching`, and 0.3 µs an id."""
        found = self.judged(reader, filter, key_of(asked))
        if found is None:
            return [key for key, _, payload in reader.scan_items(None) if filter(payload)]
        index, known = found
        parts = zip(index.parts, known.slots, strict=True)
        return [segment.ids[slot] for (segment, _), mask in parts for slot in np.flatnonzero(mask).tolist()] + sorted(known.last)

    def _look(self, reader: Reader, view: View, filter: Filter, key: bytes) -> Matching:
        items, rows = self.rows(reader, filter, key)
        return Matching(items, len(rows), masks_of(view, rows))

    def rows(self, reader: Reader, filter: Filter, key: bytes) -> tuple[int, NDArray[np.uint64]]:
        """How many items a filter lets through, and the rows that they have, ascending. key: `key_of` it. Cost: as of `matching`."""
        by_index = self.judged(reader, filter, key)
        if by_index is not None:
            return by_index[1].items, by_index[1].rows
        # Every payload is looked at.
        of_items = np.fromiter((row for _, row, payload in reader.all_items() if filter(payload)), np.uint64)
        return len(of_items), np.unique(of_items)


def key_of(filter: Any) -> bytes:
    """What two filters share that are the same but for the order of their members."""
    return orjson.dumps(filter, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def masks_of(view: View, rows: NDArray[np.uint64]) -> list[DeadRows]:
    """For each run and the fresh rows: all rows are dead but those of the given ones, ascending, that live. Cost: 3 to 30 ns a row."""
    out = []
    sources = [(run.row_numbers, run.dead) for run in view.runs] + [(view.fresh.row_numbers[: view.fresh.rows], view.fresh.dead)]
    for numbers, dead in sources:
        hidden = np.ones(len(numbers), np.bool_)
        if len(numbers):
            first, past = np.searchsorted(rows, numbers[:1], "left"), np.searchsorted(rows, numbers[-1:], "right")
            wanted = rows[int(first[0]) : int(past[0])]
            if int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):
                # Of a run that never lost a row the numbers have no gaps.
                hidden[(wanted - numbers[0]).astype(np.int64)] = False
            else:
                place = np.searchsorted(numbers, wanted)
                hidden[place[numbers[place] == wanted]] = False
        out.append(dead.hiding(hidden))
    return out
