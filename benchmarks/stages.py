"""Long builds, stage by stage: how long each took, the memory it needed at most, and how queries fared meanwhile."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
from common import K, busy_elsewhere, memory, other_core

__all__ = ["Stages", "summed_up", "watched"]

PAUSE = 0.2
"""Seconds between two queries of a watcher."""
LEAST = 1_000
"""Rows from which on a watcher asks."""


class Stages:
    """What each stage of a build took. Each is told on the error stream, and kept in a file for a build that goes on."""

    def __init__(self, what: str, kept: Path) -> None:
        self._what, self._kept = what, kept
        self.taken: dict[str, dict[str, float | None]] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage: seconds, when it began and ended, its peak of resident memory, what is its own at the end, cores that others used."""
        _forget_peak()
        others, began = busy_elsewhere(), time.monotonic()
        yield
        ended = time.monotonic()
        held = memory()
        one: dict[str, float | None] = {
            "began": began,
            "ended": ended,
            "seconds": ended - began,
            "peak": held.get("peak", 0),
            "own": held.get("own", 0),
        }
        one["others_cores"] = (busy_elsewhere() - others) / (ended - began)
        self.taken[name] = one
        self._kept.write_text(json.dumps(self.taken), encoding="utf-8")
        peak = f"peak {held.get('peak', 0) >> 20:,} MiB, of its own at the end {held.get('own', 0) >> 20:,} MiB"
        print(f"{self._what}: {name}: {ended - began:,.0f} s, {peak}", file=sys.stderr, flush=True)


def _forget_peak() -> None:
    """Let the kernel count the peak of this process's resident memory from now on, where it can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


@contextmanager
def watched(folder: Path, name: str, queries: Any) -> Iterator[list[tuple[float, float]]]:
    """Ask a collection that another process builds, all the time: (when, milliseconds) of each query, in the list once the block has ended.

    A process on another core asks one query, pauses, and asks the next, without options; from the moment when there are `LEAST` rows.
    """
    asked: list[tuple[float, float]] = []
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        stop = manager.Event()
        future = pool.submit(_watch, folder, name, queries, stop, other_core())
        try:
            yield asked
        finally:
            stop.set()
            asked.extend(future.result())


def _watch(folder: Path, name: str, queries: Any, stop: Any, core: int | None) -> list[tuple[float, float]]:
    if core is not None:
        os.sched_setaffinity(0, {core})
    kinbin.warm_up()
    asked: list[tuple[float, float]] = []
    vectors = [queries[i].toarray()[0] for i in range(min(queries.shape[0], 200))]
    with kinbin.open(folder) as database:
        while not stop.is_set() and (name not in database.collections() or database.collection(name).count() < LEAST):
            time.sleep(PAUSE)
        while not stop.is_set():
            began = time.monotonic()
            answer = database.collection(name).query(vectors[len(asked) % len(vectors)], k=K)
            asked.append((began, 1e3 * (time.monotonic() - began)))
            assert len(answer.ids) == K
            time.sleep(PAUSE)
    return asked


def summed_up(asked: list[tuple[float, float]], stage: dict[str, float]) -> dict[str, float]:
    """Of the queries that began in a stage: how many, and milliseconds. Nothing of a stage that an earlier process went through."""
    if asked and stage["ended"] < asked[0][0]:
        return {}
    times = np.array([took for when, took in asked if stage["began"] <= when < stage["ended"]])
    if not len(times):
        return {"queries": 0}
    return {"queries": len(times), "p50": float(np.median(times)), "p99": float(np.quantile(times, 0.99)), "longest": float(times.max())}
