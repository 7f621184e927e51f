"""`kinbin tune`, `kinbin recall`, `kinbin rebuild`: what they print, of a database, a file and a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray
from typer.testing import Result

import kinbin
from kinbin_service.cli.tuning import _show

Run = Callable[..., Result]


@pytest.fixture
def vectors(rng: np.random.Generator) -> NDArray[np.float32]:
    """(300, 16) rows around 15 centres."""
    centres = rng.gamma(0.5, size=(15, 16))[np.arange(300) % 15]
    return (centres * rng.gamma(6.0, 1 / 6, centres.shape) + 1e-3).astype(np.float32)


@pytest.fixture
def filled(data: Path, vectors: NDArray[np.float32]) -> Path:
    """A database whose collection "photos" has bands that are too long."""
    with kinbin.open(data) as database:
        collection = database.create_collection("photos", dim=16, rows=8, bands=6, seed=1)
        collection.add([str(i) for i in range(300)], vectors)
        collection.compact()
    return data


def test_there_is_nothing_to_measure_without_neighbours(run: Run, data: Path) -> None:
    """`recall` says so of a collection without rows, and of one whose rows have nothing in common."""
    with kinbin.open(data) as database:
        database.create_collection("none", dim=2)
        database.create_collection("apart", dim=2).add(["a", "b"], [[1, 0], [0, 1]])
    for name, says in (("none", "there are no rows"), ("apart", "no row has a neighbour")):
        told = run("recall", "--data", data, "--collection", name)
        assert told.stdout.splitlines()[-1] == f"nothing to measure: {says}", told.output


def test_there_is_nothing_to_predict_without_neighbours(run: Run, data: Path) -> None:
    """`tune` says so instead of settings and a suggestion: of no rows, and of rows that are all equal."""
    with kinbin.open(data) as database:
        database.create_collection("none", dim=2)
        database.create_collection("equal", dim=2).add([str(i) for i in range(50)], [[1, 2]] * 50)
    for name in ("none", "equal"):
        told = run("tune", "--data", data, "--collection", name)
        assert told.stdout.splitlines()[1:] == ["nothing to predict from: there are fewer than two different items"], told.output


def test_what_is_suggested_is_shown_where_choices_leave_it_out(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A suggestion that is no row of the table has a line below it; one that is has none."""
    with kinbin.open(filled) as database:
        told = database.collection("photos").tune(5, choices=[(8, 6)], sample=20)
    for rows, bands, lines in ((8, 6, 0), (1, 60, 1)):
        _show(replace(told, suggested=kinbin.Suggestion(rows, bands, "it is what is there")), stored=True)
        printed = capsys.readouterr().out.splitlines()
        assert printed[-1] == f"suggested: {rows}x{bands}: it is what is there"
        assert sum(line == "1x60: what is there, and none of the settings above: suggested" for line in printed) == lines
        assert sum(line.endswith("<- suggested") for line in printed) == 1 - lines


def test_a_collection_is_tuned_rebuilt_and_measured(run: Run, filled: Path) -> None:
    """The suggestion can be rebuilt, and the recall that is measured then is more; tables have a line for each setting and mode."""
    where = ("--data", filled, "--collection", "photos")
    result = run("tune", *where, "-k", 5, "--choice", "8x6", "--choice", "2x100", "--sample", 100)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "100 rows drawn, k 5, target recall 0.9"
    assert lines[1].startswith("now 8x6 (1 run): recall ")
    assert lines[3].startswith("8x6")
    assert lines[4].startswith("2x100")
    assert lines[4].endswith("<- suggested")
    before = orjson.loads(run("recall", *where, "-k", 5, "--mode", "bands", "--json").stdout)
    told = run("rebuild", *where, "--rows", 2, "--bands", 100)
    assert told.stdout.startswith("photos: 300 rows in 100 bands of 2 hashes each, in ")
    after = orjson.loads(run("recall", *where, "-k", 5, "--mode", "bands", "--json").stdout)
    assert after["modes"][0]["recall"] > before["modes"][0]["recall"]
    printed = run("recall", *where, "--queries", 30).stdout.splitlines()
    assert printed[0] == "30 stored rows as queries, k 10, target recall 0.9"
    assert [line.split()[0] for line in printed[2:]] == ["auto", "bands", "exact"]
    assert orjson.loads(run("rebuild", *where, "--json").stdout)["count"] == 300


def test_a_file_is_tuned_before_it_is_imported(run: Run, tmp_path: Path, vectors: NDArray[np.float32]) -> None:
    """Its first rows, with links if asked for, under a kernel; no database is made, and that not all were read is said."""
    file = tmp_path / "rows.npy"
    np.save(file, vectors)
    result = run("tune", file, "--kernel", "chi2", "--choice", "2x64", "--rows", 200, "--sample", 50, "--link", "--json")
    assert result.exit_code == 0, result.stderr
    told = orjson.loads(result.stdout)
    assert told["sample"] == 50
    assert told["walks"]
    assert told["current"]["runs"] == 1
    assert "the first 200 rows" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npy"]


