"""Service times for the simulator of a cluster's capacity: `capacity.py measure`, then `capacity.py check` and `capacity.py table`.

measure: this. check: real runs against what the simulator says (`capacity_check.py`). table: what 10⁷, 10⁸ and 10⁹ rows need
(`capacity_table.py`), into docs/how-to/sizing.md. Measuring takes a quarter of an hour; finished parts are kept in the folder
capacity of --cache, so a run that ended goes on there. CAPACITY_PARTS names some parts only.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinbin
from common import K, Options, Skipped, all_cores, busy_elsewhere, in_new_process, memory, run, workspace
from databases import compacted_copy_bytes, file_bytes, fill
from patches import DIMENSION, histograms, open_matrix, query_histograms
from report import figure, paragraphs, table
from running_parts import (
    Parts,
    Weighed,
    bodies,
    carried,
    cluster_of,
    dropped,
    filled,
    moved,
    node_bodies,
    one_server,
    rested,
    wait_until_linked,
    wait_until_settled,
    weighed,
)
from simulator.plans import Layout, asked_cluster, asked_server
from simulator.serving import Load
from simulator.times import Times

__all__ = ["kept", "measure", "render", "taken"]

SIZES = (30_000, 100_000, 300_000)
ROWS = 1_000_000
"""Histograms that are made, of which sizes are the first."""
BASE, SMALL, LARGE = 30_000, 6_000, 200_000
"""Rows of what is asked and filled over HTTP, of a shard that is replayed besides, and of one whose log is weighed besides."""
SHARDS, NODES = 4, 2
"""Of the collection that tells what each shard costs a gateway."""
BATCH = 5_000
STEPS = 200
MODES = {"auto": 1_000, "exact": 100}
"""Modes of queries, and how many are timed."""
CONNECTIONS = 8
RESTED = {"server": (50.0, 150.0, 300.0), "cluster": (50.0, 125.0, 250.0)}
"""Queries a second of parts that rest between them."""
LEAST = 1e-6
"""Seconds of processor: what a quick run takes is less than the kernel counts."""
CARRIED = 64 << 20
WAYS = {"measure": "capacity", "check": "capacity_check", "table": "capacity_table"}


def measure(options: Options) -> dict[str, Any]:
    """Collections of several sizes in process; one server; a gateway over one node."""
    sizes = [options.pick(rows, max(500, rows // 100)) for rows in SIZES]
    parts: dict[str, Callable[[], dict[str, Any]]] = {f"size-{rows}": lambda rows=rows: _size(options, rows) for rows in sizes}  # type: ignore[misc]
    parts |= {"server": lambda: _server(options), "cluster": lambda: _cluster(options)}
    found = kept(options, "capacity", parts)
    assembled = _assembled([found[f"size-{rows}"] for rows in sizes], found["server"], found["cluster"])
    return _with_ways(assembled, found["server"], found["cluster"]) | {"taken": taken(found)}


def kept(options: Options, name: str, parts: Mapping[str, Callable[[], dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """What parts of a measurement say, those that were finished before as they were kept.

    Raises:
        Skipped: parts are missing, as CAPACITY_PARTS did not name them.
    """
    folder = options.cache / (f"{name}-quick" if options.quick else name)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = os.environ.get("CAPACITY_PARTS", ",".join(parts)).split(",")
    if unknown := set(chosen) - set(parts):
        raise SystemExit(f"CAPACITY_PARTS names {', '.join(sorted(unknown))}; parts are {', '.join(parts)}")
    for part, work in parts.items():
        file = folder / f"{part}.json"
        if part not in chosen or file.exists():
            continue
        started, busy = time.perf_counter(), busy_elsewhere()
        said = work()
        seconds = time.perf_counter() - started
        said |= {"took": seconds, "others": (busy_elsewhere() - busy) / seconds}
        file.write_text(json.dumps(said), encoding="utf-8")
        print(f"{part}: {seconds:.0f} s, in which other programs used {said['others']:.2f} cores", file=sys.stderr)
    if missing := [part for part in parts if not (folder / f"{part}.json").exists()]:
        raise Skipped(f"not measured yet: {', '.join(missing)}")
    return {part: json.loads((folder / f"{part}.json").read_text(encoding="utf-8")) for part in parts}


def taken(parts: Mapping[str, Mapping[str, Any]]) -> tuple[float, float]:
    """Seconds that kept parts took together, and the cores that other programs used meanwhile."""
    seconds = sum(part["took"] for part in parts.values())
    return seconds, sum(part["took"] * part["others"] for part in parts.values()) / seconds


def quantiles(values: NDArray[Any]) -> list[float]:
    """Of 0, 0.5, … 100 %. The last is that of 99.9 %: one longest time of a thousand says nothing."""
    shares = np.linspace(0.0, 1.0, STEPS + 1)
    shares[-1] = 0.999
    return [float(value) for value in np.quantile(values, shares)]


def _histograms(options: Options) -> Path:
    return histograms(options.pick(ROWS, ROWS // 100), options.cache)


# -------------------------------------------------------------------------------------- in process


def _size(options: Options, rows: int) -> dict[str, Any]:
    cache, queries = _histograms(options), query_histograms(1_000)
    kinbin.warm_up()
    with workspace(options) as folder:
        found = in_new_process(_built, folder, cache, rows)
        found |= in_new_process(_asked, folder, queries.toarray())
        copied = in_new_process(_copied, folder)
        copy = folder / "copy"
        return {**found, **copied, "rows": rows, "file": file_bytes(folder, "rows"), "live": compacted_copy_bytes(folder, "rows", copy)}


def _built(folder: Path, cache: Path, rows: int) -> dict[str, Any]:
    """Fill, merge and link; seconds, and by how much memory of its own grew."""
    kinbin.warm_up()
    matrix = open_matrix(cache, rows)
    own = memory()["own"]
    with kinbin.open(folder) as database:
        collection = database.create_collection("rows", dim=DIMENSION, seed=0)
        seconds = fill(collection, matrix, BATCH)
        collection.query(matrix[0].toarray()[0])
        stats = collection.stats()
        return {
            "filled": seconds["compacted"],
            "linking": seconds["linked"] - seconds["compacted"],
            "own": max(1 << 20, memory()["own"] - own),
            "nonzeros": matrix.nnz / rows,
            "code": stats["links"]["code_bytes"] if stats["links"] else None,
        }


def _asked(folder: Path, queries: NDArray[Any]) -> dict[str, Any]:
    """Seconds of single queries in a process that did not build it; pages of files that it read for those by `auto`."""
    kinbin.warm_up()
    engine = {}
    with kinbin.open(folder) as database:
        collection = database.collection("rows")
        held: dict[str, int] = {}
        for mode, count in MODES.items():
            times = np.empty(count)
            for i in range(-count, count):  # the first round is overwritten by the second: a warm-up, which maps the files' pages
                vector = queries[i]
                started = time.perf_counter()
                collection.query(vector, k=K, mode=mode)
                times[i] = time.perf_counter() - started
            engine[mode] = quantiles(times)
            if mode == "auto":
                held = memory()
    return {"engine": engine, "touched": held["files"], "own_asking": held["own"]}


def _copied(folder: Path) -> dict[str, Any]:
    """Seconds of a snapshot and of making a collection of it; its bytes."""
    with kinbin.open(folder) as database:
        file = folder / "rows.snapshot"
        started = time.perf_counter()
        database.collection("rows").snapshot(file)
        made = time.perf_counter()
        database.restore(file, "again")
        return {"snapshot": made - started, "restore": time.perf_counter() - made, "snapshot_bytes": file.stat().st_size}


# ---------------------------------------------------------------------------------------- over HTTP


def _server(options: Options) -> dict[str, Any]:
    """One server, asked in turn by one connection and by several; adds; when all is linked."""
    all_cores()
    rows = open_matrix(_histograms(options), options.pick(BASE, 1_000))
    requests, seconds = bodies(query_histograms(1_000)), options.pick(6.0, 1.0)
    with workspace(options) as folder, one_server(folder / "server") as parts:
        own = parts.own_bytes()["server"]
        adds = _adds(parts, rows, options)
        dropped(parts, _names(options))
        wait_until_settled(parts)
        started = time.perf_counter()
        filled(parts, rows)
        wait_until_linked(parts, rows.shape[0])
        linked = time.perf_counter() - started
        alone, together = weighed(parts, requests, seconds), weighed(parts, requests, seconds, CONNECTIONS)
        slow = [_told(rested(parts, requests, seconds, rate)) for rate in RESTED["server"]]
    return {"own": own, "adds": adds, "linked": linked, "alone": _told(alone), "together": _told(together), "rested": slow}


def _cluster(options: Options) -> dict[str, Any]:
    """A gateway over one node: a collection of one shard and one of several; the node alone; adds; moving to another node."""
    all_cores()
    rows = open_matrix(_histograms(options), options.pick(BASE, 1_000))
    queries, seconds = query_histograms(1_000), options.pick(6.0, 1.0)
    with workspace(options) as folder, cluster_of(folder / "cluster", NODES) as parts:
        assert parts.cluster is not None
        own = {kind: value / len(parts.pids[kind]) for kind, value in parts.own_bytes().items()}
        adds = _adds(parts, rows, options, shards=1)
        dropped(parts, _names(options))
        wait_until_settled(parts)
        started = time.perf_counter()
        filled(parts, rows, shards=1)
        wait_until_linked(parts, rows.shape[0])
        linked = time.perf_counter() - started
        small, logs = options.pick(SMALL, 300), []
        for name, some in (("small", rows[:small]), ("large", open_matrix(_histograms(options), options.pick(LARGE, 2_000)))):
            before = parts.file_bytes("log")
            filled(parts, some, name=name, shards=1)
            logs.append((some.shape[0], parts.file_bytes("log") - before))
        dropped(parts, ["large"])
        filled(parts, rows, name="many", shards=SHARDS)
        wait_until_settled(parts)
        requests, port, own_requests = node_bodies(parts, queries)
        found = {
            "node": _told(weighed(parts, own_requests, seconds, port=port)),
            "alone": _told(weighed(parts, requests, seconds)),
            "together": _told(weighed(parts, requests, seconds, CONNECTIONS)),
            "many": _told(weighed(parts, bodies(queries, "many"), seconds)),
            "rested": [_told(rested(parts, bodies(queries, "many"), seconds, rate)) for rate in RESTED["cluster"]],
        }
        moves = {name: moved(parts, 0, name=name) for name in ("small", "histograms")}
        carry = carried(parts, folder, options.pick(CARRIED, 1 << 20))
    return {
        "own": own, "adds": adds, "linked": linked, "logged": logs, "carried": carry,
        "moves": [[small, moves["small"]], [rows.shape[0], moves["histograms"]]], **found,
    }  # fmt: skip


def _names(options: Options) -> list[str]:
    return [f"added-{turn}" for turn in range(options.rounds(3))]


def _adds(parts: Parts, rows: Any, options: Options, *, shards: int | None = None) -> dict[str, Any]:
    """Seconds a row until acknowledged, and processor seconds a row by kind of part; the client's as `client`."""
    before, own, names = parts.processor(), time.process_time(), _names(options)
    seconds = [filled(parts, rows, name=name, shards=shards) for name in names]
    count = rows.shape[0] * len(seconds)
    used = {kind: (value - before[kind]) / count for kind, value in parts.processor().items()}
    return {"seconds": statistics.median(seconds) / rows.shape[0], "processor": used | {"client": (time.process_time() - own) / count}}


