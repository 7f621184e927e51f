"""Files of documents, one a line or row: their texts in order, and the same file with some of them, or with marks.

A document is known by its number, from 0. Nothing but a batch of them is in memory.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson

from kinbin_service.importing import SourceError

__all__ = ["MARKS", "Documents", "Fate", "documents"]

MARKS = ("cluster", "keep")
"""What is added to documents that are marked: the number of the first of its cluster, and whether it is that one."""
_BOM = b"\xef\xbb\xbf"
"""What some editors begin a file with; it is no part of the first document, and is not written."""
_BATCH = 2_000
_BATCH_CHARACTERS = 1 << 22
_BATCH_BYTES = 1 << 22
_BUFFER = 1 << 18
"""Of a column of a Parquet file that is read."""
_GROUP_BYTES, _GROUP_ROWS = 16 << 20, 100_000
"""Of a row group of one that is written, or so."""

Fate = tuple[int, bool]
"""The marks of a document."""
Position = list[int]
"""Documents, and bytes (of a file of lines), before the next."""


class Documents(Protocol):
    """A file of documents."""

    total: int
    """Of what progress counts: bytes or rows."""

    def texts(self, position: Position | None) -> Iterator[tuple[list[str], Position]]:
        """Batches of texts, and where the next begins. position: where to go on; None: at the beginning."""
        ...

    def progress(self, position: Position) -> int:
        """How much of `total` lies before a position."""
        ...

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        """The documents that are kept, as they are; mark: all of them, with what became of each."""
        ...


def documents(path: Path, text: str) -> Documents:
    """The documents of a file, by its name. text: the field or column that is compared.

    Raises:
        SourceError: no format is known by this name.
    """
    suffix = path.suffix.lower()
    if suffix in (".ndjson", ".jsonl"):
        return NdjsonDocuments(path, text)
    if suffix in (".csv", ".tsv"):
        return CsvDocuments(path, text)
    if suffix in (".parquet", ".pq"):
        return ParquetDocuments(path, text)
    if suffix == ".txt":
        return LineDocuments(path)
    raise SourceError(path, "documents are in .ndjson, .jsonl, .csv, .tsv, .parquet or .txt (a document a line)")


def _batched(found: Iterable[tuple[str, Position]]) -> Iterator[tuple[list[str], Position]]:
    """Texts in batches that are neither too many nor too long."""
    texts: list[str] = []
    size = 0
    position: Position = []
    for text, position in found:
        texts.append(text)
        size += len(text)
        if len(texts) == _BATCH or size >= _BATCH_CHARACTERS:
            yield texts, position
            texts, size = [], 0
    if texts:
        yield texts, position


class _Lines:
    """Lines with something in them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total = path.stat().st_size

    def progress(self, position: Position) -> int:
        return position[1]

    def texts(self, position: Position | None) -> Iterator[tuple[list[str], Position]]:
        done, offset = position or (0, 0)
        with self.path.open("rb") as file:
            file.seek(offset)
            yield from _batched(self._texts(file, done, offset))

    def _texts(self, file: BinaryIO, done: int, offset: int) -> Iterator[tuple[str, Position]]:
        for line in file:
            bare = line.removeprefix(_BOM) if offset == 0 else line
            offset += len(line)
            if not bare or bare.isspace():
                continue
            done += 1
            yield self._text(bare, done), [done, offset]

    def _text(self, line: bytes, number: int) -> str:
        raise NotImplementedError

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:
        raise NotImplementedError

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        with self.path.open("rb") as source, path.open("wb") as out:
            for number, (line, fate) in enumerate(zip(_documents(source), fates, strict=True), 1):
                if mark:
                    out.write(self._marked(line.strip(), number, fate) + b"\n")
                elif fate[1]:
                    out.write(line if line.endswith(b"\n") else line + b"\n")


def _documents(file: BinaryIO) -> Iterator[bytes]:
    """The lines with something in them, without a byte order mark."""
    for place, line in enumerate(file):
        bare = line if place else line.removeprefix(_BOM)
        if bare and not bare.isspace():
            yield bare


