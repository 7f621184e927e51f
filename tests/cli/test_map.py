"""kinbin map: what it prints, and its refusals."""

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
    """Histograms with labels, and items of two fields."""
    with kinbin.open(data) as database:
        payloads = [{"label": f"l{i % 2}", "size": {"width": i}} for i in range(6)]
        database.create_collection("c", kernel="chi2", dim=2).add([f"{i}" for i in range(6)], [[1, i] for i in range(6)], payloads)
        made = database.create_collection("both", fields={"x": {"dim": 2}, "y": {"dim": 2}})
        made.add(["a", "b"], {"x": [[1, 2], [2, 1]], "y": [[1, 0], [0, 1]]})
    return data


def test_points_are_printed(run: Run, filled: Path) -> None:
    """A line a point, with the fields that are asked for; with --json one document; of several fields the one that is named."""
    asked = ["map", "--data", filled, "--collection", "c", "--payload", "label", "--payload", "size.width"]
    lines = [line.split("\t") for line in run(*asked).stdout.splitlines()]
    assert lines[0] == ["id", "x", "y", "label", "size.width"]
    assert [(line[0], line[3], line[4]) for line in lines[1:]] == [(f"{i}", f"l{i % 2}", f"{i}") for i in range(6)]
    told = orjson.loads(run(*asked, "--json", "--sample", "4", "--filter", '{"label": "l1"}', "--seed", "2").stdout)
    assert (told["kernel"], told["rows"], len(told["points"])) == ("chi2", 3, 3)
    assert told["points"][0]["payload"] == {"label": "l1", "size": {"width": 1}}
    assert f"{told['points'][0]['x']:.6g}" != "0"
    assert len(run("map", "--data", filled, "--collection", "both", "--field", "y").stdout.splitlines()) == 3


def test_what_is_refused(run: Run, filled: Path) -> None:
    """An unknown method and a sample over the limit end with one line; the limit with its own exit code."""
    here = ["map", "--data", filled, "--collection", "c"]
    result = run(*here, "--method", "umap")
    assert (result.exit_code, "method is one of kernel_pca, spectral" in result.stderr) == (1, True)
    assert run(*here, "--sample", "2001").exit_code == 3


@pytest.mark.slow
@pytest.mark.server
def test_a_service_draws_alike(run: Run, served: Served) -> None:
    """Through a service the same is printed, of a collection and of a field."""
    with Client(served.address) as client:
        client.create_collection("c", dim=2).add(["a", "b"], [[1, 2], [2, 1]])
        client.create_collection("both", fields={"x": {"dim": 2}, "y": {"dim": 2}})
        client.fields_collection("both").add(["a", "b"], {"x": [[1, 2], [2, 1]], "y": [[1, 0], [0, 1]]})
    assert [line[:1] for line in run("map", "--url", served.address, "--collection", "c").stdout.splitlines()] == ["i", "a", "b"]
    assert len(run("map", "--url", served.address, "--collection", "both", "--field", "x").stdout.splitlines()) == 3
