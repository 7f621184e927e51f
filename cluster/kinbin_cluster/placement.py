"""Which nodes hold a shard: weighted rendezvous, with bounded loads and different zones. Pure functions.

Each node draws a number for each shard; those with the greatest hold it, so that a node that comes or goes moves few shards. Three
conditions go first: a shard's replicas lie on different nodes, in different zones while there are any, and no node takes more than its
weight's share of a collection's replicas, rounded up, while others that could take them have room.

Weighted rendezvous: Schindelhauer and Schomaker, "Weighted distributed hash tables" (SPAA 2005), the logarithmic method. Bounded loads:
Mirrokni, Thorup and Zadimoghaddam, "Consistent hashing with bounded loads" (SODA 2018).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from kinbin_cluster.errors import NoPlace
from kinbin_cluster.picture import Node

__all__ = ["another", "place"]


def place(uid: str, shards: int, replicas: int, nodes: Iterable[Node]) -> list[list[str]]:
    """The names of the nodes that are to hold each shard of a new collection, `replicas` each, the best first.

    nodes: those that live; draining ones are left out. Raises NoPlace when fewer than `replicas` remain.
    """
    usable = [node for node in nodes if not node.draining]
    if len(usable) < replicas:
        raise NoPlace(f"{replicas} replicas need as many nodes, and {len(usable)} can take some: start more, or ask for fewer")
    weight = sum(node.weight for node in usable)
    room = Counter({node.name: math.ceil(shards * replicas * node.weight / weight - 1e-9) for node in usable})
    placed = []
    for shard in range(shards):
        held: list[Node] = []
        while len(held) < replicas:
            others = _elsewhere(held, [node for node in usable if node not in held])
            free = [node for node in others if room[node.name] > 0] or others
            # A node that has as much room as there are shards left is taken now: later it could not fill it, and others would overflow.
            now = [node for node in free if room[node.name] >= shards - shard]
            held.append(_best(uid, shard, held, now or free))
        for node in held:
            room[node.name] -= 1
        placed.append([node.name for node in held])
    return placed


def another(uid: str, shard: int, held: Sequence[Node], nodes: Iterable[Node], load: Mapping[str, int]) -> Node | None:
    """The node that is to hold a shard besides those that do; None when no other can.

    Of the nodes that live and are not draining those in another zone go first, and of these those with the least replicas by weight.
    """
    names = {node.name for node in held}
    usable = [node for node in nodes if node.name not in names and not node.draining]
    if not usable:
        return None
    zoned = _elsewhere(held, usable)
    least = min(load.get(node.name, 0) / node.weight for node in zoned)
    return _best(uid, shard, held, [node for node in zoned if load.get(node.name, 0) / node.weight <= least])


def _best(uid: str, shard: int, held: Sequence[Node], nodes: Sequence[Node]) -> Node:
    """The node that draws the most, of those in zones that have no replica."""
    return max(_elsewhere(held, nodes), key=lambda node: (_drawn(uid, shard, node), node.name))


def _elsewhere(held: Sequence[Node], nodes: Sequence[Node]) -> Sequence[Node]:
    """The nodes of zones that none of those that hold a shard is in; all, where there are none. A node without a zone is a zone."""
    taken = {node.zone for node in held if node.zone}
    return [node for node in nodes if not node.zone or node.zone not in taken] or nodes


def _drawn(uid: str, shard: int, node: Node) -> float:
    drawn = int.from_bytes(blake2b(f"{uid}.{shard}.{node.name}".encode(), digest_size=8).digest(), "big")
    return -node.weight / math.log((drawn + 0.5) / 2**64)
