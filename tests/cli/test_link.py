"""`kinbin link`: what it builds, what it says, and how it ends early."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray
from rich.console import Console
from typer.testing import Result

import kinbin
from kinbin_service.cli import link as link_module
from kinbin_service.importing.progress import LogLines

Run = Callable[..., Result]
Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def vectors(rng: np.random.Generator) -> NDArray[np.float32]:
    """The vectors of the collection "photos", by row."""
    return rng.random((300, 16), dtype=np.float32)


@pytest.fixture
def filled(data: Path, vectors: NDArray[np.float32]) -> Path:
    """A database of two collections that are not linked: "photos", 300 items, and "marks", 40 items of the kernel minmax."""
    with kinbin.open(data) as database:
        database.create_collection("photos", dim=16).add([f"p{row}" for row in range(300)], vectors)
        database.create_collection("marks", kernel="minmax", dim=16).add([f"m{row}" for row in range(40)], vectors[:40])
    return data


def links_of(data: Path, name: str) -> dict[str, Any] | None:
    """The statistics of a collection's links."""
    with kinbin.open(data) as database:
        links: dict[str, Any] | None = database.collection(name).stats()["links"]
        return links


def test_all_collections_are_linked(filled: Path, run: Run) -> None:
    """Without a name every collection is linked whole; a line each says rows, bytes, links, pool and recall, as the statistics do."""
    result = run("link", "--data", filled)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["marks", "photos"]
    for name, rows, line in (("marks", 40, lines[0]), ("photos", 300, lines[1])):
        links = links_of(filled, name)
        assert links is not None
        assert (links["rows"], links["unlinked_rows"]) == (rows, 0)
        assert f"{rows} rows linked ({rows} of them new) in " in line
        assert f": {links['code_bytes']} code bytes and {links['links_per_row']:g} links a row; pool {links['pool']} for " in line
    assert result.stderr == "marks: merging\nphotos: merging\n"


def test_only_the_named_collections_are_linked(filled: Path, run: Run) -> None:
    """--collection may be repeated; what is not named is left as it is."""
    told = orjson.loads(run("link", "--data", filled, "--collection", "marks", "--collection", "marks", "--json").stdout)
    assert list(told) == ["marks"]
    assert links_of(filled, "photos") is None
    both = orjson.loads(run("link", "--data", filled, "--collection", "photos", "--collection", "marks", "--json").stdout)
    assert {name: about["new_rows"] for name, about in both.items()} == {"photos": 300, "marks": 0}


def test_json_says_what_the_statistics_say(filled: Path, run: Run) -> None:
    """The JSON has the sizes of the statistics, and the calibrated recall of the pool that the default target takes."""
    told = orjson.loads(run("link", "--data", filled, "--collection", "photos", "--json").stdout)["photos"]
    links = links_of(filled, "photos")
    assert links is not None
    assert {name: told[name] for name in ("rows", "code_bytes", "links_per_row", "pool")} == {
        name: links[name] for name in ("rows", "code_bytes", "links_per_row", "pool")
    }
    assert told["recall"] == {one["pool"]: one["recall@10"] for one in links["calibration"]}[told["pool"]]
    assert told["seconds"] > 0.0


def test_only_new_rows_are_linked_again(filled: Path, run: Run, rng: np.random.Generator) -> None:
    """Rows added since are linked to the others; when there are none, nothing is done."""
    run("link", "--data", filled)
    with kinbin.open(filled) as database:
        database.collection("photos").add([f"q{row}" for row in range(7)], rng.random((7, 16), dtype=np.float32))
    line = run("link", "--data", filled, "--collection", "photos").stdout
    assert line.startswith("photos: 307 rows linked (7 of them new) in ")
    assert run("link", "--data", filled, "--collection", "photos").stdout.startswith("photos: 307 rows linked (0 of them new) in ")


