"""NDJSON: one item a line, in the form that `POST /index` and `kinbin import` take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import orjson

from kinbin_service.exact_numbers import exact_numbers
from kinbin_service.exporting.items import Stored

__all__ = ["write_ndjson"]


def write_ndjson(pages: Iterable[list[Stored]], file: IO[bytes]) -> int:
    """Write items; how many there were. A payload that is null is left out."""
    count = 0
    for page in pages:
        count += len(page)
        file.write(b"".join(map(_line, page)))
    return count


def _line(item: Stored) -> bytes:
    values = exact_numbers(item.values)
    content: dict[str, Any] = {"id": item.id, "vector": values if item.features is None else {"indices": item.features, "values": values}}
    if item.payload is not None:
        content["payload"] = item.payload
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE)
