from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.errors import NoPlace
from kinbin_cluster.picture import Node
from kinbin_cluster.placement import another, place

NAMES = st.text("abcd", min_size=1, max_size=4)
NODES = st.lists(
    st.builds(Node, NAMES, st.just("http://x"), st.sampled_from(["", "r1", "r2"]), st.sampled_from([0.5, 1.0, 4.0])),
    min_size=1,
    max_size=9,
    unique_by=lambda node: node.name,
)


@given(NODES, st.integers(1, 12), st.integers(1, 4), st.text("0123456789abcdef", min_size=12, max_size=12))
def test_shards_lie_on_different_nodes(nodes: list[Node], shards: int, replicas: int, uid: str) -> None:
    """Every shard has its replicas on different nodes, in different zones as far as there are any; or placing says that it cannot be."""
    if replicas > len(nodes):
        with pytest.raises(NoPlace):
            place(uid, shards, replicas, nodes)
        return
    by_name = {node.name: node for node in nodes}
    placed = place(uid, shards, replicas, nodes)
    assert len(placed) == shards
    assert place(uid, shards, replicas, reversed(nodes)) == placed
    for names in placed:
        assert len(set(names)) == len(names) == replicas
        zones = [by_name[name].zone or name for name in names]
        assert len(set(zones)) == min(replicas, len({node.zone or node.name for node in nodes}))


@pytest.mark.parametrize(("count", "shards", "replicas"), [(3, 3, 2), (3, 12, 2), (5, 10, 3), (7, 64, 2)])
def test_load_is_even(count: int, shards: int, replicas: int) -> None:
    """No node of one weight holds more replicas than its share, rounded up, and so none holds much less."""
    nodes = [Node(f"n{number}", "http://x") for number in range(count)]
    for uid in range(30):
        load = Counter(name for names in place(f"{uid:012x}", shards, replicas, nodes) for name in names)
        share = math.ceil(shards * replicas / count)
        assert max(load.values()) <= share
        assert min(load[node.name] for node in nodes) >= share - (share * count - shards * replicas)


def test_weights_count() -> None:
    """A node of four times the weight holds about four times as much."""
    nodes = [Node("large", "http://x", weight=4.0), *(Node(f"n{number}", "http://x") for number in range(4))]
    load = Counter(name for uid in range(200) for names in place(f"{uid:012x}", 4, 1, nodes) for name in names)
    assert 3 < load["large"] / (sum(load.values()) - load["large"]) * 4 < 5


def test_draining_nodes_take_nothing() -> None:
    """No shard is placed on a node that is draining, first or later."""
    nodes = [Node(name, "http://x") for name in "abc"]
    nodes[0] = replace(nodes[0], draining=True)
    assert {name for names in place("0" * 12, 8, 2, nodes) for name in names} == {"b", "c"}
    assert another("0" * 12, 0, [nodes[1]], nodes, {}) == nodes[2]
    assert another("0" * 12, 0, nodes[1:], nodes, {}) is None


def test_one_more_node_moves_few_shards() -> None:
    """Where another node comes, most replicas of a new placement lie where they lay."""
    nodes = [Node(f"n{number}", "http://x") for number in range(9)]
    stayed = total = 0
    for uid in range(40):
        before, after = place(f"{uid:012x}", 6, 2, nodes[:8]), place(f"{uid:012x}", 6, 2, nodes)
        stayed += sum(len(set(one) & set(two)) for one, two in zip(before, after, strict=True))
        total += 12
    assert stayed / total > 0.6


def test_another_replica_goes_to_another_zone_and_the_least_loaded() -> None:
    """A lost replica is made anew in a zone that has none, where least lies; elsewhere only if there is no such zone."""
    nodes = [Node("a", "http://x", "r1"), Node("b", "http://x", "r1"), Node("c", "http://x", "r2"), Node("d", "http://x", "r2", weight=2.0)]
    assert another("0" * 12, 0, [nodes[0]], nodes, {"c": 1, "d": 3, "b": 0}) == nodes[2]
    assert another("0" * 12, 0, [nodes[0]], nodes, {"c": 2, "d": 3, "b": 0}) == nodes[3]
    assert another("0" * 12, 0, [nodes[0]], nodes[:2], {}) == nodes[1]
