"""The kinds of faults. Each breaks something under load, waits, and mends it."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from faults import orders
from faults.disks import damage, full_node, full_server, old_disk, take_no_limit
from faults.links import BOTH, DOWN, UP, Link
from faults.running import Cluster, Program, until
from kinbin_cluster.servers import Process

__all__ = ["KINDS", "NOTHING", "Kind", "cut_server", "heal"]

DOWN_SECONDS = 2.0
STOP_SECONDS = 10.0
CUT_SECONDS = 12.0
"""Longer than a gap of writes may be: who waits for the link to heal is found out."""
WHOLE_SECONDS = 60.0
_MEET_SECONDS = 60.0
"""So long a moment that a fault is meant for is waited for. What misses it says so."""
NOT_WHOLE = "missed: not all replicas were there before"
_LOOK_SECONDS = 0.001
_GONE = 0.5
"""The share of restores that begin because the files are gone."""


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    happen: Callable[[Cluster, str, random.Random], str]
    """(cluster, stream of a shard, random numbers): returns when it is over; a text that begins with "missed" where it did not happen."""
    lives: bool = True
    """Whether a replica of each shard lives throughout, and a gateway. Where none does, gaps count from when everything runs again."""


def heal(cluster: Cluster) -> None:
    """Let everything run, whatever was done to it."""
    cluster.links.heal()
    for disk in cluster.disks.values():
        disk.empty()
    for process in cluster.processes:
        process.send(signal.SIGCONT)
        take_no_limit(process)
    cluster.start()


# ------------------------------------------------------------------------------------------- killed, stopped, cut off


def _killed(cluster: Cluster, *processes: Process, seconds: float = DOWN_SECONDS) -> str:
    for process in processes:
        process.kill()
    time.sleep(seconds)
    heal(cluster)
    return ""


def _leader_number(cluster: Cluster, stream: str) -> int:
    return cluster.leader(stream) or 0


def _leader(cluster: Cluster, stream: str) -> Process:
    return cluster.nats.processes[_leader_number(cluster, stream)]


def _stopped(process: Process) -> str:
    process.send(signal.SIGSTOP)
    time.sleep(STOP_SECONDS)
    return ""


def _everything(cluster: Cluster, _: str, rng: random.Random) -> str:
    processes = cluster.processes
    rng.shuffle(processes)
    return _killed(cluster, *processes, seconds=0.5)


def _servers_then_gateways(cluster: Cluster, _: str, rng: random.Random) -> str:
    """What gateways hold of writes that no server takes any more goes with them."""
    for process in cluster.nats.processes:
        process.kill()
    time.sleep(0.5 + rng.random())
    return _killed(cluster, *(gateway.process for gateway in cluster.gateways), seconds=0.5)


def _ways(rng: random.Random) -> tuple[str, ...]:
    return rng.choice([(UP,), (DOWN,), BOTH])


def _cut(links: list[Link], ways: tuple[str, ...]) -> str:
    for link in links:
        link.cut(*ways)
    time.sleep(CUT_SECONDS)
    return ""


def cut_server(cluster: Cluster, number: int, ways: tuple[str, ...]) -> None:
    """Cut a server off from the others: they do not hear it (up), it does not hear them (down), or both. Its clients reach it still."""
    other_ways = tuple(DOWN if way == UP else UP for way in ways)
    for (one, another), link in cluster.routes.items():
        if number == one:
            link.cut(*ways)
        elif number == another:
            link.cut(*other_ways)


def _server_cut(cluster: Cluster, number: int, ways: tuple[str, ...]) -> str:
    cut_server(cluster, number, ways)
    time.sleep(CUT_SECONDS)
    return ""


# ------------------------------------------------------------------------------------------- at a certain moment


def _met(pattern: str, folder: Path) -> bool:
    """Whether a file of a pattern came to be in time."""
    deadline = time.monotonic() + _MEET_SECONDS
    while not any(folder.glob(pattern)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _in_snapshot(cluster: Cluster, stream: str, rng: random.Random) -> str:
    """A node is killed while it makes a snapshot: as it writes the file, or as it stores it."""
    holders = orders.ask_for_snapshots(cluster, stream.split("-")[1])
    node = next((one for one in cluster.nodes if one.name == holders.get(int(stream.split("-")[2]))), None)
    if node is None or not _met(".snapshots-*", cluster.data(node)):
        return "missed: no snapshot was begun"
    time.sleep(rng.choice([0.0, 0.005, 0.02]))
    there = any(cluster.data(node).glob(".snapshots-*"))
    return _killed(cluster, node.process) or ("" if there else "missed: the snapshot was made before")


def _in_restore(cluster: Cluster, stream: str, rng: random.Random) -> str:
    """A node that restores its replicas, by an order or as its files are gone, is killed: as it fetches them, or as it makes them."""
    uid = stream.split("-")[1]
    if not (holders := _whole(cluster, uid)):
        return NOT_WHOLE
    node = rng.choice(holders)
    orders.ask_for_snapshots(cluster, uid)
    if rng.random() < _GONE:
        # Nobody has told it to begin again: what it finds when it starts once more is all that it knows.
        node.process.kill()
        for folder in cluster.data(node).glob("collections/c*"):
            shutil.rmtree(folder)
        node.process.start()
    elif not orders.order_anew(cluster, uid, node.name):
        return "missed: nothing was ordered"
    if not _met(".restoring-*", cluster.data(node)):
        return "missed: nothing was restored"
    time.sleep(rng.choice([0.0, 0.01, 0.03]))
    there = any(cluster.data(node).glob(".restoring-*"))
    return _killed(cluster, node.process) or ("" if there else "missed: it was restored before")


def _moved(cluster: Cluster, stream: str, rng: random.Random) -> str:
    """A shard moves to another node, and the node that it comes from, or goes to, is killed meanwhile."""
    _, uid, number = stream.split("-")
    if not _whole(cluster, uid):
        return NOT_WHOLE
    held = orders.places_of(cluster, uid)[int(number)]
    free = [node for node in cluster.nodes if node.name not in held.nodes]
    if not free or len(held.replicas) < 2:
        return "missed: no node is free for it"
    name = rng.choice(held.replicas)
    source = next(node for node in cluster.nodes if node.name == name)
    if not orders.begin_move(cluster, int(number), (source.name, free[0].name)):
        return "missed: the move was not taken"
    time.sleep(rng.random())
    return _killed(cluster, rng.choice([source, free[0]]).process)


def _disk(harm: Callable[[Cluster, Program, random.Random], str]) -> Callable[[Cluster, str, random.Random], str]:
    """Something is done to the files of a node, once every replica is well: the others hold what it loses."""

    def happen(cluster: Cluster, stream: str, rng: random.Random) -> str:
        if not (holders := _whole(cluster, stream.split("-")[1])):
            return NOT_WHOLE
        return harm(cluster, rng.choice(holders), rng)

    return happen


def _whole(cluster: Cluster, uid: str) -> list[Program]:
    """Wait until all replicas that there are to be are live, as their nodes say. The nodes that have some; none if that takes too long.

    Moves may leave a node without any.
    """

    def live() -> bool:
        wanted = {(name, number) for number, held in orders.places_of(cluster, uid).items() for name in held.nodes}
        return wanted <= {(node.name, number) for node in cluster.nodes for number in _live(cluster, node)}

    try:
        until(live, WHOLE_SECONDS, "")
    except TimeoutError:
        return []
    return [node for node in cluster.nodes if _live(cluster, node)]


def _live(cluster: Cluster, node: Program) -> set[int]:
    """The shards that a node has live replicas of."""
    try:
        shards = cluster.asked(node, "/cluster/node").json()["shards"]
    except (httpx.HTTPError, ValueError, KeyError):
        return set()
    return {int(one["shard"]) for one in shards if one["state"] == "live" and not one["problem"]}


NOTHING = Kind("nothing", lambda _c, _s, _r: _waited(DOWN_SECONDS))
"""What a planted bug should not show in, for a fault to be what shows it."""


def _waited(seconds: float) -> str:
    time.sleep(seconds)
    return ""


KINDS = (
    Kind("the leader killed", lambda c, s, _: _killed(c, _leader(c, s))),
    Kind("a server killed", lambda c, _, r: _killed(c, r.choice(c.nats.processes))),
    Kind("all servers killed", lambda c, _s, _r: _killed(c, *c.nats.processes, seconds=0.5)),
    Kind("a node killed", lambda c, _, r: _killed(c, r.choice(c.nodes).process)),
    Kind("a gateway killed", lambda c, _, r: _killed(c, r.choice(c.gateways).process)),
    Kind("all nodes killed", lambda c, _s, _r: _killed(c, *(n.process for n in c.nodes), seconds=0.5), lives=False),
    Kind("everything killed", _everything, lives=False),
    Kind("the servers killed, then the gateways", _servers_then_gateways, lives=False),
    Kind("the leader stopped for 10 s", lambda c, s, _: _stopped(_leader(c, s))),
    Kind("a node stopped for 10 s", lambda c, _, r: _stopped(r.choice(c.nodes).process)),
    Kind("a gateway stopped for 10 s", lambda c, _, r: _stopped(r.choice(c.gateways).process)),
    Kind("the leader cut from the servers", lambda c, s, r: _server_cut(c, _leader_number(c, s), _ways(r))),
    Kind("a server cut from the servers", lambda c, _, r: _server_cut(c, r.randrange(len(c.nats.processes)), _ways(r))),
    Kind("a node cut from the servers", lambda c, _, r: _cut(r.choice(c.nodes).to_nats, _ways(r))),
    Kind("a gateway cut from the servers", lambda c, _, r: _cut(r.choice(c.gateways).to_nats, _ways(r))),
    Kind("a node cut from the gateways", lambda c, _, r: _cut([link for link in [r.choice(c.nodes).to_it] if link], _ways(r))),
    Kind("a node's disk full", lambda c, _, r: full_node(c, r)),
    Kind("a server's disk full", lambda c, _, r: full_server(c, r)),
    Kind("a node killed in a snapshot", _in_snapshot),
    Kind("a node killed in a restore", _in_restore),
    Kind("a node killed as a shard moves", _moved),
    Kind("a node's files damaged", _disk(damage)),
    Kind("a node's disk an old copy", _disk(old_disk)),
)
