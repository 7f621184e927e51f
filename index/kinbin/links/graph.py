"""A neighbour graph in arrays: built, extended, thinned. What lies in the store is this, packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.nodes import GRAPH
from kinbin.codes.table import Codes
from kinbin.links.walk import BUILDING, insert, reach, repair
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.rows.scratch import BYTES, PACKED, UNITS, Scratch
from kinbin.storage.workspace import WorkSpace, pieces

__all__ = ["ENTRIES", "POOL", "Graph"]

LINKS = 32
"""Links that a new node gets; with those that come back, at most twice as many."""
POOL, SLACK = 100, 16
"""Of the walk that finds a new node's neighbours, and of pruning (`_prune`, in sixteenths)."""
MANY = 131_072
MANY_POOL, MANY_SLACK = 200, 18
"""The same for more nodes than that. Rows of large collections lie in crowds, whose nearest are all of the crowd: more has to be
seen, and more of it kept, for walks to leave one. A million patches take twice as long to build, and half the pool for recall .95."""
PACKED_SLACK = 22
"""The same of squares of distances of packed unit rows, most of which are as good as at right angles: with 16 a node has 5 to 11 links,
and the widest walks over word counts lose two to three times as many of the neighbours."""
ENTRIES = 64
"""Nodes that every walk begins from: a random sample, so that one of them is not far."""
_SLICE = 2_048
"""The first so many nodes are put in by walks from one node, all others by walks from `ENTRIES`."""
_PIECE = 256
"""Nodes put in between two looks at whether to stop: some 20 ms, a second at low priority on a busy machine."""


