"""The table of costs, and files that take its place."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path

import orjson
import pytest

import kinbin

NAMES = [one.name for one in fields(kinbin.Costs)]


def test_every_cost_says_what_it_is() -> None:
    """Each has a text, how it was measured, and a number above 0."""
    for one in fields(kinbin.Costs):
        assert one.metadata["text"]
        assert one.metadata["measured"]
        assert getattr(kinbin.Costs(), one.name) > 0.0


def test_a_file_takes_the_place_of_what_it_names(tmp_path: Path) -> None:
    """What a file names is taken from it, whole numbers as well; all else is as shipped; no file changes nothing."""
    path = tmp_path / "costs.json"
    path.write_bytes(orjson.dumps({"node": 20, "line": 0.5}))
    found = asdict(kinbin.Costs.named(str(path)))
    assert found == asdict(kinbin.Costs()) | {"node": 20.0, "line": 0.5}
    assert isinstance(found["node"], float)
    assert kinbin.Costs.named(None) == kinbin.Costs.named("") == kinbin.Costs()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"node": 20, "knot": 1}', "names 'knot', which is none of band, posting"),
        ('{"node": 20, "line": "fast"}', "gives line as 'fast'"),
        ('{"walk": 0}', "gives walk as 0:"),
        ('{"walk": -1.5}', "gives walk as -1.5"),
        ('{"scan": true}', "gives scan as True"),
        ('{"scan": null}', "gives scan as None"),
        ('{"hash": NaN}', "gives hash as nan"),
        ('{"hash": 1e9}', "gives hash as 1000000000.0: expected nanoseconds, above 0 and below 1e"),
        ("[1]", "is no object of costs by name"),
        ('{"node": ', "is no JSON"),
        ("\udcff", "is no JSON"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, content: str | None, expected: str) -> None:
    """The error names the file, the cost that is wrong, and the variable."""
    path = tmp_path / "costs.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(kinbin.InvalidInput) as caught:
        kinbin.Costs.named(str(path))
    assert str(caught.value).startswith(f"the file of costs {path} {expected}")
    assert caught.value.problems[0].field == "KINBIN_COSTS"


def test_a_process_takes_the_file_of_its_environment(tmp_path: Path) -> None:
    """Predictions of a process with KINBIN_COSTS are made with the costs of that file."""
    path = tmp_path / "costs.json"
    path.write_bytes(orjson.dumps({"line": 100.0}))
    code = (
        "import numpy as np; from kinbin.codes.coder import Coder; "
        "print(Coder(128, False, np.empty(0, np.uint16), 1.0, 0.0, 1.0).compare_ns(128))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"KINBIN_COSTS": str(path)}, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert float(out) == 200.0
