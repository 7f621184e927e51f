"""Small databases in all states at once, and what they hold: two runs, dead rows, a journal, links, shared vectors, a long payload."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
import kinbin.upkeep.sealing
from linked import still
from torture import fields
from workload import _ngmm

__all__ = ["DIM", "Specimen", "build", "built_apart", "used_as"]

DIM = 24
_FIRST, _SECOND, _FRESH = 420, 130, 40


@dataclass(frozen=True)
class Specimen:
    """What a database holds: names, vectors and payloads, and the kernel of all pairs, also of those that edits will add."""

    names: list[str]
    vectors: NDArray[np.float32]
    payloads: list[dict[str, Any]]
    later: NDArray[np.float32]
    """(8, d) vectors that edits add."""
    files: tuple[str, ...] = ("data.mdb",)
    """Of the collection, within its directory."""

    @property
    def kernel(self) -> NDArray[np.float64]:
        """(n + 8, n + 8) exact scores."""
        return _ngmm(np.concatenate([self.vectors, self.later]))


def used_as(collection: Any) -> Any:
    """A collection as the campaigns use it."""
    return fields.InTwoFields(collection) if isinstance(collection, kinbin.FieldsCollection) else collection


def build(path: Path | str, seed: int, *, in_fields: bool = False) -> Specimen:
    """Make a database with a collection "c" and close it. in_fields: one of two fields."""
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
    with still(), kinbin.open(path) as database:
        options: dict[str, Any] = {"dim": DIM, "bands": 80, "rows": 2}
        collection: Any = (
            fields.create(database, "c", options, seed + 1) if in_fields else database.create_collection("c", **options, seed=seed + 1)
        )
        parts = collection.parts if in_fields else [collection]

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
        for part in parts:
            _seal(part)
        replace(range(20, 32))
        delete(range(60, 75))
        replace(range(_FIRST + 5, _FIRST + 10))
        add(range(_FIRST + _SECOND, count))
        delete(range(count - 3, count))
        for part in parts:
            with part._store.read() as reader:
                assert len(reader.manifest()) == 2
                assert reader.link_sets()
    kept = sorted(stored)
    rows, told = np.array([stored[name][0] for name in kept]), [stored[name][1] for name in kept]
    return Specimen(kept, rows, told, vectors[-8:], fields.FILES if in_fields else ("data.mdb",))


def _seal(collection: Any) -> None:
    """What is fresh becomes a second run."""
    kept = kinbin.upkeep.sealing.SEAL_ROWS
    kinbin.upkeep.sealing.SEAL_ROWS = 10
    try:
        assert collection._upkeep.step()
    finally:
        kinbin.upkeep.sealing.SEAL_ROWS = kept


def built_apart(connection: Connection, path: str, seed: int, in_fields: bool) -> None:
    """`build` in a child; sends the specimen."""
    connection.send(build(path, seed, in_fields=in_fields))
