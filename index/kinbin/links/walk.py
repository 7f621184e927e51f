"""The pruned neighbour graph in machine code: walking it, and putting nodes in.

A node is a code and a list of links. A search keeps a pool of the nearest nodes seen, and opens the nearest
one that is not open yet: its neighbours are compared by code. A new node is linked to those of its
nearest that no nearer one of them hides (the relative-neighbourhood rule), and they back to it.

`graph` is one row of uint64 (GRAPH_FIELDS); the same kernels walk a graph that is being built in arrays and one
that lies in the store's map. Of the latter every number is checked before it is used as a place.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from kinbin.codes.folded import rank_of
from kinbin.codes.nodes import (
    LINK_SHIFT,
    LINK_WORDS,
    LINKS,
    NODES,
    OFFSETS,
    STRIDE,
    node_distance,
    node_norm,
    prefetch_code,
    probe_node,
    release_probe,
)
from kinbin.native.jit import inline, owning, strict
from kinbin.native.memory import prefetch, u32_at, u64_at

__all__ = ["EMPTY", "MOST_LINKS", "enter", "insert", "leave", "node_of", "reach", "repair", "walk", "walk_on", "widen"]

U64 = np.uint64
MOST_LINKS = 255
"""A node never has more links."""
SAME_CODE = 6
"""Links to nodes whose code is that of the node itself."""
SETTLED = 8
"""From this place of the pool on a node is opened before the codes that were asked for last are compared."""
EMPTY = U64(0xFFFFFFFFFFFFFFFF)
OPEN = U64(1)
_LOW = U64(0xFFFFFFFF)


@inline
def links_of(graph, node):
    """Address of a node's list of links and their number; -1 if the stored numbers are out of bounds."""
    if graph[STRIDE] > 0:
        address = u64_at(graph[LINKS]) + U64(4) * graph[STRIDE] * U64(node)
        return address + U64(4), np.int64(u32_at(address))
    block = U64(node) >> graph[LINK_SHIFT]
    place = np.int64(u32_at(graph[OFFSETS] + U64(4 * node)))
    words = np.int64(u64_at(graph[LINK_WORDS] + U64(8) * block))
    if place >= words:
        return U64(0), -1
    address = u64_at(graph[LINKS] + U64(8) * block) + U64(4 * place)
    degree = np.int64(u32_at(address))
    if degree > MOST_LINKS or place + 1 + degree > words:
        return U64(0), -1
    return address + U64(4), degree


@inline
def _prefetch_place(graph, node):
    """Ask for what tells where a node's links are."""
    if graph[STRIDE] == 0:
        prefetch(graph[OFFSETS] + U64(4 * node))


@inline
def _prefetch_links(graph, node):
    """Ask for a node's links."""
    if graph[STRIDE] > 0:
        address = u64_at(graph[LINKS]) + U64(4) * graph[STRIDE] * U64(node)
    else:
        block = u64_at(graph[LINKS] + U64(8) * (U64(node) >> graph[LINK_SHIFT]))
        address = block + U64(4) * U64(u32_at(graph[OFFSETS] + U64(4) * U64(node)))
    for line in range(3):
        prefetch(address + U64(64 * line))


@inline
def _next_open(pool, place, size):
    """The first place of the pool, from one on, whose node is not open yet; `size` if there is none."""
    while place < size and pool[place] & OPEN != 0:
        place += 1
    return place


@inline
def put_in(pool, size, key):
    """Put a key in its place among the first `size` of the pool, ascending; the last falls out. Returns the place."""
    y = size - 1
    # Eight at a time, which is one move: half a pool is moved for each key.
    while y >= 8 and pool[y - 8] > key:
        for z in range(8):
            pool[y - z] = pool[y - z - 1]
        y -= 8
    while y > 0 and pool[y - 1] > key:
        pool[y] = pool[y - 1]
        y -= 1
    pool[y] = key
    return y


@inline
def node_of(key):
    """The node of a key: rank in the upper half, node and the mark of an open node in the lower."""
    return np.int64((key & _LOW) >> U64(1))


@inline
def mark(visited, node):
    """Set a node's bit. Returns whether it was clear."""
    word = visited[node >> 3]
    bit = np.uint8(1 << (node & 7))
    visited[node >> 3] = word | bit
    return word & bit == 0


