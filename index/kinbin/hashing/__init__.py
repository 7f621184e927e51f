"""Hashing: samplers whose codes collide as often as the kernel says, keys of bands, and the theory of shared bands.

Every stored bit is specified in HASHING.md and guarded by `golden_digest`.
"""

from __future__ import annotations

from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.certificate import IMPOSSIBLE, binomial_tail, certificate, similarity_needed, suggested_similarity
from kinbin.hashing.golden import EXPECTED_GOLDEN_DIGEST, HASH_VERSION, golden_digest
from kinbin.hashing.keys import band_keys, content_hash
from kinbin.hashing.sampler import SAMPLERS, Sampler, default_sampler, make_sampler

__all__ = [
    "EXPECTED_GOLDEN_DIGEST",
    "HASH_VERSION",
    "IMPOSSIBLE",
    "MAX_BANDS",
    "MAX_ROWS",
    "SAMPLERS",
    "Sampler",
    "band_keys",
    "binomial_tail",
    "certificate",
    "content_hash",
    "default_sampler",
    "golden_digest",
    "make_sampler",
    "similarity_needed",
    "suggested_similarity",
]
