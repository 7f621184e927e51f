"""create, delete and drop, and query and stats through a service: what they do, print and refuse."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import Result

import kinbin
from kinbin_client import Client
from service_process import Served

Run = Callable[..., Result]


@pytest.fixture(params=["data", pytest.param("url", marks=[pytest.mark.server, pytest.mark.timeout(300)])])
def where(request: pytest.FixtureRequest, data: Path) -> tuple[object, ...]:
    """The option that names a place: a directory of the test's own, or the service that all tests share."""
    if request.param == "data":
        return ("--data", data)
    served: Served = request.getfixturevalue("served")
    return ("--url", served.address)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A collection of the test's own, made of its name."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name.lower()).strip("-")[-60:].strip("-")


def told(result: Result) -> Any:
    """The JSON that a command printed; it ended well."""
    assert result.exit_code == 0, result.stderr
    return orjson.loads(result.stdout)


def error_of(result: Result) -> dict[str, Any]:
    """The error that a command told in JSON, on the last line of standard error."""
    content = orjson.loads(result.stderr.splitlines()[-1])
    assert content["error"].keys() == {"code", "message", "exit_code"}
    assert content["error"]["exit_code"] == result.exit_code != 0
    assert result.stdout == ""
    error: dict[str, Any] = content["error"]
    return error


def test_one_server_is_no_cluster(run: Run, where: tuple[object, ...], name: str) -> None:
    """--shards and --replicas are refused by a directory and by one server, which say why; nothing is made."""
    by_data = where[0] == "--data"
    for option in ("--shards", "--replicas"):
        refused = run("create", name, *where, "--dim", 3, option, 2)
        assert refused.exit_code == (2 if by_data else 1)
        says = "give --url of a gateway" if by_data else "this is not a cluster, but one server"
        assert says in " ".join(refused.stderr.replace("│", " ").split())
    assert run("stats", *where, "--collection", name).exit_code == 1


def test_create_makes_a_collection_once(run: Run, where: tuple[object, ...], name: str) -> None:
    """create makes a collection; the same command again finds it, and one with another configuration is refused."""
    command = ("create", name, *where, "--kernel", "gmm", "--dim", 3, "--sampler", "gcws")
    first = told(run(*command, "--json"))
    assert first["created"] is True
    assert (first["collection"], first["kernel"], first["dim"], first["sampler"], first["count"]) == (name, "gmm", 3, "gcws", 0)
    assert told(run(*command, "--json")) == {**first, "created": False}
    assert run(*command).stdout == f"{name}: is there already, with 0 items: kernel gmm, dimension 3\n"
    refused = error_of(run("create", name, *where, "--kernel", "ngmm", "--dim", 3, "--json"))
    assert (refused["code"], refused["exit_code"]) == ("collection_exists", 1)
    assert run("create", f"{name}-2"[-60:].strip("-"), *where).stdout.endswith(": created: kernel ngmm, sparse\n")


def test_create_takes_parameters_of_the_kernel(run: Run, where: tuple[object, ...], name: str) -> None:
    """create takes numbers by name, tells them, compares them, and refuses what is no number or no parameter of the kernel."""
    command = ("create", name, *where, "--kernel", "acos*rbf", "--dim", 3)
    assert told(run(*command, "--parameter", "rbf.gamma=2", "--json"))["parameters"] == {"rbf.gamma": 2.0}
    again = run(*command, "--parameter", "rbf.gamma=2")
    assert again.stdout == f"{name}: is there already, with 0 items: kernel acos*rbf rbf.gamma=2, dimension 3\n"
    assert error_of(run(*command, "--json"))["code"] == "collection_exists"
    for bad in ("rbf.gamma", "rbf.gamma=much", "gamma=2", "rbf.gamma=0"):
        assert run(*command, "--parameter", bad).exit_code != 0
    assert run("create", "other", *where, "--kernel", "acos*nothing").exit_code != 0


