"""A query of one vector on its way from a gateway to a node, in bytes: what most requests are.

Layout: 4 bytes little-endian, the length of the header; the header, JSON; the indices (int64), where the vector is sparse; the values
(float64), little-endian. Numbers of JSON are float64, so nothing is lost, and what is wrong in a vector the node's library says as ever.
The answer is that of the ordinary route, in JSON, and has under `rows` the row numbers of its results, which a node of before left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

__all__ = ["MEDIA_TYPE", "PATH", "ROWS", "ROWS_PATH", "QuickQuery", "numbers_of"]

PATH = "/cluster/query"
ROWS_PATH = "/cluster/rows"
"""Where a node tells the row numbers of items: {"uid", "shard", "ids"} there, {"rows": [number or null]} back."""
ROWS = "rows"
MEDIA_TYPE = "application/x-kinbin-query"

_KINDS = {int, float}
_LARGEST = 1 << 53
"""Integers beyond it are no float64."""


@dataclass(frozen=True, slots=True)
class QuickQuery:
    """What is asked: options by their names in `kinbin.QueryOptions`, sound already, and the vector."""

    uid: str
    shard: int
    options: Mapping[str, Any]
    values: NDArray[np.float64]
    indices: NDArray[np.int64] | None = None
    """Of a sparse vector."""

    def pack(self) -> bytes:
        """The bytes."""
        told = [self.uid, self.shard, len(self.values), self.indices is not None, self.options]
        header = orjson.dumps(told)
        indices = b"" if self.indices is None else self.indices.tobytes()
        return b"".join((len(header).to_bytes(4, "little"), header, indices, self.values.tobytes()))

    @classmethod
    def unpack(cls, data: bytes) -> QuickQuery:
        """The query of such bytes. ValueError if they are none."""
        begin = 4 + int.from_bytes(data[:4], "little")
        try:
            uid, shard, count, sparse, options = orjson.loads(data[4:begin])
        except (ValueError, TypeError) as error:
            raise ValueError("the header is none of a query") from error
        if len(data) != begin + 8 * count * (1 + bool(sparse)):
            raise ValueError("the vector is cut off")
        indices = np.frombuffer(data, "<i8", count, begin) if sparse else None
        values = np.frombuffer(data, "<f8", count, begin + 8 * count * bool(sparse))
        return cls(uid, shard, options, values, indices)


def numbers_of(raw: Any) -> NDArray[np.float64] | None:
    """A list of numbers of JSON as they are; None: it is no such list, or holds numbers that float64 does not."""
    if isinstance(raw, np.ndarray):
        return raw if raw.dtype == np.float64 and raw.ndim == 1 else None
    if not isinstance(raw, list) or not raw:
        return None
    kinds = set(map(type, raw))
    if not kinds <= _KINDS or (int in kinds and max(map(abs, raw)) > _LARGEST):
        return None
    return np.array(raw, np.float64)
