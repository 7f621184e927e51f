"""What one round of a copy writes: the items of all old shards that changed, the oldest rows first.

Of each item that was written its digest is kept, so a round writes what changed. Items with the same score are answered by the age of
their rows, so rows are written in the order of their numbers over all shards. A row that is found late, behind younger ones that were
written by an earlier round, has these written again, behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_cluster.message import Edit

__all__ = ["Known", "Round"]

_ITEMS, _IDS = 500, 10_000
"""Of one edit: items with their rows, and ids that are deleted."""

_NONE = np.uint64(2**63)
"""Greater than all numbers."""

Known = dict[bytes, bytes]
"""Digests of items, by id. About 200 bytes an item."""


class Round:
    """One round. Used by one thread at a time, while the shards are pinned."""

    def __init__(self, pins: Sequence[Any], known: Sequence[Known], begun: Sequence[int]) -> None:
        """pins: of the old shards. known, begun: of each, what was written before, and the number behind its rows then; none at first."""
        self._pins = pins
        self._known = known
        self._begun = begun
        self.now: list[Known] = [{} for _ in pins]
        """What the new shards hold once the edits are applied."""

    def edits(self) -> Iterator[Edit]:
        """The edits that make what is known what the pinned shards hold."""
        ids, numbers, shards, changed = self._listed()
        gone = [key for known, now in zip(self._known, self.now, strict=True) for key in known if key not in now]
        new = numbers >= np.array(self._begun, np.uint64)[shards] if self._begun else np.zeros(len(numbers), bool)
        late = numbers >= numbers[new].min(initial=_NONE)
        again = [ids[i] for i in np.flatnonzero(late).tolist() if ids[i] in self._known[shards[i]]]
        for listed in (gone, again):
            for start in range(0, len(listed), _IDS):
                yield Edit("delete", listed[start : start + _IDS])
        which = np.flatnonzero(changed | late)
        which = which[np.lexsort((shards[which], numbers[which]))]
        self._order_owners(ids, numbers, shards, which)
        for start in range(0, len(which), _ITEMS):
            yield self._add(ids, numbers, shards, which[start : start + _ITEMS])

    def _listed(self) -> tuple[list[bytes], NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
        """Ids of all items, the numbers of their rows, their shards, and whether they are not known as they are."""
        ids: list[bytes] = []
        numbers: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        counts: list[int] = []
        changed: list[bool] = []
        for pinned, known, now in zip(self._pins, self._known, self.now, strict=True):
            before = len(ids)
            for items in pinned.contents():
                ids += items.ids
                numbers.append(items.numbers)
                changed += [known.get(key) != digest for key, digest in zip(items.ids, items.digests, strict=True)]
                now.update(zip(items.ids, items.digests, strict=True))
            counts.append(len(ids) - before)
        return ids, np.concatenate(numbers), np.repeat(np.arange(len(counts)), counts), np.array(changed, bool)

    def _order_owners(self, ids: Sequence[bytes], numbers: NDArray[np.uint64], shards: NDArray[np.int64], which: NDArray[np.int64]) -> None:
        """Put the items of each row, which are next to each other, into the order in which their shard answers them; in place."""
        same = (numbers[which][1:] == numbers[which][:-1]) & (shards[which][1:] == shards[which][:-1])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
        for begin, end in edges.reshape(-1, 2).tolist():
            some = which[begin : end + 1]
            (owners,) = self._pins[shards[some[0]]].owners([int(numbers[some[0]])])
            place = {key: at for at, key in enumerate(owners)}
            which[begin : end + 1] = sorted(some.tolist(), key=lambda i: place[ids[i]])

    def _add(self, ids: Sequence[bytes], numbers: NDArray[np.uint64], shards: NDArray[np.int64], which: NDArray[np.int64]) -> Edit:
        """The add of some items, in this order."""
        held: list[bytes] = [b""] * len(which)
        parts: dict[str, list[kinbin.Rows]] = {}
        places: list[NDArray[np.int64]] = []
        for shard in np.unique(shards[which]).tolist():
            here = np.flatnonzero(shards[which] == shard)
            some = which[here]
            for place, payload in zip(here.tolist(), self._pins[shard].payloads([ids[i] for i in some.tolist()]), strict=True):
                held[place] = payload
            for name, rows in self._pins[shard].rows(numbers[some]).items():
                parts.setdefault(name, []).append(rows)
            places.append(here)
        back = np.argsort(np.concatenate(places))
        rows_of = {name: _joined(listed).take(back) for name, listed in parts.items()}
        keys = [ids[i] for i in which.tolist()]
        return Edit("add", keys, held if any(held) else None, rows_of, positions=list(range(len(keys))), first=0)


def _joined(parts: Sequence[kinbin.Rows]) -> kinbin.Rows:
    """Rows of one part or more, end to end."""
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.indptr) for part in parts]))])
    features, values = np.concatenate([part.features for part in parts]), np.concatenate([part.values for part in parts])
    return kinbin.Rows(indptr.astype(np.int64), features, values, np.concatenate([part.norms for part in parts]))
