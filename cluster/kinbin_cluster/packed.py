"""Arrays end to end in bytes: what messages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["PackedReader", "PackedWriter"]


class PackedWriter:
    """Puts arrays one behind the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def array(self, values: ArrayLike, dtype: str) -> None:
        """(n,) numbers."""
        self._parts.append(np.ascontiguousarray(values, dtype).tobytes())

    def texts(self, texts: Sequence[bytes]) -> None:
        """n texts: their lengths, then all of them."""
        self.array(np.fromiter(map(len, texts), "<u4", len(texts)), "<u4")
        self._parts.append(b"".join(texts))

    def finish(self) -> bytes:
        """All of it."""
        return b"".join(self._parts)


class PackedReader:
    """Takes the same arrays, in their order. ValueError where there is less than is asked for."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._at = start

    def array(self, count: int, dtype: str) -> NDArray[Any]:
        """(count,) numbers, in place."""
        return np.frombuffer(self._taken(count * np.dtype(dtype).itemsize), dtype)

    def texts(self, count: int) -> list[bytes]:
        """So many texts."""
        places = np.zeros(count + 1, np.int64)
        np.cumsum(self.array(count, "<u4"), out=places[1:])
        whole = bytes(self._taken(int(places[-1])))
        return [whole[start:stop] for start, stop in pairwise(places.tolist())]

    def end(self) -> None:
        """See that nothing is left."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes are left")

    def _taken(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"{size} bytes are missing")
        part = memoryview(self._data)[self._at : self._at + size]
        self._at += size
        return part
