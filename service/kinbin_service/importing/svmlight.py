"""svmlight / libsvm: `label [qid:n] index:value … # comment`, one sparse vector a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from kinbin_service.importing.batches import Batch, Columns, Naming, Position, SourceError, gather
from kinbin_service.importing.lines import Lines, line_records
from kinbin_service.importing.vectors import feature_array, shown

__all__ = ["PAYLOAD_COLUMNS", "SvmlightFile"]

PAYLOAD_COLUMNS = ("label", "qid")
"""What a line holds besides its vector; kept in the payload when asked for."""


class SvmlightFile:
    """A svmlight file as a source of batches of sparse vectors.

    Feature numbers are taken as written, less `index_base` (1 for files that count from 1 when the collection's `dim` counts from 0).
    Blank lines and lines of comment only are skipped, not counted as rows.
    """

    format = "svmlight"
    unit = "bytes"
    empty = 0

    def __init__(self, path: Path, *, naming: Naming, payload_columns: tuple[str, ...] = (), index_base: int = 0) -> None:
        unknown = set(payload_columns) - set(PAYLOAD_COLUMNS)
        if unknown:
            raise SourceError(path, f'svmlight lines have no column {shown(min(unknown))}: --payload-columns takes "label" and "qid" here')
        self.path = path
        self._naming, self._payload_columns, self._index_base = naming, payload_columns, index_base
        ignored = tuple(name for name in PAYLOAD_COLUMNS if name not in payload_columns)
        self.columns = Columns(f"sparse rows with features from {index_base}", naming.told, payload_columns, ignored)
        self._file = path.open("rb")
        self.total = path.stat().st_size

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on."""
        lines = Lines(self.path, self._file, start)
        return gather(self.path, line_records(self.path, lines, start.rows, self._item), rows, start, skip_bad=skip_bad)

    def done(self, position: Position) -> int:
        """Bytes before a position."""
        return position.offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _item(self, line: str, row: int) -> tuple[str, kinbin.Sparse, dict[str, Any] | None] | None:
        """Id, vector and payload of one line, None for a blank one; ValueError says what is wrong with it."""
        parts = line.partition("#")[0].split()
        if not parts:
            return None
        fields: dict[str, Any] = {"label": _label(parts[0])}
        features = parts[1:]
        if features and features[0].startswith("qid:"):
            fields["qid"] = _whole(features[0].removeprefix("qid:"), features[0])
            features = features[1:]
        if not features:
            raise ValueError(
                "the vector is empty: expected index:value after the label (a zero vector has no neighbours; leave the line out)"
            )
        indices, values = [], []
        for feature in features:
            index, colon, value = feature.partition(":")
            if not colon:
                raise ValueError(f"expected index:value, got {shown(feature)}")
            indices.append(_whole(index, feature) - self._index_base)
            values.append(_number(value, feature))
        payload = {name: fields[name] for name in self._payload_columns if name in fields}
        return self._naming.of(row), kinbin.Sparse(feature_array(indices), np.array(values, dtype=np.float64)), payload or None


def _whole(text: str, part: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"expected a whole number in {shown(part)}, got {shown(text)}")
    return int(text)


def _number(text: str, part: str) -> float:
    if "_" in text:
        raise ValueError(f"expected a number after the colon of {shown(part)}")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number after the colon of {shown(part)}") from None


def _label(text: str) -> float | int | str:
    """A label as JSON can hold it: a whole number, a finite number, or the text itself ("1,3" of multi-label files)."""
    try:
        number = float(text)
    except ValueError:
        if ":" in text:
            raise ValueError(f"expected a label before the first index:value, got {shown(text)}") from None
        return text
    if not np.isfinite(number) or "_" in text:
        return text
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
