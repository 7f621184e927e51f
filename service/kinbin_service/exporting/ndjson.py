"""NDJSON: one item a line, in the form that `POST /index` and `kinbin import` take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import orjson

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


def _line(item: Stored, key: str) -> bytes:
    values = exact_numbers(item.values)
    content: dict[str, Any] = {"id": item.id}
    if item.object is None:
        content[VECTOR] = values if item.features is None else {"indices": item.features, "values": values}
    else:
        content[key] = object_out(item.object)
    if item.payload is not None:
        content["payload"] = item.payload
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
