"""Snapshots of a million rows while rows are added: how queries fare meanwhile, and whether the copy is whole.

One server on all cores. One connection asks single queries, a client adds rows in small batches at a given rate, and snapshots are made
over HTTP, one after the other. The last one is restored afterwards, checked, and asked for exact answers beside the collection it was
made of.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import orjson

import kinbin
from common import K, Options, all_cores, ids_of, run, spread, workspace
from kinbin_client import Client
from load import Answered, Ask, asked_by, http_post
from patches import DIMENSION, histograms, open_matrix, query_histograms
from report import figure, paragraphs, table
from servers import Server, serving, until_ready

NAME = "patches"
PATH = f"/v1/collections/{NAME}"
BATCH = 5_000
RATE = 1_000
"""Rows a second that are added meanwhile."""
TOGETHER = 100
"""Rows of each add."""
COMPARED = 100
"""Queries whose exact answers are compared."""
DEEP = 1_000
"""Neighbours that are looked at, of which those are left out that were added after the snapshot."""
PATIENCE = 1_200.0


def measure(options: Options) -> dict[str, Any]:
    """Build; ask beside adds, and beside adds and snapshots; restore and compare."""
    all_cores()
    rows = options.pick(1_000_000, 5_000)
    seconds = options.pick(60.0, 3.0)
    more = int(4 * seconds * RATE)
    matrix = open_matrix(histograms(rows + more, options.cache))
    queries = query_histograms(options.pick(2_000, 200))
    kinbin.warm_up()
    with workspace(options) as folder:
        with kinbin.open(folder / "data") as database:
            collection = database.create_collection(NAME, dim=DIMENSION, seed=0)
            for first in range(0, rows, BATCH):
                collection.add(ids_of(first, min(first + BATCH, rows)), matrix[first : min(first + BATCH, rows)])
            collection.compact()
            collection.link()
        with serving(folder / "data", folder / "log", access_log="false") as server:
            until_ready(server)
            served = _served(server, _requests(queries), matrix[rows:], rows, seconds)
        return {"rows": rows, "rate": RATE, **served, "restored": _restored(folder / "data", queries[:COMPARED], rows)}


class _Made(NamedTuple):
    """A snapshot: when it was begun and ended, since the beginning, and its bytes."""

    began: float
    ended: float
    size: int


def _requests(queries: Any) -> list[bytes]:
    bodies = [{"indices": row.indices.tolist(), "values": row.data.tolist()} for row in queries]
    return [http_post(f"{PATH}/query", orjson.dumps({"vector": body, "k": K})) for body in bodies]


def _served(server: Server, requests: list[bytes], fresh: Any, rows: int, seconds: float) -> dict[str, Any]:
    """Queries alone, beside adds, and beside adds and snapshots."""
    asked: dict[str, Answered] = {}
    asked_by(1, Ask(server.port, requests, 1, 2.0))
    asked["at rest"] = asked_by(1, Ask(server.port, requests, 1, seconds / 2))
    with _adding(server, fresh, rows) as added:
        time.sleep(2)
        asked["beside adds"] = asked_by(1, Ask(server.port, requests, 1, seconds))
        with _snapshots(server) as made:
            asked["beside adds and snapshots"] = asked_by(1, Ask(server.port, requests, 1, seconds))
    p99 = {name: one.of(200).quantile(0.99) for name, one in asked.items()}
    return {
        "queries": {
            name: {"count": len(one.status), "p50": one.of(200).quantile(0.5), "p99": p99[name], "worst": one.of(200).quantile(1.0),
                   "failed": int((one.status != 200).sum())} for name, one in asked.items()
        },
        "ratio": p99["beside adds and snapshots"] / p99["beside adds"],
        "snapshots": {"made": len(made), "seconds": spread([one.ended - one.began for one in made]), "bytes": made[-1].size},
        "added": {"rows": added[0], "rate": added[0] / added[1]},
    }  # fmt: skip


@contextmanager
def _adding(server: Server, fresh: Any, rows: int) -> Iterator[list[float]]:
    """Add rows at the rate for the block. Gives how many were acknowledged, and the seconds."""
    over = threading.Event()
    told = [0.0, 0.0]

    def add() -> None:
        began = time.perf_counter()
        with Client(f"http://127.0.0.1:{server.port}") as client:
            remote = client.collection(NAME)
            while not over.is_set():
                first = int(told[0])
                if first + TOGETHER > fresh.shape[0]:
                    break
                remote.add(ids_of(rows + first, rows + first + TOGETHER), fresh[first : first + TOGETHER])
                told[0] += TOGETHER
                over.wait(max(0.0, began + told[0] / RATE - time.perf_counter()))
        told[1] = time.perf_counter() - began

    with _in_thread(add, over):
        yield told


@contextmanager
def _snapshots(server: Server) -> Iterator[list[_Made]]:
    """Make snapshots for the block, one after the other; only the last is kept. The last one may end after it."""
    over = threading.Event()
    made: list[_Made] = []
    began = time.perf_counter()

    def make() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE, trust_env=False) as client:
            while not over.is_set():
                before = time.perf_counter() - began
                told = client.post(f"{PATH}/snapshots", json={"keep": 1}).raise_for_status().json()
                made.append(_Made(before, time.perf_counter() - began, told["bytes"]))

    with _in_thread(make, over):
        yield made


@contextmanager
def _in_thread(work: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Let a thread work for the block; its failure is raised."""
    failed: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits
            failed.append(error)

    thread = threading.Thread(target=watched)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]


