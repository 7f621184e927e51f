"""The graph over codes: well formed after every change, all of it within reach, and walked the same way every time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from coded import WIDTH, codes_of
from kinbin.codes.table import Codes
from kinbin.links.graph import ENTRIES, LINKS, Graph
from kinbin.links.walk import EMPTY, _spread, reach
from kinbin.rows.scratch import MOST_LINKS, SCRATCH, Scratch
from walking import arrays_of, space_for, walk, walk_and_look, walk_and_widen


def built(codes: NDArray[np.uint8], *, shapes: bool = True, seed: int = 0) -> Graph:
    """A graph of all codes."""
    norms = np.random.default_rng(seed).lognormal(0, 0.3, len(codes)).astype(np.float32)
    graph = Graph.empty(Codes.of_bytes(codes), norms, 0.001, shapes)
    assert graph.insert(np.arange(len(codes)), lambda done: True)
    graph.join_strays()
    return graph


def assert_well_formed(graph: Graph) -> None:
    """Lists name other nodes that are there, each once, and no more of them than there may be."""
    nodes = len(graph.codes)
    assert graph.links.shape == (nodes, 1 + 2 * LINKS)
    assert 2 * LINKS <= MOST_LINKS
    for node, (degree, *links) in enumerate(graph.links.tolist()):
        assert degree <= 2 * LINKS
        own = links[:degree]
        assert len(set(own)) == len(own), f"node {node} has a link twice"
        assert node not in own, f"node {node} has a link to itself"
        assert all(other < nodes for other in own)
    assert 0 < len(graph.entries) <= ENTRIES
    assert len(set(graph.entries.tolist())) == len(graph.entries)
    assert (graph.entries < nodes).all()


def within_reach(graph: Graph) -> int:
    """Nodes that links lead to from the entries."""
    reached = np.zeros(len(graph.codes), np.uint8)
    count = reach(graph.links, graph.entries, reached, np.empty(len(graph.codes), np.int64))
    assert count == reached.sum()
    return int(count)


def walked(
    graph: Graph, code: NDArray[np.uint8], norm: float, pool: int, skip: range = range(0), space: Scratch | None = None
) -> list[int]:
    """The nodes that a walk pools, nearest first."""
    keys, sound = walk(graph, code, norm, pool, skip=skip, scratch=space)
    assert sound
    assert keys == sorted(keys)
    return [node_of_key(key) for key in keys]


def node_of_key(key: int) -> int:
    """The node of a key of a pool."""
    return (key & 0xFFFFFFFF) >> 1


@pytest.mark.parametrize("shapes", [True, False])
def test_looking_around_finds_what_no_link_leads_to(shapes: bool) -> None:
    """Without links a walk knows the entries alone; one that looks at all nodes pools the nearest of all, but for those left out."""
    codes, queries = codes_of(900), codes_of(8, seed=3)
    graph = built(codes, shapes=shapes)
    graph.links[:, 0] = 0
    wide = len(codes)
    for query in queries:
        everything, sound = walk_and_look(graph, query, 1.0, wide, wide)
        assert sound
        assert sorted(node_of_key(key) for key in everything) == list(range(wide))
        assert everything == sorted(everything)
        some, _ = walk_and_look(graph, query, 1.0, 24, wide)
        assert some == everything[:24]
        alone, _ = walk(graph, query, 1.0, 24)
        assert {node_of_key(key) for key in alone} <= set(graph.entries.tolist())
        assert walk_and_look(graph, query, 1.0, 24, 0)[0] == alone
        few, _ = walk_and_look(graph, query, 1.0, wide, 100)
        assert len(graph.entries) < len(few) <= len(graph.entries) + 100
        left, _ = walk_and_look(graph, query, 1.0, wide, wide, skip=range(100, 300))
        assert left == [key for key in everything if not 100 <= node_of_key(key) < 300]


@pytest.mark.parametrize("nodes", [1, 7, 1_000, 100_003])
def test_nodes_that_are_looked_at_are_spread(nodes: int) -> None:
    """One of each stretch, none twice, and not at one distance: rows that repeat with a period are not all of a kind."""
    for count in {1, min(nodes, 5), min(nodes, 997)}:
        step = nodes // count
        looked = [int(_spread.py_func(np.uint64(x), np.uint64(step))) for x in range(count)]
        assert all(x * step <= node < (x + 1) * step <= nodes for x, node in enumerate(looked))
        if step > 50 and count > 100:
            assert len({node % 50 for node in looked}) == 50


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 65, 2_100])
def test_a_graph_is_well_formed_and_connected(n: int, shapes: bool) -> None:
    """However many nodes: lists are sound, and every node is within reach of the entries."""
    graph = built(codes_of(n), shapes=shapes)
    assert_well_formed(graph)
    assert within_reach(graph) == n


def test_a_walk_finds_the_nearest() -> None:
    """A walk with a wide pool finds nearly all of the nearest codes; each node finds itself, unless it is left out."""
    codes, queries = codes_of(2_000), codes_of(60, seed=0)[::-1].copy()
    graph = built(codes)
    hits = 0
    for query in queries:
        distance = np.abs(codes.astype(int) - query.astype(int)).sum(axis=1)
        kth = np.sort(distance)[9]
        hits += (distance[walked(graph, query, 1.0, 100)[:10]] <= kth).sum()
    assert hits / (10 * len(queries)) > 0.98
    for node in range(0, 2_000, 97):
        assert node in walked(graph, codes[node], 1.0, 32)[:1]
        assert node not in walked(graph, codes[node], 1.0, 32, skip=range(node, node + 1))
        left_out = range(max(node - 5, 0), node + 9)
        assert not set(left_out) & set(walked(graph, codes[node], 1.0, 32, skip=left_out))


def test_a_wider_pool_is_no_worse() -> None:
    """The nearest nodes of a wide walk are at least as near as those of a narrow one, in the mean."""
    codes = codes_of(2_000)
    graph = built(codes)
    queries = codes_of(80, seed=5)
    means = []
    for pool in (10, 40, 160):
        near = [walked(graph, query, 1.0, pool)[:10] for query in queries]
        means.append(
            np.mean([np.abs(codes[nodes].astype(int) - query.astype(int)).sum() for nodes, query in zip(near, queries, strict=True)])
        )
    assert means[0] >= means[1] >= means[2]


def test_walks_and_graphs_are_the_same_every_time() -> None:
    """The same nodes give the same graph to the last link, and a walk the same pool, with fresh work space or used."""
    codes = codes_of(2_200)
    one, other = built(codes), built(codes)
    np.testing.assert_array_equal(one.links, other.links)
    np.testing.assert_array_equal(one.entries, other.entries)
    space = space_for(2_200, 64)
    for query in codes_of(30, seed=3):
        fresh = walked(one, query, 1.0, 64)
        assert walked(one, query, 1.0, 64, space=space) == fresh
        assert walked(one, query, 1.0, 64, space=space) == fresh


def test_a_walk_that_can_list_no_more_ends() -> None:
    """Where more nodes would be met than can be listed, the walk ends with those it met, and all marks are cleared."""
    codes = codes_of(1_500)
    graph = built(codes)
    query = codes_of(1, seed=9)[0]
    small = space_for(1_500, 1_500)
    room = 2 * MOST_LINKS + 2 + 200
    SCRATCH.fill(small.record, listed_size=room)
    met = walked(graph, query, 1.0, 1_500, space=small)
    assert 200 <= len(met) <= room
    assert len(walked(graph, query, 1.0, 1_500)) == 1_500


@pytest.mark.parametrize(("size", "wider"), [(1, 2), (10, 11), (10, 80), (40, 400)])
def test_a_widened_walk_goes_on_from_what_it_met(size: int, wider: int) -> None:
    """A widened pool holds the nearest of all nodes met so far, and in the end those that a walk as wide finds, or as near ones."""
    codes = codes_of(3_000)
    graph = built(codes)
    space = space_for(3_000, wider)
    arrays = arrays_of(space)
    sums = []
    for query in codes_of(40, seed=4):
        met, seen, sound, between = walk_and_widen(graph, query, size, wider, space)
        assert sound
        assert not arrays["visited"].any()
        listed, pool = arrays["listed"], arrays["pool"]
        assert len(set(listed[:seen].tolist())) == seen, "no node is met twice"
        nearest = np.sort(listed[:met])[:wider]
        np.testing.assert_array_equal(between[: len(nearest)] >> np.uint64(1), nearest >> np.uint64(1))
        assert (between[len(nearest) :] == EMPTY).all()
        assert (pool[:wider] & np.uint64(1) == 1).all(), "a node of the pool was not opened"
        nodes = [node_of_key(key) for key in pool[:wider].tolist()]
        straight = walked(graph, query, 1.0, wider)
        assert len(set(nodes)) == wider
        sums.append([np.abs(codes[some].astype(int) - query.astype(int)).sum() for some in (nodes, straight)])
    widened, at_once = np.mean(sums, axis=0)
    assert widened <= 1.01 * at_once


def test_inserting_more(rng: np.random.Generator) -> None:
    """Nodes put into a graph that is there already are linked like those before them, and found; it stays well formed."""
    codes = codes_of(2_000)
    graph = Graph.empty(Codes.of_bytes(codes), np.ones(2_000, np.float32), 0.001, True)
    order = rng.permutation(2_000)
    assert graph.insert(order[:1_200], lambda done: True)
    entries = graph.entries.copy()
    assert graph.insert(order[1_200:], lambda done: True)
    graph.join_strays()
    np.testing.assert_array_equal(graph.entries, entries)
    assert_well_formed(graph)
    assert within_reach(graph) == 2_000
    assert np.mean([walked(graph, codes[node], 1.0, 32)[0] == node for node in order[1_200:1_400]]) > 0.98


def test_inserting_can_be_ended() -> None:
    """Whoever is told of the progress ends it: nodes come in pieces, none after the word."""
    graph = Graph.empty(Codes.of_bytes(codes_of(5_000)), np.ones(5_000, np.float32), 0.001, True)
    told: list[int] = []

    def going_on(done: int) -> bool:
        told.append(done)
        return done < 2_048

    assert not graph.insert(np.arange(5_000), going_on)
    assert told == [*range(0, 2_049, 256)]
    assert (graph.links[:, 0] > 0).sum() == 2_048


@pytest.mark.parametrize("count", [40, 256, 3_000])
def test_inserting_can_be_gone_on_with(count: int) -> None:
    """An insertion that was ended at any look, and gone on with, gives the graph that it would have given at once."""
    codes = codes_of(count)
    straight = Graph.empty(Codes.of_bytes(codes), np.ones(count, np.float32), 0.001, True)
    assert straight.insert(np.arange(count), lambda done: True)
    graph = Graph.empty(Codes.of_bytes(codes), np.ones(count, np.float32), 0.001, True)
    last, turns = 0, 0

    def going_on(done: int) -> bool:
        nonlocal last
        new, last = done != last or turns == 0, done
        return not new

    while not graph.insert(np.arange(count), going_on, last):
        turns += 1
        assert turns <= count // 256 + 2
    assert turns >= count // 256
    np.testing.assert_array_equal(graph.links, straight.links)
    np.testing.assert_array_equal(graph.entries, straight.entries)


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_thinned_graph(share: float, shapes: bool, rng: np.random.Generator) -> None:
    """Without some of its nodes, and with new ones put in, a graph is well formed, within reach, and finds what it should."""
    codes = codes_of(2_000)
    graph = built(codes, shapes=shapes)
    kept = rng.random(2_000) >= share
    total = int(kept.sum()) + 200
    # Old nodes under new numbers, in order, with new nodes among them.
    places = np.sort(rng.permutation(total)[: int(kept.sum())])
    renamed = np.full(2_000, -1)
    renamed[kept] = places
    new = np.setdiff1d(np.arange(total), places)
    more = np.empty((total, WIDTH), np.uint8)
    more[places], more[new] = codes[kept], codes_of(200, seed=7)
    norms = np.ones(total, np.float32)
    norms[places] = graph.norms[kept]
    thinned = graph.thinned(Codes.of_bytes(more), norms, renamed)
    assert_well_formed(thinned)
    assert (thinned.links[new, 0] == 0).all(), "new nodes are not linked yet"
    assert set(thinned.entries.tolist()) <= set(places.tolist())
    assert thinned.insert(new, lambda done: True)
    thinned.join_strays()
    assert_well_formed(thinned)
    assert within_reach(thinned) == total
    assert np.mean([node in walked(thinned, more[node], float(norms[node]), 32) for node in range(0, total, 9)]) > 0.98


def test_a_graph_that_loses_its_entries() -> None:
    """A graph whose entries are all taken out gets others among those that stay."""
    graph = built(codes_of(500))
    renamed = np.full(500, -1)
    stay = np.setdiff1d(np.arange(500), graph.entries)
    renamed[stay] = np.arange(len(stay))
    thinned = graph.thinned(graph.codes.take(stay), graph.norms[stay], renamed)
    thinned.join_strays()
    assert_well_formed(thinned)
    assert within_reach(thinned) == len(stay)


def hardly_different() -> NDArray[np.uint8]:
    """Codes that differ in three bytes, by one."""
    differences = np.random.default_rng(0).integers(0, 2, (1_000, WIDTH)) * (np.arange(WIDTH) < 3)
    return (77 + differences).astype(np.uint8)


EQUAL: dict[str, Callable[[], NDArray[np.uint8]]] = {
    "a thousand equal codes": lambda: np.full((1_000, WIDTH), 77, np.uint8),
    "a thousand equal codes among others": lambda: np.concatenate([codes_of(1_000), np.full((1_000, WIDTH), 77, np.uint8)]),
    "ten codes a hundred times": lambda: np.repeat(codes_of(10), 100, axis=0),
    "a thousand codes that hardly differ": hardly_different,
}


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("name", EQUAL)
def test_equal_codes_stay_within_reach(name: str, shapes: bool) -> None:
    """Nodes with the same code, however many, hide each other from nobody: all are within reach."""
    graph = built(EQUAL[name](), shapes=shapes)
    assert_well_formed(graph)
    assert within_reach(graph) == len(graph.codes)


def test_strays_are_joined() -> None:
    """A node that no link leads to is linked from one of its own neighbours, and whatever it leads to comes with it."""
    graph = built(codes_of(300))
    strays = [node for node in range(300) if node not in graph.entries][:3]
    for row in graph.links:
        own = [int(other) for other in row[1 : 1 + row[0]] if other not in strays]
        row[0] = len(own)
        row[1 : 1 + len(own)] = own
    for stray in strays:
        own = [node for node in range(300) if node not in strays][:4]
        graph.links[stray, 0], graph.links[stray, 1:5] = 4, own
    assert within_reach(graph) == 297
    assert graph.join_strays() == 3
    assert within_reach(graph) == 300
    assert graph.join_strays() == 0


@pytest.mark.parametrize("shift", [4, 12])
def test_packed_links_are_the_links(shift: int) -> None:
    """What is stored of the links, read back by place and number, is what they are."""
    graph = built(codes_of(300))
    offsets = np.empty(300, np.uint32)
    blocks = list(graph.packed(shift, offsets))
    assert len(blocks) == -(-300 >> shift)
    for node in range(300):
        block, place = blocks[node >> shift], int(offsets[node])
        degree = int(block[place])
        assert block[place + 1 : place + 1 + degree].tolist() == graph.links[node, 1 : 1 + degree].tolist()
        assert degree == graph.links[node, 0]
    assert sum(map(len, blocks)) == 300 + int(graph.links[:, 0].sum())


def test_links_out_of_bounds_are_not_followed() -> None:
    """A walk that meets a link to a node that is not there ends, says so, and leaves its work space clean."""
    codes = codes_of(300)
    graph = built(codes)
    graph.links[:, 1] = 300
    _, sound = walk(graph, codes[0], 1.0, 32)
    assert not sound
