"""Codes of many rows in arrays, in either layout: what graphs are built on, and what is stored of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.folded import LANES
from kinbin.codes.packed import QUAD
from kinbin.native.memory import address_of
from kinbin.storage.workspace import IN_MEMORY, Growing, WorkSpace, pieces

__all__ = ["Codes", "code_lines"]

_MOST_LINES = 16


def code_lines(rows: int, size: int) -> int:
    """Cache lines to ask for at once, of a code: what it has in the mean. size: bytes of all codes."""
    return max(1, min(_MOST_LINES, -(-size // (LANES * max(1, rows)))))


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Codes of nodes 0 … n-1."""

    width: int
    """Bytes a code; 0: they are packed."""
    data: NDArray[Any]
    """(n, width) uint8, or (quads, 4) uint32: packed codes end to end."""
    starts: NDArray[np.int64]
    """(n + 1,) the quad at which each packed code begins, and the end of the last; empty of codes of bytes."""
    room: WorkSpace = IN_MEMORY
    """For what is made of them."""

    @classmethod
    def of_bytes(cls, data: NDArray[np.uint8], room: WorkSpace = IN_MEMORY) -> Codes:
        """Codes of bytes, (n, width)."""
        return cls(data.shape[1], data, np.empty(0, np.int64), room)

    @classmethod
    def of_blocks(
        cls, width: int, shift: int, blocks: Sequence[NDArray[np.uint8]], offsets: NDArray[np.uint32], room: WorkSpace = IN_MEMORY
    ) -> Codes:
        """Codes as they are stored: blocks (bytes,) of 2**shift of them, and where they are packed each code's quad in its block.

        Raises:
            ValueError: they do not fit together.
        """
        if width:
            return cls.joined(width, sum(map(len, blocks)) // width, (cls.of_bytes(block.reshape(-1, width)) for block in blocks), room)
        data, starts = Growing(room, np.uint32), room.zeros(len(offsets) + 1, np.int64)
        for place, block in enumerate(blocks):
            quads, own = block.view("<u4").reshape(-1, QUAD), offsets[place << shift : (place + 1) << shift].astype(np.int64)
            ends = np.append(own[1:], len(quads))
            if not len(own) or not len(quads) or own[0] != 0 or (ends - own != quads[own.clip(0, len(quads) - 1), 0]).any():
                raise ValueError("packed codes do not lie end to end")
            starts[(place << shift) + 1 : (place << shift) + 1 + len(own)] = data.size // (4 * QUAD) + ends
            data.append(block)
        if len(blocks) != -(-len(offsets) >> shift) or not len(offsets):
            raise ValueError("packed codes do not lie end to end")
        return cls(0, data.array().reshape(-1, QUAD), starts, room)

    def __len__(self) -> int:
        return len(self.data) if self.width else len(self.starts) - 1

    @property
    def mean_bytes(self) -> float:
        """Of a code."""
        return self.data.nbytes / max(1, len(self))

    def take(self, which: NDArray[np.int64]) -> Codes:
        """The codes of some nodes, in this order."""
        if self.width:
            return Codes.of_bytes(self.data[which])
        sizes = np.diff(self.starts)[which]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return Codes(0, self.data[np.repeat(self.starts[:-1][which] - starts[:-1], sizes) + np.arange(starts[-1])], starts)

    def equals(self, other: Codes) -> bool:
        """Whether they are the same codes."""
        return self.width == other.width and np.array_equal(self.starts, other.starts) and np.array_equal(self.data, other.data)

    @classmethod
    def joined(cls, width: int, rows: int, parts: Iterable[Codes], room: WorkSpace = IN_MEMORY) -> Codes:
        """Codes of the nodes of all parts, one after the other; rows in all. No two copies of them are held at once."""
        place = 0
        if width:
            out = room.empty((rows, width), np.uint8)
            for part in parts:
                out[place : place + len(part)] = part.data
                place += len(part)
            return cls.of_bytes(out, room)
        data, starts = Growing(room, np.uint32), room.zeros(rows + 1, np.int64)
        for part in parts:
            starts[place : place + len(part) + 1] = part.starts + data.size // (4 * QUAD)
            place += len(part)
            data.append(part.data)
        return cls(0, data.array().reshape(-1, QUAD), starts, room)

    @classmethod
    def scattered(
        cls, width: int, rows: int, parts: Callable[[], Iterable[tuple[NDArray[np.int64], Codes]]], room: WorkSpace = IN_MEMORY
    ) -> Codes:
        """Codes of `rows` nodes: those of each part go to the nodes that stand beside it. Every node is named once.

        parts: is called twice of packed codes, which are measured first.
        """
        if width:
            out = room.empty((rows, width), np.uint8)
            for where, part in parts():
                out[where] = part.data
            return cls.of_bytes(out, room)
        starts = room.zeros(rows + 1, np.int64)
        for where, part in parts():
            starts[where + 1] = np.diff(part.starts)
        np.cumsum(starts, out=starts)
        data = room.empty((int(starts[-1]), QUAD), np.uint32)
        for where, part in parts():
            shifts = starts[where] - part.starts[:-1]
            data[np.repeat(shifts, np.diff(part.starts)) + np.arange(len(part.data))] = part.data
        return cls(0, data, starts, room)

    def pieces(self) -> Iterator[tuple[NDArray[np.int64], Codes]]:
        """All of them, some at a time: their numbers, and they."""
        for first, past in pieces(len(self)):
            which = np.arange(first, past)
            yield which, self.take(which)

    def fields(self, keep: list[object]) -> dict[str, Any]:
        """What kernels are told (some of `codes.nodes.GRAPH`); `keep` must live as long as it is used."""
        places = np.array([address_of(self.data)], np.uint64)
        out = {"nodes": len(self), "width": self.width, "code_shift": 62, "codes": places}
        keep += [places, self]
        if not self.width:
            quads, offsets = np.array([len(self.data)], np.uint64), self.room.empty(len(self), np.uint32)
            offsets[:] = self.starts[:-1]
            keep += [quads, offsets]
            out |= {"code_quads": quads, "code_offsets": offsets}
        return out | {"code_lines": code_lines(len(self), self.data.nbytes)}

    def stored(self, block_bytes: int) -> tuple[int, list[NDArray[np.uint8]], NDArray[np.uint32]]:
        """(shift, blocks, offsets) for `of_blocks`, of blocks of some block_bytes. Codes of bytes have no offsets."""
        shift = max(0, int(block_bytes / max(1.0, self.mean_bytes)).bit_length() - 1)
        if self.width:
            blocks = [self.data[first : first + (1 << shift)].reshape(-1) for first in range(0, len(self), 1 << shift)]
            return shift, blocks, np.empty(0, "<u4")
        blocks, offsets = [], self.room.empty(len(self), "<u4")
        for first in range(0, len(self), 1 << shift):
            starts = self.starts[first : first + (1 << shift) + 1]
            blocks.append(self.data[starts[0] : starts[-1]].view(np.uint8).reshape(-1))
            offsets[first : first + len(starts) - 1] = starts[:-1] - starts[0]
        return shift, blocks, offsets
