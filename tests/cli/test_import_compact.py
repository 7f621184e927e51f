"""An import leaves a merged collection, unless it is told not to or comes to no good end; it says which."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_service.importing import Added, Batch, DatabaseTarget

Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Run = Callable[..., Result]


def stats(data: Path) -> dict[str, Any]:
    """What the library tells of the collection "c"."""
    with kinbin.open(data) as database:
        return database.collection("c").stats()


@pytest.fixture
def matrix(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A file of 50 vectors."""
    np.save(tmp_path / "m.npy", rng.random((50, 3)) + 0.01)
    return tmp_path / "m.npy"


def test_many_batches_end_as_one_run(data: Path, run: Run, matrix: Path) -> None:
    """After the last batch all rows are in one run; standard error says that it merges, the result that it did."""
    result = run("import", matrix, "--data", data, "--collection", "c", "--batch", 10)
    assert result.exit_code == 0
    assert result.stderr == "c: merging\n"
    assert result.stdout.splitlines()[0].endswith("50 items in the collection, merged into one run")
    after = stats(data)
    assert (after["count"], after["rows"], after["fresh_rows"], len(after["runs"])) == (50, 50, 0, 1)


def test_rows_that_were_replaced_leave_the_files(data: Path, imported: Imported, matrix: Path) -> None:
    """Merging takes what was there before with it: one run of live rows is left of two imports with the same ids."""
    assert imported(matrix)["compacted"] is True
    np.save(matrix, np.load(matrix)[:40] + 1)
    told = imported(matrix)
    assert (told["updated"], told["compacted"]) == (40, True)
    after = stats(data)
    assert (after["count"], after["rows"], after["fresh_rows"], len(after["runs"])) == (50, 50, 0, 1)


def test_no_compact_leaves_merging_to_the_next_writer(data: Path, run: Run, matrix: Path) -> None:
    """With --no-compact the rows stay as they were added, and the result says so; the next import merges them."""
    command = ("import", matrix, "--data", data, "--collection", "c", "--json")
    result = run(*command, "--no-compact")
    assert result.stderr == ""
    assert orjson.loads(result.stdout)["compacted"] is False
    assert (stats(data)["fresh_rows"], stats(data)["runs"]) == (50, [])
    again = orjson.loads(run(*command).stdout)
    assert (again["unchanged"], again["compacted"]) == (50, True)
    assert (stats(data)["fresh_rows"], len(stats(data)["runs"])) == (0, 1)


def test_a_bad_row_ends_the_import_before_merging(data: Path, imported: Imported, refused: Refused, matrix: Path) -> None:
    """What goes on later is merged later, by the run that imports the last row."""
    good = np.load(matrix)
    bad = good.copy()
    bad[33] = np.nan
    np.save(matrix, bad)
    refused(matrix, "--batch", 10)
    assert (stats(data)["fresh_rows"], stats(data)["runs"]) == (30, [])
    np.save(matrix, good)
    told = imported(matrix)
    assert (told["rows"], told["compacted"]) == (20, True)
    assert (stats(data)["fresh_rows"], len(stats(data)["runs"])) == (0, 1)


def test_nothing_to_merge(tmp_path: Path, imported: Imported) -> None:
    """An import that makes no collection merges none."""
    np.save(tmp_path / "empty.npy", np.empty((0, 4)))
    assert imported(tmp_path / "empty.npy")["compacted"] is False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_last_batch_ends_before_merging(
    data: Path, run: Run, matrix: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    """Who asks to stop does not wait for a merge: all rows are imported, which the result says, and the exit code is the signal's."""
    add = DatabaseTarget.add

    def add_and_signal(target: DatabaseTarget, batch: Batch, mode: str) -> Added:
        signal.raise_signal(number)
        return add(target, batch, mode)

    monkeypatch.setattr(DatabaseTarget, "add", add_and_signal)
    result = run("import", matrix, "--data", data, "--collection", "c", "--json")
    assert result.exit_code == code
    message = "stopped before merging; all rows are imported, and the next writer merges them"
    assert orjson.loads(result.stderr) == {"error": {"code": "interrupted", "message": message, "exit_code": code}}
    told = orjson.loads(result.stdout)
    assert (told["finished"], told["rows"], told["compacted"]) == (True, 50, False)
    assert (stats(data)["fresh_rows"], stats(data)["runs"]) == (50, [])


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (KeyboardInterrupt(), 130, "merging was broken off"),
        (kinbin.StorageError("no space left on the device"), 1, "merging failed: no space left on the device"),
        (OSError(28, "No space left on device"), 1, "merging failed: [Errno 28] No space left on device"),
    ],
)
def test_a_merge_that_fails_loses_no_row(
    data: Path, run: Run, matrix: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, expected: str
) -> None:
    """Ctrl-C and a full disk while merging end in one line and an exit code; the import is done, and nothing of it is left to resume."""

    def fail(collection: kinbin.Collection) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(kinbin.Collection, "compact", fail)
        result = run("import", matrix, "--data", data, "--collection", "c", "--json")
    assert result.exit_code == code
    merging, told = result.stderr.splitlines()
    assert merging == "c: merging"
    message = f"{expected}; all rows are imported, and the next writer merges them"
    kind = "interrupted" if code > 128 else "failed"
    assert orjson.loads(told) == {"error": {"code": kind, "message": message, "exit_code": code}}
    told = orjson.loads(result.stdout)
    assert (told["finished"], told["count"], told["compacted"]) == (True, 50, False)
    assert list((data / "imports").iterdir()) == []
    assert stats(data)["count"] == 50


def test_a_merge_that_finds_damage_is_left_to_nobody(data: Path, run: Run, matrix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next writer would find it, too: what to do is said instead."""

    def fail(collection: kinbin.Collection) -> None:
        raise kinbin.CorruptData("a page is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(kinbin.Collection, "compact", fail)
        result = run("import", matrix, "--data", data, "--collection", "c")
    assert result.exit_code == 1
    assert "all rows are imported, and merging failed" in result.stderr
    assert "kinbin repair" in result.stderr
    assert "next writer" not in result.stderr
    assert stats(data)["count"] == 50


def test_compact_and_url_exclude_each_other(run: Run, matrix: Path) -> None:
    """A service merges by itself: --compact cannot be asked of it."""
    result = run("import", matrix, "--url", "http://127.0.0.1:1", "--compact")
    assert result.exit_code == 2
    assert "--compact merges files of this machine" in result.stderr
