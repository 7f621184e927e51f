"""Files of documents, one a line or row: their texts in order, and the same file with some of them, or with marks.

A document is known by its number, from 0. Nothing but a batch of them is in memory.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import orjson

from kinbin_service.deduplicating.memory import longest
from kinbin_service.deduplicating.parquet import ParquetDocuments
from kinbin_service.deduplicating.source import (
    BATCH,
    MARKS,
    Documents,
    Fate,
    Position,
    batched,
    no_utf8,
    refuse_marks,
    too_long,
    without_text,
)
from kinbin_service.importing import SourceError

__all__ = ["documents"]

_BOM = b"\xef\xbb\xbf"
"""What some editors begin a file with; it is no part of the first document, and is not written."""
_LINE = 2
"""Bytes of a line, or of a row over several lines, to a character of the longest text. Parsed JSON takes up to 27 times its bytes."""


def documents(path: Path, text: str, memory_mb: int) -> Documents:
    """The documents of a file, by its name. text: the field or column that is compared. memory_mb: what reading it may take.

    Raises:
        SourceError: no format is known by this name.
    """
    suffix, most = path.suffix.lower(), longest(memory_mb)
    if suffix in (".ndjson", ".jsonl"):
        return NdjsonDocuments(path, text, most)
    if suffix in (".csv", ".tsv"):
        return CsvDocuments(path, text, most)
    if suffix in (".parquet", ".pq"):
        return ParquetDocuments(path, text, memory_mb)
    if suffix == ".txt":
        return LineDocuments(path, most)
    raise SourceError(path, "documents are in .ndjson, .jsonl, .csv, .tsv, .parquet or .txt (a document a line)")


class _Lines:
    """Lines with something in them: more than spaces, tabs and other white space of ASCII."""

    def __init__(self, path: Path, longest: int) -> None:
        self.path, self._longest = path, longest
        self.total = path.stat().st_size

    def progress(self, position: Position) -> int:
        return position[1]

    def texts(self, position: Position | None, *, mark: bool = False) -> Iterator[tuple[list[str], Position]]:
        done, offset = position or (0, 0)
        with self.path.open("rb") as file:
            file.seek(offset)
            documents = self._documents(file, done, offset)
            found = ((self._text(line, number, mark=mark), [number, behind]) for number, line, behind in documents)
            yield from batched(self.path, found, self._longest)

    def _documents(self, file: BinaryIO, done: int = 0, offset: int = 0) -> Iterator[tuple[int, bytes, int]]:
        """Each document's number, from 1, its line, without a byte order mark, and the bytes up to its end. done, offset: those before."""
        most = _LINE * self._longest
        while line := file.readline(most + 1):
            if len(line) > most:
                raise too_long(self.path, done + 1, f"more than {most:,} bytes", "no more")
            bare = line if offset else line.removeprefix(_BOM)
            offset += len(line)
            if bare and not bare.isspace():
                done += 1
                yield done, bare, offset

    def _text(self, line: bytes, number: int, *, mark: bool) -> str:
        """The text of a document. mark: whether it is to be marked, which may be refused here already."""
        raise NotImplementedError

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:
        raise NotImplementedError

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        with self.path.open("rb") as source, path.open("wb") as out:
            for (number, line, _), fate in zip(self._documents(source), fates, strict=True):
                if mark:
                    out.write(self._marked(line, number, fate) + b"\n")
                elif fate[1]:
                    out.write(line if line.endswith(b"\n") else line + b"\n")


class NdjsonDocuments(_Lines):
    """A JSON object a line; the text is a string in one of its fields. Lines that are kept are written as they are."""

    def __init__(self, path: Path, text: str, longest: int) -> None:
        super().__init__(path, longest)
        self._field = text

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            content = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SourceError(self.path, f"document {number} is no JSON: {error}") from None
        if not isinstance(content, dict):
            raise SourceError(self.path, f"document {number} is no JSON object")
        return content

    def _text(self, line: bytes, number: int, *, mark: bool) -> str:
        content = self._object(line, number)
        if mark:
            refuse_marks(self.path, content)
        text = content.get(self._field)
        if not isinstance(text, str):
            raise without_text(self.path, self._field, number)
        return text

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:
        refuse_marks(self.path, self._object(line, number))
        # What stands there stays as it is: numbers that no float holds, too. The object has the text, so a comma comes before the marks.
        return line.rstrip().removesuffix(b"}").rstrip() + b"," + orjson.dumps(dict(zip(MARKS, fate, strict=True))).removeprefix(b"{")


