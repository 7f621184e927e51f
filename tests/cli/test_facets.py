"""kinbin facets, and kinbin create --index: what they print, and their refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

import kinbin

Run = Callable[..., Result]


@pytest.fixture
def filled(data: Path) -> Path:
    """A database with the collection "photos", three items of two tags."""
    with kinbin.open(data) as database:
        payloads = [{"tag": "cat", "year": 1}, {"tag": ["cat", "dog"], "year": 2}, {"tag": None}]
        database.create_collection("photos", dim=2).add(["a", "b", "c"], [[1, 2], [2, 1], [1, 1]], payloads)
    return data


def test_facets_are_printed(run: Run, filled: Path) -> None:
    """Counts and values come in lines, the most frequent first; with --json as one document."""
    asked = ["facets", "tag", "--data", filled, "--collection", "photos"]
    assert run(*asked).stdout.splitlines() == ["2  cat", "1  dog", "1  null", "3 different values of tag in 3 items"]
    told = orjson.loads(run(*asked, "--json", "--limit", "1", "--filter", '{"year": {"$gte": 1}}').stdout)
    assert told == {"collection": "photos", "field": "tag", "values": [{"value": "cat", "count": 2}], "distinct": 2, "items": 2}


def test_a_field_that_is_none_is_refused(run: Run, filled: Path) -> None:
    """A malformed field ends with one line and exit code 1."""
    result = run("facets", "a..b", "--data", filled, "--collection", "photos")
    assert (result.exit_code, "names a field of payloads" in result.stderr) == (1, True)


def test_indexes_are_declared(run: Run, data: Path) -> None:
    """--index declares fields of a new collection, and of one that is there; a malformed one is not understood, or refused."""
    for indexes in (["--index", "year:number"], ["--index", "tag:keyword", "--index", "year:number"]):
        assert run("create", "photos", "--data", data, "--dim", "2", *indexes).exit_code == 0
    with kinbin.open(data) as database:
        told = database.collection("photos").stats()["indexes"]
    assert {name: one["kind"] for name, one in told["fields"].items()} == {"year": "number", "tag": "keyword"}
    assert run("create", "photos", "--data", data, "--index", "year").exit_code == 2
    assert run("create", "others", "--data", data, "--index", "year:float").exit_code == 2
