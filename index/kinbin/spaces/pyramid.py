"""Histograms of the cells of a grid, and the rows that are made of them: the histograms of all coarser grids beside them.

A vector holds the counts of 512 colours in each cell of the finest grid of 2^(L−1) × 2^(L−1): place (y · side + x) · 512 + colour. Its
row holds those of L grids of 1, 4, 16, … cells, each cell the sum of the four that it is divided into. The cells, or nodes, are in
post-order: four children, then their parent, the root last. So what is a function of a node's children and its own histogram is
computed in one pass. Node b has 514 features from 514 b on: its 512 colours, and their sum in two parts, since a float32 holds too
little of it: what is left, and what it is rounded down to. After the root come two features more: the sum of the vector, in the same way.

Each level has a weight, a power of two: a value of the row is the count times its level's, so that hashes and codes, which look at rows
alone, weigh the levels so; and it is undone without a rounding.
(Kernels through nested histograms, sections 2 and 4, figure 2.)
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinbin.native.jit import inline, strict
from kinbin.native.memory import trailing_zeros
from kinbin.rows.rows import Rows

__all__ = ["COLOURS", "MOST_LEVELS", "NODE", "REST", "SMALL", "SUM", "Pyramid"]

COLOURS = 512
NODE = COLOURS + 2
"""Features of a node."""
REST, SUM = COLOURS, COLOURS + 1
"""Places of its sum's parts: what is left, and the sum rounded down."""
MOST_LEVELS = 4
_WORDS = COLOURS // 64
_LEAST_POWER = 12
"""Weights go from 2^0 to 2^12."""
SMALL = 2.0**-16
"""What sums weigh, of the weight of their level: they tell the score, and are not to be seen by hashes and codes."""
_NEARLY = 1e-9
"""Logarithms differ by less from one machine to another."""
_AT_ONCE = 256
"""Rows whose room is taken at a time."""
U64 = np.uint64


@inline
def _sum(value, feature, at, features, values):
    """Write a sum as two features; the first only where something is left. Returns the place behind them."""
    down = np.float32(value)
    if np.float64(down) > value:
        down = np.float32(value * (1.0 - 2.0**-23))
    rest = np.float32(value - np.float64(down))
    if rest > 0.0:
        features[at], values[at] = U64(feature), rest
        at += 1
    features[at], values[at] = U64(feature + 1), down
    return at + 1


