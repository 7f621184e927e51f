"""Links and codes over the stored rows: walks whose nodes are scored exactly, and the scan that codes shorten.

A node of a link set is a row that lies in some run now (its *place*: rows of the runs before, plus its local
row), or is gone. Places, not the links, say where a row is: so runs may be merged without touching links.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.codes.folded import LANES, code_distance, estimated_similarity
from kinbin.codes.nodes import CODE_LINES, CODE_SHIFT, NODES, WIDTH, clear_probe, code_address, fill_probe, node_distance, node_norm
from kinbin.codes.packed import clear_slots, fill_slots
from kinbin.links.walk import EMPTY, enter, leave, node_of, walk_on, widen
from kinbin.native.jit import inline, strict
from kinbin.native.memory import prefetch
from kinbin.rows.lookup import clear_lookup, fill_lookup
from kinbin.rows.record import similarity_at
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import BASE, CORRUPT, ROWS, answers_are_sound, is_masked, prefetch_offset, prefetch_row, row_place

__all__ = ["BROKEN", "GONE", "grown_pool", "place_rows", "scan_codes", "search_links"]

U64 = np.uint64
GONE = 0xFFFFFFFF
"""The place of a node whose row is in no run any more."""
BROKEN = 4
"""The links named a node that is not there."""
_TILE_BYTES = 262_144
_SLACK = 1e-6
"""More than float32 products take from a similarity."""
_MOST_GROWTH = 16.0
"""Of (far / similarity)³ in `grown_pool`."""
_LEAST_SIMILARITY = 1e-3
"""No query is taken to be farther from its neighbours."""
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


@inline
def _locate(descriptors, place):
    """(run, local row) of a place; run -1 if it is out of bounds."""
    for i in range(len(descriptors)):
        base = np.int64(descriptors[i, BASE])
        if base <= place < base + np.int64(descriptors[i, ROWS]):
            return i, place - base
    return -1, np.int64(0)


@inline
def _score_node(
    descriptors, places, node, wide, normalised, query_norm, cells, keys, weights, least, sims, runs, rows
):  # fmt: skip
    """Offer a node's row, scored exactly. Returns 1 if it was scored, 0 if it may not be answered, -1 if it is damaged."""
    place = np.int64(places[node])
    if place == GONE:
        return 0
    run, row = _locate(descriptors, place)
    if run < 0 or is_masked(descriptors[run], row):
        return 0
    address, room = row_place(descriptors[run], row)
    similarity = -1.0
    if room > 0:
        similarity = similarity_at(address, room, wide, normalised, query_norm, cells, keys, weights)
    if not similarity >= 0.0:
        return -1
    if similarity >= least and similarity >= sims[-1]:
        offer(sims, runs, rows, similarity, run, row)
    return 1


@inline
def _farthest(similarity):
    """The L1 distance of shapes at which two normalised rows are so similar."""
    return 2.0 * (1.0 - similarity) / (1.0 + similarity)


@inline
def _reached(sims, least, query_error):
    """(similarity that an answer must have by now, for normalised rows the distance of codes that is too far for it)."""
    reached = max(sims[-1], least) - _SLACK
    return reached, _farthest(max(reached, 0.0)) + query_error


@inline
def _too_far(graph, node, distance, query_error, normalised, norm, reached, bound):
    """Whether a node cannot be as similar as `reached`. distance: that of its code from the query's, less its error."""
    if normalised:
        return distance > bound
    return estimated_similarity(max(0.0, distance - query_error), norm, np.float64(node_norm(graph, node, False))) < reached


@inline
def _pooled_too_far(graph, step, errors, probe, table, key, query_error, normalised, norm, reached, bound):
    """The same of a node in a pool, by its key."""
    node = node_of(key)
    steps = key >> U64(32) if normalised else U64(node_distance(graph, node, probe, table))
    return _too_far(graph, node, steps * step - errors[node], query_error, normalised, norm, reached, bound)


@inline
def _kth_by_codes(graph, step, errors, probe, table, pool, first, size, query_error, normalised, norm):
    """(what no node of a pool exceeds, from a place on; the greatest there by codes that are taken to be right): similarities."""
    most, greatest = 0.0, 0.0
    for x in range(first, size):
        node = node_of(pool[x])
        steps = pool[x] >> U64(32) if normalised else U64(node_distance(graph, node, probe, table))
        node_is = 1.0 if normalised else np.float64(node_norm(graph, node, False))
        distance = steps * step
        most = max(most, estimated_similarity(max(0.0, distance - errors[node] - query_error), norm, node_is))
        greatest = max(greatest, estimated_similarity(distance, norm, node_is))
    return most, greatest


SIZE, HARD, WIDE, FAR, GROWTH, MORE = range(6)
"""What kernels are told of the width of walks: a row of float64 (`Width.beam`)."""


