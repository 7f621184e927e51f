"""Small databases in all states at once, and what they hold: two runs alike, dead rows, a journal, links, shared vectors."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
import kinbin.upkeep.sealing
from pooled import pools_at_once
from torture.forms import FORMS, Form, files_of

__all__ = ["DIM", "Specimen", "build", "built_apart", "seal"]

DIM = 24
_FIRST, _SECOND, _FRESH = 280, 280, 40
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

    @property
    def kernel(self) -> NDArray[np.float64]:
        """(n + 8, n + 8) exact scores."""
        return FORMS[self.form].kernel(np.concatenate([self.vectors, self.later]))


def build(path: Path | str, seed: int, form: str = "vector") -> Specimen:
    """Make a database with a collection "c" and close it."""
    rng = np.random.default_rng([seed, 77])
    count = _FIRST + _SECOND + _FRESH
    names = [f"item-{int(i):04d}" for i in rng.permutation(count)]
    vectors = ((rng.random((count + 60, DIM), np.float32) + np.float32(0.001)) ** 3).astype(np.float32)
    vectors[5] = vectors[6] = vectors[300]
    payloads: list[dict[str, Any]] = [{"n": i, "even": i % 2 == 0} for i in range(count)]
    payloads[7]["text"] = "x" * 6000
    payloads[_FIRST + _SECOND + 3]["text"] = "y" * 9000
    stored: dict[str, tuple[NDArray[np.float32], dict[str, Any]]] = {}
    spare = iter(vectors[count:])
    with pools_at_once(), kinbin.open(path) as database:
        collection: Form = FORMS[form].create(database, DIM, seed + 1)

        def add(some: range) -> None:
            chosen = [names[i] for i in some]
            collection.add(chosen, vectors[some.start : some.stop], [payloads[i] for i in some])
            stored.update({names[i]: (vectors[i], payloads[i]) for i in some})

        def replace(some: range) -> None:
            fresh = np.array([next(spare) for _ in some])
            told = [{"n": i, "again": True} for i in some]
            collection.add([names[i] for i in some], fresh, told)
            stored.update({names[i]: (fresh[at], told[at]) for at, i in enumerate(some)})

        def delete(some: range) -> None:
            collection.delete([names[i] for i in some])
            for i in some:
                del stored[names[i]]

        add(range(_FIRST))
        collection.link()
        add(range(_FIRST, _FIRST + _SECOND))
        for part in collection.parts:
            seal(part)
        replace(range(20, 32))
        delete(range(60, 75))
        replace(range(_FIRST + 5, _FIRST + 10))
        add(range(_FIRST + _SECOND, count))
        delete(range(count - 3, count))
        for part in collection.parts:
            with part._store.read() as reader:
                assert len(reader.manifest()) == 2
                assert reader.link_sets() or form == "strings"
    kept = sorted(stored)
    rows, told = np.array([stored[name][0] for name in kept]), [stored[name][1] for name in kept]
    return Specimen(kept, rows, told, vectors[-8:], form, tuple(files_of(Path(path) / "collections" / "c")))


def seal(collection: Any) -> None:
    """What is fresh becomes a second run."""
    kept = kinbin.upkeep.sealing.SEAL_ROWS
    kinbin.upkeep.sealing.SEAL_ROWS = 10
    try:
        assert collection._upkeep.step()
    finally:
        kinbin.upkeep.sealing.SEAL_ROWS = kept


def built_apart(connection: Connection, path: str, seed: int, form: str) -> None:
    """`build` in a child; sends the specimen."""
    connection.send(build(path, seed, form))
