"""`kinbin snapshot`, `snapshots` and `restore`, on files and through a service; `kinbin recover`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin

Run = Callable[..., Result]


@pytest.fixture
def filled(data: Path) -> Path:
    """A database with a collection "photos" of 20 items, and one more in the last commit."""
    with kinbin.open(data) as database:
        photos = database.create_collection("photos", dim=4)
        photos.add([f"p{row}" for row in range(20)], np.eye(4, dtype=np.float32)[np.arange(20) % 4] + 1)
        photos.add(["late"], [[1, 2, 3, 4]])
    return data


def test_snapshots_from_the_command_line(run: Run, filled: Path, tmp_path: Path) -> None:
    """One is made, listed, verified, restored under another name and deleted; a file restores elsewhere; what is wrong is told."""
    made = orjson.loads(run("snapshot", "photos", "--data", filled, "--json").stdout)
    assert made["items"] == 21
    assert orjson.loads(run("snapshots", "photos", "--data", filled, "--json").stdout) == {"snapshots": [made]}
    assert made["id"] in run("snapshots", "photos", "--data", filled).stdout
    assert run("snapshots", "photos", "--data", filled, "--verify", made["id"]).stdout == f"{made['id']}: sound\n"
    assert "with 21 items" in run("restore", made["id"], "copy", "--from", "photos", "--data", filled).stdout
    file = tmp_path / "photos.kinbin"
    told = run("snapshot", "photos", "--data", filled, "--to", file).stdout
    assert f"21 items in {file.stat().st_size:,} bytes" in told
    assert orjson.loads(run("restore", file, "photos", "--data", tmp_path / "new", "--json").stdout) == {
        "collection": "photos",
        "count": 21,
    }
    again = run("restore", file, "photos", "--data", tmp_path / "new")
    assert (again.exit_code, "exists" in again.stderr) == (1, True)
    assert "overwrites nothing" in run("snapshot", "photos", "--data", filled, "--to", file).stderr
    assert "has no snapshot x" in run("restore", "x", "y", "--from", "photos", "--data", filled).stderr
    path = filled / "snapshots" / "photos" / f"{made['id']}.kinbin"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    damaged = run("snapshots", "photos", "--data", filled, "--verify", made["id"])
    assert (damaged.exit_code, "damaged" in damaged.stdout) == (1, True)
    assert run("snapshots", "photos", "--data", filled, "--delete", made["id"]).exit_code == 0
    assert run("snapshots", "photos", "--data", filled).stdout == "photos has no snapshots\n"


def test_what_a_snapshot_lacks_is_named(run: Run, filled: Path, tmp_path: Path) -> None:
    """The folder that is not there, and the option that an id goes with; no collection is made."""
    to = tmp_path / "nowhere" / "a.kinbin"
    told = run("snapshot", "photos", "--to", to, "--data", filled)
    assert (told.exit_code, told.stderr.startswith(f"Error: there is no folder {to.parent}")) == (1, True)
    told = run("restore", "20261127T120000", "others", "--data", filled)
    assert (told.exit_code, "the id of a kept snapshot goes with --from COLLECTION" in told.stderr) == (1, True)
    assert "others" not in run("stats", "--data", filled).stdout


def test_compacting_from_the_command_line(run: Run, filled: Path) -> None:
    """It says what the files took before and after; with --shrink they are no longer than what lives."""
    assert run("compact", "--data", filled, "--collection", "photos").stdout.startswith("photos: ")
    plain = orjson.loads(run("compact", "--data", filled, "--json").stdout)["photos"]
    shrunk = orjson.loads(run("compact", "--shrink", "--data", filled, "--json").stdout)["photos"]
    assert shrunk["after_bytes"] < shrunk["before_bytes"] == plain["after_bytes"]
    assert shrunk["freed_bytes"] == shrunk["before_bytes"] - shrunk["after_bytes"]
    assert run("check", "--data", filled).exit_code == 0


@pytest.mark.server
def test_compacting_through_a_service(run: Run, served: Any, tmp_path: Path) -> None:
    """With --url the service compacts, and says as much of it."""
    (tmp_path / "x.ndjson").write_text('{"id": "a", "vector": [1, 2, 3]}\n')
    assert run("import", tmp_path / "x.ndjson", "--url", served.address, "--collection", "merged").exit_code == 0
    told = orjson.loads(run("compact", "--url", served.address, "--collection", "merged", "--shrink", "--json").stdout)["merged"]
    assert told["freed_bytes"] == told["before_bytes"] - told["after_bytes"]
    assert "no collection" in run("compact", "--url", served.address, "--collection", "none").stderr


@pytest.mark.slow
def test_an_older_state_from_the_command_line(run: Run, filled: Path) -> None:
    """`recover` lists the sound states of a collection that opening refuses, takes the one that is named, and keeps the damaged file."""
    file = filled / "collections" / "photos" / "data.mdb"
    data = bytearray(file.read_bytes())
    data[4096 + 16 + 8 + 16 + 96 + 8] ^= 64
    file.write_bytes(data)
    assert "kinbin recover" in run("check", "--data", filled).stdout
    listed = run("recover", "photos", "--data", filled)
    assert [line.split(" ")[0] for line in listed.stdout.splitlines()] == ["transaction", "transaction", "`kinbin"]
    told = orjson.loads(run("recover", "photos", "--data", filled, "--json").stdout)
    assert [state["items"] for state in told["states"]] == [21, 20]
    assert told["taken"] is None
    assert file.read_bytes() == bytes(data)
    taken = run("recover", "photos", "--data", filled, "--transaction", told["states"][1]["transaction"])
    assert (taken.exit_code, "goes on with transaction" in taken.stdout, "data.mdb.damaged" in taken.stdout) == (0, True, True)
    assert (file.with_name("data.mdb.damaged")).read_bytes() == bytes(data)
    assert run("check", "--data", filled).exit_code == 0
    with kinbin.open(filled) as database:
        assert database.collection("photos").count() == 20
    wrong = run("recover", "photos", "--data", filled, "--transaction", 99)
    assert (wrong.exit_code, "no sound state" in wrong.stderr) == (1, True)
    data = bytearray(file.read_bytes())
    data[8192:] = bytes(len(data) - 8192)
    file.write_bytes(data)
    none = run("recover", "photos", "--data", filled)
    assert (none.exit_code, none.stdout) == (
        1,
        f"photos has no sound state: `kinbin repair photos --data {filled}` may save something; else restore a snapshot\n",
    )
