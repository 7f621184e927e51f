"""Documents in a Parquet file, a row each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kinbin_service.deduplicating.memory import PER_CHARACTER, give_back, longest
from kinbin_service.deduplicating.row_groups import BATCH_BYTES, batches, opened, parts, within
from kinbin_service.deduplicating.source import MARKS, Fate, Position, batched, no_utf8, refuse_marks, too_long, without_text
from kinbin_service.importing import SourceError

__all__ = ["ParquetDocuments"]

_UTF8 = 4
"""Bytes of a character, at most."""
_GROUP_BYTES, _GROUP_ROWS, _GROUP_BATCHES = 16 << 20, 100_000, 1_000
"""Of a row group that is written, or so."""


class ParquetDocuments:
    """A document a row; all other columns, their types and the file's metadata stay."""

    def __init__(self, path: Path, text: str, memory_mb: int) -> None:
        # Other allocators take a gigabyte of addresses ahead of need, which no limit sees being used.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        give_back()
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise SourceError(path, "Parquet files are read by pyarrow, which is not installed: pip install pyarrow") from None
        self.path = path
        self._parquet: Any = pyarrow.parquet
        # Half of the memory is for the texts at hand, and half for what is read.
        self._text, self._longest = text, longest(memory_mb) // 2
        self._most_reading, self._most = (memory_mb << 20) - self._longest * PER_CHARACTER, memory_mb << 20
        with opened(path, self._most) as file:
            self.total = file.metadata.num_rows
            self._names = names = file.schema_arrow.names
        if text not in names:
            raise SourceError(path, f'there is no column "{text}" (there are {", ".join(names)}): name one with --text')
        if names.count(text) > 1:
            raise SourceError(path, f'there are {names.count(text)} columns "{text}": rename all but one')

    def progress(self, position: Position) -> int:
        """Rows."""
        done, _ = position
        return done

    def texts(self, position: Position | None, *, mark: bool = False) -> Iterator[tuple[list[str], Position]]:
        """Batches of texts; groups before the position are not read."""
        if mark:
            refuse_marks(self.path, self._names)
        yield from batched(self.path, self._texts(position[0] if position else 0), self._longest)

    def _texts(self, done: int) -> Iterator[tuple[str, Position]]:
        with opened(self.path, self._most_reading) as file:
            number = 0
            for part in parts(file, self._text):
                if number + part.rows <= done:
                    number += part.rows
                    continue
                for batch in batches(self.path, file, part, self._most_reading, self._text):
                    for text in self._strings(batch.column(self._text), number):
                        number += 1
                        if number <= done:
                            continue
                        if not isinstance(text, str):
                            raise without_text(self.path, self._text, number)
                        yield text, [number, 0]

    def _strings(self, column: Any, before: int) -> Iterator[Any]:
        """The values of a column; of many bytes not all at once, and none that is longer than any text may be. before: documents."""
        # A value of a dictionary counts once, and may stand in every row.
        if column.nbytes * (len(column) if hasattr(column, "dictionary") else 1) <= BATCH_BYTES:
            # One that is no text is told below, by its number.
            with suppress(UnicodeDecodeError):
                yield from column.to_pylist()
                return
        most = _UTF8 * self._longest
        for number, value in enumerate(column, before + 1):
            text: Any = getattr(value, "value", value)
            size = text.as_buffer().size if value.is_valid and hasattr(text, "as_buffer") else 0
            if size > most:
                raise too_long(self.path, number, f"{size:,} bytes", f"{self._longest:,} characters")
            try:
                found = value.as_py()
            except UnicodeDecodeError:
                raise no_utf8(self.path, number) from None
            yield found

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        """Write rows as they are, group by group of 16 MB or so."""
        import pyarrow as pa

        # It imports what it needs at the first use, and Python is not at its best where there is no memory.
        pa.RecordBatch.from_arrays([pa.array([True])], ["ready"]).filter(pa.array([True]))
        fate = iter(fates)
        with opened(self.path, self._most) as file:
            schema = file.schema_arrow
            if mark:
                refuse_marks(self.path, schema.names)
                schema = schema.append(pa.field(MARKS[0], pa.int64())).append(pa.field(MARKS[1], pa.bool_()))
            with self._parquet.ParquetWriter(path, schema) as out:
                group = _Group(self.path, out, schema, self._most)
                for part in parts(file):
                    for batch in batches(self.path, file, part, self._most):
                        group.add(batch, list(itertools.islice(fate, len(batch))), mark=mark)
                group.write()


class _Group:
    """Rows that wait for being written."""

    def __init__(self, source: Path, out: Any, schema: Any, most: int) -> None:
        self._source, self._out, self._schema, self._most = source, out, schema, most
        self._waiting: list[Any] = []
        self._bytes = self._rows = 0

    def add(self, batch: Any, fates: list[Fate], *, mark: bool) -> None:
        """Rows of the source, and what became of each."""
        import pyarrow as pa

        if self._bytes + batch.nbytes > _GROUP_BYTES:
            self.write()
        with within(self._source, self._most, batch.nbytes):
            keep = pa.array([keep for _, keep in fates], pa.bool_())
            if mark:
                columns = [*batch.columns, pa.array([cluster for cluster, _ in fates], pa.int64()), keep]
                self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
            else:
                self._waiting += _kept(batch, keep)
        self._bytes += batch.nbytes
        self._rows += len(batch)
        if self._bytes >= _GROUP_BYTES or self._rows >= _GROUP_ROWS or len(self._waiting) >= _GROUP_BATCHES:
            self.write()

    def write(self) -> None:
        """Write them as a row group, if there are some."""
        import pyarrow as pa

        if self._waiting:
            with within(self._source, self._most, self._bytes):
                self._out.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting.clear()
        self._bytes = self._rows = 0


def _kept(batch: Any, keep: Any) -> list[Any]:
    """The rows that are kept: a copy, or, of types that pyarrow cannot choose from, the runs of rows between those that are not."""
    import pyarrow as pa

    try:
        return [batch.filter(keep)]
    except pa.ArrowNotImplementedError:
        runs, place = [], 0
        for stays, run in itertools.groupby(keep.to_pylist()):
            length = sum(1 for _ in run)
            if stays:
                runs.append(batch.slice(place, length))
            place += length
        return runs
