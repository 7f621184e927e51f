"""The banded search in machine code: count shared bands, verify from the top, stop at the certificate.

For each query: every run's buckets are read in place and counted into one byte a row; fresh rows are
counted by comparing their keys; rows that reach a run's collecting level are listed, sorted by count
and verified level by level, always the level that suggests the highest similarity, (c/L)^(1/r), until
each run is certified at the score of the k-th best so far (DESIGN.md, "The certificate").
"""

# mypy: disable-error-code="no-untyped-def,assignment,call-overload"
from __future__ import annotations

import numpy as np

from kinbin.hashing.certificate import binomial_tail
from kinbin.native.jit import inline, owning, strict
from kinbin.native.memory import (
    count_equal_u16,
    item,
    mask_at_least,
    pointer_u16,
    pointer_u32,
    prefetch,
    set_bits,
    trailing_zeros,
    u32_at,
    u64_at,
)
from kinbin.rows.lookup import clear_lookup, fill_lookup
from kinbin.rows.record import similarity_at
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import (
    BANDS,
    BASE,
    COLLECT,
    CORRUPT,
    FRESH_BANDS,
    FRESH_KEYS,
    KEYS,
    LIVE,
    POSTING_BYTES,
    ROWS,
    SLOT_BITS,
    TABLES,
    R,
    answers_are_sound,
    is_masked,
    prefetch_offset,
    prefetch_row,
    row_place,
)

__all__ = ["TRUNCATED", "search_bands"]

U64 = np.uint64
TRUNCATED = 2
_LEVELS = 257


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
def _tally_bucket(postings, start, end, take, key, rows, counts):
    """Count a bucket; or, if it has more than `take` postings, so many in a row from a place that depends on the key.

    So whoever filled the bucket cannot choose which of its rows are seen.
    """
    size = end - start
    if take == size:
        return _tally(postings, start, end, rows, counts)
    first = start + np.int64(U64(key) * U64(2654435761) % U64(size))
    beyond = max(first + take - end, 0)
    return _tally(postings, first, min(first + take, end), rows, counts) and _tally(postings, start, start + beyond, rows, counts)


