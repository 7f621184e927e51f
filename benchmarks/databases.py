"""Databases under measurement: filled in batches, weighed on disk, opened in a new process."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import ids_of, in_new_process, memory

__all__ = ["BATCH", "compacted_copy_bytes", "file_bytes", "fill", "layout", "opening", "record_bytes"]

BATCH = 1_000


def fill(collection: kinbin.Collection, rows: Any, batch: int = BATCH, *, link: bool = True) -> dict[str, float]:
    """Add rows in durable batches, ids are row numbers, then merge all, then link them: nothing is left to do in the background.

    Seconds until the last add was acknowledged, until merged, and until linked.
    """
    total = rows.shape[0]
    started = time.perf_counter()
    for first in range(0, total, batch):
        last = min(first + batch, total)
        collection.add(ids_of(first, last), rows[first:last])
    seconds = {"added": time.perf_counter() - started}
    collection.compact()
    seconds["compacted"] = time.perf_counter() - started
    if link:
        collection.link()
        seconds["linked"] = time.perf_counter() - started
    return seconds


def layout(collection: kinbin.Collection) -> str:
    """The runs of a collection, such as `50,000 rows r=4 L=128`."""
    return "; ".join(f"{run['rows']:,} rows r={run['r']} L={run['bands']}" for run in collection.stats()["runs"]) or "no run"


def record_bytes(rows: Any) -> int:
    """Bytes of the stored records of rows of at most 65,536 dimensions: 16 and 6 a nonzero, rounded up to 8."""
    nonzeros = np.diff(rows.indptr) if hasattr(rows, "indptr") else np.count_nonzero(rows, axis=1)
    return int(((16 + 6 * nonzeros.astype(np.int64) + 7) // 8 * 8).sum())


def _file(folder: Path, name: str) -> Path:
    """The data file of a collection."""
    return next(folder.glob(f"**/{name}/data.mdb"))


def file_bytes(folder: Path, name: str) -> int:
    """Blocks that a collection's data file takes on disk."""
    return _file(folder, name).stat().st_blocks * 512


def compacted_copy_bytes(folder: Path, name: str, target: Path) -> int:
    """Blocks of a copy without LMDB's free pages. The collection must not be open in this process."""
    import lmdb

    target.mkdir()
    environment = lmdb.open(str(_file(folder, name).parent), readonly=True, lock=False)
    environment.copy(str(target), compact=True)
    environment.close()
    return (target / "data.mdb").stat().st_blocks * 512


def opening(folder: Path, name: str, vector: NDArray[Any], repeats: int, *, warm: bool) -> dict[str, float]:
    """Median milliseconds that opening takes in a new process, and what it holds in memory afterwards.

    warm: kernels were loaded before, as a server does before it is ready; otherwise opening and the first query load those
    that they need from numba's cache. Imports are not counted. The files are in the page cache.
    """
    runs = [in_new_process(_open, folder, name, vector, warm) for _ in range(repeats + 1)][1:]  # the first fills caches
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _open(folder: Path, name: str, vector: NDArray[Any], warm: bool) -> dict[str, float]:
    if warm:
        kinbin.warm_up()
    start = time.perf_counter()
    with kinbin.open(folder) as database:
        opened = time.perf_counter()
        collection = database.collection(name)
        there = time.perf_counter()
        collection.query(vector)
        first = time.perf_counter()
        collection.query(vector)
        second = time.perf_counter()
        times = {"open": opened - start, "collection": there - opened, "first_query": first - there, "second_query": second - first}
        return {key: 1e3 * value for key, value in times.items()} | {f"{key}_bytes": float(value) for key, value in memory().items()}
