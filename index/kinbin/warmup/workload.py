"""Using every kernel once, on small collections: in the order in which a growing collection needs them.

What is compiled in parallel before (`specialisations`) is loaded here; what is not known there is compiled here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from kinbin.database import Database
from kinbin.duplicates.shingling import Shingler
from kinbin.duplicates.texts import TextDuplicates
from kinbin.spaces.registry import KERNELS, OBJECT_KERNELS

__all__ = ["STAGES", "Look", "silenced"]

Look = Callable[[], object]
"""Raises if the warm-up is to end."""

_FEATURES = 96
"""More than a sampler's first table of parameters holds, so that it grows."""
_RNG_SEED = 0
_OURS = "warm-up-"
"""The names of these collections begin so."""


@contextmanager
def silenced() -> Iterator[None]:
    """The log says nothing of these collections, which nobody made."""

    def others(record: logging.LogRecord) -> bool:
        first = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        return not str(first).startswith(_OURS)

    log = logging.getLogger("kinbin.upkeep")
    log.addFilter(others)
    try:
        yield
    finally:
        log.removeFilter(others)


def _vectors(name: str) -> NDArray[np.float64]:
    if name == f"{_OURS}packed":
        # Links of rows of one feature have packed codes.
        return np.eye(48, _FEATURES)
    return np.random.default_rng(_RNG_SEED).random((48, _FEATURES)) + 0.01


def _small(database: Database, look: Look) -> None:
    """Adding, reading and searching what a scan searches, under the kernels that are proposed first and their own sampler."""
    _scanned(database, look, ((f"{_OURS}narrow", "ngmm", _FEATURES, "gcws"), (f"{_OURS}plain", "gmm", None, "gcws")))


def _scanned(database: Database, look: Look, collections: Iterable[tuple[str, str, int | None, str]]) -> None:
    """Small collections: name, kernel, dimension and sampler of each."""
    for name, kernel, dim, sampler in collections:
        look()
        collection = database.create_collection(name, kernel=kernel, dim=dim, sampler=sampler, seed=0)
        collection.add([str(i) for i in range(32)], _vectors(name)[:32])
        collection.query(_vectors(name)[0])
        collection.query_batch(_vectors(name)[:2], mode="exact")
        collection.get(["0"])


def _fields(database: Database) -> None:
    """Scoring what other fields found, of narrow and of wide rows."""
    name = f"{_OURS}fields"
    database.create_collection(name, fields={"narrow": {"dim": _FEATURES}, "wide": {}}, seed=0)
    X = dict.fromkeys(("narrow", "wide"), _vectors(name))
    collection = database.fields_collection(name)
    collection.add([str(i) for i in range(48)], X)
    collection.query({field: vectors[0] for field, vectors in X.items()})
    database.drop_collection(name)


def _bands(database: Database, look: Look) -> None:
    """What small collections of other kernels, of other samplers and of several fields need; runs, and searching by bands."""
    others = (
        (f"{_OURS}wide", "ngmm", None, "dart"),
        (f"{_OURS}packed", "ngmm", None, "dart"),
        (f"{_OURS}units", "cosine", _FEATURES, "argmax"),
    )
    _scanned(database, look, others)
    look()
    _fields(database)
    for name in database.collections():
        look()
        collection = database.collection(name)
        collection.compact()
        collection.add([str(i) for i in range(24, 48)], _vectors(name)[24:])
        for mode in ("bands", "exact"):
            collection.query(_vectors(name)[0], mode=mode)
        collection.check()


def _links(database: Database, look: Look) -> None:
    """Building links, extending them, walking, and predicting what bands would do."""
    for name in database.collections():
        look()
        collection = database.collection(name)
        collection.link()
        collection.delete(["3"])
        collection.add(["48"], _vectors(name)[:1] + 1.0)
        collection.link()
        for mode in ("links", "exact"):
            collection.query(_vectors(name)[0], mode=mode)
        collection.tune(3, sample=8, choices=[(1, 8)])
        collection.check()
    look()
    _duplicates(database)
    look()
    _objects(database)
    look()
    _kernels(database)


def _duplicates(database: Database) -> None:
    """Near rows of a collection, and near texts: so many that not all pairs are scored."""
    name = f"{_OURS}near"
    collection = database.create_collection(name, dim=_FEATURES, seed=0)
    near = np.repeat(np.random.default_rng(_RNG_SEED).random((128, _FEATURES)), 2, axis=0)
    near[::2, 0] += 0.01
    collection.add([str(i) for i in range(256)], near)
    for form in ("pairs", "clusters"):
        assert sum(1 for _ in collection.duplicates(0.9, form)) >= 128
    database.drop_collection(name)
    texts = [f"{i * 7919 % 9973:05} {i % 7} one text of many" for i in range(256)]
    with TemporaryDirectory(prefix="kinbin-") as folder, TextDuplicates(Path(folder), shingler=Shingler(words=2)) as job:
        job.add([*texts, *texts[:8], "é"])
        assert job.finish().kept <= len(texts) + 1


def _objects(database: Database) -> None:
    """Strings: rows made of them, their links, and pools."""
    name = f"{_OURS}strings"
    collection = database.create_collection(name, items="strings", seed=0)
    strings = [f"{i * 7919 % 9973:05} {i % 7}" for i in range(300)]
    collection.add([str(i) for i in range(300)], strings)
    collection.link()
    for mode in ("links", "exact"):
        collection.query(strings[0], mode=mode)
        collection.query_batch(strings[:2], mode=mode)
    collection.query(strings[0], max_distance=1.0)
    database.drop_collection(name)


def _kernels(database: Database) -> None:
    """Combined samplers, and the code of kernels that have their own."""
    collection = database.create_collection(f"{_OURS}both", kernel="mm_acos", dim=_FEATURES, seed=0)
    collection.add([str(i) for i in range(48)], _vectors(collection.name))
    collection.compact()
    collection.query(_vectors(collection.name)[0], mode="bands")
    for space in OBJECT_KERNELS.values():
        assert len(space.record) == 1
    for space in KERNELS.values():
        assert len(space.record) == 1
        for sampler in space.samplers:
            hashed = space.hashed_by(sampler)
            assert len(hashed.record) == len(hashed.law) == 1
            assert hashed.scores_vouching(np.array([hashed.least_similarity(0.5)])).shape == (1,)


STAGES: Mapping[str, Callable[[Database, Look], None]] = {"small": _small, "bands": _bands, "links": _links}
"""Groups of kernels in the order of need, and what uses each; a stage works on the collections of those before it, and looks now and then
(every half second) whether to go on."""
