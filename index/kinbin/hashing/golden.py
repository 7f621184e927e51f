"""The version of the hash family, and a digest that tells whether this machine computes it rightly.

Stored keys are compared with freshly computed ones for ever. A processor, compiler or edit that
changed one bit would lose neighbours silently; the digest, checked when data is opened, makes it loud.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np

from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.dart import DartSampler
from kinbin.hashing.gaussian import fill_cauchy, fill_gaussians
from kinbin.hashing.gcws import GcwsSampler
from kinbin.hashing.keys import band_keys, content_hash
from kinbin.hashing.sampler import SAMPLERS, make_sampler
from kinbin.rows.rows import Rows

__all__ = ["EXPECTED_COSINE_DIGEST", "EXPECTED_GOLDEN_DIGEST", "HASH_VERSION", "cosine_digest", "golden_digest", "golden_rows"]

HASH_VERSION: Final = 1
"""Raised by every change of any stored bit; written into every collection."""

EXPECTED_GOLDEN_DIGEST: Final = bytes.fromhex("c4aa4fe4841007da74fae76923218460")
"""`golden_digest()` of this HASH_VERSION on every correct machine."""

EXPECTED_COSINE_DIGEST: Final = bytes.fromhex("86d1dcfb0840ac50a52f5e6f0a7c96ba")
"""`cosine_digest()` of this HASH_VERSION on every correct machine."""

_SEED: Final = 0x0123456789ABCDEF


def golden_rows() -> Rows:
    """The input of the digest: one nonzero, signs, tiny and huge weights, the largest feature id, more than 12 nonzeros."""
    weights: list[dict[int, float]] = [
        {0: 1.0},
        {3: 2.0, 4: -1.0},
        {0: 1e-30, 1: 1.0, 2: 1e15},
        {7: 0.25, 2**32 + 1: -0.5, 2**63 - 1: 3.0},
        {feature * feature: (-1.0) ** feature * (1.0 + feature / 8.0) for feature in range(23)},
    ]
    indptr = np.cumsum([0, *(len(row) for row in weights)]).astype(np.int64)
    features = np.array([feature for row in weights for feature in row], np.uint64)
    values = np.array([value for row in weights for value in row.values()], np.float32)
    norms = np.zeros(len(weights))
    for row in range(len(weights)):
        for value in values[indptr[row] : indptr[row + 1]]:
            norms[row] += abs(float(value))
    return Rows(indptr, features, values, norms)


def golden_digest() -> bytes:
    """16 bytes of BLAKE2b over every code of "gcws" and "dart", every band key and content hash of `golden_rows`; a few ms."""
    rows = golden_rows()
    digest = hashlib.blake2b(digest_size=16)
    samplers = (
        GcwsSampler(seed=_SEED, normalise=True),
        GcwsSampler(seed=_SEED, normalise=False),
        DartSampler(seed=_SEED),
    )
    for sampler in samplers:
        codes = sampler.codes(rows, MAX_ROWS, MAX_BANDS)
        digest.update(codes.astype("<u4").tobytes())
        for r in (1, 4, MAX_ROWS):
            digest.update(band_keys(codes, r, MAX_BANDS).astype("<u4").tobytes())
    digest.update(content_hash(rows).astype("<u8").tobytes())
    return digest.digest()


def cosine_digest() -> bytes:
    """16 bytes of BLAKE2b over random numbers and every code of `golden_rows` by the samplers that `golden_digest` leaves out; some 10 ms.

    Apart from the other, so that opening a collection of the min-max kernels loads no code that it does not need. The numbers are in
    it themselves, because few codes would tell of a wrong last bit.
    """
    rows = golden_rows()
    digest = hashlib.blake2b(digest_size=16)
    numbers = np.empty(4_096, np.float32)
    for fill in (fill_gaussians, fill_cauchy):
        fill(np.uint64(_SEED), numbers)
        digest.update(numbers.astype("<f4").tobytes())
    for name, law in SAMPLERS.items():
        if law != "minmax":
            codes = make_sampler(name, seed=_SEED, normalise=True).codes(rows, MAX_ROWS, MAX_BANDS)
            digest.update(codes.astype("<u4").tobytes())
    return digest.digest()
