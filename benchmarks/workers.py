"""Memory of several processes that answer from the same database at once."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import kinbin
from common import K

__all__ = ["FIELDS", "held_by"]

FIELDS = ("Rss", "Pss", "Pss_Anon", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty")
"""Of the kernel's account of a process. Pss: a page counts in equal parts for each process that maps it."""
AT_ONCE = 100
"""Queries a batch."""
PATIENCE = 900.0
"""Seconds that workers wait for each other."""

_together: Barrier
"""Set in each worker process before it works."""


def held_by(workers: int, folder: Path, name: str, queries: Any, target: float) -> list[dict[str, int]]:
    """Bytes by field of each of so many spawned processes, at a moment when all have answered all queries and none has closed.

    Every process opens the database and asks by links, as workers of a server do. All share this process's cores.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(workers)
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context, initializer=_meet_at, initargs=(barrier,)) as pool:
        asked = [pool.submit(_answer, folder, name, queries, target) for _ in range(workers)]
        return [future.result() for future in asked]


def _meet_at(barrier: Barrier) -> None:
    global _together  # noqa: PLW0603 - a barrier reaches a process only as it starts, and tasks by pickle
    _together = barrier


def _answer(folder: Path, name: str, queries: Any, target: float) -> dict[str, int]:
    kinbin.warm_up()
    with kinbin.open(folder) as database:
        collection = database.collection(name)
        for first in range(0, queries.shape[0], AT_ONCE):
            collection.query_batch(queries[first : first + AT_ONCE], k=K, target_recall=target, mode="links")
        _together.wait(PATIENCE)
        held = _account()
        _together.wait(PATIENCE)
    return held


def _account() -> dict[str, int]:
    """Bytes by field of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    sizes = {name: int(size.split()[0]) * 1024 for name, size in (line.split(":", 1) for line in lines)}
    return {field: sizes[field] for field in FIELDS}
