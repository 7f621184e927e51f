"""Walks over graphs in arrays, for the tests of links: called with named arguments, in work space that has to be left clear."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.nodes import Probe, probe_node, release_probe
from kinbin.links.graph import Graph
from kinbin.links.walk import EMPTY, enter, leave, look_around, walk_on, walk_to, widen
from kinbin.native.jit import strict
from kinbin.native.memory import address_of
from kinbin.rows.scratch import BYTES, PACKED, Scratch, walk_of

__all__ = ["arrays_of", "space_for", "walk", "walk_and_look", "walk_and_widen", "walk_from_node"]


@strict
def _walk(graph, address, norm, skips, size, scratch, table):  # type: ignore[no-untyped-def]
    return walk_to(graph[0], Probe(np.uint64(address), table, np.float32(norm)), skips, size, walk_of(scratch[0]))


@strict
def _walk_from_node(graph, node, size, scratch, table):  # type: ignore[no-untyped-def]
    found = walk_to(graph[0], probe_node(graph[0], node, table), (0, 0), size, walk_of(scratch[0]))
    release_probe(graph[0], node, table)
    return found


@strict
def _walk_and_widen(graph, address, sizes, scratch, between):  # type: ignore[no-untyped-def]
    size, wider = sizes
    probe, walk = Probe(np.uint64(address), None, np.float32(1.0)), walk_of(scratch[0])
    met = enter(graph[0], probe, (0, 0), size, walk)
    met, sound = walk_on(graph[0], probe, size, 0, walk, met)
    place = widen(graph[0], walk, size, wider, met)
    for x in range(wider):
        between[x] = walk.pool[x]
    seen, still_sound = walk_on(graph[0], probe, wider, place, walk, met)
    leave(walk, seen, still_sound, (0, 0))
    return met, seen, sound and still_sound


@strict
def _walk_and_look(graph, code, skips, size, count, scratch):  # type: ignore[no-untyped-def]
    address, norm = code
    probe, walk = Probe(np.uint64(address), None, np.float32(norm)), walk_of(scratch[0])
    met = enter(graph[0], probe, skips, size, walk)
    met, sound = walk_on(graph[0], probe, size, 0, walk, met)
    seen, place = look_around(graph[0], probe, count, (size, size), walk, met)
    seen, still_sound = walk_on(graph[0], probe, size, place, walk, seen)
    leave(walk, seen, sound and still_sound, skips)
    return sound and still_sound


def space_for(nodes: int, pool: int) -> Scratch:
    """Work space of walks over so many nodes."""
    scratch = Scratch(wide=False)
    scratch.walk(nodes, pool, BYTES)
    return scratch


def arrays_of(scratch: Scratch) -> dict[str, NDArray[Any]]:
    """The arrays of work space by name: pool, visited, listed and others."""
    return scratch._kept


def walk(
    graph: Graph, code: NDArray[np.uint8], norm: float, size: int, *, skip: range = range(0), scratch: Scratch | None = None
) -> tuple[list[int], bool]:
    """(keys of the nodes that a walk from a code pools, nearest first; whether it was sound). All marks are cleared."""
    scratch = scratch or space_for(len(graph.codes), size)
    keep: list[object] = []
    _, sound = _walk(graph.record(keep), address_of(code), norm, (skip.start, skip.stop), size, scratch.record, None)
    arrays = arrays_of(scratch)
    assert not arrays["visited"].any(), "marks were left behind"
    return [int(key) for key in arrays["pool"][:size] if key != EMPTY], bool(sound)


def walk_from_node(graph: Graph, node: int, size: int, scratch: Scratch) -> NDArray[np.uint64]:
    """The keys that a walk from a node's own code pools."""
    keep: list[object] = []
    table = scratch.table_for(graph.layout)
    _, sound = _walk_from_node(graph.record(keep), node, size, scratch.record, table)
    assert sound
    assert table is None or graph.layout != PACKED or not table[:-2].any(), "the table was not left clear"
    return arrays_of(scratch)["pool"][:size].copy()


def walk_and_widen(
    graph: Graph, code: NDArray[np.uint8], size: int, wider: int, scratch: Scratch
) -> tuple[int, int, bool, NDArray[np.uint64]]:
    """A walk, widened once: (nodes met by then, in all, whether all was sound, the pool as it was when it had been widened)."""
    between = np.empty(wider, np.uint64)
    keep: list[object] = []
    met, seen, sound = _walk_and_widen(graph.record(keep), address_of(code), (size, wider), scratch.record, between)
    return int(met), int(seen), bool(sound), between


def walk_and_look(
    graph: Graph, code: NDArray[np.uint8], norm: float, size: int, count: int, *, skip: range = range(0)
) -> tuple[list[int], bool]:
    """(keys that are pooled by a walk, a look at `count` nodes, and the walk from there, nearest first; whether it was sound)."""
    scratch = space_for(len(graph.codes), size)
    keep: list[object] = []
    at = address_of(code), np.float32(norm)
    sound = _walk_and_look(graph.record(keep), at, (skip.start, skip.stop), size, count, scratch.record)
    arrays = arrays_of(scratch)
    assert not arrays["visited"].any(), "marks were left behind"
    return [int(key) for key in arrays["pool"][:size] if key != EMPTY], bool(sound)
