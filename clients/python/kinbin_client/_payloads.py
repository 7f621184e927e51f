"""Payloads as JSON: the library's rule, so that a payload is refused before anything is sent."""

from __future__ import annotations

import json
from enum import Enum
from math import isfinite
from typing import Any

from kinbin_client.errors import InvalidArgument

__all__ = ["payload_json"]

_DEPTH = 32
_TYPES = (dict, list, tuple, str, int, float, type(None))
_WORDS = "dict, list, str, int, float, bool, None"


def payload_json(payload: Any, position: int) -> bytes:
    """The JSON of a payload in UTF-8; InvalidArgument with the position if it is no finite JSON object."""
    fault = _fault(payload)
    if fault is None:
        try:
            return json.dumps(payload, allow_nan=False, separators=(",", ":")).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            fault = f"a payload is JSON: {error}"
    raise InvalidArgument(fault, position, "bad_payload")


def _fault(payload: object) -> str | None:
    """What is wrong with a payload, or None."""
    if not isinstance(payload, dict):
        return f"a payload is a JSON object (dict) or null, this is {type(payload).__name__}"
    stack: list[tuple[object, int]] = [(payload, 1)]
    while stack:
        value, depth = stack.pop()
        # What has the methods of a NumPy scalar is one, though some of them are Python's numbers and strings as well.
        if not isinstance(value, _TYPES) or isinstance(value, Enum) or hasattr(value, "tolist"):
            word = type(value).__name__
            article = "an" if word[:1] in "aeio" else "a"
            return f"a payload holds JSON only: {_WORDS}; this one has {article} {word}, convert it first"
        if isinstance(value, float) and not isfinite(value):
            return "a payload has finite numbers only, this one has a NaN or an infinity; use null"
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return "a payload is JSON: Integer exceeds 64-bit range"
        if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            return "a payload is JSON: Dict key must be str"
        if isinstance(value, dict | list | tuple):
            if depth > _DEPTH:
                return f"a payload is nested at most {_DEPTH} levels deep, this one is deeper"
            stack.extend((one, depth + 1) for one in (value.values() if isinstance(value, dict) else value))
    return None
