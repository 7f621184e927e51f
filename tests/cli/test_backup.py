"""`kinbin backup` and `restore-backup`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
from typer.testing import Result

import kinbin

Run = Callable[..., Result]


def test_a_backup_from_the_command_line(run: Run, data: Path, tmp_path: Path) -> None:
    """A database is written to a directory and made anew of it elsewhere; what is there is not overwritten, with one line that says so."""
    with kinbin.open(data) as database:
        database.create_collection("photos", dim=4).add(list("abcd"), np.eye(4) + 1)
        database.alias("live", "photos")
    written = run("backup", tmp_path / "backup", "--data", data)
    assert written.exit_code == 0
    assert written.stdout.splitlines()[-1] == f"1 collections and 1 aliases written to {tmp_path / 'backup'}"
    told = orjson.loads(run("restore-backup", tmp_path / "backup", "--data", tmp_path / "new", "--json").stdout)
    assert ([one["collection"] for one in told["collections"]], told["aliases"]) == (["photos"], {"live": "photos"})
    with kinbin.open(tmp_path / "new") as database:
        assert database.collection("live").count() == 4
    assert "is written into a new directory" in run("backup", tmp_path / "backup", "--data", data).stderr
    assert "is there" in run("restore-backup", tmp_path / "backup", "--data", data).stderr
    assert run("backup", tmp_path / "other", "--data", tmp_path / "none").exit_code == 1
