"""Rows that a field has lost: told by every search that asks it, or that goes by it, and never passed over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from background import no_background
from fielded import made

FIELDS: dict[str, dict[str, Any]] = {"a": {"dim": 8}, "b": {"dim": 8, "kernel": "chi2"}}


@pytest.mark.parametrize("older", ["a", "b"])
def test_a_field_that_is_older_is_told(tmp_path: Path, rng: np.random.Generator, older: str) -> None:
    """A field's file of before the last add: no answer leaves its items out; of the field alone, and of all, in every mode."""
    X = {name: rng.random((400, 8)) + 0.01 for name in FIELDS}
    data, kept = tmp_path / "data", tmp_path / "kept"
    for count in (300, 400):
        with kinbin.open(data) as db, no_background():
            c = made(db, FIELDS, seed=1) if count == 300 else db.fields_collection("c")
            first = 0 if count == 300 else 300
            c.add([f"i{i}" for i in range(first, count)], {name: rows[first:count] for name, rows in X.items()})
        if count == 300:
            shutil.copytree(next(data.glob(f"**/fields/{older}")), kept)
    shutil.copy(kept / "data.mdb", next(data.glob(f"**/fields/{older}")) / "data.mdb")
    with kinbin.open(data) as db, no_background():
        c = db.fields_collection("c")
        for mode in ("exact", "auto", "bands"):
            for names in ([older], list(FIELDS)):
                with pytest.raises(kinbin.CorruptData, match=f"field '{older}' has 300 rows for 400 items"):
                    c.query({name: X[name][350] for name in names}, k=3, mode=mode)
        assert not c.check().ok


def test_names_of_fields_are_names(db: kinbin.Database) -> None:
    """What is no list of names is refused in the library's way."""
    c = made(db, FIELDS, seed=1)
    c.add(["x"], {name: np.ones((1, 8)) for name in FIELDS})
    refused: list[Any] = [5, True, [["a"]], [{}], "a"]
    for bad in refused:
        with pytest.raises(kinbin.InvalidInput, match="fields is a list of names of fields"):
            c.query_id("x", fields=bad)
