"""kinbin duplicates: what it prints, and its refusals."""

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
    """A database with the collection "photos": a and b are nearly the same, c and d are."""
    with kinbin.open(data) as database:
        vectors = [[1, 2, 0, 0], [1, 2.01, 0, 0], [0, 0, 2, 1], [0, 0, 2, 1]]
        database.create_collection("photos", dim=4, kernel="ngmm").add(list("abcd"), vectors, [{"n": i} for i in range(4)])
    return data


def test_pairs_and_clusters_are_printed(run: Run, filled: Path) -> None:
    """A pair or cluster is a line; with --json all is one document."""
    asked = ["duplicates", "--data", filled, "--collection", "photos", "--min-score", "0.9"]
    result = run(*asked)
    assert [line.split("\t") for line in sorted(result.stdout.splitlines())] == [["0.997788", "a", "b"], ["1.000000", "c", "d"]]
    assert "2 pairs; " in result.stderr
    assert "each is overlooked with probability" in result.stderr
    assert [line.split("\t")[1:] for line in run(*asked, "--clusters").stdout.splitlines()] == [["a", "b"], ["c", "d"]]
    told = orjson.loads(run(*asked, "--json", "--clusters", "--filter", '{"n": {"$lt": 2}}').stdout)
    assert told["clusters"] == [{"keep": "a", "ids": ["a", "b"], "least": pytest.approx(0.997788, abs=1e-6)}]
    assert told["complete"] is True
    cut = orjson.loads(run(*asked, "--json", "--limit", "1").stdout)
    assert (len(cut["pairs"]), cut["complete"]) == (1, False)


def test_what_is_not_understood_is_refused(run: Run, filled: Path) -> None:
    """Without a score, or with one that is none, it ends with one line and exit code 1, and names the option that was given."""
    asked = ["duplicates", "--data", filled, "--collection", "photos"]
    for more, says in (
        ([], "give --min-score"),
        (["--min-score", "3"], "--min-score is a number from 0 to 1"),
        (["--min-score", "0.9", "--miss", "1"], "Error: --miss is 0, or a probability"),
        (["--max-distance", "1"], "--max-distance"),
    ):
        result = run(*asked, *more)
        assert (result.exit_code, says in result.stderr) == (1, True), result.stderr
        assert "min_score" not in result.stderr
        assert "max_distance" not in result.stderr
