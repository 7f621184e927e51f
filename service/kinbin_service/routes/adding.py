"""The items of an add, from a body of any kind: JSON, lines of JSON, a matrix, or a form with images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from starlette.requests import Request

import kinbin
from kinbin_service.bodies import MULTIPART, NDJSON, NPY, parse_good_lines, parse_json, parse_lines
from kinbin_service.convert import carried, vectors_in
from kinbin_service.multipart import Part, parse_parts
from kinbin_service.npy import parse_ids, parse_matrix
from kinbin_service.objects import KEYS, VECTOR, Carried, carried_by
from kinbin_service.problems import Entry, Place, Refusal
from kinbin_service.routes.received import no_options, options
from kinbin_service.schemas.requests import AddOptions, AddRequest, FieldsAddRequest, ObjectsAddRequest
from kinbin_service.schemas.validation import validate

__all__ = ["Batch", "Skipped", "check_key", "lines_batch", "parse_batch", "told_skipped"]


MOST_TOLD = 100
"""Items that were left out are told one by one up to so many."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item that was left out, by its place in the body."""

    position: int
    pointer: str
    code: str
    detail: str


Source = tuple[dict[str, Any], Sequence[int], Mapping[int, Refusal]]
"""What bad items may be left out of: a body, the lines of it, and the faults of those that are no JSON, by position."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The items of one add, from a body of any kind."""

    ids: list[str] | None
    """None: they are made."""
    vectors: Sequence[Any] | NDArray[Any] | dict[str, list[Any]]
    """Or objects; by field, where there are several."""
    payloads: list[dict[str, Any] | None] | None
    mode: str
    on_error: str = "reject"
    versions: list[int | None] | None = None
    """That the stored items must have."""
    lines: Sequence[int] = ()
    """The line of each item, if the body was made of lines."""
    key: str = VECTOR
    """What the items carry: "vector", or one of `objects.KEYS`."""
    places: Sequence[int] | None = None
    """Of the items in the body; None: one after the other."""
    bad: Sequence[Skipped] = ()
    """What was left out of it."""
    source: Source | None = None
    """Of one that leaves out bad items: what it is made of again where the collection takes others."""

    @property
    def carries(self) -> Carried:
        """What its items carry."""
        return ("vectors", *sorted(self.vectors)) if isinstance(self.vectors, dict) else (self.key,)

    def fitted(self, wanted: Carried) -> Batch:
        """Without the items that carry something else than those of the collection do, if it leaves out bad ones."""
        if self.source is None or not self.ids or self.carries == wanted:
            return self
        return _skipping(self.source, wanted)

    def terms(self, key: str | None) -> dict[str, Any]:
        """The options of the add, as the library takes them. key: by which it may come again."""
        named = {"mode": self.mode, "on_error": self.on_error, "if_versions": self.versions, "idempotency_key": key}
        return {name: value for name, value in named.items() if value is not None} | {"atomic": True}


def parse_batch(request: Request, media_type: str, body: bytes) -> Batch:
    """The items of a body."""
    if media_type == NPY:
        return _matrix_batch(request, body)
    if media_type == MULTIPART:
        return _form_batch(request, body)
    if media_type != NDJSON:
        no_options(request)
        content = parse_json(body)
        return _skipping((content, (), {})) if _skips(content) else _items_batch(content)
    return lines_batch(body, _chosen(request), 0)


def _chosen(request: Request) -> AddOptions:
    """The parameters of the address of an add that is no stream."""
    chosen = options(request, AddOptions)
    if "after" in request.query_params:
        text = "after counts the lines of a stream: send it with stream=true"
        raise Refusal("invalid_field", text, [Entry("#/after", text)])
    return chosen


