"""`kinbin calibrate`: what it prints, what it writes, and how it fails. What is measured is tested with the library."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

import kinbin

Run = Callable[..., Result]
Progress = Callable[[int, int], None]
NAMES = [one.name for one in fields(kinbin.Costs)]
FOUND = {"band": 31.23456, "node": 6.5, "walk": 1234.5}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What measuring finds."""
    found = dict(FOUND)

    def measure(progress: Progress) -> dict[str, float]:
        progress(1, 2)
        return found

    monkeypatch.setattr(kinbin, "measure_costs", measure)
    return found


def test_a_table_of_all_costs(run: Run, measured: dict[str, float]) -> None:
    """Every cost has a line with what it is, as shipped, as measured and the ratio; those that were not measured are named."""
    result = run("calibrate")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["cost", "what", "it", "is", "shipped", "measured", "ratio"]
    assert [line.split()[0] for line in lines[1 : 1 + len(NAMES)]] == NAMES
    by_name = {line.split()[0]: line for line in lines[1 : 1 + len(NAMES)]}
    assert by_name["node"].split()[-3:] == ["13", "6.5", "0.5"]
    assert "a node that a walk meets" in by_name["node"]
    assert by_name["hash"].split()[-3:] == ["0.25", "–", "–"]
    left_out = ", ".join(name for name in NAMES if name not in measured)
    assert f"keep their shipped values: {left_out}." in result.stdout
    assert "Nothing was written: --write FILE" in result.stdout


@pytest.mark.usefixtures("measured")
def test_json(run: Run) -> None:
    """--json prints the same for programs, and null where nothing was measured."""
    told = orjson.loads(run("calibrate", "--json").stdout)
    assert list(told["costs"]) == NAMES
    text = kinbin.Costs.__dataclass_fields__["node"].metadata["text"]
    assert told["costs"]["node"] == {"text": text, "shipped": 13.0, "measured": 6.5, "ratio": 0.5}
    assert told["costs"]["line"]["measured"] is told["costs"]["line"]["ratio"] is told["written"] is None
    assert told["not_measured"] == [name for name in NAMES if name not in FOUND]


@pytest.mark.usefixtures("measured")
def test_the_file_is_read(run: Run, tmp_path: Path) -> None:
    """What is written is what was measured, to three digits; the table of costs reads it, and so does a process with KINBIN_COSTS."""
    path = tmp_path / "costs.json"
    path.write_text("something older")
    result = run("calibrate", "--write", path)
    assert result.exit_code == 0, result.stderr
    assert f"Wrote {path}: processes with KINBIN_COSTS={path} " in result.stdout
    assert orjson.loads(path.read_bytes()) == {"band": 31.2, "node": 6.5, "walk": 1230.0}
    assert kinbin.Costs.named(str(path)) == replace(kinbin.Costs(), band=31.2, node=6.5, walk=1230.0)
    code = "from kinbin.costs import COSTS; print(COSTS.band, COSTS.node, COSTS.walk, COSTS.line)"
    out = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"KINBIN_COSTS": str(path)}, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert out.split() == ["31.2", "6.5", "1230.0", str(kinbin.Costs().line)]


@pytest.mark.usefixtures("measured")
def test_nothing_is_written_without_being_asked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --write no file appears where the command is run."""
    monkeypatch.chdir(tmp_path)
    assert run("calibrate").exit_code == run("calibrate", "--json").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_is_told_at_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory, or a file in none, is refused before anything is measured: exit code 2, and as JSON with --json."""
    monkeypatch.setattr(kinbin, "measure_costs", None)
    for path in (tmp_path, tmp_path / "none" / "costs.json"):
        result = run("calibrate", "--write", path)
        message = f"--write {path}: it has to name a file in a directory that is there"
        assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")
        as_json = orjson.loads(run("calibrate", "--write", path, "--json").stderr)
        assert as_json == {"error": {"code": "usage", "message": message, "exit_code": 2}}


def _last_line(result: Result) -> str:
    """What is told on standard error, behind lines about kernels that are compiled."""
    return result.stderr.splitlines()[-1]


def test_nothing_measured_is_a_failure(run: Run, measured: dict[str, float], tmp_path: Path) -> None:
    """Where no cost could be measured the command fails, and writes nothing."""
    measured.clear()
    result = run("calibrate", "--write", tmp_path / "costs.json")
    assert (result.exit_code, _last_line(result)) == (1, "Error: no cost could be measured: the machine is too busy")
    assert list(tmp_path.iterdir()) == []


def test_breaking_it_off(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends it with 130 and one line; nothing is written."""

    def measure(progress: Progress) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(kinbin, "measure_costs", measure)
    result = run("calibrate", "--write", tmp_path / "costs.json")
    assert (result.exit_code, _last_line(result)) == (130, "Error: broken off")
    assert list(tmp_path.iterdir()) == []


def test_from_end_to_end(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library measures, on less data here, is what is printed and written."""
    monkeypatch.setattr(kinbin, "measure_costs", partial(kinbin.measure_costs, scale=0.01))
    path = tmp_path / "costs.json"
    told = orjson.loads(run("calibrate", "--json", "--write", path).stdout)
    written = orjson.loads(path.read_bytes())
    assert written == {name: cost["measured"] for name, cost in told["costs"].items() if cost["measured"] is not None}
    assert {*written, *told["not_measured"]} == set(NAMES)
    assert all(getattr(kinbin.Costs.named(str(path)), name) == ns for name, ns in written.items())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["calibrate", "check"])
def test_a_malformed_file_in_the_environment(tmp_path: Path, command: str) -> None:
    """A command in whose environment KINBIN_COSTS names a malformed file ends with 1 and one line that says what is wrong."""
    path = tmp_path / "costs.json"
    path.write_text('{"knot": 1}')
    with kinbin.open(tmp_path / "db") as database:
        database.create_collection("c", dim=4)
    data = ["--data", str(tmp_path / "db")] if command == "check" else []
    done = subprocess.run(
        [sys.executable, "-m", "kinbin_service.cli", command, *data], env=os.environ | {"KINBIN_COSTS": str(path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: the file of costs {path} names 'knot', which is none of band,")
    assert done.stderr.count("\n") == 1