class LineDocuments(_Lines):
    """A document a line, in UTF-8. Marks come first, with a tab behind each."""

    def _text(self, line: bytes, number: int, *, mark: bool) -> str:  # noqa: ARG002 - as of other formats
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise no_utf8(self.path, number) from None

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:  # noqa: ARG002 - as of other formats
        return f"{fate[0]}\t{str(fate[1]).lower()}\t".encode() + line.rstrip(b"\r\n")


class CsvDocuments:
    """A document a row, below a header that names the columns. UTF-8; tabs in .tsv, otherwise commas."""

    def __init__(self, path: Path, text: str, longest: int) -> None:
        self.path, self._longest = path, longest
        self.total = path.stat().st_size
        # strict: a quote that is never closed would make one document of all that follow.
        self._form: dict[str, Any] = {"delimiter": "\t" if path.suffix.lower() == ".tsv" else ",", "strict": True}
        csv.field_size_limit(sys.maxsize)
        self._header, behind = next(self._table(path), ([], 0))
        with path.open("rb") as raw:
            raw.seek(max(0, behind - 2))
            self._ending = "\r\n" if raw.read(2) == b"\r\n" else "\n"
        if not self._header:
            raise SourceError(path, "its first line is empty, and names no column" if self.total else "the file is empty")
        if text not in self._header:
            raise SourceError(path, f'there is no column "{text}" (there are {", ".join(self._header)}): name one with --text')
        if self._header.count(text) > 1:
            raise SourceError(path, f'there are {self._header.count(text)} columns "{text}": rename all but one')
        self._column = self._header.index(text)

    def progress(self, position: Position) -> int:
        return position[1]

    def _table(self, path: Path) -> Iterator[tuple[list[str], int]]:
        """Rows, of which the first is the header, and the bytes before the next, roughly: what was read ahead counts.

        Raises:
            SourceError: this is no CSV in UTF-8, or a row is too long.
        """
        most = _LINE * self._longest
        row, since = 0, 0

        def lines(raw: BinaryIO) -> Iterator[str]:
            nonlocal since
            encoding = "utf-8-sig"
            while line := raw.readline(most + 1 - since):
                since += len(line)
                if since > most:
                    raise too_long(path, row, f"more than {most:,} bytes", "no more")
                yield line.decode(encoding)
                encoding = "utf-8"

        with path.open("rb") as raw:
            try:
                for cells in csv.reader(lines(raw), **self._form):
                    yield cells, raw.tell() if row % BATCH == 0 else 0
                    row, since = row + bool(cells), 0
            except (csv.Error, UnicodeDecodeError) as error:
                raise SourceError(path, f"this is no CSV in UTF-8: {error}") from None

    def _rows(self, path: Path) -> Iterator[tuple[list[str], int]]:
        """Rows behind the header that have cells."""
        return ((cells, at) for cells, at in itertools.islice(self._table(path), 1, None) if cells)

    def texts(self, position: Position | None, *, mark: bool = False) -> Iterator[tuple[list[str], Position]]:
        if mark:
            refuse_marks(self.path, self._header)
        yield from batched(self.path, self._texts(position[0] if position else 0), self._longest)

    def _texts(self, done: int) -> Iterator[tuple[str, Position]]:
        at = 0
        for number, (row, seen) in enumerate(itertools.islice(self._rows(self.path), done, None), done + 1):
            at = max(at, seen)
            if len(row) != len(self._header):
                raise SourceError(self.path, f"document {number} has {len(row)} cells, the header {len(self._header)}")
            yield row[self._column], [number, at]

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        if mark:
            refuse_marks(self.path, self._header)
        with path.open("w", encoding="utf-8", newline="") as file:
            # It quotes line ends of its own kind only, and readers take each of them for one.
            out = csv.writer(_Ending(file, self._ending), lineterminator=_Ending.GIVEN, **self._form)
            out.writerow([*self._header, *(MARKS if mark else ())])
            for (row, _), (cluster, keep) in zip(self._rows(self.path), fates, strict=True):
                if mark:
                    out.writerow([*row, cluster, str(keep).lower()])
                elif keep:
                    out.writerow(row)


class _Ending:
    """A file to which rows are written with other line ends than they are given with."""

    GIVEN = "\r\n"

    def __init__(self, file: TextIO, ending: str) -> None:
        self._file, self._ending = file, ending

    def write(self, row: str) -> None:
        """Write a row."""
        self._file.write(row.removesuffix(self.GIVEN) + self._ending)
