"""The items of an add, from a body of any kind: JSON, lines of JSON, a matrix, or a form with images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from starlette.requests import Request

import kinbin
from kinbin_service.bodies import MULTIPART, NDJSON, NPY, parse_json, parse_lines
from kinbin_service.convert import carried, vectors_in
from kinbin_service.multipart import Part, parse_parts
from kinbin_service.npy import new_ids, parse_ids, parse_matrix
from kinbin_service.objects import KEYS, VECTOR, carried_by
from kinbin_service.problems import Entry, Refusal
from kinbin_service.routes.received import no_options, options
from kinbin_service.schemas.requests import AddOptions, AddRequest, FieldsAddRequest, ObjectsAddRequest
from kinbin_service.schemas.validation import validate

__all__ = ["Batch", "check_key", "parse_batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one add, from a body of any kind."""

    ids: list[str]
    vectors: Sequence[Any] | NDArray[Any] | dict[str, list[Any]]
    """Or objects; by field, where there are several."""
    payloads: list[dict[str, Any] | None] | None
    mode: str
    ids_made: bool = False
    lines: Sequence[int] = ()
    """The line of each item, if the body was made of lines."""
    key: str = VECTOR
    """What the items carry: "vector", or one of `objects.KEYS`."""


def parse_batch(request: Request, media_type: str, body: bytes) -> Batch:
    """The items of a body."""
    if media_type == NPY:
        return _matrix_batch(request, body)
    if media_type == MULTIPART:
        return _form_batch(request, body)
    lines: Sequence[int] = ()
    if media_type == NDJSON:
        values, lines = parse_lines(body)
        content: Any = {"items": values, "mode": options(request, AddOptions).mode}
    else:
        no_options(request)
        content = parse_json(body)
    first = _first_item(content)
    if "vectors" in first:
        given = validate(FieldsAddRequest, content, lines)
        by_field = vectors_in([one["vectors"] for one in given.items], "#/items/{}/vectors")
        return Batch([one["id"] for one in given.items], by_field, [one.get("payload") for one in given.items], given.mode, lines=lines)
    key = next((name for name in KEYS if name in first), VECTOR)
    asked: Any = validate(AddRequest if key == VECTOR else ObjectsAddRequest, content, lines)
    items: list[dict[str, Any]] = asked.items
    _check_same(items, key, lines)
    vectors = [carried(key, one[key], f"#/items/{position}/{key}") for position, one in enumerate(items)]
    return Batch([one["id"] for one in items], vectors, [one.get("payload") for one in items], asked.mode, lines=lines, key=key)


def check_key(collection: kinbin.Collection | kinbin.FieldsCollection, key: str, pointer: str) -> None:
    """Refuse what items of this collection do not carry; the library would call it a malformed object, or take it for another kind's.

    pointer: of what was sent, without its key.
    """
    wanted = carried_by(collection)
    # With fields the library names them.
    if key != wanted and (key, wanted) != (VECTOR, "vectors"):
        text = f'items of this collection carry "{wanted}", not "{key}"'
        raise Refusal("invalid_field", text, [Entry(f"{pointer}/{key}", text)])


def _first_item(content: Any) -> dict[str, Any]:
    """The first item of a body, which tells what it carries; empty if there is none."""
    items = content.get("items") if isinstance(content, dict) else None
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def _check_same(items: Sequence[dict[str, Any]], key: str, lines: Sequence[int]) -> None:
    """Refuse items that carry something else than the first, or more than one thing."""
    for position, one in enumerate(items):
        if one.keys() - {"id", "payload"} != {key}:
            where = f"line {lines[position]}: " if lines else ""
            text = f'{where}every item carries "{key}" alone, as the first one does'
            raise Refusal("invalid_field", text, [Entry(f"#/items/{position}", text)])


def _matrix_batch(request: Request, body: bytes) -> Batch:
    mode = options(request, AddOptions).mode
    matrix = parse_matrix(body)
    most = int(kinbin.LIMITS["batch_items"].value)
    if len(matrix) > most:
        raise Refusal("over_limit", f"an add has at most {most:,} items", [Entry("#/items", "too many rows")], "batch_items")
    header = request.headers.get("x-kinbin-ids")
    if header is None:
        return Batch(new_ids(len(matrix)), matrix, None, mode, ids_made=True)
    ids = parse_ids(header.encode("latin-1"))
    if len(ids) != len(matrix):
        raise Refusal("invalid_field", f"the matrix has {len(matrix):,} rows, and the header X-Kinbin-Ids names {len(ids):,} ids")
    return Batch(ids, matrix, None, mode)


# ------------------------------------------------------------------------------------------ forms


def _form_batch(request: Request, body: bytes) -> Batch:
    """Images as files of a form. Their names are the ids, unless a field `items` brings these, and payloads."""
    mode = options(request, AddOptions).mode
    parts = parse_parts(request.headers.get("content-type", ""), body, int(kinbin.LIMITS["batch_items"].value) + 1)
    described = [part for part in parts if part.name == "items"]
    images = [part for part in parts if part.name == "image"]
    if len(described) + len(images) < len(parts) or len(described) > 1:
        raise Refusal("bad_multipart", "the parts of the form are files named image, and at most one named items")
    if not described:
        return Batch([_file_name(part, position) for position, part in enumerate(images)], _contents(images), None, mode, key="image")
    listed = parse_json(described[0].content)
    if not isinstance(listed, list) or len(listed) != len(images) or not all(isinstance(one, dict) for one in listed):
        text = 'the part items is a JSON list of {"id", "payload"}, one for each image, in their order'
        raise Refusal("invalid_field", text, [Entry("#/items", text)])
    asked = validate(ObjectsAddRequest, {"items": listed, "mode": mode})
    _check_bare(asked.items)
    ids, payloads = [one["id"] for one in asked.items], [one.get("payload") for one in asked.items]
    return Batch(ids, _contents(images), payloads, mode, key="image")


def _check_bare(items: Sequence[Any]) -> None:
    """Refuse items that carry an object beside the file of the form."""
    for position, one in enumerate(items):
        if one.keys() - {"id", "payload"}:
            text = "items of a form have an id and a payload; their images are files"
            raise Refusal("invalid_field", text, [Entry(f"#/items/{position}", text)])


def _file_name(part: Part, position: int) -> str:
    if not part.filename:
        text = "a file without a name has no id: name it, or send ids in a part named items"
        raise Refusal("invalid_field", text, [Entry(f"#/items/{position}/id", text)])
    return part.filename


def _contents(images: Sequence[Part]) -> list[bytes]:
    return [part.content for part in images]
