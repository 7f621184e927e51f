"""Dart sampling: weighted min-hashing of rows that sum to 1, without parameters and without bias.

After Christiani, "DartMinHash: Fast Sketching for Weighted Sets" (2020), simplified because weights are
normalised. Each split feature owns a Poisson process of darts along its weight axis, scaled by T; a row
sees the darts below its weight times T. Each dart falls into one of 128 buckets with a random rank, and
hash j is the id of the lowest dart in bucket j. Buckets are independent thinnings of the process, so
Pr[codes of u and v agree] is sum min / sum max exactly, and the hashes of a sketch are independent.
The bits are fixed by HASHING.md, sections 2 and 4.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._arrays import check_sizes, plain
from kinbin.hashing.arithmetic import DOMAIN_DARTS, GAMMA, MAX_BANDS, MAX_ROWS, domain_key, mix64, neglog32, split_feature
from kinbin.native.jit import inline, inner, owning, strict
from kinbin.rows.rows import Rows

__all__ = ["DartSampler"]

SKETCH: Final = 128
"""Hashes in one sketch. Never changes: a bucket depends on it."""

DARTS: Final = 1005.0
"""T, the expected number of darts a round: int(128 * (log 128 + 3)), which leaves some bucket empty in 5 % of rounds."""

_MOST_ROUNDS: Final = 256
"""A round leaves a bucket empty with probability exp(-T / 128) < 0.0004 when weights sum to 1, so a row that
needs this many (probability below 1e-800) has a norm that is not the sum of its values."""

_ALONG: Final = 12
"""At most this many features still drawing: draw blocks of darts feature by feature."""

_BLOCK: Final = 64

_BUCKET_SHIFT = np.uint64(25)  # the top 7 of 32 bits: one of 128 buckets
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(0xFFFFFFFF00000000)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


class DartSampler:
    """Dart sampling, for normalised kernels only. Holds no state; safe for concurrent callers."""

    name = "dart"
    normalise = True

    def __init__(self, *, seed: int) -> None:
        self.seed = seed
        self._keys = np.empty((MAX_ROWS, MAX_BANDS // SKETCH), np.uint64)
        _derive_keys(np.uint64(seed), self._keys)

    @property
    def nbytes(self) -> int:
        """Memory that parameters take: none."""
        return 0

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands) of canonical rows; about 5 µs per 128 hashes of a row, hardly depending on its nonzeros.

        Raises ValueError for r or bands outside 1 … MAX_ROWS, 1 … MAX_BANDS, or if a norm is not
        the sum of its row's absolute values.
        """
        check_sizes(r, bands)
        codes = np.empty((len(rows), r, bands), np.uint32)
        bad = _sketch_rows(plain(rows.indptr), plain(rows.features), plain(rows.values), plain(rows.norms), self._keys, codes)
        if bad >= 0:
            raise ValueError(f"row {bad}: its norm is not the sum of its absolute values")
        return codes


@strict
def _derive_keys(seed, keys):  # type: ignore[no-untyped-def]
    """Fill keys (MAX_ROWS, MAX_BANDS / 128): one for each sketch x and block of 128 hashes."""
    blocks = keys.shape[1]
    for x in range(keys.shape[0]):
        for block in range(blocks):
            keys[x, block] = domain_key(seed, DOMAIN_DARTS, np.uint64(blocks * x + block))


@inline
def _dart(key, n):  # type: ignore[no-untyped-def]
    """Dart n of a feature: its distance from the one before, its bucket, and rank and id as one number."""
    h1 = mix64(key + np.uint64(2 * n) * GAMMA)
    h2 = mix64(key + np.uint64(2 * n + 1) * GAMMA)
    return neglog32(h1 >> np.uint64(32)), np.int64((h2 & _LOW) >> _BUCKET_SHIFT), (h2 & _HIGH) | (h1 & _LOW)


@inner
def _draw_across(n, m, keys, reached, ends, buckets, darts):  # type: ignore[no-untyped-def]
    """Draw dart n of features 0 … m-1 (vectorised); a dart past its feature's end becomes _NONE."""
    for q in range(m):
        gap, bucket, dart = _dart(keys[q], n)
        at = reached[q] + gap
        reached[q] = at
        buckets[q] = bucket
        darts[q] = dart if at <= ends[q] else _NONE


