"""The banded search in machine code: count shared bands, verify from the top, stop at the certificate.

For each query: every run's buckets are read in place and counted into one byte a row; fresh rows are
counted by comparing their keys; rows that reach a run's collecting level are listed, sorted by count
and verified level by level, always the level that suggests the highest similarity, (c/L)^(1/r), until
each run is certified at the score of the k-th best so far (DESIGN.md, "The certificate").
"""

# mypy: disable-error-code="no-untyped-def,assignment,call-overload"
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinbin.hashing.certificate import binomial_tail
from kinbin.native.jit import inline, inner, owning
from kinbin.native.memory import (
    count_equal_u16,
    f64_array,
    item,
    mask_at_least,
    pointer_u16,
    pointer_u32,
    prefetch,
    set_bits,
    trailing_zeros,
    u16_array,
    u32_array,
    u32_at,
    u64_at,
)
from kinbin.native.records import Layout
from kinbin.rows.asked import answers_to, asked_of, count_up
from kinbin.rows.scratch import counting_of
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import (
    CORRUPT,
    FRESH_BANDS,
    answers_are_sound,
    is_masked,
    prefetch_offset,
    prefetch_row,
    row_place,
)
from kinbin.spaces.native import clear_query, fill_query, least_similarity, rules_of, score_row

__all__ = ["BANDS", "LEVELS", "TRUNCATED", "search_bands"]

U64 = np.uint64
TRUNCATED = 2
LEVELS = 257
"""Of shared bands, from none on."""
_SHORT_ROWS = 65_536
"""A run of no more rows has postings of two bytes."""
_BUCKETS_AHEAD, _LINES = 2, 16
"""How many bands before it is read a bucket is asked for, and how many of its cache lines at the most."""

BANDS = Layout(
    "BANDS",
    need=("f64[]", "(runs, 257) by shared bands, the score at which a run is certified"),
    suggest=("f64[]", "(runs, 257) the similarity that the count suggests"),
    aim=("number", "the certificate that `need` stands for"),
    keys=("u32[]", "(m, columns) band keys of the queries"),
    columns=("count", ""),
    fresh_keys=("u16[]", "(m, 128)"),
    most_postings=("count", "that a query may read"),
)


class _Verifying(NamedTuple):
    """What verification looks at."""

    segments: Any
    query: Any
    counting: Any
    need: Any
    suggest: Any
    least: Any


class _Work(NamedTuple):
    """Small arrays of one call."""

    starts: Any
    ends: Any
    histogram: Any
    state: Any
    """(runs, 4): place in the order, end, lowest level that is listed, certified level (0: not yet)."""
    found: Any
    """(runs,) rows listed."""


@inline
def _bucket_cap(starts, ends, bands, allowance):
    """The largest number of postings a bucket may give so that all buckets together give at most `allowance`."""
    low, high = 0, allowance
    while low < high:
        middle = (low + high + 1) // 2
        total = 0
        for j in range(bands):
            total += min(ends[j] - starts[j], middle)
        if total <= allowance:
            low = middle
        else:
            high = middle - 1
    return low


@inline
def _tally(postings, start, end, rows, counts):
    """Count one bucket's postings. Returns whether all were in bounds."""
    for x in range(start, end):
        row = np.int64(item(postings, x))
        if row >= rows:
            return False
        counts[row] += 1
    return True


@inline
def _tally_short(postings, start, end, counts):
    """Count one bucket's postings of two bytes, of which none needs a look: there is a count for each that there can be.

    `_all_zero` tells afterwards whether one was out of bounds (but for 256 that are the same, which is damage that `check` finds).
    """
    for x in range(start, end):
        counts[item(postings, x)] += 1


@inline
def _first_of(start, end, take, key):
    """Where to begin in a bucket of more postings than are taken: so many in a row from a place that depends on the key.

    So whoever filled the bucket cannot choose which of its rows are seen.
    """
    return start if take == end - start else start + np.int64(U64(key) * U64(2654435761) % U64(end - start))