@inline
def grown_pool(beam, similarity, grows):
    """How wide a walk's pool has to be for a query whose k-th answer has this similarity.

    From `hard` on it is `size`, from `far` on `wide`. Below, where walks grow, it is wider by
    (growth · (far / similarity)³ − 1) · more: neighbours that are farther lie in less of a crowd, and links lead to fewer
    of them. (A measured law: see ARCHITECTURE.) Where they do not it is `size`: such a query is completed in another way.
    """
    if similarity >= beam[HARD]:
        return int(beam[SIZE])
    if similarity >= beam[FAR]:
        return int(beam[WIDE])
    if not grows:
        return int(beam[SIZE])
    times = beam[GROWTH] * min(_MOST_GROWTH, (beam[FAR] / max(similarity, _LEAST_SIMILARITY)) ** 3)
    return int(beam[WIDE]) + int(beam[MORE] * (times - 1.0))


@inline
def _fetch_node(descriptors, places, key, record):
    """Ask for where the row of a pooled node begins, or for its record."""
    place = np.int64(places[node_of(key)])
    run, row = _locate(descriptors, place)
    # What is gone is in no run.
    if run >= 0:
        if record:
            prefetch_row(descriptors[run], row)
        else:
            prefetch_offset(descriptors[run], row)


@inline
def _score_pool(
    graph, step, errors, probe, table, query_error, norm, descriptors, places, pool, size, wide, normalised, query_norm,
    cells, keys, weights, least, sims, runs, rows,
):  # fmt: skip
    """Offer the rows of a pool, all but those that their codes prove too far. Returns how many were scored, -1 if one is damaged."""
    count = 0
    while count < size and pool[count] != EMPTY:
        prefetch(U64(places.ctypes.data) + U64(4 * node_of(pool[count])))
        prefetch(U64(errors.ctypes.data) + U64(4 * node_of(pool[count])))
        count += 1
    verified = 0
    reached, bound = _reached(sims, least, query_error)
    for x in range(-2 * _AHEAD, count):
        if x + 2 * _AHEAD < count:
            _fetch_node(descriptors, places, pool[x + 2 * _AHEAD], False)
        y = x + _AHEAD
        if 0 <= y < count and not _pooled_too_far(
            graph, step, errors, probe, table, pool[y], query_error, normalised, norm, reached, bound
        ):
            _fetch_node(descriptors, places, pool[y], True)
        if x < 0 or _pooled_too_far(graph, step, errors, probe, table, pool[x], query_error, normalised, norm, reached, bound):
            continue
        scored = _score_node(
            descriptors, places, node_of(pool[x]), wide, normalised, query_norm, cells, keys, weights, least, sims, runs, rows
        )
        if scored < 0:
            return -1
        verified += scored
        reached, bound = _reached(sims, least, query_error)
    return verified


@strict
def search_links(
    graph, step, offset, hashed, buckets, places, errors, entries, skips, beam, grows, descriptors, wide, normalised,
    indptr, features, values, norms, least,
    sums, code, table, pool, visited, listed, found, cells, keys, weights,
    out_similarity, out_run, out_row, out_compared, out_verified,
):  # fmt: skip
    """Answer m queries by walks: the best of a walk's pool by their exact scores.

    A query whose k-th answer is not very similar is walked for on, with a wider pool: beam and grows say when, see `grown_pool`.
    graph, step, offset, hashed, buckets, entries: see `links`; places (nodes,) uint32; errors (nodes,) float32, of codes; skips (m, 2):
    the nodes that each query leaves out, from the first up to the second. The others as of `search_bands`; scratch: see `WalkSpace`.
    Writes out_compared and out_verified (m,) int64. Returns flags. Cost: see `walk`, and for each row that is scored 150 to 350 ns
    (of 40 to 130 nonzeros, from memory).
    """
    flags = 0
    size, hard = int(beam[SIZE]), beam[HARD]
    for m in range(len(norms)):
        a, b = indptr[m], indptr[m + 1]
        scale = np.float32(1.0 / norms[m]) if normalised else np.float32(1.0)
        query_norm = 1.0 if normalised else norms[m]
        sims, runs, rows = out_similarity[m], out_run[m], out_row[m]
        reset(sims, runs, rows)
        probe, query_error = fill_probe(graph, features[a:b], values[a:b], norms[m], hashed, buckets, step, offset, sums, code, table)
        fill_lookup(wide, features[a:b], values[a:b], scale, cells, keys, weights)
        out_verified[m] = 0
        norm = np.float32(norms[m])
        seen = enter(
            graph, step, normalised, probe, table, norm, entries, skips[m, 0], skips[m, 1], size, pool, visited, listed, found
        )  # fmt: skip
        now, place = size, 0
        while True:
            seen, sound = walk_on(graph, step, normalised, probe, table, norm, now, place, pool, visited, listed, seen, found)
            may_grow = sound and now == size and least < hard and pool[now - 1] != EMPTY
            wider = now
            if may_grow:
                most, near = _kth_by_codes(
                    graph, step, errors, probe, table, pool, len(sims) - 1, now, np.float64(query_error), normalised, query_norm
                )
                if most < hard:
                    wider = min(len(pool), grown_pool(beam, near, grows))
            if wider == now:
                scored = _score_pool(
                    graph, step, errors, probe, table, np.float64(query_error), norms[m], descriptors, places, pool, now, wide, normalised,
                    query_norm, cells, keys, weights, least, sims, runs, rows,
                )  # fmt: skip
                out_verified[m] += max(scored, 0)
                if not sound:
                    flags |= BROKEN
                if scored < 0:
                    flags |= CORRUPT
                if may_grow and flags == 0 and sims[-1] < hard:
                    # Of one with fewer answers than were asked for it is not known how far the others are.
                    wider = min(len(pool), grown_pool(beam, sims[-1] if sims[-1] >= 0.0 else beam[FAR] - _SLACK, grows))
                if wider == now:
                    break
            place = widen(graph, pool, now, wider, listed, seen)
            now = wider
        leave(visited, listed, seen, sound, skips[m, 0], skips[m, 1])
        out_compared[m] = seen
        clear_lookup(wide, features[a:b], cells, keys)
        clear_probe(features[a:b], values[a:b], table)
        if flags == 0 and not answers_are_sound(descriptors, wide, runs, rows):
            flags |= CORRUPT
    return flags


