"""`--field` on the command line: commands about one vector of each item say which, in a database and through a service alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_client import Client
from service_process import Served

Run = Callable[..., Result]
Where = tuple[object, ...]
FIELDS = {"colour": {"kernel": "chi2", "dim": 8}, "texture": {"kernel": "gmm", "dim": 4}}

ABOUT: dict[str, tuple[tuple[object, ...], str]] = {
    "tune": (("--choice", "1x8", "--sample", 10, "-k", 3), "tuned"),
    "rebuild": (("--rows", 1, "--bands", 16), "laid out"),
    "map": ((), "drawn"),
    "duplicates": (("--min-score", 0.999), "looked through"),
    "explain": (("i0", "--query-id", "i1"), "explained"),
}
"""By command, what it is asked besides, and what it does with the field."""


def _vectors() -> dict[str, np.ndarray]:
    """Of 40 items; i20 to i39 have the textures of i0 to i19, and no colour is near another."""
    rng = np.random.default_rng(0)
    return {"colour": rng.gamma(0.3, size=(40, 8)) + 1e-3, "texture": np.tile(rng.normal(size=(20, 4)), (2, 1))}


IDS = [f"i{i}" for i in range(40)]


@pytest.fixture
def stored(data: Path) -> Where:
    """A database with "p", of two fields, and "one", of one vector an item."""
    with kinbin.open(data) as database:
        database.create_collection("p", fields=FIELDS)
        database.fields_collection("p").add(IDS, _vectors())
        database.create_collection("one", dim=4).add(["a", "b"], [[1, 2, 0, 0], [0, 1, 1, 0]])
    return "--data", data


@pytest.fixture(scope="module")
def behind(served: Served) -> Where:
    """The same, behind a service."""
    with Client(served.address) as client:
        client.create_collection("p", fields=FIELDS)
        client.fields_collection("p").add(IDS, _vectors())
        client.create_collection("one", dim=4).add(["a", "b"], [[1, 2, 0, 0], [0, 1, 1, 0]])
    return "--url", served.address


def _works_by_field(run: Run, where: Where) -> None:
    of = (*where, "--collection", "p")
    for command, (asked, _) in ABOUT.items():
        told = run(command, *asked, *of, "--field", "texture")
        assert told.exit_code == 0, (command, told.stderr)
    assert run("rebuild", "--rows", 1, "--bands", 24, *of, "--field", "colour").stdout.startswith(
        "p, field colour: 40 rows in 24 bands of 1 hash each, in "
    )
    lay = {name: run("tune", *ABOUT["tune"][0], *of, "--field", name).stdout.splitlines()[1] for name in FIELDS}
    assert (lay["colour"].split()[1], lay["texture"].split()[1]) == ("1x24", "1x16")
    asked = ("duplicates", "--min-score", 0.999, *of, "--json", "--field")
    assert {frozenset((one["a"], one["b"])) for one in orjson.loads(run(*asked, "texture").stdout)["pairs"]} == {
        frozenset((f"i{i}", f"i{i + 20}")) for i in range(20)
    }
    assert orjson.loads(run(*asked, "colour").stdout)["pairs"] == []


def _refused(run: Run, where: Where) -> None:
    for command, (asked, done) in ABOUT.items():
        for collection, field, says in (
            ("p", (), f"--field says which field is {done}: colour, texture"),
            ("p", ("--field", "textur"), "field is one of colour, texture, not 'textur'"),
            ("one", ("--field", "texture"), "--field is for collections with several fields, and this one has none"),
        ):
            line = (command, *asked, *where, "--collection", collection, *field)
            told = run(*line)
            assert (told.exit_code, told.stderr.count("\n"), says in told.stderr) == (1, 1, True), (command, told.stderr)
            error = orjson.loads(run(*line, "--json").stderr)["error"]
            assert (error["exit_code"], says in error["message"]) == (1, True), (command, error)
    told = run("duplicates", *where, "--collection", "p", "--field", "colour", "--max-distance", 1)
    assert (told.exit_code, told.stderr) == (1, "Error: fields print scores: give --min-score, not --max-distance\n")


def test_commands_work_by_field(run: Run, stored: Where) -> None:
    """Bands, near pairs, maps and terms are those of the named field, and of no other."""
    _works_by_field(run, stored)


def test_a_field_is_asked_for(run: Run, stored: Where) -> None:
    """Without a field of several, with one that is not there, or with one too many, every command ends with one line, or one of JSON."""
    _refused(run, stored)


def test_a_file_of_several_fields_is_not_tuned(run: Run, tmp_path: Path) -> None:
    """The refusal says what to do, and has no word of how files are read inside."""
    file = tmp_path / "items.ndjson"
    file.write_text('{"id": "a", "vectors": {"x": [1, 2], "y": [1]}}\n{"id": "b", "vectors": {"x": [2, 1], "y": [2]}}\n')
    told = run("tune", file)
    says = "its items have several vectors: import them, and tune a field of the collection (--collection, --field)"
    assert (told.exit_code, told.stderr) == (1, f"Error: {file}: {says}\n")


@pytest.mark.server
def test_commands_work_by_field_through_a_service(run: Run, behind: Where) -> None:
    """The same through a service."""
    _works_by_field(run, behind)


@pytest.mark.server
def test_a_service_is_told_a_field(run: Run, behind: Where) -> None:
    """What is refused of a database is refused of a service, in the same words."""
    _refused(run, behind)
