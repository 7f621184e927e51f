"""The library of one checkout, in a process of its own: it does what lines on its input ask for, and says how long that took.

Started by `against.py` with the checkout's `index` first in PYTHONPATH. It calls only what the oldest checkout has, too.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import kinbin

K = 10
ADDED_AT_ONCE = {1: 100, 10: 40, 1_000: 8}
"""Rows of an add, and adds of a round."""


class Side:
    """One checkout's databases and what is measured on them."""

    def __init__(self, folder: Path) -> None:
        self.database = kinbin.open(folder)
        self.added = 0
        self.collection: Any = None
        self.rows: Any = None
        self.queries: Any = None

    def build(self, name: str, rows: str, queries: str) -> dict[str, Any]:
        """Add, merge and link a set: seconds of both parts."""
        self.rows, self.queries = np.load(rows), np.load(queries)
        self.collection = self.database.create_collection(name, dim=self.rows.shape[1], seed=0)
        with _linked_when_told():
            started = time.perf_counter()
            for first in range(0, len(self.rows), 1_000):
                part = self.rows[first : first + 1_000]
                self.collection.add([str(first + row) for row in range(len(part))], part)
            self.collection.compact()
            banded = time.perf_counter()
            self.collection.link()
            linked = time.perf_counter()
        self.database.create_collection(f"{name}-side", dim=self.rows.shape[1], seed=0)
        return {"seconds": banded - started, "links": linked - banded}

    def batch(self, mode: str, target: float, count: int) -> dict[str, Any]:
        """All queries at once."""
        queries = self.queries[:count]
        seconds, answers = _timed(lambda: self.collection.query_batch(queries, k=K, mode=mode, target_recall=target))
        return {"seconds": seconds, "ids": [list(ids) for ids in answers.ids]}

    def single(self, mode: str, target: float, count: int) -> dict[str, Any]:
        """One query after the other."""
        ask = self.collection.query

        def loop() -> None:
            for query in self.queries[:count]:
                ask(query, k=K, mode=mode, target_recall=target)

        return {"seconds": _timed(loop)[0]}

    def plain(self, count: int) -> dict[str, Any]:
        """One query after the other, as `collection.query(x)`."""
        ask = self.collection.query

        def loop() -> None:
            for query in self.queries[:count]:
                ask(query)

        return {"seconds": _timed(loop)[0]}

    def add(self, name: str, size: int) -> dict[str, Any]:
        """Durable adds to a collection beside."""
        side = self.database.collection(f"{name}-side")
        parts = []
        for _ in range(ADDED_AT_ONCE[size]):
            at = self.added % (len(self.rows) - size)
            parts.append(([str(self.added + row) for row in range(size)], self.rows[at : at + size]))
            self.added += size

        def loop() -> None:
            for ids, part in parts:
                side.add(ids, part)

        return {"seconds": _timed(loop)[0]}


@contextmanager
def _linked_when_told() -> Iterator[None]:
    """No rows are linked in the background meanwhile.

    How many of them there are by then is chance, and links, and the widths that are calibrated on them, depend on it.
    """
    for name in ("kinbin.upkeep.linking", "kinbin.search.linking"):
        try:
            linker = importlib.import_module(name).Linker
            break
        except ModuleNotFoundError:
            continue
    step, linker.step = linker.step, lambda _self, *, quiet: True  # noqa: ARG005 - as it is called
    try:
        yield
    finally:
        linker.step = step


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    started = time.perf_counter()
    answer = call()
    return time.perf_counter() - started, answer


def main() -> None:
    """Read a request a line: a method of `Side` and its arguments."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    kinbin.warm_up()
    side = Side(Path(sys.argv[1]))
    print(json.dumps({"from": kinbin.__file__}), file=out, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(getattr(side, asked.pop("do"))(**asked)), file=out, flush=True)
    side.database.close()


if __name__ == "__main__":
    main()
