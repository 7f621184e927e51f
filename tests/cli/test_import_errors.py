"""What cannot be imported is refused in one line that names file and place, and nothing of its batch is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from typer.testing import Result

import kinbin

Run = Callable[..., Result]
Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]

TEXT_PROBLEMS: dict[str, tuple[str, str | bytes, str]] = {
    "csv cell": ("t.csv", "a,b\n1,2\n3,x7\n", ":3: column 'b': expected a number, got 'x7'"),
    "csv empty cell": ("t.csv", "a,b\n1,2\n3,\n", ":3: column 'b': expected a number, the cell is empty"),
    "csv underscore": ("t.csv", "a,b\n1,2\n3,1_0\n", ":3: column 'b': expected a number, got '1_0'"),
    "csv width": ("t.csv", "a,b\n1,2\n3,4,5\n", ":3: expected 2 cells, as in the first line, got 3"),
    "csv open quote": ("t.csv", 'a,b\n1,2\n3,"4\n', ":3: not CSV"),
    "csv after a cell of many lines": ("t.csv", 'a,b\n"1\n",2\n3,x\n', ":4: column 'b'"),
    "csv header or not": ("t.csv", "0,1,2\n3,4,5\n", ":1: cannot tell whether this line is a header or a row: say --header or --no-header"),
    "csv half a header": ("t.csv", "x,1,2\n3,4,5\n", ":1: cannot tell whether this line is a header or a row"),
    "csv empty": ("t.csv", "", ": the file is empty"),
    "csv not finite": ("t.csv", "a,b\n1,2\nnan,4\n", ":3: column 'a': expected a finite number, got 'nan'"),
    "csv, the first one": ("t.csv", "a,b\n1,2\n3,inf\nx,4\n", ":3: column 'b': expected a finite number, got 'inf'"),
    "csv zero vector": ("t.csv", "a,b\n1,2\n\n0,0\n", ":4: "),
    "ndjson syntax": ("t.ndjson", '{"id": "a", "vector": [1]}\n{"id": "b", "vector": [1}\n', ":2: not a line of JSON"),
    "ndjson no object": ("t.ndjson", "[1, 2]\n", ":1: expected an object"),
    "ndjson no id": ("t.ndjson", '{"vector": [1]}\n', ':1: field "id" is missing: name the field with --id-field'),
    "ndjson id no string": ("t.ndjson", '{"id": 7.5, "vector": [1]}\n', ':1: field "id" must be a string or a 64-bit integer, got 7.5'),
    "ndjson no vector": ("t.ndjson", '{"id": "a"}\n', ':1: field "vector" is missing'),
    "ndjson tokens outside": ("t.ndjson", '{"id": "a", "tokens": ["x"]}\n', ':1: field "vector" is missing, and "tokens" goes into it'),
    "ndjson tokens among others": (
        "t.ndjson",
        '{"id": "a", "tokens": ["x"], "a": 1}\n',
        ':1: field "vector" is missing, and "tokens" goes',
    ),
    "ndjson unknown field": ("t.ndjson", '{"id": "a", "vector": [1], "tag": 1}\n', ":1: unknown field 'tag': name it in --payload-columns"),
    "ndjson text for number": (
        "t.ndjson",
        '{"id": "a", "vector": [1, "2"]}\n',
        ":1: the vector must hold numbers only, got '2' at",
    ),
    "ndjson boolean": ("t.ndjson", '{"id": "a", "vector": [true]}\n', ":1: the vector must hold numbers only, got True at place 0"),
    "ndjson huge number": ("t.ndjson", '{"id": "a", "vector": [1e999]}\n', ":1: "),
    "ndjson huge integer": ("t.ndjson", '{"id": "a", "vector": [' + "9" * 400 + "]}\n", ":1: "),
    "ndjson form": ("t.ndjson", '{"id": "a", "vector": {"indices": [1]}}\n', ":1: the vector must be a list of numbers"),
    "ndjson index": ("t.ndjson", '{"id": "a", "vector": {"indices": [-1], "values": [1]}}\n', ":1: feature number -1 is not in 0"),
    "ndjson lengths": ("t.ndjson", '{"id": "a", "vector": {"indices": [1], "values": [1, 2]}}\n', ':1: "indices" and "values"'),
    "ndjson payload": ("t.ndjson", '{"id": "a", "vector": [1], "payload": 3}\n', ':1: field "payload" must be an object or null, got 3'),
    "ndjson dimension": ("t.ndjson", '{"id": "a", "vector": [1, 2]}\n\n{"id": "b", "vector": [1]}\n', ":3: "),
    "ndjson id twice": ("t.ndjson", '{"id": "a", "vector": [1]}\n{"id": "a", "vector": [2]}\n', ":2: the id 'a' is on line 1 already"),
    "ndjson id twice, far": (
        "t.ndjson",
        '{"id": "x", "vector": [1]}\n\n{"id": "a", "vector": [1]}\n{"id": "b", "vector": [1]}\n\n{"id": "a", "vector": [2]}\n',
        ":6: the id 'a' is on line 3 already: each item needs its own",
    ),
    "ndjson bad id": ("t.ndjson", '{"id": "a", "vector": [1]}\n{"id": "", "vector": [2]}\n', ":2: "),
    "svmlight part": ("t.svm", "1 2:1\n0 3\n", ":2: expected index:value, got '3'"),
    "svmlight index": ("t.svm", "1 2:1\n0 x:3\n", ":2: expected a whole number in 'x:3', got 'x'"),
    "svmlight value": ("t.svm", "1 2:1\n0 3:y\n", ":2: expected a number after the colon of '3:y'"),
    "svmlight no label": ("t.svm", "1 2:1\n3:1 4:1\n", ":2: expected a label before the first index:value, got '3:1'"),
    "svmlight empty": ("t.svm", "1 2:1\n0\n", ":2: the vector is empty"),
    "not UTF-8": ("t.csv", b"a,b\n1,2\n\xff,4\n", ":3: byte 1 of the line is not UTF-8: save the file as UTF-8"),
    "unknown format": ("t.data", "hello\n", ": cannot tell the format"),
    "packed": ("t.csv", b"\x1f\x8b\x08\x00", ": is packed with gzip: unpack it first"),
}


@pytest.mark.parametrize("case", TEXT_PROBLEMS)
def test_text_files(tmp_path: Path, data: Path, refused: Refused, case: str) -> None:
    """Every bad line is named by its number, with what is wrong; the refused first batch leaves no collection behind."""
    name, content, expected = TEXT_PROBLEMS[case]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = refused(path)
    assert message.startswith(f"{path}{expected}"), message
    assert len(message) > len(str(path)) + 20, message
    with kinbin.open(data) as database:
        assert database.collections() == []


def test_what_a_bad_row_leaves_is_told(tmp_path: Path, data: Path, refused: Refused, run: Run) -> None:
    """How many rows are imported, how it goes on, and that bad rows may be left out; all of it is so."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\nx,2\n")
    assert refused(path).endswith(". Nothing was imported; --skip-bad leaves bad rows out")
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,x\n")
    told = refused(path, "--batch", 2)
    assert told.endswith(". The first 2 rows are imported, and the same command goes on behind them; --skip-bad leaves bad rows out")
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,8\n")
    again = run("import", path, "--batch", 2, "--data", data, "--collection", "c")
    assert (again.exit_code, "continuing after 2 rows" in again.stderr) == (0, True)
    with kinbin.open(data) as database:
        assert database.collection("c").count() == 4


