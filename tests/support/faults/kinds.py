"""The kinds of faults. Each breaks something under load, waits, and mends it."""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from faults.links import BOTH, DOWN, UP, Link
from faults.running import Cluster, Program
from kinbin_cluster.servers import Process

__all__ = ["KINDS", "Kind", "heal"]

DOWN_SECONDS = 2.0
STOP_SECONDS = 10.0
CUT_SECONDS = 6.0


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    happen: Callable[[Cluster, str, random.Random], None]
    """(cluster, stream of a shard, random numbers): returns when it is over."""
    lives: bool = True
    """Whether a replica of each shard lives throughout, and a gateway. Where none does, gaps count from when everything runs again."""


def heal(cluster: Cluster) -> None:
    """Let everything run, whatever was done to it."""
    cluster.links.heal()
    for process in cluster.processes:
        process.send(signal.SIGCONT)
        if process.running:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    cluster.start()


def _killed(cluster: Cluster, *processes: Process, seconds: float = DOWN_SECONDS) -> None:
    for process in processes:
        process.kill()
    time.sleep(seconds)
    heal(cluster)


def _leader(cluster: Cluster, stream: str) -> Process:
    number = cluster.leader(stream)
    return cluster.nats.processes[number or 0]


def _stopped(cluster: Cluster, process: Process) -> None:
    process.send(signal.SIGSTOP)
    time.sleep(STOP_SECONDS)
    heal(cluster)


def _cut(cluster: Cluster, links: list[Link], ways: tuple[str, ...]) -> None:
    for link in links:
        link.cut(*ways)
    time.sleep(CUT_SECONDS)
    heal(cluster)


def _full(cluster: Cluster, process: Process, room: int, *, restart: bool = False) -> None:
    """A disk that takes no larger files: what grows them fails. restart: it does not go on by itself."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    time.sleep(DOWN_SECONDS * 2)
    if restart:
        process.kill()
    heal(cluster)


def _full_node(cluster: Cluster, node: Program) -> None:
    """No file of a node becomes larger than its largest is."""
    files = (file for file in (cluster.folder / node.name).rglob("*") if file.is_file())
    _full(cluster, node.process, max((file.stat().st_size for file in files), default=4_096))


def _asked_snapshot(cluster: Cluster, stream: str, rng: random.Random) -> None:
    """A node is killed while it makes a snapshot."""
    from faults.snapshots import ask_for_snapshots

    ask_for_snapshots(cluster, stream)
    time.sleep(rng.random())
    _killed(cluster, rng.choice(cluster.nodes).process)


def _everything(cluster: Cluster, _: str, rng: random.Random) -> None:
    processes = cluster.processes
    rng.shuffle(processes)
    _killed(cluster, *processes, seconds=0.5)


def _servers_then_gateways(cluster: Cluster, _: str, rng: random.Random) -> None:
    """What gateways hold of writes that no server takes any more goes with them."""
    for process in cluster.nats.processes:
        process.kill()
    time.sleep(0.5 + rng.random())
    _killed(cluster, *(gateway.process for gateway in cluster.gateways), seconds=0.5)


def _ways(rng: random.Random) -> tuple[str, ...]:
    return rng.choice([(UP,), (DOWN,), BOTH])


KINDS = (
    Kind("the leader killed", lambda c, s, _: _killed(c, _leader(c, s))),
    Kind("a server killed", lambda c, _, r: _killed(c, r.choice(c.nats.processes))),
    Kind("all servers killed", lambda c, _s, _r: _killed(c, *c.nats.processes, seconds=0.5)),
    Kind("a node killed", lambda c, _, r: _killed(c, r.choice(c.nodes).process)),
    Kind("a gateway killed", lambda c, _, r: _killed(c, r.choice(c.gateways).process)),
    Kind("all nodes killed", lambda c, _s, _r: _killed(c, *(n.process for n in c.nodes), seconds=0.5), lives=False),
    Kind("everything killed", _everything, lives=False),
    Kind("the servers killed, then the gateways", _servers_then_gateways, lives=False),
    Kind("the leader stopped for 10 s", lambda c, s, _: _stopped(c, _leader(c, s))),
    Kind("a node stopped for 10 s", lambda c, _, r: _stopped(c, r.choice(c.nodes).process)),
    Kind("a gateway stopped for 10 s", lambda c, _, r: _stopped(c, r.choice(c.gateways).process)),
    Kind("a node cut from the servers", lambda c, _, r: _cut(c, r.choice(c.nodes).to_nats, _ways(r))),
    Kind("a gateway cut from the servers", lambda c, _, r: _cut(c, r.choice(c.gateways).to_nats, _ways(r))),
    Kind("a node cut from the gateways", lambda c, _, r: _cut(c, [link for link in [r.choice(c.nodes).to_it] if link], _ways(r))),
    Kind("a node's disk full", lambda c, _, r: _full_node(c, r.choice(c.nodes))),
    Kind("a server's disk full", lambda c, _, r: _full(c, r.choice(c.nats.processes), 65_536, restart=True)),
    Kind("a snapshot in progress", _asked_snapshot),
)