def test_create_takes_names_of_features(run: Run, where: tuple[object, ...], name: str, tmp_path: Path) -> None:
    """create takes names of features as a list or from a file, tells them, and refuses other ones of a collection that is there."""
    (tmp_path / "names").write_text("red\nblue\n")
    command = ("create", name, *where, "--dim", 2, "--json", "--feature-names")
    assert told(run(*command, "red, blue"))["feature_names"] == {"0": "red", "1": "blue"}
    assert told(run(*command, f"@{tmp_path / 'names'}"))["created"] is False
    assert error_of(run(*command, "blue,red"))["code"] == "collection_exists"
    assert run(*command, f"@{tmp_path / 'nothing'}").exit_code == 2


def test_delete_by_ids_and_by_filter(run: Run, where: tuple[object, ...], name: str, tmp_path: Path) -> None:
    """delete removes the items that are named, or that a filter matches, and tells how many are left."""
    lines = [orjson.dumps({"id": f"-{row}", "vector": [row + 1, 1], "payload": {"row": row}}) for row in range(10)]
    (tmp_path / "t.ndjson").write_bytes(b"\n".join(lines))
    place = (*where, "--collection", name)
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "environ", environment)
        assert run("import", tmp_path / "t.ndjson", *place).exit_code == 0
    assert told(run("delete", *place, "--json", "--", "-1", "-2", "nobody")) == {"collection": name, "deleted": 2, "count": 8}
    assert run("delete", *place, "--filter", '{"row": {"$gte": 7}}').stdout == f"{name}: 3 items deleted, 5 left\n"
    assert told(run("stats", *place, "--json"))["count"] == 5


def test_drop_removes_a_collection(run: Run, where: tuple[object, ...], name: str) -> None:
    """drop removes a collection when it is told --yes, and nothing where it cannot ask."""
    told(run("create", name, *where, "--json"))
    unasked = error_of(run("drop", name, *where, "--json"))
    assert unasked["message"] == "nothing was dropped: there is no terminal to ask on; say --yes"
    assert told(run("drop", name, *where, "--yes", "--json")) == {"dropped": name, "items": 0}
    gone = error_of(run("drop", name, *where, "--yes", "--json"))
    assert gone["code"] == "collection_not_found"
    assert f'no collection "{name}" in {where[1]}' in gone["message"]


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "dropped"), [(b"y\n", True), (b"n\n", False), (b"\n", False), (b"\x04", False)])
def test_drop_asks_on_a_terminal(data: Path, answer: bytes, dropped: bool) -> None:
    """On a terminal drop asks, naming what would be gone, and takes only yes for yes."""
    with kinbin.open(data) as database:
        database.create_collection("photos", dim=2).add(["a"], [[1, 2]])
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "kinbin_service.cli", "drop", "photos", "--data", str(data)]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        os.write(master, answer)
        _, errors = process.communicate(timeout=100)
    os.close(terminal)
    os.close(master)
    assert f'Drop "photos" in {data}, with 1 items?' in errors
    assert (process.returncode == 0) == dropped
    with kinbin.open(data) as database:
        assert database.collections() == ([] if dropped else ["photos"])