@inline
def _list_unseen(graph, opened, visited, listed, first):
    """List, from a place on, the neighbours of a node that were not seen yet, and mark them. Returns the place past them; -1: broken."""
    address, degree = links_of(graph, opened)
    nodes = np.int64(graph[NODES])
    past = first
    for x in range(degree):
        node = np.int64(u32_at(address + U64(4 * x)))
        if node >= nodes:
            return -1
        # No branch: nothing predicts whether a neighbour was seen. One that was is overwritten by the next.
        listed[past] = U64(node) << U64(1)
        past += np.int64(mark(visited, node))
    return past if degree >= 0 else -1


@inline
def _list_entries(graph, entries, visited, listed, first):
    """As `_list_unseen`, of nodes to begin from."""
    past = first
    for x in range(len(entries)):
        node = np.int64(entries[x])
        if node < np.int64(graph[NODES]) and mark(visited, node):
            listed[past] = U64(node) << U64(1)
            past += 1
    return past


@inline
def _compare(graph, step, normalised, probe, table, norm, listed, first, past, found, pool, size, lowest):
    """Compare the nodes listed first … past-1 with the probe and pool the nearest. Returns the lowest place of the pool that changed."""
    for x in range(first, past):
        found[x - first] = U64(node_distance(graph, node_of(listed[x]), probe, table))
    if not normalised:
        for x in range(first, past):
            found[x - first] = rank_of(found[x - first], step, False, norm, node_norm(graph, node_of(listed[x]), False))
    worst = pool[size - 1] >> U64(32)
    count = 0
    for x in range(first, past):
        rank = found[x - first]
        listed[x] |= rank << U64(32)
        found[count] = listed[x]
        count += np.int64(rank < worst)
    for x in range(count):
        if found[x] < pool[size - 1]:
            _prefetch_place(graph, node_of(found[x]))
            lowest = min(lowest, put_in(pool, size, found[x]))
    return lowest


@inline
def enter(graph, step, normalised, probe, table, norm, entries, skip, past, size, pool, visited, listed, found):
    """Begin a walk: a pool of `size` that holds the nearest entries. Nodes skip … past-1 are left out. Returns how many are listed."""
    pool[:size] = EMPTY
    for node in range(skip, past):
        mark(visited, node)
    seen = 0
    for begun in range(0, len(entries), MOST_LINKS):
        if seen + MOST_LINKS > len(listed):
            break
        end = _list_entries(graph, entries[begun : begun + MOST_LINKS], visited, listed, seen)
        _compare(graph, step, normalised, probe, table, norm, listed, seen, end, found, pool, size, size)
        seen = end
    return seen


@strict
def walk_on(graph, step, normalised, probe, table, norm, size, place, pool, visited, listed, seen, found):
    """Open the nodes of a pool, the nearest first, until all are open. Returns (nodes listed, sound).

    place: no node before it is to be opened. listed, seen: the nodes that were met so far; a walk ends where no more can be listed.
    """
    ready = seen
    ahead = np.int64(-1)
    while True:
        place = _next_open(pool, place, size)
        opened = ahead
        ahead = np.int64(-1)
        waiting = opened >= 0 or ready < seen
        if place < size and seen + 2 * MOST_LINKS + 2 <= len(listed):
            if place >= SETTLED:
                # Whatever is still on its way: this node is opened anyway. Its links come while the last codes are compared.
                ahead = node_of(pool[place])
                _prefetch_links(graph, ahead)
            elif not waiting:
                opened = node_of(pool[place])
            if ahead >= 0 or not waiting:
                pool[place] |= OPEN
                place += 1
        elif not waiting:
            return seen, True
        end = seen
        if opened >= 0:
            end = _list_unseen(graph, opened, visited, listed, seen)
            if end < 0:
                return seen, False
            for x in range(seen, end):
                prefetch_code(graph, node_of(listed[x]), table)
        past = seen
        if ahead < 0:
            # Most often the node to be opened next is known by now.
            place = _next_open(pool, place, size)
            if place < size:
                _prefetch_links(graph, node_of(pool[place]))
            past = end
        place = _compare(graph, step, normalised, probe, table, norm, listed, ready, past, found, pool, size, place)
        ready = past
        seen = end


@inline
def _holds(pool, size, key):
    """Whether a key is in a pool, as of an open node or not."""
    x = 0
    while x < size and pool[x] | OPEN != key | OPEN:
        x += 1
    return x < size