@strict
def _count_run(run, keys, allowance, starts, ends, counts):
    """Shared-band counts of one sealed run into counts (rows,) uint8, zero. Returns (postings read, flags)."""
    bands = np.int64(run[BANDS])
    rows = np.int64(run[ROWS])
    shift = U64(32) - run[SLOT_BITS]
    slots = np.int64(1) << np.int64(run[SLOT_BITS])
    for j in range(bands):
        table = u64_at(run[TABLES] + U64(8 * j))
        prefetch(table + U64(4) * (U64(keys[j]) >> shift))
    body = U64(4 * (slots + 1))
    width = run[POSTING_BYTES]
    total = 0
    for j in range(bands):
        table = u64_at(run[TABLES] + U64(8 * j))
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
        if j + 1 < bands:
            # The hardware's own prefetcher needs some lines to see that a bucket is read in order.
            ahead = u64_at(run[TABLES] + U64(8 * (j + 1))) + body + width * U64(starts[j + 1])
            for line in range(1, min(8, 1 + np.int64(width) * (ends[j + 1] - starts[j + 1]) // 64)):
                prefetch(ahead + U64(64 * line))
        take = min(ends[j] - starts[j], cap)
        read += take
        table = u64_at(run[TABLES] + U64(8 * j)) + body
        if width == 2:
            sound = _tally_bucket(pointer_u16(table), starts[j], ends[j], take, keys[j], rows, counts)
        else:
            sound = _tally_bucket(pointer_u32(table), starts[j], ends[j], take, keys[j], rows, counts)
        if not sound:
            return 0, CORRUPT
    return read, 0 if total <= allowance else TRUNCATED


@strict
def _count_fresh(run, keys, counts):
    """Shared-band counts of the fresh rows, by comparing keys."""
    query = U64(keys.ctypes.data)
    for row in range(np.int64(run[ROWS])):
        stored = run[FRESH_KEYS] + U64(2 * FRESH_BANDS * row)
        counts[row] = count_equal_u16(stored, query) + count_equal_u16(stored + U64(128), query + U64(128))


@strict
def _collect(counts, rows, least, most, listed):
    """List the rows with least … most shared bands, ascending. Returns (listed, rows that share any band).

    counts has at least 63 bytes behind its `rows`. Cost: 0.03 ns a row, and 1 ns a listed row.
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


@strict
def _sort_by_count(listed, found, counts, order, histogram):
    """Counting sort of listed rows, most shared bands first, older rows first among equals as listed."""
    for c in range(_LEVELS):
        histogram[c] = 0
    for x in range(found):
        histogram[counts[listed[x]]] += 1
    start = 0
    for c in range(_LEVELS - 1, -1, -1):
        size = histogram[c]
        histogram[c] = start
        start += size
    for x in range(found):
        c = counts[listed[x]]
        order[histogram[c]] = listed[x]
        histogram[c] += 1


@strict
def _verify_level(run, number, order, position, end, counts, wide, normalised, query_norm, cells, keys, weights, least, sims, runs, rows):
    """Score the rows of one level exactly. Returns (position after the level, rows verified, sound)."""
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
        if room == 0:
            return position, verified, False
        similarity = similarity_at(address, room, wide, normalised, query_norm, cells, keys, weights)
        if similarity < 0.0:
            return position, verified, False
        verified += 1
        if similarity >= least:
            offer(sims, runs, rows, similarity, number, row)
    return position, verified, True


@strict
def _verify(
    descriptors,
    need,
    suggest,
    found,
    counts,
    listed,
    order,
    histogram,
    state,
    wide,
    normalised,
    query_norm,
    cells,
    keys,
    weights,
    least,
    sims,
    runs,
    rows,
):
    """Verify level by level over all runs until each is certified.

    state: (runs, 4) int64 scratch: position, end, lowest level that is listed, certified level (0: not yet).
    Returns (verified, sound); state[:, 3] holds, for each run, the level c down to which everything was verified.
    """
    count = len(descriptors)
    for i in range(count):
        base = np.int64(descriptors[i, BASE])
        size = np.int64(descriptors[i, ROWS])
        _sort_by_count(listed[base : base + size], found[i], counts[base : base + size], order[base : base + size], histogram)
        state[i, 0] = 0
        state[i, 1] = found[i]
        state[i, 2] = np.int64(descriptors[i, COLLECT])
        state[i, 3] = 0 if size > 0 else 1
    verified = 0
    while True:
        reached = max(sims[-1], least)
        best = -1
        best_suggests = -1.0
        for i in range(count):
            if state[i, 3] > 0:
                continue
            level = state[i, 2] - 1
            if state[i, 0] < state[i, 1]:
                base = np.int64(descriptors[i, BASE])
                level = np.int64(counts[base + order[base + state[i, 0]]])
            if level == 0 or reached >= need[i, level + 1]:
                state[i, 3] = level + 1
            elif suggest[i, level] > best_suggests:
                best_suggests = suggest[i, level]
                best = i
        if best < 0:
            return verified, True
        base = np.int64(descriptors[best, BASE])
        stop = base + np.int64(descriptors[best, ROWS])
        if state[best, 0] == state[best, 1]:
            # Everything listed is verified: list some lower levels.
            lower = max(1, state[best, 2] * 3 // 4)
            more, _ = _collect(counts[base:stop], stop - base, lower, state[best, 2] - 1, listed[base:stop])
            _sort_by_count(listed[base:stop], more, counts[base:stop], order[base:stop], histogram)
            state[best, 0] = 0
            state[best, 1] = more
            state[best, 2] = lower
            continue
        state[best, 0], more, sound = _verify_level(
            descriptors[best], best, order[base:stop], state[best, 0], state[best, 1], counts[base:stop],
            wide, normalised, query_norm, cells, keys, weights, least, sims, runs, rows,
        )  # fmt: skip
        verified += more
        if not sound:
            return verified, False


@inline
def _certificate(descriptors, state, reached, aim):
    """The smallest of the runs' certificates at the similarity that was reached.

    A run that was left at a level certifies the aim and no more, however far the tail of that level exceeds it: the level
    depends on the hashes whose luck is judged (HASHING.md, "The recall bound").
    """
    least = 1.0
    for i in range(len(descriptors)):
        if descriptors[i, LIVE] == 0:
            continue
        tail = binomial_tail(np.int64(descriptors[i, BANDS]), min(reached, 1.0) ** np.float64(descriptors[i, R]), state[i, 3])
        least = min(least, tail, aim)
    return least


@owning
def search_bands(
    descriptors, need, suggest, aim, wide, normalised,
    indptr, features, values, norms, band_keys, fresh_keys,
    least, more, postings_cap,
    counts, listed, order, cells, keys, weights,
    out_similarity, out_run, out_row, out_numbers, out_certificate,
):  # fmt: skip
    """Answer m queries over all runs; the last descriptor is the fresh rows'.

    descriptors (R, 17) uint64; need, suggest (R, 257) float64: by shared bands, the similarity at which a
    run is certified, and the one the count suggests; aim: the certificate that `need` stands for. Queries as canonical rows
    (indptr (m+1,) …);
    band_keys (m, C) uint32, fresh_keys (m, 128) uint16. least: answers below this similarity are not wanted.
    more: out_* hold answers of other rows already, which stay if they are better. Runs of 0 rows are passed over.
    Scratch: counts (rows + 63,) uint8 zero (left zero), listed and order (rows,) uint32; cells, keys and weights of
    `lookup_space`, clear (left so).
    Writes out_* (m, k), out_numbers (m, 4) = candidates, verified, postings, flags; out_certificate (m,).
    Cost: one cache miss a band and run, about 1 ns a posting and 25 to 60 ns a verified row.
    """
    count = len(descriptors)
    starts = np.empty(_LEVELS, np.int64)
    ends = np.empty(_LEVELS, np.int64)
    histogram = np.empty(_LEVELS, np.int64)
    state = np.empty((count, 4), np.int64)
    found = np.empty(count, np.int64)
    for m in range(len(norms)):
        a, b = indptr[m], indptr[m + 1]
        scale = np.float32(1.0 / norms[m]) if normalised else np.float32(1.0)
        query_norm = 1.0 if normalised else norms[m]
        sims, runs, rows = out_similarity[m], out_run[m], out_row[m]
        if not more:
            reset(sims, runs, rows)
        candidates = 0
        postings = 0
        flags = 0
        for i in range(count):
            base = np.int64(descriptors[i, BASE])
            stop = base + np.int64(descriptors[i, ROWS])
            found[i] = 0
            if base == stop:
                continue
            read = 0
            flag = 0
            if i == count - 1:
                _count_fresh(descriptors[i], fresh_keys[m], counts[base:stop])
            else:
                column = np.int64(descriptors[i, KEYS])
                read, flag = _count_run(descriptors[i], band_keys[m, column:], postings_cap - postings, starts, ends, counts[base:stop])
            found[i], touched = _collect(counts[base:stop], stop - base, np.int64(descriptors[i, COLLECT]), 255, listed[base:stop])
            candidates += touched
            postings += read
            flags |= flag
        verified = 0
        if flags & CORRUPT == 0:
            fill_lookup(wide, features[a:b], values[a:b], scale, cells, keys, weights)
            verified, sound = _verify(
                descriptors, need, suggest, found, counts, listed, order, histogram, state, wide, normalised, query_norm,
                cells, keys, weights, least, sims, runs, rows,
            )  # fmt: skip
            clear_lookup(wide, features[a:b], cells, keys)
            if not sound or not answers_are_sound(descriptors, wide, runs, rows):
                flags |= CORRUPT
        counts[:] = 0
        out_numbers[m, 0] = candidates
        out_numbers[m, 1] = verified
        out_numbers[m, 2] = postings
        out_numbers[m, 3] = flags
        out_certificate[m] = 0.0
        if flags & CORRUPT == 0:
            out_certificate[m] = _certificate(descriptors, state, max(sims[-1], least, 0.0), aim)
