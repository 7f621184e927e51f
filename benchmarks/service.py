"""The service over loopback: single queries, batches, adds, workers, queries beside adds, overload, and large bodies.

Unlike other scripts this one uses all cores: the server has what the load leaves it.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K, Options, all_cores, data_set, ids_of, latencies, run, spread, workspace
from databases import fill
from kinbin_client import Client
from load import Answered, Ask, asked_by, http_post
from report import figure, paragraphs, table
from servers import Server, serving, until_ready

NAME = "histograms"
PATH = f"/v1/collections/{NAME}"
BATCH = 1_000
LARGE_BODY = 32 << 20
CLIENTS = 16
OVERLOAD = 10
"""Times what the server can do."""
TOGETHER = 31
"""Queries of a request of the overload: with vectors, 64 KiB."""
NPY = "application/x-npy"
QUIET = {"access_log": "false"}
SETTLED = 2.0
"""Seconds after an overload, before everything has to be as it was."""


def measure(options: Options) -> dict[str, Any]:
    """One database for all parts; adds go to collections of their own."""
    all_cores()
    data = data_set("cifar10_rgbhist512")
    rows = _shapes(data["X_train"][: options.pick(50_000, 3_000)])
    queries = _shapes(data["X_test"][: options.pick(2_000, 300)])
    kinbin.warm_up()
    with workspace(options) as folder:
        with kinbin.open(folder / "data") as database:
            fill(database.create_collection(NAME, dim=rows.shape[1], seed=0), rows)
        parts = {
            "alone": _alone, "batches": _batches, "adds": _adds, "beside": _beside, "bodies": _bodies, "workers": _workers,
            "overload": _overload,
        }  # fmt: skip
        chosen = os.environ.get("SERVICE_PARTS", ",".join(parts)).split(",")
        found = {name: parts[name](folder, rows, queries, options) for name in chosen}
    return {"rows": len(rows), "dim": rows.shape[1], **found}


def _shapes(counts: NDArray[Any]) -> NDArray[np.float32]:
    """Histograms divided by their sums: numbers of many digits, as features mostly are."""
    values = counts.astype(np.float32)
    return np.ascontiguousarray(values / values.sum(1, keepdims=True))


@contextmanager
def _served(folder: Path, **settings: object) -> Iterator[Server]:
    with serving(folder / "data", folder / "log", **{**QUIET, **settings}) as server:
        until_ready(server)
        server.client.post(f"{PATH}/query", json={"id": "0", "k": 1}).raise_for_status()
        # Kernels that are on disk are loaded behind it.
        time.sleep(3)
        yield server


def _bodies_of(queries: NDArray[Any]) -> list[bytes]:
    return [json.dumps({"vector": [float(str(value)) for value in query], "k": K}).encode() for query in queries]


def _npy(rows: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, rows)
    return stream.getvalue()


# ------------------------------------------------------------------------------- one after the other


def _alone(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Single queries in process, by a bare HTTP client, and by the Python client."""
    del rows
    bodies, count = _bodies_of(queries), options.pick(1_000, 400)
    with kinbin.open(folder / "data") as database, _served(folder) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        collection, remote = database.collection(NAME), client.collection(NAME)
        wire = http.client.HTTPConnection("127.0.0.1", server.port)

        def bare(i: int) -> bytes:
            wire.request("POST", f"{PATH}/query", bodies[i % len(bodies)], {"content-type": "application/json"})
            return wire.getresponse().read()

        asked: dict[str, Callable[[int], Any]] = {
            "in process": lambda i: collection.query(queries[i % len(queries)], k=K),
            "bare HTTP client (`http.client`)": bare,
            "Python client": lambda i: remote.query(queries[i % len(queries)], k=K),
        }
        first = json.loads(bare(0))["results"]
        if [hit["id"] for hit in first] != collection.query(queries[0], k=K).ids:
            raise RuntimeError("the service answers otherwise than the library")
        times = latencies(asked, count, loop=20)
        wire.close()
    return {"bytes": len(bodies[0]), "us": times}


