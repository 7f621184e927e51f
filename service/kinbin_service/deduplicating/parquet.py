"""Documents in a Parquet file, a row each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kinbin_service.deduplicating.memory import PER_CHARACTER, limited, longest
from kinbin_service.deduplicating.source import BATCH, MARKS, Fate, Position, batched, refuse_marks, too_long, without_text
from kinbin_service.importing import SourceError

__all__ = ["ParquetDocuments"]

_BATCH_BYTES = 4 << 20
_MOST_BYTES = 16 << 20
"""Of a batch: rows may be far longer than those of their group are on average, or one value stands in many."""
_UTF8 = 4
"""Bytes of a character, at most."""
_BUFFER = 1 << 18
"""Of a column that is read."""
_GROUP_BYTES, _GROUP_ROWS = 16 << 20, 100_000
"""Of a row group that is written, or so."""


class ParquetDocuments:
    """A document a row; all other columns, their types and the file's metadata stay."""

    def __init__(self, path: Path, text: str, memory_mb: int) -> None:
        # Other allocators take a gigabyte of addresses ahead of need, which no limit sees being used.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        try:
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise SourceError(path, "Parquet files are read by pyarrow, which is not installed: pip install pyarrow") from None
        self.path = path
        self._parquet: Any = pyarrow.parquet
        # Half of the memory is for the texts at hand, and half for what is read.
        self._text, self._longest = text, longest(memory_mb) // 2
        self._most_reading, self._most = (memory_mb << 20) - self._longest * PER_CHARACTER, memory_mb << 20
        with self._opened() as file:
            self.total = file.metadata.num_rows
            names = file.schema_arrow.names
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
        """Rows."""
        done, _ = position
        return done

    def texts(self, position: Position | None) -> Iterator[tuple[list[str], Position]]:
        """Batches of texts; groups before the position are not read."""
        yield from batched(self.path, self._texts(position[0] if position else 0), self._longest)

    def _texts(self, done: int) -> Iterator[tuple[str, Position]]:
        with self._opened() as file:
            number = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if number + rows <= done:
                    number += rows
                    continue
                for batch in self._batches(file, group, self._most_reading, [self._text]):
                    for text in self._strings(batch.column(0), number):
                        number += 1
                        if number <= done:
                            continue
                        if not isinstance(text, str):
                            raise without_text(self.path, self._text, number)
                        yield text, [number, 0]

    def _strings(self, column: Any, before: int) -> Iterator[Any]:
        """The values of a column; of many bytes not all at once, and none that is longer than any text may be. before: documents."""
        if column.nbytes <= _BATCH_BYTES:
            yield from column.to_pylist()
            return
        most = _UTF8 * self._longest
        for number, value in enumerate(column, before + 1):
            text: Any = getattr(value, "value", value)
            size = text.as_buffer().size if value.is_valid and hasattr(text, "as_buffer") else 0
            if size > most:
                raise too_long(self.path, number, f"{size:,} bytes", f"{self._longest:,} characters")
            yield value.as_py()

    def _batches(self, file: Any, group: int, most: int, columns: list[str] | None = None) -> Iterator[Any]:
        """Batches of the rows of a group, of 4 MB or so; where they become more, all that follow have fewer rows.

        most: bytes that the process may hold. columns: those that are read; None: all.

        Raises:
            SourceError: not even a row can be read within the memory.
        """
        import pyarrow

        rows = _rows_of(file.metadata.row_group(group), columns)
        given = 0
        while True:
            place = 0
            # What was freed, and not given back, counts.
            pyarrow.default_memory_pool().release_unused()
            try:
                for batch in _limited(file.iter_batches(rows, [group], columns, use_threads=False), most):
                    if batch.nbytes > _MOST_BYTES and rows > 1:
                        break
                    if place + len(batch) > given:
                        yield batch.slice(max(0, given - place))
                    place += len(batch)
                    given = max(given, place)
                else:
                    return
            except MemoryError:
                if rows == 1:
                    raise _too_large(self.path, f"a page or a row of row group {group}") from None
            batch = None
            rows = max(1, rows // 8)

    def write(self, path: Path, fates: Iterable[Fate], *, mark: bool) -> None:
        """Write rows as they are, group by group of 16 MB or so."""
        import pyarrow as pa

        fate = iter(fates)
        with self._opened() as file:
            schema = file.schema_arrow
            if mark:
                refuse_marks(self.path, schema.names)
                schema = schema.append(pa.field(MARKS[0], pa.int64())).append(pa.field(MARKS[1], pa.bool_()))
            waiting: list[Any] = []
            with self._parquet.ParquetWriter(path, schema) as out:
                batches = (self._batches(file, group, self._most) for group in range(file.num_row_groups))
                for batch in itertools.chain.from_iterable(batches):
                    here = list(itertools.islice(fate, len(batch)))
                    keep = pa.array([one[1] for one in here], pa.bool_())
                    if mark:
                        columns = [*batch.columns, pa.array([one[0] for one in here], pa.int64()), keep]
                        waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
                    else:
                        waiting.append(batch.filter(keep))
                    if sum(one.nbytes for one in waiting) >= _GROUP_BYTES or sum(map(len, waiting)) >= _GROUP_ROWS:
                        self._write_group(out, pa.Table.from_batches(waiting, schema))
                        waiting = []
                if waiting:
                    self._write_group(out, pa.Table.from_batches(waiting, schema))

    def _write_group(self, out: Any, table: Any) -> None:
        try:
            with limited(self._most):
                out.write_table(table)
        except MemoryError:
            raise _too_large(self.path, f"a row group of {table.nbytes:,} bytes, as it is written,") from None


def _limited(batches: Iterator[Any], most: int) -> Iterator[Any]:
    """Batches, whose reading raises MemoryError where it would take more."""
    while True:
        with limited(most):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _rows_of(group: Any, columns: list[str] | None) -> int:
    """How many rows of a row group make a batch, by what its columns take on average."""
    parts = (group.column(place) for place in range(group.num_columns))
    size = sum(one.total_uncompressed_size for one in parts if columns is None or one.path_in_schema in columns)
    return int(max(1, min(BATCH, _BATCH_BYTES * group.num_rows // max(1, size))))


def _too_large(path: Path, what: str) -> SourceError:
    return SourceError(path, f"{what} needs more memory than is allowed: raise --memory, or have the file written with smaller pages")