class NdjsonDocuments(_Lines):
    """A JSON object a line; the text is a string in one of its fields. Lines that are kept are written as they are."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(path)
        self._field = text

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            content = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise SourceError(self.path, f"document {number} is no JSON: {error}") from None
        if not isinstance(content, dict):
            raise SourceError(self.path, f"document {number} is no JSON object")
        return content

    def _text(self, line: bytes, number: int) -> str:
        text = self._object(line, number).get(self._field)
        if not isinstance(text, str):
            raise _without_text(self.path, self._field, number)
        return text

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:
        _refuse_marks(self.path, self._object(line, number))
        # What stands there stays as it is: numbers that no float holds, too. The object has the text, so a comma comes before the marks.
        return line.removesuffix(b"}").rstrip() + b"," + orjson.dumps(dict(zip(MARKS, fate, strict=True))).removeprefix(b"{")


class LineDocuments(_Lines):
    """A document a line, in UTF-8. Marks come first, with a tab behind each."""

    def _text(self, line: bytes, number: int) -> str:
        try:
            return line.decode()
        except UnicodeDecodeError:
            raise SourceError(self.path, f"document {number} is no UTF-8") from None

    def _marked(self, line: bytes, number: int, fate: Fate) -> bytes:  # noqa: ARG002 - as of other formats
        return f"{fate[0]}\t{str(fate[1]).lower()}\t".encode() + line


class CsvDocuments:
    """A document a row, below a header that names the columns. UTF-8; tabs in .tsv, otherwise commas."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.total = path.stat().st_size
        # strict: a quote that is never closed would make one document of all that follow.
        self._form: dict[str, Any] = {"delimiter": "\t" if path.suffix.lower() == ".tsv" else ",", "strict": True}
        csv.field_size_limit(sys.maxsize)
        with path.open(encoding="utf-8-sig", newline="") as file:
            try:
                self._header = next(csv.reader(file, **self._form), [])
            except (csv.Error, UnicodeDecodeError) as error:
                raise SourceError(path, f"this is no CSV in UTF-8: {error}") from None
        if not self._header:
            raise SourceError(path, "its first line is empty, and names no column" if self.total else "the file is empty")
        if text not in self._header:
            raise SourceError(path, f'there is no column "{text}" (there are {", ".join(self._header)}): name one with --text')
        self._column = self._header.index(text)

    def progress(self, position: Position) -> int:
        return position[1]

    def _rows(self, path: Path) -> Iterator[tuple[list[str], int]]:
        """Rows that have cells, and the bytes before the next, roughly: what was read ahead counts."""
        with path.open("rb") as raw:
            lines = (line.decode("utf-8-sig" if number == 0 else "utf-8") for number, line in enumerate(raw))
            for number, row in enumerate(csv.reader(lines, **self._form)):
                if number and row:
                    yield row, raw.tell() if number % _BATCH == 0 else 0

    def texts(self, position: Position | None) -> Iterator[tuple[list[str], Position]]:
        yield from _batched(self._texts(position[0] if position else 0))

    def _texts(self, done: int) -> Iterator[tuple[str, Position]]:
        at = 0
        try:
            for number, (row, seen) in enumerate(itertools.islice(self._rows(self.path), done, None), done + 1):
                at = max(at, seen)
                if len(row) != len(self._header):
                    raise SourceError(self.path, f"document {number} has {len(row)} cells, the header {len(self._header)}")
                yield row[self._column], [number, at]
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(self.path, f"this is no CSV in UTF-8: {error}") from None

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        if mark:
            _refuse_marks(self.path, self._header)
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, **self._form)
            out.writerow([*self._header, *(MARKS if mark else ())])
            for (row, _), (cluster, keep) in zip(self._rows(self.path), fates, strict=True):
                if mark:
                    out.writerow([*row, cluster, str(keep).lower()])
                elif keep:
                    out.writerow(row)


class ParquetDocuments:
    """A document a row; all other columns, their types and the file's metadata stay."""

    def __init__(self, path: Path, text: str) -> None:
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise SourceError(path, "Parquet files are read by pyarrow, which is not installed: pip install pyarrow") from None
        self.path = path
        self._parquet: Any = pyarrow.parquet
        self._text = text
        with self._opened() as file:
            self.total = file.metadata.num_rows
            names = file.schema_arrow.names
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        bytes_ = sum(group.total_byte_size for group in groups)
        of_text = sum(
            group.column(place).total_uncompressed_size
            for group in groups
            for place in range(group.num_columns)
            if group.column(place).path_in_schema == text
        )
        self._rows_read, self._rows_written = (max(1, min(_BATCH, _BATCH_BYTES * self.total // max(1, size))) for size in (of_text, bytes_))
        if text not in names:
            raise SourceError(path, f'there is no column "{text}" (there are {", ".join(names)}): name one with --text')

    def _opened(self) -> Any:
        import pyarrow as pa

        try:
            # A column is read through a buffer, not all of a row group at once.
            return self._parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False)
        except pa.ArrowInvalid as error:
            raise SourceError(self.path, f"this is no Parquet file: {error}") from None

    def progress(self, position: Position) -> int:
        return position[0]

    def texts(self, position: Position | None) -> Iterator[tuple[list[str], Position]]:
        yield from _batched(self._texts(position[0] if position else 0))

    def _texts(self, done: int) -> Iterator[tuple[str, Position]]:
        number = 0
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=self._rows_read, columns=[self._text]):
                if number + len(batch) <= done:
                    number += len(batch)
                    continue
                for text in batch.column(0).to_pylist():
                    number += 1
                    if number <= done:
                        continue
                    if not isinstance(text, str):
                        raise _without_text(self.path, self._text, number)
                    yield text, [number, 0]

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        import pyarrow as pa

        fate = iter(fates)
        with self._opened() as file:
            schema = file.schema_arrow
            if mark:
                _refuse_marks(self.path, schema.names)
                schema = schema.append(pa.field(MARKS[0], pa.int64())).append(pa.field(MARKS[1], pa.bool_()))
            waiting: list[Any] = []
            with self._parquet.ParquetWriter(path, schema) as out:
                for batch in file.iter_batches(batch_size=self._rows_written):
                    here = list(itertools.islice(fate, len(batch)))
                    keep = pa.array([one[1] for one in here], pa.bool_())
                    if mark:
                        columns = [*batch.columns, pa.array([one[0] for one in here], pa.int64()), keep]
                        waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
                    else:
                        waiting.append(batch.filter(keep))
                    if sum(one.nbytes for one in waiting) >= _GROUP_BYTES or sum(map(len, waiting)) >= _GROUP_ROWS:
                        out.write_table(pa.Table.from_batches(waiting, schema))
                        waiting = []
                if waiting:
                    out.write_table(pa.Table.from_batches(waiting, schema))


def _without_text(path: Path, field: str, number: int) -> SourceError:
    """Of a document that has no text where the others have theirs; the first tells nothing of others."""
    advice = "name the field with --text" if number == 1 else "every document needs one: put an empty string there, or leave it out"
    return SourceError(path, f'document {number} has no string in "{field}": {advice}')


def _refuse_marks(path: Path, names: Sequence[str] | dict[str, Any]) -> None:
    taken = [name for name in MARKS if name in names]
    if taken:
        raise SourceError(path, f'documents have a field "{taken[0]}" already: leave --mark out, or rename it')
