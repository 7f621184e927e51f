"""NDJSON: one item a line, `{"id": …, "vector": …, "payload": …}`, the same item form as `POST /index` takes; or with an object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from kinbin_service.ids import id_as_text
from kinbin_service.importing.batches import BadRow, Batch, Columns, Naming, Position, SourceError, gather
from kinbin_service.importing.fields import FIELDS
from kinbin_service.importing.lines import Lines, line_records
from kinbin_service.importing.vectors import FORMS, Object, Vector, parse_vector, shown
from kinbin_service.objects import KEYS, VECTOR, object_in

__all__ = ["NdjsonFile"]

VECTORS = "vectors"
"""What items of several fields carry: a vector for each."""
_CARRIED = (VECTOR, VECTORS, *KEYS)
_FIRST_LINES = 1_000
"""Lines that are looked through for an item."""


def _kind(key: str) -> str:
    """What items are that carry this."""
    return FIELDS if key == VECTORS else KEYS.get(key, "vectors")


class NdjsonFile:
    """An NDJSON file as a source of batches.

    `id_field` names the field that holds the id; `payload_fields` names further fields that go into the payload.
    With `naming`, ids are made from row numbers and the file must bring none. Blank lines are skipped, not counted as rows.
    """

    format = "ndjson"
    unit = "bytes"
    empty = 0

    def __init__(self, path: Path, *, id_field: str = "id", payload_fields: tuple[str, ...] = (), naming: Naming | None = None) -> None:
        self.path = path
        self._id_field, self._payload_fields, self._naming = id_field, payload_fields, naming
        self._known = {"payload", *payload_fields} | (set() if naming else {id_field})
        self._file = path.open("rb")
        self.total = path.stat().st_size
        self._key = self._first_key()
        self.columns = Columns(
            f'{_kind(self._key)} from "{self._key}"',
            naming.told if naming else f'id from "{id_field}"',
            ("payload", *payload_fields),
        )

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on."""
        lines = Lines(self.path, self._file, start)
        return gather(
            self.path,
            line_records(self.path, lines, start.rows, self._item, _kind(self._key)),
            rows,
            start,
            skip_bad=skip_bad,
        )

    def done(self, position: Position) -> int:
        """Bytes before a position."""
        return position.offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _item(self, line: str, row: int) -> tuple[str, Vector | Object, dict[str, Any] | None] | None:
        """Id, vector and payload of one line, None for a blank one; ValueError says what is wrong with it."""
        if not line.strip():
            return None
        try:
            item = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"not a line of JSON ({error.msg}, column {error.colno}): every line must be one whole item") from None
        if not isinstance(item, dict):
            raise ValueError(f'expected an object {{"{self._id_field}": …, "vector": …}}, got {shown(item)}')  # noqa: TRY004
        unknown = item.keys() - self._known - {self._key}
        if unknown & set(_CARRIED):
            raise ValueError(f'every item carries "{self._key}", as the first one does, and not "{min(unknown & set(_CARRIED))}"')
        if self._key not in item:
            outside = unknown & {"tokens", "indices", "values"} if self._key == VECTOR else set()
            inside = f', and "{min(outside)}" goes into it' if outside else ""
            raise ValueError(f'field "{self._key}" is missing{inside}' + (f": expected {FORMS}" if self._key == VECTOR else ""))
        if unknown:
            raise ValueError(f"unknown field {shown(min(unknown))}: name it in --payload-columns to keep it, or remove it")
        given = item[self._key]
        return self._id(item, row), self._carried(given), self._payload(item)

    def _carried(self, given: Any) -> Any:
        """What an item carries, in the form that the library takes; ValueError says what the form is."""
        if self._key == VECTOR:
            return parse_vector(given)
        if self._key != VECTORS:
            return object_in(self._key, given)
        if not isinstance(given, dict):
            raise ValueError(f'"{VECTORS}" is an object of fields, as {{"colour": [0.1, 0, 2.5], "words": …}}, got {shown(given)}')  # noqa: TRY004
        return {name: parse_vector(one) for name, one in given.items()}

    def _first_key(self) -> str:
        """What the items carry: the first one tells. A line that is none is judged in its turn."""
        lines = Lines(self.path, self._file)
        for _ in range(_FIRST_LINES):
            try:
                line = next(lines, None)
                item = None if line is None else orjson.loads(line)
            except (BadRow, orjson.JSONDecodeError):
                continue
            except SourceError:
                break
            if isinstance(item, dict):
                return next((key for key in (*KEYS, VECTORS) if key in item and key not in self._known), VECTOR)
        return VECTOR

    def _id(self, item: dict[str, Any], row: int) -> str:
        if self._naming:
            return self._naming.of(row)
        if self._id_field not in item:
            advice = "name the field with --id-field, or number the rows with --id-format '{row}'"
            raise ValueError(f'field "{self._id_field}" is missing: {advice}')
        identifier = id_as_text(item[self._id_field])
        if not isinstance(identifier, str):
            raise ValueError(f'field "{self._id_field}" must be a string or a 64-bit integer, got {shown(item[self._id_field])}')  # noqa: TRY004
        return identifier

    def _payload(self, item: dict[str, Any]) -> dict[str, Any] | None:
        payload = item.get("payload")
        if payload is not None and not isinstance(payload, dict):
            raise ValueError(f'field "payload" must be an object or null, got {shown(payload)}')
        named = {field: item[field] for field in self._payload_fields if field in item}
        return {**(payload or {}), **named} if named else payload
