"""Keys of bands, and the hash that finds identical vectors (HASHING.md, sections 5 and 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinbin.hashing._arrays import check_sizes, plain
from kinbin.hashing.arithmetic import GAMMA, mix64
from kinbin.native.jit import owning, strict
from kinbin.rows.rows import Rows

__all__ = ["band_keys", "content_hash"]

_STEP = np.uint64(0xBF58476D1CE4E5B9)
_LAST = np.uint64(0x94D049BB133111EB)


def band_keys(codes: NDArray[np.uint32], r: int, bands: int) -> NDArray[np.uint32]:
    """Keys (n, bands) uint32 of the first `bands` bands of the first r codes each, from codes (n, R, B).

    Two rows that share all r codes of band j share key j; others do with probability 2**-32 (the top
    b bits: 2**-b). The key of a band depends on j, so that equal codes in two bands give two keys.
    Raises ValueError if codes holds fewer than r x bands.
    """
    check_sizes(r, bands)
    if codes.ndim != 3 or codes.dtype != np.uint32 or codes.shape[1] < r or codes.shape[2] < bands:
        raise ValueError(f"codes must be uint32 of shape (n, {r} or more, {bands} or more), not {codes.dtype} {codes.shape}")
    keys = np.empty((codes.shape[0], bands), np.uint32)
    _band_keys(plain(codes), r, keys)
    return keys


@owning
def _band_keys(codes, r, keys):  # type: ignore[no-untyped-def]
    """Write keys (n, bands) uint32 from codes (n, R, B) uint32; every step is a bijection of 64 bits."""
    n, bands = keys.shape
    state = np.empty(bands, np.uint64)
    for row in range(n):
        for j in range(bands):
            state[j] = np.uint64(j + 1) * GAMMA
        for x in range(r):
            for j in range(bands):
                h = (state[j] ^ np.uint64(codes[row, x, j])) * _STEP
                state[j] = h ^ (h >> np.uint64(32))
        for j in range(bands):
            keys[row, j] = np.uint32((state[j] * _LAST) >> np.uint64(32))


def content_hash(rows: Rows) -> NDArray[np.uint64]:
    """A hash (n,) uint64 of each row's exact content: features and float32 bits, before any normalisation.

    Equal rows have equal hashes. It is not cryptographic: compare the rows before calling them equal.
    """
    hashes = np.empty(len(rows), np.uint64)
    _content_hash(plain(rows.indptr), plain(rows.features), plain(rows.values).view(np.uint32), hashes)
    return hashes


@strict
def _content_hash(indptr, features, bits, hashes):  # type: ignore[no-untyped-def]
    """Write hashes (n,) uint64; bits (nnz,) uint32 are the values' bit patterns."""
    for row in range(hashes.shape[0]):
        total = np.uint64(indptr[row + 1] - indptr[row]) * GAMMA
        for p in range(indptr[row], indptr[row + 1]):
            total += mix64(mix64(features[p] + GAMMA) + np.uint64(bits[p]))
        hashes[row] = mix64(total)
