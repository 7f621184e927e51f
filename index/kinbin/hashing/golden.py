"""The version of the hash family, and digests that tell whether this machine computes it rightly.

Stored keys are compared with freshly computed ones for ever. A processor, compiler or edit that changed one bit would lose neighbours
silently; the digest of its sampler, checked when a collection is opened or made, makes it loud.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np

from kinbin.errors import FormatMismatch
from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.gaussian import fill_cauchy, fill_gaussians
from kinbin.hashing.keys import band_keys, content_hash
from kinbin.hashing.sampler import make_sampler
from kinbin.rows.rows import Rows

__all__ = ["EXPECTED_DIGESTS", "HASH_VERSION", "check_hashes", "golden_rows", "sampler_digest"]

HASH_VERSION: Final = 1
"""Raised by every change of any stored bit; written into every collection."""

EXPECTED_DIGESTS: Final[Mapping[str, bytes]] = {
    "gcws": bytes.fromhex("1cd07b41bfa3053cdaaa40b4f668e74f"),
    "dart": bytes.fromhex("e2f3ff3d4be774f7859b650cf1cb713f"),
    "argmax": bytes.fromhex("ac082b1728291a7d09fca5447f68f047"),
    "sign": bytes.fromhex("f44e7e6ef952367a5eccb6f022a0522d"),
    "cauchy": bytes.fromhex("7ce1086cd3425e0d673b25239ee3bd84"),
    "gcws_sign": bytes.fromhex("5d8c13cb5c0927bd5e75647b50709683"),
    "dart_sign": bytes.fromhex("00cae38ba5d22cc52cf714ab2648cc7e"),
}
"""`sampler_digest` of every sampler of this HASH_VERSION, on every correct machine."""

_SEED: Final = 0x0123456789ABCDEF

_NUMBERS: Final[Mapping[str, Callable[..., object]]] = {
    "argmax": fill_gaussians, "sign": fill_gaussians, "cauchy": fill_cauchy, "gcws_sign": fill_gaussians, "dart_sign": fill_gaussians,
}  # fmt: skip
"""What makes the random numbers of samplers that have some."""


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


def sampler_digest(name: str) -> bytes:
    """16 bytes of BLAKE2b over what a sampler computes of `golden_rows`; a few ms.

    The random numbers of projections, because few codes would tell of a wrong last bit of theirs; every code, band key and content hash.
    """
    rows = golden_rows()
    digest = hashlib.blake2b(digest_size=16)
    if name in _NUMBERS:
        numbers = np.empty(4_096, np.float32)
        _NUMBERS[name](np.uint64(_SEED), numbers)
        digest.update(numbers.astype("<f4").tobytes())
    for normalise in (True, False) if name == "gcws" else (True,):
        codes = make_sampler(name, seed=_SEED, normalise=normalise).codes(rows, MAX_ROWS, MAX_BANDS)
        digest.update(codes.astype("<u4").tobytes())
        for r in (1, 4, MAX_ROWS):
            digest.update(band_keys(codes, r, MAX_BANDS).astype("<u4").tobytes())
    digest.update(content_hash(rows).astype("<u8").tobytes())
    return digest.digest()


@cache
def check_hashes(name: str) -> None:
    """See, once a process, that it computes the hashes of a sampler that are in the files of every machine.

    Raises:
        FormatMismatch: it does not.
    """
    if sampler_digest(name) != EXPECTED_DIGESTS[name]:
        raise FormatMismatch(f"this machine does not compute hash version {HASH_VERSION} bit by bit; its index would be wrong")
