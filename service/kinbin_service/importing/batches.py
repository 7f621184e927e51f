"""What readers hand over: batches of items, each knowing its place in the source file, and errors that name that place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_service.importing.vectors import Object, Vector, shown

__all__ = [
    "BATCH_VALUES",
    "ROW_TEMPLATE",
    "Bad",
    "BadRow",
    "Batch",
    "Columns",
    "Naming",
    "Position",
    "Record",
    "Source",
    "SourceError",
    "gather",
]

BATCH_VALUES = 4_194_304
"""Numbers a batch holds at most (32 MB of float64), however many rows were asked for: wide rows make short batches."""


ROW_TEMPLATE = "{row}"
"""How rows without ids are named: their number from 0, in plain decimal, so that id "42" is X[42]."""


class SourceError(Exception):
    """A source file cannot be read as asked: says which file, where in it, what was expected and what to do.

    `line` counts from 1 (text formats), `row` from 0 (arrays); both None when it is about the whole file.
    """

    code: str | None = None
    """Of the error by which the collection refused it, where that is of use to programs."""

    def __init__(self, path: Path, detail: str, *, line: int | None = None, row: int | None = None) -> None:
        self.path, self.detail, self.line, self.row = path, detail, line, row
        place = f"{path}:{line}" if line is not None else f"{path}, row {row}" if row is not None else str(path)
        super().__init__(f"{place}: {detail}")


class BadRow(SourceError):
    """One row cannot be read, but the next one can: what may be left out."""

    lone = True
    """Whether it is this row that is refused, and not all that are added with it."""

    def told(self, before: int) -> SourceError:
        """The error of an import that it ended, when so many rows were behind."""
        behind = f"the first {before:,} rows are imported, and the same command goes on behind them" if before else "nothing was imported"
        advice = "; --skip-bad leaves bad rows out" if self.lone else ""
        error = SourceError(self.path, f"{self.detail}. {behind.capitalize()}{advice}", line=self.line, row=self.row)
        error.code = self.code
        return error


@dataclass(frozen=True, slots=True)
class Columns:
    """What a file's contents become, in words: `64 features p0…p63, id from "id", payload year, tag`."""

    vector: str
    id: str
    payload: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    """Of dense vectors, where the file names what they are made of."""

    def __str__(self) -> str:
        named = [f"{what} {', '.join(names)}" for what, names in (("payload", self.payload), ("ignored", self.ignored)) if names]
        return ", ".join((self.vector, self.id, *named))


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
    vector: Vector | Object
    payload: dict[str, Any] | None
    line: int
    end: Position
    items: str = "vectors"
    """What `vector` is, as `kinbin.KINDS` names it."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that is no item, and where the next one starts. It counts as a row: the numbers of the others do not depend on it."""

    error: BadRow
    end: Position


