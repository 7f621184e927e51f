"""`.ts` files of the UCR and UEA archives of time series, as sktime and aeon read them: header lines with @, then one series a line.

A line has the numbers of each dimension, with commas between them, then those of the next behind a colon; its class, or the number that
is to be predicted, comes last, if the header says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin_service.importing.batches import Batch, Columns, Naming, Position, SourceError, gather
from kinbin_service.importing.lines import Lines, line_records
from kinbin_service.importing.vectors import payload_value, shown

__all__ = ["TsFile"]


class TsFile:
    """A `.ts` file as a source of batches of series, (steps,) or (steps, dimensions). Classes go into the payload."""

    format = "ts"
    unit = "bytes"
    empty = 0

    def __init__(self, path: Path, *, naming: Naming) -> None:
        self.path = path
        self._naming = naming
        self._file = path.open("rb")
        self.total = path.stat().st_size
        try:
            self._label, self._data = self._read_head()
        except BaseException:
            self._file.close()
            raise
        self.columns = Columns("series", naming.told, () if self._label is None else (self._label,))

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on."""
        start = start if start.rows else self._data
        lines = Lines(self.path, self._file, start)
        return gather(self.path, line_records(self.path, lines, start.rows, self._item, "series"), rows, start, skip_bad=skip_bad)

    def done(self, position: Position) -> int:
        """Bytes before a position."""
        return position.offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_head(self) -> tuple[str | None, Position]:
        """What the last part of each line is, and where lines of data begin."""
        label = None
        lines = Lines(self.path, self._file)
        for line in lines:
            name, _, value = line.strip().partition(" ")
            said = value.split()[:1] == ["true"] or value.strip().lower().startswith("true")
            if name.lower() == "@data":
                return label, Position(0, lines.offset, lines.number)
            if name.lower() == "@timestamps" and said:
                text = "series with time stamps are not read: write their values in equal steps, with @timeStamps false"
                raise SourceError(self.path, text, line=lines.number)
            if name.lower() in {"@classlabel", "@targetlabel"} and said:
                label = name[1:].lower().removesuffix("label")
            if name and not name.startswith(("@", "#", "%")):
                break
        raise SourceError(self.path, "a line @data is missing before the series: is this a .ts file of time series?", line=lines.number)

    def _item(self, line: str, row: int) -> tuple[str, NDArray[np.float64], dict[str, Any] | None] | None:
        """Id, series and payload of one line, None for a blank one; ValueError says what is wrong with it."""
        text = line.strip()
        if not text or text.startswith(("#", "%")):
            return None
        parts = text.split(":")
        payload = None
        if self._label is not None:
            if len(parts) < 2:
                raise ValueError(f"expected the {self._label} behind a colon, at the end of the line")
            payload = {self._label: payload_value(parts.pop().strip())}
        dimensions = [_numbers(part) for part in parts]
        lengths = sorted({len(one) for one in dimensions})
        if len(lengths) > 1:
            raise ValueError(f"the dimensions of a series have one length, these have {lengths[0]} to {lengths[-1]}")
        return self._naming.of(row), dimensions[0] if len(dimensions) == 1 else np.stack(dimensions, axis=1), payload


def _numbers(part: str) -> NDArray[np.float64]:
    """The numbers of one dimension."""
    texts = part.split(",")
    try:
        if "_" in part:
            raise ValueError
        return np.array([float(text) for text in texts])
    except ValueError:
        wrong = next(text for text in texts if not _is_number(text))
        if wrong.strip() == "?":
            raise ValueError("a value is missing (?): fill it in, or leave the series out") from None
        raise ValueError(f"expected numbers with commas between them, got {shown(wrong)}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
