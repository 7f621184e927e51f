"""Answers as bytes of JSON; NumPy arrays and numbers as they are."""

from __future__ import annotations

import time
from typing import Any

import orjson
from starlette.responses import Response

__all__ = ["encode", "reply", "took_ms"]


def encode(content: Any) -> bytes:
    """JSON of plain data and NumPy arrays."""
    return orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: Any) -> Any:
    """An array that orjson does not take (not contiguous, another byte order) as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError


def reply(body: bytes, status: int = 200, headers: dict[str, str] | None = None, media_type: str = "application/json") -> Response:
    """An answer."""
    return Response(body, status, headers, media_type)


def took_ms(started: float) -> float:
    """Milliseconds since `started`, a time of the performance counter."""
    return round((time.perf_counter() - started) * 1_000, 3)
