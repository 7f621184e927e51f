"""The pruned neighbour graph in machine code: walking it, and putting nodes in.

A node is a code and a list of links. A search keeps a pool of the nearest nodes seen, and opens the nearest
one that is not open yet: its neighbours are compared by code. A new node is linked to those of its
nearest that no nearer one of them hides (the relative-neighbourhood rule), and they back to it.

`graph` is one record (`codes.nodes.GRAPH`); the same kernels walk a graph that is being built in arrays and one
that lies in the store's map. Of the latter every number is checked before it is used as a place.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from kinbin.codes.folded import rank_of
from kinbin.codes.nodes import distance_to, node_norm, nodes_of, prefetch_code, probe_node, rank_at, release_probe
from kinbin.native.jit import inline, inner, owning, strict
from kinbin.native.memory import move_up, prefetch, put_in_order, u32_array, u32_at, u64_at
from kinbin.native.records import Layout
from kinbin.rows.scratch import BLOCK, MOST_LINKS, walk_of

__all__ = ["BUILDING", "EMPTY", "enter", "insert", "leave", "look_around", "node_of", "reach", "repair", "walk_on", "walk_to", "widen"]

U64 = np.uint64
SAME_CODE = 6
"""Links to nodes whose code is that of the node itself."""
SETTLED = 8
"""From this place of the pool on a node is opened before the codes that were asked for last are compared."""
_AHEAD = 8
"""Codes that are on their way while one is compared."""
EMPTY = U64(0xFFFFFFFFFFFFFFFF)
OPEN = U64(1)
_LOW = U64(0xFFFFFFFF)

BUILDING = Layout(
    "BUILDING",
    most=("count", "links that a new node gets at first"),
    slack=("count", "of pruning, in sixteenths: see `_prune`"),
    size=("count", "of the pool of a new node's walk"),
)


@inline
def links_of(graph, node):
    """Address of a node's list of links and their number; -1 if the stored numbers are out of bounds."""
    if graph.stride > 0:
        address = u64_at(graph.links) + U64(4) * graph.stride * U64(node)
        return address + U64(4), np.int64(u32_at(address))
    block = U64(node) >> graph.link_shift
    place = np.int64(u32_at(graph.offsets + U64(4 * node)))
    words = np.int64(u64_at(graph.link_words + U64(8) * block))
    if place >= words:
        return U64(0), -1
    address = u64_at(graph.links + U64(8) * block) + U64(4 * place)
    degree = np.int64(u32_at(address))
    if degree > MOST_LINKS or place + 1 + degree > words:
        return U64(0), -1
    return address + U64(4), degree


@inline
def _prefetch_place(graph, node):
    """Ask for what tells where a node's links are."""
    if graph.stride == 0:
        prefetch(graph.offsets + U64(4) * U64(node))


@inline
def _prefetch_links(graph, node):
    """Ask for a node's links."""
    if graph.stride > 0:
        address = u64_at(graph.links) + U64(4) * graph.stride * U64(node)
    else:
        block = u64_at(graph.links + U64(8) * (U64(node) >> graph.link_shift))
        address = block + U64(4) * U64(u32_at(graph.offsets + U64(4) * U64(node)))
    for line in range(3):
        prefetch(address + U64(64 * line))


@inline
def _next_open(pool, place, size):
    """The first place of the pool, from one on, whose node is not open yet; `size` if there is none."""
    x = U64(place)
    while x < U64(size) and pool[x] & OPEN != 0:
        x += U64(1)
    return np.int64(x)


@inline
def clear_pool(pool, first, size):
    """Empty the places from `first` on of a pool of `size`, and those up to a whole block (`rows.scratch` has room for it)."""
    for x in range(first, size + -size % BLOCK):
        pool[x] = EMPTY


