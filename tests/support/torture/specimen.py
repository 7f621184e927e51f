"""Small databases in all states at once, and what they hold: two runs alike, dead rows, a journal, links, shared vectors.

In two of three a commit was given up on the way: it was killed before its meta page was written, or `recover` went back behind it. Its
pages are still in the file, and later commits have its numbers again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinbin
import kinbin.upkeep.sealing
from kinbin.fields.writing import Writing
from kinbin.storage.creation import FIELDS
from pooled import pools_at_once
from torture.forms import FORMS, Form, files_of
from torture.pages import PAGE, newest_meta

__all__ = ["DIM", "GIVEN_UP", "Specimen", "build", "built_apart", "given_up_of", "seal"]

DIM = 24
_FIRST, _REPLACED, _FRESH = 280, 12, 40
_SECOND = _FIRST - _REPLACED
"""Both runs have as many rows, so that what is of one fits in the place of the other."""


@dataclass(frozen=True)
class Specimen:
    """What a database holds: names, vectors and payloads, and the kernel of all pairs, also of those that edits will add."""

    names: list[str]
    vectors: NDArray[np.float32]
    payloads: list[dict[str, Any]]
    later: NDArray[np.float32]
    """(8, d) vectors that edits add."""
    form: str = "vector"
    """What its items are, as a key of `FORMS`."""
    files: tuple[str, ...] = ("data.mdb",)
    """Of the collection, within its directory."""
    ever: dict[str, list[tuple[NDArray[np.float32], dict[str, Any]]]] = field(default_factory=dict)
    """By id all vectors and payloads that it had once, or was to have by a commit that was given up."""
    earlier: dict[str, list[bytes]] = field(default_factory=dict)
    """By file what it was before each step."""

    @property
    def kernel(self) -> NDArray[np.float64]:
        """(n + 8, n + 8) exact scores."""
        return FORMS[self.form].kernel(np.concatenate([self.vectors, self.later]))


GIVEN_UP = ("", "killed", "taken back")
"""What becomes of a commit on the way."""


def given_up_of(seed: int) -> str:
    """The one of `GIVEN_UP` that a seed stands for; forms are chosen by its remainder."""
    return GIVEN_UP[seed // len(FORMS) % len(GIVEN_UP)]


class _Life:
    """A collection "c" on its way, and what it has to hold."""

    def __init__(self, path: Path, seed: int, form: str) -> None:
        self.path, self.form, self.seed = path, FORMS[form], seed
        rng = np.random.default_rng([seed, 77])
        count = _FIRST + _SECOND + _FRESH
        self.names = [f"item-{int(i):04d}" for i in rng.permutation(count)]
        self.vectors = ((rng.random((count + 60, DIM), np.float32) + np.float32(0.001)) ** 3).astype(np.float32)
        self.vectors[5] = self.vectors[6] = self.vectors[300]
        self.payloads: list[dict[str, Any]] = [{"n": i, "even": i % 2 == 0} for i in range(count)]
        self.payloads[7]["text"] = "x" * 6000
        self.payloads[_FIRST + _SECOND + 3]["text"] = "y" * 9000
        self.stored: dict[str, tuple[NDArray[np.float32], dict[str, Any]]] = {}
        self.ever: dict[str, list[tuple[NDArray[np.float32], dict[str, Any]]]] = {}
        self.earlier: dict[str, list[bytes]] = {}
        self._spare = iter(self.vectors[count:])
        self._aside = np.random.default_rng([seed, 78])
        """For what is given up, so that all else is the same with and without."""

    def used(self, act: Callable[[Form], object]) -> None:
        """Open the database, do something with the collection, close it; keep what its files were."""
        folder = self.path / "collections" / "c"
        for name in files_of(folder):
            self.earlier.setdefault(name, []).append((folder / name).read_bytes())
        with kinbin.open(self.path) as database:
            act(self.form(database.collection("c")))

    def add(self, collection: Form, some: range) -> None:
        """Add those of these numbers."""
        self._put(collection, [(self.names[i], self.vectors[i], self.payloads[i]) for i in some])

    def replace(self, collection: Form, some: range) -> None:
        """The same with other vectors."""
        self._put(collection, [(self.names[i], next(self._spare), {"n": i, "again": True}) for i in some])

    def tell_anew(self, collection: Form, some: range) -> None:
        """Other payloads for those of these numbers, which keep their vectors."""
        names = [self.names[i] for i in some]
        payloads = [{"n": i, "told": "anew"} for i in some]
        collection.set_payload(names, payloads)
        for name, payload in zip(names, payloads, strict=True):
            self.stored[name] = self.stored[name][0], payload
            self.ever[name].append(self.stored[name])

    def delete(self, collection: Form, some: range) -> None:
        """Delete those of these numbers."""
        collection.delete([self.names[i] for i in some])
        for i in some:
            del self.stored[self.names[i]]

    def _put(self, collection: Form, items: list[tuple[str, NDArray[np.float32], dict[str, Any]]]) -> None:
        names, vectors, payloads = zip(*items, strict=True)
        collection.add(list(names), np.array(vectors), list(payloads))
        for name, vector, payload in items:
            self.stored[name] = vector, payload
            self.ever.setdefault(name, []).append((vector, payload))

    def give_up(self, how: str) -> None:
        """A commit of other vectors for items that there are, and of new ones, that leaves nothing but its pages."""
        before = dict(self.stored)
        folder = self.path / "collections" / "c"
        files = {name: (folder / name).read_bytes() for name in files_of(folder)}
        known = [self.names[i] for i in self._aside.permutation(_FIRST)[:200]]
        chosen = [*known, *(f"never-{i:03d}" for i in range(80))]
        vectors = ((self._aside.random((len(chosen), DIM), np.float32) + np.float32(0.001)) ** 3).astype(np.float32)
        # Large payloads: what comes later does not fill so many pages.
        items = [(name, vector, {"given up": i, "text": "z" * 2500}) for i, (name, vector) in enumerate(zip(chosen, vectors, strict=True))]
        with pytest.MonkeyPatch.context() as patch:
            # Of a collection of fields the commit is that of the items; what it superseded is removed behind it.
            patch.setattr(Writing, "_sweep_quietly", lambda writing: None)
            self.used(lambda collection: self._put(collection, items))
        self.stored = before
        if how == "killed":
            self._kill(folder, files)
        else:
            self._take_back(folder, files)

    def _kill(self, folder: Path, files: dict[str, bytes]) -> None:
        """All pages of the commit are written but meta pages; of several stores at times only those of the items lack theirs."""
        only_items = len(files) > 1 and self.seed % 2 == 0
        for name, data in files.items():
            path = folder / name
            if path.name != "data.mdb":
                path.write_bytes(data)
            elif path.parent == folder or not only_items:
                path.write_bytes(data[: 2 * PAGE] + path.read_bytes()[2 * PAGE :])
                (path.parent / "lock.mdb").unlink()

    def _take_back(self, folder: Path, files: dict[str, bytes]) -> None:
        """The meta pages of the commit are lost, and `recover` goes back in each store."""
        with kinbin.open(self.path) as database:
            for path in (folder / name for name in files if name == "data.mdb" or Path(name).parts[0] == FIELDS):
                data = bytearray(path.read_bytes())
                newest = newest_meta(bytes(data))
                data[newest * PAGE : (newest + 1) * PAGE] = bytes(PAGE)
                path.write_bytes(data)
                store = "c" if path.parent == folder else f"c/{path.parent.name}"
                database.recover(store, database.recoverable(store)[0].transaction)
                path.with_name("data.mdb.damaged").unlink()


def build(path: Path | str, seed: int, form: str = "vector", given_up: str = "") -> Specimen:
    """Make a database with a collection "c" and close it. given_up: one of `GIVEN_UP`."""
    path = Path(path)
    life = _Life(path, seed, form)
    with pools_at_once():
        with kinbin.open(path) as database:
            life.form.create(database, DIM, seed + 1)
        steps: list[Callable[[Form], object]] = [
            lambda collection: life.add(collection, range(_FIRST)),
            lambda collection: collection.link(),
            lambda collection: life.add(collection, range(_FIRST, _FIRST + _SECOND)),
            lambda collection: life.replace(collection, range(20, 20 + _REPLACED)),
            _seal_parts,
            lambda collection: life.delete(collection, range(60, 75)),
            lambda collection: life.replace(collection, range(_FIRST + 5, _FIRST + 10)),
            lambda collection: life.tell_anew(collection, range(90, 96)),
        ]
        # Before step 3 its number is that of a commit which is sealed, so that nothing but its own entry is in the journal of that number.
        at = random.Random(seed).choice([2, 3, 3, 3, 4, 5, 6]) if given_up else None
        for number, step in enumerate(steps):
            if number == at:
                life.give_up(given_up)
            life.used(step)
        life.used(lambda collection: _end(life, collection, links=form != "strings"))
    kept = sorted(life.stored)
    rows, told = np.array([life.stored[name][0] for name in kept]), [life.stored[name][1] for name in kept]
    files = tuple(files_of(path / "collections" / "c"))
    return Specimen(kept, rows, told, life.vectors[-8:], form, files, life.ever, life.earlier)


def _seal_parts(collection: Form) -> None:
    for part in collection.parts:
        seal(part)


def _end(life: _Life, collection: Form, *, links: bool) -> None:
    """The last edits, which stay in the journal."""
    count = _FIRST + _SECOND + _FRESH
    life.add(collection, range(_FIRST + _SECOND, count))
    life.delete(collection, range(count - 3, count))
    for part in collection.parts:
        with part._store.read() as reader:
            assert len(reader.manifest()) == 2
            assert reader.link_sets() or not links


def seal(collection: Any) -> None:
    """What is fresh becomes a second run."""
    kept = kinbin.upkeep.sealing.SEAL_ROWS
    kinbin.upkeep.sealing.SEAL_ROWS = 10
    try:
        assert collection._upkeep.step()
    finally:
        kinbin.upkeep.sealing.SEAL_ROWS = kept


def built_apart(connection: Connection, path: str, seed: int, form: str, given_up: str = "") -> None:
    """`build` in a child; sends the specimen."""
    connection.send(build(path, seed, form, given_up))
