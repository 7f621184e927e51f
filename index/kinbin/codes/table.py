"""Codes of many rows in arrays, in either layout: what graphs are built on, and what is stored of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.folded import LANES
from kinbin.codes.packed import QUAD
from kinbin.native.memory import address_of

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
    """(n + 1,) the quad at which each packed code begins, and the end of the last; of codes of bytes the number of the code."""

    @classmethod
    def of_bytes(cls, data: NDArray[np.uint8]) -> Codes:
        """Codes of bytes, (n, width)."""
        return cls(data.shape[1], data, np.arange(len(data) + 1))

    @classmethod
    def of_blocks(cls, width: int, shift: int, blocks: Sequence[NDArray[np.uint8]], offsets: NDArray[np.uint32]) -> Codes:
        """Codes as they are stored: blocks (bytes,) of 2**shift of them, and where they are packed each code's quad in its block.

        Raises:
            ValueError: they do not fit together.
        """
        if width:
            return cls.of_bytes(np.concatenate([block.reshape(-1, width) for block in blocks]))
        quads = [block.view("<u4").reshape(-1, QUAD) for block in blocks]
        bases = np.cumsum([0, *map(len, quads)])
        data = np.concatenate(quads)
        starts = np.append(bases[np.arange(len(offsets)) >> shift] + offsets, bases[-1])
        if not len(data) or starts[0] != 0 or (np.diff(starts) != data[starts[:-1].clip(0, len(data) - 1), 0]).any():
            raise ValueError("packed codes do not lie end to end")
        return cls(0, data, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

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
    def joined(cls, width: int, rows: int, parts: Iterable[Codes]) -> Codes:
        """Codes of the nodes of all parts, one after the other; rows in all. No two copies of them are held at once."""
        if width:
            out = np.empty((rows, width), np.uint8)
            place = 0
            for part in parts:
                out[place : place + len(part)] = part.data
                place += len(part)
            return cls.of_bytes(out)
        data = bytearray()
        starts = np.zeros(rows + 1, np.int64)
        place = 0
        for part in parts:
            starts[place : place + len(part) + 1] = part.starts + len(data) // (4 * QUAD)
            place += len(part)
            data += part.data.tobytes()
        return cls(0, np.frombuffer(data, np.uint32).reshape(-1, QUAD), starts)

    @classmethod
    def scattered(cls, width: int, rows: int, parts: Sequence[tuple[NDArray[np.int64], Codes]]) -> Codes:
        """Codes of `rows` nodes: those of each part go to the nodes that stand beside it. Every node is named once."""
        if width:
            out = np.empty((rows, width), np.uint8)
            for where, part in parts:
                out[where] = part.data
            return cls.of_bytes(out)
        starts = np.zeros(rows + 1, np.int64)
        for where, part in parts:
            starts[where + 1] = np.diff(part.starts)
        np.cumsum(starts, out=starts)
        data = np.empty((starts[-1], QUAD), np.uint32)
        for where, part in parts:
            shifts = starts[where] - part.starts[:-1]
            data[np.repeat(shifts, np.diff(part.starts)) + np.arange(len(part.data))] = part.data
        return cls(0, data, starts)

    def fields(self, keep: list[object]) -> dict[str, Any]:
        """What kernels are told (some of `codes.nodes.GRAPH`); `keep` must live as long as it is used."""
        places = np.array([address_of(self.data)], np.uint64)
        out = {"nodes": len(self), "width": self.width, "code_shift": 62, "codes": places}
        keep += [places, self]
        if not self.width:
            quads, offsets = np.array([len(self.data)], np.uint64), self.starts[:-1].astype(np.uint32)
            keep += [quads, offsets]
            out |= {"code_quads": quads, "code_offsets": offsets}
        return out | {"code_lines": code_lines(len(self), self.data.nbytes)}

    def stored(self, block_bytes: int) -> tuple[int, list[NDArray[np.uint8]], NDArray[np.uint32]]:
        """(shift, blocks, offsets) for `of_blocks`, of blocks of some block_bytes."""
        shift = max(0, int(block_bytes / max(1.0, self.mean_bytes)).bit_length() - 1)
        firsts = self.starts[:-1][:: 1 << shift]
        blocks = [
            np.ascontiguousarray(self.data[start:end]).view(np.uint8).reshape(-1)
            for start, end in zip(firsts, np.append(firsts[1:], self.starts[-1]), strict=True)
        ]
        offsets = self.starts[:-1] - firsts[np.arange(len(self)) >> shift]
        return shift, blocks, offsets.astype("<u4")
