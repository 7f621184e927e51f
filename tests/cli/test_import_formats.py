"""Every format arrives in the collection as it stood in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file
from typer.testing import Result

import kinbin
from kinbin_service.importing import FORMATS, ReadOptions
from kinbin_service.importing.arrays import open_npy
from kinbin_service.importing.batches import BATCH_VALUES, Naming, Position
from kinbin_service.importing.formats import detect, open_source

Imported = Callable[..., dict[str, Any]]
Items = Callable[..., dict[str, kinbin.Item]]


def as_matrix(stored: dict[str, kinbin.Item], ids: list[str]) -> np.ndarray[Any, Any]:
    """The stored dense vectors of these ids, one a row."""
    return np.array([stored[identifier].vector for identifier in ids])


def as_pairs(item: kinbin.Item) -> dict[int, float]:
    """A stored sparse vector as {feature: value}."""
    assert isinstance(item.vector, kinbin.Sparse)
    return dict(zip(np.asarray(item.vector.indices).tolist(), np.asarray(item.vector.values).tolist(), strict=True))


def sparse_rows(rng: np.random.Generator, rows: int, columns: int) -> scipy.sparse.csr_matrix:
    """A random CSR matrix without empty rows, of float32 values."""
    dense = np.where(rng.random((rows, columns)) < 0.2, rng.random((rows, columns)), 0.0)
    dense[:, 0] = 1.0
    return scipy.sparse.csr_matrix(dense.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16", "uint8", "bool", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_real_type_and_order(
    tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator, dtype: str, order: str
) -> None:
    """A matrix of any real type and memory order is stored row by row, as float32, with the row numbers as ids."""
    matrix = np.asarray(rng.integers(1, 2 if dtype == "bool" else 100, (57, 6)), dtype=dtype, order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "m.npy", matrix)
    told = imported(tmp_path / "m.npy", "--batch", 10)
    assert (told["rows"], told["indexed"], told["count"], told["finished"]) == (57, 57, 57, True)
    stored = items()
    assert np.array_equal(as_matrix(stored, [str(row) for row in range(57)]), matrix.astype(np.float32))


def test_npy_rows_are_read_by_blocks_of_bounded_size(tmp_path: Path) -> None:
    """A batch of wide rows is cut where it would pass the bound on numbers, however many rows were asked for."""
    wide = np.lib.format.open_memmap(tmp_path / "wide.npy", mode="w+", dtype=np.float32, shape=(10, BATCH_VALUES // 3))
    wide[:, 0] = np.arange(10)
    wide.flush()
    source = open_npy(tmp_path / "wide.npy", naming=Naming("{row}", tmp_path / "wide.npy"))
    batches = [(batch.ids, np.asarray(batch.vectors)[0, 0]) for batch in source.batches(Position(), 1_000)]
    source.close()
    assert [len(ids) for ids, _ in batches] == [3, 3, 3, 1]
    assert [first for _, first in batches] == [0, 3, 6, 9]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_ids_and_payloads(
    tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator, save: Callable[..., None]
) -> None:
    """A named array of an archive is imported, other arrays giving ids and payloads."""
    vectors = rng.random((23, 5), dtype=np.float32)
    names = np.array([f"photo {row}" for row in range(23)])
    save(tmp_path / "a.npz", vectors=vectors, names=names, year=np.arange(2000, 2023), weight=np.linspace(0, 1, 23))
    imported(tmp_path / "a.npz", "--array", "vectors", "--id-column", "names", "--payload-columns", "year,weight", "--batch", 10)
    stored = items()
    assert np.array_equal(as_matrix(stored, names.tolist()), vectors)
    assert stored["photo 7"].payload == {"year": 2007, "weight": pytest.approx(7 / 22)}


def test_npz_with_one_array_needs_no_name(tmp_path: Path, imported: Imported, rng: np.random.Generator) -> None:
    """The only array of an archive is the one that is imported."""
    np.savez(tmp_path / "a.npz", rng.random((4, 3)))
    assert imported(tmp_path / "a.npz")["count"] == 4


@pytest.mark.parametrize("compressed", [True, False])
def test_scipy_sparse_archives(tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator, compressed: bool) -> None:
    """What scipy.sparse.save_npz writes becomes sparse vectors, without a dimension unless one is asked for."""
    matrix = sparse_rows(rng, 40, 30)
    scipy.sparse.save_npz(tmp_path / "s.npz", matrix, compressed=compressed)
    imported(tmp_path / "s.npz", "--batch", 7)
    stored = items()
    assert len(stored) == 40
    for row in range(40):
        assert as_pairs(stored[str(row)]) == {int(j): float(v) for j, v in zip(matrix[row].indices, matrix[row].data, strict=True)}


def test_sparse_file_into_a_collection_with_a_dimension(tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator) -> None:
    """With --dim, sparse vectors are kept as vectors of that length."""
    matrix = sparse_rows(rng, 10, 30)
    np.savez(tmp_path / "parts.npz", data=matrix.data, indices=matrix.indices, indptr=matrix.indptr)
    imported(tmp_path / "parts.npz", "--dim", 30, "--kernel", "minmax")
    assert np.array_equal(as_matrix(items(), [str(row) for row in range(10)]), matrix.toarray())


def test_csv_with_header_ids_and_payload(tmp_path: Path, imported: Imported, items: Items) -> None:
    """Columns named as id and payload are that, the others are the vector; quoted cells may hold delimiters and line breaks."""
    text = 'name,a,note,b,count,code\r\n"x, 1",0.5,"two\nlines",1e-1,12,007\r\n\r\ny,2,,3,-1.5,7\r\n'
    (tmp_path / "t.csv").write_text(text, newline="")
    imported(tmp_path / "t.csv", "--id-column", "name", "--payload-columns", "note,count,code", "--batch", 1)
    stored = items()
    assert as_matrix(stored, ["x, 1", "y"]).tolist() == [[0.5, np.float32(0.1)], [2.0, 3.0]]
    assert stored["x, 1"].payload == {"note": "two\nlines", "count": 12, "code": "007"}
    assert stored["y"].payload == {"count": -1.5, "code": 7}


@pytest.mark.parametrize(("name", "text"), [("t.csv", "1;2\n3;4\n"), ("t.tsv", "1\t2\n3\t4\n"), ("t.csv", "\ufeffa,b\n1,2\n3,4")])
def test_csv_delimiter_and_header_are_found_out(tmp_path: Path, imported: Imported, items: Items, name: str, text: str) -> None:
    """Delimiter, header and byte order mark need no option; rows are numbered without the header."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    imported(tmp_path / name)
    assert as_matrix(items(), ["0", "1"]).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_csv_columns_by_position(tmp_path: Path, imported: Imported, items: Items) -> None:
    """Without a header, columns are named by their position from 0, and may be left out."""
    (tmp_path / "t.csv").write_text("u,9,0.5,1\nv,8,0.25,2\n")
    imported(tmp_path / "t.csv", "--id-column", "0", "--ignore-columns", "1")
    assert as_matrix(items(), ["u", "v"]).tolist() == [[0.5, 1.0], [0.25, 2.0]]


