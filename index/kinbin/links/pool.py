"""Walks over the links of rows that were made of objects, for the objects themselves: a pool by codes, then exact distances."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.codes.nodes import clear_probe, fill_probe, nodes_of
from kinbin.links.search import BROKEN, GONE, locate
from kinbin.links.walk import EMPTY, node_of, walk_to
from kinbin.native.jit import inline, strict
from kinbin.native.memory import prefetch, u32_at
from kinbin.rows.asked import answers_to, asked_of, count_up, left_out
from kinbin.rows.scratch import walk_of
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import CORRUPT, answers_are_sound, is_masked, prefetch_offset, prefetch_row, row_place
from kinbin.spaces.native import clear_query, fill_query, look_for, rules_of, score_row

__all__ = ["search_pool"]

U64 = np.uint64
_AHEAD = 4
"""Rows of a pool that are on their way while one is scored."""


@inline
def _fetch(segments, graph, key, record):
    """Ask for where the row of a pooled node begins, or for its record."""
    run, row = locate(segments, np.int64(u32_at(graph.places + U64(4 * node_of(key)))))
    if run >= 0:
        if record:
            prefetch_row(segments[run], row)
        else:
            prefetch_offset(segments[run], row)


@inline
def _score_objects(segments, graph, pool, query, scratch, least, best):
    """Offer the objects of a pool, the nearest codes first. Returns how many were scored, -1 if one is damaged."""
    count = 0
    while count < len(pool) and pool[count] != EMPTY:
        prefetch(graph.places + U64(4 * node_of(pool[count])))
        count += 1
    scored = 0
    look_for(scratch, least)
    for x in range(-2 * _AHEAD, count):
        if x + 2 * _AHEAD < count:
            _fetch(segments, graph, pool[x + 2 * _AHEAD], False)
        if 0 <= x + _AHEAD < count:
            _fetch(segments, graph, pool[x + _AHEAD], True)
        if x < 0:
            continue
        place = np.int64(u32_at(graph.places + U64(4 * node_of(pool[x]))))
        if place == GONE:
            continue
        run, row = locate(segments, place)
        if run < 0 or is_masked(segments[run], row):
            continue
        address, room = row_place(segments[run], row)
        score, sound = score_row(query, address, room)
        if not sound:
            return -1
        scored += 1
        if score >= least and score >= best.scores[-1]:
            offer(best, score, run, row)
            look_for(scratch, max(least, best.scores[-1]))
    return scored


@strict
def search_pool(space, segments, links, embedded, queries, scratch, table, answers):
    """Answer m queries by the objects of a pool each: the best by their exact distances.

    space: a record of `SPACE`, of the objects; segments (R,) of `RUN`, the fresh rows' last; links: of `GRAPH`, over rows that were
    made of objects, with the places of these; embedded: of `QUERIES`, the rows of the queries, with the `pool` of their walks;
    queries: of `QUERIES`, the objects; scratch: of `SCRATCH`, clear; table: `rows.scratch.Table`, clear; answers: of `ANSWERS`.
    Returns flags. Cost: that of a walk, and of a distance for each of the pool, most of them cut short.
    """
    graph, rules = nodes_of(links[0]), rules_of(space[0])
    asked, objects, walk = asked_of(embedded[0]), asked_of(queries[0]), walk_of(scratch[0])
    size, least = embedded[0].pool, queries[0].least
    all_flags = 0
    for m in range(queries[0].count):
        a, b = asked.indptr[m], asked.indptr[m + 1]
        features, values = asked.features[a:b], asked.values[a:b]
        probe, _ = fill_probe(graph, features, values, asked.norms[m], scratch[0], table)
        seen, sound = walk_to(graph, probe, left_out(embedded[0], m), size, walk)
        clear_probe(features, values, table)
        best = answers_to(answers[0], m)
        reset(best)
        a, b = objects.indptr[m], objects.indptr[m + 1]
        features = objects.features[a:b]
        query = fill_query(rules, scratch, features, objects.values[a:b], objects.norms[m])
        scored = _score_objects(segments, graph, walk.pool[:size], query, scratch, least, best)
        clear_query(query, features)
        flags = (0 if sound else BROKEN) | (CORRUPT if scored < 0 else 0)
        if flags == 0 and not answers_are_sound(segments, scratch[0].wide != 0, best):
            flags |= CORRUPT
        count_up(answers[0], m, seen, max(scored, 0), flags)
        all_flags |= flags
    return all_flags
