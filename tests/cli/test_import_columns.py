"""What columns of a file become: nothing turns into a feature in silence, and the summary tells what everything became."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import scipy.sparse
from typer.testing import Result

import kinbin

Run = Callable[..., Result]
Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]


@pytest.mark.parametrize(
    "name",
    [
        "id", "ID", " Label ", "class", "_id", "target", "name", "key", "index", "row_id", "uuid", "", "Unnamed: 0",
        "user_id", "userId", "userID", "Product No", "created-timestamp", "date",
    ],
)  # fmt: skip
def test_a_column_that_sounds_like_no_feature_is_refused(refused: Refused, tmp_path: Path, data: Path, name: str) -> None:
    """A numeric column called id, label, class … that nobody assigned is refused: the error names it and the options."""
    (tmp_path / "x.csv").write_text(f"{name},a,b\n1,0.5,2\n2,1,3\n")
    told = refused(tmp_path / "x.csv", "--header") if not name else refused(tmp_path / "x.csv")
    assert f"column {name.strip()!r} is hardly a feature, by its name" in told
    for option in ("--id-column", "--payload-columns", "--ignore-columns", "--feature-columns"):
        assert option in told
    with kinbin.open(data) as database:
        assert database.collections() == []


def test_a_column_whose_name_only_looks_like_one_is_a_feature(imported: Imported, tmp_path: Path) -> None:
    """Words that end in the same letters, and numbered ones, are no ids."""
    (tmp_path / "x.csv").write_text("grid,valid,p_id_7,no,year\n1,0.5,2,3,4\n")
    assert imported(tmp_path / "x.csv")["dim"] == 5


def test_all_doubtful_columns_are_told_at_once(refused: Refused, tmp_path: Path) -> None:
    """Columns without a number in the first rows are refused together with those that are doubtful by their names."""
    (tmp_path / "x.csv").write_text("id,colour,a,empty\n1,red,0.5,\n2,,1,\n")
    told = refused(tmp_path / "x.csv", "--header")
    assert "column 'id' is hardly a feature, by its name" in told
    assert "column 'colour' has no number in its first rows ('red')" in told
    assert "column 'empty' has no number in its first rows ('')" in told
    assert "'a'" not in told


@pytest.mark.parametrize(
    ("options", "features", "identifier", "payload"),
    [
        (("--id-column", "id"), 3, "7", None),
        (("--payload-columns", "id"), 3, "0", {"id": 7}),
        (("--ignore-columns", "id"), 3, "0", None),
        (("--feature-columns", "id"), 4, "0", None),
    ],
)
def test_once_it_is_said_what_it_is_the_column_is_taken(
    imported: Imported, items: Items, tmp_path: Path, options: tuple[str, ...], features: int, identifier: str, payload: Any
) -> None:
    """Each of the options that the error names settles it."""
    (tmp_path / "x.csv").write_text("id,p0,p1,p2\n7,0.5,2,1\n8,1,3,1\n")
    assert imported(tmp_path / "x.csv", *options)["dim"] == features
    item = items()[identifier]
    assert isinstance(item.vector, np.ndarray)
    assert (len(item.vector), item.payload) == (features, payload)


def test_a_column_cannot_be_a_feature_and_something_else(refused: Refused, tmp_path: Path) -> None:
    """A column that is named twice, as a feature and as an id, is a contradiction."""
    (tmp_path / "x.csv").write_text("id,p0\n7,0.5\n")
    assert "column 'id' is named as a feature and as something else" in refused(
        tmp_path / "x.csv", "--id-column", "id", "--feature-columns", "id"
    )


def test_positions_are_no_names(imported: Imported, tmp_path: Path) -> None:
    """Without a header there are no names to doubt, and a number somewhere in the first rows makes a feature."""
    (tmp_path / "x.csv").write_text("1,2,3\n4,5,7\n")
    assert imported(tmp_path / "x.csv", "--no-header")["dim"] == 3


def source(tmp_path: Path, name: str) -> Path:
    """A small file of a format."""
    path = tmp_path / name
    match name:
        case "x.csv":
            head = ",".join(["id", *(f"p{column}" for column in range(64)), "year", "tag", "note"])
            path.write_text(f"{head}\n" + "".join(f"r{row},{','.join(['0.5'] * 64)},2020,a,b\n" for row in range(3)))
        case "x.npy":
            np.save(path, np.ones((3, 5)))
        case "x.npz":
            np.savez(path, vectors=np.ones((3, 5)), ids=np.array(["a", "b", "c"]), year=np.arange(3))
        case "csr.npz":
            scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(np.eye(3)))
        case "x.ndjson":
            path.write_bytes(
                b"\n".join(orjson.dumps({"name": f"r{row}", "vector": {"tokens": {"a": 1}}, "year": 2020}) for row in range(3))
            )
        case _:
            path.write_text("1 qid:2 1:0.5\n-1 qid:3 2:1\n1 qid:3 4:1\n")
    return path


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        (
            "x.csv",
            ("--id-column", "id", "--payload-columns", "year,tag", "--ignore-columns", "note"),
            'kernel ngmm, dimension 64; 64 features p0…p63, id from "id", payload year, tag, ignored note',
        ),
        ("x.npy", ("--kernel", "gmm", "--id-format", "{stem}-{row}"), "kernel gmm, dimension 5; 5 features, id from {stem}-{row}"),
        ("x.npz", ("--payload-columns", "year"), 'kernel ngmm, dimension 5; 5 features, id from "ids", payload year'),
        ("csr.npz", (), "kernel ngmm, sparse; sparse rows, id from row numbers"),
        (
            "x.ndjson",
            ("--id-field", "name", "--payload-columns", "year"),
            'kernel ngmm, sparse; vectors from "vector", id from "name", payload payload, year',
        ),
        (
            "x.svm",
            ("--payload-columns", "label"),
            "kernel ngmm, sparse; sparse rows with features from 0, id from row numbers, payload label, ignored qid",
        ),
    ],
)
def test_the_summary_tells_what_everything_became(
    run: Run, data: Path, tmp_path: Path, name: str, options: tuple[str, ...], told: str
) -> None:
    """After every import, of whatever format, kernel, dimension and columns are told, for people and for programs."""
    file = source(tmp_path, name)
    command = ("import", file, "--data", data, "--collection", "c", *options)
    result = run(*command)
    assert result.stdout.splitlines()[1:] == [told], result.stderr
    parsed = orjson.loads(run(*command, "--json").stdout)
    columns = parsed["columns"][str(file)]
    assert f"kernel {parsed['kernel']}, " in told
    assert f"{columns['vector']}, {columns['id']}" in told
    assert ", ".join(columns["payload"]) in told
    assert all(ignored in told for ignored in columns["ignored"])


def test_files_that_differ_are_told_one_by_one(run: Run, data: Path, tmp_path: Path) -> None:
    """Where files of one command have different columns, each is told on a line of its own."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("u,v\n1,3\n")
    result = run("import", tmp_path / "a.csv", tmp_path / "b.csv", "--data", data, "--id-format", "{stem}-{row}")
    assert result.stdout.splitlines()[1:] == [
        "kernel ngmm, dimension 2",
        f"  {tmp_path / 'a.csv'}: 2 features x…y, id from {{stem}}-{{row}}",
        f"  {tmp_path / 'b.csv'}: 2 features u…v, id from {{stem}}-{{row}}",
    ]


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("id,red,green\nx,1,2\n", ("--id-column", "id"), {0: "red", 1: "green"}),
        ("1,2\n3,4\n", (), {}),
        ("0,1,2\n3,4,5\n", ("--header",), {}),
        (f"{'x' * 300},green\n1,2\n", ("--header",), {}),
    ],
)
def test_the_header_names_the_features(
    imported: Imported, data: Path, tmp_path: Path, text: str, options: tuple[str, ...], names: dict[int, str]
) -> None:
    """A header names the features of the collection that is made of its file, unless it says places only, or what is no name."""
    (tmp_path / "a.csv").write_text(text)
    imported(tmp_path / "a.csv", *options)
    with kinbin.open(data) as database:
        assert database.collection("c").config.feature_names == names


def test_columns_in_another_order_are_refused(imported: Imported, refused: Refused, data: Path, tmp_path: Path) -> None:
    """A second file with the same columns in another order is refused; one with other columns, or without names, is taken."""
    (tmp_path / "a.csv").write_text("red,green\n1,2\n")
    (tmp_path / "b.csv").write_text("green,red\n1,2\n")
    (tmp_path / "c.csv").write_text("rot,gruen\n5,2\n")
    imported(tmp_path / "a.csv", "--id-format", "{stem}-{row}")
    told = refused(tmp_path / "b.csv", "--id-format", "{stem}-{row}")
    assert "the same features in another order: feature 0 is red, and in this file green" in told
    imported(tmp_path / "c.csv", "--id-format", "{stem}-{row}")
    with kinbin.open(data) as database:
        assert database.collection("c").count() == 2
