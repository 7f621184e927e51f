"""Links and codes over the stored rows: walks whose nodes are scored exactly, and the scan that codes shorten.

A node of a link set is a row that lies in some run now (its *place*: rows of the runs before, plus its local
row), or is gone. Places, not the links, say where a row is: so runs may be merged without touching links.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.codes.folded import LANES
from kinbin.codes.nodes import (
    Probe,
    clear_probe,
    distance_to,
    fill_probe,
    length_of,
    near_eight,
    node_norm,
    nodes_of,
    placed_probe,
)  # fmt: skip
from kinbin.links.walk import EMPTY, enter, leave, look_around, node_of, walk_on, widen
from kinbin.native.eights import EIGHT
from kinbin.native.jit import inline, strict
from kinbin.native.memory import f32_array, f64_array, float32_at, prefetch, trailing_zeros, u32_at
from kinbin.native.records import Layout
from kinbin.rows.asked import answers_to, asked_of, count_up, left_out
from kinbin.rows.lookup import lookup_of
from kinbin.rows.scratch import walk_of
from kinbin.rows.topk import NOTHING, offer, reset
from kinbin.segments.descriptors import CORRUPT, answers_are_sound, is_masked, prefetch_offset, prefetch_row, row_place
from kinbin.spaces.native import (
    SLACK,
    Reach,
    best_score,
    clear_query,
    fill_query,
    lay_out,
    query_of,
    reach_of,
    rules_of,
    score_row,
    too_far,
)

__all__ = ["BEAM", "BROKEN", "GONE", "PROBES", "grown_pool", "locate", "place_rows", "room_for", "scan_codes", "search_links"]

U64 = np.uint64
GONE = 0xFFFFFFFF
"""The place of a node whose row is in no run any more."""
BROKEN = 4
"""The links named a node that is not there."""
_TILE_BYTES = 262_144
_MOST_GROWTH = 16.0
"""Of (far / score)³ in `grown_pool`."""
_LEAST_SHARE = 1e-3
"""No query is taken to be farther from its neighbours."""
_WAITING = 32
"""Rows that a scan asks for before it scores the first of them."""
_AHEAD = 8
"""Rows of a pool that are on their way while one is scored."""


@strict
def place_rows(nodes, runs, base, places):
    """Write the places of the nodes that are in a run: both row numbers ascend. Cost: 2 ns a row."""
    n = 0
    for row in range(len(runs)):
        while n < len(nodes) and nodes[n] < runs[row]:
            n += 1
        if n == len(nodes):
            return
        if nodes[n] == runs[row]:
            places[n] = base + row


BEAM = Layout(
    "BEAM",
    pool=("count", "nodes that a walk keeps"),
    hard=("number", "the score of a k-th answer from which on that is enough"),
    wide=("count", "the pool of a query whose k-th answer scores less"),
    far=("number", "the score down to which this is enough"),
    growth=("number", "of the pool of one below, where walks grow: see `grown_pool`"),
    more=("number", "what the pool of such a query grows by, at most so many times: see `grown_pool`"),
    grows=("count", "whether walks grow"),
    lost=("number", "the score of a k-th answer from which on a walk does not look around"),
    around=("count", "nodes, spread over all, that it compares where it does: see `look_around`"),
)
PROBES = Layout(
    "PROBES",
    codes=("u8[]", "(m, width) codes of queries"),
    errors=("f32[]", "(m,) their errors"),
    room=("f64[]", "room for what answers have to reach by now, and for rows that wait: see `room_for`"),
)


def room_for(count: int) -> NDArray[np.float64]:
    """The room that `PROBES` asks for: of each query NaN, as long as nothing is known of what it has to reach."""
    return np.full(3 * count + 2 * _WAITING, np.nan)


class _Sight(NamedTuple):
    """A query over stored rows: what nodes are judged by."""

    query: Any
    probe: Probe
    error: Any
    """Of the query's code."""


@inline
def locate(segments, place):
    """(run, local row) of a place; run -1 if it is out of bounds."""
    for i in range(len(segments)):
        base = segments[i].base
        if base <= place < base + segments[i].rows:
            return i, place - base
    return -1, np.int64(0)


@inline
def _score_node(segments, graph, node, query, least, best):
    """Offer a node's row, scored exactly. Returns 1 if it was scored, 0 if it may not be answered, -1 if it is damaged."""
    place = np.int64(u32_at(graph.places + U64(4 * node)))
    if place == GONE:
        return 0
    run, row = locate(segments, place)
    if run < 0 or is_masked(segments[run], row):
        return 0
    address, room = row_place(segments[run], row)
    score, sound = score_row(query, address, room)
    if not sound:
        return -1
    if score >= least and score >= best.scores[-1]:
        offer(best, score, run, row)
    return 1


