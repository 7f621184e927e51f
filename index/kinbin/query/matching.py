"""What a filter lets through at one state of a collection: a bit a row, remembered for the last few filters."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.query.filters import Predicate, compile_filter
from kinbin.query.view import View
from kinbin.storage.dead import DeadRows
from kinbin.storage.transactions import Reader

__all__ = ["Filters", "Matching", "Passing", "masks_of"]

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
    """Looks filters up in all payloads, once for each state; the last few are kept. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[_Key, Matching] = OrderedDict()

    def matching(self, reader: Reader, view: View, filter: Any) -> tuple[Matching, Passing]:
        """What a filter lets through in a snapshot of the view's state.

        Cost: about 1 µs an item the first time.

        Raises:
            InvalidInput: the filter is malformed.
        """
        predicate = compile_filter(filter)
        # A merge lays rows out anew without a commit.
        key = view.state.sequence, view.state.manifest, orjson.dumps(filter, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = _look(reader, view, predicate)
            with self._lock:
                self._known[key] = known
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return known, Passing(reader, predicate)


def _look(reader: Reader, view: View, predicate: Predicate) -> Matching:
    """Every payload is looked at."""
    of_items = np.fromiter((row for _, row, payload in reader.all_items() if predicate(payload)), np.uint64)
    rows = np.unique(of_items)
    return Matching(len(of_items), len(rows), masks_of(view, rows))


def masks_of(view: View, rows: NDArray[np.uint64]) -> list[DeadRows]:
    """For each run and the fresh rows: all rows are dead but those of the given ones that live."""
    out = []
    sources = [(run.row_numbers, run.dead) for run in view.runs] + [(view.fresh.row_numbers[: view.fresh.rows], view.fresh.dead)]
    for numbers, dead in sources:
        out.append(dead.hiding(~np.isin(numbers, rows)))
    return out
