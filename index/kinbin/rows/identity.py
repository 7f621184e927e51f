"""Validation of ids, payloads and names, once, at the edge."""

from __future__ import annotations

import math
import re
import secrets
import time
import unicodedata
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import orjson

from kinbin.errors import InvalidInput, Problem
from kinbin.limits import limit
from kinbin.parameters import an, id_as_text
from kinbin.records import numbered

__all__ = ["CANONICAL", "MOST_PROBLEMS", "NewIds", "check_ids", "check_name", "encode_payloads", "is_name"]

MOST_PROBLEMS = 8
"""An error names so many problems at the most."""
_JSON_TYPES = (dict, list, tuple, str, int, float, type(None))
_JSON_WORDS = "dict, list, str, int, float, bool, None"
CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")


def _id_fault(identifier: object) -> tuple[str, str] | None:
    """Code and text of what is wrong with an id, or None."""
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        return "bad_id", "an integer id has 64 bits: from -2**63 to 2**64 - 1; convert others with str()"
    if not isinstance(identifier, str):
        return "bad_id", f"an id is a string or a 64-bit integer, this is {type(identifier).__name__}; convert it with str()"
    if identifier.isascii() and identifier.isprintable() and 0 < len(identifier) <= 255:
        return None
    if not identifier:
        return "bad_id", "an id has at least one character, this one is empty"
    if not identifier.isprintable():
        return "bad_id", "an id holds printable characters only, this one has a control, separator or surrogate character"
    size = len(identifier.encode())
    if size > limit("id_bytes"):
        return "bad_id", f"an id has at most {limit('id_bytes')} bytes of UTF-8, this one has {size}"
    if not unicodedata.is_normalized("NFC", identifier):
        return "bad_id", "an id is in Unicode normal form C, this one is not; normalise it first"
    return None


def _is_short(identifier: object) -> bool:
    return 0 < len(identifier) <= 255  # type: ignore[arg-type]  # it is a string


def check_ids(ids: Sequence[object], *, unique: bool = True) -> list[bytes]:
    """The ids as UTF-8; integers as their digits (`id_as_text`).

    Raises:
        InvalidInput: codes "bad_id", "duplicate_id"; the first 8 are named.
    """
    # What nearly every batch is, seen of all its ids at once.
    if all(type(one) is str for one in ids) and (not unique or len(set(ids)) == len(ids)):
        together = "".join(ids)  # type: ignore[arg-type]  # they are strings
        if together.isascii() and together.isprintable() and all(map(_is_short, ids)):
            return [one.encode() for one in ids]  # type: ignore[attr-defined]
    ids = [one if isinstance(one, str) else id_as_text(one) for one in ids]
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for position, identifier in enumerate(ids):
        fault = _id_fault(identifier)
        if fault is None and unique:
            assert isinstance(identifier, str)
            first = seen.setdefault(identifier, position)
            if first != position:
                fault = "duplicate_id", f"the same id is at position {first} of this batch; send each id once"
        if fault is not None:
            problems.append(Problem(*fault, position=position, field="id"))
            if len(problems) == MOST_PROBLEMS:
                break
    if problems:
        raise InvalidInput(problems)
    return [identifier.encode() for identifier in ids]  # type: ignore[attr-defined]


def _payload_fault(payload: object) -> tuple[str, str] | None:
    """Code and text of what is wrong with a payload, or None.

    What orjson would write of other types (dataclasses, dates, enumerations) is not what was looked at here, nor
    what comes back: they are refused.
    """
    if not isinstance(payload, dict):
        return "bad_payload", f"a payload is a JSON object (dict) or null, this is {type(payload).__name__}"
    stack: list[tuple[object, int]] = [(payload, 1)]
    while stack:
        value, depth = stack.pop()
        if not isinstance(value, _JSON_TYPES) or isinstance(value, Enum | np.generic):
            return "bad_payload", f"a payload holds JSON only: {_JSON_WORDS}; this one has {an(type(value).__name__)}, convert it first"
        if isinstance(value, float) and not math.isfinite(value):
            return "bad_payload", "a payload has finite numbers only, this one has a NaN or an infinity; use null"
        if isinstance(value, dict | list | tuple):
            if depth > limit("payload_depth"):
                return "bad_payload", f"a payload is nested at most {limit('payload_depth')} levels deep, this one is deeper"
            # As orjson reads them: subclasses may give other contents by their methods.
            inner = dict.values(value) if isinstance(value, dict) else list.__iter__(value) if isinstance(value, list) else value
            stack.extend((one, depth + 1) for one in inner)
    return None


def encode_payloads(payloads: Sequence[Any] | None, count: int) -> list[bytes]:
    """Each payload as canonical JSON (keys sorted, so that a retry compares equal); nothing for None.

    Raises:
        InvalidInput: codes "bad_payload", "over_limit".
    """
    if payloads is None:
        return [b""] * count
    if isinstance(payloads, str | bytes) or not isinstance(payloads, Sequence):
        raise InvalidInput.of("bad_parameter", "payloads are a list of JSON objects (dict) or None, one for each id", field="payloads")
    if len(payloads) != count:
        raise InvalidInput.of(
            "bad_parameter", f"{len(payloads)} payloads came with {count} ids; send one (or None) for each", field="payloads"
        )
    problems: list[Problem] = []
    out: list[bytes] = []
    for position, payload in enumerate(payloads):
        if payload is None:
            out.append(b"")
            continue
        fault = _payload_fault(payload)
        try:
            data = orjson.dumps(payload, option=CANONICAL) if fault is None else b""
        except (TypeError, ValueError) as error:
            fault, data = ("bad_payload", f"a payload is JSON: {error}"), b""
        if len(data) > limit("payload_bytes"):
            fault = "over_limit", f"a payload has at most {limit('payload_bytes')} bytes of JSON, this one has {len(data)}"
        if fault is not None:
            over = "payload_bytes" if fault[0] == "over_limit" else None
            problems.append(Problem(*fault, position=position, field="payload", limit=over))
            if len(problems) == MOST_PROBLEMS:
                break
        out.append(data)
    if problems:
        raise InvalidInput(problems)
    return out


class NewIds(list[str]):
    """Ids for items that came without: they sort by the time of the call and then by row, and no other call makes them (80 random bits)."""

    def __init__(self, count: int) -> None:
        self.made = f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(10)}", count
        super().__init__(numbered(*self.made))


def is_name(name: str) -> bool:
    """Whether a directory of this name may hold a collection."""
    return _NAME.match(name) is not None


def check_name(name: object, of: str = "collection") -> str:
    """The name of a collection, or of a field: it is the name of a directory as well.

    Raises:
        InvalidInput: code "bad_name".
    """
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise InvalidInput.of("bad_name", f"a {of}'s name has 1 to 63 of a-z, 0-9, _ and -, and starts with a letter or a digit", field="name")
