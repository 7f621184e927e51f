"""The exact scan: every row that may be answered is scored by its stored record."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.calls import call_sketch
from kinbin.native.jit import inline, strict
from kinbin.native.memory import (
    absolute_differences_64,
    any_differs_64,
    greatest_difference_64,
    mask_at_least,
    prefetch,
    trailing_zeros,
    u32_array,
    u64_at,
)
from kinbin.rows.asked import answers_to, asked_of, count_up
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import CORRUPT, answers_are_sound, is_masked, prefetch_offset, prefetch_row, row_place
from kinbin.spaces.native import clear_query, fill_query, look_for, rules_of, score_row, sketched_reach

__all__ = ["sample_scores", "scan"]

U64 = np.uint64
_FEW = 8
"""Where fewer than one row in so many may be answered, they are looked for."""
_AHEAD = 8
"""Rows on their way while one is scored."""
_FIRST_NEAREST, _MOST_FIRST = 1_024, 65_536
"""From so many rows with sketches on the nearest of them, of so many at most, are scored before the others."""
_SAMPLED = 2_048
"""Rows that tell which ones these are."""


@inline
def _offer_row(segments, i, row, query, scratch, least, best):
    """Score and offer a row. Returns whether it is sound."""
    address, room = row_place(segments[i], row)
    score, sound = score_row(query, address, room)
    if sound and score >= least and score >= best.scores[-1]:
        offer(best, score, i, row)
        look_for(scratch, max(least, best.scores[-1]))
    return sound


@inline
def _of_fitting_size(run, base, size, reach):
    """A bit for each of 64 rows from a place on: whether its size differs from one by so much at most. 255 stands for more, too."""
    low, high = size - reach, size + reach
    mask = U64(0xFFFFFFFFFFFFFFFF)
    if low > 0.0:
        mask = mask_at_least(run.sizes + U64(base), np.uint8(min(low, 255.0)))
    if high < 254.0:
        mask &= ~mask_at_least(run.sizes + U64(base), np.uint8(high + 1.0))
    return mask


@inline
def _ask_for_sketches(run, base, mask):
    """Ask for the sketches of some of 64 rows: they are few and far between, and each waits for memory otherwise."""
    while mask != U64(0):
        prefetch(run.sketches + U64(64 * (base + trailing_zeros(mask))))
        mask &= mask - U64(1)


@inline
def _is_beyond(query, sketch, own, reach):
    """Whether two sketches are farther apart."""
    if query.space.sketch_greatest:
        return any_differs_64(sketch, own, np.uint8(min(reach, 255.0)))
    return absolute_differences_64(sketch, own) > reach


@inline
def _sketch_distance(query, sketch, own):
    """How far apart two sketches are; 255 stands for more, too."""
    if query.space.sketch_greatest:
        return np.uint32(greatest_difference_64(sketch, own))
    return min(absolute_differences_64(sketch, own), np.uint32(255))


@inline
def _distance_of_nearest(run, past, query, own, k):
    """How far apart the sketches of some k rows before `past` are at most, judged by a sample."""
    counts = u32_array(own + U64(64), 256)
    counts[:] = np.uint32(0)
    step = max((past - run.first) // _SAMPLED, 1)
    for row in range(run.first, past, step):
        if not is_masked(run, row):
            counts[_sketch_distance(query, run.sketches + U64(64 * row), own)] += np.uint32(1)
    found = 0
    for far in range(255):
        found += counts[far]
        if found * step >= k:
            return far
    return 255


@inline
def _offer_nearest(segments, i, past, near, query, scratch, least, best):
    """Offer rows whose sketches are near: the others meet a good answer. Returns (rows scored, whether all are sound)."""
    run, scored = segments[i], 0
    for row in range(run.first, past):
        if _is_beyond(query, run.sketches + U64(64 * row), scratch[0].sketch, near) or is_masked(run, row):
            continue
        if not _offer_row(segments, i, row, query, scratch, least, best):
            return scored, False
        scored += 1
    return scored, True


@inline
def _scan_sketches(segments, i, query, scratch, values, least, best):
    """Offer the rows of a run, all but those that sizes and sketches prove too far. Returns (rows scored, whether all are sound)."""
    run, size, own = segments[i], np.float64(len(values)), scratch[0].sketch
    call_sketch(query.space.sketch, U64(values.ctypes.data), len(values), run.frame, own)
    scored, past, near = 0, np.int64(run.first), 0
    if least <= 0.0 and run.rows - run.first >= _FIRST_NEAREST:
        past = min(np.int64(run.rows), run.first + _MOST_FIRST)
        near = _distance_of_nearest(run, past, query, own, len(best.scores))
        scored, sound = _offer_nearest(segments, i, past, near, query, scratch, least, best)
        if not sound:
            return scored, False
    reach, differ = sketched_reach(query.space, run.frame, max(least, best.scores[-1]))
    begin = run.first & ~63
    ahead = _of_fitting_size(run, begin, size, differ) if begin < run.rows else U64(0)
    for base in range(begin, run.rows, 64):
        # What is wanted by now may be nearer than when these were chosen: some are looked at for nothing.
        mask = ahead
        ahead = _of_fitting_size(run, base + 64, size, differ) if base + 64 < run.rows else U64(0)
        _ask_for_sketches(run, base + 64, ahead)
        while mask != U64(0):
            row = base + trailing_zeros(mask)
            mask &= mask - U64(1)
            if _is_beyond(query, run.sketches + U64(64 * row), own, reach):
                continue
            if row < run.first or row >= run.rows or is_masked(run, row):
                continue
            if row < past and not _is_beyond(query, run.sketches + U64(64 * row), own, near):
                continue
            if not _offer_row(segments, i, row, query, scratch, least, best):
                return scored, False
            scored += 1
            reach, differ = sketched_reach(query.space, run.frame, max(least, best.scores[-1]))
    return scored, True


@inline
def _next_living(run, row):
    """The first row from one on that may be answered; the number of rows if there is none."""
    while row < run.rows:
        living = ~u64_at(run.mask + U64((row >> 6) << 3)) >> U64(row & 63)
        if living != U64(0):
            return min(row + trailing_zeros(living), run.rows)
        row = ((row >> 6) + 1) << 6
    return run.rows


@inline
def _scan_few(segments, i, query, scratch, least, best):
    """Offer the rows of a run of which few may be answered: these are looked for ahead, so that no row waits for memory.

    Returns (rows scored, whether all are sound).
    """
    run = segments[i]
    row = _next_living(run, np.int64(run.first))
    placed, asked = row, row
    for _ in range(2 * _AHEAD):
        if placed < run.rows:
            prefetch_offset(run, placed)
            placed = _next_living(run, placed + 1)
    for _ in range(_AHEAD):
        if asked < run.rows:
            prefetch_row(run, asked)
            asked = _next_living(run, asked + 1)
    scored = 0
    while row < run.rows:
        if placed < run.rows:
            prefetch_offset(run, placed)
            placed = _next_living(run, placed + 1)
        if asked < run.rows:
            prefetch_row(run, asked)
            asked = _next_living(run, asked + 1)
        if not _offer_row(segments, i, row, query, scratch, least, best):
            return scored, False
        scored += 1
        row = _next_living(run, row + 1)
    return scored, True


@inline
def _scan_rows(segments, query, scratch, values, least, best):
    """Offer every row. values: of the query. Returns (rows scored, whether all are sound)."""
    scored = 0
    look_for(scratch, max(least, best.scores[-1]))
    for i in range(len(segments)):
        run = segments[i]
        if run.sketches != U64(0):
            some, sound = _scan_sketches(segments, i, query, scratch, values, least, best)
            scored += some
            if not sound:
                return scored, False
            continue
        if run.live * _FEW < run.rows:
            some, sound = _scan_few(segments, i, query, scratch, least, best)
            scored += some
            if not sound:
                return scored, False
            continue
        for row in range(run.first, run.rows):
            if is_masked(run, row):
                continue
            if not _offer_row(segments, i, row, query, scratch, least, best):
                return scored, False
            scored += 1
    return scored, True


@strict
def scan(space, segments, queries, scratch, answers):
    """Answer m queries exactly. Returns flags.

    Cost: 15 to 30 ns a row and 40 nonzeros; 2 to 5 ns a row that its sketch proves too far; where most rows are masked, 0.1 ns each.

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
        scored, sound = _scan_rows(segments, query, scratch, values, wanted.least, best)
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
