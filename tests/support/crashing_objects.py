"""What the children do that crash tests of objects kill: adds and deletes of every kind, with runs and pool indexes made meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import kinbin
import kinbin.codes.coder
import kinbin.pools.building
import kinbin.pools.pools
from crashing import at_write, die, make_runs_small

__all__ = ["BATCH", "KINDS", "crash_while_pooling", "ids_of", "objects_of", "perform", "stored_after", "strings_of", "work"]

BATCH = 24
KINDS: dict[str, dict[str, Any]] = {
    "strings": {"items": "strings", "distance": "levenshtein"},
    "series": {"items": "series", "distance": "dtw", "parameters": {"window": 0.5}},
    "points": {"items": "points", "distance": "hausdorff", "dim": 2},
    "images": {"items": "images", "parameters": {"levels": 2, "base": "tv", "lambda": 1.0, "epsilon": 0.5}},
}
"""The collections of a database, by name. Steps go round: step n is step n // 4 of the kind n % 4."""


def ids_of(number: int) -> list[str]:
    """Of the strings that step `number` adds."""
    return [f"{number:05}-{i:02}" for i in range(BATCH)]


def strings_of(number: int) -> list[str]:
    """Different from those of every other step, and near some."""
    return [f"{(number * 7919 + i * 104_729) % 9_973_241:07}, {i % 5} of {number}" for i in range(BATCH)]


_MADE: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "series": lambda rng, i: rng.normal(size=3 + i % 5).cumsum().astype(np.float32),
    "points": lambda rng, i: rng.normal(size=(2 + i % 4, 2)).astype(np.float32),
    "images": lambda rng, i: (rng.integers(0, 4, (3 + i % 3, 4, 3)) * 64).astype(np.uint8),
}


@cache
def objects_of(kind: str, number: int) -> list[Any]:
    """Of the kind's step `number`, different from those of every other step."""
    if kind == "strings":
        return list(strings_of(number))
    rng = np.random.default_rng([list(KINDS).index(kind), number])
    return [_MADE[kind](rng, i) for i in range(BATCH)]


def is_delete(number: int) -> bool:
    """Whether a step deletes what the one before it added."""
    return number % 4 == 3


def stored_after(steps: int, kind: str = "strings") -> dict[str, Any]:
    """Objects of a kind by id after so many steps of the kind."""
    stored: dict[str, Any] = {}
    for number in range(steps):
        if is_delete(number):
            for key in ids_of(number - 1):
                del stored[key]
        else:
            stored |= dict(zip(ids_of(number), objects_of(kind, number), strict=True))
    return stored


def perform(collection: kinbin.Collection, number: int, kind: str = "strings") -> None:
    """One step of a kind."""
    if is_delete(number):
        collection.delete(ids_of(number - 1))
    else:
        collection.add(ids_of(number), objects_of(kind, number))


def be_quick() -> None:
    """Calibrate by few queries, and choose codes of sparse rows in less time, as in `linked.still`."""
    vars(kinbin.pools.building)["_QUERIES"] = 16
    vars(kinbin.codes.coder)["_MERGED_SLOTS"] = 256


def work(connection: Connection, path: str, number: int, late: bool = False) -> None:
    """Steps from a number on, for ever; sends each once it is acknowledged. Pools are built in the background, again and again.

    late: a planted bug, each step is done when the next two have been acknowledged.
    """
    make_runs_small()
    be_quick()
    kinbin.pools.pools.LEAST_OBJECTS = 50
    vars(kinbin.pools.pools)["_GROWTH"] = 16
    database = kinbin.open(path)
    collections = [(kind, database.collection(kind)) for kind in KINDS]
    connection.send("open")
    for acknowledged in count(number):
        step = acknowledged - (2 if late else 0)
        if step >= number:
            kind, collection = collections[step % len(KINDS)]
            perform(collection, step // len(KINDS), kind)
        connection.send(acknowledged)


def crash_while_pooling(connection: Connection, path: str, write: int, when: str) -> None:
    """Cover every object, and die at write transaction `write` of all stores. Sends "done" if there are fewer than that."""
    be_quick()
    collection = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.link()
    connection.send("done")