@inline
def widen(graph, pool, size, wider, listed, seen):
    """Let a pool of `size` hold `wider` nodes: the nearest of all that were listed. Returns the lowest place of the pool that changed."""
    pool[size:wider] = EMPTY
    edge = pool[size - 1] >> U64(32)
    lowest = size
    # Those that were met last are the nearest: most of the others find the pool full of nearer ones.
    for x in range(seen - 1, -1, -1):
        key = listed[x]
        rank = key >> U64(32)
        # Of nodes as near as the last of the pool some were turned away.
        if rank >= edge and key < pool[wider - 1] and not (rank == edge and _holds(pool, wider, key)):
            _prefetch_place(graph, node_of(key))
            lowest = min(lowest, put_in(pool, wider, key))
    return lowest


@inline
def leave(visited, listed, seen, sound, skip, past):
    """End a walk: clear the marks of the listed nodes, or all where that is less work or some that are marked are not listed."""
    if not sound or len(visited) < 32 * seen:
        visited[:] = 0
    else:
        for x in range(seen):
            visited[node_of(listed[x]) >> 3] = 0
    for node in range(skip, past):
        visited[node >> 3] = 0


@strict
def walk(graph, step, normalised, probe, table, norm, entries, skip, past, size, pool, visited, listed, found):
    """The `size` nodes with the nearest codes that a best-first search meets, into pool, ascending.

    probe, norm: of the query; table: see `_nodekernel`. entries: nodes to begin from. Nodes skip … past-1 are left out.
    Scratch: visited (nodes / 8 + 1,) uint8 zero (left zero), listed uint64 (see `WalkSpace`), found (512,) uint64.
    Returns (nodes compared, sound). Cost: 15 to 25 ns a node compared while codes and links lie in the processor's caches,
    30 to 50 ns where they do not (a million rows); some 300 nodes, and 8 to 28 for each of the pool.
    """
    seen = enter(graph, step, normalised, probe, table, norm, entries, skip, past, size, pool, visited, listed, found)
    seen, sound = walk_on(graph, step, normalised, probe, table, norm, size, 0, pool, visited, listed, seen, found)
    leave(visited, listed, seen, sound, skip, past)
    return seen, sound


@inline
def _key_from(graph, step, normalised, node, probe, other, table):
    """The key of a node as seen from another, whose probe this is."""
    own, others = node_norm(graph, node, normalised), node_norm(graph, other, normalised)
    return (rank_of(node_distance(graph, other, probe, table), step, normalised, own, others) << U64(32)) | (U64(other) << U64(1))


@inline
def _prune(graph, step, normalised, keys, count, most, slack, links, table):
    """Of candidates by ascending rank, choose those that no chosen one hides. links[0] becomes their number, the nodes follow.

    A candidate is hidden by a chosen node that is nearer to it (slack / 16 times as far is nearer still) than the node
    whose links these are, and by an identical one.
    Nodes with the very code of that node are all equally good: a few of them are chosen, and none hides another.
    """
    chosen = 0
    same = 0
    for x in range(count):
        node = node_of(keys[x])
        rank = keys[x] >> U64(32)
        if rank == 0:
            if same < SAME_CODE:
                links[1 + chosen] = np.uint32(node)
                chosen += 1
                same += 1
            continue
        hidden = False
        probe = probe_node(graph, node, table)
        for y in range(chosen):
            between = _key_from(graph, step, normalised, node, probe, np.int64(links[1 + y]), table) >> U64(32)
            if U64(slack) * between < U64(16) * rank or between == 0:
                hidden = True
                break
        release_probe(graph, node, table)
        if not hidden:
            links[1 + chosen] = np.uint32(node)
            chosen += 1
            if chosen == most:
                break
    links[0] = np.uint32(chosen)


@inline
def _sort(keys, count):
    """Insertion sort of some dozens of keys."""
    for x in range(1, count):
        key = keys[x]
        y = x
        while y > 0 and keys[y - 1] > key:
            keys[y] = keys[y - 1]
            y -= 1
        keys[y] = key