def test_a_collection_in_the_place_of_a_file_is_understood(tmp_path: Path, run: Run) -> None:
    """Whoever names the collection behind the file is told how."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    result = run("import", tmp_path / "t.csv", "things", "--data", tmp_path / "db")
    assert result.exit_code == 2
    assert "there is no file things: the collection is named by --collection" in " ".join(result.stderr.replace("│", " ").split())


def save_object_array(path: Path) -> None:
    """A .npy file of pickled objects."""
    np.save(path, np.array([[1, None]], dtype=object), allow_pickle=True)


def save_cut(path: Path) -> None:
    """A .npy file that lacks its end."""
    np.save(path, np.ones((10, 4)))
    path.write_bytes(path.read_bytes()[:-8])


def save_boast(path: Path) -> None:
    """A .npy header that promises terabytes."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 500)})


ARRAY_PROBLEMS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "pickled": ("t.npy", save_object_array, ": t.npy holds pickled Python objects, which are never loaded"),
    "cut": ("t.npy", save_cut, ": t.npy should hold 320 bytes of numbers and holds 312"),
    "boast": ("t.npy", save_boast, ": t.npy should hold 4,000,000,000,000 bytes of numbers and holds 0"),
    "vector": ("t.npy", lambda path: np.save(path, np.ones(4)), ": t.npy has shape (4,): expected a matrix, (rows, dimensions) (one"),
    "cube": ("t.npy", lambda path: np.save(path, np.ones((2, 2, 2))), ": t.npy has shape (2, 2, 2): expected a matrix"),
    "text": ("t.npy", lambda path: np.save(path, np.array([["a"]])), ": t.npy holds <U1: expected real numbers"),
    "complex": ("t.npy", lambda path: np.save(path, np.ones((1, 1), complex)), ": t.npy holds complex128: expected real numbers"),
    "no npy": ("t.npy", lambda path: path.write_bytes(b"hello"), ": t.npy is not an array in .npy format"),
    "no npz": ("t.npz", lambda path: path.write_bytes(b"PK\x03\x04hello"), ": not a .npz archive"),
    "which array": ("t.npz", lambda path: np.savez(path, a=np.ones(1), b=np.ones(1)), ": which array holds the vectors? --array takes"),
    "csc": ("t.npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(np.eye(2))), ": a sparse matrix of format 'csc'"),
    "not finite": ("t.npy", lambda path: np.save(path, np.array([[1.0], [2.0], [np.inf]])), ", row 2: "),
    "csr out of bounds": (
        "t.npz",
        lambda path: np.savez(path, data=np.ones(2), indices=np.arange(2), indptr=np.array([0, 9, 2])),
        ", row 0: indptr does not rise from 0",
    ),
    "csr negative column": (
        "t.npz",
        lambda path: np.savez(path, data=np.ones(2), indices=np.array([0, -1]), indptr=np.array([0, 2])),
        ", row 0: a column index is negative",
    ),
    "csr lengths": (
        "t.npz",
        lambda path: np.savez(path, data=np.ones(2), indices=np.arange(3), indptr=np.array([0, 2])),
        ": data, indices and indptr are no CSR matrix",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAY_PROBLEMS)
def test_array_files(tmp_path: Path, refused: Refused, case: str) -> None:
    """Every bad array is named with what it is and what was expected; pickles are never loaded, promises never believed."""
    name, save, expected = ARRAY_PROBLEMS[case]
    save(tmp_path / name)
    message = refused(tmp_path / name)
    assert message.startswith(f"{tmp_path / name}{expected}"), message


def test_an_archive_that_was_cut_is_refused(tmp_path: Path, refused: Refused) -> None:
    """A damaged archive is told from a bad row."""
    np.savez_compressed(tmp_path / "t.npz", np.random.default_rng(0).random((100, 10)))
    whole = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "t.npz").write_bytes(whole[:200] + b"\0" * 100 + whole[300:])
    assert "cannot be unpacked" in refused(tmp_path / "t.npz")