@strict
def _expand(rows, places, weights, rooted, scratch, out):
    """Write the rows of pyramids behind each other; returns where the last one ends.

    rows: (indptr, features, values) of the vectors. places: (nodes, level and parent of each; the node of each finest cell).
    weights: (levels,). rooted: whether sums are of roots. scratch: (sums (nodes, 512) of zeros, marks (nodes, 8) of zeros).
    out: (indptr, features, values, norms).
    """
    indptr, features, values = rows
    level, parent, finest = places
    sums, marks = scratch
    ends, new_features, new_values, norms = out
    nodes = len(level)
    at = ends[0]
    for i in range(len(norms)):
        total = 0.0
        for x in range(indptr[i], indptr[i + 1]):
            node, colour = finest[features[x] // U64(COLOURS)], np.int64(features[x] % U64(COLOURS))
            total += np.float64(values[x])
            while node >= 0:
                sums[node, colour] += np.float64(values[x])
                marks[node, colour >> 6] |= U64(1) << U64(colour & 63)
                node = parent[node]
        norm = 0.0
        for node in range(nodes):
            weight = weights[level[node]]
            mass = 0.0
            for word in range(_WORDS):
                bits = marks[node, word]
                while bits != U64(0):
                    colour = word * 64 + np.int64(trailing_zeros(bits))
                    bits &= bits - U64(1)
                    new_features[at] = U64(node * NODE + colour)
                    new_values[at] = np.float32(sums[node, colour] * weight)
                    mass += math.sqrt(total * sums[node, colour]) if rooted else sums[node, colour]
                    norm += np.float64(new_values[at])
                    sums[node, colour] = 0.0
                    at += 1
                marks[node, word] = U64(0)
            if mass > 0.0:
                at = _sum(mass * weight * SMALL, node * NODE + REST, at, new_features, new_values)
                norm += mass * weight * SMALL
        at = _sum(total * SMALL, nodes * NODE, at, new_features, new_values)
        norms[i] = norm + total * SMALL
        ends[i + 1] = at
    return at


@dataclass(frozen=True)
class Pyramid:
    """How vectors of the finest cells become rows of all levels, and back."""

    levels: int
    powers: tuple[int, ...]
    """(levels,) from the root on: the weight of a level is 2 to the power of this."""
    rooted: bool = False
    """Whether the sums of nodes are Σ √(u n), n the sum of the vector, and not Σ u."""

    @classmethod
    def weighing(cls, shares: Sequence[float], *, rooted: bool = False) -> Pyramid:
        """Levels that weigh as nearly so as powers of two do; none weighs less than 2^-12 of the one that weighs most.

        Raises:
            ValueError: a share is so near to the middle of two powers that another machine might choose the other one.
        """
        most = max(shares)
        wanted = [_LEAST_POWER + math.log2(share / most) if share > 0.0 else 0.0 for share in shares]
        if any(one > -1.0 and abs(one - math.floor(one) - 0.5) < _NEARLY for one in wanted):
            raise ValueError("a level's weight lies in the middle of two powers of two")
        return cls(len(shares), tuple(max(0, round(one)) for one in wanted), rooted)

    @property
    def side(self) -> int:
        """Cells of the finest grid, along each side."""
        return 1 << self.levels - 1

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return COLOURS * self.side * self.side

    @property
    def nodes(self) -> int:
        """Cells of all grids."""
        return (self.side * self.side * 4 - 1) // 3

    @property
    def row_dim(self) -> int:
        """Length of the rows; at most 43,692: they are narrow."""
        return NODE * self.nodes + 2

    @property
    def weights(self) -> NDArray[np.float64]:
        """(levels,) of the levels."""
        return 2.0 ** np.array(self.powers, np.float64)

    @cached_property
    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """(nodes,) the level of each node; (nodes,) its parent, of the root -1; (side²,) the node of each finest cell."""
        level, parent = np.zeros(self.nodes, np.int64), np.full(self.nodes, -1, np.int64)
        finest = np.zeros((self.side, self.side), np.int64)
        count = 0

        def visit(depth: int, y: int, x: int) -> int:
            nonlocal count
            size = self.side >> depth
            children = []
            if depth < self.levels - 1:
                half = size // 2
                children = [visit(depth + 1, y + dy, x + dx) for dy in (0, half) for dx in (0, half)]
            else:
                finest[y, x] = count
            node, count = count, count + 1
            level[node] = depth
            parent[children] = node
            return node

        visit(0, 0, 0)
        return level, parent, finest.reshape(-1)

    def rows_of(self, vectors: Rows) -> Rows:
        """The rows of n vectors, which have no negative values. Cost: 3 to 5 ns a nonzero of the row, 0.5 µs a node of four levels."""
        scratch = np.zeros((self.nodes, COLOURS)), np.zeros((self.nodes, _WORDS), np.uint64)
        parts = [self._rows_of(vectors.slice(i, min(i + _AT_ONCE, len(vectors))), scratch) for i in range(0, len(vectors), _AT_ONCE)]
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(part.indptr) for part in parts)])
        indptr = np.zeros(len(vectors) + 1, np.int64)
        np.cumsum(sizes, out=indptr[1:])
        return Rows(
            indptr, np.concatenate([np.empty(0, np.uint64), *(part.features for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.values for part in parts)]),
            np.concatenate([np.empty(0), *(part.norms for part in parts)]),
        )  # fmt: skip

    def _rows_of(self, vectors: Rows, scratch: tuple[NDArray[np.float64], NDArray[np.uint64]]) -> Rows:
        room = self.levels * len(vectors.values) + 2 * (self.nodes + 1) * len(vectors)
        indptr, norms = np.zeros(len(vectors) + 1, np.int64), np.empty(len(vectors))
        features, values = np.empty(room, np.uint64), np.empty(room, np.float32)
        given = np.ascontiguousarray(vectors.indptr), np.ascontiguousarray(vectors.features), np.ascontiguousarray(vectors.values)
        end = _expand(given, self.places, self.weights, self.rooted, scratch, (indptr, features, values, norms))
        return Rows(indptr, features[:end].copy(), values[:end].copy(), norms)

    def vectors_of(self, rows: Rows) -> Rows:
        """The vectors of n rows, bit by bit as they came."""
        cells = np.full(self.nodes + 1, -1, np.int64)
        cells[self.places[2]] = np.arange(self.side**2)
        node, colour = np.divmod(rows.features.astype(np.int64), NODE)
        # A damaged row may have any features.
        node = np.minimum(node, self.nodes)
        kept = np.flatnonzero((cells[node] >= 0) & (colour < COLOURS))
        owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))[kept]
        features = cells[node[kept]] * COLOURS + colour[kept]
        values = rows.values[kept] / np.float32(self.weights[-1])
        order = np.lexsort((features, owner))
        indptr = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.bincount(owner, minlength=len(rows)), out=indptr[1:])
        norms = np.bincount(owner, weights=values.astype(np.float64), minlength=len(rows)).astype(np.float64, copy=False)
        return Rows(indptr, features[order].astype(np.uint64), values[order], norms)