@dataclass(slots=True, eq=False)
class Graph:
    """Nodes 0 … n-1 with codes, norms and links."""

    codes: Codes
    norms: NDArray[np.float32]
    """(n,)"""
    links: NDArray[np.uint32]
    """(n, 1 + 2 LINKS): number of links, links."""
    entries: NDArray[np.uint32]
    step: float
    shapes: bool
    """Whether only shapes count: nodes are ranked by their codes alone."""
    units: bool = False
    """Whether codes are of unit rows, projected or packed: compared by squares."""

    @staticmethod
    def no_links(nodes: int, room: WorkSpace) -> NDArray[np.uint32]:
        """Room for the links of so many nodes, of which there are none."""
        return room.zeros((nodes, 1 + 2 * LINKS), np.uint32)

    @classmethod
    def empty(
        cls, codes: Codes, norms: NDArray[np.float32], step: float, shapes: bool, *, units: bool = False,
        links: NDArray[np.uint32] | None = None,
    ) -> Graph:  # fmt: skip
        """Nodes that are not linked yet. Whatever is made has its room where the codes have theirs. links: `no_links`, made before."""
        links = cls.no_links(len(codes), codes.room) if links is None else links
        return cls(codes, norms, links, np.empty(0, np.uint32), step, shapes, units)

    @property
    def layout(self) -> str:
        """Of the codes."""
        return PACKED if not self.codes.width else UNITS if self.units else BYTES

    def record(self, keep: list[object]) -> Record:
        """What kernels are told; `keep` must live as long as it is used."""
        places = np.array([address_of(self.links)], np.uint64)
        entries = self.entries
        keep += [places, entries, self]
        return GRAPH.record(
            **self.codes.fields(keep), step=self.step, units=int(self.units), shapes=int(self.shapes), stride=self.links.shape[1],
            links=places, norms=self.norms, entries=entries, entry_count=len(entries),
        )  # fmt: skip

    def _building(self) -> Record:
        """How nodes are put in."""
        size, slack = (MANY_POOL, MANY_SLACK) if len(self.codes) > MANY else (POOL, SLACK)
        if self.units:
            # Of squares of distances.
            slack = slack * slack // SLACK if self.codes.width else max(slack * slack // SLACK, PACKED_SLACK)
        return BUILDING.record(most=LINKS, slack=slack, size=size)

    def insert(self, nodes: NDArray[np.int64], going_on: Callable[[int], bool], done: int = 0) -> bool:
        """Link nodes, in random order; `going_on` is told how many are in, and says whether to go on. Returns whether all are in.

        An insertion that was ended, or whose `going_on` raised, is gone on with by `done`, the number that was told last: the
        graph is then what it would have been at once.
        """
        keep: list[object] = []
        graph, building = self.record(keep), self._building()
        scratch = Scratch(wide=False)
        table = scratch.walk(len(self.codes), int(building["size"][0]), self.layout)
        keys = np.empty(2 * LINKS + 2, np.uint64)
        order = self.codes.room.copy(nodes)
        np.random.default_rng(len(self.codes)).shuffle(order)
        for start in range(0, len(order), _SLICE):
            some = order[start : start + _SLICE]
            if start + len(some) <= done:
                continue
            # The first node of all is in by itself.
            alone = 1 - min(1, len(self.entries))
            entries = some[:1].astype(np.uint32) if alone else self.entries
            GRAPH.fill(graph, entries=entries, entry_count=len(entries))
            for first in range(max(0, done - start), len(some), _PIECE):
                if not going_on(start + first):
                    return False
                insert(graph, self.links, some[max(first, alone) : first + _PIECE], building, scratch.record, table, keys)
            if len(self.entries) < ENTRIES:
                self.entries = np.concatenate([self.entries, some[: ENTRIES - len(self.entries)].astype(np.uint32)])
        return going_on(len(order))

    def thinned(
        self, codes: Codes, norms: NDArray[np.float32], renamed: NDArray[np.int64], links: NDArray[np.uint32] | None = None
    ) -> Graph:
        """The graph without some nodes (renamed -1), under new numbers; `codes` and `norms` are by new number, and may have more.

        links: `no_links` of as many nodes as have codes, made before.
        """
        out = Graph.empty(codes, norms, self.step, self.shapes, units=self.units, links=links)
        keep: list[object] = []
        keys, table = np.empty(4096, np.uint64), Scratch(wide=False).table_for(self.layout)
        repair(out.record(keep), self.links, renamed, out.links, out._building(), keys, table)
        entries = renamed[self.entries]
        out.entries = entries[entries >= 0].astype(np.uint32)
        if not len(out.entries):
            for first, past in pieces(len(renamed)):
                some = renamed[first:past]
                out.entries = np.sort(np.concatenate([out.entries, some[some >= 0].astype(np.uint32)]))[:ENTRIES]
        return out

    def join_strays(self) -> int:
        """Link every node that no link leads to from one of its own neighbours. Returns how many there were."""
        room = self.codes.room
        reached, queue = room.zeros(len(self.codes), np.uint8), room.empty(len(self.codes), np.int64)
        strays = len(reached) - int(reach(self.links, self.entries, reached, queue))
        for first, past in pieces(len(reached)):
            for stray in (first + np.flatnonzero(reached[first:past] == 0)).tolist():
                if not reached[stray]:
                    self._join(stray, reached)
                    reach(self.links, np.array([stray], np.uint32), reached, queue)
        return strays

    def _join(self, stray: int, reached: NDArray[np.uint8]) -> None:
        """Link a node from one of its own neighbours that is reached."""
        most = self.links.shape[1] - 1
        own = self.links[stray, 1 : 1 + int(self.links[stray, 0])]
        near = own[(reached[own] == 1) & (self.links[own, 0] < most)]
        # One whose neighbours are strays themselves, or have no room, is linked from anywhere.
        other = int(near[0]) if len(near) else self._anyone(reached)
        degree = int(self.links[other, 0])
        self.links[other, 1 + degree] = stray
        self.links[other, 0] = degree + 1

    def _anyone(self, reached: NDArray[np.uint8]) -> int:
        """The first node that is reached and has room for a link."""
        for first, past in pieces(len(reached)):
            there = np.flatnonzero((reached[first:past] == 1) & (self.links[first:past, 0] < self.links.shape[1] - 1))
            if len(there):
                return first + int(there[0])
        raise AssertionError("every list of links is full")

    def packed(self, shift: int, offsets: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
        """Links as they are stored: blocks of 2**shift nodes (number, links, number, links …), one after the other.

        offsets (n,): each node's word in its block is written there.
        """
        columns = np.arange(self.links.shape[1])
        for start in range(0, len(self.links), 1 << shift):
            part = self.links[start : start + (1 << shift)]
            sizes = part[:, 0].astype(np.int64) + 1
            offsets[start : start + len(part)] = np.cumsum(sizes) - sizes
            yield part[columns[None, :] < sizes[:, None]]
