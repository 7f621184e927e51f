"""Hashing: samplers whose codes collide as often as the kernel says, keys of bands, and the theory of shared bands.

Every stored bit is specified in HASHING.md and guarded by `check_hashes`.
"""

from __future__ import annotations

from kinbin.hashing.arithmetic import MAX_BANDS, MAX_ROWS
from kinbin.hashing.certificate import IMPOSSIBLE, binomial_tail, certificate, similarity_needed, suggested_similarity
from kinbin.hashing.golden import EXPECTED_DIGESTS, HASH_VERSION, check_hashes, sampler_digest
from kinbin.hashing.keys import band_keys, content_hash
from kinbin.hashing.laws import argmax_collision, cauchy_estimate, combined_collision, rho_at, sign_collision
from kinbin.hashing.sampler import MINMAX_SAMPLERS, SAMPLERS, Law, Sampler, default_sampler, make_sampler

__all__ = [
    "EXPECTED_DIGESTS",
    "HASH_VERSION",
    "IMPOSSIBLE",
    "MAX_BANDS",
    "MAX_ROWS",
    "MINMAX_SAMPLERS",
    "SAMPLERS",
    "Law",
    "Sampler",
    "argmax_collision",
    "band_keys",
    "binomial_tail",
    "cauchy_estimate",
    "certificate",
    "check_hashes",
    "combined_collision",
    "content_hash",
    "default_sampler",
    "make_sampler",
    "rho_at",
    "sampler_digest",
    "sign_collision",
    "similarity_needed",
    "suggested_similarity",
]
