"""CSV: one dense vector a line, every column a feature but the id and those that are named otherwise; or one string a line."""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kinbin
from kinbin_service.importing.batches import Bad, BadRow, Batch, Columns, Naming, Position, Record, SourceError, gather
from kinbin_service.importing.lines import Lines
from kinbin_service.importing.vectors import payload_value, shown

__all__ = ["CsvFile", "Roles"]

_NO_FEATURES = frozenset({
    "", "unnamed: 0",  # the index that pandas writes, and how it reads it again
    "id", "ids", "_id", "uid", "uuid", "guid", "key", "index", "idx", "row", "rowid", "row_id", "item", "item_id",
    "name", "title", "label", "labels", "class", "classes", "target", "targets", "date", "datetime", "timestamp",
})  # fmt: skip
"""Names, in lower case, of columns that are hardly ever features. As one, such a column would spoil every score without a word."""

_LAST_WORDS = frozenset({
    "id", "ids", "uid", "uuid", "guid", "key", "index", "idx", "no", "nr",
    "name", "title", "label", "class", "target", "date", "datetime", "timestamp",
})  # fmt: skip
"""Last words, in lower case, of names of several words that are hardly ever features: `user_id`, `productNo`, `created timestamp`."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_IDS = frozenset({"id", "ids", "_id", "uid", "uuid", "guid", "item_id", "row_id", "rowid"})
"""Names, in lower case, of columns that hold ids. Where columns that are not named are left out, these ids would be lost without a word."""

_FIRST_ROWS = 20


@dataclass(frozen=True, slots=True)
class _Columns:
    """What each column of the file is."""

    names: list[str]
    id: int | None
    payload: list[int]
    vector: list[int]
    string: int | None = None


@dataclass(frozen=True, slots=True)
class Roles:
    """What the user said about columns, by their names or positions. The others are features, too."""

    id: str | None = None
    payload: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    string: str | None = None
    """Of strings: the items are those then, and columns that are not named are left out."""

    @property
    def named(self) -> tuple[str, ...]:
        """Every column that was named."""
        return (*(one for one in (self.id, self.string) if one is not None), *self.payload, *self.ignored, *self.features)


class CsvFile:
    """A CSV file as a source of batches of dense vectors.

    A column is named by its name in the header, or by its position from 0. `header` says whether the first line is one; None finds
    out: it is when a column is named by what is no position, or when no cell of a vector column is a number.
    Columns that are not named are features, unless their names or first cells make that doubtful, which is refused.
    The delimiter is a tab for `.tsv`, otherwise the most frequent of `,` `;` and tab in the first line, unless given.
    Rows are counted from 0 without the header; blank lines are skipped.
    """

    format = "csv"
    unit = "bytes"
    empty = 0

    def __init__(
        self,
        path: Path,
        *,
        naming: Naming,
        roles: Roles = Roles(),
        delimiter: str | None = None,
        header: bool | None = None,
    ) -> None:
        self.path = path
        self._naming = naming
        self._file = path.open("rb")
        self.total = path.stat().st_size
        try:
            self._delimiter = delimiter or self._guess_delimiter()
            self._read_head(roles, header)
        except BaseException:
            self._file.close()
            raise

    def batches(self, start: Position, rows: int, *, skip_bad: bool = False) -> Iterator[Batch]:
        """Batches of at most `rows` rows from `start` on."""
        return gather(self.path, self._records(start), rows, start, skip_bad=skip_bad)

    def done(self, position: Position) -> int:
        """Bytes before a position."""
        return position.offset

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # ------------------------------------------------------------------ the first line

    def _guess_delimiter(self) -> str:
        if self.path.suffix.lower() == ".tsv":
            return "\t"
        first = next(Lines(self.path, self._file), "")
        return max(",;\t", key=first.count)

    def _read_head(self, roles: Roles, header: bool | None) -> None:
        lines = Lines(self.path, self._file)
        first = next((cells for cells, _ in self._rows(lines) if cells), None)
        if first is None:
            raise SourceError(self.path, "the file is empty: expected one vector a line")
        if isinstance(first, BadRow):
            raise first
        positions = [str(position) for position in range(len(first))]
        if header is None and any(not name.isdecimal() for name in roles.named):
            header = True
        if header is None and roles.string is not None:
            raise SourceError(self.path, "cannot tell whether this line is a header or a row: say --header or --no-header", line=1)
        if header is None:
            header = self._looks_like_header([first[column] for column in self._assign(positions, roles).vector])
        self._named = header
        self._columns = self._assign(first if header else positions, roles)
        self._data = Position(0, lines.offset, lines.number) if header else Position()
        self._refuse_doubtful_features(roles)
        self._refuse_lost_ids(roles)
        self.columns = self._told(roles)

    def _refuse_doubtful_features(self, roles: Roles) -> None:
        """Refuse columns that nobody assigned and that are hardly features, by their names or by their first cells: all of them at once."""
        sure = {self._find(self._columns.names, name) for name in roles.features}
        lines = Lines(self.path, self._file, self._data)
        rows = (cells for cells, _ in self._rows(lines) if isinstance(cells, list) and len(cells) == len(self._columns.names))
        first = list(itertools.islice(rows, _FIRST_ROWS))
        doubtful = {}
        for column in self._columns.vector:
            name = self._columns.names[column].strip()
            if first and all(_number(cells[column]) is None for cells in first):
                comma = " (numbers need a decimal point)" if _number(first[0][column].replace(",", ".")) is not None else ""
                doubtful[name] = f"column {shown(name)} has no number in its first rows ({shown(first[0][column])}){comma}"
            elif column not in sure and _is_hardly_a_feature(name):
                doubtful[name] = f"column {shown(name)} is hardly a feature, by its name"
        if doubtful:
            told = "; ".join(itertools.islice(doubtful.values(), 8)) + (f"; and {len(doubtful) - 8} more" if len(doubtful) > 8 else "")
            advice = "say what it is with --id-column, --payload-columns, --ignore-columns or, if it is one, --feature-columns"
            raise SourceError(self.path, f"{told}: {advice}", line=self._data.lines or 1)

    def _refuse_lost_ids(self, roles: Roles) -> None:
        """Refuse a column of ids that nobody assigned, where the items are strings and ids would be row numbers."""
        columns = self._columns
        if columns.string is None or columns.id is not None or not self._naming.by_row:
            return
        named = {columns.string, *columns.payload, *(self._find(columns.names, name) for name in roles.ignored)}
        for column, name in enumerate(columns.names):
            if column not in named and name.strip().casefold() in _IDS:
                advice = "say whether it is with --id-column or --ignore-columns"
                raise SourceError(self.path, f"column {shown(name.strip())} holds ids, by its name: {advice}", line=1)

    def _told(self, roles: Roles) -> Columns:
        columns = self._columns
        names = [columns.names[column].strip() for column in columns.vector]
        if columns.string is not None:
            taken = {columns.id, columns.string, *columns.payload}
            left = tuple(name.strip() for column, name in enumerate(columns.names) if column not in taken)
            told = self._naming.told if columns.id is None else f'id from "{columns.names[columns.id].strip()}"'
            payload = tuple(columns.names[column].strip() for column in columns.payload)
            return Columns(f'strings from "{columns.names[columns.string].strip()}"', told, payload, left)
        vector = f"1 feature {names[0]}" if len(names) == 1 else f"{len(names):,} features {names[0]}…{names[-1]}"
        identifier = self._naming.told if columns.id is None else f'id from "{columns.names[columns.id].strip()}"'
        payload = tuple(columns.names[column].strip() for column in columns.payload)
        return Columns(vector, identifier, payload, roles.ignored, tuple(names) if self._named and _tell(names) else ())

    def _looks_like_header(self, cells: list[str]) -> bool:
        """Whether the first line is a header: all text is one, all numbers are data. Guesses nothing that would lose or invent a row."""
        numbers = [_number(cell) for cell in cells]
        counted = len(cells) > 2 and numbers in ([float(n) for n in range(len(cells))], [float(n + 1) for n in range(len(cells))])
        if counted or None in numbers:
            if any(number is not None for number in numbers):
                raise SourceError(self.path, "cannot tell whether this line is a header or a row: say --header or --no-header", line=1)
            return True
        return False

    def _assign(self, names: list[str], roles: Roles) -> _Columns:
        identifier = None if roles.id is None else self._find(names, roles.id)
        payload_at = [self._find(names, name) for name in roles.payload]
        taken = {identifier, *payload_at, *(self._find(names, name) for name in roles.ignored)}
        for name in roles.features:
            if self._find(names, name) in taken:
                raise SourceError(self.path, f"column {shown(name)} is named as a feature and as something else: choose one")
        if roles.string is not None:
            string = self._find(names, roles.string)
            if string in taken:
                raise SourceError(self.path, f"column {shown(roles.string)} is named as the string and as something else: choose one")
            return _Columns(names, identifier, payload_at, [], string)
        vector = [column for column in range(len(names)) if column not in taken]
        if not vector:
            raise SourceError(self.path, "no column is left for the vector", line=1)
        return _Columns(names, identifier, payload_at, vector)

    def _find(self, names: list[str], name: str) -> int:
        """The column with this name, or at this position."""
        found = [column for column, present in enumerate(names) if present.strip() == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise SourceError(self.path, f"{len(found)} columns are named {shown(name)}: name it by its position from 0", line=1)
        if name.isdecimal() and int(name) < len(names):
            return int(name)
        raise SourceError(
            self.path, f"no column {shown(name)}: the columns are {', '.join(names[:8])}{', …' if len(names) > 8 else ''}", line=1
        )

    # ------------------------------------------------------------------ rows

    def _rows(self, lines: Lines) -> Iterator[tuple[list[str] | BadRow, int]]:
        """The cells of each row, or what is wrong with it, and the line it starts on. Takes no line before it is needed.

        A quoted cell may span lines. Behind one that is never closed nobody knows where the next row starts: that is an error of the file.
        """
        reader = csv.reader(lines, delimiter=self._delimiter, strict=True)
        while True:
            line = lines.number + 1
            try:
                yield next(reader), line
            except StopIteration:
                return
            except (csv.Error, BadRow) as error:
                detail = f"not CSV ({error}): a cell with quotes or line breaks must be quoted, and every quote closed"
                told = error if isinstance(error, BadRow) else BadRow(self.path, detail, line=line)
                if lines.number > line:
                    raise SourceError(self.path, told.detail, line=line) from None
                yield told, line

    def _records(self, start: Position) -> Iterator[Record | Bad]:
        lines = Lines(self.path, self._file, start if start.rows else self._data)
        row = start.rows
        for cells, line in self._rows(lines):
            if not cells:
                continue
            end = Position(row + 1, lines.offset, lines.number)
            try:
                yield self._record(cells, row, line, end)
            except BadRow as error:
                yield Bad(error, end)
            row += 1

    def _record(self, cells: list[str] | BadRow, row: int, line: int, end: Position) -> Record:
        """The item of a row. Raises BadRow."""
        if isinstance(cells, BadRow):
            raise cells
        columns = self._columns
        width = len(columns.names)
        if len(cells) != width:
            detail = f"expected {width} cells, as in the first line, got {len(cells)} (delimiter {shown(self._delimiter)})"
            raise BadRow(self.path, detail, line=line)
        payload = {columns.names[column].strip(): payload_value(cells[column]) for column in columns.payload if cells[column] != ""}
        identifier = self._naming.of(row) if columns.id is None else cells[columns.id]
        if columns.string is not None:
            return Record(identifier, cells[columns.string], payload or None, line, end, "strings")
        return Record(identifier, self._vector(cells, line), payload or None, line, end)

    def _vector(self, cells: list[str], line: int) -> NDArray[np.float64]:
        texts = [cells[column] for column in self._columns.vector]
        try:
            numbers = list(map(float, texts))
        except ValueError:
            numbers = []
        # float() takes "1_000"; the most likely meaning of one in a file is a name, not a number.
        if not numbers or not all(map(math.isfinite, numbers)) or "_" in "".join(texts):
            wrong = next(column for column in self._columns.vector if not _is_finite(_number(cells[column])))
            name, cell = self._columns.names[wrong], cells[wrong]
            got = f"got {shown(cell)}" if cell.strip() else "the cell is empty"
            finite = "finite " if _number(cell) is not None else ""
            advice = "correct it, or name the column in --id-column, --payload-columns or --ignore-columns"
            raise BadRow(self.path, f"column {shown(name)}: expected a {finite}number, {got}: {advice}", line=line)
        return np.array(numbers, dtype=np.float64)


def _is_hardly_a_feature(name: str) -> bool:
    """Whether a column is hardly ever one, by its name."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return name.casefold() in _NO_FEATURES or (len(words) > 1 and words[-1] in _LAST_WORDS)


def _is_finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)


def _tell(names: list[str]) -> bool:
    """Whether these say more of features than their places, and may be declared with a collection."""
    longest, most = kinbin.LIMITS["feature_name"].value, kinbin.LIMITS["feature_names"].value
    fit = len(names) <= most and all(name and len(name) <= longest for name in names)
    return fit and names not in ([str(place) for place in range(start, start + len(names))] for start in (0, 1))


def _number(text: str) -> float | None:
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
