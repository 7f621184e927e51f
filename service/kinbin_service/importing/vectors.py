"""The forms a vector or a payload arrives in, from parsed JSON or text to what the library takes; nothing here reads files."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin

__all__ = ["FORMS", "Object", "Vector", "feature_array", "parse_vector", "payload_value", "shown"]

_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)

Vector = NDArray[Any] | kinbin.Sparse | kinbin.Tokens
"""One vector as a reader hands it over: dense (1-d array), sparse or tokens."""

Object = str | bytes
"""One string, or the file of an image; series and point sets are arrays, as dense vectors."""

FORMS = 'a list of numbers, a list of strings, {"indices": […], "values": […]} or {"tokens": {…} or […]}'
"""The wire forms of a vector, as messages name them."""


def shown(value: object, longest: int = 40) -> str:
    """A value as it is quoted in a message: on one line, cut, control characters escaped."""
    text = repr(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def parse_vector(value: Any) -> Vector:
    """A vector in one of the wire forms; ValueError says which form it fails, never converting text or booleans to numbers."""
    if isinstance(value, list):
        return _counted(value) if value and isinstance(value[0], str) else _numbers(value, "the vector")
    if isinstance(value, dict) and value.keys() == {"indices", "values"}:
        return _sparse(value["indices"], value["values"])
    if isinstance(value, dict) and value.keys() == {"tokens"} and isinstance(value["tokens"], list):
        return _counted(value["tokens"])
    if isinstance(value, dict) and value.keys() == {"tokens"} and isinstance(value["tokens"], dict):
        tokens = value["tokens"]
        _numbers(list(tokens.values()), "the tokens' counts")
        return kinbin.Tokens(tokens)
    raise ValueError(f"the vector must be {FORMS}, got {shown(value)}")


def _counted(tokens: list[Any]) -> kinbin.Tokens:
    """Tokens that count as often as they stand in a list."""
    if not set(map(type, tokens)) <= {str}:
        wrong = next(position for position, token in enumerate(tokens) if not isinstance(token, str))
        raise ValueError(f"a list of tokens must hold strings only, got {shown(tokens[wrong])} at place {wrong}")
    return kinbin.Tokens(Counter(tokens))


def _numbers(values: list[Any], what: str) -> NDArray[np.float64]:
    if not set(map(type, values)) <= {int, float}:
        wrong = next(position for position, number in enumerate(values) if type(number) not in {int, float})
        raise ValueError(f"{what} must hold numbers only, got {shown(values[wrong])} at place {wrong}")
    return np.array(values, dtype=np.float64)


def _sparse(indices: Any, values: Any) -> kinbin.Sparse:
    if not isinstance(indices, list) or not isinstance(values, list) or len(indices) != len(values):
        raise ValueError('"indices" and "values" must be lists of one length')
    if not set(map(type, indices)) <= {int}:
        wrong = next(position for position, index in enumerate(indices) if type(index) is not int)
        raise ValueError(f'"indices" must hold whole numbers only, got {shown(indices[wrong])} at place {wrong}')
    return kinbin.Sparse(feature_array(indices), _numbers(values, '"values"'))


def feature_array(indices: list[int]) -> NDArray[np.int64]:
    """Feature numbers as an array; ValueError names one that is negative or too large."""
    largest = int(kinbin.LIMITS["feature_id"].value)
    for index in indices:
        if not 0 <= index <= largest:
            raise ValueError(f"feature number {shown(index)} is not in 0 … {largest}")
    return np.array(indices, dtype=np.int64)


def payload_value(text: str) -> int | float | str:
    """A cell as JSON: what is written as a JSON number is one, all else stays text ("007", "nan" and whole numbers past 18 digits too)."""
    if not _JSON_NUMBER.fullmatch(text):
        return text
    if text.removeprefix("-").isdecimal():
        return int(text) if len(text) < 19 else text
    number = float(text)
    return number if math.isfinite(number) else text