@strict
def _scan_tile(
    graph, step, places, errors, probe, table, query_error, skip, past, first, last, descriptors, wide, normalised,
    features, values, norm, least, cells, keys, weights, sims, runs, rows,
):  # fmt: skip
    """Improve one query's answer by some nodes. Returns how many were scored, -1 if a row is damaged."""
    width = np.int64(graph[WIDTH])
    query_norm = 1.0 if normalised else norm
    reached, bound = _reached(sims, least, query_error)
    filled = False
    scored = 0
    address = code_address(graph, first)
    for node in range(first, last):
        steps = code_distance(address, probe, width) if table is None else node_distance(graph, node, probe, table)
        address += U64(width)
        if _too_far(graph, node, steps * step - errors[node], query_error, normalised, norm, reached, bound) or skip <= node < past:
            continue
        if not filled:
            fill_lookup(wide, features, values, np.float32(1.0 / norm) if normalised else np.float32(1.0), cells, keys, weights)
            filled = True
        one = _score_node(descriptors, places, node, wide, normalised, query_norm, cells, keys, weights, least, sims, runs, rows)
        if one < 0:
            scored = -1
            break
        scored += one
        reached, bound = _reached(sims, least, query_error)
    if filled:
        clear_lookup(wide, features, cells, keys)
    return scored


@strict
def scan_codes(
    graph, step, places, errors, codes, query_errors, table, skips, descriptors, wide, normalised, indptr, features, values, norms, least,
    cells, keys, weights, out_similarity, out_run, out_row, out_numbers,
):  # fmt: skip
    """Improve answers of m queries until they are exact: every node is scored that its code does not prove too far.

    The L1 distance of two rows' shapes is at least step · code distance − both errors (codes/folded.py). errors (nodes,)
    float32; codes (m, width) uint8, query_errors (m,) float32: see `Coder.probes`; table: a clear one; skips (m, 2) as of
    `search_links`; out_* hold answers already, the better the faster.
    Tiles of codes stay in the cache while all queries pass over them.
    Cost: 4 to 10 ns a node and 128 bytes of its code, 1 ns a packed entry, and 30 to 60 ns a node that is scored.
    """
    width = codes.shape[1]
    size = width if width != 0 else LANES * np.int64(graph[CODE_LINES])
    nodes = np.int64(graph[NODES])
    # A power of two, as blocks are, and no more than one: the codes of a tile lie end to end.
    per_tile = 1
    while 2 * per_tile * size <= _TILE_BYTES and 2 * per_tile <= 1 << np.int64(graph[CODE_SHIFT]):
        per_tile *= 2
    out_numbers[:, 2:] = 0
    for first in range(0, nodes, per_tile):
        for m in range(len(norms)):
            if out_numbers[m, 3] != 0:
                continue
            a, b = indptr[m], indptr[m + 1]
            probe = U64(codes.ctypes.data) + U64(m * width)
            if table is not None:
                probe = U64(table.ctypes.data)
                fill_slots(features[a:b], values[a:b], norms[m], step, table)
            scored = _scan_tile(
                graph, step, places, errors, probe, table, query_errors[m], skips[m, 0], skips[m, 1], first,
                min(first + per_tile, nodes), descriptors, wide, normalised, features[a:b], values[a:b], norms[m], least,
                cells, keys, weights, out_similarity[m], out_run[m], out_row[m],
            )  # fmt: skip
            if table is not None:
                clear_slots(features[a:b], values[a:b], table)
            if scored < 0:
                out_numbers[m, 3] = CORRUPT
            else:
                out_numbers[m, 1] += scored
    for m in range(len(norms)):
        if out_numbers[m, 3] == 0 and not answers_are_sound(descriptors, wide, out_run[m], out_row[m]):
            out_numbers[m, 3] = CORRUPT
