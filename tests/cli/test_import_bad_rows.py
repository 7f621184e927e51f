"""--skip-bad: bad rows are left out, listed and counted; the others keep their numbers, and an import still resumes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_service.importing import BadRows, DatabaseTarget
from kinbin_service.importing.batches import BadRow
from service_process import Served

Run = Callable[..., Result]
Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]

CSV_LINES = ["1,2", "0,0", "x,1", "3,4,5", "", "1,nan", "5,6", '"a"b,1', "7,8"]
"""Good rows are 0, 5 and 7 of 0 to 7 (a blank line is no row), of lines 1 to 9."""
BAD_LINES = [2, 3, 4, 6, 8]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """A CSV file with a bad row of every kind that a reader or the library refuses."""
    (tmp_path / "t.csv").write_text("\n".join(CSV_LINES) + "\n")
    return tmp_path / "t.csv"


@pytest.mark.parametrize("batch", [1, 2, 3, 1_000])
def test_bad_rows_of_a_csv_file_are_left_out(imported: Imported, items: Items, csv: Path, batch: int) -> None:
    """Whatever the size of batches, good rows are imported under their row numbers, and bad ones told by line and reason, in order."""
    told = imported(csv, "--no-header", "--skip-bad", "--batch", batch)
    assert {identifier: np.asarray(item.vector).tolist() for identifier, item in items().items()} == {"0": [1, 2], "5": [5, 6], "7": [7, 8]}
    assert (told["rows"], told["rows_bad"], told["count"], told["finished"]) == (3, 5, 3, True)
    assert [row["line"] for row in told["bad"]] == BAD_LINES
    reasons = [row["reason"] for row in told["bad"]]
    for reason, expected in zip(reasons, ["zero", "expected a number, got 'x'", "expected 2 cells", "finite", "not CSV"], strict=True):
        assert expected in reason


def test_bad_lines_of_other_formats_are_left_out(imported: Imported, run: Run, items: Items, tmp_path: Path, data: Path) -> None:
    """NDJSON, svmlight and arrays leave out lines and rows that are no items; lines that are not UTF-8 too."""
    lines = [b'{"id": "a", "vector": [1, 2]}', b"{", b'{"id": "b", "vector": [1]}', b"\xff", b'{"id": "c", "vector": [1, "2"]}']
    (tmp_path / "t.ndjson").write_bytes(b"\n".join([*lines, b'{"id": "d", "vector": [3, 4]}']))
    told = imported(tmp_path / "t.ndjson", "--skip-bad")
    assert (sorted(items()), [row["line"] for row in told["bad"]]) == (["a", "d"], [2, 3, 4, 5])
    (tmp_path / "t.svm").write_text("1 1:0.5\n1\n1 x:1\n2 2:1\n")
    command = ("import", "--data", data, "--skip-bad", "--json")
    told = orjson.loads(run(*command, tmp_path / "t.svm", "--collection", "s").stdout)
    assert (sorted(items("s")), [row["line"] for row in told["bad"]]) == (["0", "3"], [2, 3])
    matrix = np.ones((30, 2))
    matrix[5:20] = 0
    np.save(tmp_path / "m.npy", matrix)
    told = orjson.loads(run(*command, tmp_path / "m.npy", "--collection", "m", "--batch", 8).stdout)
    assert sorted(map(int, items("m"))) == [*range(5), *range(20, 30)]
    assert [row["row"] for row in told["bad"]] == list(range(5, 20))


def test_without_the_option_the_first_bad_row_ends_the_import(refused: Refused, csv: Path) -> None:
    """Bad rows are left out only where that is asked for."""
    assert refused(csv, "--no-header", "--batch", 1).startswith(f"{csv}:2: ")


def test_an_import_that_ended_at_a_bad_row_goes_on_leaving_it_out(run: Run, items: Items, data: Path, csv: Path) -> None:
    """After an import ended at a bad row, the same command with --skip-bad goes on from there."""
    command = ("import", csv, "--no-header", "--data", data, "--collection", "c", "--batch", 1)
    assert run(*command).exit_code == 1
    again = run(*command, "--skip-bad", "--json")
    assert f"{csv}: continuing after 1 rows" in again.stderr
    told = orjson.loads(again.stdout)
    assert (told["rows"], told["rows_skipped"], told["rows_bad"]) == (2, 1, 5)
    assert sorted(items()) == ["0", "5", "7"]


@pytest.mark.parametrize("mode", ["upsert", "insert"])
def test_an_interrupted_import_resumes(
    run: Run, imported: Imported, items: Items, data: Path, csv: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Interrupted after any batch, the import goes on, and ends with the same items."""
    add = DatabaseTarget.add
    left = [2]

    def add_twice(target: DatabaseTarget, batch: Any, how: str) -> Any:
        if left[0] == 0:
            raise OSError(5, os.strerror(5))
        left[0] -= 1
        return add(target, batch, how)

    options = ("--no-header", "--skip-bad", "--batch", 3, "--mode", mode)
    with monkeypatch.context() as patched:
        patched.setattr(DatabaseTarget, "add", add_twice)
        assert run("import", csv, *options, "--data", data, "--collection", "c").exit_code == 1
    told = imported(csv, *options)
    assert told["rows_skipped"] + told["rows"] >= 3
    assert sorted(items()) == ["0", "5", "7"]