@inline
def put_in(pool, size, key):
    """Put a key, less than the last of them, in its place among the first `size` of the pool, ascending. Returns the place.

    The last falls out, of `size`: what it and others become that stand behind, up to a whole block, is never less than the last.
    """
    address = U64(pool.ctypes.data)
    x = (U64(size - 1) // U64(BLOCK)) * U64(BLOCK)
    # From the end: blocks whose first place is not the key's move as they are. Only in the last one is it asked where the key goes.
    while x > U64(0) and pool[x - U64(1)] > key:
        move_up(address + U64(8) * x)
        x -= U64(BLOCK)
    return np.int64(x) + put_in_order(address + U64(8) * x, key)


@inline
def node_of(key):
    """The node of a key: rank in the upper half, node and the mark of an open node in the lower."""
    return np.int64(_node(key))


@inline
def _node(key):
    """`node_of`, as an unsigned number: as a place it needs no look at its sign."""
    return (key & _LOW) >> U64(1)


@inline
def mark(visited, node):
    """Set a node's bit. Returns whether it was clear."""
    place = U64(node)
    word = visited[place >> U64(3)]
    bit = np.uint8(U64(1) << (place & U64(7)))
    visited[place >> U64(3)] = word | bit
    return word & bit == 0


@inline
def _list_unseen(graph, opened, walk, first):
    """List, from a place on, the neighbours of a node that were not seen yet, and mark them. Returns the place past them; -1: broken."""
    address, degree = links_of(graph, opened)
    nodes = U64(graph.nodes)
    visited, listed = walk.visited, walk.listed
    past = U64(first)
    for x in range(U64(max(degree, 0))):
        node = U64(u32_at(address + U64(4) * x))
        if node >= nodes:
            return -1
        # No branch: nothing predicts whether a neighbour was seen. One that was is overwritten by the next.
        listed[past] = node << U64(1)
        past += U64(mark(visited, node))
    return np.int64(past) if degree >= 0 else -1


@inline
def _list_entries(graph, entries, walk, first):
    """As `_list_unseen`, of nodes to begin from."""
    past = first
    for x in range(len(entries)):
        node = np.int64(entries[x])
        if node < graph.nodes and mark(walk.visited, node):
            walk.listed[past] = U64(node) << U64(1)
            past += 1
    return past


@inline
def _compare(graph, probe, walk, first, past, size, lowest):
    """Compare the nodes listed first … past-1 with the probe and pool the nearest. Returns the lowest place of the pool that changed."""
    pool, _, listed, found = walk
    some, last = U64(past - first), U64(size - 1)
    listed = listed[first:past]
    for x in range(some):
        found[x] = U64(distance_to(graph, _node(listed[x]), probe))
    if graph.shapes == 0:
        step = graph.step
        for x in range(some):
            found[x] = rank_of(found[x], step, False, probe.norm, node_norm(graph, _node(listed[x])))
    worst = pool[last] >> U64(32)
    count = U64(0)
    for x in range(some):
        rank = found[x]
        key = listed[x] | rank << U64(32)
        listed[x] = key
        found[count] = key
        count += U64(rank < worst)
    for x in range(count):
        key = found[x]
        if key < pool[last]:
            _prefetch_place(graph, _node(key))
            lowest = min(lowest, put_in(pool, size, key))
    return lowest


@inline
def enter(graph, probe, skips, size, walk):
    """Begin a walk: a pool of `size` that holds the nearest entries. Nodes skips[0] … skips[1]-1 are left out.

    Returns how many are listed.
    """
    clear_pool(walk.pool, 0, size)
    for node in range(skips[0], skips[1]):
        mark(walk.visited, node)
    entries = u32_array(graph.entries, graph.entry_count)
    seen = 0
    for begun in range(0, len(entries), MOST_LINKS):
        if seen + MOST_LINKS > len(walk.listed):
            break
        end = _list_entries(graph, entries[begun : begun + MOST_LINKS], walk, seen)
        _compare(graph, probe, walk, seen, end, size, size)
        seen = end
    return seen


@inline
def _spread(x, step):
    """A node of the x-th stretch of `step` nodes, not always in the same place of it."""
    return x * step + (((x * U64(0x9E3779B1) & _LOW) * step) >> U64(32))


@inline
def look_around(graph, probe, count, pooled, walk, seen):
    """Compare `count` nodes that are spread over the graph, and pool those that are nearer than the pool's last, to be opened.

    pooled: (size of the pool, its lowest place whose node is to be opened). Returns (nodes listed, that place now).
    """
    pool, visited, listed, _ = walk
    size, lowest = pooled
    some = min(U64(count), U64(graph.nodes))
    step = U64(graph.nodes) // max(some, U64(1))
    for x in range(some):
        prefetch_code(graph, _spread(min(x + U64(_AHEAD), some - U64(1)), step), probe.table)
        node = _spread(x, step)
        if visited[node >> U64(3)] & np.uint8(U64(1) << (node & U64(7))) != 0:
            continue
        rank = U64(distance_to(graph, node, probe))
        if graph.shapes == 0:
            rank = rank_of(rank, graph.step, False, probe.norm, node_norm(graph, node))
        key = (node << U64(1)) | rank << U64(32)
        if key < pool[size - 1] and seen < len(listed):
            mark(visited, node)
            listed[seen] = key
            seen += 1
            _prefetch_place(graph, node)
            lowest = min(lowest, put_in(pool, size, key))
    return seen, lowest


@inline
def walk_on(graph, probe, size, place, walk, seen):
    """Open the nodes of a pool, the nearest first, until all are open. Returns (nodes listed, sound).

    place: no node before it is to be opened. seen: the nodes that were listed so far; a walk ends where no more can be.
    """
    pool, listed = walk.pool, walk.listed
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
            end = _list_unseen(graph, opened, walk, seen)
            if end < 0:
                return seen, False
            for x in range(U64(seen), U64(end)):
                prefetch_code(graph, _node(listed[x]), probe.table)
        past = seen
        if ahead < 0:
            # Most often the node to be opened next is known by now.
            place = _next_open(pool, place, size)
            if place < size:
                _prefetch_links(graph, node_of(pool[place]))
            past = end
        place = _compare(graph, probe, walk, ready, past, size, place)
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
def widen(graph, walk, size, wider, seen):
    """Let a pool of `size` hold `wider` nodes: the nearest of all that were listed. Returns the lowest place of the pool that changed."""
    pool, listed = walk.pool, walk.listed
    edge = pool[size - 1] >> U64(32)
    clear_pool(pool, size, wider)
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
def leave(walk, seen, sound, skips):
    """End a walk: clear the marks of the listed nodes, or all where that is less work or some that are marked are not listed."""
    visited, listed = walk.visited, walk.listed
    if not sound or len(visited) < 32 * seen:
        visited[:] = 0
    else:
        for x in range(seen):
            visited[node_of(listed[x]) >> 3] = 0
    for node in range(skips[0], skips[1]):
        visited[node >> 3] = 0


@inner
def walk_to(graph, probe, skips, size, walk):
    """The `size` nodes with the nearest codes that a best-first search meets, into the pool, ascending.

    Nodes skips[0] … skips[1]-1 are left out. Returns (nodes compared, sound). Cost: 15 to 25 ns a node compared while codes and
    links lie in the processor's caches, 30 to 50 ns where they do not (a million rows); some 300 nodes, and 8 to 28 for each of the pool.
    """
    seen = enter(graph, probe, skips, size, walk)
    seen, sound = walk_on(graph, probe, size, 0, walk, seen)
    leave(walk, seen, sound, skips)
    return seen, sound


@inline
def _key_from(graph, probe, other):
    """The key of a node as seen from another, whose probe this is."""
    return (rank_at(graph, other, probe) << U64(32)) | (U64(other) << U64(1))


@inline
def _prune(graph, keys, count, rules, links, table):
    """Of candidates by ascending rank, choose those that no chosen one hides. links[0] becomes their number, the nodes follow.

    rules: the most that are chosen, and the slack. A candidate is hidden by a chosen node that is nearer to it (slack / 16 times as
    far is nearer still) than the node whose links these are, and by an identical one.
    Nodes with the very code of that node are all equally good: a few of them are chosen, and none hides another.
    """
    most, slack = rules
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
            between = _key_from(graph, probe, np.int64(links[1 + y])) >> U64(32)
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
def _link_back(graph, links, node, new, slack, keys, table):
    """Add a link from an old node to a new one; a list that is full is pruned."""
    own = links[node]
    degree = np.int64(own[0])
    if degree < len(own) - 1:
        own[1 + degree] = np.uint32(new)
        own[0] = np.uint32(degree + 1)
        return
    probe = probe_node(graph, node, table)
    for x in range(degree):
        keys[x] = _key_from(graph, probe, np.int64(own[1 + x]))
    keys[degree] = _key_from(graph, probe, new)
    release_probe(graph, node, table)
    _sort(keys, degree + 1)
    _prune(graph, keys, degree + 1, (degree, slack), own, table)
    if own[0] == degree:
        # None hides another. The farthest quarter goes, or the next new link would meet a full list again.
        own[0] = degree - degree // 4


@strict
def insert(graph, links, order, building, scratch, table, keys):
    """Put nodes into a graph in arrays, in the given order. table: a clear one (`probe_node`).

    graph: its entries are nodes that are in already. links (n, 1 + 2 · most) uint32: each node's number of links, then the links.
    building: a record of `BUILDING`. keys: scratch, as many as a node has links, and two.
    Cost: one walk of this size, and half as much again for pruning.
    """
    here, rules = nodes_of(graph[0]), building[0]
    walk = walk_of(scratch[0])
    most, slack, size = rules.most, rules.slack, rules.size
    for x in range(len(order)):
        node = np.int64(order[x])
        walk_to(here, probe_node(here, node, table), (node, node + 1), size, walk)
        release_probe(here, node, table)
        count = 0
        while count < size and walk.pool[count] != EMPTY:
            count += 1
        _prune(here, walk.pool, count, (most, slack), links[node], table)
        for y in range(np.int64(links[node, 0])):
            _link_back(here, links, np.int64(links[node, 1 + y]), node, slack, keys, table)


@owning
def repair(graph, old, renamed, links, building, keys, table):
    """Links of the nodes that stay, when others are taken out: a lost neighbour is replaced by what it led to.

    old (n, w) uint32 lists of the graph as it was; renamed (n,) int64: a node's new number, -1 if it goes. links (m, w): the
    lists under the new numbers; `graph` describes the new numbers. keys: scratch, some thousands.
    """
    here = nodes_of(graph[0])
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
            count = _candidates(here, old, renamed, links[node], was, keys, table)
            _relink(here, keys[:count], (building[0].most, building[0].slack), links[node], table)


@inner
def _candidates(graph, old, renamed, own, was, keys, table):
    """Keys of the neighbours that a node keeps (`own`), and of the neighbours of all it had. Returns how many."""
    node = renamed[was]
    count = 0
    probe = probe_node(graph, node, table)
    for x in range(np.int64(own[0])):
        keys[count] = _key_from(graph, probe, np.int64(own[1 + x]))
        count += 1
    for x in range(np.int64(old[was, 0])):
        by_way = np.int64(old[was, 1 + x])
        for y in range(np.int64(old[by_way, 0])):
            other = renamed[old[by_way, 1 + y]]
            if other >= 0 and other != node and count < len(keys):
                keys[count] = _key_from(graph, probe, other)
                count += 1
    release_probe(graph, node, table)
    return count


@owning
def _relink(graph, keys, rules, own, table):
    """Choose a node's links anew from candidates."""
    ranked = np.sort(keys)
    distinct = 0
    for x in range(len(ranked)):
        if distinct == 0 or ranked[x] != ranked[distinct - 1]:
            ranked[distinct] = ranked[x]
            distinct += 1
    _prune(graph, ranked, distinct, rules, own, table)


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
