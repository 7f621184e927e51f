"""Large JSON bodies, read without holding Python's lock for long: an event loop beside it goes on.

orjson holds the lock for as long as a text takes it: 7 ms a MiB. So a large text is cut where elements of its largest array end
({"items": [ … ]}, {"queries": [ … ]}), found by NumPy, which holds no lock. The pieces are read one by one, and lists of numbers in
them become arrays at once: an eighth of the memory, and nothing that takes long to free. Whatever cannot be cut, or is no JSON, is read
whole, so that values and errors are those of orjson.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

__all__ = ["LARGE_BYTES", "compacted", "loads"]

LARGE_BYTES = 65_536
"""Texts up to here are read in one piece: half a millisecond."""
_PIECE_BYTES = 65_536
_BLOCK_BYTES = 1_048_576
_QUOTE, _BACKSLASH, _OPEN, _CLOSE = 1, 2, 3, 4
_KINDS = np.zeros(256, np.uint8)
for _text, _kind in (('"', _QUOTE), ("\\", _BACKSLASH), ("[{", _OPEN), ("]}", _CLOSE)):
    _KINDS[[ord(character) for character in _text]] = _kind
_SPACE = b" \t\r\n"
_SHORT = 16
"""Lists of fewer numbers stay lists."""


def loads(text: bytes) -> Any:
    """The value of a JSON text. As `orjson.loads`, but that large texts have arrays of float64 for vectors that are lists of numbers.

    Vectors are: the elements of the largest array, or what these have under "vector" and, by field, under "vectors".

    Raises:
        orjson.JSONDecodeError: it is no JSON.
    """
    if len(text) <= LARGE_BYTES:
        return orjson.loads(text)
    try:
        return _read_in_pieces(text)
    except _CannotBeCut:
        return orjson.loads(text)


def compacted(element: Any) -> Any:
    """An item, or a query, with arrays for the vectors that are lists of numbers."""
    if isinstance(element, list):
        return _array_or(element)
    if isinstance(element, dict):
        if isinstance(element.get("vector"), list):
            element["vector"] = _array_or(element["vector"])
        vectors = element.get("vectors")
        if isinstance(vectors, dict):
            for name, vector in vectors.items():
                if isinstance(vector, list):
                    vectors[name] = _array_or(vector)
    return element


def _array_or(numbers: list[Any]) -> Any:
    """The numbers as float64, as the library would make them; the list itself if it holds anything else, or numbers too large."""
    if len(numbers) < _SHORT or not set(map(type, numbers)) <= {int, float}:
        return numbers
    try:
        return np.array(numbers, np.float64)
    except OverflowError:
        return numbers


class _CannotBeCut(Exception):
    """The text has no array to cut, or is no JSON."""


def _read_in_pieces(text: bytes) -> Any:
    array = _largest_array(text)
    elements: list[Any] = []
    for piece in _pieces(text, array):
        try:
            elements += map(compacted, orjson.loads(b"[" + piece + b"]"))
        except orjson.JSONDecodeError:
            raise _CannotBeCut from None
    # The rest of the text, with a word in the place of the array that nobody can have sent.
    word = secrets.token_hex(16)
    try:
        around = orjson.loads(text[: array.start] + f'"{word}"'.encode() + text[array.stop :])
    except orjson.JSONDecodeError:
        raise _CannotBeCut from None
    if not isinstance(around, dict):
        raise _CannotBeCut
    # Of a key that occurs twice the last one counts: the array may not be there.
    for name, value in around.items():
        if value == word:
            around[name] = elements
    return around


@dataclass(slots=True)
class _Array:
    """Where an array of the outermost object stands in the text."""

    start: int
    """Of its bracket."""
    stop: int = 0
    """Behind its other bracket."""
    cuts: list[NDArray[np.int64]] = field(default_factory=list)
    """Behind each element that is an array or an object."""


def _pieces(text: bytes, array: _Array) -> Iterator[bytes]:
    """The elements of an array, some in each piece, without the commas between pieces."""
    cuts = np.concatenate(array.cuts)
    # The first cut behind each multiple of the size.
    wanted = np.unique(np.searchsorted(cuts, np.arange(array.start + _PIECE_BYTES, array.stop, _PIECE_BYTES)))
    ends = np.unique(np.append(cuts[wanted[wanted < len(cuts)]], cuts[-1])).tolist()
    start = array.start + 1
    for end in [*ends, array.stop - 1]:
        piece = text[start:end]
        if start > array.start + 1:
            piece = piece.lstrip(_SPACE)
            if not piece and end == array.stop - 1:
                return
            if not piece.startswith(b","):
                raise _CannotBeCut
            piece = piece[1:]
        if not piece.strip(_SPACE):
            raise _CannotBeCut
        yield piece
        start = end


def _largest_array(text: bytes) -> _Array:
    """The largest array of the outermost object that has arrays or objects in it."""
    largest: _Array | None = None
    current: _Array | None = None
    for places, depths, opens in _brackets(text):
        # What happens to arrays of the outermost object: they begin (depth 2), elements of them end (2), they end (1).
        edges = np.flatnonzero(((depths == 2) & opens) | ((depths == 1) & ~opens))
        done = 0
        for edge in edges.tolist():
            if current is not None:
                current.cuts.append(places[done:edge][(depths[done:edge] == 2) & ~opens[done:edge]] + 1)
            place = int(places[edge])
            if opens[edge]:
                current = _Array(place) if text[place] == ord("[") else None
            elif current is not None:
                if text[place] != ord("]"):
                    raise _CannotBeCut
                current.stop = place + 1
                if any(map(len, current.cuts)) and (largest is None or current.stop - current.start > largest.stop - largest.start):
                    largest = current
                current = None
            done = edge + 1
        if current is not None:
            current.cuts.append(places[done:][(depths[done:] == 2) & ~opens[done:]] + 1)
    if largest is None:
        raise _CannotBeCut
    return largest


def _brackets(text: bytes) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
    """Of each block: places of brackets outside of strings, how deep the text is behind each, and whether it opens."""
    depth, in_string, start = 0, False, 0
    while start < len(text):
        end = min(start + _BLOCK_BYTES, len(text))
        block = text[start:end]
        if end < len(text) and (len(block) - len(block.rstrip(b"\\"))) % 2:
            # What its last backslash is for stands in the next block.
            block, end = block[:-1], end - 1
        if not block:
            raise _CannotBeCut
        kinds = _KINDS[np.frombuffer(block, np.uint8)]
        places = np.flatnonzero(kinds)
        kinds = kinds[places]
        quotes = kinds == _QUOTE
        quotes[quotes] = ~_escaped(places[quotes], places[kinds == _BACKSLASH])
        inside = (np.cumsum(quotes) + in_string) % 2 == 1
        in_string = bool(inside[-1]) if len(inside) else in_string
        brackets = (kinds >= _OPEN) & ~inside
        opens = kinds[brackets] == _OPEN
        depths = depth + np.cumsum(np.where(opens, 1, -1))
        depth = int(depths[-1]) if len(depths) else depth
        yield places[brackets] + start, depths, opens
        start = end


def _escaped(quotes: NDArray[np.int64], backslashes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which quotes an odd number of backslashes stands before."""
    if not len(backslashes):
        return np.zeros(len(quotes), bool)
    last = np.append(np.diff(backslashes) != 1, True)
    ends = np.flatnonzero(last)
    lengths = np.diff(ends, prepend=-1)
    return np.isin(quotes, backslashes[ends[lengths % 2 == 1]] + 1)
