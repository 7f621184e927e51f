"""What the children do that crash tests of objects kill: adds and deletes of strings, with runs and a pool index made meanwhile."""

from __future__ import annotations

from multiprocessing.connection import Connection

import kinbin
import kinbin.codes.coder
import kinbin.pools.building
import kinbin.pools.pools
from crashing import at_write, die, make_runs_small

__all__ = ["BATCH", "crash_while_pooling", "ids_of", "stored_after", "strings_of", "work"]

BATCH = 24


def ids_of(number: int) -> list[str]:
    """Of the strings that step `number` adds."""
    return [f"{number:05}-{i:02}" for i in range(BATCH)]


def strings_of(number: int) -> list[str]:
    """Different from those of every other step, and near some."""
    return [f"{(number * 7919 + i * 104_729) % 9_973_241:07}, {i % 5} of {number}" for i in range(BATCH)]


def is_delete(number: int) -> bool:
    """Whether a step deletes what the one before it added."""
    return number % 4 == 3


def stored_after(steps: int) -> dict[str, str]:
    """Strings by id after so many steps."""
    stored: dict[str, str] = {}
    for number in range(steps):
        if is_delete(number):
            for key in ids_of(number - 1):
                del stored[key]
        else:
            stored |= dict(zip(ids_of(number), strings_of(number), strict=True))
    return stored


def perform(collection: kinbin.Collection, number: int) -> None:
    """One step."""
    if is_delete(number):
        collection.delete(ids_of(number - 1))
    else:
        collection.add(ids_of(number), strings_of(number))


def be_quick() -> None:
    """Calibrate by few queries, and choose codes of sparse rows in less time, as in `linked.still`."""
    vars(kinbin.pools.building)["_QUERIES"] = 16
    vars(kinbin.codes.coder)["_MERGED_SLOTS"] = 256


def work(connection: Connection, path: str, number: int) -> None:
    """Steps from a number on, for ever; sends each once it is acknowledged. Pools are built in the background, again and again."""
    make_runs_small()
    be_quick()
    kinbin.pools.pools.LEAST_OBJECTS = 50
    vars(kinbin.pools.pools)["_GROWTH"] = 16
    collection = kinbin.open(path).collection("c")
    connection.send("open")
    while True:
        perform(collection, number)
        connection.send(number)
        number += 1


def crash_while_pooling(connection: Connection, path: str, write: int, when: str) -> None:
    """Cover every object, and die at write transaction `write` of all stores. Sends "done" if there are fewer than that."""
    be_quick()
    collection = kinbin.open(path).collection("c")
    with at_write(write, when, die):
        collection.link()
    connection.send("done")
