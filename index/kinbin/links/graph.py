"""A neighbour graph in arrays: built, extended, thinned. What lies in the store is this, packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.nodes import GRAPH
from kinbin.codes.table import Codes
from kinbin.links.walk import BUILDING, insert, reach, repair
from kinbin.native.memory import address_of
from kinbin.native.records import Record
from kinbin.rows.scratch import BYTES, PACKED, UNITS, Scratch

__all__ = ["ENTRIES", "POOL", "Graph"]

LINKS = 32
"""Links that a new node gets; with those that come back, at most twice as many."""
POOL, SLACK = 100, 16
"""Of the walk that finds a new node's neighbours, and of pruning (`_prune`, in sixteenths)."""
MANY = 131_072
MANY_POOL, MANY_SLACK = 200, 18
"""The same for more nodes than that. Rows of large collections lie in crowds, whose nearest are all of the crowd: more has to be
seen, and more of it kept, for walks to leave one. A million patches take twice as long to build, and half the pool for recall .95."""
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
    """Whether codes are projections of unit rows: compared by squares."""

    @classmethod
    def empty(cls, codes: Codes, norms: NDArray[np.float32], step: float, shapes: bool, *, units: bool = False) -> Graph:
        """Nodes that are not linked yet."""
        links = np.zeros((len(codes), 1 + 2 * LINKS), np.uint32)
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
            **self.codes.fields(keep), step=self.step, shapes=int(self.shapes), stride=self.links.shape[1], links=places,
            norms=self.norms, entries=entries, entry_count=len(entries),
        )  # fmt: skip

    def _building(self) -> Record:
        """How nodes are put in."""
        size, slack = (MANY_POOL, MANY_SLACK) if len(self.codes) > MANY else (POOL, SLACK)
        if self.units:
            # Of squares of distances.
            slack = slack * slack // SLACK
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
        order = np.random.default_rng(len(self.codes)).permutation(nodes)
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

    def thinned(self, codes: Codes, norms: NDArray[np.float32], renamed: NDArray[np.int64]) -> Graph:
        """The graph without some nodes (renamed -1), under new numbers; `codes` and `norms` are by new number, and may have more."""
        out = Graph.empty(codes, norms, self.step, self.shapes, units=self.units)
        keep: list[object] = []
        keys, table = np.empty(4096, np.uint64), Scratch(wide=False).table_for(self.layout)
        repair(out.record(keep), self.links, renamed, out.links, out._building(), keys, table)
        entries = renamed[self.entries]
        out.entries = entries[entries >= 0].astype(np.uint32)
        if not len(out.entries):
            out.entries = np.sort(renamed[renamed >= 0])[:ENTRIES].astype(np.uint32)
        return out

    def join_strays(self) -> int:
        """Link every node that no link leads to from one of its own neighbours. Returns how many there were."""
        reached = np.zeros(len(self.codes), np.uint8)
        queue = np.empty(len(self.codes), np.int64)
        reach(self.links, self.entries, reached, queue)
        strays = np.flatnonzero(reached == 0)
        room = self.links.shape[1] - 1
        for stray in strays.tolist():
            if reached[stray]:
                continue
            own = self.links[stray, 1 : 1 + int(self.links[stray, 0])]
            near = own[(reached[own] == 1) & (self.links[own, 0] < room)]
            # One whose neighbours are strays themselves, or have no room, is linked from anywhere.
            other = int(near[0]) if len(near) else int(np.flatnonzero((reached == 1) & (self.links[:, 0] < room))[0])
            degree = int(self.links[other, 0])
            self.links[other, 1 + degree] = stray
            self.links[other, 0] = degree + 1
            reach(self.links, np.array([stray], np.uint32), reached, queue)
        return len(strays)

    def packed(self, shift: int) -> tuple[NDArray[np.uint32], list[NDArray[np.uint32]]]:
        """Links as they are stored: each node's word in its block, and blocks of 2**shift nodes (number, links, number, links …)."""
        degrees = self.links[:, 0].astype(np.int64)
        offsets = np.empty(len(degrees), np.uint32)
        blocks = []
        columns = np.arange(self.links.shape[1])
        for start in range(0, len(degrees), 1 << shift):
            part = self.links[start : start + (1 << shift)]
            sizes = degrees[start : start + (1 << shift)] + 1
            offsets[start : start + len(part)] = np.cumsum(sizes) - sizes
            blocks.append(part[columns[None, :] < sizes[:, None]])
        return offsets, blocks