@pytest.mark.parametrize("certify", [False, True])
def test_a_linked_collection_answers_by_links(filled: Path, run: Run, certify: bool) -> None:
    """query --mode links walks the links: without a bound, or with the one that --certify asks for; stats show them."""
    run("link", "--data", filled)
    asked = (
        "query",
        "--data",
        filled,
        "--collection",
        "photos",
        "--id",
        "p9",
        "--include-self",
        "-k",
        2,
        "--mode",
        "links",
        *["--certify"] * certify,
    )
    told = orjson.loads(run(*asked, "--json").stdout)
    assert (told["mode"], told["results"][0]["id"]) == ("links", "p9")
    assert (told["recall_lower_bound"] is None) == ("no_bound" in told) == (not certify)
    words = run(*asked).stdout.splitlines()[-1]
    assert words.startswith("mean recall is at least " if certify else "no bound on recall: links give no bound; certify asks the bands")
    shown = run("stats", "--data", filled, "--collection", "photos").stdout
    assert "recall of walks, calibrated" in shown
    assert "code bytes" in shown


def test_a_database_without_rows(data: Path, run: Run) -> None:
    """Nothing to link is no error, whether there is no collection or one that is linked and was emptied."""
    kinbin.open(data).close()
    assert run("link", "--data", data).stdout == f"{data} holds no collections\n"
    with kinbin.open(data) as database:
        photos = database.create_collection("photos", dim=2)
        photos.add(["a", "b"], [[1, 2], [2, 1]])
        photos.link()
        photos.delete(["a", "b"])
    assert run("link", "--data", data, "--collection", "photos").stdout == "photos: there are no rows to link\n"


def test_a_collection_that_is_not_there_ends_before_any_work(filled: Path, run: Run) -> None:
    """One name that leads nowhere is refused in one line, and no other collection is linked."""
    result = run("link", "--data", filled, "--collection", "photos", "--collection", "nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: no collection")
    assert result.stderr.count("\n") == 1
    assert links_of(filled, "photos") is None


@pytest.mark.slow
def test_ctrl_c_leaves_the_links_there_were(filled: Path, run: Run, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off, the command ends with 130 and one line; the collection is whole and has the links that it had."""
    run("link", "--data", filled)
    with kinbin.open(filled) as database:
        database.collection("photos").add(["new"], rng.random((1, 16), dtype=np.float32))

    def break_off(followed: object, linked: int, to_link: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(link_module._Followed, "__call__", break_off)
    result = run("link", "--data", filled, "--collection", "photos")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.splitlines()[-1] == "Error: linking photos was broken off; the links it had stay"
    links = links_of(filled, "photos")
    assert links is not None
    assert (links["rows"], links["unlinked_rows"]) == (300, 1)
    assert run("check", "--data", filled).exit_code == 0


def test_progress_is_told_in_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """In a log a line names the collection, and how many of the rows to link are linked."""
    with LogLines(Console(stderr=True), every=0.0) as lines:
        followed = link_module._Followed(lines, "photos")
        for linked in (0, 150, 600):
            followed(linked, 600)
    told = capsys.readouterr().err.splitlines()
    assert [line.rsplit(" rows, ", 1)[0] for line in told] == [
        "photos: linking: 0%, 0",
        "photos: linking: 25%, 150",
        "photos: linking: 100%, 600",
    ]
    assert followed.linked == 600


def test_a_program_of_its_own_links(filled: Path, spawn: Spawn) -> None:
    """Run as a program, while another process has the database open, the command links, and that process walks the links at once."""
    with kinbin.open(filled) as database:
        photos = database.collection("photos")
        process = spawn("kinbin_service.cli", "link", "--data", filled, "--collection", "photos", "--json")
        out, errors = process.communicate(timeout=100)
        assert process.returncode == 0, out + errors
        assert orjson.loads(out)["photos"]["rows"] == 300
        assert photos.query_id("p9", k=1, mode="links").mode == "links"
