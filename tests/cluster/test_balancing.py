"""Plans of moves: they even the loads, keep zones and replicas, end, and leave alone what placement has placed evenly."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.balancing import BY, Plan, plan
from kinbin_cluster.moves import View, settled
from kinbin_cluster.picture import Collection, Node, Picture, Shard
from kinbin_cluster.placement import place

Items = dict[tuple[str, int], int]


def pictured(nodes: list[Node], placed: dict[str, list[list[str]]], items: Items | None = None, dead: str = "", **told: Any) -> Picture:
    """A cluster: by collection who holds each shard; items of each, ten by default. All copies live, but for those of the dead."""
    picture = Picture(3_600.0)
    for node in nodes:
        picture.nodes[node.name] = node
    for name, shards in placed.items():
        picture.collections[name] = Collection(name, f"uid-{name}", len(shards), len(shards[0]), {}, 0.0)
        for number, held in enumerate(shards):
            picture.shards[f"uid-{name}", number] = Shard(tuple(held), holder=held[0])
    for node in nodes:
        if node.name not in dead:
            shards_told = {
                f"{uid}.{number}": {"state": "live", "items": (items or {}).get((uid.removeprefix("uid-"), number), 10), **told}
                for uid, number, _ in picture.shards_of(node.name)
            }
            picture.hear(node.name, orjson.dumps({"shards": shards_told}))
    return picture


def named(count: int, zones: int = 0, weights: tuple[float, ...] = ()) -> list[Node]:
    """Nodes n0, n1 and so on."""
    return [Node(f"n{i}", f"http://n{i}", f"z{i % zones}" if zones else "", weights[i] if weights else 1.0) for i in range(count)]


def after(picture: Picture, made: Plan) -> dict[tuple[str, int], list[str]]:
    """Who holds each shard once all moves are made, each by the steps that the controller takes. Every move has to be possible."""
    for move in made.moves:
        uid = f"uid-{move.collection}"
        shard = picture.shards[uid, move.shard]
        assert move.source in shard.replicas
        assert move.target not in shard.nodes
        live = frozenset(node.name for node in picture.live())
        shard = Shard(shard.replicas, (move.target,), (move.source,), shard.holder)
        applied = dict.fromkeys(shard.nodes, 1)
        target = picture.collections[move.collection].replicas
        view = View(target, live, applied=applied, released=frozenset({move.source}))
        shard = settled(settled(shard, view), view)
        assert (shard.joining, shard.leaving) == ((), ())
        picture.shards[uid, move.shard] = shard
    return {(uid.removeprefix("uid-"), number): list(shard.replicas) for (uid, number), shard in picture.shards.items()}


def loads(held: dict[tuple[str, int], list[str]], items: Items) -> Counter[str]:
    """Items of each node, counted anew."""
    found: Counter[str] = Counter()
    for key, names in held.items():
        for name in names:
            found[name] += items.get(key, 10)
    return found


CLUSTERS = st.tuples(
    st.integers(2, 5),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(1, 2), st.lists(st.integers(0, 1_000), min_size=1, max_size=5)), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)


@given(CLUSTERS)
def test_plans_even_loads_and_keep_what_is_promised(cluster: tuple[Any, ...]) -> None:
    """Each move is one that the controller takes and keeps zones, loads are those that were told, and no further move would even more."""
    count, zones, made_of, random = cluster
    nodes = named(count, zones)
    names = [node.name for node in nodes]
    placed: dict[str, list[list[str]]] = {}
    items: Items = {}
    for number, (replicas, sizes) in enumerate(made_of):
        placed[f"c{number}"] = [random.sample(names, min(replicas, count)) for _ in sizes]
        items |= {(f"c{number}", shard): size for shard, size in enumerate(sizes)}
    picture = pictured(nodes, placed, items)
    before = {(name, shard): held for name, shards in placed.items() for shard, held in enumerate(shards)}
    made = plan(picture, "rows", tolerance=0.0, most=1_000)
    held = after(picture, made)
    zone = {node.name: node.zone or node.name for node in nodes}
    for key, replicas_held in held.items():
        assert len(set(replicas_held)) == len(before[key])
        assert len({zone[name] for name in replicas_held}) >= len({zone[name] for name in before[key]})
    now = loads(held, items)
    assert {name: now[name] for name in names} == made.after
    squares = [sum(load * load for load in some.values()) for some in (made.before, made.after)]
    assert squares[1] < squares[0] if made.moves else squares[1] == squares[0]
    for key, replicas_held in held.items():
        for source, target in itertools.product(replicas_held, set(names) - set(replicas_held)):
            kept = {zone[name] for name in replicas_held if name != source} | {zone[target]}
            if len(kept) >= len({zone[name] for name in replicas_held}) and items[key]:
                assert now[target] + items[key] >= now[source], (key, source, target)


@pytest.mark.parametrize(("shards", "replicas", "count", "zones"), [(6, 2, 3, 0), (8, 2, 4, 2), (12, 3, 5, 0), (9, 1, 3, 0), (16, 2, 8, 3)])
def test_what_was_placed_evenly_stays(shards: int, replicas: int, count: int, zones: int) -> None:
    """Where placement gave each node the same number of equal shards, nothing is moved."""
    nodes = named(count, zones)
    placed = place("0" * 12, shards, replicas, nodes)
    held = Counter(name for names in placed for name in names)
    made = plan(pictured(nodes, {"things": placed}), "rows", tolerance=0.0)
    if len(set(held.values())) == 1 and len(held) == count:
        assert made.moves == ()
    assert max(made.after.values()) <= 10 * max(held.values())


def test_a_new_node_gets_its_share_and_no_more() -> None:
    """A node that has come takes what evens the loads: each has as many as placement would have given it, within one shard."""
    nodes = named(4)
    placed = place("0" * 12, 12, 2, nodes[:3])
    picture = pictured(nodes, {"things": placed})
    made = plan(picture, "replicas")
    assert {move.target for move in made.moves} == {"n3"}
    counts = Counter(name for held in after(picture, made).values() for name in held)
    assert set(counts.values()) == {6}
    assert len(made.moves) == 6
    assert made.worst == pytest.approx((8 / 6, 1.0))


def test_weights_of_nodes_and_of_shards_count() -> None:
    """A node of twice the weight is to have twice as much; of the measures each is what it says."""
    nodes = named(3, weights=(2.0, 1.0, 1.0))
    placed = {"things": [["n1"], ["n1"], ["n2"], ["n2"]]}
    picture = pictured(nodes, placed, {("things", 0): 300, ("things", 1): 100, ("things", 2): 100, ("things", 3): 100}, load=0.1, bytes=7)
    assert plan(picture, "rows").shares == {"n0": 300.0, "n1": 150.0, "n2": 150.0}
    first = plan(picture, "rows").moves[0]
    assert (first.shard, first.target) == (0, "n0")
    assert [plan(picture, by).before["n1"] for by in BY] == [400.0, 14.0, pytest.approx(0.2), 2.0]
    with pytest.raises(ValueError, match="rows, bytes, rate, replicas, not by 'size'"):
        plan(picture, "size")


def test_who_drains_is_dead_or_moves_is_left_alone() -> None:
    """Nothing is moved onto a node that drains or is silent, and no shard that moves, or lacks a replica."""
    nodes = named(4)
    placed = {"things": [["n0", "n1"]] * 6}
    picture = pictured(nodes, placed)
    picture.nodes["n3"] = Node("n3", "http://n3", draining=True)
    assert {move.target for move in plan(picture, "rows").moves} == {"n2"}
    assert {move.target for move in plan(pictured(nodes, placed, dead="n2"), "rows").moves} == {"n3"}
    assert plan(pictured(nodes, placed, dead="n1"), "rows").moves == ()
    picture = pictured(nodes, placed)
    picture.shards["uid-things", 0] = Shard(("n0", "n1"), ("n2",), ("n1",), "n0")
    assert all(move.shard != 0 for move in plan(picture, "rows").moves)


def test_near_their_share_nodes_are_left_alone() -> None:
    """Within the tolerance nothing is moved, and there are never more moves than were asked for."""
    nodes = named(2)
    picture = pictured(nodes, {"things": [["n0"]] * 11 + [["n1"]] * 9})
    assert plan(picture, "rows", tolerance=0.1).moves == ()
    assert len(plan(picture, "rows", tolerance=0.05).moves) == 1
    picture = pictured(nodes, {"things": [["n0"]] * 20})
    assert len(plan(picture, "rows", most=3).moves) == 3
    assert plan(Picture(60.0), "rows").moves == ()
