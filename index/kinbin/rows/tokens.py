"""Which feature a token is. The values are stored for ever: this never changes."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["token_feature"]


def token_feature(token: str) -> int:
    """The feature id of a token: the first 8 bytes of BLAKE2b-64 of its UTF-8, little-endian, without the lowest bit.

    63 bits, so that feature ids of tokens obey the limit of all feature ids. Two tokens of a million
    share a feature with probability 5e-8; their weights are then refused as a duplicate feature.
    """
    return int.from_bytes(blake2b(token.encode(), digest_size=8).digest(), "little") >> 1
