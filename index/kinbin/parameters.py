"""Validation of parameters other than vectors, ids and payloads, once, at the edge."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kinbin.errors import LONGEST_WORD, InvalidInput, suggestion
from kinbin.limits import limit

__all__ = ["Asked", "at_most", "check_query", "cursor_after", "included", "one_of", "open_cursor", "sequence_of", "whole"]

MODES = ("auto", "bands", "links", "exact")
INCLUDE = ("vector", "payload")
_NOTHING: frozenset[str] = frozenset()


class Asked(NamedTuple):
    """The options of a query, as they came."""

    k: int
    target: float
    min_score: float | None
    filter: Any
    mode: str
    certify: bool
    include: Iterable[str]
    cancel: threading.Event | None

    def checked(self) -> frozenset[str]:
        """Refuse malformed options. Returns what is to be included."""
        check_query(self.k, self.target, self.min_score, self.mode, self.certify)
        if self.cancel is not None and not isinstance(self.cancel, threading.Event):
            raise InvalidInput.of("bad_parameter", f"cancel is a threading.Event or None, not {type(self.cancel).__name__}", field="cancel")
        return included(self.include)


def arrived(value: object) -> str:
    """What came instead, in a few characters: a word as it is, anything else by its type."""
    return repr(value[:LONGEST_WORD]) if isinstance(value, str) else type(value).__name__


def check_query(k: object, target: object, min_score: object, mode: object, certify: object) -> None:
    """Refuse malformed options of a query."""
    at_most("k", whole("k", k), "k")
    if not _is_number(target) or not 0.0 < target <= 1.0:  # type: ignore[operator]
        raise InvalidInput.of("bad_parameter", "target_recall is a number above 0 and at most 1", field="target_recall")
    if min_score is not None and not (_is_number(min_score) and 0.0 <= min_score <= 1.0):  # type: ignore[operator]
        raise InvalidInput.of("bad_parameter", "min_score is a number from 0 to 1, or null", field="min_score")
    one_of("mode", mode, MODES)
    if not isinstance(certify, bool):
        raise InvalidInput.of("bad_parameter", "certify is true or false", field="certify")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.timedelta64)


def whole(name: str, value: object) -> int:
    """A whole number from 1 on."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool | np.timedelta64) or value < 1:
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 1 on", field=name)
    return int(value)


def one_of(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a word that is not known."""
    if not isinstance(value, str) or value not in known:
        raise InvalidInput.of(
            "bad_parameter", f"{name} is one of {', '.join(known)}, not {arrived(value)}{suggestion(value, known)}", field=name
        )


def at_most(name: str, value: int, field: str) -> None:
    """Refuse what passes the limit of this name."""
    if value > limit(name):
        raise InvalidInput.of("over_limit", f"{field}: at most {limit(name)}, not {value}", field=field, limit=name)


def sequence_of(name: str, value: Any) -> Sequence[Any]:
    """A list of strings, as far as its form goes."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray) or getattr(value, "ndim", 1) == 0:
        raise InvalidInput.of("bad_parameter", f"{name} are a list of strings", field=name)
    return value.tolist() if isinstance(value, np.ndarray) else value


def included(include: Iterable[str]) -> frozenset[str]:
    """What parts of items are wanted."""
    if type(include) is tuple and not include:
        return _NOTHING
    wanted = set()
    # One after the other: what is no list of names may be endless.
    for name in [include] if isinstance(include, str) or not _is_iterable(include) else include:
        if not isinstance(name, str) or name not in INCLUDE:
            raise InvalidInput.of(
                "bad_parameter",
                f"include lists some of {', '.join(INCLUDE)}, not {arrived(name)}{suggestion(name, INCLUDE)}",
                field="include",
            )
        wanted.add(name)
    return frozenset(wanted)


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def cursor_after(key: bytes) -> str:
    """An opaque cursor that continues after an id."""
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def open_cursor(cursor: object) -> bytes:
    """The id in a cursor."""
    text = cursor if isinstance(cursor, str) else ""
    try:
        key = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if not 0 < len(key) <= limit("id_bytes") or cursor_after(key) != text:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InvalidInput.of("bad_parameter", "after is the next of an earlier page, unchanged", field="after") from None
    return key