def _items_batch(content: Any, lines: Sequence[int] = ()) -> Batch:
    """The items of a JSON body, or of lines."""
    first = _first_item(content)
    if "vectors" in first:
        given = validate(FieldsAddRequest, content, lines)
        by_field = vectors_in([one["vectors"] for one in given.items], "#/items/{}/vectors")
        return Batch(*_named(given.items, by_field), given.mode, given.on_error, _versions(given.items), lines)
    key = next((name for name in KEYS if name in first), VECTOR)
    asked: Any = validate(AddRequest if key == VECTOR else ObjectsAddRequest, content, lines)
    items: list[dict[str, Any]] = asked.items
    _check_same(items, key, lines)
    vectors = [carried(key, one[key], f"#/items/{position}/{key}") for position, one in enumerate(items)]
    return Batch(*_named(items, vectors), asked.mode, asked.on_error, _versions(items), lines, key)


def _named(items: Sequence[Any], vectors: Any) -> tuple[list[str], Any, list[dict[str, Any] | None]]:
    return [one["id"] for one in items], vectors, [one.get("payload") for one in items]


def _versions(items: Sequence[Any]) -> list[int | None] | None:
    return [one.get("if_version") for one in items] if any("if_version" in one for one in items) else None


# ------------------------------------------------------------------------------- items that are left out


def _skips(content: Any) -> bool:
    return isinstance(content, dict) and content.get("on_error") == "skip"


def _skipping(source: Source, wanted: Carried | None = None) -> Batch:
    """The good items of a body: all of them if that goes, or those that are good by themselves.

    wanted: what items of the collection carry; None: as the first good one does, until the collection is known.
    """
    content, lines, faults = source
    if not faults and wanted is None:
        try:
            return replace(_items_batch(content, lines), source=source)
        except Refusal as refusal:
            if not refusal.errors or not refusal.errors[0].pointer.startswith("#/items/"):
                raise
    items = content["items"]
    most = int(kinbin.LIMITS["batch_items"].value)
    if len(items) > most:
        raise Refusal("over_limit", f"an add has at most {most:,} items", [Entry("#/items", "too many lines")], "batch_items")
    good: list[int] = []
    bad: list[Skipped] = []
    for position, one in enumerate(items):
        try:
            if position in faults:
                raise faults[position]
            wanted = _alike(_items_batch({**content, "items": [one]}, lines[position : position + 1]), wanted)
        except Refusal as refusal:
            entry = refusal.errors[0] if refusal.errors else Entry("#/items/0", refusal.detail)
            place = entry.pointer.replace("#/items/0", f"#/items/{position}", 1)
            bad.append(Skipped(position, place, refusal.code, entry.detail))
        else:
            good.append(position)
    if not good:
        return Batch([], [], None, content.get("mode", "upsert"), "skip", bad=bad, places=())
    batch = _items_batch({**content, "items": [items[i] for i in good]}, [lines[i] for i in good] if lines else ())
    return replace(batch, bad=bad, places=good, source=source)


def told_skipped(done: kinbin.AddResult, batch: Batch) -> dict[str, Any]:
    """What the answer says of items that were left out, here or by the library: the first hundred, in the order of the body."""
    place = Place("items", batch.ids or (), batch.lines, places=batch.places)
    bad = list(batch.bad)
    for problem in done.problems:
        position = problem.position or 0
        at = position if batch.places is None else batch.places[position]
        pointer = place.pointer(at, problem.field)
        bad.append(Skipped(at, pointer, problem.code, place.detail(problem)))
    bad.sort(key=lambda one: one.position)
    listed = [{"pointer": one.pointer, "code": one.code, "detail": one.detail} for one in bad[:MOST_TOLD]]
    return {"skipped": len(batch.bad) + done.skipped, "problems": listed}


def _alike(one: Batch, wanted: Carried | None) -> Carried:
    """What the good items carry; refuses an item that carries something else."""
    if wanted is not None and one.carries != wanted:
        where = f"line {one.lines[0]}: " if one.lines else ""
        text = f"{where}items of this collection carry {_named_parts(wanted)}, not {_named_parts(one.carries)}"
        raise Refusal("invalid_field", text, [Entry("#/items/0", text)])
    return one.carries


