"""Queries while rows are written: the rate against that of the same 50,000 rows at rest."""

from __future__ import annotations

import multiprocessing
import os
import queue
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K, Options, data_set, other_core, run, workspace
from databases import fill, layout
from report import figure, paragraphs, table

BOUNDED = 1_000.0
"""Rows a second of the bounded writers."""
WRITTEN_IDS = 10_000
"""Ids that the writers use: rows are added first, then replaced by others, round after round."""
ALONE, TOGETHER = 20, 100
"""Between two looks at the clock: single queries, then one batch."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is written while queries are answered."""

    title: str
    rate: float | None
    """Rows a second, None: as fast as it goes."""
    batch: int
    elsewhere: bool
    """In a process on the other core, not in a thread of the process that answers."""


LOADS = {
    "thread": Load(f"{BOUNDED:,.0f} rows/s in adds of 20, by a thread of the same process on the same core", BOUNDED, 20, False),
    "process": Load(f"{BOUNDED:,.0f} rows/s in adds of 20, by a process on the other core", BOUNDED, 20, True),
    "flood": Load("at full speed in adds of 1,000, by a process on the other core", None, 1_000, True),
}


def measure(options: Options) -> dict[str, Any]:
    """Rounds of rest and each load; after each load the collection is put back to what it was, merged and linked."""
    data = data_set("cifar10_rgbhist512")
    rows, queries = data["X_train"][: options.pick(50_000, 3_000)], data["X_test"][:1_000]
    fresh = data["X_test"][1_000:]
    seconds = options.pick(20.0, 1.0)
    kinbin.warm_up()
    loads = {name: load for name, load in LOADS.items() if not load.elsewhere or other_core() is not None}
    rounds: list[dict[str, Any]] = []
    with workspace(options) as folder, kinbin.open(folder) as database:
        collection = database.create_collection("c", dim=rows.shape[1], seed=0)
        fill(collection, rows)
        for _ in range(options.rounds(3)):
            now: dict[str, Any] = {"quiet": _answer(collection, queries, seconds)}
            for name, load in loads.items():
                with _writing(load, folder, fresh) as written:
                    now[name] = _answer(collection, queries, seconds)
                now[name]["written"] = written[0]
                now[name]["left"] = layout(collection) + f"; {collection.stats()['fresh_rows']:,} fresh"
                collection.delete([f"w{i}" for i in range(WRITTEN_IDS)])
                collection.link()
            rounds.append(now)
    return {"rows": len(rows), "seconds": seconds, "loads": {name: load.title for name, load in loads.items()}, "rounds": rounds}


def _answer(collection: kinbin.Collection, queries: NDArray[Any], seconds: float) -> dict[str, float]:
    """Rates of single queries and of batches, and single queries' times, over a while."""
    single: list[float] = []
    batches: list[float] = []
    at = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(ALONE):
            started = time.perf_counter()
            collection.query(queries[at], k=K)
            single.append(time.perf_counter() - started)
            at = (at + 1) % len(queries)
        some = np.roll(queries, -at, axis=0)[:TOGETHER]
        started = time.perf_counter()
        collection.query_batch(some, k=K)
        batches.append(time.perf_counter() - started)
    return {
        "single_rate": len(single) / sum(single),
        "batch_rate": TOGETHER * len(batches) / sum(batches),
        "p50": 1e6 * float(np.median(single)),
        "p99": 1e6 * float(np.quantile(single, 0.99)),
    }


# ----------------------------------------------------------------------------------------- writing


@contextmanager
def _writing(load: Load, folder: Path, fresh: NDArray[Any]) -> Iterator[list[float]]:
    """Write during the block; afterwards the list holds the rows written a second."""
    written: list[float] = []
    spawned = multiprocessing.get_context("spawn")
    makers: Any = spawned if load.elsewhere else threading
    start: Any = spawned.Process if load.elsewhere else threading.Thread
    started, stop = makers.Event(), makers.Event()
    answer: Any = spawned.Queue() if load.elsewhere else queue.Queue()
    core = other_core() if load.elsewhere else None
    writer = start(target=_write, args=(load, folder, fresh, core, started, stop, answer), daemon=True)
    writer.start()
    if not started.wait(300):
        raise RuntimeError("the writer did not start")
    try:
        yield written
    finally:
        stop.set()
        written.append(answer.get(timeout=120))
        writer.join()


def _write(load: Load, folder: Path, fresh: NDArray[Any], core: int | None, started: Any, stop: Any, answer: Any) -> None:
    """Add and replace rows until told to stop; answer how many a second it were."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    with kinbin.open(folder) as database:
        collection = database.collection("c")
        started.set()
        begun = time.perf_counter()
        count = 0
        while not stop.is_set():
            numbers = np.arange(count, count + load.batch)
            collection.add([f"w{i}" for i in numbers % WRITTEN_IDS], _vectors(fresh, numbers))
            count += load.batch
            if load.rate is not None:
                stop.wait(max(0.0, begun + count / load.rate - time.perf_counter()))
        answer.put(count / (time.perf_counter() - begun))


def _vectors(fresh: NDArray[Any], numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Histograms that were never written before: one bin is fuller each time round (equal vectors would share a row)."""
    rounds, which = np.divmod(numbers, len(fresh))
    vectors = fresh[which]
    vectors[np.arange(len(numbers)), which % fresh.shape[1]] += (rounds + 1).astype(fresh.dtype)
    return vectors


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """Rates at rest and under each load."""
    rounds = result["rounds"]

    def median(name: str, key: str) -> float:
        return float(statistics.median(each[name][key] for each in rounds))

    def share(name: str, key: str) -> float:
        return float(statistics.median(each[name][key] / each["quiet"][key] for each in rounds))

    lines: list[tuple[object, ...]] = []
    for name, title in {"quiet": "nothing", **result["loads"]}.items():
        written = None if name == "quiet" else median(name, "written")
        rates = [value for key in ("batch_rate", "single_rate") for value in (median(name, key), share(name, key))]
        lines.append((title, written, *rates, median(name, "p50"), median(name, "p99")))
    titles = ("rows/s written", "queries/s in batches", "share", "queries/s one by one", "share", "p50, µs", "p99, µs")
    left = "; ".join(f"{name}: {rounds[-1][name]['left']}" for name in result["loads"])
    return paragraphs(
        f"{result['rows']:,} rows; {figure(result['seconds'])} s of each load, {len(rounds)} rounds; medians, shares of the rate at rest.",
        table(("written meanwhile", *titles), lines),
        f"What the last round left before it was put back: {left}.",
    )


if __name__ == "__main__":
    run("mixed", measure, render)
