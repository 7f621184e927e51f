"""kinbin dedup of Parquet: types, row groups, damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import Result

from kinbin_service.deduplicating.row_groups import parts

Run = Callable[..., Result]
TEXTS = [
    "the quick brown fox jumps",
    "something else entirely here",
    "the quick brown fox jumps",
    "a third one of its own",
    "last words of all",
]
KEPT = [0, 1, 3, 4]


def test_small_row_groups_are_read_together(tmp_path: Path) -> None:
    """A thousand groups of one row are one part; large ones are read by themselves; positions and rows add up."""
    file = tmp_path / "a.parquet"
    schema = pa.schema({"text": pa.string(), "n": pa.int64()})
    with parquet.ParquetWriter(file, schema) as out:
        for size in (*(1 for _ in range(1_000)), 50_000, 50_000, 1, 1):
            texts = [f"{number:0100d}" for number in range(size)]
            out.write_table(pa.table({"text": texts, "n": range(size)}, schema=schema))
    with parquet.ParquetFile(file) as read:
        found = list(parts(read, "text"))
        assert (found[0].groups, found[0].rows) == (range(1_000), 1_000)
        assert sum(one.rows for one in found) == read.metadata.num_rows
        assert [number for one in found for number in one.groups] == list(range(1_004))
        assert len(found) < 6


@pytest.mark.parametrize("mark", [False, True])
def test_many_row_groups_are_written_as_they_are(run: Run, tmp_path: Path, mark: bool) -> None:
    """Groups of one row each, of which every fifth is another's copy."""
    file = tmp_path / "a.parquet"
    table = pa.table({"text": [f"w{n - n % 5 // 4} x{n - n % 5 // 4} y z" for n in range(2_000)], "n": range(2_000)})
    parquet.write_table(table, file, row_group_size=1)
    assert run("dedup", file, *(["--mark"] if mark else [])).exit_code == 0
    found = parquet.read_table(tmp_path / "a.dedup.parquet")
    if mark:
        assert found.drop_columns(["cluster", "keep"]) == table
        assert sum(found.column("keep").to_pylist()) == 1_600
    else:
        assert found == table.filter(pa.array([n % 5 != 4 for n in range(2_000)]))


VIEW = pa.string_view()
COLUMNS: dict[str, Any] = {
    "views": pa.array(list("abcde"), VIEW),
    "bytes": pa.array([b"a", None, b"c", b"d", b"e"], pa.binary_view()),
    "lists": pa.array([["a"], [], None, ["b", "c"], ["d"]], pa.list_(VIEW)),
    "nested": pa.array([{"x": [1, 2]}, None, {"x": None}, {"x": []}, {"x": [3]}]),
    "words": pa.array(["a", "b", "a", None, "b"]).dictionary_encode(),
    "lists of words": pa.array([["a"], ["b"], ["a"], [], None], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    "decimals": pa.array([1, 2, 3, 4, 5]).cast(pa.decimal128(30, 2)),
    "times": pa.array([10**18 + n for n in range(5)], pa.timestamp("ns", "Europe/Berlin")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), VIEW, pa.dictionary(pa.int8(), pa.string())], ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_columns_keep_their_types(run: Run, tmp_path: Path, name: str, text: Any, rows: int) -> None:
    """Whatever they are, also where pyarrow has no way of choosing rows of a type, or of reading it from several row groups."""
    file, out = tmp_path / "a.parquet", tmp_path / "a.dedup.parquet"
    table = pa.table({"text": pa.array(TEXTS, pa.string()).cast(text), name: COLUMNS[name]})
    parquet.write_table(table, file, row_group_size=rows)
    for more in ([], ["--mark"]):
        result = run("dedup", file, *more)
        assert result.exit_code == 0, result.stderr
        found = [
            row
            for group in range(parquet.ParquetFile(out).num_row_groups)
            for row in parquet.ParquetFile(out).read_row_group(group).to_pylist()
        ]
        assert [row[name] for row in found] == [COLUMNS[name][n].as_py() for n in (range(5) if more else KEPT)]
        assert parquet.read_schema(out).field(name).type == COLUMNS[name].type


def test_a_damaged_page_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    """With the file and the row group, wherever it lies; nothing is left that would stand in the way of the file mended."""
    file = tmp_path / "a.parquet"
    table = pa.table({"text": [f"a{n} b{n} c{n} d{n}" for n in range(3_000)], "n": range(3_000)})
    parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
    sound = file.read_bytes()
    about = parquet.ParquetFile(file).metadata.row_group(0)
    for column in (0, 1):
        chunk = about.column(column)
        behind = chunk.dictionary_page_offset + chunk.total_compressed_size
        # The header of a page, and its content, which has a checksum.
        for place in (2, (behind - chunk.data_page_offset) // 2, behind - chunk.data_page_offset - 21):
            damaged = bytearray(sound)
            start = chunk.data_page_offset + place
            damaged[start : start + 20] = bytes(byte ^ 0x5A for byte in damaged[start : start + 20])
            file.write_bytes(damaged)
            result = run("dedup", file)
            assert result.exit_code == 1, (column, place)
            assert f"{file}: row group 0 cannot be read" in " ".join(result.stderr.split()), (column, place)
            assert not (tmp_path / "a.dedup.parquet").exists()
            file.write_bytes(sound)
            assert run("dedup", file, "--restart").exit_code == 0
            (tmp_path / "a.dedup.parquet").unlink()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("encoded", [False, True])
def test_bytes_that_are_no_text_are_told_by_their_number(run: Run, tmp_path: Path, large: bool, encoded: bool) -> None:
    """As in other formats, whether rows are read one by one or at once, and no work is left."""
    first = b"x" * 4_500_000 if large else b"abc"
    offsets = pa.array([0, len(first), len(first) + 3], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(first + b"\xff\xfea")])
    parquet.write_table(pa.table({"text": column.dictionary_encode() if encoded else column}), tmp_path / "a.parquet")
    told = run("dedup", tmp_path / "a.parquet")
    assert (told.exit_code, "document 2 is no UTF-8" in told.stderr) == (1, True), told.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["a.parquet"]


def test_a_column_with_a_point_in_its_name_is_no_field_of_another(run: Run, tmp_path: Path) -> None:
    """Though the path of such a field reads the same."""
    parquet.write_table(pa.table({"a": [{"b": n} for n in range(5)], "a.b": TEXTS}), tmp_path / "a.parquet")
    assert "4 of 5 documents are kept" in run("dedup", tmp_path / "a.parquet", "--text", "a.b").stdout


def test_a_name_that_stands_twice_is_refused(run: Run, tmp_path: Path) -> None:
    """In both kinds of tables: nobody can tell which one is meant."""
    parquet.write_table(pa.Table.from_arrays([pa.array(TEXTS), pa.array(TEXTS)], ["text", "text"]), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("text,n,text\na,1,b\n")
    for name in ("a.parquet", "a.csv"):
        result = run("dedup", tmp_path / name)
        assert (result.exit_code, 'there are 2 columns "text": rename all but one' in result.stderr) == (1, True)
