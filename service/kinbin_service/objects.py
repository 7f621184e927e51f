"""Strings, series, point sets and images between JSON and the library: each travels under a key of its own.

The library judges objects. Here they only take the form in which it takes them, and nothing that is no such form gets that far: a
string would be the path of an image, and NumPy makes room for text in a list of numbers by the longest.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_service.exact_numbers import exact_numbers

__all__ = ["KEYS", "VECTOR", "Carried", "all_carried_by", "carried_by", "object_in", "object_out"]

KEYS = {"string": "strings", "series": "series", "points": "points", "image": "images"}
"""What items and queries carry, and what a collection's items are then, as `kinbin.KINDS` names them."""
VECTOR = "vector"

Carried = tuple[str, ...]
"""What items carry: a key alone, or "vectors" and the names of their fields, sorted."""

_NUMBERS = {int, float}
_EMPTY = {
    "series": "a series has at least one step, this one is empty; leave it out",
    "points": "a point set has at least one point, this one is empty; leave it out",
}
_FORMS = {
    "series": "a series is a list of numbers, or of steps that are lists of as many numbers each",
    "points": "a point set is a list of points, which are lists of as many numbers each",
}


def carried_by(collection: kinbin.Collection | kinbin.FieldsCollection) -> str:
    """The key under which items of this collection carry what they are: "vector", "string" and the like; "vectors" of several fields."""
    if isinstance(collection, kinbin.FieldsCollection):
        return "vectors"
    items = collection.config.items
    # Objects of the library's users have no form that travels in: they are read, never asked for.
    return kinbin.KINDS[items].one if items in kinbin.KINDS else "object"


def all_carried_by(collection: kinbin.Collection | kinbin.FieldsCollection) -> Carried:
    """The same with the fields that each item has a vector for."""
    fields = sorted(collection.config.fields) if isinstance(collection, kinbin.FieldsCollection) else ()
    return carried_by(collection), *fields


def object_in(key: str, raw: Any) -> Any:
    """An object from its JSON form under this key. Raises ValueError that says what the form is."""
    if key == "image":
        return _decoded(raw)
    if key == "string" and not isinstance(raw, str):
        raise ValueError(f"a string is expected here, this is {type(raw).__name__}")
    return raw if key == "string" else _numbers(key, raw)


def object_out(stored: Any) -> Any:
    """The JSON form of a stored string, series or point set, exact to the bit; of bytes their base64."""
    if isinstance(stored, bytes):
        return base64.b64encode(stored).decode()
    return stored if isinstance(stored, str) else exact_numbers(stored)


def _numbers(key: str, raw: Any) -> NDArray[np.float64]:
    """A series or point set as an array: (n,) of numbers, (n, dims) of lists."""
    if raw == []:
        raise ValueError(_EMPTY[key])
    plain = isinstance(raw, list) and set(map(type, raw)) <= _NUMBERS
    if not plain and not (isinstance(raw, list) and all(isinstance(one, list) and set(map(type, one)) <= _NUMBERS for one in raw)):
        raise ValueError(_FORMS[key])
    if not plain and len(set(map(len, raw))) > 1:
        raise ValueError(f"{_FORMS[key]}: this one has lists of {min(map(len, raw))} and of {max(map(len, raw))} numbers")
    return np.array(raw, np.float64)


def _decoded(raw: Any) -> bytes:
    """The bytes of an image in base64."""
    try:
        if not isinstance(raw, str):
            raise ValueError  # noqa: TRY004
        return base64.b64decode(raw, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("an image is a string: the bytes of a PNG, JPEG or WebP file in base64, without line breaks") from None
