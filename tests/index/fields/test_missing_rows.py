"""Rows that a field has lost: told by every search that asks it, or that goes by it, and never passed over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from background import no_background
from fielded import made

FIELDS: dict[str, dict[str, Any]] = {"a": {"dim": 8}, "b": {"dim": 8, "kernel": "chi2"}}


@contextmanager
def suppressed(text: str) -> Iterator[list[str]]:
    """Damage that is told by this text may be met, and is listed."""
    told: list[str] = []
    try:
        yield told
    except kinbin.CorruptData as error:
        told.append(str(error))
    assert all(text in one for one in told)


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


@pytest.mark.parametrize("payloads", [0, 1, 2])
def test_a_field_with_rows_of_items_that_are_gone_is_told(tmp_path: Path, rng: np.random.Generator, payloads: int) -> None:
    """Its file of before a deletion, however many commits ago: what refuses is found by `check`, which says what to do."""
    X = {name: rng.random((60, 8)) + 0.01 for name in FIELDS}
    data, kept = tmp_path / "data", tmp_path / "kept"
    with kinbin.open(data) as db, no_background():
        made(db, FIELDS, seed=1).add([f"i{i}" for i in range(60)], X)
    shutil.copytree(next(data.glob("**/fields/a")), kept)
    with kinbin.open(data) as db, no_background():
        c = db.fields_collection("c")
        c.delete([f"i{i}" for i in range(50, 60)])
        for number in range(payloads):
            c.set_payload(["i1"], [{"n": number}])
    shutil.copy(kept / "data.mdb", next(data.glob("**/fields/a")) / "data.mdb")
    with kinbin.open(data) as db, no_background():
        c = db.fields_collection("c")
        with suppressed("field 'a' has 60 rows for 50 items") as told:
            answer = c.query({name: rows[55] for name, rows in X.items()}, k=60, mode="exact")
            assert set(answer.ids) == {f"i{i}" for i in range(50)}
        refused = bool(told)
        report = c.check()
        assert report.ok != refused
        assert not refused or "kinbin recover NAME/FIELD" in report.advice
        assert refused or not payloads


@pytest.mark.slow
@pytest.mark.parametrize("file", ["fields/a/data.mdb", "data.mdb"])
def test_files_of_another_collection_of_the_name_are_told(tmp_path: Path, rng: np.random.Generator, file: str) -> None:
    """Of another database: as many rows of the same numbers, that are of other items. Neither are they built into what is repaired."""
    for name in ("one", "other"):
        with kinbin.open(tmp_path / name) as db, no_background():
            made(db, FIELDS, seed=1).add([f"i{i}" for i in range(30)], {field: rng.random((30, 8)) + 0.01 for field in FIELDS})
    there = tmp_path / "one" / "collections" / "c" / file
    shutil.copy(there, tmp_path / "kept")
    shutil.copy(tmp_path / "other" / "collections" / "c" / file, there)
    with kinbin.open(tmp_path / "one") as db:
        for use in (lambda: db.collection("c"), lambda: db.repair("c")):
            with pytest.raises(kinbin.CorruptData, match=r"another collection of this name.*put each file back into"):
                use()
        report = db.check()["c"]
        assert (report.ok, "put each file back" in report.advice) == (False, True)
        shutil.copy(tmp_path / "kept", there)
        assert db.check()["c"].ok
        # What was restored, made anew or renamed goes on as one.
        made_anew = db.restore(db.snapshots.create("c"), "again")
        made_anew.compact(shrink=True)
    with kinbin.open(tmp_path / "one") as db:
        assert db.check()["again"].ok
        assert db.fields_collection("again").count() == 30


def test_names_of_fields_are_names(db: kinbin.Database) -> None:
    """What is no list of names is refused in the library's way."""
    c = made(db, FIELDS, seed=1)
    c.add(["x"], {name: np.ones((1, 8)) for name in FIELDS})
    refused: list[Any] = [5, True, [["a"]], [{}], "a"]
    for bad in refused:
        with pytest.raises(kinbin.InvalidInput, match="fields is a list of names of fields"):
            c.query_id("x", fields=bad)
