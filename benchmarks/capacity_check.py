"""Real runs of one server and of a small cluster on this machine, against what the simulator says of the same.

Figures are taken one after the other from the same collections: adding, linking, bytes, queries at random moments, moving a shard.
Parts are kept in the folder capacity_check of --cache; CAPACITY_PARTS names some of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from capacity import kept, taken
from common import Options, all_cores, run, workspace
from patches import histograms, open_matrix, query_histograms
from report import RESULTS, figure, paragraphs, table
from running_parts import (
    Parts,
    asked_in_turn,
    asked_openly,
    bodies,
    cluster_of,
    filled,
    moved,
    one_server,
    wait_until_linked,
    wait_until_settled,
)
from simulator.draws import quantile
from simulator.plans import Layout, asked_cluster, asked_server, built_cluster, built_server, rebuilt, weighed
from simulator.serving import Load
from simulator.times import Times

__all__ = ["foretold", "measure", "render"]

ROWS = (100_000, 1_000_000)
SHARDS, NODES = 3, 3
RATES = {"server": (50.0, 150.0, 300.0), "cluster": (50.0, 125.0, 250.0)}
"""Queries a second: hardly any, some, and many of what two cores answer."""
SECONDS = 12.0
ALLOWED = 0.30
QUERIES = 20_000
"""That are simulated for each rate."""
WHAT = {
    "p50": ("p50, ms", 1e3), "p99": ("p99, ms", 1e3), "added": ("added, s", 1.0), "linked": ("linked, s", 1.0),
    "files": ("files, MB", 1e-6), "log": ("log, MB", 1e-6), "own": ("memory of its own, MB", 1e-6),
    "replayed": ("a shard on another node, s", 1.0),
}  # fmt: skip


def measure(options: Options) -> dict[str, Any]:
    """Run what is not kept yet, and foretell all of it."""
    sizes = [options.pick(rows, rows // 100) for rows in ROWS]
    most = options.pick(sizes[-1], sizes[-1])
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    for rows in sizes:
        parts[f"server-{rows}"] = lambda rows=rows: _server(options, rows, most)  # type: ignore[misc]
        parts[f"cluster-{rows}"] = lambda rows=rows: _cluster(options, rows, most)  # type: ignore[misc]
    found = kept(options, "capacity_check", parts)
    times = Times.read((options.results or RESULTS) / "capacity.json")
    cores = os.cpu_count() or 1
    cases = [
        {"who": who, "rows": rows, "measured": found[f"{who}-{rows}"], "foretold": foretold(times, who, rows, cores)}
        for rows in sizes
        for who in ("server", "cluster")
    ]
    return {"cores": cores, "shards": SHARDS, "nodes": NODES, "cases": cases, "taken": taken(found)}


def _server(options: Options, rows: int, most: int) -> dict[str, Any]:
    all_cores()
    with workspace(options) as folder, one_server(folder / "server") as parts:
        return _filled_and_asked(parts, options, rows, most, "server")


def _cluster(options: Options, rows: int, most: int) -> dict[str, Any]:
    all_cores()
    with workspace(options) as folder, cluster_of(folder / "cluster", NODES) as parts:
        found = _filled_and_asked(parts, options, rows, most, "cluster")
        return found | {"replayed": moved(parts, 0)}


def _filled_and_asked(parts: Parts, options: Options, rows: int, most: int, who: str) -> dict[str, Any]:
    matrix, requests = open_matrix(histograms(most, options.cache), rows), bodies(query_histograms(1_000))
    started = time.perf_counter()
    added = filled(parts, matrix, shards=None if who == "server" else SHARDS)
    wait_until_linked(parts, rows)
    kind = "server" if who == "server" else "node"
    found: dict[str, Any] = {"added": added, "linked": time.perf_counter() - started, "files": parts.file_bytes(kind)}
    if who == "cluster":
        found["log"] = parts.file_bytes("log")
    wait_until_settled(parts)
    # Each request twice: the files' pages are mapped then.
    seconds = 3.0
    while len(asked_in_turn(parts.port, requests, seconds).seconds) < 2 * len(requests):
        seconds *= 2.0
    seconds, queries = options.pick(SECONDS, 2.0), []
    for seed, rate in enumerate(RATES[who]):
        answered = asked_openly(parts.port, requests, seconds, rate, seed)
        queries.append(
            {"rate": rate, "asked": len(answered.seconds), "p50": answered.quantile(0.5) / 1e3, "p99": answered.quantile(0.99) / 1e3}
        )
    return {**found, "own": parts.own_bytes()[kind], "queries": queries}


def foretold(times: Times, who: str, rows: int, cores: int) -> dict[str, Any]:
    """What the simulator says of a case."""
    layout = Layout(SHARDS, 1, NODES, cores, together=True)
    queries = []
    for seed, rate in enumerate(RATES[who]):
        load = Load(rate, QUERIES, seed)
        outcome = asked_server(times, rows, cores, load) if who == "server" else asked_cluster(times, rows, layout, load)
        queries.append({"rate": rate, "p50": quantile(outcome.seconds, 0.5), "p99": quantile(outcome.seconds, 0.99)})
    if who == "server":
        built, weight = built_server(times, rows, cores), weighed(times, rows)
        return {"added": built.added, "linked": built.linked, "files": weight.files, "own": weight.own, "queries": queries}
    built, weight = built_cluster(times, rows, layout), weighed(times, rows, SHARDS, 1, NODES, who="node")
    return {
        "added": built.added, "linked": built.linked, "files": weight.files, "log": weight.log, "own": weight.own * NODES,
        "replayed": rebuilt(times, rows / SHARDS, snapshot=False), "queries": queries,
    }  # fmt: skip


def compared(case: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Of a case each figure: its name, measured, foretold."""
    measured, said = case["measured"], case["foretold"]
    lines = []
    for theirs, ours in zip(measured["queries"], said["queries"], strict=True):
        lines += [(f"{WHAT[what][0]}, {theirs['rate']:g} queries/s", 1e3 * theirs[what], 1e3 * ours[what]) for what in ("p50", "p99")]
    lines += [(name, measured[what] * unit, said[what] * unit) for what, (name, unit) in WHAT.items() if what in said]
    return lines


def render(result: dict[str, Any]) -> str:
    """A table for each case, and how many figures lie within what is allowed."""
    parts, within, count = [], 0, 0
    for case in result["cases"]:
        what = "one server" if case["who"] == "server" else f"{result['nodes']} nodes, {result['shards']} shards, a gateway, 3 NATS servers"
        lines = []
        for name, measured, said in compared(case):
            error = said / measured - 1.0
            within, count = within + (abs(error) <= ALLOWED), count + 1
            lines.append((name, measured, said, f"{error:+.0%}" if abs(error) <= ALLOWED else f"**{error:+.0%}**"))
        parts.append(table((f"{case['rows']:,} rows, {what}", "measured", "foretold", "error"), lines))
    taken = " ".join(
        f"{case['who']} of {case['rows']:,}: {figure(case['measured']['took'])} s, others {figure(case['measured']['others'])} cores."
        for case in result["cases"]
    )
    return paragraphs(
        f"{within} of {count} figures lie within {ALLOWED:.0%}. All parts and who asks share {result['cores']} cores.", *parts, taken
    )


def main() -> None:
    """As a program."""
    run("capacity_check", measure, render)


if __name__ == "__main__":
    main()