@inline
def _error_of(graph, node):
    """The error of a node's code."""
    return float32_at(graph.errors + U64(4 * node))


@inline
def _pooled_distance(graph, key, probe):
    """What a pooled node's code is apart from the probe."""
    node = node_of(key)
    return length_of(graph, key >> U64(32) if graph.shapes != 0 else U64(distance_to(graph, node, probe)), probe.table)


@inline
def _pooled_too_far(graph, key, sight, reach):
    """Whether a pooled node cannot score what is to be reached."""
    node = node_of(key)
    distance = _pooled_distance(graph, key, sight.probe) - _error_of(graph, node)
    return too_far(sight.query.space, distance, sight.error, sight.query.norm, np.float64(node_norm(graph, node)), reach)


@inline
def _kth_by_codes(graph, sight, pool, first, size, enough):
    """(what no node of a pool exceeds, from a place on; the greatest there by codes that are taken to be right): scores.

    Once a node may score `enough` no others are looked at: most often the first does.
    """
    space = sight.query.space
    most, greatest = space.floor, space.floor
    for x in range(first, size):
        node = node_of(pool[x])
        norm = np.float64(node_norm(graph, node))
        distance = _pooled_distance(graph, pool[x], sight.probe)
        most = max(most, best_score(space, max(0.0, distance - _error_of(graph, node) - sight.error), sight.query.norm, norm))
        greatest = max(greatest, best_score(space, distance, sight.query.norm, norm))
        if most >= enough:
            break
    return most, greatest


@inline
def grown_pool(beam, score):
    """How wide a walk's pool has to be for a query whose k-th answer has this score.

    From `hard` on it is `size`, from `far` on `wide`. Below, where walks grow, it is wider by
    (growth · (far / score)³ − 1) · more: neighbours that are farther lie in less of a crowd, and links lead to fewer
    of them. (A measured law: see ARCHITECTURE.) Where they do not it is `size`: such a query is completed in another way.
    """
    if score >= beam.hard:
        return beam.pool
    if score >= beam.far:
        return beam.wide
    if beam.grows == 0:
        return beam.pool
    times = beam.growth * min(_MOST_GROWTH, (beam.far / max(score, _LEAST_SHARE * beam.far)) ** 3)
    return beam.wide + np.int64(beam.more * (times - 1.0))


@inline
def _looked_at(beam, score):
    """How many nodes a walk looks at besides for a query whose k-th answer has this score: see `look_around`.

    Below `far`, where walks do not grow, none: such a query is completed in another way.
    """
    return beam.around if score < beam.lost and (score >= beam.far or beam.grows != 0) else 0


@inline
def _fetch_node(segments, graph, node, record):
    """Ask for where the row of a node begins, or for its record."""
    place = np.int64(u32_at(graph.places + U64(4 * node)))
    run, row = locate(segments, place)
    # What is gone is in no run.
    if run >= 0:
        if record:
            prefetch_row(segments[run], row)
        else:
            prefetch_offset(segments[run], row)


@inline
def _score_pool(segments, graph, sight, pool, size, least, best):
    """Offer the rows of a pool, all but those that their codes prove too far. Returns how many were scored, -1 if one is damaged."""
    count = 0
    while count < size and pool[count] != EMPTY:
        prefetch(graph.places + U64(4 * node_of(pool[count])))
        prefetch(graph.errors + U64(4 * node_of(pool[count])))
        count += 1
    verified = 0
    bar = max(best.scores[-1], least)
    reach = reach_of(sight.query.space, bar, sight.error)
    for x in range(-2 * _AHEAD, count):
        if x + 2 * _AHEAD < count:
            _fetch_node(segments, graph, node_of(pool[x + 2 * _AHEAD]), False)
        y = x + _AHEAD
        if 0 <= y < count and not _pooled_too_far(graph, pool[y], sight, reach):
            _fetch_node(segments, graph, node_of(pool[y]), True)
        if x < 0 or _pooled_too_far(graph, pool[x], sight, reach):
            continue
        scored = _score_node(segments, graph, node_of(pool[x]), sight.query, least, best)
        if scored < 0:
            return -1
        verified += scored
        if max(best.scores[-1], least) != bar:
            # What a space says of it may take a microsecond.
            bar = max(best.scores[-1], least)
            reach = reach_of(sight.query.space, bar, sight.error)
    return verified


