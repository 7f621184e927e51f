"""A segment of a payload index: some items, in the order of their rows, with the values of the declared fields. It never changes."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.indexes.columns import Collector, Column, Texts, joined

__all__ = ["Entry", "Segment"]

_KEPT = 6
"""Answers of filters that a segment remembers: a byte an item each."""
Entry = tuple[bytes, int, Any]
"""An item's id, its row, and its decoded payload."""


class _Remembered:
    """The answers of the last few filters on one segment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[int, NDArray[np.bool_]]] = OrderedDict()

    def get(self, key: bytes, sequence: int) -> NDArray[np.bool_] | None:
        """The answer that was put under a key at a commit, or before it: items that were gone by then are gone now."""
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] > sequence:
                return None
            self._known.move_to_end(key)
            return known[1]

    def put(self, key: bytes, sequence: int, mask: NDArray[np.bool_]) -> None:
        """Remember an answer, which is right for the items that lived at a commit."""
        with self._lock:
            self._known[key] = sequence, mask
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """n items, each in a slot; slots ascend by row, and by id where items share a row."""

    rows: NDArray[np.uint64]
    ids: Texts
    """Not ascending."""
    columns: dict[str, Column]
    remembered: _Remembered = field(default_factory=_Remembered)
    """Of items that lived when it was asked; those that died since are masked by whoever asks."""

    @classmethod
    def of(cls, entries: Iterable[Entry], kinds: Mapping[str, str]) -> Segment:
        """Of items in the order of their ids. Cost: 1 µs an item, and 0.5 µs a field of it."""
        collectors = {name: Collector.of(name, kind) for name, kind in kinds.items()}
        ids: list[bytes] = []
        rows: list[int] = []
        takes = [collector.take for collector in collectors.values()]
        for key, row, payload in entries:
            slot = len(ids)
            ids.append(key)
            rows.append(row)
            if payload:
                for take in takes:
                    take(slot, payload)
        numbers = np.array(rows, np.uint64)
        order = np.argsort(numbers, kind="stable")
        place = np.empty(len(order), np.uint32)
        place[order] = np.arange(len(order), dtype=np.uint32)
        columns = {name: collector.column(place) for name, collector in collectors.items()}
        return cls(numbers[order], Texts.of(ids[i] for i in order.tolist()), columns)

    @classmethod
    def joined(cls, parts: Sequence[tuple[Segment, NDArray[np.bool_]]]) -> Segment:
        """One of several with the same fields; of each which slots are kept. Cost: 0.5 µs an item."""
        rows = np.concatenate([segment.rows[kept] for segment, kept in parts])
        ids = [segment.ids[int(slot)] for segment, kept in parts for slot in np.flatnonzero(kept)]
        # By row first, then by id: stable over ids that are sorted only where rows are the same.
        by_id = sorted(range(len(ids)), key=ids.__getitem__)
        order = np.array(by_id, np.int64)[np.argsort(rows[by_id], kind="stable")] if ids else np.empty(0, np.int64)
        place = np.empty(len(ids), np.uint32)
        place[order] = np.arange(len(ids), dtype=np.uint32)
        places, start = [], 0
        for _, kept in parts:
            own = np.zeros(len(kept), np.uint32)
            own[kept] = place[start : start + int(kept.sum())]
            start += int(kept.sum())
            places.append(own)
        columns = {
            name: joined([(segment.columns[name], own, kept) for (segment, kept), own in zip(parts, places, strict=True)], len(ids))
            for name in parts[0][0].columns
        }
        return cls(rows[order], Texts.of(ids[i] for i in order.tolist()), columns)

    def __len__(self) -> int:
        return len(self.rows)

    def equals(self, other: Segment) -> bool:
        """Whether both hold the same items with the same values."""
        return (
            np.array_equal(self.rows, other.rows)
            and self.ids.equals(other.ids)
            and self.columns.keys() == other.columns.keys()
            and all(column.equals(other.columns[name]) for name, column in self.columns.items())
        )

    def slots_of(self, items: Sequence[tuple[bytes, int]]) -> list[int]:
        """The slot of each (id, row); -1 where there is none. Cost: 3 µs each."""
        wanted = np.array([row for _, row in items], np.uint64)
        first, past = np.searchsorted(self.rows, wanted, "left").tolist(), np.searchsorted(self.rows, wanted, "right").tolist()
        return [self._slot(key, low, high) for (key, _), low, high in zip(items, first, past, strict=True)]

    def _slot(self, key: bytes, first: int, past: int) -> int:
        """The slot of an id among those of one row."""
        at = bisect_left(self.ids, key, first, past)
        return at if at < past and self.ids[at] == key else -1
