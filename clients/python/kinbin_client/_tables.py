"""Tables, by columns: what `add` takes of a DataFrame of pandas or polars, of a pyarrow Table, or of a mapping of columns.

They are recognised by what they offer, and none of their packages is imported.

    column of ids        strings; whole numbers become their digits
    column of vectors    a vector, or an object, in each row; or several columns of numbers, which are a dense vector a row
    other columns        fields of payloads: missing values leave their field out, dates and times become ISO 8601
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, overload

from kinbin_client._requests import id_list
from kinbin_client.errors import InvalidArgument

__all__ = ["Columns", "VectorColumns", "read_table"]

VectorColumns: TypeAlias = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""A column of vectors or objects, several columns of numbers, or either by field."""
_NAMES_TOLD = 8
_NO_JSON = Decimal, bytes, timedelta


class Columns(NamedTuple):
    """The arguments of an add."""

    ids: list[str]
    vectors: Any
    payloads: Sequence[dict[str, Any] | None] | None


def read_table(table: Any, id: str, vectors: VectorColumns, payload: Sequence[str] | None) -> Columns:
    """What a table holds; InvalidArgument for what is no table, for a column that it has not, and for an id that is none.

    payload: the columns of fields; None: all that hold neither ids nor vectors.
    """
    names = _names(table)
    by_field = {field: _listed(columns) for field, columns in vectors.items()} if isinstance(vectors, Mapping) else {}
    used = [name for columns in by_field.values() for name in columns] if by_field else _listed(vectors)
    fields = [name for name in names if name != id and name not in used] if payload is None else _listed(payload)
    for name in (id, *used, *fields):
        _check(name, names)
    ids = id_list(_values(table[id]))
    given = {field: _vectors(table, vectors[field]) for field in by_field} if isinstance(vectors, Mapping) else _vectors(table, vectors)
    contents = {name: _values(table[name]) for name in fields}
    for name, values in contents.items():
        if len(values) != len(ids):
            text = f"the columns {id!r} and {name!r} have {len(ids)} and {len(values)} values; a row has one of each"
            raise InvalidArgument(text, code="bad_parameter")
    return Columns(ids, given, _Payloads(contents, len(ids)) if fields else None)


class _Payloads(Sequence[dict[str, Any] | None]):
    """The payloads of rows, each made when it is asked for: None where a row has no value."""

    def __init__(self, columns: Mapping[str, Sequence[Any]], rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    @overload
    def __getitem__(self, at: int) -> dict[str, Any] | None: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any] | None]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[row] for row in range(self._rows)[at]]
        row = {name: values[at] for name, values in self._columns.items()}
        return {name: _plain(name, value) for name, value in row.items() if value is not None} or None


def _names(table: Any) -> list[str]:
    """The names of the columns."""
    if hasattr(type(table), "collect") and not isinstance(table, Mapping):
        text = f"a {type(table).__name__} has no rows yet: pass the table that its collect() gives"
        raise InvalidArgument(text, code="bad_parameter")
    if isinstance(table, Mapping):
        found: Iterable[Any] = table
    elif hasattr(table, "column_names"):
        found = table.column_names
    elif hasattr(table, "columns") and hasattr(table, "__getitem__") and not hasattr(table, "tocsr"):
        found = table.columns
    else:
        text = f"a table is a DataFrame of pandas or polars, a pyarrow Table, or a mapping of columns, not {type(table).__name__}"
        raise InvalidArgument(text, code="bad_parameter")
    names = list(found)
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise InvalidArgument(f"names of columns are strings, each once: not {name!r}"[:160], code="bad_parameter")
    return names


def _listed(names: Any) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _check(name: object, names: Sequence[str]) -> None:
    if name not in names:
        told = ", ".join(names[:_NAMES_TOLD]) + (", …" if len(names) > _NAMES_TOLD else "")
        raise InvalidArgument(f"the table has no column {str(name)[:40]!r}; it has {told}", code="bad_parameter")


def _values(column: Any) -> list[Any]:
    """The values of a column as Python has them, None where one is missing."""
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    if hasattr(column, "to_list"):
        values = list(column.to_list())
        # pandas marks what is missing in several ways, polars by None alone.
        gone = column.isna().tolist() if hasattr(column, "isna") else ()
        return [None if missing else value for value, missing in zip(values, gone, strict=True)] if any(gone) else values
    if isinstance(column, str | bytes | Mapping) or not isinstance(column, Iterable):
        raise InvalidArgument(f"a column is a list of values, not {type(column).__name__}", code="bad_parameter")
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _vectors(table: Any, columns: str | Sequence[str]) -> Any:
    """A vector or object of each row. A 2-d array where the table has one, which travels as it is."""
    if isinstance(columns, str):
        column = table[columns]
        if hasattr(column, "dtype") and len(getattr(column, "shape", ())) == 2:
            return column
        array = column.to_numpy() if hasattr(getattr(column, "dtype", None), "shape") and hasattr(column, "to_numpy") else None
        return _values(column) if array is None or array.ndim != 2 else array
    named = list(columns)
    if not named:
        raise InvalidArgument("vectors name a column, or several columns of numbers", code="bad_parameter")
    if hasattr(table, "loc"):
        return table.loc[:, named].to_numpy()
    if hasattr(table, "select") and hasattr(table, "to_numpy"):
        return table.select(named).to_numpy()
    return [list(row) for row in zip(*(_values(table[name]) for name in named), strict=True)]


def _plain(name: str, value: Any) -> Any:
    """A value of a column as JSON has it, as far as it has one."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, _NO_JSON):
        text = f"the column {name!r} has a {type(value).__name__}, for which JSON has no form: convert it, to a float or a string"
        raise InvalidArgument(text, code="bad_payload")
    return value.tolist() if hasattr(value, "tolist") else value