def test_the_row_after_whole_batches_is_named(tmp_path: Path, refused: Refused, items: Items) -> None:
    """A bad row far into the file is named by its own number, the batches before its own are stored, its own is not."""
    matrix = np.ones((35, 3))
    matrix[:, 0] = np.arange(35)
    matrix[27, 1] = np.nan
    np.save(tmp_path / "m.npy", matrix)
    assert refused(tmp_path / "m.npy", "--batch", 10).startswith(f"{tmp_path / 'm.npy'}, row 27: ")
    assert sorted(map(int, items())) == list(range(20))


def test_missing_file(tmp_path: Path, refused: Refused) -> None:
    """A file that is not there is named."""
    assert refused(tmp_path / "none.csv") == f"{tmp_path / 'none.csv'}: No such file or directory"


def test_folder(tmp_path: Path, refused: Refused) -> None:
    """A folder is no file, but for images; one without any says which files these are."""
    assert refused(tmp_path).startswith(f"{tmp_path}: has no images: files that end in .png")
    assert refused(tmp_path, "--format", "ndjson") == f"{tmp_path}: is a folder: name the files in it"


@pytest.mark.parametrize(
    ("name", "content", "option", "expected"),
    [
        ("t.csv", "a,b\n1,2\n", ("--id-column", "c"), ":1: no column 'c': the columns are a, b"),
        ("t.csv", "a,a\n1,2\n", ("--id-column", "a"), ":1: 2 columns are named 'a'"),
        ("t.csv", "a\n1\n", ("--id-column", "a"), ":1: no column is left for the vector"),
        ("t.csv", "a,b\n1,2\n", ("--array", "x"), ": --array means nothing for a csv file: leave it out"),
        ("t.csv", "a,b\n1,2\n", ("--id-format", "{line}"), ": cannot make ids from '{line}': write {row}"),
        ("t.csv", "a,b\n1,2\n", ("--id-format", "same"), ": cannot make ids from 'same'"),
        ("t.csv", "a,b\n1,2\n", ("--id-format", "{row.real.__class__}"), ": cannot make ids from"),
        (
            "t.csv",
            "a,b\n1,2\n",
            ("--id-column", "a", "--id-format", "{row}"),
            ": ids come from a column or from --id-format, not from both",
        ),
        ("t.svm", "1 2:1\n", ("--payload-columns", "weight"), ": svmlight lines have no column 'weight'"),
        ("t.svm", "1 2:1\n", ("--dim", "2"), ":1: "),
        ("t.svm", "1 0:1\n", ("--index-base", "1"), ":1: feature number -1 is not in 0"),
        ("t.ndjson", '{"id": "a", "vector": [-1]}\n', ("--kernel", "minmax"), ":1: "),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, refused: Refused, name: str, content: str, option: tuple[str, ...], expected: str) -> None:
    """An option that does not fit the file is told, never ignored."""
    (tmp_path / name).write_text(content)
    message = refused(tmp_path / name, *option)
    assert message.startswith(f"{tmp_path / name}{expected}"), message


def test_files_that_would_replace_each_other(tmp_path: Path, refused: Refused) -> None:
    """Two files numbered from 0 are refused before anything is written, with the template that keeps them apart."""
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.ones((2, 2)))
    message = refused(tmp_path / "a.npy", tmp_path / "b.npy")
    assert "would get the same ids as those of" in message
    assert message.endswith('say --id-format "{stem}-{row}"')


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (("--kernel", "minmax"), 'collection "c" is there with kernel ngmm, not minmax: leave --kernel out, or choose another name'),
        (("--dim", "7"), 'collection "c" is there and is of dimension 2, not 7: leave --dim out, or choose another name'),
    ],
)
def test_a_collection_that_differs(tmp_path: Path, imported: Imported, refused: Refused, option: tuple[str, ...], expected: str) -> None:
    """Kernel and dimension, where given, must be those of the collection that is there."""
    np.save(tmp_path / "m.npy", np.ones((2, 2)))
    imported(tmp_path / "m.npy")
    assert refused(tmp_path / "m.npy", *option) == expected


