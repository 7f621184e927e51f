"""Who is to hold a shard next: one step from what is, given who lives. A pure function, whose result is the record's next state.

replicas            joining     leaving
a b                                         as it should be
a b                 c           b           b drains, is lost for too long, or is moved: c restores and replays; b still answers
a c                             b           c is live: b is asked no more, and keeps its copy for those who have not heard
a c                                         b removes its copy
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from kinbin_cluster.picture import Picture, Shard

__all__ = ["View", "nowhere", "settled"]


@dataclass(frozen=True, slots=True)
class View:
    """What a step depends on.

    target: replicas that the collection is to have. live: nodes heard of lately. gone: nodes that were lost for too long, or forgotten.
    draining: nodes that are to hold nothing. applied: sequence of each copy that is live, by node. released: leaving nodes that have been
    out of the replicas for long enough. another: given the names that hold or will hold the shard, one more; None when there is none.
    """

    target: int
    live: frozenset[str]
    gone: frozenset[str] = frozenset()
    draining: frozenset[str] = frozenset()
    applied: Mapping[str, int] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    another: Callable[[tuple[str, ...]], str | None] = lambda _: None


def settled(shard: Shard, view: View) -> Shard:
    """The record after the next step; the same when nothing is to be done. Doing it twice does it once.

    The replicas that answer never become fewer than they were, but for those that are gone or leaving and have been replaced.
    """
    joined = tuple(name for name in shard.joining if name in view.applied and name not in shard.replicas)
    replicas = shard.replicas + joined
    leaving = shard.leaving + tuple(name for name in replicas if name in view.draining and name not in shard.leaving)
    staying = tuple(name for name in replicas if name not in leaving and name not in view.gone)
    joining = tuple(name for name in shard.joining if name not in replicas and name not in view.gone and name not in view.draining)
    joining = joining[: max(0, view.target - len(staying))]
    while len(staying) + len(joining) < view.target:
        found = view.another((*replicas, *joining, *leaving))
        if found is None:
            break
        joining += (found,)
    if len(staying) > view.target:
        leaving += tuple(name for name in staying[view.target :])
        staying = staying[: view.target]
    if len(staying) >= view.target:
        replicas = staying
    leaving = tuple(name for name in leaving if name in replicas or (name not in view.gone and name not in view.released))
    return replace(shard, replicas=replicas, joining=joining, leaving=leaving, holder=_holder(shard, replicas, leaving, view))


def _holder(shard: Shard, replicas: tuple[str, ...], leaving: tuple[str, ...], view: View) -> str | None:
    """The holder, while it lives and stays; otherwise the replica that lives, stays and has applied the most."""
    if shard.holder in replicas and shard.holder in view.live and shard.holder not in leaving:
        return shard.holder
    alive = [name for name in replicas if name in view.live]
    if not alive:
        return shard.holder if shard.holder in replicas else next(iter(replicas), None)
    if shard.holder in alive and all(name in leaving for name in alive):
        return shard.holder
    return max(alive, key=lambda name: (name not in leaving, view.applied.get(name, -1), name))


def nowhere(picture: Picture, place: tuple[str, int]) -> bool:
    """Whether replicas of a shard are to leave, and there are not enough nodes that live, take shards and have none of it."""
    shard, collection = picture.shards.get(place), picture.collection_of(place[0])
    if shard is None or collection is None:
        return False
    staying = [name for name in shard.replicas if name not in shard.leaving and not picture.is_draining(name)]
    leaves = len(staying) < len(shard.replicas)
    free = [node for node in picture.reached() if not node.draining and node.name not in shard.nodes]
    return leaves and collection.replicas - len(staying) - len(shard.joining) > len(free)
