"""The exact scan: every row that may be answered is scored by its stored record."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np

from kinbin.native.jit import owning, strict
from kinbin.rows.lookup import clear_lookup, fill_lookup
from kinbin.rows.record import HEADER, similarity_at
from kinbin.rows.topk import offer, reset
from kinbin.segments.descriptors import CORRUPT, FIRST, ROWS, answers_are_sound, is_masked, row_place

__all__ = ["sample_similarities", "scan"]

U64 = np.uint64


@strict
def scan(
    descriptors, wide, normalised, indptr, features, values, norms, least, more,
    cells, keys, weights, out_similarity, out_run, out_row, out_numbers,
):  # fmt: skip
    """Answer m queries exactly. Arguments as of `search_bands`. Cost: 15 to 30 ns a row and 40 nonzeros."""
    for m in range(len(norms)):
        a, b = indptr[m], indptr[m + 1]
        scale = np.float32(1.0 / norms[m]) if normalised else np.float32(1.0)
        query_norm = 1.0 if normalised else norms[m]
        sims, runs, rows = out_similarity[m], out_run[m], out_row[m]
        if not more:
            reset(sims, runs, rows)
        fill_lookup(wide, features[a:b], values[a:b], scale, cells, keys, weights)
        verified = 0
        sound = True
        for i in range(len(descriptors)):
            run = descriptors[i]
            for row in range(np.int64(run[FIRST]), np.int64(run[ROWS])):
                if is_masked(run, row):
                    continue
                address, room = row_place(run, row)
                similarity = -1.0
                if room > 0:
                    similarity = similarity_at(address, room, wide, normalised, query_norm, cells, keys, weights)
                if similarity < 0.0:
                    sound = False
                    break
                verified += 1
                if similarity >= least and similarity >= sims[-1]:
                    offer(sims, runs, rows, similarity, i, row)
        clear_lookup(wide, features[a:b], cells, keys)
        if sound:
            sound = answers_are_sound(descriptors, wide, runs, rows)
        out_numbers[m, 0] = verified
        out_numbers[m, 1] = verified
        out_numbers[m, 2] = 0
        out_numbers[m, 3] = 0 if sound else CORRUPT


@owning
def sample_similarities(
    addresses, rooms, picks, wide, normalised, indptr, features, values, norms, k,
    cells, keys, weights, histogram, kth,
):  # fmt: skip
    """Similarities of sampled rows to all given rows, to plan by.

    addresses, rooms: (n,) records; damaged ones are left out. picks (m,): which of them the m queries are (left out of
    their own sample). Writes histogram (m, B) of similarities over [0, 1] and kth (m,), the k-th best.
    """
    bins = histogram.shape[1]
    best = np.empty(k, np.float64)
    for m in range(len(norms)):
        a, b = indptr[m], indptr[m + 1]
        scale = np.float32(1.0 / norms[m]) if normalised else np.float32(1.0)
        query_norm = 1.0 if normalised else norms[m]
        fill_lookup(wide, features[a:b], values[a:b], scale, cells, keys, weights)
        best[:] = 0.0
        for i in range(len(addresses)):
            if i == picks[m]:
                continue
            similarity = -1.0
            if rooms[i] >= HEADER:
                similarity = similarity_at(addresses[i], rooms[i], wide, normalised, query_norm, cells, keys, weights)
            if not similarity >= 0.0:
                # Damaged (perhaps a NaN, which is no place in a histogram): reading the rows to build from them will tell.
                continue
            histogram[m, min(int(similarity * bins), bins - 1)] += 1
            if similarity > best[k - 1]:
                p = k - 1
                while p > 0 and best[p - 1] < similarity:
                    best[p] = best[p - 1]
                    p -= 1
                best[p] = similarity
        kth[m] = best[k - 1]
        clear_lookup(wide, features[a:b], cells, keys)