@inline
def _link_back(graph, step, normalised, links, node, new, slack, keys, table):
    """Add a link from an old node to a new one; a list that is full is pruned."""
    own = links[node]
    degree = np.int64(own[0])
    if degree < len(own) - 1:
        own[1 + degree] = np.uint32(new)
        own[0] = np.uint32(degree + 1)
        return
    probe = probe_node(graph, node, table)
    for x in range(degree):
        keys[x] = _key_from(graph, step, normalised, node, probe, np.int64(own[1 + x]), table)
    keys[degree] = _key_from(graph, step, normalised, node, probe, new, table)
    release_probe(graph, node, table)
    _sort(keys, degree + 1)
    _prune(graph, step, normalised, keys, degree + 1, degree, slack, own, table)
    if own[0] == degree:
        # None hides another. The farthest quarter goes, or the next new link would meet a full list again.
        own[0] = degree - degree // 4


@strict
def insert(graph, step, normalised, links, order, entries, most, slack, size, table, pool, visited, listed, found, keys):
    """Put nodes into a graph in arrays, in the given order. table: a clear one (`probe_node`).

    links (n, 1 + 2 · most) uint32: each node's number of links, then the links. entries: nodes that are in already. most: links
    that a new node gets at first. slack: see `_prune`. size: of the pool.
    Cost: one walk of this size, and half as much again for pruning.
    """
    for x in range(len(order)):
        node = np.int64(order[x])
        walk(
            graph, step, normalised, probe_node(graph, node, table), table, node_norm(graph, node, normalised), entries, node, node + 1,
            size, pool, visited, listed, found,
        )  # fmt: skip
        release_probe(graph, node, table)
        count = 0
        while count < size and pool[count] != EMPTY:
            count += 1
        _prune(graph, step, normalised, pool, count, most, slack, links[node], table)
        for y in range(np.int64(links[node, 0])):
            _link_back(graph, step, normalised, links, np.int64(links[node, 1 + y]), node, slack, keys, table)


@owning
def repair(graph, step, normalised, old, renamed, links, most, slack, keys, table):
    """Links of the nodes that stay, when others are taken out: a lost neighbour is replaced by what it led to.

    old (n, w) uint32 lists of the graph as it was; renamed (n,) int64: a node's new number, -1 if it goes. links (m, w): the
    lists under the new numbers; `graph` describes the new numbers. keys: scratch, some thousands.
    """
    for was in range(len(old)):
        node = renamed[was]
        if node < 0:
            continue
        count = 0
        lost = False
        for x in range(np.int64(old[was, 0])):
            other = renamed[old[was, 1 + x]]
            if other >= 0:
                links[node, 1 + count] = np.uint32(other)
                count += 1
            else:
                lost = True
        links[node, 0] = np.uint32(count)
        if lost:
            _relink(graph, step, normalised, old, renamed, links, was, most, slack, keys, table)


@owning
def _relink(graph, step, normalised, old, renamed, links, was, most, slack, keys, table):
    """Choose a node's links anew from the neighbours it keeps and the neighbours of all it had."""
    node = renamed[was]
    count = 0
    probe = probe_node(graph, node, table)
    for x in range(np.int64(links[node, 0])):
        keys[count] = _key_from(graph, step, normalised, node, probe, np.int64(links[node, 1 + x]), table)
        count += 1
    for x in range(np.int64(old[was, 0])):
        by_way = np.int64(old[was, 1 + x])
        for y in range(np.int64(old[by_way, 0])):
            other = renamed[old[by_way, 1 + y]]
            if other >= 0 and other != node and count < len(keys):
                keys[count] = _key_from(graph, step, normalised, node, probe, other, table)
                count += 1
    release_probe(graph, node, table)
    ranked = np.sort(keys[:count])
    distinct = 0
    for x in range(count):
        if distinct == 0 or ranked[x] != ranked[distinct - 1]:
            ranked[distinct] = ranked[x]
            distinct += 1
    _prune(graph, step, normalised, ranked, distinct, most, slack, links[node], table)


@strict
def reach(links, entries, reached, queue):
    """Mark in reached (n,) uint8 every node that links lead to from the entries; returns their number. queue (n,) int64."""
    count = 0
    for x in range(len(entries)):
        if reached[entries[x]] == 0:
            reached[entries[x]] = 1
            queue[count] = entries[x]
            count += 1
    head = 0
    while head < count:
        node = queue[head]
        head += 1
        for x in range(np.int64(links[node, 0])):
            other = np.int64(links[node, 1 + x])
            if reached[other] == 0:
                reached[other] = 1
                queue[count] = other
                count += 1
    return count
