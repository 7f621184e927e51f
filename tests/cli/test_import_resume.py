"""However an import ends early, nothing acknowledged is lost, and the same command goes on after it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_service.importing import state as states
from kinbin_service.importing.batches import Position

Imported = Callable[..., dict[str, Any]]
Refused = Callable[..., str]
Items = Callable[..., dict[str, kinbin.Item]]
Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]


class Died(BaseException):
    """The process ends here: nothing after it is done."""


def write_rows(path: Path, rows: int, bad: int | None = None) -> None:
    """An NDJSON file; row `bad` has a zero vector."""
    lines = ({"id": f"r{row}", "vector": [0.0, 0.0] if row == bad else [row + 1.0, 1.0], "payload": {"row": row}} for row in range(rows))
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def kept_states(data: Path) -> list[dict[str, Any]]:
    """What imports remember in a database's directory."""
    return [json.loads(path.read_bytes()) for path in (data / "imports").glob("*.json")]


def acknowledged(data: Path) -> int:
    """Rows that a running import has noted as acknowledged."""
    try:
        return sum(state["position"]["rows"] for state in kept_states(data))
    except FileNotFoundError:
        return 0


@pytest.fixture
def die_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the process die when a batch was acknowledged by the database and before it is noted, after so many that were noted."""

    def arrange(batches: int) -> None:
        save = states.save
        noted = 0

        def save_or_die(path: Path, state: states.ImportState) -> None:
            nonlocal noted
            if state.position.rows > 0 and not state.finished:
                if noted == batches:
                    monkeypatch.setattr(states, "save", save)
                    raise Died
                noted += 1
            save(path, state)

        monkeypatch.setattr(states, "save", save_or_die)

    return arrange


@pytest.mark.durability
def test_kill_9_loses_nothing_and_the_same_command_goes_on(
    tmp_path: Path, data: Path, spawn: Spawn, run: Run, items: Items, wait_until: Callable[..., None]
) -> None:
    """After each of several kill -9 all acknowledged rows are stored, and the last run completes the rest, row for row."""
    write_rows(tmp_path / "t.ndjson", 1_000)
    arguments = ("import", tmp_path / "t.ndjson", "--data", data, "--collection", "c", "--batch", 10)
    chance = random.Random(7)
    before = 0
    for _ in range(3):
        process = spawn("kinbin_service.cli", *arguments)
        goal = before + chance.randrange(20, 200)
        wait_until(lambda process=process, goal=goal: acknowledged(data) >= goal or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        process.kill()
        process.wait()
        before = acknowledged(data)
        assert before < 1_000
        assert before <= len(items()) <= before + 10
    finished = run(*arguments, "--json")
    assert f"continuing after {before:,} rows" in finished.stderr
    told = orjson.loads(finished.stdout)
    assert (told["rows"], told["rows_skipped"], told["count"]) == (1_000 - before, before, 1_000)
    assert {item.id: item.payload for item in items().values()} == {f"r{row}": {"row": row} for row in range(1_000)}
    assert kept_states(data) == []


@pytest.mark.durability
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_after_the_batch_under_way(
    tmp_path: Path, data: Path, spawn: Spawn, run: Run, items: Items, wait_until: Callable[..., None], number: signal.Signals, code: int
) -> None:
    """Ctrl-C and SIGTERM end the import between two batches, say how far it came in one line, and exit with 128 + signal."""
    write_rows(tmp_path / "t.ndjson", 1_000)
    arguments = ("import", tmp_path / "t.ndjson", "--data", data, "--collection", "c", "--batch", 10)
    process = spawn("kinbin_service.cli", *arguments)
    wait_until(lambda: acknowledged(data) >= 50 or process.poll() is not None)
    process.send_signal(number)
    out, errors = process.communicate(timeout=60)
    done = acknowledged(data)
    assert process.returncode == code
    assert errors.splitlines()[-1] == f"Error: stopped after {done:,} rows of {tmp_path / 't.ndjson'}; the same command goes on from there"
    assert "Traceback" not in errors
    assert out.startswith(f"c: {done:,} rows imported")
    assert len(items()) == done
    assert run(*arguments).exit_code == 0
    assert len(items()) == 1_000


def test_a_corrected_bad_row_is_where_the_import_goes_on(tmp_path: Path, imported: Imported, refused: Refused, items: Items) -> None:
    """A bad row ends the import with its line; once it is corrected, only the rest is read, although the file has changed."""
    path = tmp_path / "t.ndjson"
    write_rows(path, 100, bad=57)
    assert refused(path, "--batch", 10).startswith(f"{path}:58: ")
    assert len(items()) == 50
    write_rows(path, 120)
    told = imported(path, "--batch", 10)
    assert (told["rows"], told["rows_skipped"], told["count"]) == (70, 50, 120)


def test_a_bad_row_again_is_told_again(tmp_path: Path, refused: Refused, items: Items) -> None:
    """The same command on the same bad file ends at the same line, having read only the rest."""
    path = tmp_path / "t.ndjson"
    write_rows(path, 30, bad=25)
    for _ in range(3):
        assert refused(path, "--batch", 10).startswith(f"{path}:26: ")
        assert len(items()) == 20


def test_a_corrected_row_of_a_matrix(tmp_path: Path, imported: Imported, refused: Refused) -> None:
    """The rows of a .npy file before the bad one are skipped, too, when they did not change."""
    matrix = np.random.default_rng(0).random((40, 3))
    bad = matrix.copy()
    bad[33] = np.nan
    np.save(tmp_path / "m.npy", bad)
    assert refused(tmp_path / "m.npy", "--batch", 10).startswith(f"{tmp_path / 'm.npy'}, row 33: ")
    np.save(tmp_path / "m.npy", matrix)
    assert imported(tmp_path / "m.npy")["rows_skipped"] == 30


def test_a_file_that_changed_before_the_bad_row_starts_over(tmp_path: Path, data: Path, run: Run, refused: Refused, items: Items) -> None:
    """When what was imported is no longer what the file says, all of it is imported again."""
    path = tmp_path / "t.ndjson"
    write_rows(path, 30, bad=25)
    refused(path, "--batch", 10)
    path.write_bytes(path.read_bytes().replace(b'"row":3}', b'"row":-3}').replace(b"[0.0,0.0]", b"[1.0,0.0]"))
    result = run("import", path, "--data", data, "--collection", "c", "--json")
    assert f"{path}: the file has changed since the interrupted import: starting from the first row" in result.stderr
    assert orjson.loads(result.stdout)["rows"] == 30
    assert items()["r3"].payload == {"row": -3}


@pytest.mark.parametrize("option", [("--id-field", "name"), ("--format", "ndjson", "--payload-columns", "x")])
def test_other_options_start_over(tmp_path: Path, data: Path, run: Run, refused: Refused, option: tuple[str, ...]) -> None:
    """Rows that other options would read differently are not taken for imported."""
    path = tmp_path / "t.ndjson"
    path.write_text('{"id": "a", "vector": [1]}\n{"id": "b"}\n')
    refused(path, "--batch", 1)
    result = run("import", path, "--data", data, "--collection", "c", *option)
    assert "the options differ from the interrupted import's: starting from the first row" in result.stderr
    assert f"{path}:1: " in result.stderr or f"{path}:2: " in result.stderr


def test_a_dropped_collection_starts_over(tmp_path: Path, data: Path, run: Run, refused: Refused, items: Items) -> None:
    """What was imported into a collection that is gone is imported again."""
    path = tmp_path / "t.ndjson"
    write_rows(path, 30, bad=25)
    refused(path, "--batch", 10)
    with kinbin.open(data) as database:
        database.drop_collection("c")
    result = run("import", path, "--data", data, "--collection", "c", "--batch", 10)
    assert "what was imported is no longer in the collection: starting from the first row" in result.stderr
    assert len(items()) == 20


def test_no_resume_starts_over(tmp_path: Path, refused: Refused, imported: Imported) -> None:
    """--no-resume forgets what was imported."""
    path = tmp_path / "t.ndjson"
    write_rows(path, 30, bad=25)
    refused(path, "--batch", 10)
    path.write_bytes(path.read_bytes().replace(b"[0.0,0.0]", b"[1.0,0.0]"))
    told = imported(path, "--no-resume")
    assert (told["rows"], told["rows_skipped"], told["unchanged"]) == (30, 0, 20)


def test_finished_files_of_an_interrupted_command_are_skipped(
    tmp_path: Path, data: Path, run: Run, refused: Refused, imported: Imported
) -> None:
    """When the second of two files fails, the same command skips the first; when all are done, nothing is remembered."""
    good, bad = tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    write_rows(good, 20)
    write_rows(bad, 20, bad=15)
    assert refused(good, bad, "--batch", 10).startswith(f"{bad}:16: ")
    write_rows(bad, 20)
    result = run("import", good, bad, "--data", data, "--collection", "c", "--batch", 10, "--json")
    assert f"{good}: already imported, 20 rows, before the command was interrupted" in result.stderr
    told = orjson.loads(result.stdout)
    assert (told["rows"], told["rows_skipped"], told["files"]) == (10, 30, 2)
    assert kept_states(data) == []
    assert imported(good)["rows"] == 20


@pytest.mark.parametrize("mode", ["upsert", "insert"])
@pytest.mark.parametrize("batches", [0, 2])
def test_death_between_acknowledgement_and_note(
    tmp_path: Path, data: Path, run: Run, imported: Imported, items: Items, die_after: Callable[[int], None], mode: str, batches: int
) -> None:
    """A batch that the database acknowledged and the state file does not know is met again without harm, in every mode."""
    write_rows(tmp_path / "t.ndjson", 50)
    die_after(batches)
    with pytest.raises(Died):
        run("import", tmp_path / "t.ndjson", "--data", data, "--collection", "c", "--batch", 10, "--mode", mode)
    assert len(items()) == 10 * (batches + 1)
    assert acknowledged(data) == 10 * batches
    told = imported(tmp_path / "t.ndjson", "--mode", mode, "--batch", 15)
    assert (told["rows_skipped"], told["indexed"], told["unchanged"]) == (10 * batches, 40 - 10 * batches, 10)
    assert len(items()) == 50


def test_insert_meets_more_than_its_own_after_a_death(
    tmp_path: Path, data: Path, run: Run, refused: Refused, die_after: Callable[[int], None]
) -> None:
    """Items that are there in another pattern than an interrupted insert leaves are a conflict, and nothing is written over them."""
    write_rows(tmp_path / "t.ndjson", 30)
    die_after(0)
    with pytest.raises(Died):
        run("import", tmp_path / "t.ndjson", "--data", data, "--collection", "c", "--batch", 10, "--mode", "insert")
    with kinbin.open(data) as database:
        database.collection("c").delete(["r3"])
    assert "use --mode upsert" in refused(tmp_path / "t.ndjson", "--mode", "insert")
    with kinbin.open(data) as database:
        assert database.collection("c").count() == 9


def test_insert_after_an_orderly_end_is_a_true_conflict(tmp_path: Path, refused: Refused, imported: Imported) -> None:
    """Ids that were there before the interrupted insert are not taken for its own."""
    write_rows(tmp_path / "t.ndjson", 30)
    imported(tmp_path / "t.ndjson")
    for _ in range(2):
        assert refused(tmp_path / "t.ndjson", "--mode", "insert").startswith(f"{tmp_path / 't.ndjson'}:1: ")


def test_states_that_cannot_be_read_are_ignored(tmp_path: Path, data: Path, refused: Refused, imported: Imported) -> None:
    """A state file of another version, or one that is damaged, means to start over."""
    path = tmp_path / "t.ndjson"
    for content in (b"", b"[]", b'{"version": 99}', b'{"version": 1, "identity": 3}'):
        write_rows(path, 30, bad=25)
        refused(path, "--batch", 10)
        (kept,) = (data / "imports").glob("*.json")
        kept.write_bytes(content)
        write_rows(path, 30)
        assert imported(path)["rows_skipped"] == 0


def test_the_state_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that cannot be written leaves the one before as it was, and nothing beside it."""
    state = states.ImportState("s", "t", "c", states.FileIdentity(1, 2, "h"), {})
    states.save(tmp_path / "s.json", state)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        states.save(tmp_path / "s.json", state.advanced(Position(5), "x"))
    assert states.load(tmp_path / "s.json") == state
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
