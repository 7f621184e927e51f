"""Tuning through the client: the blocking half and the awaited one give what the library gives."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import kinbin
import kinbin_client
from kinbin_client import AsyncClient, Client, InvalidArgument, InvalidInput

ASKED: dict[str, Any] = {"k": 5, "sample": 80, "choices": [(8, 20), (2, 100)]}
TIMES = {"milliseconds", "microseconds", "measured_microseconds", "seconds", "why", "suggested"}
"""And what follows from times: of settings that find alike the faster one is suggested."""


def untimed(told: Any) -> Any:
    """Plain data without what differs from call to call."""
    if isinstance(told, dict):
        return {name: untimed(value) for name, value in told.items() if name not in TIMES}
    return [untimed(one) for one in told] if isinstance(told, list | tuple) else told


@pytest.fixture
def vectors(rng: np.random.Generator) -> NDArray[np.float32]:
    """(300, 16) rows around 15 centres."""
    centres = rng.gamma(0.5, size=(15, 16))[np.arange(300) % 15]
    return (centres * rng.gamma(6.0, 1 / 6, centres.shape) + 1e-3).astype(np.float32)


def filled(client: Client, vectors: NDArray[np.float32]) -> kinbin_client.Collection:
    """A collection of bands that are too long."""
    collection = client.create_collection("photos", dim=16, rows=8, bands=20, seed=1)
    collection.add([str(i) for i in range(len(vectors))], vectors)
    return collection


async def test_both_halves_say_what_the_library_says(local_path: Path, vectors: NDArray[np.float32]) -> None:
    """Predictions and measurements are the library's but for times, whichever way queries are given; a rebuild is seen by all."""
    with Client(path=local_path) as client, kinbin.open(local_path) as database:
        collection, library = filled(client, vectors), database.collection("photos")
        library.compact()
        expected = untimed(asdict(library.tune(**ASKED)))
        tuned = collection.tune(**ASKED)
        assert untimed(tuned.model_dump()) == untimed(asdict_lists(expected))
        assert tuned.suggested is not None
        assert (tuned.suggested.rows, tuned.suggested.bands) in ASKED["choices"]
        queries = vectors[:20] * 2.0
        for given in (queries, queries.tolist(), sparse.csr_matrix(queries)):
            told = collection.recall(given, 5, modes=["bands", "exact"])
            assert untimed(told.model_dump()) == untimed(asdict_lists(asdict(library.recall(queries, 5, modes=["bands", "exact"]))))
        async with AsyncClient(path=local_path) as awaited:
            same = awaited.collection("photos")
            assert untimed((await same.tune(**ASKED)).model_dump()) == asdict_lists(expected)
            sampled = await same.recall(50, 5, modes=["bands"], seed=2)
            assert untimed(sampled.model_dump()) == untimed(asdict_lists(asdict(library.recall(50, 5, modes=["bands"], seed=2))))
            assert (sampled.modes[0].recall or 1.0) < 1.0
            made = await same.rebuild(2, 100)
            assert (made.rows, made.bands, made.count) == (2, 100, 300)
        assert collection.rebuild().rows == library.stats()["runs"][0]["r"]
        assert collection.info().rows is None


def asdict_lists(told: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    if isinstance(told, dict):
        return {name: asdict_lists(value) for name, value in told.items()}
    return [asdict_lists(one) for one in told] if isinstance(told, list | tuple) else told


def test_objects_are_measured(local_path: Path) -> None:
    """Queries travel under the key of their kind, which the client finds out by itself."""
    with Client(path=local_path) as client:
        words = client.create_collection("words", items="strings", distance="levenshtein")
        words.add([str(i) for i in range(30)], [f"word {i}" for i in range(30)])
        told = client.collection("words").recall(["word 7", "ward"], 3)
        assert (told.queries, [one.recall for one in told.modes]) == (2, [1.0, 1.0])


def test_what_has_no_form_is_refused_here_and_the_rest_by_the_service(local_path: Path, vectors: NDArray[np.float32]) -> None:
    """Choices that are no pairs, modes that are no list, queries that are none; numbers out of range are the service's."""
    with Client(path=local_path) as client:
        collection = filled(client, vectors)
        none: Any = [3]
        for wrong in (lambda: collection.tune(choices=none), lambda: collection.recall("many"), lambda: collection.recall(5, modes="auto")):
            with pytest.raises(InvalidArgument):
                wrong()
        for refused in (lambda: collection.tune(k=101), lambda: collection.recall(0), lambda: collection.rebuild(9, 1)):
            with pytest.raises(InvalidInput):
                refused()


OWN = {"cancel", "field", "weights", "combine"}
"""What is given in another way over HTTP, and what is of collections with several fields: the library has a class of its own for these."""


@pytest.mark.parametrize("name", ["tune", "recall", "rebuild"])
def test_methods_are_called_as_the_librarys(name: str) -> None:
    """The same parameters with the same defaults in the same order, in the library and in both halves."""
    listed = [
        [(one.name, one.kind, one.default) for one in inspect.signature(getattr(owner, name)).parameters.values() if one.name not in OWN]
        for owner in (kinbin.Collection, kinbin_client.Collection, kinbin_client.AsyncCollection)
    ]
    assert listed[0] == listed[1] == listed[2]