def _batches(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Batches of 1,000 queries, as .npy through the client, against the library in this process."""
    del rows
    many = queries[:BATCH]
    rounds: list[tuple[float, float]] = []
    with kinbin.open(folder / "data") as database, _served(folder) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        collection, remote = database.collection(NAME), client.collection(NAME)
        for _ in range(options.rounds(9, 2) + 1):
            started = time.perf_counter()
            collection.query_batch(many, k=K)
            between = time.perf_counter()
            remote.query_batch(many, k=K)
            rounds.append((between - started, time.perf_counter() - between))
    rounds = rounds[1:]
    return {
        "library": len(many) / statistics.median(one for one, _ in rounds),
        "client": len(many) / statistics.median(other for _, other in rounds),
        "share": statistics.median(one / other for one, other in rounds),
    }


def _adds(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Durable adds of all rows through the client, in its own batches."""
    del queries
    rates = []
    with _served(folder) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        for turn in range(options.rounds(3)):
            remote = client.create_collection(f"added-{turn}", dim=rows.shape[1])
            started = time.perf_counter()
            remote.add(ids_of(0, len(rows)), rows)
            rates.append(len(rows) / (time.perf_counter() - started))
            if remote.count() != len(rows):
                raise RuntimeError("items are missing")
            client.drop_collection(f"added-{turn}")
    return {"rate": spread(rates)}


# -------------------------------------------------------------------------------------- at the same time


def _asked(server: Server, requests: Sequence[bytes], clients: int, seconds: float, rate: float | None = None) -> Answered:
    """What so many connections of two processes are answered."""
    return asked_by(2, Ask(server.port, requests, max(1, clients // 2), seconds, None if rate is None else rate / 2))


def _beside(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Single queries of one connection at rest, and while the client adds to the same collection as fast as it goes."""
    requests = [http_post(f"{PATH}/query", body) for body in _bodies_of(queries)]
    seconds = options.pick(15.0, 2.0)
    rounds: list[dict[str, float]] = []
    with _served(folder) as server, Client(f"http://127.0.0.1:{server.port}") as client:
        remote = client.collection(NAME)
        # What a server does when it has just begun, or when much was added, is no rest.
        asked_by(1, Ask(server.port, requests, 1, seconds))
        rest = asked_by(1, Ask(server.port, requests, 1, seconds)).of(200)
        for turn in range(options.rounds(3)):
            over = threading.Event()
            added = [0]

            def add(turn: int = turn, over: threading.Event = over, added: list[int] = added) -> None:
                fresh = rows + np.float32(1e-4) * (turn + 1)
                while not over.is_set():
                    first = added[0] % (len(rows) - BATCH)
                    remote.add([f"w{i}" for i in range(first, first + BATCH)], fresh[first : first + BATCH])
                    added[0] += BATCH

            writer = threading.Thread(target=add)
            writer.start()
            busy = asked_by(1, Ask(server.port, requests, 1, seconds)).of(200)
            over.set()
            writer.join()
            rounds.append({
                "rest_p50": rest.quantile(0.5), "rest_p99": rest.quantile(0.99), "p50": busy.quantile(0.5), "p99": busy.quantile(0.99),
                "written": added[0] / seconds,
            })  # fmt: skip
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def _bodies(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """`/livez` while bodies of 32 MiB of JSON arrive, one after the other."""
    del queries
    line = json.dumps({"id": "big", "vector": np.linspace(0.1, 0.9, rows.shape[1]).tolist()}).encode()
    many = min((LARGE_BODY - 64) // (len(line) + 8), int(kinbin.LIMITS["batch_items"].value))
    body = b'{"items":[' + b",".join(line.replace(b'"big"', b'"big%d"' % i) for i in range(many)) + b"]}"
    with _served(folder) as server:
        server.client.put("/v1/collections/bodies", json={"dim": rows.shape[1]}).raise_for_status()
        over = threading.Event()
        sent = [0]

        def send() -> None:
            wire = http.client.HTTPConnection("127.0.0.1", server.port)
            while not over.is_set():
                wire.request("POST", "/v1/collections/bodies/index", body, {"content-type": "application/json"})
                answer = wire.getresponse()
                if answer.status != 200:
                    raise RuntimeError(answer.read()[:500])
                answer.read()
                sent[0] += 1

        sender = threading.Thread(target=send)
        sender.start()
        live = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        found = asked_by(1, Ask(server.port, [live], 1, options.pick(15.0, 2.0), 100.0))
        over.set()
        sender.join()
        server.client.delete("/v1/collections/bodies").raise_for_status()
    return {"bytes": len(body), "sent": sent[0], **{f"p{int(q * 100)}": found.quantile(q) for q in (0.5, 0.99, 1.0)}}


def _workers(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Rates of 16 connections with one worker and with four, one after the other."""
    del rows
    requests = [http_post(f"{PATH}/query", body) for body in _bodies_of(queries)]
    seconds = options.pick(10.0, 2.0)
    rates: dict[int, list[float]] = {1: [], 4: []}
    for _ in range(options.rounds(3)):
        for workers, of in rates.items():
            with _served(folder, workers=workers) as server:
                _asked(server, requests, CLIENTS, 2.0)
                of.append(_asked(server, requests, CLIENTS, seconds).of(200).rate(seconds))
    return {"rates": {str(workers): spread(of) for workers, of in rates.items()},
            "ratio": statistics.median(four / one for one, four in zip(rates[1], rates[4], strict=True))}  # fmt: skip


def _overload(folder: Path, rows: NDArray[Any], queries: NDArray[Any], options: Options) -> dict[str, Any]:
    """Exact scans at ten times the rate that the server can answer, by vectors and by ids, which cost the load's processes less.

    Each request has many queries: the load is made on the same cores, and has to cost less than what it asks for.
    """
    del rows
    by_id = [{"queries": [{"id": str((i * TOGETHER + j) % 2_000)} for j in range(TOGETHER)], "k": K, "mode": "exact"} for i in range(200)]
    return {
        "vectors": _overloaded(
            folder, [http_post(f"{PATH}/query?k={K}&mode=exact", _npy(queries[i : i + TOGETHER]), NPY) for i in range(200)], options
        ),
        "ids": _overloaded(folder, [http_post(f"{PATH}/query", json.dumps(body).encode()) for body in by_id], options),
    }


def _overloaded(folder: Path, requests: list[bytes], options: Options) -> dict[str, Any]:
    """Health under an overload, and what is left two seconds later."""
    seconds = options.pick(60.0, 4.0)
    health: list[int] = []
    with _served(folder) as server:
        before = _asked(server, requests, CLIENTS, options.pick(10.0, 2.0)).of(200)
        capacity = before.rate(options.pick(10.0, 2.0))
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.25):
                health.append(server.client.get("/livez").status_code)

        looking = threading.Thread(target=look)
        looking.start()
        offered = _asked(server, requests, 30 * CLIENTS, seconds, OVERLOAD * capacity)
        over.set()
        looking.join()
        time.sleep(SETTLED)
        after = _asked(server, requests, CLIENTS, options.pick(10.0, 2.0)).of(200)
    refused = offered.of(429, 503)
    return {
        "capacity": capacity, "offered": len(offered.status) / seconds, "accepted": offered.of(200).rate(seconds),
        "statuses": {str(status): int(count) for status, count in zip(*np.unique(offered.status, return_counts=True), strict=True)},
        "refused_p50": refused.quantile(0.5), "refused_p99": refused.quantile(0.99), "healthy": sum(one == 200 for one in health),
        "looks": len(health), "before_p99": before.quantile(0.99), "after_p99": after.quantile(0.99),
        "after": after.rate(options.pick(10.0, 2.0)),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """One table for what is asked alone, one for what happens at the same time."""
    lines: list[tuple[object, ...]] = []
    if "alone" in result:
        lines += [
            (f"single query, {name}, p50; p99, ms", one["p50"] / 1e3, one["p99"] / 1e3) for name, one in result["alone"]["us"].items()
        ]
    if "batches" in result:
        of = result["batches"]
        lines.append((f"queries/s in batches of {BATCH:,}: library; client, as .npy", of["library"], of["client"]))
    if "adds" in result:
        lines.append(
            ("durable adds through the client, rows/s: median; least", result["adds"]["rate"]["median"], result["adds"]["rate"]["least"])
        )
    if "workers" in result:
        rates = result["workers"]["rates"]
        lines.append((f"queries/s of {CLIENTS} connections: one worker; four", rates["1"]["median"], rates["4"]["median"]))
    if "beside" in result:
        of = result["beside"]
        lines.append((f"query p50 at rest; beside {figure(of['written'])} rows/s of adds, ms", of["rest_p50"], of["p50"]))
        lines.append(("query p99, the same", of["rest_p99"], of["p99"]))
    if "bodies" in result:
        of = result["bodies"]
        lines.append((f"`/livez` while bodies of {of['bytes'] >> 20} MiB arrive: p99; longest, ms", of["p99"], of["p100"]))
    parts = [f"{result['rows']:,} rows of {result['dim']} numbers, all cores for server and load.", table(("what", "", ""), lines)]
    if "overload" in result:
        told = {
            f"requests/s of {TOGETHER} exact queries each, before": "capacity", "offered a second": "offered",
            "answered a second meanwhile": "accepted", "refusals, p50, ms": "refused_p50", "refusals, p99, ms": "refused_p99",
            "looks at `/livez`": "looks", "of these green": "healthy", "p99 before, ms": "before_p99",
            f"p99 {SETTLED:g} s after, ms": "after_p99", "requests/s after": "after",
        }  # fmt: skip
        sides = result["overload"]
        overload = [(name, *(of[key] for of in sides.values())) for name, key in told.items()]
        parts.append(table((f"overload, {OVERLOAD} times", *(f"by {name}" for name in sides)), overload))
    return paragraphs(*parts)


if __name__ == "__main__":
    run("service", measure, render)
