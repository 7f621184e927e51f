"""What rows, shards, replicas and machines come to: latencies by simulation, all else by sums of what was measured."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulator.events import Clock
from simulator.serving import ClusterModel, Load, Machine, Outcome, ServerModel, simulated
from simulator.times import Times

__all__ = [
    "HOT",
    "Built",
    "Layout",
    "Weight",
    "asked_cluster",
    "asked_server",
    "built_cluster",
    "built_server",
    "machines_for",
    "rebuilt",
    "weighed",
]

HOT = 0.4
"""The share of files, without free pages, that walks read: codes, links, rows that are scored (docs/how-to/sizing.md, "Memory")."""

LINKED = 256.0 + 260.0
"""Bytes a row while a shard is linked: a code, and links that are not written yet; one shard of a node at a time."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A collection over machines. Replicas of a shard lie on nodes one after the other, as placement spreads them evenly.

    together: all of it on one machine, with who asks; else each machine has as many gateways as nodes, and NATS is elsewhere.
    """

    shards: int
    replicas: int
    machines: int
    cores: int
    each: int = 1
    """Nodes of a machine, and gateways."""
    together: bool = False
    applying: float = 0.0
    """Share of one core that adds take of each node."""
    behind: float = 0.0
    """Share of one core that links and merges take of each node, when nobody else wants it."""

    @property
    def nodes(self) -> int:
        """In all."""
        return self.machines * self.each

    def holders(self, shard: int) -> list[int]:
        """The nodes of a shard's replicas, on different machines where there are enough."""
        # Neighbours in this order are on different machines.
        places = [(shard * self.replicas + copy) % self.nodes for copy in range(self.replicas)]
        return [place % self.machines * self.each + place // self.machines for place in places]


@dataclass(frozen=True, slots=True)
class Built:
    """Seconds until the last add is acknowledged, and until all rows are linked."""

    added: float
    linked: float


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes: files of all nodes, and of all log servers; of a node's memory its own, pages of files, and what linking takes for a while."""

    files: float
    log: float
    own: float
    hot: float
    linking: float


def asked_server(times: Times, rows: float, cores: int, load: Load, mode: str = "auto", *, elsewhere: bool = False) -> Outcome:
    """Queries of one server."""
    clock = Clock()
    machine = Machine(clock, "server", cores)
    server = ServerModel(clock, machine, times.server(), times.engine(rows, mode))
    return simulated(clock, [machine], times.client("server", elsewhere=elsewhere), server.ask, load)


def asked_cluster(times: Times, rows: float, layout: Layout, load: Load, mode: str = "auto") -> Outcome:
    """Queries through the gateways of a cluster, in turn."""
    clock = Clock()
    count = 1 if layout.together else layout.machines
    machines = [Machine(clock, f"machine-{i}", layout.cores, layout.behind * layout.nodes / count) for i in range(count)]
    engine, node, hop = times.engine(rows / layout.shards, mode), times.node(), times.hop
    nodes = [
        ServerModel(clock, machines[0 if layout.together else i // layout.each], node, engine, wire=hop, applying=layout.applying)
        for i in range(layout.nodes)
    ]
    replicas = [[nodes[i] for i in layout.holders(shard)] for shard in range(layout.shards)]
    count *= 1 if layout.together else layout.each
    gateways = [ClusterModel(clock, machines[i % len(machines)], times.gateway(), replicas) for i in range(count)]
    turn = itertools.cycle(gateways)

    def ask(rng: random.Random, then: Callable[[], object]) -> None:
        next(turn).ask(rng, then)

    outcome = simulated(clock, machines, times.client("gateway", elsewhere=not layout.together), ask, load)
    outcome.hedged = sum(gateway.hedged for gateway in gateways)
    return outcome


# ----------------------------------------------------------------------------------------- building


def built_server(times: Times, rows: float, cores: int) -> Built:
    """One server, and who adds, on one machine."""
    return _built(times, rows, 1, cores, "server")


def built_cluster(times: Times, rows: float, layout: Layout) -> Built:
    """A cluster and who adds, all on one machine."""
    return _built(times, rows, layout.nodes, layout.cores, "gateway", layout.replicas)


def _built(times: Times, rows: float, nodes: int, cores: int, who: str, replicas: int = 1) -> Built:
    """Adds as they were measured, but that nodes apply at the same time; links and merges take what cores are left, one a node, then all.

    What fewer rows took besides (waiting for a pause of writes, in the main) is added as it was.
    """
    base = times.figure("base")
    late = times.figure(who, "linked") - _fluid(times, base, 1, cores, who, 1).linked
    found = _fluid(times, rows, nodes, cores, who, replicas)
    return Built(found.added, found.linked + max(0.0, late))


def _fluid(times: Times, rows: float, nodes: int, cores: int, who: str, replicas: int) -> Built:
    adds = times.measured[who]["adds"]
    processor = dict(adds["processor"])
    applied = processor.get("node", 0.0)
    merging = times.merging(rows * replicas / nodes)
    busy = rows * (sum(processor.values()) - applied + (applied + merging) * replicas)
    # One after the other: who adds waits for the slowest node of each batch. But nobody works faster than all cores do.
    added = max(busy / cores, rows * (adds["seconds"] - applied + applied * replicas / min(nodes, cores)))
    idle = max(0.0, cores - busy / added)
    each = times.linking(rows * replicas / nodes)
    done = min(idle, nodes) * added
    left = max(0.0, nodes * each - done)
    return Built(added, added + left / min(nodes, cores))


def rebuilt(times: Times, rows: float, *, snapshot: bool, bandwidth: float = float("inf")) -> float:
    """Seconds until a copy of a shard answers on another node: from its log, or from a snapshot. bandwidth: bytes/s of the network."""
    if not snapshot:
        (few, least), (many, most) = times.measured["log"]["moves"]
        each = max(0.0, (most - least) / (many - few))
        # Of few rows no runs are made yet; of many that is most of the work, as where a snapshot is restored.
        return float(max(least - few * each, 0.0) + max(rows * each, times.of_rows("restore", rows)))
    rate = min(bandwidth, times.figure("log", "carried", "out"))
    return times.of_rows("snapshot_bytes", rows) / rate + times.of_rows("restore", rows)


def weighed(times: Times, rows: float, shards: int = 1, replicas: int = 1, nodes: int = 1, *, who: str = "server") -> Weight:
    """What a collection weighs, on disk and in memory. The log holds all of it where no snapshot was made. who: "server" or "node"."""
    shard, held = rows / shards, shards * replicas / nodes
    return Weight(
        files=times.files(who, shard) * shards * replicas,
        log=times.log(shard) * shards,
        own=times.figure(who, "own") + times.of_rows("own", held * shard),
        hot=held * HOT * times.of_rows("live", shard),
        linking=shard * LINKED,
    )


def machines_for(need: Sequence[tuple[float, float]]) -> int:
    """The machines that hold all of several needs, of (needed, what one machine has). Raises ValueError where one has no room at all."""
    if any(has <= 0.0 for _, has in need):
        raise ValueError("a machine is too small for what each has to hold besides: take smaller shards, or larger machines")
    return max(1, *(-int(-needed // has) for needed, has in need))
