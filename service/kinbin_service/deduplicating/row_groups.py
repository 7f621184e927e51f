"""Rows of a Parquet file in batches, within a memory that the system keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinbin_service.deduplicating.memory import limited
from kinbin_service.deduplicating.source import BATCH
from kinbin_service.importing import SourceError

__all__ = ["BATCH_BYTES", "Part", "batches", "opened", "parts", "within"]

BATCH_BYTES = 4 << 20
_MOST_BYTES = 16 << 20
"""Of a batch: rows may be far longer than those of their group are on average, or one value stands in many."""
_BUFFER = 1 << 18
"""Of a column that is read."""


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups that are read at once: one, or several small ones, which would cost more to begin with than to read."""

    groups: range
    rows: int
    at_a_time: int
    """Rows of a batch of 4 MB or so, by what they take on average."""


@contextmanager
def opened(path: Path, most: int) -> Iterator[Any]:
    """A file, with its footer in memory. most: bytes that the process may hold.

    Raises:
        SourceError: it is no Parquet file, is damaged, or its footer does not fit.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with limited(most):
            # A column is read through a buffer, not all of a row group at once.
            file = parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
    except MemoryError:
        raise _too_large(path, "its footer") from None
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        if "bad_alloc" in str(error):
            raise _too_large(path, "its footer") from None
        raise SourceError(path, f"this is no Parquet file: {_line(error)}") from None
    with file:
        yield file


def parts(file: Any, column: str | None = None) -> Iterator[Part]:
    """What a file is read in. column: the one that is read; None: all."""
    about = file.metadata
    leaves = [
        place
        for place in range(about.num_columns)
        if column is None or about.schema.column(place).path.split(".")[0] == column or about.schema.column(place).path == column
    ]
    first, rows, size = 0, 0, 0
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        here = sum(group.column(place).total_uncompressed_size for place in leaves)
        if number > first and size + here > BATCH_BYTES:
            yield _part(range(first, number), rows, size)
            first, rows, size = number, 0, 0
        rows, size = rows + group.num_rows, size + here
    if rows:
        yield _part(range(first, about.num_row_groups), rows, size)


def _part(groups: range, rows: int, size: int) -> Part:
    return Part(groups, rows, int(max(1, min(BATCH, BATCH_BYTES * rows // max(1, size)))))


def batches(path: Path, file: Any, part: Part, most: int, column: str | None = None) -> Iterator[Any]:
    """The rows of a part. Where a batch becomes too much, all that follow have fewer rows.

    most: bytes that the process may hold. column: the one that is read; None: all.

    Raises:
        SourceError: what is read is damaged, or not even a row of it fits.
    """
    import pyarrow as pa

    rows, given, columns = part.at_a_time, 0, None if column is None else [column]
    what = f"row group {part.groups[0]}" if len(part.groups) == 1 else f"row groups {part.groups[0]} to {part.groups[-1]}"
    while True:
        place = 0
        try:
            for batch in _limited(file.iter_batches(rows, list(part.groups), columns, use_threads=False), most):
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
                raise _too_large(path, f"a page or a row of {what}") from None
        except pa.ArrowNotImplementedError as error:
            # Some types are read from one row group only.
            if len(part.groups) == 1 or given:
                raise SourceError(path, f"{what} cannot be read: {_line(error)}") from None
            for number in part.groups:
                alone = Part(range(number, number + 1), file.metadata.row_group(number).num_rows, part.at_a_time)
                yield from batches(path, file, alone, most, column)
            return
        except (pa.ArrowException, OSError) as error:
            raise SourceError(path, f"{what} cannot be read: {_line(error)}") from None
        batch = None
        rows = max(1, rows // 8)


@contextmanager
def within(path: Path, most: int, size: int) -> Iterator[None]:
    """For what is made of rows that were read, of so many bytes.

    Raises:
        SourceError: it takes more memory than there is.
    """
    try:
        with limited(most):
            yield
    except MemoryError:
        raise _too_large(path, f"what is written at once, {size:,} bytes and their copies,") from None


def _limited(batches: Iterator[Any], most: int) -> Iterator[Any]:
    """Batches, whose reading raises MemoryError where it would take more."""
    while True:
        with limited(most):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _too_large(path: Path, what: str) -> SourceError:
    return SourceError(path, f"{what} needs more memory than is allowed: raise --memory, or have the file written with smaller pages")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
