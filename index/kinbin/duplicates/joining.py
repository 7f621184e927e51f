"""The join: rows that share a bucket are scored, each pair once a pass, and those that score enough are told."""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import inline, inner, strict
from kinbin.native.memory import prefetch
from kinbin.rows.asked import asked_of
from kinbin.segments.descriptors import CORRUPT
from kinbin.spaces.native import clear_query, fill_query, look_for, rules_of, score_row

__all__ = ["COMPARED", "DONE", "FLAGS", "FOUND", "LISTED", "MOST_SCORED", "join_rows", "root_of"]

DONE, FOUND, COMPARED, FLAGS, MOST_SCORED = 0, 1, 2, 3, 4
"""Places in `counts`."""
LISTED = 16_384
"""Rows that are listed at a time, to be scored against one; of more, the buckets are walked again."""
_AHEAD = 8
_SMALL = 8
"""Of fewer rows it costs more to note that a bucket is of one cluster."""


@inner
def root_of(parents, row):
    """The row that stands for the cluster of a row; the way there is halved."""
    while parents[row] != row:
        parents[row] = parents[parents[row]]
        row = np.int64(parents[row])
    return np.int64(row)


@inline
def _merge(parents, a, b):
    """Make one cluster of two: the lower row stands for it."""
    one, other = root_of(parents, a), root_of(parents, b)
    if one < other:
        parents[other] = one
    else:
        parents[one] = other


@inline
def _behind(members, low, high, row):
    """The first place of low … high-1 that holds a greater row; members ascend."""
    while low < high:
        middle = (low + high) // 2
        if members[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _list(a, buckets, marks, room):
    """List rows behind a that share a bucket with it and have not been listed for it. Returns (how many, whether these are all)."""
    starts, of_rows, bounds, members, merged = buckets
    seen, parents, listed = marks
    clusters = len(parents) > 0
    mine = root_of(parents, a) if clusters else np.int64(-1)
    mark = np.uint32(a + 1)
    count = 0
    for p in range(starts[a], starts[a + 1]):
        bucket = of_rows[p]
        if merged[bucket] != 0:
            continue
        end = bounds[bucket + 1]
        for place in range(_behind(members, bounds[bucket], end, a), end):
            b = np.int64(members[place])
            if seen[b] == mark or (clusters and root_of(parents, b) == mine):
                continue
            if count == room:
                return count, False
            seen[b] = mark
            listed[count] = b
            count += 1
    return count, True


@inner
def _note_merged(a, buckets, parents):
    """Note which of a row's buckets are of one cluster by now: no row of them need look at them again."""
    starts, of_rows, bounds, members, merged = buckets
    mine = root_of(parents, a)
    for p in range(starts[a], starts[a + 1]):
        bucket = of_rows[p]
        if merged[bucket] != 0 or bounds[bucket + 1] - bounds[bucket] < _SMALL:
            continue
        place = bounds[bucket]
        while place < bounds[bucket + 1] and root_of(parents, np.int64(members[place])) == mine:
            place += 1
        merged[bucket] = 1 if place == bounds[bucket + 1] else 0


@strict
def join_rows(space, queries, at, buckets, marks, limits, scratch, found):
    """Score some rows against those behind them with which they share a bucket, until done or until there is no room for what is found.

    space: a record of `SPACE`; queries: of `QUERIES`, the m rows `which` in order. at: (addresses (n,) uint64, rooms (n,) int64 of all
    rows' records, which (m,) int64). buckets: starts, of_rows, bounds, members, merged (see `Buckets`). marks: seen (n,) uint32, zeros at
    the beginning of a pass; parents (n,) uint32, or none for pairs; listed (LISTED,) int64. limits: the least score; once so many
    are scored it returns. scratch: of `SCRATCH`, clear. found: a, b (room,) int64, scores (room,), counts (5,) int64: queries that
    are done (which to go on with), pairs found (from 0 at each call), pairs scored, flags, and scored when to return.

    With parents, pairs whose rows are of one cluster already are passed over, and each pair that is told joins two.
    Cost: 2 ns a place of a bucket, and what scoring a row at random takes for each pair.
    """
    addresses, rooms, which = at
    parents, listed = marks[1], marks[2]
    left, right, scores, counts = found
    asked = asked_of(queries[0])
    rules = rules_of(space[0])
    counts[FOUND] = 0
    room = min(len(listed), len(scores))
    while counts[DONE] < queries[0].count and counts[COMPARED] < counts[MOST_SCORED]:
        i = counts[DONE]
        a = which[i]
        if len(scores) - counts[FOUND] < room:
            return
        count, complete = _list(a, buckets, marks, room)
        if count > 0:
            begin, end = asked.indptr[i], asked.indptr[i + 1]
            features = asked.features[begin:end]
            query = fill_query(rules, scratch, features, asked.values[begin:end], asked.norms[i])
            look_for(scratch, limits)
            for x in range(count):
                prefetch(addresses[listed[min(x + _AHEAD, count - 1)]])
                b = listed[x]
                score, sound = score_row(query, addresses[b], rooms[b])
                if not sound:
                    counts[FLAGS] = CORRUPT
                    continue
                if score < limits or (len(parents) > 0 and root_of(parents, a) == root_of(parents, b)):
                    continue
                place = counts[FOUND]
                left[place], right[place], scores[place] = a, b, score
                counts[FOUND] += 1
                if len(parents) > 0:
                    _merge(parents, a, b)
            clear_query(query, features)
            counts[COMPARED] += count
        if complete:
            if len(parents) > 0:
                _note_merged(a, buckets, parents)
            counts[DONE] += 1
