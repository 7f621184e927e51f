"""Owners of living rows that are lost, or lie where items should: told by every look and edit, never passed over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinbin
from background import no_background
from kinbin.storage.store import Store
from torture.pages import PAGE, PageMap

pytestmark = pytest.mark.durability

LOST = 7


@pytest.fixture
def damaged(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, np.ndarray]:
    """A database of which one row has lost its owners, and its vectors."""
    X = rng.random((300, 16)).astype(np.float32)
    with kinbin.open(tmp_path / "data") as database, no_background():
        collection = database.create_collection("c", dim=16, seed=1)
        collection.add([str(i) for i in range(300)], X)
        collection.compact()
    store = Store(tmp_path / "data" / "collections" / "c")
    with store.write() as writer:
        writer.put_owners([(LOST, [])])
    store.close()
    return tmp_path / "data", X


def test_a_row_without_owners_is_never_left_out_in_silence(damaged: tuple[Path, np.ndarray]) -> None:
    """One query or several, in every mode: the damage is told; queries that do not meet the row are answered."""
    path, X = damaged
    with kinbin.open(path) as database, no_background():
        collection = database.collection("c")
        far = int(np.abs(X - X[LOST]).sum(axis=1).argmax())
        for mode in ("exact", "bands", "auto"):
            with pytest.raises(kinbin.CorruptData, match="owners of a living row are missing"):
                collection.query(X[LOST], k=3, mode=mode)
            with pytest.raises(kinbin.CorruptData, match="owners of a living row are missing"):
                collection.query_batch(X[LOST : LOST + 2], k=3, mode=mode)
            assert collection.query(X[far], k=1, mode=mode).ids == [str(far)]


def test_edits_of_it_are_refused_and_others_are_not(damaged: tuple[Path, np.ndarray]) -> None:
    """The item can be neither replaced nor removed, nothing is written by it, and an edit of others is."""
    path, X = damaged
    with kinbin.open(path) as database, no_background():
        collection = database.collection("c")
        edits: list[Callable[[], object]] = [
            lambda: collection.add([str(LOST)], X[:1] + 1.0),
            lambda: collection.add(["other"], X[LOST : LOST + 1]),
            lambda: collection.delete(["5", str(LOST)]),
        ]
        for edit in edits:
            with pytest.raises(kinbin.CorruptData, match="owners of a living row are missing or wrong"):
                edit()
        assert collection.count() == 300
        assert collection.get(["5"])[0] is not None
        assert collection.delete(["6"]).count == 299


@pytest.mark.parametrize("names", ["short", "long"])
@pytest.mark.parametrize("count", [20, 300])
def test_owners_in_the_place_of_items_are_no_absence(tmp_path: Path, rng: np.random.Generator, names: str, count: int) -> None:
    """Where a leaf of items holds a sound copy of one of owners, under its own number, no item of it is said not to be there."""
    ids = [f"{i}" if names == "short" else f"an item with a name, {i}" for i in range(count)]
    with kinbin.open(tmp_path / "data") as database, no_background():
        database.create_collection("c", dim=16, seed=1).add(ids, rng.random((count, 16)))
    file = tmp_path / "data" / "collections" / "c" / "data.mdb"
    content = bytearray(file.read_bytes())
    found = PageMap.of(bytes(content))
    items, owners = found.leaves["items"][0], found.leaves["owners"][0]
    lost = [node.key.decode() for node in found.nodes(items)]
    content[items * PAGE + 8 : (items + 1) * PAGE] = content[owners * PAGE + 8 : (owners + 1) * PAGE]
    file.write_bytes(content)
    with kinbin.open(tmp_path / "data") as database, no_background():
        collection = database.collection("c")
        for name in lost:
            with pytest.raises(kinbin.CorruptData):
                collection.get([name])
            with pytest.raises(kinbin.CorruptData):
                collection.delete([name])
