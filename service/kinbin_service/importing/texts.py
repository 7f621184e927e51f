"""Text: one string a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinbin_service.importing.batches import Batch, Columns, Naming, Position, gather
from kinbin_service.importing.lines import Lines, line_records

__all__ = ["TextFile"]


class TextFile:
    """A text file as a source of batches of strings: its lines, without their ends. Empty lines are skipped, not counted as rows.

    White space is a string as any other.
    """

    format = "text"
    unit = "bytes"

    def __init__(self, path: Path, *, naming: Naming) -> None:
        self.path = path
        self._naming = naming
        self.empty = 0
        self.columns = Columns("strings from lines", naming.told)
        self._file = path.open("rb")
        self.total = path.stat().st_size

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on."""
        lines = Lines(self.path, self._file, start)
        records = line_records(self.path, lines, start.rows, self._item, "strings")
        return gather(self.path, records, rows, start, skip_bad=skip_bad)

    def done(self, position: Position) -> int:
        """Bytes before a position."""
        return position.offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _item(self, line: str, row: int) -> tuple[str, str, dict[str, Any] | None] | None:
        text = line.removesuffix("\n").removesuffix("\r")
        if not text:
            self.empty += 1
            return None
        return self._naming.of(row), text, None
