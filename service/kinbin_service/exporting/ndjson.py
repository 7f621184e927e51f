"""NDJSON: one item a line, in the form that `POST /index` and `kinbin import` take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin_service.exact_numbers import exact_numbers
from kinbin_service.exporting.items import Stored
from kinbin_service.objects import VECTOR, object_out

__all__ = ["write_ndjson"]


def write_ndjson(pages: Iterable[list[Stored]], file: IO[bytes], key: str = VECTOR) -> int:
    """Write items; how many there were. A payload that is null is left out. key: what objects are written under."""
    count = 0
    for page in pages:
        count += len(page)
        file.write(b"".join(_line(item, key) for item in page))
    return count


def _vector(values: NDArray[np.float32], features: NDArray[np.int64] | None) -> Any:
    exact = exact_numbers(values)
    return exact if features is None else {"indices": features, "values": exact}


def _line(item: Stored, key: str) -> bytes:
    content: dict[str, Any] = {"id": item.id}
    if item.fields is not None:
        content["vectors"] = {name: _vector(*of) for name, of in item.fields.items()}
    elif item.object is None:
        content[VECTOR] = _vector(item.values, item.features)
    else:
        content[key] = object_out(item.object)
    if item.payload is not None:
        content["payload"] = item.payload
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
