"""Hashes of the signs of random projections: argmax of 16 Gaussians, sign of a Gaussian, sign of a Cauchy projection.

A projection of a row is Σ value × random number of the feature. Its sign is one bit (Charikar, "Similarity Estimation Techniques from
Rounding Algorithms", section 3); which of 16 projections is the largest in magnitude, and its sign, is a symbol of 32 (a cross-polytope
hash with independent directions: Andoni et al., "Practical and Optimal LSH for Angular Distance", section 3). Both laws of collision are
exact functions of the cosine. The sign of a Cauchy projection (Li, Samorodnitsky, Hopcroft, "Sign Cauchy Projections and Chi-Square
Kernel") collides about as 1 - acos(chi2) / pi, for rows without negative values: that is no bound. The laws are in `laws`.

Random numbers are derived by counter, for any feature, and kept in a bounded table. No scale of a row changes a code.
The bits are fixed by HASHING.md, section 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._arrays import check_sizes, plain
from kinbin.hashing._parameters import CHUNK, DEFAULT_TABLE_BYTES, ParameterCache, ParameterTable, Resolve, find
from kinbin.hashing.arithmetic import (
    DOMAIN_ARGMAX,
    DOMAIN_CAUCHY,
    DOMAIN_SIGN,
    DOMAIN_SLOTS,
    GAMMA,
    MAX_ROWS,
    domain_key,
    mix64,
)
from kinbin.hashing.gaussian import fill_cauchy, fill_gaussians
from kinbin.native.jit import inner, owning, strict
from kinbin.rows.rows import Rows

__all__ = ["FAMILIES", "Family", "ProjectionSampler"]

_TILE: Final = 256
"""Projections summed at a time where features recur: their parameters stay in the second-level cache for all rows of a chunk."""

_LONG_TILE: Final = 2_048
"""Where they do not: memory is read in long stretches, and the sums stay in the first-level cache."""

_RECURRING: Final = 4
"""Nonzeros of a chunk for each slot of the table from which on features are said to recur."""

_BUDGET: Final = 2**19
"""Random numbers generated under one hold of the lock (some 1-2 ms)."""


class Family(NamedTuple):
    """How the codes of a family are made of projections."""

    domain: np.uint64
    """Of its random numbers."""
    components: int
    """Projections of one code: a power of two, at most 16."""
    cauchy: bool
    """Whether they are Cauchy, not Gaussian."""


FAMILIES: Final[Mapping[str, Family]] = {
    "argmax": Family(DOMAIN_ARGMAX, 16, cauchy=False),
    "sign": Family(DOMAIN_SIGN, 1, cauchy=False),
    "cauchy": Family(DOMAIN_CAUCHY, 1, cauchy=True),
}


class ProjectionSampler:
    """Signs of random projections, their numbers generated on first use.

    Safe for concurrent callers: a lock guards look-up and generation, the sums run without it and without the GIL. Memory: at most
    `table_bytes`, 4 bytes for each feature and projection in use, and as much again for a moment while the table grows or is emptied.
    Codes are 2 × component + sign: 0 … 31 of "argmax", 0 or 1 of the others.
    """

    def __init__(
        self, name: str, family: Family, *, seed: int, normalise: bool, dim: int | None = None, table_bytes: int = DEFAULT_TABLE_BYTES
    ) -> None:
        """normalise: told to whoever asks; codes are the same with it and without."""
        self.name = name
        self.seed = seed
        self.normalise = normalise
        self._family = family
        keys = np.empty(MAX_ROWS, np.uint64)
        slot_key = np.uint64(_derive_keys(np.uint64(seed), self._family.domain, keys))
        most = 2**62 if dim is None else dim
        resolver = _resolver(keys, slot_key, self._family.cauchy)
        self._cache = ParameterCache(resolver, slot_key, planes=1, most_features=most, limit_bytes=table_bytes)

    @property
    def nbytes(self) -> int:
        """Memory that the random numbers take now."""
        return self._cache.nbytes

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands) of canonical rows; about 0.08 ns per (nonzero, projection) when the numbers are there.

        Raises ValueError for r or bands outside 1 … MAX_ROWS, 1 … MAX_BANDS.
        """
        check_sizes(r, bands)
        codes = np.empty((len(rows), r, bands), np.uint32)
        rows = Rows(plain(rows.indptr), plain(rows.features), plain(rows.values), plain(rows.norms))
        total = rows.features.shape[0]
        slots = np.empty(min(total, CHUNK), np.int32)
        width = bands * self._family.components
        sums = np.empty((r, width))
        row = start = 0
        while start < total:
            parameters, stop = self._cache.parameters(rows, (start, min(start + CHUNK, total)), r, width, slots)
            row = _project((row, start, stop), (rows.indptr, rows.values), (slots, parameters), sums, codes)
            start = stop
        return codes


