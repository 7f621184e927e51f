"""Tables in: DataFrames of pandas and polars, Tables of pyarrow and mappings of columns are added alike; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from kinbin_client import AsyncClient, Client, InvalidArgument
from kinbin_client._chunks import Chunking, add_chunks
from kinbin_client._requests import DEFAULT_SCOPE
from kinbin_client._tables import VectorColumns, read_table
from kinbin_client._terms import AddTerms

COLUMNS: dict[str, list[Any]] = {
    "id": ["a", "b", "c"],
    "vector": [[1.0, 0.5], [0.0, 2.0], [3.0, 0.0]],
    "year": [2020, None, 2022],
    "tag": ["x", None, "z"],
    "seen": [datetime(2020, 1, 2, 3, 4), None, datetime(2022, 1, 1)],  # noqa: DTZ001 - columns mostly have no zone
}
PAYLOADS = [{"year": 2020, "tag": "x", "seen": "2020-01-02T03:04:00"}, None, {"year": 2022, "tag": "z", "seen": "2022-01-01T00:00:00"}]


class Lazy:
    """What a LazyFrame of polars is like: asking for its columns takes work, and warns."""

    @property
    def columns(self) -> list[str]:
        """Not to be asked for."""
        raise AssertionError

    def collect(self) -> Any:
        """The rows."""


def in_pandas(columns: dict[str, Any]) -> Any:
    """A DataFrame of pandas."""
    return pytest.importorskip("pandas").DataFrame(columns)


def in_polars(columns: dict[str, Any]) -> Any:
    """A DataFrame of polars."""
    return pytest.importorskip("polars").DataFrame(columns)


def in_arrow(columns: dict[str, Any]) -> Any:
    """A Table of pyarrow."""
    return pytest.importorskip("pyarrow").table(columns)


TABLES: list[Callable[[dict[str, Any]], Any]] = [dict, in_pandas, in_polars, in_arrow]
tables = pytest.mark.parametrize("table_of", TABLES)


@tables
async def test_a_column_may_have_any_name(table_of: Callable[[dict[str, Any]], Any], local_path: Path) -> None:
    """What is called as a method of lazy tables is, is a column."""
    with Client(path=local_path) as client:
        rows = client.create_collection("rows", dim=1)
        rows.add_table(table_of({"id": ["a"], "vector": [[1.0]], "collect": [1]}))
        assert rows.get(["a"]).items[0].payload == {"collect": 1}


@tables
async def test_tables_are_added_alike(table_of: Callable[[dict[str, Any]], Any], local_path: Path) -> None:
    """Both clients store ids, vectors and payloads of a table; what is missing leaves its field out, times are ISO 8601."""
    table = table_of(COLUMNS)
    with Client(path=local_path) as client:
        rows = client.create_collection("rows", dim=2)
        assert rows.add_table(table).indexed == 3
        found = rows.get(["a", "b", "c"]).items
        assert [item.vector for item in found] == COLUMNS["vector"]
        assert [item.payload for item in found] == PAYLOADS
        assert rows.add_table(table, payload=["tag"], mode="update").updated == 2
        assert [item.payload for item in rows.get(["a", "b"]).items] == [{"tag": "x"}, None]
    async with AsyncClient(path=local_path) as awaited:
        assert (await awaited.collection("rows").add_table(table, payload=[])).updated == 2


@tables
def test_columns_of_numbers_are_a_vector(table_of: Callable[[dict[str, Any]], Any]) -> None:
    """Several columns of numbers are a dense vector of each row, in the order in which they are named; whole numbers are ids."""
    table = table_of({"key": [10, 11], "red": [1.0, 2.0], "green": [3, 4], "note": ["p", "q"]})
    columns = read_table(table, "key", ["green", "red"], None)
    assert columns.ids == ["10", "11"]
    assert np.array_equal(np.array(columns.vectors), [[3.0, 1.0], [4.0, 2.0]])
    assert columns.payloads is not None
    assert list(columns.payloads) == columns.payloads[:] == [{"note": "p"}, {"note": "q"}]


@tables
def test_fields_are_columns(table_of: Callable[[dict[str, Any]], Any]) -> None:
    """A collection with several vectors takes a column, or columns, for each of its fields; they are no payload."""
    table = table_of({"id": ["a"], "red": [1.0], "green": [3.0], "words": [["x", "y"]], "day": [date(2020, 2, 3)]})
    columns = read_table(table, "id", {"colour": ["red", "green"], "words": "words"}, None)
    assert np.array_equal(np.array(columns.vectors["colour"]), [[1.0, 3.0]])
    assert [list(words) for words in columns.vectors["words"]] == [["x", "y"]]
    assert columns.payloads is not None
    assert columns.payloads[0] is not None
    assert columns.payloads[0]["day"][:10] == "2020-02-03"


MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) + 1


def xyz(table_of: Callable[[dict[str, Any]], Any]) -> tuple[Any, VectorColumns]:
    """Three columns of numbers."""
    return table_of({"id": ["a", "b"], "x": MATRIX[:, 0], "y": MATRIX[:, 1], "z": MATRIX[:, 2]}), ["x", "y", "z"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ({"id": ["a", "b"], "vector": MATRIX}, "vector"),
        lambda: xyz(in_pandas),
        lambda: xyz(in_polars),
        lambda: (in_polars({"id": ["a", "b"], "vector": MATRIX}), "vector"),
    ],
    ids=["mapping", "pandas", "polars", "polars-array"],
)
def test_matrices_travel_as_they_are(make: Callable[[], tuple[Any, VectorColumns]]) -> None:
    """A 2-d column, columns of numbers and polars' arrays without payloads travel in binary, not as JSON."""
    table, vectors = make()
    columns = read_table(table, "id", vectors, None)
    assert columns.payloads is None
    assert np.array_equal(columns.vectors, MATRIX)
    _, chunks = add_chunks(DEFAULT_SCOPE, columns.ids, columns.vectors, None, AddTerms("upsert"), Chunking())
    assert [chunk.request.headers["content-type"] for chunk in chunks] == ["application/x-npy"]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        ([[1, 2]], {}, "a table is a DataFrame of pandas or polars, a pyarrow Table, or a mapping of columns, not list"),
        (COLUMNS, {"id": "name"}, "the table has no column 'name'; it has id, vector, year, tag, seen"),
        (COLUMNS, {"vectors": ["year", "x"]}, "the table has no column 'x'"),
        (COLUMNS, {"vectors": []}, "vectors name a column, or several columns of numbers"),
        (COLUMNS, {"payload": ["tags"]}, "the table has no column 'tags'"),
        ({"id": ["a"], 3: [1]}, {}, "names of columns are strings, each once: not 3"),
        ({"id": "ab", "vector": [[1]]}, {}, "a column is a list of values, not str"),
        ({"id": [1.0], "vector": [[1]]}, {}, "an id is a string or a 64-bit integer, this is float"),
        ({"id": ["a", "b"], "vector": [[1]]}, {}, "1 vectors came with 2 ids"),
        ({"id": ["a"], "vector": [[1]], "n": [1, 2]}, {}, "the columns 'id' and 'n' have 1 and 2 values"),
        ({"id": ["a"], "vector": [[1]], "blob": [b"x"]}, {}, "the column 'blob' has a bytes, for which JSON has no form"),
        ({"id": ["a"], "vector": [[1]], "price": [Decimal("1.5")]}, {}, "the column 'price' has a Decimal, for which JSON has no form"),
        ({"id": ["a"], "vector": [[1]], "deep": [{"x": b"x"}]}, {}, "a payload holds JSON only"),
        (Lazy(), {}, "a Lazy has no rows yet: pass the table that its collect() gives"),
    ],
)
def test_bad_table_is_refused(table: Any, options: dict[str, Any], words: str) -> None:
    """What is no table, or has not what it should have, is refused in words before anything is sent."""
    sent: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(500)

    with Client("http://kinbin.test", transport=httpx.MockTransport(note)) as client, pytest.raises(InvalidArgument) as refused:
        client.collection("rows").add_table(table, **options)
    assert words in str(refused.value)
    assert not [request for request in sent if request.method == "POST"]
