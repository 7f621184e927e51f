"""The exact scan: every row that may be answered is scored by its stored record."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, strict
from kinbin.rows.asked import answers_to, asked_of, count_up
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import CORRUPT, answers_are_sound, is_masked, row_place
from kinbin.spaces.native import clear_query, fill_query, rules_of, score_row

__all__ = ["sample_scores", "scan"]

U64 = np.uint64


@inline
def _scan_rows(segments, query, least, best):
    """Offer every row. Returns (rows scored, whether all are sound)."""
    scored = 0
    for i in range(len(segments)):
        run = segments[i]
        for row in range(run.first, run.rows):
            if is_masked(run, row):
                continue
            address, room = row_place(run, row)
            score, sound = score_row(query, address, room)
            if not sound:
                return scored, False
            scored += 1
            if score >= least and score >= best.scores[-1]:
                offer(best, score, i, row)
    return scored, True


@strict
def scan(space, segments, queries, scratch, answers):
    """Answer m queries exactly. Returns flags. Cost: 15 to 30 ns a row and 40 nonzeros.

    space: a record of `SPACE`; segments (R,) of `RUN`; queries: of `QUERIES`; scratch: of `SCRATCH`, clear; answers: of
    `ANSWERS`.
    """
    wanted = queries[0]
    asked = asked_of(wanted)
    all_flags = 0
    for m in range(wanted.count):
        a, b = asked.indptr[m], asked.indptr[m + 1]
        features, values, norm = asked.features[a:b], asked.values[a:b], asked.norms[m]
        best = answers_to(answers[0], m)
        if wanted.more == 0:
            reset(best)
        query = fill_query(rules_of(space[0]), scratch, features, values, norm)
        scored, sound = _scan_rows(segments, query, wanted.least, best)
        clear_query(query, features)
        flags = 0 if sound and answers_are_sound(segments, query.lookup.wide, best) else CORRUPT
        count_up(answers[0], m, scored, scored, flags)
        all_flags |= flags
    return all_flags


@inline
def _put(best, score):
    """Put a score in its place among the best."""
    p = len(best) - 1
    while p > 0 and best[p - 1] < score:
        best[p] = best[p - 1]
        p -= 1
    best[p] = score


@strict
def sample_scores(space, addresses, rooms, picks, queries, scratch, histogram, best):
    """Scores of sampled rows against all given rows, to plan by.

    addresses, rooms: (n,) records; damaged ones are left out. picks (m,): which of them the m queries are (left out of
    their own sample). Writes histogram (m, B) int64 of scores over [0, 1] and best (m, k), the k best.
    """
    asked = asked_of(queries[0])
    bins = histogram.shape[1]
    for m in range(queries[0].count):
        a, b = asked.indptr[m], asked.indptr[m + 1]
        features = asked.features[a:b]
        query = fill_query(rules_of(space[0]), scratch, features, asked.values[a:b], asked.norms[m])
        best[m, :] = space[0].floor
        for i in range(len(addresses)):
            if i == picks[m]:
                continue
            score, sound = score_row(query, addresses[i], rooms[i])
            if not sound:
                # Damaged: reading the rows to build from them will tell.
                continue
            histogram[m, min(max(int(score * bins), 0), bins - 1)] += 1
            if score > best[m, -1]:
                _put(best[m], score)
        clear_query(query, features)
