"""Filters on payload indexes: single queries of a million items, of which 1 % passes, also right after a write; and what indexes cost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kinbin
import kinbin.upkeep.background
from common import K, Options, run
from report import paragraphs, table

DIM = 32
BATCH = 10_000
YEARS = 100
"""Different values of the field: a filter on one lets 1 % through."""
INDEXES = {"year": "number", "tag": "keyword"}
QUERIES = 40


def measure(options: Options) -> dict[str, Any]:
    """Declare the indexes of a collection that is there, and ask. The collection is filled once, and kept in the cache."""
    count = options.pick(1_000_000, 20_000)
    rng = np.random.default_rng(1)
    kinbin.warm_up()
    # Links are not walked where 1 % passes, and would take longer than all the rest.
    setattr(kinbin.upkeep.background.LinkThread, "wake", lambda _: None)  # noqa: B010 - a method is replaced
    with kinbin.open(_filled(options, count)) as database:
        collection = database.collection("items")
        for field in collection.stats()["indexes"]["fields"] if collection.stats().get("indexes") else ():
            collection.drop_index(field)
        queries = _vectors(rng, QUERIES)
        collection.query(queries[0], k=K, mode="exact")
        without = _spread(lambda i: collection.count({"year": i % YEARS}), 3)
        began = time.perf_counter()
        for field, kind in INDEXES.items():
            collection.add_index(field, kind, wait=True)
        built = time.perf_counter() - began
        size = collection.stats()["indexes"]["bytes"]
        collection.query(queries[0], k=K, filter={"year": YEARS - 1})
        milliseconds = {
            "a filter that was not asked before": _spread(lambda i: _ask(collection, queries[i], {"year": i}), QUERIES),
            "the same filter again": _spread(lambda i: _ask(collection, queries[i], {"year": 7}), QUERIES),
            "the first after a write, filter known": _spread(
                lambda i: _ask(collection, queries[i], {"year": 7}), QUERIES, _adds(collection)
            ),
            "the first after a write, new filter": _spread(
                lambda i: _ask(collection, queries[i], {"year": {"$gt": i - 1, "$lt": i + 1}}), QUERIES, _adds(collection)
            ),
            "two fields, 1 %": _spread(
                lambda i: _ask(collection, queries[i], {"year": {"$gte": i, "$lt": i + 7}, "tag": f"t{i % 7}"}), QUERIES
            ),
            "facets of the half": _spread(lambda i: collection.facets("tag", {"year": {"$gte": 30 + i}}), QUERIES),
        }
    return {"items": count, "built_s": built, "bytes": size, "without_ms": without, "ms": milliseconds}


def _filled(options: Options, count: int) -> Path:
    """The folder of a database of so many items: that of an earlier run, which may have added some hundreds, or a new one."""
    folder = options.cache / f"payload_index-{count}"
    done = folder.with_suffix(".done")
    if done.exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(0)
    with kinbin.open(folder) as database:
        collection = database.create_collection("items", dim=DIM, seed=0)
        for start in range(0, count, BATCH):
            years = rng.integers(0, YEARS, min(BATCH, count - start)).tolist()
            payloads = [{"year": year, "tag": f"t{year % 7}", "text": "x" * 100} for year in years]
            collection.add([f"{start + i}" for i in range(len(years))], _vectors(rng, len(years)), payloads)
        collection.compact()
    done.touch()
    return folder


def _vectors(rng: np.random.Generator, count: int) -> Any:
    return rng.gamma(0.5, size=(count, DIM)).astype(np.float32) + 0.01


def _ask(collection: kinbin.Collection, query: Any, filter: Any) -> None:
    """Ten neighbours; with 1 % the answer is exact by default."""
    answer = collection.query(query, k=K, filter=filter)
    assert answer.recall_lower_bound == 1.0


def _adds(collection: kinbin.Collection) -> Callable[[int], object]:
    """A durable add of one item before a question."""
    rng = np.random.default_rng(time.time_ns())
    return lambda i: collection.add([f"new{rng.integers(1 << 60)}"], _vectors(rng, 1), [{"year": i % YEARS, "tag": "t1"}])


def _spread(ask: Callable[[int], object], count: int, before: Callable[[int], object] | None = None) -> dict[str, float]:
    """Milliseconds of single calls."""
    times = []
    for i in range(count):
        if before is not None:
            before(i)
        started = time.perf_counter()
        ask(i)
        times.append(1e3 * (time.perf_counter() - started))
    return {"p50": float(np.median(times)), "p99": float(np.quantile(times, 0.99))}


def render(result: dict[str, Any]) -> str:
    """One table."""
    lines = [(what, one["p50"], one["p99"]) for what, one in result["ms"].items()]
    return paragraphs(
        f"{result['items']:,} items of {DIM} random features, fields `year` ({YEARS} values) and `tag` (7); ten neighbours, exact.",
        table(("single calls, ms", "p50", "p99"), [*lines, ("counting without an index", *result["without_ms"].values())]),
        f"Building both indexes took {result['built_s']:.1f} s in the background; their file has {result['bytes'] >> 20:,} MiB.",
    )


if __name__ == "__main__":
    run("payload_index", measure, render)
