"""kinbin explain: what it prints, with a database and through a service, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_client import Client
from service_process import Served

Run = Callable[..., Result]


@pytest.fixture
def filled(data: Path) -> Path:
    """A database of tokens, strings and several fields."""
    with kinbin.open(data) as database:
        database.create_collection("words", kernel="minmax").add(["a", "b"], [{"red": 3, "apple": 1, "pie": 2}, {"red": 2, "apple": 2}])
        database.create_collection("names", items="strings").add(["a"], ["sitting"])
        fields = database.create_collection("both", fields={"x": {"kernel": "gmm*rbf", "dim": 2}, "y": {"dim": 2}})
        fields.add(["a", "b"], {"x": [[1, 2], [2, 1]], "y": [[1, 0], [0, 1]]})
    return data


def test_terms_are_printed(run: Run, filled: Path) -> None:
    """The greatest terms come first, with names of tokens; then the others, the bands, and the score above all."""
    asked = ["explain", "a", "--data", filled, "--collection", "words", "--vector", '{"tokens": {"red": 2, "apple": 2}}']
    lines = run(*asked, "--limit", "2").stdout.splitlines()
    assert lines[0] == "a: score 0.428571, minmax: Σ min(u, v) / Σ max(u, v), u, v ≥ 0"
    assert [line.split() for line in lines[1:5]] == [
        ["feature", "query", "item", "part"], ["red", "2", "3", "0.285714"], ["apple", "2", "1", "0.142857"], ["1", "others", "0"],
    ]  # fmt: skip
    assert "of 128 bands of 1 hash each are shared" in lines[5]
    told = orjson.loads(run(*asked, "--json", "--name", "pie").stdout)
    assert [term["name"] for term in told["factors"][0]["terms"]] == ["red", "apple", "pie"]
    assert told["score"] == pytest.approx(3 / 7)


def test_strings_and_stored_items(run: Run, filled: Path) -> None:
    """Changes of strings are printed with their places; a stored item is compared by its id; a formula follows what it is of."""
    lines = run("explain", "a", "--data", filled, "--collection", "names", "--string", "kitten").stdout.splitlines()
    assert lines[0].startswith("a: distance 3, levenshtein")
    assert [line.split() for line in lines[2:5]] == [
        ["replace", "0", "→", "0", "k", "s", "1"], ["replace", "4", "→", "4", "e", "i", "1"], ["insert", "6", "g", "1"],
    ]  # fmt: skip
    assert "has no bands" in lines[5]
    lines = run("explain", "a", "--data", filled, "--collection", "both", "--query-id", "b", "--field", "x").stdout.splitlines()
    assert lines[0].startswith("a: score ")
    assert [line.split()[0] for line in lines if line.startswith(("gmm ", "rbf "))] == ["gmm", "rbf"]
    assert any(line.startswith("exp(-gamma * x / 2) of x=") for line in lines)


def test_what_is_refused(run: Run, filled: Path) -> None:
    """No query, two of them, an item that is not there, and fields that are missing or too many end with one line."""
    here = ["--data", filled, "--collection"]
    assert run("explain", "a", *here, "words").exit_code == 2
    assert run("explain", "a", *here, "words", "--query-id", "b", "--vector", "[1]").exit_code == 2
    for asked, says in (
        (["no", *here, "words", "--query-id", "b"], "no item of this collection has the id"),
        (["a", *here, "both", "--query-id", "b"], "--field says which field is explained: x, y"),
        (["a", *here, "words", "--query-id", "b", "--field", "x"], "--field is for collections with several fields"),
        (["a", *here, "names", "--vector", "[1, 2]"], "holds strings, and the query is one of vectors: give --string\n"),
        (["a", *here, "words", "--string", "hello"], "holds vectors, and the query is one of strings: give --vector\n"),
        (["a", *here, "words", "--image", filled / "nothere.png"], "nothere.png: there is no such file\n"),
        (["a", *here, "words", "--image", __file__], "holds vectors, and the query is one of images: give --vector\n"),
        (["a", *here, "both", "--field", "x", "--series", "[1]"], "holds vectors, and the query is one of series: give --vector\n"),
    ):
        result = run("explain", *asked)
        assert (result.exit_code, says in result.stderr) == (1, True), result.stderr


def _names_are_of_tokens(run: Run, where: tuple[object, ...]) -> None:
    numbered = "--name is for tokens, and features have numbers here: kinbin create --feature-names names those"
    for collection, query, says in (
        ("colours", ("--vector", "[2, 1, 1]"), numbered), ("colours", ("--query-id", "b"), numbered),
        ("both", ("--query-id", "b", "--field", "y"), numbered), ("sparse", ("--vector", "[2, 1]"), numbered),
        ("names", ("--string", "kitten"), "--name is for tokens, and strings have none"),
    ):  # fmt: skip
        line = ("explain", "a", *where, "--collection", collection, *query, "--name", "blue")
        told = run(*line)
        assert (told.exit_code, told.stderr) == (1, f"Error: {says}\n"), (collection, told.output)
        assert orjson.loads(run(*line, "--json").stderr)["error"]["message"] == says
    line = ("explain", "a", *where, "--collection", "sparse", "--query-id", "b", "--name", "blue", "--json")
    assert [term["name"] for term in orjson.loads(run(*line).stdout)["factors"][0]["terms"]] == ["blue"]


def test_names_are_of_tokens(run: Run, filled: Path) -> None:
    """`--name` is refused where features have numbers, or none are there; it named features 0, 1, … over their declared names."""
    with kinbin.open(filled) as database:
        made = database.create_collection("colours", dim=3, feature_names=["red", "green", "blue"])
        made.add(["a", "b"], [[3, 1, 0], [1, 1, 1]])
        database.create_collection("sparse").add(["a", "b"], [{"blue": 2}, {"blue": 1}])
    _names_are_of_tokens(run, ("--data", filled))


@pytest.mark.slow
@pytest.mark.server
def test_names_are_of_tokens_of_a_service(run: Run, served: Served) -> None:
    """The same through a service, in the same words."""
    with Client(served.address) as client:
        client.create_collection("colours", dim=3, feature_names=["red", "green", "blue"]).add(["a", "b"], [[3, 1, 0], [1, 1, 1]])
        client.create_collection("sparse").add(["a", "b"], [{"blue": 2}, {"blue": 1}])
        client.create_collection("names", items="strings", exist_ok=True).add(["a"], ["sitting"])
        client.create_collection("both", fields={"x": {"dim": 2}, "y": {"dim": 2}}, exist_ok=True)
        client.fields_collection("both").add(["a", "b"], {"x": [[1, 2], [2, 1]], "y": [[1, 0], [0, 1]]})
    _names_are_of_tokens(run, ("--url", served.address))


@pytest.mark.server
def test_a_service_explains_alike(run: Run, served: Served) -> None:
    """Through a service the same is told, of vectors, of strings and of a field."""
    with Client(served.address) as client:
        client.create_collection("words", kernel="minmax").add(["a"], [{"red": 3, "apple": 1}])
        client.create_collection("names", items="strings", exist_ok=True).add(["a"], ["sitting"])
        client.create_collection("both", fields={"x": {"dim": 2}, "y": {"dim": 2}}, exist_ok=True)
        client.fields_collection("both").add(["a"], {"x": [[1, 2]], "y": [[1, 0]]})
    where = ("--url", served.address, "--json", "--collection")
    told = orjson.loads(run("explain", "a", *where, "words", "--vector", '{"tokens": {"red": 2}}').stdout)
    assert (told["score"], told["factors"][0]["terms"][0]["name"]) == (0.5, "red")
    assert orjson.loads(run("explain", "a", *where, "names", "--string", "kitten").stdout)["score"] == 3
    assert orjson.loads(run("explain", "a", *where, "both", "--vector", "[1, 2]", "--field", "x").stdout)["score"] == 1