def test_insert_and_update_refuse_what_does_not_fit(tmp_path: Path, imported: Imported, refused: Refused) -> None:
    """--mode insert refuses an id that is there, --mode update one that is not, naming its row, however often they are tried."""
    np.save(tmp_path / "m.npy", np.arange(1, 13).reshape(6, 2))
    for _ in range(2):
        assert "use --mode upsert" in refused(tmp_path / "m.npy", "--mode", "update")
    imported(tmp_path / "m.npy")
    for _ in range(2):
        assert refused(tmp_path / "m.npy", "--mode", "insert", "--batch", 2).startswith(f"{tmp_path / 'm.npy'}, row 0: ")
    assert imported(tmp_path / "m.npy", "--mode", "update")["unchanged"] == 6


@pytest.mark.parametrize("arguments", ["--format xml", "--mode maybe", "--batch 0", "--batch 10001", "--delimiter ab", "--kernel l2"])
def test_commands_that_are_not_understood(tmp_path: Path, run: Callable[..., Result], data: Path, arguments: str) -> None:
    """A bad value of an option ends with exit code 2, naming the option, before anything is touched."""
    (tmp_path / "t.csv").write_text("1,2\n")
    result = run("import", tmp_path / "t.csv", "--data", data, *arguments.split())
    assert result.exit_code == 2
    assert arguments.split(maxsplit=1)[0] in result.stderr
    assert not data.exists()


def test_data_and_url_exclude_each_other(tmp_path: Path, run: Callable[..., Result], data: Path) -> None:
    """An import has one target."""
    result = run("import", tmp_path / "t.csv", "--data", data, "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert "give --data or --url, not both" in result.stderr


def test_a_service_that_is_not_there(tmp_path: Path, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """An import through a service that does not answer ends in one line."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    np.save(tmp_path / "m.npy", np.ones((2, 2)))
    result = run("import", tmp_path / "m.npy", "--url", f"http://127.0.0.1:{free_port}")
    assert result.exit_code == 1
    assert "no connection" in result.stderr
    assert result.stderr.count("\n") == 1