def test_ndjson_takes_the_items_of_the_rest_contract(tmp_path: Path, imported: Imported, items: Items) -> None:
    """Dense, sparse and token vectors and payloads arrive as `POST /index` would take them."""
    lines = [
        {"id": "a", "vector": {"indices": [3, 70_001], "values": [1.5, 2]}, "payload": {"year": 2020}},
        {"id": "b", "vector": {"tokens": {"red": 3, "apple": 1}}},
        {"id": "ç", "vector": [0, 0.5, -1], "payload": None},
        {"id": "d", "vector": {"tokens": ["red", "fox", "red"]}},
        {"id": "e", "vector": ["red", "fox", "red"]},
    ]
    (tmp_path / "t.ndjson").write_bytes(b"\n\n".join(map(orjson.dumps, lines)))
    imported(tmp_path / "t.ndjson", "--batch", 2)
    stored = items()
    assert as_pairs(stored["a"]) == {3: 1.5, 70_001: 2.0}
    assert sorted(as_pairs(stored["b"]).values()) == [1.0, 3.0]
    assert as_pairs(stored["ç"]) == {1: 0.5, 2: -1.0}
    assert as_pairs(stored["d"]) == as_pairs(stored["e"]) == {kinbin.token_feature("red"): 2.0, kinbin.token_feature("fox"): 1.0}
    assert [stored[identifier].payload for identifier in "abç"] == [{"year": 2020}, None, None]


def test_ndjson_fields_may_be_named_otherwise(tmp_path: Path, imported: Imported, items: Items) -> None:
    """--id-field names the id, --payload-columns further fields of the payload."""
    line = {"sku": "s1", "vector": [1, 2], "payload": {"a": 1}, "price": 9.5}
    (tmp_path / "t.jsonl").write_bytes(orjson.dumps(line))
    imported(tmp_path / "t.jsonl", "--id-field", "sku", "--payload-columns", "price")
    assert items()["s1"].payload == {"a": 1, "price": 9.5}


