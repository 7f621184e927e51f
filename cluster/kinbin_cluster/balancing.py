"""Which replicas to move so that nodes are evenly loaded, each by its weight. Pure functions: nothing is moved here.

A shard is as heavy as `by` says: its rows, the bytes of a copy, the seconds of work that a copy has in a second, or 1. Each step takes the
one move that evens the loads most (the greatest fall of the sum of load² / weight), until every node is near its share, or no move helps.
A move never takes a shard's replicas into fewer zones, never onto a node that has a copy, drains or is silent; shards that move already,
or lack a replica, stay. What no single move can better (two shards that would have to change places) stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinbin_cluster.overview import Shape, shapes
from kinbin_cluster.picture import Node, Picture

__all__ = ["BY", "Move", "Plan", "plan"]

BY = ("rows", "bytes", "rate", "replicas")
"""What shards may be weighed by."""


@dataclass(frozen=True, slots=True)
class Move:
    """One replica, from a node to another."""

    collection: str
    shard: int
    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves in their order, and the load of each node that lives before and after all of them."""

    by: str
    moves: tuple[Move, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]
    shares: Mapping[str, float]
    """What each node would have if it could be divided: by its weight; 0 of one that drains."""

    @property
    def worst(self) -> tuple[float, float]:
        """How many times its share the most loaded node has, before and after."""
        return _worst(self.before, self.shares), _worst(self.after, self.shares)


@dataclass(slots=True)
class _Piece:
    """A shard that may be moved: how heavy each of its replicas is, and where they are."""

    collection: str
    shard: int
    weight: float
    held: list[str]


def plan(picture: Picture, by: str, *, tolerance: float = 0.1, most: int = 20) -> Plan:
    """The moves that even the loads. tolerance: a node within this part of its share is left alone. most: of moves.

    Raises ValueError for a `by` that is none of `BY`. Cost: nodes × replicas a move.
    """
    if by not in BY:
        raise ValueError(f"shards are weighed by {', '.join(BY)}, not by {by!r}")
    nodes = {node.name: node for node in picture.reached()}
    every = shapes(picture)
    loads = dict.fromkeys(nodes, 0.0)
    for shape in every:
        for name in shape.record.replicas:
            if name in loads:
                loads[name] += _weight(picture, shape, by)
    total = sum(node.weight for node in nodes.values() if not node.draining)
    all_of_it = sum(loads.values())
    shares = {name: 0.0 if node.draining or not total else all_of_it * node.weight / total for name, node in nodes.items()}
    pieces = [
        _Piece(shape.collection.name, shape.number, _weight(picture, shape, by), list(shape.record.replicas))
        for shape in every
        if shape.state == "well"
    ]
    before = dict(loads)
    moves: list[Move] = []
    while len(moves) < most and (best := _best(pieces, nodes, loads, shares, tolerance)) is not None:
        piece, source, target = best
        piece.held[piece.held.index(source)] = target
        loads[source] -= piece.weight
        loads[target] += piece.weight
        moves.append(Move(piece.collection, piece.shard, source, target, piece.weight))
    return Plan(by, tuple(moves), before, loads, shares)


def _weight(picture: Picture, shape: Shape, by: str) -> float:
    """How heavy a replica of a shard is: the same for all of them, so that a move changes nothing but the place."""
    place = shape.collection.uid, shape.number
    told = [replica for node in shape.answering if (replica := picture.replica(*place, node)) is not None]
    if by == "replicas":
        return 1.0
    if not told:
        return 0.0
    if by == "rate":
        return sum(replica.load for replica in told) / len(told)
    return float(max(replica.items if by == "rows" else replica.bytes for replica in told))


def _best(
    pieces: Sequence[_Piece], nodes: Mapping[str, Node], loads: Mapping[str, float], shares: Mapping[str, float], tolerance: float
) -> tuple[_Piece, str, str] | None:
    """The piece, source and target of the move that evens the most; None where none helps."""
    best: tuple[float, tuple[_Piece, str, str]] | None = None
    for piece in pieces:
        if piece.weight <= 0:
            continue
        for source in piece.held:
            if source not in nodes or nodes[source].draining:
                continue  # who drains is emptied by the controller
            for target, node in nodes.items():
                if node.draining or target in piece.held or not _matters(source, target, loads, shares, tolerance):
                    continue
                gain = _fall(piece.weight, (loads[source], nodes[source].weight), (loads[target], node.weight))
                # Of equal ones the first by name: the same picture has the same plan.
                if (
                    gain > 1e-9 * piece.weight * piece.weight
                    and (best is None or gain > best[0] * (1 + 1e-9))
                    and _keeps_zones(piece, source, node, nodes)
                ):
                    best = gain, (piece, source, target)
    return None if best is None else best[1]


def _matters(source: str, target: str, loads: Mapping[str, float], shares: Mapping[str, float], tolerance: float) -> bool:
    """Whether one of two nodes is so far from its share that a move is worth it."""
    return loads[source] > shares[source] * (1 + tolerance) or loads[target] < shares[target] * (1 - tolerance)


def _fall(weight: float, source: tuple[float, float], target: tuple[float, float]) -> float:
    """By how much the sum of load² / weight of nodes falls when so much goes from one to another; negative: it rises."""
    (heavy, of_source), (light, of_target) = source, target
    return (2 * heavy - weight) * weight / of_source - (2 * light + weight) * weight / of_target


def _keeps_zones(piece: _Piece, source: str, target: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether the replicas lie in as many zones behind a move as before. A node without a zone is one."""

    def zones(names: Sequence[str]) -> int:
        return len({(nodes[name].zone or f" {name}") if name in nodes else f" {name}" for name in names})

    moved = [target.name if name == source else name for name in piece.held]
    return zones(moved) >= zones(piece.held)


def _worst(loads: Mapping[str, float], shares: Mapping[str, float]) -> float:
    return max((loads[name] / share for name, share in shares.items() if share > 0), default=1.0)
