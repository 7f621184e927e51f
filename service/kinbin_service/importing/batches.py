"""What readers hand over: batches of items, each knowing its place in the source file, and errors that name that place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_service.importing.vectors import Vector, shown

__all__ = ["BATCH_VALUES", "ROW_TEMPLATE", "Batch", "Naming", "Position", "Record", "Source", "SourceError", "gather"]

BATCH_VALUES = 4_194_304
"""Numbers a batch holds at most (32 MB of float64), however many rows were asked for: wide rows make short batches."""


ROW_TEMPLATE = "{row}"
"""How rows without ids are named: their number from 0, in plain decimal, so that id "42" is X[42]."""


class SourceError(Exception):
    """A source file cannot be read as asked: says which file, where in it, what was expected and what to do.

    `line` counts from 1 (text formats), `row` from 0 (arrays); both None when it is about the whole file.
    """

    def __init__(self, path: Path, detail: str, *, line: int | None = None, row: int | None = None) -> None:
        self.path, self.detail, self.line, self.row = path, detail, line, row
        place = f"{path}:{line}" if line is not None else f"{path}, row {row}" if row is not None else str(path)
        super().__init__(f"{place}: {detail}")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read: rows handed over, and for text the bytes and lines behind them."""

    rows: int = 0
    offset: int = 0
    """Byte offset of the next row; 0 in formats without one (a compressed archive)."""
    lines: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One item of a text file, and where the next one starts."""

    id: str
    vector: Vector
    payload: dict[str, Any] | None
    line: int
    end: Position


@dataclass(frozen=True, slots=True)
class Batch:
    """Items of consecutive rows. `end` is where the next batch starts: what is kept to resume."""

    path: Path
    ids: list[str]
    vectors: NDArray[Any] | list[Vector]
    """(n, d) array when every row is dense and of one length."""
    payloads: list[dict[str, Any] | None] | None
    lines: list[int] | None
    """The line of each item (text), or None: rows are counted from `first_row`."""
    first_row: int
    end: Position

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int | None:
        """The length of the first vector when it is dense, else None."""
        first = self.vectors[0]
        return first.shape[0] if isinstance(first, np.ndarray) else None

    def from_position(self, position: int) -> Batch:
        """The items from one position on."""
        return Batch(
            path=self.path,
            ids=self.ids[position:],
            vectors=self.vectors[position:],
            payloads=None if self.payloads is None else self.payloads[position:],
            lines=None if self.lines is None else self.lines[position:],
            first_row=self.first_row + position,
            end=self.end,
        )

    def error_at(self, position: int, detail: str) -> SourceError:
        """An error about the item at this position of the batch."""
        if self.lines is not None:
            return SourceError(self.path, detail, line=self.lines[position])
        return SourceError(self.path, detail, row=self.first_row + position)


class Source(Protocol):
    """One file as a stream of batches. Reading from a `Position` that an earlier reading gave yields the rest of the rows."""

    path: Path
    format: str
    unit: str
    """What `total` and `done()` count: "bytes" or "rows"."""
    total: int

    def batches(self, start: Position, rows: int) -> Iterator[Batch]:
        """Batches of at most `rows` items from `start` on. Raises SourceError."""
        ...

    def done(self, position: Position) -> int:
        """How much of `total` lies before a position."""
        ...

    def close(self) -> None:
        """Release the file."""
        ...


class Naming:
    """Makes ids for rows that bring none, from a template such as "{row}", "{stem}-{row}" or "{row:08d}"."""

    def __init__(self, template: str, path: Path) -> None:
        self._template = template
        self._stem = path.stem
        try:
            distinct = self.of(0) != self.of(1)
        except (LookupError, ValueError, AttributeError, TypeError):
            distinct = False
        if not distinct:
            raise SourceError(
                path, f'cannot make ids from {shown(template)}: write {{row}} and, if wanted, {{stem}}, as in "{{stem}}-{{row:08d}}"'
            )

    def of(self, row: int) -> str:
        """The id of a row, counted from 0."""
        return self._template.format(row=row, stem=self._stem)


def gather(path: Path, records: Iterable[Record], rows: int, start: Position) -> Iterator[Batch]:
    """Batches of at most `rows` records and `BATCH_VALUES` numbers."""
    held: list[Record] = []
    values = 0
    first_row = start.rows
    for record in records:
        held.append(record)
        values += _size(record.vector)
        if len(held) >= rows or values >= BATCH_VALUES:
            yield _batch(path, held, first_row)
            first_row = held[-1].end.rows
            held, values = [], 0
    if held:
        yield _batch(path, held, first_row)


def _batch(path: Path, held: list[Record], first_row: int) -> Batch:
    vectors: list[Vector] = [record.vector for record in held]
    payloads = [record.payload for record in held]
    return Batch(
        path=path,
        ids=[record.id for record in held],
        vectors=_stacked(vectors),
        payloads=payloads if any(payload is not None for payload in payloads) else None,
        lines=[record.line for record in held],
        first_row=first_row,
        end=held[-1].end,
    )


def _stacked(vectors: list[Vector]) -> NDArray[Any] | list[Vector]:
    """The vectors as one matrix where they are dense and of one length; otherwise as they are."""
    dense = [vector for vector in vectors if isinstance(vector, np.ndarray)]
    if len(dense) < len(vectors) or len({vector.shape for vector in dense}) > 1:
        return vectors
    return np.stack(dense)


def _size(vector: Vector) -> int:
    if isinstance(vector, np.ndarray):
        return int(vector.size)
    return np.size(vector.indices) if isinstance(vector, kinbin.Sparse) else len(vector.counts)
