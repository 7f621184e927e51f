"""Validation of parameters other than vectors, ids and payloads, once, at the edge."""

from __future__ import annotations

import base64
import binascii
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from numbers import Integral
from pathlib import Path
from typing import Any

from kinbin.errors import LONGEST_WORD, InvalidInput, suggestion
from kinbin.limits import limit

__all__ = [
    "INCLUDE",
    "INCLUDED",
    "INTEGER_IDS",
    "MODES",
    "STORED",
    "Value",
    "an",
    "arrived",
    "at_most",
    "cursor_after",
    "field_name",
    "id_as_text",
    "included",
    "is_number",
    "is_selection",
    "listed_ids",
    "one_of",
    "open_cursor",
    "path_of",
    "sequence_of",
    "told_values",
    "whole",
]

MODES = ("auto", "bands", "links", "exact")
INCLUDE = ("vector", "payload")
STORED = (*INCLUDE, "version")
"""What may come with stored items, beside what may come with hits."""
INCLUDED = f"{', '.join(INCLUDE)}, payload.FIELD"
"""What `include` may list, for people."""
INTEGER_IDS = -(2**63), 2**64 - 1
"""The least and the greatest integer that is an id: those of 64 bits, with a sign or without."""
_LONGEST_SELECTION = 255
Value = float | str | tuple[float, ...]
"""Of a kernel's parameter."""


def arrived(value: object) -> str:
    """What came instead, in a few characters: a word as it is, anything else by its type."""
    return repr(value[:LONGEST_WORD]) if isinstance(value, str) else type(value).__name__


def an(word: str) -> str:
    """A word with its article, as far as its first letter tells it: an int64, a uint8, a str."""
    return f"{'an' if word[:1] in 'aeio' else 'a'} {word}"


def id_as_text(identifier: object) -> object:
    """An integer of 64 bits as the id that it stands for: its decimal digits, so that 5 and "5" are one id. All else stays as it is."""
    if isinstance(identifier, str) or not isinstance(identifier, Integral) or isinstance(identifier, bool):
        return identifier
    whole_number = int(identifier)
    return str(whole_number) if INTEGER_IDS[0] <= whole_number <= INTEGER_IDS[1] else identifier


def is_number(value: object) -> bool:
    """Whether this is a real number, NumPy's among them; true and false are none."""
    if isinstance(value, int | float):
        return not isinstance(value, bool)
    # What is no number of Python's is rare, and the command line's help needs no NumPy.
    import numpy as np

    return isinstance(value, np.integer | np.floating) and not isinstance(value, np.timedelta64)


def whole(name: str, value: object) -> int:
    """A whole number from 1 on."""
    if not is_number(value) or not hasattr(value, "__index__") or value < 1:  # type: ignore[operator]
        raise InvalidInput.of("bad_parameter", f"{name} is a whole number from 1 on", field=name)
    return int(value)


def told_values(values: Mapping[str, Any], between: str = ", ") -> str:
    """Parameters of a kernel for people, as "gamma=2, base=tv, epsilon=0.5,0.2"."""
    return between.join(f"{key}={_told_value(one)}" for key, one in values.items())


def _told_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ",".join(f"{one:g}" for one in value) if isinstance(value, list | tuple) else f"{value:g}"


def one_of(name: str, value: object, known: Collection[str], more: str = "") -> None:
    """Refuse a word that is not known. more: what else could stand there."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join([*known, *filter(None, [more])])
        raise InvalidInput.of("bad_parameter", f"{name} is one of {words}, not {arrived(value)}{suggestion(value, known)}", field=name)


def path_of(path: object, what: str = "file") -> Path:
    """The path of a file, or of what else it is for."""
    if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path):
        raise InvalidInput.of("bad_parameter", f"path is a string or a pathlib.Path that names a {what}", field="path")
    return Path(path)


def at_most(name: str, value: int, field: str) -> None:
    """Refuse what passes the limit of this name."""
    if value > limit(name):
        raise InvalidInput.of("over_limit", f"{field}: at most {limit(name)}, not {value}", field=field, limit=name)


def sequence_of(name: str, value: Any) -> Sequence[Any]:
    """A list of strings, or of ids, as far as its form goes."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    import numpy as np

    if not isinstance(value, np.ndarray) or value.ndim == 0:
        raise InvalidInput.of("bad_parameter", f"{name} are a list of strings", field=name)
    listed: list[Any] = value.tolist()
    return listed


def listed_ids(name: str, value: Any, says: str) -> tuple[str, ...]:
    """Ids, each once and in their order; whether they are stored, and can be, is not asked."""
    # Sets have no order, and here none is needed.
    found = list(value) if isinstance(value, Set) and not isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        found = found.tolist() if hasattr(found, "tolist") and getattr(found, "ndim", 0) == 1 else None
    named = None if found is None else [id_as_text(one) for one in found]
    if named is None or not all(isinstance(one, str) and one for one in named):
        raise InvalidInput.of("bad_parameter", f"{name} {says}", field=name)
    return tuple(dict.fromkeys(named))  # type: ignore[arg-type]  # all of them are strings


def included(include: object, known: tuple[str, ...] = INCLUDE) -> tuple[str, ...]:
    """What parts of items are wanted, of those that are known and fields of payloads, each once and in one order."""
    wanted = set()
    # One after the other: what is no list of names may be endless.
    for name in include if isinstance(include, Iterable) and _is_listed(include) else [include]:
        if not isinstance(name, str) or not (name in known or is_selection(name)):
            raise InvalidInput.of(
                "bad_parameter",
                f"include lists some of {', '.join(known)}, payload.FIELD, not {arrived(name)}{suggestion(name, known)}",
                field="include",
            )
        wanted.add(name)
        at_most("include", len(wanted), "include")
    # Who asks for all of a payload gets it.
    selected = () if "payload" in wanted else sorted(wanted.difference(known))
    return (*(name for name in known if name in wanted), *selected)


def is_selection(name: str) -> bool:
    """Whether this names a field of payloads, as payload.year or payload.camera.lens does."""
    return len(name) <= _LONGEST_SELECTION and name.startswith("payload.") and all(name.split("."))


def _is_listed(value: object) -> bool:
    return not isinstance(value, str) and getattr(value, "ndim", 1) > 0


def field_name(name: object, field: str) -> str:
    """The name of a field of payloads, with dots into objects."""
    if not isinstance(name, str) or name.startswith("$") or "" in name.split(".") or _utf8_bytes(name) > limit("id_bytes"):
        text = f"{field} names a field of payloads, as year or size.width"
        raise InvalidInput.of("bad_parameter", text, field=field)
    return name


def _utf8_bytes(text: str) -> float:
    """How long a text is in UTF-8; endless if it is not Unicode."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return math.inf


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
