"""`kinbin cluster balance`: says which moves would even the load of the nodes, and does them when it is told to, one after the other."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from kinbin_cluster.balancing import Move, Plan, plan
from kinbin_cluster.commands import Refused, Tell, moved, opened
from kinbin_cluster.overview import shapes
from kinbin_cluster.picture import Picture
from kinbin_cluster.settings import ClusterSettings

__all__ = ["balance"]

_SECONDS = 10.0
"""A shard that a move before has just left is well as soon as its nodes have told so."""


async def balance(
    settings: ClusterSettings, by: str, tell: Tell, *, tolerance: float = 0.1, most: int = 20, do: bool = False
) -> dict[str, Any]:
    """Plan moves by rows, bytes, rate or replicas, and with `do` make them. Returns the plan, and how many moves were made.

    A move begins when the one before has ended, and only where its shard is still as it was planned; else Refused, with what was done.
    Raises Refused, ClusterError.
    """
    async with opened(settings) as session:
        try:
            made = plan(session.picture, by, tolerance=tolerance, most=most)
        except ValueError as error:
            raise Refused(str(error)) from None
        for name in sorted(session.picture.nodes.keys() - made.before.keys()):
            tell(f"node {name} is silent, or no gateway reaches it: it is left as it is, and so are shards that lack it")
        for line in lines(made):
            tell(line)
        done = 0
        for move in made.moves if do else ():
            if not await session.registry.wait_for(partial(_as_planned, move), _SECONDS):
                raise Refused(f"shard {move.shard} of {move.collection} has changed meanwhile; {done} of {len(made.moves)} moves were made")
            await moved(session, move.collection, move.shard, (move.source, move.target), tell)
            done += 1
        before, after = made.worst
        return {
            "by": by,
            "moves": [asdict(move) for move in made.moves],
            "nodes": {name: {"before": made.before[name], "after": made.after[name], "share": made.shares[name]} for name in made.before},
            "worst_before": before,
            "worst_after": after,
            "moved": done,
        }


def lines(made: Plan) -> list[str]:
    """A plan for people: a line a node, a line a move."""
    told = [
        f"node {name}: {_number(made.before[name])} {made.by}, then {_number(made.after[name])}; its share is {_number(made.shares[name])}"
        for name in sorted(made.before)
    ]
    if not made.moves:
        return [*told, "no move would even that"]
    before, after = made.worst
    count = f"{len(made.moves)} move{'s' * (len(made.moves) > 1)}"
    told.append(f"{count}; the most loaded node has {before:.2f} times its share, and then {after:.2f}")
    return told + [
        f"  shard {one.shard} of {one.collection}: {one.source} to {one.target} ({_number(one.weight)} {made.by})" for one in made.moves
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _as_planned(move: Move, picture: Picture) -> bool:
    """Whether a shard is well, and on the one node and not on the other."""
    for shape in shapes(picture):
        if (shape.collection.name, shape.number) == (move.collection, move.shard):
            return shape.state == "well" and move.source in shape.record.replicas and move.target not in shape.record.nodes
    return False
