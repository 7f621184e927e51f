"""The worked example of index/FORMAT.md: a tiny collection, record by record.

python tests/support/format_example.py        prints the block that FORMAT.md ends with
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import kinbin
from naive_format import dump

STEPS = """\
db = kinbin.open("data")
c = db.create_collection("e", kernel="ngmm", dim=4, sampler="gcws", bands=2, rows=1, seed=1)
c.add(["a", "b"], [[1, 0, -2, 0], [1, 0, -2, 0]], [{"x": 1}, None])
c.add(["d", "e", "f"], [[0, 0.5, 0, 0], [0, 0, 0, 3], [4, 0, 0, 1]])
c.compact()
c.add(["é"], [[0, 0, 0, 8]])
c.delete(["d"])
"""


SALT = 1_000_000


def build(folder: Path) -> None:
    """Make the collection of the example, with a salt that is always the same, and close it."""
    with patch("kinbin.storage.headers.secrets.randbelow", lambda most: min(most, SALT) - 1), kinbin.open(folder) as db:
        c = db.create_collection("e", kernel="ngmm", dim=4, sampler="gcws", bands=2, rows=1, seed=1)
        c.add(["a", "b"], [[1, 0, -2, 0], [1, 0, -2, 0]], [{"x": 1}, None])
        c.add(["d", "e", "f"], [[0, 0.5, 0, 0], [0, 0, 0, 3], [4, 0, 0, 1]])
        c.compact()
        c.add(["é"], [[0, 0, 0, 8]])
        c.delete(["d"])


def records(folder: Path) -> list[dict[str, Any]]:
    """Its records in hexadecimal; zeros at the end of a run's value are counted, not shown."""
    out = []
    for tree, pairs in dump(folder / "collections" / "e").items():
        for key, value in pairs:
            shown = value.rstrip(b"\0") if tree == "runs" else value
            record = {"tree": tree, "key": key.hex(), "value": shown.hex()}
            out.append(record | ({"zeros": len(value) - len(shown)} if tree == "runs" else {}))
    return out


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        build(Path(place))
        lines = ",\n".join(" " + json.dumps(record) for record in records(Path(place)))
        print(f"[\n{lines}\n]")  # noqa: T201 - this is what it is for
