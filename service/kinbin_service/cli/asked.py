"""What `kinbin query` is asked for: a vector, an object, the vectors of several fields, or a file of many of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kinbin_service.cli.options import parsed_json
from kinbin_service.cli.output import Failure

__all__ = ["FIELDS", "Asked", "by_file", "by_option", "other_kind"]

FIELDS = "fields"
"""What queries, and items, are that have a vector for some of several fields: as `importing.fields` names it, which imports numpy."""

_FLAGS = {
    "vectors": "--vector", "strings": "--string", "series": "--series", "points": "--points", "images": "--image", FIELDS: "--vectors",
}  # fmt: skip
"""The option of a query of each kind."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query, or many."""

    kind: str
    """What items have to be, as `kinbin.KINDS` names it; or `FIELDS`."""
    queries: Any
    """A list of queries; many vectors may be a matrix."""
    many: bool = False
    """Whether they came in a file of many, so that each answer is told with its place."""


def by_option(kind: str, given: Any) -> Asked:
    """The query of an option, whose text may be JSON. Raises Failure."""
    flag = _FLAGS[kind]
    if kind == "images" and not given.is_file():
        raise Failure(f"{flag} {given}: there is no such file", kind="os_error")
    if kind in {"strings", "images"}:
        return Asked(kind, [given])
    return Asked(kind, [_judged(flag, lambda: _parsed(kind, parsed_json(given, flag)))])


def other_kind(items: str, kind: str) -> Failure:
    """The refusal of a query of this kind, where a collection holds others: what it holds, and the option that asks for such."""
    holds, asked = ("items of several fields" if one == FIELDS else one for one in (items, kind))
    return Failure(f"the collection holds {holds}, and the query is one of {asked}: give {_FLAGS[items]}", kind="invalid_input")


def by_file(file: Path) -> Asked:
    """The queries of a file: `.npy`, or by lines `.txt` (strings) and `.ndjson` (anything). Raises Failure, OSError."""
    ending = file.suffix.lower()
    if ending in {".ndjson", ".jsonl"}:
        return _by_lines(file)
    if ending in {".txt", ".text"}:
        strings = [line for line in _lines(file) if line]
        if not strings:
            raise Failure(f"{file}: no line holds a string")
        return Asked("strings", strings, many=True)
    matrix = _array(file)
    return Asked("vectors", matrix, many=True) if matrix.ndim == 2 else Asked("vectors", [matrix])


def _parsed(kind: str, given: Any) -> Any:
    """A query from its JSON form; ValueError says what the form is."""
    from kinbin_service.importing import parse_vector
    from kinbin_service.objects import KEYS, object_in

    if kind == "vectors":
        return parse_vector(given)
    if kind != FIELDS:
        return object_in(next(key for key, items in KEYS.items() if items == kind), given)
    if not isinstance(given, dict) or not given:
        raise ValueError('vectors are an object of fields, as {"colour": [0.1, 0, 2.5], "words": {"tokens": {"red": 1}}}')
    return {name: parse_vector(one) for name, one in given.items()}


def _judged(place: str, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except ValueError as error:
        raise Failure(f"{place}: {error}", 2) from None


def _lines(file: Path) -> list[str]:
    try:
        # As an import splits them: other line ends of Unicode are characters of a string, in JSON as well.
        return [line.removesuffix("\r") for line in file.read_bytes().decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: not UTF-8 text ({error})") from None


def _by_lines(file: Path) -> Asked:
    """One query a line, each an object with the key of its kind, and all of one."""
    import orjson

    from kinbin_service.objects import KEYS

    kinds = {"vector": "vectors", "vectors": FIELDS} | KEYS
    found: list[Any] = []
    first = ""
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        place = f"{file}, line {number}"
        try:
            item = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise Failure(f"{place}: not a line of JSON ({error.msg})") from None
        key = next((key for key in kinds if isinstance(item, dict) and key in item), "")
        if not key or (first and key != first):
            wanted = f'"{first}", as the first one does' if first else ", ".join(f'"{one}"' for one in kinds)
            raise Failure(f"{place}: every line is an object with {wanted}")
        first = key
        found.append(_judged(place, partial(_parsed, kinds[key], item[key])))
    if not found:
        raise Failure(f"{file}: no line holds a query")
    return Asked(kinds[first], found, many=True)


def _array(file: Path) -> Any:
    import numpy as np

    try:
        with file.open("rb") as opened:
            queries = np.lib.format.read_array(opened, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        text = f"{file}: not an array in .npy format ({error}); strings are read from .txt, other objects from .ndjson"
        raise Failure(text) from None
    if queries.ndim not in {1, 2} or queries.dtype.kind not in "fiub":
        raise Failure(f"{file}: expected one vector (1-d) or a matrix of them (2-d) of real numbers in .npy format")
    return queries if queries.dtype == np.float32 else queries.astype(np.float64)
