"""What 10⁷, 10⁸ and 10⁹ rows need, from the measured service times: into docs/how-to/sizing.md and results/capacity_table.json.

Machines, prices and loads are assumptions: the tables below, or a file of the reader's own (`--assume FILE`, JSON with the same names;
its tables are printed, and nothing is written).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report import RESULTS, ROOT, paragraphs, table
from simulator.draws import quantile
from simulator.plans import HOT, Layout, asked_cluster, asked_server, machines_for, rebuilt, weighed
from simulator.serving import Load
from simulator.times import Times

__all__ = ["ASSUMED", "DOCUMENT", "main", "needed", "planned", "render", "written"]

DOCUMENT = ROOT / "docs" / "how-to" / "sizing.md"
ASSUMED: dict[str, Any] = {
    "machines": {"small": {"cores": 4, "gib": 32, "gb": 500}, "large": {"cores": 16, "gib": 256, "gb": 4_000}},
    "prices": {"core": 15.0, "gib": 2.0, "gb": 0.1, "log server": 100.0},
    "loads": [10.0, 100.0, 500.0],
    "cases": [
        {"rows": 10_000_000, "shards": 4, "machine": "small"},
        {"rows": 100_000_000, "shards": 16, "machine": "large"},
        {"rows": 1_000_000_000, "shards": 100, "machine": "large"},
    ],
    "replicas": 2,
    "adds": 500.0,
    "busy": 0.6,
    "full": 0.8,
    "network": 1e9,
}
"""Machines: cores as those measured, memory in GiB, disk in GB. Prices: a month, of any currency. Loads: queries a second. adds: rows a
second, beside the queries. busy: the most that queries take of cores and processes; full: of memory and disk. network: bytes/s."""
REPLACED_AFTER = 300.0
FILES = 2.0
"""Times their bytes without free pages that files take while they are written."""
GIB, GB = float(1 << 30), 1e9
MOST_QUERIES, LEAST_QUERIES = 10_000, 1_000


def needed(times: Times, assumed: Mapping[str, Any], case: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """How many machines a case needs under a load, what decides it, and what each of them holds and does besides queries."""
    machine, copies, shard = assumed["machines"][case["machine"]], assumed["replicas"], case["rows"] / case["shards"]
    needs = _needs(times, assumed, case, rate)
    decided = max(needs, key=lambda what: needs[what][0] / needs[what][1])
    # Where they are full, one more holds what a lost one held.
    count = machines_for(list(needs.values())) + (decided in ("memory", "disk"))
    nodes = min(_each(machine), math.ceil(case["shards"] * copies / count))
    added, held = assumed["adds"] * copies / (count * nodes), case["rows"] * copies / (count * nodes)
    return {
        "machines": count, "each": nodes, "decided": decided,
        "memory": needs["memory"][0] / count + nodes * (times.figure("node", "own") + times.of_rows("own", held)),
        "disk": needs["disk"][0] / count, "applying": added * times.figure("gateway", "adds", "processor", "node"),
        "behind": added * times.linking(shard) / shard, "log": 2 * times.of_rows("snapshot_bytes", shard) * case["shards"],
        "whole": _whole(times, assumed, case, count), "cost": count * _price(assumed, machine) + 3 * assumed["prices"]["log server"],
    }  # fmt: skip


def _needs(times: Times, assumed: Mapping[str, Any], case: Mapping[str, Any], rate: float) -> dict[str, tuple[float, float]]:
    """By name what all machines together need, and what one of them has."""
    machine, copies, rows, shards = assumed["machines"][case["machine"]], assumed["replicas"], case["rows"], case["shards"]
    each = _each(machine)
    weight = weighed(times, rows, shards, copies, shards * copies, who="node")
    of_node = weight.own + weight.linking + times.figure("gateway", "own")
    node, gateway = rate * shards * _mean(times.node()), rate * _mean(times.gateway(), shards)
    return {
        "memory": (weight.hot * shards * copies, machine["gib"] * GIB * assumed["full"] - each * of_node),
        "disk": (weight.hot / HOT * shards * copies * FILES, machine["gb"] * GB * assumed["full"]),
        "cores": (node + gateway + rate * shards * _engine(times, rows / shards), machine["cores"] * assumed["busy"]),
        "nodes": (node, each * assumed["busy"]),
        "gateways": (gateway, each * assumed["busy"]),
        "copies": (float(copies), 1.0),
    }


def _each(machine: Mapping[str, Any]) -> int:
    """Nodes of a machine, and gateways: each does one thing at a time, beside the engine's threads."""
    return max(1, int(machine["cores"]) // 2)


def _mean(handling: Any, shards: int = 1) -> float:
    return float((handling.seconds + handling.each_shard * shards) * max(1.0, handling.crowded))


def _engine(times: Times, rows: float) -> float:
    """Seconds of a search, in the mean."""
    rng = random.Random(0)
    draw = times.engine(rows)
    return sum(draw(rng) for _ in range(1_000)) / 1_000


def _price(assumed: Mapping[str, Any], machine: Mapping[str, Any]) -> float:
    prices = assumed["prices"]
    return float(sum(machine[what] * prices[price] for what, price in (("cores", "core"), ("gib", "gib"), ("gb", "gb"))))


def _whole(times: Times, assumed: Mapping[str, Any], case: Mapping[str, Any], machines: int) -> float:
    """Seconds until all shards of a lost machine are on others: one after the other on each, and out of the store one after the other."""
    shard, lost = case["rows"] / case["shards"], math.ceil(case["shards"] * assumed["replicas"] / machines)
    carried = times.of_rows("snapshot_bytes", shard) / min(times.figure("log", "carried", "out"), assumed["network"])
    alone = rebuilt(times, shard, snapshot=True, bandwidth=assumed["network"])
    at_one = math.ceil(lost / max(1, machines - 1))
    return REPLACED_AFTER + float(max(lost * carried + alone - carried, at_one * alone))


def planned(times: Times, assumed: Mapping[str, Any]) -> dict[str, Any]:
    """Every case under every load; and one server of the same machine with the same rows."""
    lines = []
    for case, rate in itertools.product(assumed["cases"], assumed["loads"]):
        plan = needed(times, assumed, case, rate)
        lines.append({**case, "rate": rate, **plan, **latency(times, assumed, case, plan, rate)})
    return {"assumed": dict(assumed), "lines": lines, "alone": [_alone(times, assumed, case) for case in assumed["cases"]]}


def latency(times: Times, assumed: Mapping[str, Any], case: Mapping[str, Any], plan: Mapping[str, Any], rate: float) -> dict[str, float]:
    """Simulated seconds of a query under a load."""
    cores = assumed["machines"][case["machine"]]["cores"]
    layout = Layout(
        case["shards"], assumed["replicas"], plan["machines"], cores, plan["each"], applying=plan["applying"], behind=plan["behind"]
    )
    queries = max(LEAST_QUERIES, MOST_QUERIES // case["shards"])
    outcome = asked_cluster(times, case["rows"], layout, Load(rate, queries))
    return {"p50": quantile(outcome.seconds, 0.5), "p99": quantile(outcome.seconds, 0.99)}


def _alone(times: Times, assumed: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """One server: what it needs, what it answers at the least load, and how many queries a process answers."""
    weight, cores = weighed(times, case["rows"]), assumed["machines"]["large"]["cores"]
    outcome = asked_server(times, case["rows"], cores, Load(assumed["loads"][0], LEAST_QUERIES), elsewhere=True)
    return {
        "rows": case["rows"], "disk": weight.hot / HOT * FILES, "memory": weight.own + weight.hot + weight.linking,
        "linking": times.linking(case["rows"]),
        "p50": quantile(outcome.seconds, 0.5), "p99": quantile(outcome.seconds, 0.99),
        "rate": assumed["busy"] / _mean(times.server()),
    }  # fmt: skip


def render(planned: Mapping[str, Any]) -> str:
    """The tables, with what they assume."""
    assumed, prices = planned["assumed"], planned["assumed"]["prices"]
    lines = [
        (f"{one['rows']:,} in {one['shards']} shards, {one['rate']:g} queries/s", f"{one['machines']} {one['machine']}", one["decided"],
         one["memory"] / GIB, one["disk"] / GB, 1e3 * one["p50"], 1e3 * one["p99"], one["whole"] / 60, one["cost"])
        for one in planned["lines"]
    ]  # fmt: skip
    alone = [
        (f"{one['rows']:,}", one["memory"] / GIB, one["disk"] / GB, one["linking"] / 3600, *_kept_up(one), one["rate"])
        for one in planned["alone"]
    ]
    machines = [(name, m["cores"], m["gib"], m["gb"], _price(assumed, m)) for name, m in assumed["machines"].items()]
    first = (
        "rows",
        "machines",
        "decided by",
        "memory each, GiB",
        "disk each, GB",
        "p50, ms",
        "p99, ms",
        "a lost one replaced, min",
        "a month",
    )
    return paragraphs(
        f"{assumed['replicas']} copies of each shard, k = 10, mode `auto`, {assumed['adds']:g} rows/s added. "
        f"Queries take at most {assumed['busy']:.0%} of cores and processes; "
        f"memory and disk are filled to {assumed['full']:.0%}. Machines and prices are assumed:",
        table(("machine", "cores", "memory, GiB", "disk, GB", "a month"), machines),
        f"A core is {prices['core']:g} a month, a GiB of memory {prices['gib']:g}, a GB of disk {prices['gb']:g}. "
        f"Three log servers are {prices['log server']:g} each.",
        table(first, lines),
        f"One server of {assumed['machines']['large']['cores']} cores with the same rows, {assumed['loads'][0]:g} queries/s (–: too many; "
        "times beyond a million rows grow as they did up to 300,000, which says too much of queries that are scanned for):",
        table(("rows", "memory, GiB", "disk, GB", "linking, h", "p50, ms", "p99, ms", "queries/s of a worker"), alone),
    )


def _kept_up(one: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Milliseconds of p50 and p99, unless queries come faster than they are answered: then both are those of an endless queue."""
    return (None, None) if one["p50"] > 1.0 else (1e3 * one["p50"], 1e3 * one["p99"])


def written(document: str, text: str) -> str:
    """The document with the tables between its markers."""
    pattern = re.compile("<!-- capacity -->.*?<!-- end of capacity -->", re.DOTALL)
    new, count = pattern.subn(lambda _: f"<!-- capacity -->\n\n{text}\n\n<!-- end of capacity -->", document)
    if count != 1:
        raise ValueError(f"{DOCUMENT.name} has {count} places for the tables, it needs one: <!-- capacity --> … <!-- end of capacity -->")
    return new


def main() -> None:
    """As a program."""
    parser = argparse.ArgumentParser(prog="capacity.py table", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--assume", type=Path, help="JSON of other machines, prices, loads or cases; prints, writes nothing")
    parser.add_argument("--times", type=Path, default=RESULTS / "capacity.json", help="measured service times (%(default)s)")
    given = parser.parse_args()
    other = json.loads(given.assume.read_text(encoding="utf-8")) if given.assume else {}
    if unknown := set(other) - set(ASSUMED):
        raise SystemExit(f"{given.assume} names {', '.join(sorted(unknown))}; there are {', '.join(ASSUMED)}")
    found = json.loads(json.dumps(planned(Times.read(given.times), {**ASSUMED, **other})))
    print(render(found))
    if not other:
        (RESULTS / "capacity_table.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8"), render(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
