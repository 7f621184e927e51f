"""Aliases that lead to nothing, and a damaged list of them: what the command line says of either."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

import kinbin

Run = Callable[..., Result]


@pytest.mark.slow
def test_a_damaged_list_of_aliases_is_no_damage_of_collections(three: Path, run: Run) -> None:
    """`check` tells of it by itself, what it says to do helps, and all collections are used meanwhile."""
    assert run("alias", "other", "a", "--data", three).exit_code == 0
    (three / "aliases").write_bytes(b"")
    checked = run("check", "--data", three)
    assert (checked.exit_code, checked.stdout.count(": ok:"), "aliases: DAMAGED" in checked.stdout) == (1, 3, True)
    assert "kinbin repair" not in checked.stdout
    told = orjson.loads(run("check", "--data", three, "--json").stdout)
    assert (told["ok"], "remove it" in told["aliases"], all(one["ok"] for one in told["collections"].values())) == (False, True, True)
    assert run("check", "--data", three, "--collection", "a").exit_code == 0
    assert run("stats", "--data", three, "--collection", "b").exit_code == 0
    (three / "aliases").unlink()
    assert run("check", "--data", three).exit_code == 0


@pytest.mark.slow
def test_an_alias_that_leads_to_nothing_is_told(three: Path, run: Run) -> None:
    """Where a collection's directory is gone only its aliases tell of it: check and stats name them, and end with 1."""
    with kinbin.open(three) as database:
        database.alias("old", "b")
    assert run("check", "--data", three).exit_code == run("stats", "--data", three).exit_code == 0
    shutil.rmtree(three / "collections" / "b")
    told = "'old' leads to 'b', which is not there"
    checked = run("check", "--data", three)
    assert (checked.exit_code, told in checked.stdout) == (1, True)
    assert orjson.loads(run("check", "--data", three, "--json").stdout)["aliases"] == told
    shown = run("stats", "--data", three)
    assert (shown.exit_code, told in shown.stderr, "a " in shown.stdout) == (1, True, True)


def test_stats_tells_of_a_damaged_list(three: Path, run: Run) -> None:
    """Every alias is refused then; the collections are shown as they are."""
    with kinbin.open(three) as database:
        database.alias("old", "b")
    file = three / "aliases"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    shown = run("stats", "--data", three)
    assert (shown.exit_code, "aliases: DAMAGED" in shown.stderr, "c " in shown.stdout) == (1, True, True)