@inner
def _draw_along(n, m, key, gaps, buckets, darts):  # type: ignore[no-untyped-def]
    """Draw darts n … n+m-1 of one feature (vectorised): the same values as `_draw_across`."""
    for q in range(m):
        gap, bucket, dart = _dart(key, n + q)
        gaps[q] = gap
        buckets[q] = bucket
        darts[q] = dart


@inner
def _finish_feature(n, key, reached, end, gaps, buckets, darts, lowest):  # type: ignore[no-untyped-def]
    """Draw all darts of one feature from dart n on, in blocks of about as many as are still to come."""
    while True:
        left = end - reached
        m = 16 if left < 14.0 else (32 if left < 30.0 else _BLOCK)
        _draw_along(n, m, key, gaps, buckets, darts)
        n += m
        for q in range(m):
            reached += gaps[q]
            if reached > end:
                return
            lowest[buckets[q]] = min(lowest[buckets[q]], darts[q])


@inner
def _round(round_key, splits, scaled, work, lowest):  # type: ignore[no-untyped-def]
    """One round of darts of a whole row: lowest (128,) uint64 becomes the lowest dart of each bucket, or _NONE. work: scratch."""
    keys, reached, ends, buckets, darts, gaps = work
    lowest[:] = _NONE
    m = splits.shape[0]
    for q in range(m):
        keys[q] = mix64(round_key ^ (splits[q] * GAMMA))
        reached[q] = 0.0
        ends[q] = scaled[q]
    n = 0
    while m > _ALONG:
        _draw_across(n, m, keys, reached, ends, buckets, darts)
        kept = 0
        for q in range(m):
            bucket = buckets[q]
            lowest[bucket] = min(lowest[bucket], darts[q])
            keys[kept] = keys[q]
            reached[kept] = reached[q]
            ends[kept] = ends[q]
            kept += 1 if darts[q] != _NONE else 0
        m = kept
        n += 1
    for q in range(m):
        _finish_feature(n, keys[q], reached[q], ends[q], gaps, buckets, darts, lowest)


@owning
def _sketch_rows(indptr, features, values, norms, sketch_keys, codes):  # type: ignore[no-untyped-def]
    """Write codes (n, r, bands) uint32 of all rows; return -1, or the first row whose buckets cannot be filled."""
    n, r, bands = codes.shape
    longest = _BLOCK
    for row in range(n):
        longest = max(longest, indptr[row + 1] - indptr[row])
    splits = np.empty(longest, np.uint64)
    scaled = np.empty(longest, np.float64)
    keys = np.empty(longest, np.uint64)
    reached = np.empty(longest, np.float64)
    ends = np.empty(longest, np.float64)
    buckets = np.empty(longest, np.int64)
    darts = np.empty(longest, np.uint64)
    gaps = np.empty(_BLOCK, np.float64)
    work = keys, reached, ends, buckets, darts, gaps
    lowest = np.empty(SKETCH, np.uint64)
    final = np.empty(SKETCH, np.uint64)
    for row in range(n):
        low = indptr[row]
        m = indptr[row + 1] - low
        for q in range(m):
            splits[q] = split_feature(features[low + q], values[low + q])
            scaled[q] = abs(np.float64(values[low + q])) / norms[row] * DARTS
        for x in range(r):
            for block in range((bands + SKETCH - 1) // SKETCH):
                final[:] = _NONE
                rounds = 0
                empty = SKETCH
                while empty > 0:
                    if rounds == _MOST_ROUNDS:
                        return row
                    round_key = mix64(sketch_keys[x, block] + np.uint64(rounds) * GAMMA)
                    _round(round_key, splits[:m], scaled, work, lowest)
                    empty = 0
                    for j in range(SKETCH):
                        if final[j] == _NONE:
                            final[j] = lowest[j]
                            empty += 1 if lowest[j] == _NONE else 0
                    rounds += 1
                first = SKETCH * block
                for j in range(min(SKETCH, bands - first)):
                    codes[row, x, first + j] = np.uint32(final[j] & _LOW)
    return -1