def test_columns_of_a_file_are_named_as_for_an_import(run: Run, tmp_path: Path, vectors: NDArray[np.float32]) -> None:
    """Ids and labels are left out where they are named; what a new collection would have now is not told. Texts have no bands."""
    file = tmp_path / "rows.csv"
    lines = [f"r{i},{i % 3}," + ",".join(f"{x:.5f}" for x in row) for i, row in enumerate(vectors)]
    file.write_text("id,label," + ",".join(f"x{i}" for i in range(16)) + "\n" + "\n".join(lines) + "\n")
    assert "--id-column" in run("tune", file).stderr
    named = run("tune", file, "--id-column", "id", "--payload-columns", "label", "--choice", "2x64", "--sample", 20)
    assert named.exit_code == 0, named.stderr
    assert "now " not in named.stdout
    assert run("tune", file, "--id-column", "id", "--ignore-columns", "label", "--choice", "2x64", "--sample", 20).exit_code == 0
    texts = tmp_path / "words.txt"
    texts.write_text("kitten\nmitten\n")
    result = run("tune", texts)
    assert result.exit_code == 1
    assert "strings, which have no bands" in result.stderr


def test_a_file_is_read_in_the_format_that_is_named(run: Run, tmp_path: Path, vectors: NDArray[np.float32]) -> None:
    """What its name does not tell `--format` does, as for an import; so the refusal without it names an option that there is."""
    file = tmp_path / "notes.md"
    file.write_text("".join(",".join(f"{x:.5f}" for x in row) + "\n" for row in vectors))
    refused = run("tune", file)
    assert refused.exit_code == 1
    assert "say --format npy|npz|csv" in refused.stderr
    told = run("tune", file, "--format", "csv", "--choice", "2x64", "--sample", 20)
    assert told.exit_code == 0, told.stderr
    assert "20 rows drawn" in told.stdout
    assert "is not an array in .npy format" in run("tune", file, "--format", "npy").stderr


@pytest.mark.parametrize(
    "given",
    [
        ("--rows", 3), ("--format", "csv"), ("--link",), ("--kernel", "ngmm"), ("--parameter", "gamma=2"), ("--id-column", "id"),
        ("--payload-columns", "label"), ("--ignore-columns", "a"), ("--feature-columns", "a"),
    ],
    ids=lambda given: given[0],
)  # fmt: skip
def test_options_of_a_file_take_a_file(run: Run, filled: Path, given: tuple[object, ...]) -> None:
    """Of a collection they mean nothing: they are refused in one line, which names them, and nothing is predicted."""
    told = run("tune", "--data", filled, "--collection", "photos", *given)
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"Error: {given[0]}: only for a FILE, and none is named\n")
    error = orjson.loads(run("tune", "--data", filled, "--collection", "photos", *given, "--json").stderr)["error"]
    assert (error["code"], error["message"]) == ("usage", f"{given[0]}: only for a FILE, and none is named")


@pytest.mark.parametrize(
    "given", [("--collection", "photos"), ("--url", "http://127.0.0.1:1"), ("--field", "x")], ids=lambda given: given[0]
)
def test_options_of_a_collection_take_none(run: Run, tmp_path: Path, vectors: NDArray[np.float32], given: tuple[object, ...]) -> None:
    """Where a file is tuned, what names a collection is refused, not left aside."""
    file = tmp_path / "rows.npy"
    np.save(file, vectors)
    told = run("tune", file, *given)
    assert told.exit_code == 2
    assert told.stderr == f"Error: {given[0]}: only for a stored collection, and {file} is a file: leave one of them out\n"


def test_a_collection_that_is_named_as_a_file(run: Run, filled: Path) -> None:
    """`kinbin tune photos` says how a collection is named; of a file that has a suffix it says that it is not there."""
    told = run("tune", "photos", "--data", filled)
    assert (told.exit_code, told.stderr) == (1, "Error: photos: there is no such file; --collection photos names a collection\n")
    assert orjson.loads(run("tune", "photos", "--data", filled, "--json").stderr)["error"]["code"] == "os_error"
    for file in ("photos.npy", "no/photos"):
        assert "--collection" not in run("tune", file, "--data", filled).stderr


def test_what_cannot_be_is_refused(run: Run, filled: Path, tmp_path: Path) -> None:
    """Settings that are none, numbers out of range, files that are not there: one line and an exit code."""
    where = ("--data", filled, "--collection", "photos")
    assert run("tune", *where, "--choice", "3,64").exit_code == 2
    assert run("rebuild", *where, "--rows", 9).exit_code == 2
    assert run("tune", tmp_path / "none.npy").exit_code == 1
    assert "--mode is one of" in run("recall", *where, "--mode", "fast").stderr
    assert run("tune", *where, "--sample", 5_001).exit_code == 3