@pytest.mark.server
@pytest.mark.timeout(300)
def test_a_service_is_asked_as_a_database_is(run: Run, served: Served, tmp_path: Path, rng: np.random.Generator) -> None:
    """query and stats print the same through a service as from its files: by vector, id and file, dense and sparse."""
    rows = rng.random((40, 8), dtype=np.float32)
    with Client(served.address) as client:
        client.create_collection("asked", dim=8).add([f"p{row}" for row in range(40)], rows, [{"row": row} for row in range(40)])
        client.create_collection("asked-words").add(["a", "b"], [{"red": 1, "blue": 2}, {"green": 3}])
    np.save(tmp_path / "many.npy", rows[:3])
    asked: list[tuple[object, ...]] = [
        ("--collection", "asked", "--id", "p7", "--filter", '{"row": {"$lt": 20}}'),
        ("--collection", "asked", "--vector", orjson.dumps(rows[3].tolist()).decode(), "-k", 3),
        ("--collection", "asked", "--file", tmp_path / "many.npy", "--mode", "exact", "--min-score", 0.5),
        ("--collection", "asked-words", "--vector", '{"tokens": {"red": 1}}'),
    ]
    for options in asked:
        local, far = (told(run("query", *place, *options, "--json")) for place in (("--data", served.data), ("--url", served.address)))
        assert local.pop("took_ms") > 0 < far.pop("took_ms")
        assert local == far
    local, far = (run("query", *place, *asked[0]).stdout for place in (("--data", served.data), ("--url", served.address)))
    assert local == far
    stats = [
        told(run("stats", *place, "--collection", "asked", "--json")) for place in (("--data", served.data), ("--url", served.address))
    ]
    assert stats[0]["count"] == stats[1]["count"] == 40
    assert stats[0].keys() == stats[1].keys()
    assert "asked-words" in run("stats", "--url", served.address).stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("stats", "--nonsense"), "usage"),
        (("create",), "usage"),
        (("nonsense",), "usage"),
        (("query", "--vector", "[1"), "usage"),
        (("delete",), "usage"),
        (("delete", "a", "--filter", "{}"), "usage"),
        (("stats", "--url", "http://127.0.0.1:9", "--data", "x"), "usage"),
        (("stats", "--data", "nowhere"), "failed"),
        (("drop", "x", "--yes", "--data", "nowhere"), "failed"),
        (("import", "nowhere.npy", "--data", "here"), "os_error"),
        (("create", "Not a name", "--data", "here"), "bad_name"),
    ],
)
def test_every_error_is_json_where_json_is_asked_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: str
) -> None:
    """With --json also a command line that is not understood is told in JSON, with exit code 2 for those."""
    monkeypatch.chdir(tmp_path)
    error = error_of(run(*arguments, "--json"))
    assert (error["code"], error["exit_code"]) == (code, 2 if code == "usage" else 1)
    assert error["message"]


def test_without_the_client_a_url_says_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the client is not installed, --url names the extra that brings it, and files work as ever."""
    monkeypatch.setitem(sys.modules, "kinbin_client", None)
    result = run("stats", "--url", "http://127.0.0.1:9")
    expected = "Error: --url needs the client, which is not installed: pip install --find-links dist 'kinbin[client]'\n"
    assert (result.exit_code, result.stderr) == (1, expected)


def test_alias_sets_lists_and_drops_other_names(run: Run, where: tuple[object, ...], name: str) -> None:
    """alias lets another name lead to a collection; commands take it; a collection with aliases is not dropped."""
    other = f"live-{name}"[:60].strip("-")
    run("create", name, *where, "--dim", 3)
    assert run("alias", other, name, *where).stdout == f"{other} -> {name}\n"
    assert told(run("alias", *where, "--json"))["aliases"][other] == name
    assert f"{other} -> {name}\n" in run("alias", *where).stdout
    assert told(run("limit", other, *where, "--json"))["count"] == 0
    assert error_of(run("drop", name, *where, "--yes", "--json"))["code"] == "alias_conflict"
    assert error_of(run("alias", name, name, *where, "--json"))["code"] == "alias_conflict"
    assert run("alias", other, *where, "--drop").stdout == f"{other}: dropped\n"
    assert error_of(run("alias", other, *where, "--drop", "--json"))["code"] == "alias_not_found"
    for bad in ((other,), (other, name, "--drop"), ("--drop",)):
        assert run("alias", *bad, *where).exit_code == 2


def test_limit_sets_and_shows_what_a_collection_may_hold(run: Run, where: tuple[object, ...], name: str) -> None:
    """limit sets both limits at once, shows them, and takes them away."""
    run("create", name, *where, "--dim", 3)
    assert run("limit", name, *where).stdout == f"{name}: no limits; 0 items\n"
    told_of = told(run("limit", name, *where, "--items", 5, "--bytes", 1_000_000, "--json"))
    assert told_of == {"collection": name, "items": 5, "bytes": 1_000_000, "count": 0}
    assert run("limit", name, *where, "--items", 7).stdout == f"{name}: at most 7 items; 0 items\n"
    assert run("limit", name, *where, "--clear").stdout == f"{name}: no limits; 0 items\n"
    assert run("limit", name, *where, "--items", 1, "--clear").exit_code == 2
    assert error_of(run("limit", "none", *where, "--json"))["code"] == "collection_not_found"
