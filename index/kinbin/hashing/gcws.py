"""0-bit generalized consistent weighted sampling: one hash is the winning split feature of a weighted race.

Li, "Generalized Intersection Kernel", Algorithm 1, with t* thrown away: Pr[codes of u and v agree]
is the min-max kernel of the (split) weights, at least: t* told apart what agrees by chance. Of rows of many nonzeros that
is little more, about 0.4 / nonzeros; of few, below 20 or so, it is much; rows of one and the same feature always agree.
The bits are fixed by HASHING.md, sections 2-3.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._arrays import check_sizes, plain
from kinbin.hashing._gcws_table import resolve
from kinbin.hashing._parameters import CHUNK, DEFAULT_TABLE_BYTES, ParameterCache, ParameterTable, Resolve
from kinbin.hashing.arithmetic import (
    DOMAIN_GCWS_CODES,
    DOMAIN_GCWS_PARAMETERS,
    DOMAIN_SLOTS,
    MAX_BANDS,
    MAX_ROWS,
    domain_key,
    mix64,
    ordered_log,
    split_feature,
)
from kinbin.native.jit import inline, inner, owning, strict
from kinbin.rows.rows import Rows

__all__ = ["GcwsSampler"]

_PLANES: Final = 3
_BUDGET: Final = 1_024
"""(split feature, x) pairs generated under one hold of the lock (some 1-2 ms)."""


class GcwsSampler:
    """0-bit GCWS with parameters generated on first use. Works for every kernel of the min-max family.

    Safe for concurrent callers: a lock guards the look-up and generation of parameters, the sweeps
    run without it and without the GIL. Memory: at most `table_bytes`, 12 bytes per (split feature,
    hash in use), and as much again for a moment while the table grows or is emptied under readers.
    """

    name = "gcws"

    def __init__(self, *, seed: int, normalise: bool, dim: int | None = None, table_bytes: int = DEFAULT_TABLE_BYTES) -> None:
        self.seed = seed
        self.normalise = normalise
        sketch_keys = np.empty(MAX_ROWS, np.uint64)
        self._code_keys = np.empty((MAX_ROWS, MAX_BANDS), np.uint64)
        slot_key = np.uint64(_derive_keys(np.uint64(seed), sketch_keys, self._code_keys))
        most = 2**62 if dim is None else 2 * dim
        resolver = _resolver(sketch_keys, slot_key)
        self._cache = ParameterCache(resolver, slot_key, planes=_PLANES, most_features=most, limit_bytes=table_bytes)

    @property
    def nbytes(self) -> int:
        """Memory that the parameters take now."""
        return self._cache.nbytes

    def codes(self, rows: Rows, r: int, bands: int) -> NDArray[np.uint32]:
        """Codes (n, r, bands) of canonical rows; about 0.25 ns per (nonzero, hash) when the parameters are there.

        Raises ValueError for r or bands outside 1 … MAX_ROWS, 1 … MAX_BANDS.
        """
        check_sizes(r, bands)
        codes = np.empty((len(rows), r, bands), np.uint32)
        rows = Rows(plain(rows.indptr), plain(rows.features), plain(rows.values), plain(rows.norms))
        arrays = rows.indptr, rows.features, rows.values, rows.norms
        total = rows.features.shape[0]
        slots = np.empty(min(total, CHUNK), np.int32)
        best = np.empty((r, bands), np.float32)
        winners = np.empty((r, bands), np.int32)
        row = start = 0
        while start < total:
            parameters, stop = self._cache.parameters(rows, (start, min(start + CHUNK, total)), r, bands, slots)
            table = slots, parameters, self._code_keys
            row = _sweep((row, start, stop), arrays, self.normalise, table, (best, winners), codes)
            start = stop
        return codes


def _resolver(sketch_keys: NDArray[np.uint64], slot_key: np.uint64) -> Resolve:
    """What fills the table of a sampler with these keys. No method: a sampler that nobody holds frees its parameters at once."""

    def fill(features: NDArray[np.uint64], values: NDArray[np.float32], r: int, table: ParameterTable, slots: NDArray[np.int32]) -> int:
        done: int = resolve(features, values, r, table.arrays, sketch_keys, slot_key, _BUDGET, slots)
        return done

    return fill


@strict
def _derive_keys(seed, sketch_keys, code_keys):  # type: ignore[no-untyped-def]
    """Fill the keys of all sketches x and codes (x, j); return the key of the slot index."""
    for x in range(code_keys.shape[0]):
        sketch_keys[x] = domain_key(seed, DOMAIN_GCWS_PARAMETERS, np.uint64(x))
        for j in range(code_keys.shape[1]):
            code_keys[x, j] = domain_key(seed, DOMAIN_GCWS_CODES, np.uint64(256 * x + j))
    return domain_key(seed, DOMAIN_SLOTS, np.uint64(0))


@inline
def _height(log_weight, r, beta, offset):  # type: ignore[no-untyped-def]
    """Logarithm of a in Algorithm 1, float32, in this order: (log c - r) + r * frac(log w / r + beta) - log w."""
    s = log_weight / r + beta
    return (offset + r * (s - np.floor(s))) - log_weight


@inner
def _race(slots, logs, first, parameters, x, best, winners):  # type: ignore[no-untyped-def]
    """Run nonzeros through the race of sketch x: the least height wins, the earlier nonzero on a tie.

    slots (m,) int32 and logs (m,) float32 of the nonzeros, whose places in the row are first … first+m-1;
    parameters (capacity, rows, 3, width) float32; best (bands,) float32 and winners (bands,) int32 are updated.
    Four nonzeros a sweep: the compiler's loop over j then vectorises well on AVX2 as on AVX-512.
    """
    m = slots.shape[0]
    bands = best.shape[0]
    q = 0
    while q + 4 <= m:
        p0 = parameters[slots[q], x]
        p1 = parameters[slots[q + 1], x]
        p2 = parameters[slots[q + 2], x]
        p3 = parameters[slots[q + 3], x]
        l0, l1, l2, l3 = logs[q], logs[q + 1], logs[q + 2], logs[q + 3]
        w0 = np.int32(first + q)
        w1 = np.int32(first + q + 1)
        w2 = np.int32(first + q + 2)
        w3 = np.int32(first + q + 3)
        for j in range(bands):
            b = best[j]
            w = winners[j]
            a = _height(l0, p0[0, j], p0[1, j], p0[2, j])
            lower = a < b
            w = w0 if lower else w
            b = a if lower else b
            a = _height(l1, p1[0, j], p1[1, j], p1[2, j])
            lower = a < b
            w = w1 if lower else w
            b = a if lower else b
            a = _height(l2, p2[0, j], p2[1, j], p2[2, j])
            lower = a < b
            w = w2 if lower else w
            b = a if lower else b
            a = _height(l3, p3[0, j], p3[1, j], p3[2, j])
            lower = a < b
            w = w3 if lower else w
            b = a if lower else b
            best[j] = b
            winners[j] = w
        q += 4
    while q < m:
        p0 = parameters[slots[q], x]
        l0 = logs[q]
        w0 = np.int32(first + q)
        for j in range(bands):
            a = _height(l0, p0[0, j], p0[1, j], p0[2, j])
            lower = a < best[j]
            winners[j] = w0 if lower else winners[j]
            best[j] = a if lower else best[j]
        q += 1


@owning
def _sweep(span, rows, normalise, table, carry, codes):  # type: ignore[no-untyped-def]
    """Race the nonzeros of a span (row, start, stop): start … stop-1, the first of which lies in `row`.

    rows: indptr, features, values, norms. table: slots, of which slots[p - start] is that of nonzero p; parameters; keys of codes.
    carry: best and winners (r, bands), of a row that a chunk cuts in two. codes (n, r, bands) uint32 receives every row that ends at
    or before `stop`. Returns the row of nonzero `stop`.
    """
    (row, start, stop), (indptr, features, values, norms) = span, rows
    (slots, parameters, code_keys), (best, winners) = table, carry
    r, bands = best.shape
    logs = np.empty(stop - start, np.float32)
    p = start
    while p < stop:
        low = indptr[row]
        high = min(indptr[row + 1], stop)
        norm = norms[row] if normalise else 1.0
        if p == low:
            best[:] = np.inf
            winners[:] = 0
        for q in range(p, high):
            logs[q - start] = np.float32(ordered_log(abs(np.float64(values[q])) / norm))
        for x in range(r):
            _race(slots[p - start : high - start], logs[p - start : high - start], p - low, parameters, x, best[x], winners[x])
        if high == indptr[row + 1]:
            for x in range(r):
                for j in range(bands):
                    at = low + winners[x, j]
                    code = mix64(split_feature(features[at], values[at]) ^ code_keys[x, j])
                    codes[row, x, j] = np.uint32(code & np.uint64(0xFFFFFFFF))
            row += 1
        p = high
    return row
