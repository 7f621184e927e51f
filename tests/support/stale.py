"""Children that write to a file whose list of free pages is not its own."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import kinbin
from kinbin.storage import free
from linked import still

__all__ = ["DIM", "commit", "rows_of", "use"]

DIM = 6


def rows_of(number: int, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """The rows of one commit."""
    return (np.random.default_rng(number).random((count, DIM)) + 0.01).astype(np.float32)


def commit(collection: kinbin.Collection, number: int) -> dict[str, bytes]:
    """Add some rows, their count and payloads by the commit's number. Returns their vectors by id."""
    count = 5 + number * 7 % 23
    rows = rows_of(number, count)
    ids = [f"{number:03d}-{i:02d}{'x' * 20}" for i in range(count)]
    collection.add(ids, rows, [{"n": i, "t": "y" * (number * 37 % 300)} for i in range(count)])
    return {one: rows[i].tobytes() for i, one in enumerate(ids)}


def use(connection: Connection, there: dict[str, bytes], looks: bool) -> None:
    """For each folder that is sent: write to its collection "c", then say whether it was refused, and what is wrong with it.

    looks: whether writers look at the trees before they take a free page.
    """
    if not looks:
        free.mark_used = lambda *_: None
    while True:
        try:
            folder = connection.recv()
        except EOFError:
            return
        connection.send(_used(folder, dict(there)))


def _used(folder: Path, there: dict[str, bytes]) -> tuple[bool, list[str]]:
    refused, wrong = False, list[str]()
    with still(), kinbin.open(folder) as database:
        try:
            collection = database.collection("c")
        except kinbin.CorruptData:
            return True, wrong
        try:
            for number in range(500, 512):
                there.update(commit(collection, number))
                if number % 4 == 3:
                    collection.compact()
        except kinbin.CorruptData:
            refused = True
        try:
            found = collection.get(list(there))
            wrong += [
                one for one, item in zip(there, found, strict=True) if item is None or np.asarray(item.vector).tobytes() != there[one]
            ]
            if not refused:
                wrong += collection.check().problems
        except kinbin.KinbinError as error:
            wrong.append(str(error))
    return refused, wrong