@dataclass(frozen=True, slots=True)
class Batch:
    """Items of consecutive rows, but for bad ones. `end` is where the next batch starts: what is kept to resume."""

    path: Path
    ids: list[str]
    vectors: NDArray[Any] | list[Any]
    """(n, d) array when every row is dense and of one length; otherwise a list of vectors or objects."""
    payloads: list[dict[str, Any] | None] | None
    places: Sequence[int]
    """The line of each item (text), or its row."""
    in_lines: bool
    end: Position
    bad: tuple[BadRow, ...] = ()
    """What was left out between these rows."""
    items: str = "vectors"
    """What `vectors` are, as `kinbin.KINDS` names it; images by their paths, or their bytes."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dim(self) -> int | None:
        """The length of the first vector when it is dense, the numbers of a step or point, else None. The batch holds one at least."""
        first = self.vectors[0]
        if self.items != "vectors":
            # Of several fields, which are dictionaries, there is none.
            return first.shape[1] if isinstance(first, np.ndarray) and first.ndim == 2 else None
        return first.shape[0] if isinstance(first, np.ndarray) else None

    def chosen(self, positions: Sequence[int]) -> Batch:
        """The items at these positions only."""
        vectors = self.vectors
        return dataclasses.replace(
            self,
            ids=[self.ids[position] for position in positions],
            vectors=[vectors[position] for position in positions] if isinstance(vectors, list) else vectors[list(positions)],
            payloads=None if self.payloads is None else [self.payloads[position] for position in positions],
            places=[self.places[position] for position in positions],
        )

    def twice(self, position: int) -> str:
        """What is wrong with an item whose id is that of an earlier one of the batch."""
        first = self.places[self.ids.index(self.ids[position])]
        return f"the id {shown(self.ids[position])} is {'on line' if self.in_lines else 'in row'} {first} already: each item needs its own"

    def error_at(self, position: int, detail: str) -> BadRow:
        """An error about the item at this position of the batch."""
        place, object_ = self.places[position], self.vectors[position]
        if isinstance(object_, Path):
            detail = f"{object_.relative_to(self.path).as_posix()!r}: {detail}"
        return BadRow(self.path, detail, line=place) if self.in_lines else BadRow(self.path, detail, row=place)


class Source(Protocol):
    """One file as a stream of batches. Reading from a `Position` that an earlier reading gave yields the rest of the rows."""

    path: Path
    format: str
    unit: str
    """What `total` and `done()` count: "bytes" or "rows"."""
    total: int
    columns: Columns
    empty: int
    """Empty lines that were passed over until now, of formats in which they might have been meant as items."""

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on; with `skip_bad` a batch may be without items. Raises SourceError."""
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

    @property
    def by_row(self) -> bool:
        """Whether ids are plain row numbers, as they are where nobody asked for others."""
        return self._template == ROW_TEMPLATE

    @property
    def told(self) -> str:
        """Where ids come from, in words."""
        return "id from row numbers" if self.by_row else f"id from {self._template}"

    def of(self, row: int) -> str:
        """The id of a row, counted from 0."""
        return self._template.format(row=row, stem=self._stem)


def gather(path: Path, records: Iterable[Record | Bad], rows: int, start: Position, *, skip_bad: bool) -> Iterator[Batch]:
    """Batches of at most `rows` rows and `BATCH_VALUES` numbers. Without `skip_bad`, raises the error of a bad row."""
    held: list[Record] = []
    bad: list[BadRow] = []
    values = 0
    end = start
    for record in records:
        if isinstance(record, Record):
            held.append(record)
            values += _size(record.vector)
        elif skip_bad:
            bad.append(record.error)
        else:
            raise record.error
        end = record.end
        if len(held) + len(bad) >= rows or values >= BATCH_VALUES:
            yield _batch(path, held, bad, end)
            held, bad, values = [], [], 0
    if held or bad:
        yield _batch(path, held, bad, end)


def _batch(path: Path, held: list[Record], bad: list[BadRow], end: Position) -> Batch:
    items = held[0].items if held else "vectors"
    vectors: list[Any] = [record.vector for record in held]
    payloads = [record.payload for record in held]
    return Batch(
        path=path,
        ids=[record.id for record in held],
        vectors=_stacked(vectors) if vectors and items == "vectors" else vectors,
        payloads=payloads if any(payload is not None for payload in payloads) else None,
        places=[record.line for record in held],
        in_lines=True,
        end=end,
        bad=tuple(bad),
        items=items,
    )


def _stacked(vectors: list[Vector]) -> NDArray[Any] | list[Vector]:
    """The vectors as one matrix where they are dense and of one length; otherwise as they are."""
    dense = [vector for vector in vectors if isinstance(vector, np.ndarray)]
    if len(dense) < len(vectors) or len({vector.shape for vector in dense}) > 1:
        return vectors
    return np.stack(dense)


def _size(vector: Any) -> int:
    """Numbers, characters or bytes of a vector, an object, or of the vectors of several fields."""
    if isinstance(vector, dict):
        return sum(map(_size, vector.values()))
    if isinstance(vector, np.ndarray):
        return int(vector.size)
    if isinstance(vector, str | bytes):
        return len(vector)
    return np.size(vector.indices) if isinstance(vector, kinbin.Sparse) else len(vector.counts)