@inline
def _walk_wider(segments, graph, beam, sight, walk, asked, best):
    """Walk, and score the pool; a query whose k-th answer scores little is walked for on, with a wider pool, and from elsewhere.

    asked: (nodes left out, least score). Returns (nodes listed, rows scored, flags).
    """
    skips, least = asked
    seen = enter(graph, sight.probe, skips, beam.pool, walk)
    now, place, verified, flags, sound, first = beam.pool, 0, 0, 0, True, True
    kth = least
    while True:
        seen, sound = walk_on(graph, sight.probe, now, place, walk, seen)
        may_go_on = sound and first and least < beam.hard and (beam.around > 0 or walk.pool[now - 1] != EMPTY)
        wider, first, goes_on = now, False, False
        if may_go_on and walk.pool[now - 1] != EMPTY:
            most, near = _kth_by_codes(graph, sight, walk.pool, len(best.scores) - 1, now, beam.hard)
            if most < beam.hard:
                kth = near
                wider = min(len(walk.pool), grown_pool(beam, kth))
                goes_on = wider > now or _looked_at(beam, kth) > 0
        if not goes_on:
            scored = _score_pool(segments, graph, sight, walk.pool, now, least, best)
            verified += max(scored, 0)
            flags |= (0 if sound else BROKEN) | (CORRUPT if scored < 0 else 0)
            kth = best.scores[-1]
            if may_go_on and flags == 0 and kth < beam.hard:
                # Of one with fewer answers than were asked for it is not known how far the others are.
                kth = kth if kth > NOTHING else beam.far - SLACK
                wider = min(len(walk.pool), grown_pool(beam, kth))
                goes_on = wider > now or _looked_at(beam, kth) > 0
            if not goes_on:
                break
        place = widen(graph, walk, now, wider, seen) if wider > now else now
        now = wider
        seen, place = look_around(graph, sight.probe, _looked_at(beam, kth), (now, place), walk, seen)
    leave(walk, seen, sound, skips)
    return seen, verified, flags


@strict
def search_links(space, segments, links, beam, queries, scratch, table, answers):
    """Answer m queries by walks: the best of a walk's pool by their exact scores.

    space: a record of `SPACE`; segments (R,) of `RUN`, the fresh rows' last; links: of `GRAPH`; beam: of `BEAM`; queries: of
    `QUERIES`; scratch: of `SCRATCH`, clear; table: `rows.scratch.Table`, clear; answers: of `ANSWERS`.
    Returns flags. Cost: see `walk_to`, and for each row that is scored 150 to 350 ns (of 40 to 130 nonzeros, from memory).
    """
    graph, one, wanted = nodes_of(links[0]), rules_of(space[0]), queries[0]
    asked, walk = asked_of(wanted), walk_of(scratch[0])
    all_flags = 0
    for m in range(wanted.count):
        a, b = asked.indptr[m], asked.indptr[m + 1]
        features, values, norm = asked.features[a:b], asked.values[a:b], asked.norms[m]
        best = answers_to(answers[0], m)
        reset(best)
        probe, error = fill_probe(graph, features, values, norm, scratch[0], table)
        query = fill_query(one, scratch, features, values, norm)
        sight = _Sight(query, probe, np.float64(error))
        seen, verified, flags = _walk_wider(segments, graph, beam[0], sight, walk, (left_out(wanted, m), wanted.least), best)
        clear_query(query, features)
        clear_probe(features, values, table)
        if flags == 0 and not answers_are_sound(segments, scratch[0].wide != 0, best):
            flags |= CORRUPT
        count_up(answers[0], m, seen, verified, flags)
        all_flags |= flags
    return all_flags


@inline
def _reach_now(space, bar, error, known):
    """`reach_of` what an answer has to score by now; it is kept, for it may take a microsecond."""
    if known[0] != bar:
        reach = reach_of(space, bar, error)
        known[0], known[1], known[2] = bar, reach.score, reach.distance
    return Reach(known[1], known[2])


@inline
def _score_waiting(segments, graph, sight, waiting, count, least, best, known):
    """Score the rows of nodes that wait, all but those that are too far by now. Returns how many, -1 if one is damaged."""
    space, scored = sight.query.space, 0
    for x in range(count):
        _fetch_node(segments, graph, np.int64(waiting[2 * x]), True)
    for x in range(count):
        node, distance = np.int64(waiting[2 * x]), waiting[2 * x + 1]
        reach = _reach_now(space, max(best.scores[-1], least), sight.error, known)
        if too_far(space, distance, sight.error, sight.query.norm, np.float64(node_norm(graph, node)), reach):
            continue
        one = _score_node(segments, graph, node, sight.query, least, best)
        if one < 0:
            return -1
        scored += one
    return scored


@inline
def _distance_of(graph, node, probe):
    """How far a node's code is from a probe, less the code's own error."""
    return length_of(graph, distance_to(graph, node, probe), probe.table) - _error_of(graph, node)