def test_the_list_is_short_and_the_file_is_whole(run: Run, data: Path, tmp_path: Path) -> None:
    """On the screen 20 bad rows are listed and the others counted; --bad-rows has all of them, behind what it held."""
    matrix = np.zeros((50, 2))
    matrix[0] = 1
    np.save(tmp_path / "m.npy", matrix)
    (tmp_path / "bad.ndjson").write_text('{"before": 1}\n')
    result = run("import", tmp_path / "m.npy", "--data", data, "--skip-bad", "--bad-rows", tmp_path / "bad.ndjson", "--batch", 7)
    assert result.exit_code == 0
    listed = [line for line in result.stderr.splitlines() if line.startswith("left out: ")]
    assert listed[0].startswith(f"left out: {tmp_path / 'm.npy'}, row 1: ")
    assert listed[20:] == [f"left out: 29 more rows; all are in {tmp_path / 'bad.ndjson'}"]
    assert ": 1 rows imported" in result.stdout
    assert "49 bad rows left out" in result.stdout
    lines = [orjson.loads(line) for line in (tmp_path / "bad.ndjson").read_bytes().splitlines()]
    assert lines[0] == {"before": 1}
    assert [line["row"] for line in lines[1:]] == list(range(1, 50))
    assert all(line.keys() == {"file", "row", "reason"} for line in lines[1:])


def test_nothing_but_bad_rows_is_a_failure(run: Run, data: Path, tmp_path: Path) -> None:
    """When every row is bad, the mistake is elsewhere: exit code 1, and no collection is made."""
    (tmp_path / "t.ndjson").write_text("[1]\n[2]\n")
    result = run("import", tmp_path / "t.ndjson", "--data", data, "--skip-bad")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, "Error: nothing was imported: all 2 rows are bad")
    with kinbin.open(data) as database:
        assert database.collections() == []


def test_a_quote_that_is_never_closed_ends_the_import(refused: Refused, tmp_path: Path) -> None:
    """Behind an open quote nobody knows where the next row starts: rows are not thrown away for it."""
    (tmp_path / "t.csv").write_text("1,2\n" * 30 + '"1,2\n3,4\n')
    assert "every quote closed" in refused(tmp_path / "t.csv", "--skip-bad")


def test_conflicts_are_no_bad_rows(imported: Imported, refused: Refused, tmp_path: Path) -> None:
    """An id that is there is a conflict of mode insert with or without --skip-bad."""
    np.save(tmp_path / "m.npy", np.ones((3, 2)))
    imported(tmp_path / "m.npy")
    assert "use --mode upsert" in refused(tmp_path / "m.npy", "--skip-bad", "--mode", "insert")


@pytest.mark.server
@pytest.mark.timeout(300)
def test_bad_rows_through_a_service(
    run: Run, served: Served, items: Items, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that a service refuses are left out as those that a database refuses."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    result = run(
        "import", csv, "--no-header", "--skip-bad", "--url", served.address, "--collection", "bad-rows", "--mode", "insert", "--json"
    )
    assert result.exit_code == 0, result.stderr
    told = orjson.loads(result.stdout)
    assert ([row["line"] for row in told["bad"]], told["kernel"], told["dim"]) == (BAD_LINES, "ngmm", 2)
    assert sorted(items("bad-rows", served.data)) == ["0", "5", "7"]


def test_a_list_needs_something_to_list(run: Run, csv: Path) -> None:
    """--bad-rows without --skip-bad is a misunderstanding."""
    assert run("import", csv, "--bad-rows", "x").exit_code == 2


def test_what_is_kept_is_bounded() -> None:
    """However many rows are bad, 20 are held in memory."""
    bad = BadRows()
    for row in range(1_000):
        bad.note([_bad(row)])
    assert (bad.count, len(bad.first)) == (1_000, 20)


def _bad(row: int) -> BadRow:
    return BadRow(Path("x"), "why", row=row)


def test_a_bad_row_hides_no_conflict(imported: Imported, refused: Refused, tmp_path: Path) -> None:
    """In mode insert, an id that is there is a conflict even in a batch with a bad row before it was tried."""
    (tmp_path / "t.ndjson").write_text('{"id": "a", "vector": [1, 2]}\n')
    imported(tmp_path / "t.ndjson")
    (tmp_path / "u.ndjson").write_text('{"id": "a", "vector": [1, 2]}\n{"id": "b", "vector": [0, 0]}\n{"id": "c", "vector": [1, 2]}\n')
    assert "use --mode upsert" in refused(tmp_path / "u.ndjson", "--skip-bad", "--mode", "insert")