@inline
def _fetch_bucket(address, start, end, width):
    """Ask for a bucket: the hardware's own prefetcher needs some lines to see that it is read in order."""
    ahead = address + width * U64(start)
    for line in range(1, min(_LINES, 1 + np.int64(width) * (end - start) // 64)):
        prefetch(ahead + U64(64 * line))


@inline
def _all_zero(counts, first, last):
    """Whether the counts from one on are zero. There are at least 63 behind the last."""
    base = U64(counts.ctypes.data)
    for start in range(first, last, 64):
        mask = mask_at_least(base + U64(start), np.uint8(1))
        if last - start < 64:
            mask &= (U64(1) << U64(last - start)) - U64(1)
        if mask != 0:
            return False
    return True


@inner
def _count_run(run, keys, allowance, starts, ends, counts):
    """Shared-band counts of one sealed run into counts (rows + STRAY,) uint8, zero. Returns (postings read, flags).

    Where postings are damaged, what lies behind the run's counts may not be zero afterwards.
    """
    bands, rows = run.bands, run.rows
    shift = U64(32) - run.slot_bits
    slots = np.int64(1) << np.int64(run.slot_bits)
    for j in range(bands):
        table = u64_at(run.tables + U64(8 * j))
        prefetch(table + U64(4) * (U64(keys[j]) >> shift))
    body = U64(4 * (slots + 1))
    width = run.posting_bytes
    total = 0
    for j in range(bands):
        table = u64_at(run.tables + U64(8 * j))
        slot = table + U64(4) * (U64(keys[j]) >> shift)
        starts[j] = u32_at(slot)
        ends[j] = u32_at(slot + U64(4))
        if starts[j] > ends[j] or ends[j] > rows:
            return 0, CORRUPT
        total += ends[j] - starts[j]
        prefetch(table + body + width * U64(starts[j]))
    cap = total if total <= allowance else _bucket_cap(starts, ends, bands, allowance)
    read = 0
    for j in range(bands):
        if j + _BUCKETS_AHEAD < bands:
            ahead = j + _BUCKETS_AHEAD
            _fetch_bucket(u64_at(run.tables + U64(8 * ahead)) + body, starts[ahead], ends[ahead], width)
        start, end = starts[j], ends[j]
        take = min(end - start, cap)
        read += take
        table = u64_at(run.tables + U64(8 * j)) + body
        first = _first_of(start, end, take, keys[j])
        # What is taken of a bucket may go on at its beginning.
        last, again = min(first + take, end), start + max(first + take - end, 0)
        if width == 2:
            _tally_short(pointer_u16(table), first, last, counts)
            _tally_short(pointer_u16(table), start, again, counts)
        elif not (_tally(pointer_u32(table), first, last, rows, counts) and _tally(pointer_u32(table), start, again, rows, counts)):
            return 0, CORRUPT
    if width == 2 and not _all_zero(counts, rows, _SHORT_ROWS):
        return 0, CORRUPT
    return read, 0 if total <= allowance else TRUNCATED


@inner
def _count_fresh(run, keys, counts):
    """Shared-band counts of the fresh rows, by comparing keys."""
    query = U64(keys.ctypes.data)
    for row in range(run.rows):
        stored = run.fresh_keys + U64(2 * FRESH_BANDS * row)
        counts[row] = count_equal_u16(stored, query) + count_equal_u16(stored + U64(128), query + U64(128))


@inner
def _collect(counts, rows, least, most, listed):
    """List the rows with least … most shared bands, ascending. Returns (listed, rows that share any band).

    counts has at least 63 more behind its `rows`. Cost: 0.03 ns a row, and 1 ns a listed row.
    """
    base = U64(counts.ctypes.data)
    found = 0
    touched = 0
    for start in range(0, rows, 64):
        block = base + U64(start)
        kept = ~U64(0) if rows - start >= 64 else (U64(1) << U64(rows - start)) - U64(1)
        any_band = mask_at_least(block, np.uint8(1)) & kept
        touched += set_bits(any_band)
        mask = mask_at_least(block, np.uint8(least)) & kept
        if mask != 0 and most < 255:
            mask &= ~mask_at_least(block, np.uint8(most + 1))
        while mask != 0:
            listed[found] = start + trailing_zeros(mask)
            found += 1
            mask &= mask - U64(1)
    return found, touched


@inner
def _sort_by_count(listed, found, counts, order, histogram):
    """Counting sort of listed rows, most shared bands first, older rows first among equals as listed."""
    for c in range(LEVELS):
        histogram[c] = 0
    for x in range(found):
        histogram[counts[listed[x]]] += 1
    start = 0
    for c in range(LEVELS - 1, -1, -1):
        size = histogram[c]
        histogram[c] = start
        start += size
    for x in range(found):
        c = counts[listed[x]]
        order[histogram[c]] = listed[x]
        histogram[c] += 1


@inline
def _verify_level(what, number, bounds, best):
    """Score the rows of one level of a run exactly. bounds: place of the first in its order, and the end of the order.

    Returns (place after the level, rows verified, sound).
    """
    run = what.segments[number]
    counts, _, order = _part(what.counting, run)
    position, end = bounds
    level = counts[order[position]]
    verified = 0
    while position < end and counts[order[position]] == level:
        if position + 16 < end:
            prefetch_offset(run, order[position + 16])
        if position + 6 < end:
            prefetch_row(run, order[position + 6])
        row = np.int64(order[position])
        position += 1
        if is_masked(run, row):
            continue
        address, room = row_place(run, row)
        score, sound = score_row(what.query, address, room)
        if not sound:
            return position, verified, False
        verified += 1
        if score >= what.least:
            offer(best, score, number, row)
    return position, verified, True


@inline
def _part(counting, run):
    """The part of the work space that is a run's."""
    base, stop = run.base, run.base + run.rows
    return counting.counts[base:stop], counting.listed[base:stop], counting.order[base:stop]


@inline
def _next_run(what, state, reached):
    """Certify the runs whose next level cannot hold what is missing. Returns the run whose next level suggests most; -1: all are."""
    best = -1
    best_suggests = -1.0
    for i in range(len(what.segments)):
        if state[i, 3] > 0:
            continue
        level = state[i, 2] - 1
        if state[i, 0] < state[i, 1]:
            base = what.segments[i].base
            level = np.int64(what.counting.counts[base + what.counting.order[base + state[i, 0]]])
        if level == 0 or reached >= what.need[i * LEVELS + level + 1]:
            state[i, 3] = level + 1
        elif what.suggest[i * LEVELS + level] > best_suggests:
            best_suggests = what.suggest[i * LEVELS + level]
            best = i
    return best


@inline
def _verify(what, work, best):
    """Verify level by level over all runs until each is certified.

    Returns (verified, sound); work.state[:, 3] holds, for each run, the level down to which everything was verified.
    """
    state, histogram = work.state, work.histogram
    for i in range(len(what.segments)):
        run = what.segments[i]
        counts, listed, order = _part(what.counting, run)
        _sort_by_count(listed, work.found[i], counts, order, histogram)
        state[i, 0] = 0
        state[i, 1] = work.found[i]
        state[i, 2] = run.collect
        state[i, 3] = 0 if run.rows > 0 else 1
    verified = 0
    while True:
        i = _next_run(what, state, max(best.scores[-1], what.least))
        if i < 0:
            return verified, True
        if state[i, 0] == state[i, 1]:
            # Everything listed is verified: list some lower levels.
            run = what.segments[i]
            counts, listed, order = _part(what.counting, run)
            lower = max(1, state[i, 2] * 3 // 4)
            more, _ = _collect(counts, run.rows, lower, state[i, 2] - 1, listed)
            _sort_by_count(listed, more, counts, order, histogram)
            state[i, 0] = 0
            state[i, 1] = more
            state[i, 2] = lower
            continue
        state[i, 0], more, sound = _verify_level(what, i, (state[i, 0], state[i, 1]), best)
        verified += more
        if not sound:
            return verified, False


@inline
def _certificate(segments, state, similarity, aim):
    """The smallest of the runs' certificates at the similarity that was reached.

    A run that was left at a level certifies the aim and no more, however far the tail of that level exceeds it: the level
    depends on the hashes whose luck is judged (HASHING.md, "The recall bound").
    """
    least = 1.0
    for i in range(len(segments)):
        if segments[i].live == 0:
            continue
        tail = binomial_tail(segments[i].bands, min(similarity, 1.0) ** np.float64(segments[i].r), state[i, 3])
        least = min(least, tail, aim)
    return least


@inline
def _count(segments, bands, m, counting, work):
    """Count the bands that every row shares with a query, and list those to begin with. Returns (rows that share any, flags)."""
    count = len(segments)
    keys = u32_array(bands.keys + U64(4 * bands.columns) * U64(m), bands.columns)
    candidates, postings, flags = 0, 0, 0
    for i in range(count):
        run = segments[i]
        counts, listed, _ = _part(counting, run)
        work.found[i] = 0
        if run.rows == 0:
            continue
        if i == count - 1:
            _count_fresh(run, u16_array(bands.fresh_keys + U64(2 * FRESH_BANDS * m), FRESH_BANDS), counts)
        else:
            read, flag = _count_run(run, keys[run.keys :], bands.most_postings - postings, work.starts, work.ends, counts)
            postings += read
            flags |= flag
        work.found[i], touched = _collect(counts, run.rows, run.collect, 255, listed)
        candidates += touched
    return candidates, flags


@owning
def search_bands(space, segments, queries, bands, scratch, answers):
    """Answer m queries over all runs; the last of the segments is the fresh rows'.

    space: a record of `SPACE`; segments (R,) of `RUN`, of which those of 0 rows are passed over; queries: of `QUERIES`; bands: of
    `BANDS`; scratch: of `SCRATCH`, clear; answers: of `ANSWERS`. Returns flags.
    Cost: one cache miss a band and run, about 1 ns a posting and 25 to 60 ns a verified row.
    """
    wanted, plan, rules = queries[0], bands[0], rules_of(space[0])
    asked = asked_of(wanted)
    count = len(segments)
    rows = segments[count - 1].base + segments[count - 1].rows
    counting = counting_of(scratch[0], rows)
    work = _Work(
        np.empty(LEVELS, np.int64), np.empty(LEVELS, np.int64), np.empty(LEVELS, np.int64), np.empty((count, 4), np.int64),
        np.empty(count, np.int64),
    )  # fmt: skip
    need, suggest = f64_array(plan.need, count * LEVELS), f64_array(plan.suggest, count * LEVELS)
    certificates = f64_array(answers[0].certificates, wanted.count)
    all_flags = 0
    for m in range(wanted.count):
        a, b = asked.indptr[m], asked.indptr[m + 1]
        best = answers_to(answers[0], m)
        if wanted.more == 0:
            reset(best)
        candidates, flags = _count(segments, plan, m, counting, work)
        verified = 0
        certificates[m] = 0.0
        if flags & CORRUPT == 0:
            query = fill_query(rules, scratch, asked.features[a:b], asked.values[a:b], asked.norms[m])
            verified, sound = _verify(_Verifying(segments, query, counting, need, suggest, wanted.least), work, best)
            clear_query(query, asked.features[a:b])
            if not sound or not answers_are_sound(segments, query.lookup.wide, best):
                flags |= CORRUPT
            reached = max(best.scores[-1], wanted.least, rules.floor)
            certificates[m] = _certificate(segments, work.state, max(0.0, least_similarity(rules, reached)), plan.aim)
        # Of damaged postings there may be counts beyond.
        counting.counts[: rows if flags & CORRUPT == 0 else len(counting.counts)] = 0
        count_up(answers[0], m, candidates, verified, flags)
        all_flags |= flags
    return all_flags