def _resolver(keys: NDArray[np.uint64], slot_key: np.uint64, cauchy: bool) -> Resolve:
    """What fills the table of a sampler with these keys. No method: a sampler that nobody holds frees its parameters at once."""

    def fill(features: NDArray[np.uint64], _values: NDArray[np.float32], r: int, table: ParameterTable, slots: NDArray[np.int32]) -> int:
        budget = max(MAX_ROWS, _BUDGET // table.width)
        done: int = _resolve(features, r, table.arrays, (keys, slot_key), cauchy, budget, slots)
        return done

    return fill


@strict
def _derive_keys(seed, domain, keys):  # type: ignore[no-untyped-def]
    """Fill the keys of all sketches x; return the key of the slot index."""
    for x in range(keys.shape[0]):
        keys[x] = domain_key(seed, domain, np.uint64(x))
    return domain_key(seed, DOMAIN_SLOTS, np.uint64(0))


@strict
def _resolve(features, r, table, keys, cauchy, budget, slots):  # type: ignore[no-untyped-def]
    """Give every nonzero a slot whose sketches x < r are filled; return the first one not done.

    slots int32 receives the slot of each. Stops early when the table is full or `budget` (feature, x) pairs were generated,
    whichever comes first. Mutates the table (`ParameterTable.arrays`): the caller holds the cache's lock.
    """
    parameters, ids, levels, index, used = table
    sketch_keys, slot_key = keys
    for p in range(len(features)):
        at, slot = find(features[p], ids, index, slot_key)
        level = levels[slot] if slot >= 0 else 0
        if level < r:
            if budget < r - level:
                return p
            if slot < 0:
                if used[0] == ids.shape[0]:
                    return p
                slot = np.int32(used[0])
                used[0] += 1
                ids[slot] = features[p]
                index[at] = slot
            for x in range(level, r):
                key = mix64(sketch_keys[x] ^ (features[p] * GAMMA))
                if cauchy:
                    fill_cauchy(key, parameters[slot, x, 0])
                else:
                    fill_gaussians(key, parameters[slot, x, 0])
            levels[slot] = r
            budget -= r - level
        slots[p] = slot
    return len(features)


@inner
def _add(slots, values, parameters, x, first, sums):  # type: ignore[no-untyped-def]
    """Add value × number of nonzeros (slots, values) (m,) to sums (w,) float64, one after the other; numbers first … first+w-1 of x.

    Products of two float32 are exact in float64, so only additions round, and a fused multiply-add would give the same bits. Four
    nonzeros a sweep, so that sums are loaded and stored once for four; the order of additions to each sum is that of the row.
    """
    m = slots.shape[0]
    width = sums.shape[0]
    q = 0
    while q + 4 <= m:
        g0 = parameters[slots[q], x, 0][first : first + width]
        g1 = parameters[slots[q + 1], x, 0][first : first + width]
        g2 = parameters[slots[q + 2], x, 0][first : first + width]
        g3 = parameters[slots[q + 3], x, 0][first : first + width]
        v0, v1 = np.float64(values[q]), np.float64(values[q + 1])
        v2, v3 = np.float64(values[q + 2]), np.float64(values[q + 3])
        for j in range(width):
            total = sums[j] + v0 * np.float64(g0[j])
            total = total + v1 * np.float64(g1[j])
            total = total + v2 * np.float64(g2[j])
            sums[j] = total + v3 * np.float64(g3[j])
        q += 4
    while q < m:
        g0 = parameters[slots[q], x, 0][first : first + width]
        v0 = np.float64(values[q])
        for j in range(width):
            sums[j] += v0 * np.float64(g0[j])
        q += 1


@inner
def _read(sums, codes):  # type: ignore[no-untyped-def]
    """Write codes (w,) uint32 from sums (w × components,) float64: 2 × the first component of the greatest magnitude + its sign."""
    components = sums.shape[0] // codes.shape[0]
    for j in range(codes.shape[0]):
        best = sums[j * components]
        winner = 0
        for c in range(1, components):
            one = sums[j * components + c]
            larger = abs(one) > abs(best)
            best = one if larger else best
            winner = c if larger else winner
        codes[j] = np.uint32(2 * winner + (1 if best < 0.0 else 0))


@inner
def _piece(row, span, rows, table, x, sums, codes, tile):  # type: ignore[no-untyped-def]
    """Project nonzeros p … high-1 of a row on projections first … last-1 of sketch x; write codes if they are the row's last.

    span: start, p, high; tile: first, last; the others as in `_project`.
    """
    (start, p, high), (first, last), (indptr, values), (slots, parameters) = span, tile, rows, table
    totals = sums[x][first:last]
    if p == indptr[row]:
        totals[:] = 0.0
    _add(slots[p - start : high - start], values[p:high], parameters, x, first, totals)
    if high == indptr[row + 1]:
        components = sums.shape[1] // codes.shape[2]
        _read(totals, codes[row, x][first // components : last // components])


@owning
def _project(span, rows, table, sums, codes):  # type: ignore[no-untyped-def]
    """Project the nonzeros of a span (row, start, stop): start … stop-1, the first of which lies in `row`.

    rows: indptr, values. table: slots, of which slots[p - start] is that of nonzero p; parameters (capacity, rows, 1, width).
    sums (r, bands × components) float64 carries those of a row that a chunk cuts in two. codes (n, r, bands) uint32 receives every row
    that ends at or before `stop`. Returns the row of nonzero `stop`.
    """
    (begin, start, stop), (indptr, _), (_, parameters) = span, rows, table
    r, outputs = sums.shape
    row = begin
    if stop - start >= _RECURRING * parameters.shape[0]:
        # all rows use a tile's numbers while they are in the cache
        for x in range(r):
            for first in range(0, outputs, _TILE):
                row = begin
                p = start
                while p < stop:
                    high = min(indptr[row + 1], stop)
                    _piece(row, (start, p, high), rows, table, x, sums, codes, (first, min(first + _TILE, outputs)))
                    row += 1 if high == indptr[row + 1] else 0
                    p = high
        return row
    p = start
    while p < stop:
        high = min(indptr[row + 1], stop)
        for x in range(r):
            for first in range(0, outputs, _LONG_TILE):
                _piece(row, (start, p, high), rows, table, x, sums, codes, (first, min(first + _LONG_TILE, outputs)))
        row += 1 if high == indptr[row + 1] else 0
        p = high
    return row
