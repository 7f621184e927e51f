"""A payload index at one commit of a collection: segments that never change, which of their items are gone, and what came last.

It is brought forward by the log of ids (`storage.changes`): items that commits touched are read as they are now. What came last is
held decoded, and folded into a segment when it is many; small segments are joined. An index is immutable; a later one shares its segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.errors import CorruptData
from kinbin.indexes.segment import Entry, Segment
from kinbin.storage.changes import Changes
from kinbin.storage.transactions import Reader

__all__ = ["Index", "Part"]

_FOLDED = 512
"""Items that came last before they become a segment: each is asked alone, in a microsecond or two."""
_JOINED = 16_384
"""Items of a segment that is still joined with one of half its size or more by whoever asks; larger ones are for the background."""
MOST_SEGMENTS = 24

Part = tuple[Segment, NDArray[np.bool_]]
"""A segment, and which of its slots still hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The declared fields of all items, at one commit."""

    kinds: dict[str, str]
    sequence: int
    """The commit."""
    mark: bytes
    """Of the log at that commit."""
    items: int
    parts: tuple[Part, ...]
    last: dict[bytes, tuple[int, Any]]
    """By id, row and decoded payload of the items that are in no segment."""

    @classmethod
    def built(cls, reader: Reader, kinds: Mapping[str, str], entries: Iterator[Entry]) -> Index:
        """Of all items of a snapshot, in the order of their ids.

        Raises:
            CorruptData: they are not as many as the state counts.
        """
        segment = Segment.of(entries, kinds)
        return cls.of_segment(reader, kinds, segment)

    @classmethod
    def of_segment(cls, reader: Reader, kinds: Mapping[str, str], segment: Segment) -> Index:
        """Of a segment that holds all items of a snapshot."""
        state, mark = reader.state(), reader.change_mark(reader.state().sequence)
        if len(segment) != state.items or mark is None:
            raise CorruptData(f"{len(segment):,} items were indexed, the state record says {state.items:,}")
        return cls(dict(kinds), state.sequence, mark, state.items, ((segment, np.ones(len(segment), np.bool_)),), {})

    def advanced(self, reader: Reader, log: list[tuple[int, Changes]]) -> Index:
        """The index at a snapshot, by the log of the commits since. Cost: 6 µs an item that they touched, and a byte copied for each item.

        Raises:
            CorruptData: the log and the index do not fit each other.
        """
        before: dict[bytes, int | None] = {}
        for _, changes in log:
            for key, row in changes.items:
                # Where an item was when this index was made is what its first record says.
                before.setdefault(key, row)
        last = dict(self.last)
        missing = [(key, row) for key, row in before.items() if last.pop(key, None) is None and row is not None]
        parts = self._without(missing)
        removed = len(missing) + len(self.last) - len(last)
        now = reader.items(list(before))
        for key, item in zip(before, now, strict=True):
            if item is not None:
                last[key] = item[0], orjson.loads(item[1]) if item[1] else {}
        items = self.items - removed + sum(item is not None for item in now)
        state = reader.state()
        if items != state.items:
            raise CorruptData(f"a payload index has {items:,} items, the state record says {state.items:,}")
        mark = log[-1][1].mark if log else self.mark
        index = Index(self.kinds, state.sequence, mark, items, parts, last)
        return index._folded() if len(last) >= _FOLDED else index

    def _without(self, gone: list[tuple[bytes, int]]) -> tuple[Part, ...]:
        """The parts without these items (id, row), each of which is in one."""
        parts = list(self.parts)
        left = gone
        for i in range(len(parts) - 1, -1, -1):
            if not left:
                break
            segment, kept = parts[i]
            slots = segment.slots_of(left)
            here = [slot for slot in slots if slot >= 0 and kept[slot]]
            if here:
                kept = kept.copy()
                kept[here] = False
                parts[i] = segment, kept
                left = [one for one, slot in zip(left, slots, strict=True) if slot < 0 or not self.parts[i][1][slot]]
        if left:
            raise CorruptData("a payload index lacks an item that a commit changed")
        return tuple(parts)

    def _folded(self) -> Index:
        """What came last as a segment; small segments are joined."""
        entries = ((key, row, payload) for key, (row, payload) in sorted(self.last.items()))
        new = Segment.of(entries, self.kinds)
        parts = [*self.parts, (new, np.ones(len(new), np.bool_))]
        while len(parts) > 1 and len(parts[-2][0]) <= min(2 * len(parts[-1][0]), _JOINED):
            together = Segment.joined(parts[-2:])
            parts[-2:] = [(together, np.ones(len(together), np.bool_))]
        return Index(self.kinds, self.sequence, self.mark, self.items, tuple(parts), {})

    def compacted(self) -> Index:
        """The same as one segment. Cost: 1 µs an item."""
        folded = self._folded() if self.last else self
        segment = Segment.joined(folded.parts)
        return Index(self.kinds, self.sequence, self.mark, self.items, ((segment, np.ones(len(segment), np.bool_)),), {})

    def equals(self, other: Index) -> bool:
        """Whether two that are compacted hold the same."""
        (one, _), (two, _) = self.parts[0], other.parts[0]
        return (self.kinds, self.items, self.sequence) == (other.kinds, other.items, other.sequence) and one.equals(two)

    @property
    def scattered(self) -> bool:
        """Whether it is worth compacting: many segments, or many items that are gone."""
        slots = sum(len(segment) for segment, _ in self.parts)
        return len(self.parts) > MOST_SEGMENTS or slots > 4_096 + 1.3 * self.items

    def covers(self, kinds: Mapping[str, str]) -> bool:
        """Whether it has all these fields, of these kinds."""
        return all(self.kinds.get(name) == kind for name, kind in kinds.items())