@inline
def _near_of(graph, first, count, sight, reach):
    """A bit for each of up to eight nodes from one on, set unless its code is too far."""
    space, error, probe = sight.query.space, sight.error, sight.probe
    near = (U64(1) << U64(count)) - U64(1)
    if count == EIGHT and reach.distance < np.inf:
        near = near_eight(graph, first, probe, reach.distance)
        if space.shapes:
            return near
    waiting = near
    while waiting != U64(0):
        place = trailing_zeros(waiting)
        waiting &= waiting - U64(1)
        distance = _distance_of(graph, first + place, probe)
        if too_far(space, distance, error, sight.query.norm, np.float64(node_norm(graph, first + place)), reach):
            near &= ~(U64(1) << U64(place))
    return near


@inline
def _near_nodes(segments, graph, nodes, sight, reach, skips, waiting):
    """List nodes whose codes are not too far, as many as there is room for, and ask for their rows. Returns (how many, the next node).

    nodes: (first, the first after the last), of one tile; waiting: where each node, and how far its code is, are put.
    """
    node, last = nodes
    probe, count = sight.probe, 0
    while node < last:
        some = min(last - node, EIGHT)
        near = _near_of(graph, node, some, sight, reach)
        while near != U64(0):
            found = node + trailing_zeros(near)
            if count == _WAITING:
                return count, found
            near &= near - U64(1)
            if not skips[0] <= found < skips[1]:
                waiting[2 * count], waiting[2 * count + 1] = found, _distance_of(graph, found, probe)
                _fetch_node(segments, graph, found, False)
                count += 1
        node += some
    return count, node


@inline
def _scan_tile(segments, graph, tile, sight, asked, best):
    """Improve one query's answer by some nodes. Returns how many were scored, -1 if a row is damaged.

    tile: first node, the first after those, and room for those that wait to be scored; asked: (scratch, features, values, norm, nodes
    left out, least score, what an answer has to reach by now). Rows lie anywhere: so they are asked for some at a time, and then scored.
    """
    (first, last, waiting), (scratch, features, values, norm, skips, least, known) = tile, asked
    space, error = sight.query.space, sight.error
    scored, filled = 0, False
    while first < last:
        reach = _reach_now(space, max(best.scores[-1], least), error, known)
        count, first = _near_nodes(segments, graph, (first, last), sight, reach, skips, waiting)
        if count > 0:
            if not filled:
                lay_out(sight.query, scratch, features, values, norm)
                filled = True
            some = _score_waiting(segments, graph, sight, waiting, count, least, best, known)
            if some < 0:
                scored = -1
                break
            scored += some
    if filled:
        clear_query(sight.query, features)
    return scored


@inline
def _nodes_a_tile(graph):
    """A power of two, as blocks are, and no more than one: the codes of a tile lie end to end, and stay in the cache."""
    size = graph.width if graph.width != 0 else LANES * graph.code_lines
    nodes = 1
    while 2 * nodes * size <= _TILE_BYTES and 2 * nodes <= 1 << np.int64(graph.code_shift):
        nodes *= 2
    return nodes


@strict
def scan_codes(space, segments, links, probes, queries, scratch, table, answers):
    """Improve answers of m queries until they are exact: every node is scored that its code does not prove too far.

    Two rows are at least as far apart as their codes, less both errors (codes/folded.py, codes/units.py). probes: a record of
    `PROBES`; the others as of `search_links`; answers hold some already, the better the faster.
    Tiles of codes stay in the cache while all queries pass over them.
    Cost: 3 to 4 ns a node and 128 bytes of its code (5 to 10 under products, whose codes are compared one by one), 1 ns a packed entry,
    and 30 to 60 ns a node that is scored.
    """
    graph, rules, wanted = nodes_of(links[0]), rules_of(space[0]), queries[0]
    asked, lookup = asked_of(wanted), lookup_of(scratch[0])
    errors = f32_array(probes[0].errors, wanted.count)
    per_tile = _nodes_a_tile(graph)
    flags = 0
    for first in range(0, graph.nodes, per_tile):
        last = min(first + per_tile, graph.nodes)
        for m in range(wanted.count):
            a, b = asked.indptr[m], asked.indptr[m + 1]
            features, values, norm = asked.features[a:b], asked.values[a:b], asked.norms[m]
            probe = placed_probe(graph, features, values, norm, probes[0].codes + U64(m) * U64(graph.width), table)
            sight = _Sight(query_of(rules, scratch, lookup, norm), probe, np.float64(errors[m]))
            known = f64_array(probes[0].room + U64(24 * m), 3)
            waiting = f64_array(probes[0].room + U64(24 * wanted.count), 2 * _WAITING)
            told = scratch, features, values, norm, left_out(wanted, m), wanted.least, known
            scored = _scan_tile(segments, graph, (first, last, waiting), sight, told, answers_to(answers[0], m))
            clear_probe(features, values, table)
            if scored < 0:
                return CORRUPT
            count_up(answers[0], m, 0, scored, 0)
    for m in range(wanted.count):
        if not answers_are_sound(segments, lookup.wide, answers_to(answers[0], m)):
            flags = CORRUPT
    return flags