def _told(weighed: Weighed) -> dict[str, Any]:
    times = {"mean": float(weighed.seconds.mean()), "quantiles": quantiles(weighed.seconds)}
    return {**times, "processor": dict(weighed.processor), "client": weighed.client, "rate": weighed.rate}


# ---------------------------------------------------------------------------------------- assembled


def _assembled(sizes: list[dict[str, Any]], server: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    """The figures of `simulator.times`: each part's processor besides the engine, the rest of a query's time as its way."""
    rows = next(size["rows"] for size in sizes if size["rows"] >= min(BASE, sizes[-1]["rows"]))
    engine = float(np.mean(next(size for size in sizes if size["rows"] == rows)["engine"]["auto"]))
    alone, many, node = cluster["alone"], cluster["many"], cluster["node"]
    at_server = max(LEAST, server["alone"]["processor"]["server"] - engine)
    at_node, at_gateway = max(LEAST, node["processor"]["node"] - engine), max(LEAST, alone["processor"]["gateway"])
    each = min(at_gateway, max(0.0, many["processor"]["gateway"] - at_gateway) / (SHARDS - 1))
    hop = max(0.0, node["mean"] - node["client"] - node["processor"]["node"])
    wire = max(0.0, alone["mean"] - alone["client"] - at_gateway - alone["processor"]["node"] - hop)
    # What a query through a gateway differs by, without what the node's part of it differs by.
    left = np.maximum.accumulate(np.subtract(alone["quantiles"], node["quantiles"]))
    return {
        "k": K, "dim": DIMENSION, "nonzeros": sizes[-1]["nonzeros"], "base": rows, "sizes": sizes,
        "server": {
            "seconds": at_server, "spread": _spread(server["alone"]["quantiles"], at_server), "client": server["alone"]["client"],
            "wire": max(0.0, server["alone"]["mean"] - server["alone"]["client"] - at_server - engine),
            "crowded": (server["together"]["processor"]["server"] - engine) / at_server, "own": server["own"],
            "adds": server["adds"], "linked": server["linked"], "alone": server["alone"], "together": server["together"],
            "cold": _cold(server["rested"], server["alone"], "server"), "client_cold": _cold(server["rested"], server["alone"], ""),
            "rested": server["rested"],
        },
        "node": {
            "seconds": at_node, "spread": _spread(node["quantiles"], at_node), "wire": hop, "own": cluster["own"]["node"],
            "crowded": (cluster["together"]["processor"]["node"] - engine) / at_node, "client": node["client"], "alone": node,
            "cold": _cold(cluster["rested"], many, "node"), "client_cold": _cold(cluster["rested"], many, ""),
        },
        "gateway": {
            "seconds": at_gateway - each, "each_shard": each, "spread": _spread(left, at_gateway), "client": alone["client"], "wire": wire,
            "crowded": cluster["together"]["processor"]["gateway"] / at_gateway, "own": cluster["own"]["gateway"],
            "adds": cluster["adds"], "linked": cluster["linked"], "alone": alone, "together": cluster["together"], "many": many,
            "cold": _cold(cluster["rested"], many, "gateway"), "client_cold": _cold(cluster["rested"], many, ""),
            "rested": cluster["rested"],
        },
        "log": {
            "sizes": cluster["logged"], "own": cluster["own"]["log"], "moves": cluster["moves"], "carried": cluster["carried"],
        },
        "parts": {name: {"took": part["took"], "others": part["others"]} for name, part in {"server": server, "cluster": cluster}.items()},
    }  # fmt: skip


def _with_ways(assembled: dict[str, Any], server: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Add to the ways of a query what it took of parts that rest beyond what the simulator says: cores that are woken, for each step."""
    times, cores = Times(assembled), os.cpu_count() or 1
    for who, part in (("server", server), ("gateway", cluster)):
        slow = part["rested"][0]
        load = Load(slow["rate"], 5_000)
        layout = Layout(SHARDS, 1, NODES, cores, together=True)
        said = (
            asked_server(times, assembled["base"], cores, load)
            if who == "server"
            else asked_cluster(times, assembled["base"], layout, load)
        )
        assembled[who]["wire"] += max(0.0, slow["mean"] - statistics.fmean(said.seconds))
    return assembled


def _cold(rests: Sequence[Mapping[str, Any]], works: Mapping[str, Any], kind: str) -> list[tuple[float, float]]:
    """`simulator.events.Cold` of a kind of part, or of who asks (""): processor of a query where parts rest, by that where they work."""

    def of(told: Mapping[str, Any]) -> float:
        return max(LEAST, float(told["processor"][kind] if kind else told["client"]))

    def share(told: Mapping[str, Any]) -> float:
        return float((sum(told["processor"].values()) + told["client"]) * told["rate"] / (os.cpu_count() or 1))

    points = sorted((share(one), max(1.0, of(one) / of(works))) for one in rests)
    # One connection keeps one part at work at a time: where more work comes at random moments, parts rest less than that, or as much.
    return [*points, *([(share(works), 1.0)] if share(works) > points[-1][0] else [])]


def _spread(times: Any, handling: float) -> list[float]:
    """Quantiles of what handling takes, by its mean, so that a query takes what it took: its differences are the handling's."""
    found = np.asarray(times, float)
    found = np.maximum((found - found.mean()) / handling + 1.0, 0.2)
    return [float(value) for value in found / found.mean()]


# ------------------------------------------------------------------------------------------ tables


def render(result: dict[str, Any]) -> str:
    """By rows: engine, building, bytes. By part: processor of a query, and of an added row."""
    log = result["log"]
    logged = ", ".join(f"{figure(size / rows)} bytes a row of {rows:,}" for rows, size in log["sizes"])
    moves = ", ".join(f"{rows:,} rows in {figure(seconds)} s" for rows, seconds in log["moves"])
    return paragraphs(
        f"Histograms of {result['dim']} numbers, {figure(result['nonzeros'])} not zero; k = {result['k']}. One core, in process.",
        _engine_table(result["sizes"]),
        _bytes_table(result["sizes"]),
        f"Over HTTP, of {result['base']:,} rows. Crowded: times so much where it had to wait for another query. "
        "Rested: times so much, engine and all, at so many queries/s at random moments, which leave caches cold and cores asleep.",
        _parts_table(result),
        _adds_table(result),
        f"The log takes {logged} on all three servers together. "
        f"A node replays {moves}. "
        f"The snapshot store takes {figure(log['carried']['in'] / 1e6)} MB/s and gives {figure(log['carried']['out'] / 1e6)} MB/s.",
        "Other programs used, in cores: "
        + ", ".join(
            f"{figure(one['others'])} ({name})"
            for name, one in [*((f"{size['rows']:,}", size) for size in result["sizes"]), *result["parts"].items()]
        )
        + ".",
    )


def _engine_table(sizes: list[dict[str, Any]]) -> str:
    head = (
        "rows",
        *(f"{mode}, {share}, µs" for mode in MODES for share in ("p50", "p99")),
        "filled, s",
        "linked, s",
        "snapshot, s",
        "restored, s",
    )
    lines = []
    for size in sizes:
        engine = [1e6 * size["engine"][mode][place] for mode in MODES for place in (STEPS // 2, STEPS - STEPS // 100)]
        lines.append((f"{size['rows']:,}", *engine, *(size[what] for what in ("filled", "linking", "snapshot", "restore"))))
    return table(head, lines)


def _bytes_table(sizes: list[dict[str, Any]]) -> str:
    whats = {
        "live": "without free pages",
        "file": "file",
        "snapshot_bytes": "snapshot",
        "touched": "read by 1,000 queries",
        "own": "memory of its own",
    }
    return table(
        ("bytes a row", *whats.values()), ((f"{size['rows']:,} rows", *(size[what] / size["rows"] for what in whats)) for size in sizes)
    )


def _parts_table(result: dict[str, Any]) -> str:
    head = (
        "processor of a query",
        "µs besides the engine",
        "for each shard",
        "crowded",
        "rested (at queries/s)",
        "on the way, µs",
        "memory of its own, MiB",
    )
    lines = []
    for name in ("server", "gateway", "node"):
        one = result[name]
        each = 1e6 * one["each_shard"] if "each_shard" in one else None
        rates = RESTED["server" if name == "server" else "cluster"]
        cold = ", ".join(f"{figure(times)} ({rate:g})" for rate, (_, times) in zip(rates, one["cold"], strict=False))
        lines.append((name, 1e6 * one["seconds"], each, one["crowded"], cold, 1e6 * one["wire"], one["own"] / (1 << 20)))
    return table(head, lines)


def _adds_table(result: dict[str, Any]) -> str:
    kinds = ("client", "server", "gateway", "node", "log")
    lines = []
    for name, who in (("one server", "server"), ("a cluster, one copy", "gateway")):
        adds = result[who]["adds"]
        lines.append(
            (name, 1e6 * adds["seconds"], *(1e6 * adds["processor"][kind] if kind in adds["processor"] else None for kind in kinds))
        )
    return table(("an added row, µs", "until acknowledged", *(f"processor of the {kind}" for kind in kinds)), lines)


def main() -> None:
    """Do what the first argument says; without one, measure."""
    way = next((argument for argument in sys.argv[1:] if argument in WAYS), "measure")
    sys.argv = [sys.argv[0], *(argument for argument in sys.argv[1:] if argument not in WAYS)]
    if way == "measure":
        run("capacity", measure, render)
    else:
        importlib.import_module(WAYS[way]).main()


if __name__ == "__main__":
    main()