def test_svmlight_as_scikit_learn_writes_it(tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator) -> None:
    """Labels and query ids become payload when asked for; comments and blank lines are passed over."""
    matrix = sparse_rows(rng, 12, 20)
    path = str(tmp_path / "t.svmlight")
    dump_svmlight_file(matrix, np.arange(12) % 3, path, zero_based=True, query_id=np.arange(12) // 4, comment="made by a test")
    with (tmp_path / "t.svmlight").open("a") as file:
        file.write("\n# nothing here\n1.5 2:3 # a last one\n")
    imported(tmp_path / "t.svmlight", "--payload-columns", "label,qid", "--batch", 5)
    stored = items()
    assert len(stored) == 13
    for row in range(12):
        expected = {int(j): pytest.approx(float(v)) for j, v in zip(matrix[row].indices, matrix[row].data, strict=True)}
        assert as_pairs(stored[str(row)]) == expected
        assert stored[str(row)].payload == {"label": row % 3, "qid": row // 4}
    assert as_pairs(stored["12"]) == {2: 3.0}
    assert stored["12"].payload == {"label": 1.5}


def test_svmlight_counted_from_one(tmp_path: Path, imported: Imported, items: Items) -> None:
    """--index-base 1 moves features down by one, so that they fit a dimension that counts from 0."""
    (tmp_path / "t.libsvm").write_text("-1 1:0.5 4:2\n")
    imported(tmp_path / "t.libsvm", "--index-base", 1, "--dim", 4)
    assert as_matrix(items(), ["0"]).tolist() == [[0.5, 0, 0, 2]]


def test_several_files_with_ids_of_their_own(tmp_path: Path, imported: Imported, items: Items, rng: np.random.Generator) -> None:
    """An id template with the file's name keeps the rows of several files apart."""
    for name in ("train", "test"):
        np.save(tmp_path / f"{name}.npy", rng.random((3, 2)))
    told = imported(tmp_path / "train.npy", tmp_path / "test.npy", "--id-format", "{stem}-{row:03d}")
    assert (told["files"], told["rows"]) == (2, 6)
    assert sorted(items()) == ["test-000", "test-001", "test-002", "train-000", "train-001", "train-002"]


def test_import_again_changes_nothing(tmp_path: Path, imported: Imported, rng: np.random.Generator) -> None:
    """The same file once more is read again, and every item found unchanged."""
    np.save(tmp_path / "m.npy", rng.random((20, 4)))
    imported(tmp_path / "m.npy")
    again = imported(tmp_path / "m.npy")
    assert (again["rows"], again["indexed"], again["unchanged"], again["count"]) == (20, 0, 20, 20)


def test_empty_matrix(tmp_path: Path, imported: Imported) -> None:
    """A matrix without rows is imported at once: nothing is there to do."""
    np.save(tmp_path / "m.npy", np.empty((0, 4)))
    assert imported(tmp_path / "m.npy")["rows"] == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"id": "a", "vector": [1]}\n', "ndjson"),
        (b"\n 1 qid:3 4:0.5 9:1\n", "svmlight"),
        (b"+1 4:0.5\n", "svmlight"),
    ],
)
def test_format_is_found_by_content(tmp_path: Path, content: bytes, expected: str) -> None:
    """A name that says nothing leaves the first bytes to tell the format."""
    (tmp_path / "unnamed").write_bytes(content)
    assert detect(tmp_path / "unnamed", ReadOptions()) == expected


def test_format_of_arrays_is_found_by_content(tmp_path: Path) -> None:
    """NumPy files are known by their first bytes, whatever they are called."""
    np.save(tmp_path / "m.npy", np.ones((1, 1)))
    np.savez(tmp_path / "m.npz", np.ones((1, 1)))
    for name in ("npy", "npz"):
        assert detect((tmp_path / f"m.{name}").rename(tmp_path / f"{name}.csv"), ReadOptions()) == name


def test_every_format_resumes_at_any_batch(tmp_path: Path, rng: np.random.Generator) -> None:
    """Reading on from where any batch ended yields just the rest, in every format."""
    matrix = sparse_rows(rng, 25, 9)
    np.save(tmp_path / "f.npy", matrix.toarray())
    scipy.sparse.save_npz(tmp_path / "f.npz", matrix)
    rows = matrix.toarray().tolist()
    header = "\ufeffid,note," + ",".join("abcdefghi")
    table = [f'r{n},"\n",' + ",".join(map(str, row)) + "\n" for n, row in enumerate(rows)]
    (tmp_path / "f.csv").write_text("\n".join([header, *table]), encoding="utf-8")
    (tmp_path / "f.ndjson").write_bytes(b"\n \n".join(orjson.dumps({"id": f"é{n}", "vector": row}) for n, row in enumerate(rows)))
    dump_svmlight_file(matrix, np.zeros(25), str(tmp_path / "f.svmlight"))
    (tmp_path / "f.text").write_text("\n\n".join(f"é{n}" for n in range(25)), encoding="utf-8")
    series = "\n\n".join(f"{','.join(map(str, row))}:{n}" for n, row in enumerate(rows))
    (tmp_path / "f.ts").write_text(f"# é\n@classLabel true\n@data\n{series}\n", encoding="utf-8")
    csv_options = ReadOptions(id_column="id", payload_columns=("note",))
    for name in FORMATS:
        source = open_source(tmp_path / f"f.{name}", csv_options if name == "csv" else ReadOptions(), tmp_path)
        whole = list(source.batches(Position(), 4))
        every = [identifier for batch in whole for identifier in batch.ids]
        assert len(every) == 25
        for batch in whole:
            rest = [identifier for later in source.batches(batch.end, 3) for identifier in later.ids]
            assert rest == every[batch.end.rows :]
            assert source.done(batch.end) <= source.total
        source.close()


def test_help_names_every_option(run: Callable[..., Result]) -> None:
    """The help of import tells of every option and format."""
    told = run("import", "--help").stdout
    options = "data url collection kernel dim id-column id-field id-format payload-columns ignore-columns delimiter header no-header array"
    others = "index-base batch mode resume no-resume compact no-compact json"
    for option in f"{options} {others}".split():
        assert f"--{option}" in told
    for name in FORMATS:
        assert name in told
