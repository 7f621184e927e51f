"""Lines of a text file with their numbers and byte offsets, read in bounded memory: what lets a text import resume by seeking."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kinbin_service.importing.batches import Bad, BadRow, Position, Record, SourceError
from kinbin_service.importing.vectors import Object, Vector

__all__ = ["LINE_BYTES", "Lines", "line_records"]

LINE_BYTES = 67_108_864
"""Longest line taken: a vector of as many nonzeros as Kinbin stores (1,048,576), written out with 20-digit numbers, fits."""

_BOM = b"\xef\xbb\xbf"


class Lines:
    """Iterates over the decoded lines of a UTF-8 file from a byte offset; `offset` and `number` follow the line last given.

    Lines keep their ends. A byte order mark at the start of the file is left out. Not thread-safe.
    """

    def __init__(self, path: Path, file: BinaryIO, start: Position | None = None) -> None:
        start = start or Position()
        self._path, self._file = path, file
        self.offset, self.number = start.offset, start.lines
        file.seek(start.offset)

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        raw = self._file.readline(LINE_BYTES + 1)
        if not raw:
            raise StopIteration
        at_start = self.offset == 0
        self.offset += len(raw)
        self.number += 1
        if len(raw) > LINE_BYTES:
            raise SourceError(
                self._path, f"the line is longer than {LINE_BYTES:,} bytes: is this a text file with one item a line?", line=self.number
            )
        if at_start:
            raw = raw.removeprefix(_BOM)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            detail = f"byte {error.start + 1} of the line is not UTF-8: save the file as UTF-8"
            raise BadRow(self._path, detail, line=self.number) from None


Parse = Callable[[str, int], tuple[str, Vector | Object, dict[str, Any] | None] | None]
"""Id, vector and payload of a line, which is this row if it is one; None: it is none. ValueError says what is wrong with it."""


def line_records(path: Path, lines: Lines, row: int, parse: Parse, items: str = "vectors") -> Iterator[Record | Bad]:
    """The records of a file with one item a line, from row number `row` on. items: what they are, as `kinbin.KINDS` names it."""
    while True:
        try:
            line = next(lines, None)
            if line is None:
                return
            item = parse(line, row)
        except (BadRow, ValueError) as error:
            row += 1
            bad = error if isinstance(error, BadRow) else BadRow(path, str(error), line=lines.number)
            yield Bad(bad, Position(row, lines.offset, lines.number))
            continue
        if item is not None:
            row += 1
            yield Record(*item, lines.number, Position(row, lines.offset, lines.number), items)