def _restored(data: Path, queries: Any, rows: int) -> dict[str, Any]:
    """Restore the last snapshot, check it, and compare its exact answers with those of the collection that was written on."""
    with kinbin.open(data) as database:
        source = database.collection(NAME)
        kept = database.snapshots.list(NAME)[-1]
        before = time.perf_counter()
        copy = database.restore(kept, "copy")
        took = time.perf_counter() - before
        held = copy.count()
        # What was added came in the order of its ids, so the copy has the first of them.
        expected = source.query_batch(queries, k=DEEP, mode="exact")
        got = copy.query_batch(queries, k=K, mode="exact")
        same = 0
        for i in range(queries.shape[0]):
            whole = [(one, score) for one, score in zip(expected.ids[i], expected.scores[i], strict=True) if one and int(one) < held]
            same += len(whole) >= K and np.array_equal(np.array([score for _, score in whole[:K]]), got.scores[i][:K])
        ordered = all(one is not None for one in copy.get([str(rows), str(held - 1)])) and copy.get([str(held)]) == [None]
        report = database.check(["copy"])["copy"]
    return {"seconds": took, "items": held, "asked": queries.shape[0], "same": same, "ordered": ordered, "check": report.ok}


def render(result: dict[str, Any]) -> str:
    """A table of queries, one of the rest."""
    lines = [(name, one["count"], one["p50"], one["p99"], one["worst"], one["failed"]) for name, one in result["queries"].items()]
    made, restored = result["snapshots"], result["restored"]
    whole = "clean" if restored["check"] else "not clean"
    kept = "all that had been acknowledged before it, and none behind" if restored["ordered"] else "not those that it should hold"
    added = figure(result["added"]["rate"])
    return paragraphs(
        f"{result['rows']:,} patch histograms, linked; {result['rate']:,} rows a second added, {added} acknowledged.",
        table(("queries, one connection", "count", "p50, ms", "p99, ms", "longest, ms", "failed"), lines),
        f"p99 beside adds and snapshots is {figure(result['ratio'])} times that beside adds.",
        f"{made['made']} snapshots of {figure(made['bytes'] / 2**20)} MiB, {figure(made['seconds']['median'])} s each. The last one was "
        f"restored in {figure(restored['seconds'])} s: {restored['items']:,} items, {kept}; {restored['same']} of {restored['asked']} "
        f"exact answers have the same scores; `check`: {whole}.",
    )


if __name__ == "__main__":
    run("snapshots", measure, render)
