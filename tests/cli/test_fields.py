"""Collections with several fields on the command line: made, shown, asked, imported, exported, checked, linked and dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from service_process import Served

Run = Callable[..., Result]
FIELDS = ("--field", "colour:chi2:4", "--field", "words:ngmm")


@pytest.fixture
def made(run: Run, data: Path) -> tuple[object, ...]:
    """The options of a database with a collection `p` of two fields and five items."""
    assert (
        run("create", "p", "--data", data, *FIELDS).stdout
        == "p: created: field colour: kernel chi2, dimension 4; field words: kernel ngmm, sparse\n"
    )
    with kinbin.open(data) as database:
        X = np.random.default_rng(0).random((5, 4))
        database.fields_collection("p").add([f"i{i}" for i in range(5)], {"colour": X, "words": X})
    return "--data", data


def test_commands_know_fields(run: Run, made: tuple[object, ...]) -> None:
    """create finds what is alike, and stats, link, check and drop tell of every field."""
    assert "is there already, with 5 items" in run("create", "p", *made, *FIELDS).stdout
    assert run("create", "p", *made, "--field", "colour:chi2:5", "--field", "words:ngmm").exit_code != 0
    assert "2 fields" in run("stats", *made).stdout
    shown = run("stats", *made, "--collection", "p").stdout
    assert "p, field colour" in shown
    assert orjson.loads(run("stats", *made, "--collection", "p", "--json").stdout)["fields"]["words"]["count"] == 5
    assert "p, field words: 5 rows linked" in run("link", *made).stdout
    assert run("check", *made).stdout.startswith("p: ok: 5 items, 10 rows")
    assert run("drop", "p", *made, "--yes").exit_code == 0


def test_parameters_are_those_of_a_field(run: Run, data: Path) -> None:
    """FIELD:NAME=VALUE is put to its field, told with it, and refused where there is no such field or number."""
    command = ("create", "q", "--data", data, "--field", "a:gmm*rbf:3", "--field", "b:cosine")
    told = run(*command, "--parameter", "a:rbf.gamma=2").stdout
    assert told == "q: created: field a: kernel gmm*rbf rbf.gamma=2, dimension 3; field b: kernel cosine, sparse\n"
    shown = orjson.loads(run(*command, "--parameter", "a:rbf.gamma=2", "--json").stdout)
    assert (shown["created"], shown["parameters"]) == (False, None)
    assert {name: one["parameters"] for name, one in shown["fields"].items()} == {"a": {"rbf.gamma": 2.0}, "b": {}}
    for wrong in ("rbf.gamma=2", "c:gamma=2", "a:=2", "=2"):
        assert "FIELD:NAME=VALUE" in run(*command, "--parameter", wrong).stderr
    assert "rbf.gamma is a number from 0.001 to 1000, not 'two'" in run(*command, "--parameter", "a:rbf.gamma=two").stderr
    assert "kernel cosine has no parameter" in run(*command, "--parameter", "b:gamma=2").stderr


def test_what_the_command_line_cannot_do_is_refused(run: Run, made: tuple[object, ...], tmp_path: Path) -> None:
    """Fields that are no fields, and files of a collection with several, are refused in one line."""
    for wrong in ("colour", "colour:chi2:x", "a:b:1:2"):
        assert "NAME:KERNEL" in run("create", "q", *made, "--field", wrong).stderr
    assert "kernel is one of" in run("create", "q", *made, "--field", "a:chi3").stderr
    refused = run("export", tmp_path / "p.npz", *made, "--collection", "p")
    assert "p holds items of several fields, which are exported as NDJSON" in refused.stderr
    file = tmp_path / "items.ndjson"
    file.write_text('{"id": "z", "vector": [1, 2, 3, 4]}\n')
    assert "p has several fields, and the file holds vectors" in run("import", file, *made, "--collection", "p").stderr
    for line, text in (
        ('{"id": "z", "vectors": {"colour": [1, 2, 3, 4]}}', "the item has vectors of colour, the collection has colour, words"),
        ('{"id": "z", "vectors": [1]}', '"vectors" is an object of fields'),
        ('{"id": "z", "vectors": {"colour": [1, 2], "words": [1]}}', "field 'colour'"),
    ):
        file.write_text(line + "\n")
        assert text in run("import", file, *made, "--collection", "p").stderr
    assert "q is not there, or has no fields" in run("import", file, *made, "--collection", "q").stderr
    assert "are of each field" in run("import", file, *made, "--collection", "p", "--kernel", "chi2").stderr
    assert "several fields" in run("query", *made, "--collection", "p", "--vector", "[1, 2, 3, 4]").stderr


@pytest.mark.server
def test_a_service_is_asked_by_fields_as_well(run: Run, served: Served, tmp_path: Path) -> None:
    """The same query through a service, by vectors, sparse ones too, and by id; files go both ways."""
    where = ("--url", served.address)
    run("create", "fields", *where, *FIELDS)
    items = [
        {"id": "a", "vectors": {"colour": [1, 0, 0, 2], "words": ["red"]}},
        {"id": "b", "vectors": {"colour": [0, 1, 1, 0], "words": ["blue"]}},
    ]
    httpx.post(f"{served.address}/v1/collections/fields/index", json={"items": items}, trust_env=False).raise_for_status()
    file = tmp_path / "fields.ndjson"
    assert "2 items written" in run("export", file, *where, "--collection", "fields").stdout
    assert "2 rows imported" in run("import", file, *where, "--collection", "fields").stdout
    vectors = '{"colour": [1, 0, 0, 2], "words": {"tokens": {"red": 1}}}'
    answer = orjson.loads(run("query", "fields", *where, "--vectors", vectors, "--json").stdout)
    assert answer["results"][0]["parts"] == {"colour": 1.0, "words": 1.0}
    by_id = orjson.loads(run("query", "fields", *where, "--id", "b", "--include-self", "--weights", '{"words": 1}', "--json").stdout)
    assert (by_id["results"][0]["id"], list(by_id["results"][0]["parts"])) == ("b", ["words"])


def test_an_export_is_imported_to_the_same_bits(run: Run, made: tuple[object, ...], data: Path, tmp_path: Path) -> None:
    """Items of several fields are written as NDJSON, and the two commands that are told make the same collection of it elsewhere."""
    with kinbin.open(data) as database:
        database.fields_collection("p").add(["s"], {"colour": [[0, 1, 0, 1]], "words": [{"red": 3}]}, [{"n": 1}])
        before = {item.id: item for item in database.fields_collection("p").scroll(include=("vector", "payload")).items}
    file = tmp_path / "p.ndjson"
    told = run("export", file, *made, "--collection", "p").stdout
    assert "6 items written" in told
    assert "--field colour:chi2:4 --field words:ngmm" in told
    again = ("--data", tmp_path / "again")
    assert run("create", "p", *again, *FIELDS).exit_code == 0
    assert "6 rows imported" in run("import", file, *again, "--collection", "p").stdout
    with kinbin.open(tmp_path / "again") as database:
        after = {item.id: item for item in database.fields_collection("p").scroll(include=("vector", "payload")).items}
    assert repr(after) == repr(before)


def test_queries_of_several_fields(run: Run, made: tuple[object, ...], data: Path, tmp_path: Path) -> None:
    """A query by vectors, by the id of an item, or by a file of many is combined as asked, and tells the score of each field."""
    where = made
    with kinbin.open(data) as database:
        collection = database.fields_collection("p")
        X = np.random.default_rng(0).random((5, 4))
        weights = {"colour": 0.25, "words": 2.0}
        expected = collection.query({"colour": X[0], "words": X[1]}, weights, k=3)
        of_item = collection.query_id("i2", {"words": 1.0}, k=2)
        product = collection.query({"colour": X[0], "words": X[1]}, combine="product", k=3)
    vectors = orjson.dumps({"colour": X[0].tolist(), "words": X[1].tolist()}).decode()
    told = ("query", "p", *where, "-k", 3, "--vectors", vectors)
    answer = orjson.loads(run(*told, "--weights", orjson.dumps(weights).decode(), "--json").stdout)
    assert [one["id"] for one in answer["results"]] == list(expected.ids)
    assert [one["parts"] for one in answer["results"]] == [hit.parts for hit in expected]
    assert [one["score"] for one in answer["results"]] == [hit.score for hit in expected]
    shown = run(*told, "--combine", "product").stdout
    assert all(word in shown for word in ("colour", "words", f"{product.scores[0]:.6f}"))
    by_id = orjson.loads(run("query", "p", *where, "--id", "i2", "--weights", '{"words": 1}', "-k", 2, "--json").stdout)
    assert [one["id"] for one in by_id["results"]] == list(of_item.ids)
    file = tmp_path / "queries.ndjson"
    file.write_text(f'{{"vectors": {vectors}}}\n\n{{"vectors": {vectors}}}\n')
    many = orjson.loads(run("query", "p", *where, "--file", file, "-k", 3, "--json").stdout)["answers"]
    assert len(many) == 2
    assert many[0]["results"][0].keys() == {"id", "score", "payload", "parts"}
    for wrong, text in (
        (("--vectors", "[1]"), "vectors are an object of fields"), (("--vectors", '{"colour": "x"}'), "--vectors"),
        (("--vectors", vectors, "--weights", "{"), "--weights"), (("--vectors", vectors, "--max-distance", "1"), "use --min-score"),
        (("--vectors", '{"color": [1, 2, 3, 4]}'), "color"),
    ):  # fmt: skip
        refused = run("query", "p", *where, *wrong)
        assert refused.exit_code != 0
        assert text in refused.stderr