def _named_parts(carried: Carried) -> str:
    key, *fields = carried
    return f'"{key}"' + (f" of {' and '.join(fields)}" if fields else "")


def lines_batch(body: bytes, chosen: AddOptions, after: int) -> Batch:
    """The items of some lines of a stream, the first of which has `after` lines before it."""
    named = {"mode": chosen.mode, "on_error": chosen.on_error}
    if chosen.on_error == "skip":
        values, lines, faults = parse_good_lines(body, after)
        return _skipping(({"items": values, **named}, lines, faults))
    values, lines = parse_lines(body, after)
    return _items_batch({"items": values, **named}, lines)


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
        if one.keys() - {"id", "payload", "if_version"} != {key}:
            where = f"line {lines[position]}: " if lines else ""
            text = f'{where}every item carries "{key}" alone, as the first one does'
            raise Refusal("invalid_field", text, [Entry(f"#/items/{position}", text)])


def _matrix_batch(request: Request, body: bytes) -> Batch:
    asked = _chosen(request)
    matrix = parse_matrix(body)
    most = int(kinbin.LIMITS["batch_items"].value)
    if len(matrix) > most:
        raise Refusal("over_limit", f"an add has at most {most:,} items", [Entry("#/items", "too many rows")], "batch_items")
    header = request.headers.get("x-kinbin-ids")
    if header is None:
        return Batch(None, matrix, None, asked.mode, asked.on_error)
    ids = parse_ids(header.encode("latin-1"))
    if len(ids) != len(matrix):
        raise Refusal("invalid_field", f"the matrix has {len(matrix):,} rows, and the header X-Kinbin-Ids names {len(ids):,} ids")
    return Batch(ids, matrix, None, asked.mode, asked.on_error)


# ------------------------------------------------------------------------------------------ forms


def _form_batch(request: Request, body: bytes) -> Batch:
    """Images as files of a form. Their names are the ids, unless a field `items` brings these, and payloads."""
    chosen = _chosen(request)
    mode = chosen.mode
    parts = parse_parts(request.headers.get("content-type", ""), body, int(kinbin.LIMITS["batch_items"].value) + 1)
    described = [part for part in parts if part.name == "items"]
    images = [part for part in parts if part.name == "image"]
    if len(described) + len(images) < len(parts) or len(described) > 1:
        raise Refusal("bad_multipart", "the parts of the form are files named image, and at most one named items")
    if not described:
        names = [_file_name(part, position) for position, part in enumerate(images)]
        return Batch(names, _contents(images), None, mode, chosen.on_error, key="image")
    listed = parse_json(described[0].content)
    if not isinstance(listed, list) or len(listed) != len(images) or not all(isinstance(one, dict) for one in listed):
        text = 'the part items is a JSON list of {"id", "payload"}, one for each image, in their order'
        raise Refusal("invalid_field", text, [Entry("#/items", text)])
    asked = validate(ObjectsAddRequest, {"items": listed, "mode": mode})
    _check_bare(asked.items)
    return Batch(*_named(asked.items, _contents(images)), mode, chosen.on_error, _versions(asked.items), key="image")


def _check_bare(items: Sequence[Any]) -> None:
    """Refuse items that carry an object beside the file of the form."""
    for position, one in enumerate(items):
        if one.keys() - {"id", "payload", "if_version"}:
            text = "items of a form have an id and a payload; their images are files"
            raise Refusal("invalid_field", text, [Entry(f"#/items/{position}", text)])


def _file_name(part: Part, position: int) -> str:
    if not part.filename:
        text = "a file without a name has no id: name it, or send ids in a part named items"
        raise Refusal("invalid_field", text, [Entry(f"#/items/{position}/id", text)])
    return part.filename


def _contents(images: Sequence[Part]) -> list[bytes]:
    return [part.content for part in images]
