"""A row of a run that is damaged scores anything: whatever claims to have looked at all rows refuses, and leaves none out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbin
from kinbin.rows.record import HEADER
from linked import still

DIM, ROWS = 12, 200
X = ((np.random.default_rng(3).random((ROWS, DIM)) + 0.01) / 100).astype(np.float32)
X[100] = X[99]
X[100, 0] += np.float32(0.0001)
"""The nearest of row 99."""
Y = X[::-1].copy()
IDS = [f"i{row}" for row in range(ROWS)]

ASKED: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "query": ("one", lambda c, mode: c.query(X[99], k=3, mode=mode)),
    "query_id": ("one", lambda c, mode: c.query_id("i99", k=3, mode=mode)),
    "query_batch": ("one", lambda c, mode: c.query_batch(X[98:100], k=3, mode=mode)),
    "examples": ("one", lambda c, mode: c.query_examples(["i99", "i98"], k=3, mode=mode)),
    "examples, against one": ("one", lambda c, mode: c.query_examples(["i99"], negative=["i5"], k=3, mode=mode)),
    "both fields": ("two", lambda c, mode: c.query({"x": X[99], "y": Y[99]}, k=3, mode=mode)),
    "one field": ("two", lambda c, mode: c.query({"x": X[99]}, k=3, mode=mode)),
    "fields of an item": ("two", lambda c, mode: c.query_id("i99", k=3, mode=mode, fields=["x"])),
    "strings": ("words", lambda c, mode: c.query("row i100 of all", k=3, mode=mode)),
    "fields, filtered": ("two", lambda c, mode: c.query({"x": X[99]}, k=3, mode=mode, filter={"even": False})),
}


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections of one vector and of two, whose row 100 has one flipped bit: it is a number still, and larger."""
    folder = tmp_path_factory.mktemp("sealed") / "data"
    payloads = [{"even": row % 2 == 1} for row in range(ROWS)]
    with still(), kinbin.open(folder) as database:
        one = database.create_collection("one", dim=DIM)
        one.add(IDS, X, payloads)
        one.compact()
        two = database.create_collection("two", fields={"x": {"dim": DIM}, "y": {"dim": DIM}})
        two.add(IDS, {"x": X, "y": Y}, payloads)
        two.compact()
        words = database.create_collection("words", items="strings")
        words.add(IDS, [f"row {one} of all" for one in IDS], payloads)
        words.compact()
        with words._reading() as (_, view):
            place = int(view.runs[0].places(np.array([100]))[0][0]) - words._store.files.base
        for name, ask in ASKED.values():
            answer = ask(database.collection(name), "exact")
            assert "i100" in np.ravel(answer.ids).tolist()
    for store in ("one", "two/fields/x"):
        file = folder / "collections" / store / "data.mdb"
        content = bytearray(file.read_bytes())
        content[content.rfind(X[100].tobytes()) + 3] ^= 0x04
        file.write_bytes(content)
    file = folder / "collections" / "words" / "data.mdb"
    content = bytearray(file.read_bytes())
    content[place + HEADER] ^= 0x04
    file.write_bytes(content)
    return folder


@pytest.mark.parametrize("mode", ["exact", "auto"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_damaged_row_is_not_left_out(sealed: Path, asked: str, mode: str) -> None:
    """Each way to ask, first of all in its process: what was verified by one says nothing of another."""
    name, ask = ASKED[asked]
    with still(), kinbin.open(sealed) as database, pytest.raises(kinbin.CorruptData, match=r"fails its checksum|row is damaged") as caught:
        ask(database.collection(name), mode)
    assert caught.value.collection == ("two/x" if name == "two" else name)
