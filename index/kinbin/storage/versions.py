"""The version of an item: a number made of what is stored of it, so that files of every format have it.

It is a digest of the id, of the number of its row and of its payload. A row number is never given twice, so a version is the same as
long as vector and payload are. An item that was changed and changed back in its payload alone has its old version again: nothing that
was read of it is out of date then. It says nothing about order, and a copy that was repaired or filled anew has others.
"""

from __future__ import annotations

import hashlib

__all__ = ["LARGEST", "version_of"]

_BITS = 53
"""JSON numbers beyond that are not exact everywhere."""
LARGEST: int = (1 << _BITS) - 1


def version_of(key: bytes, row: int, payload: bytes) -> int:
    """From 1 to `LARGEST`: 0 stands for an item that is not there. Two contents share one with probability 2⁻⁵³. Cost: 1 µs."""
    digest = hashlib.blake2b(payload, digest_size=8, key=row.to_bytes(8, "little"), person=b"version")
    digest.update(len(payload).to_bytes(8, "little") + key)
    return int.from_bytes(digest.digest(), "little") % ((1 << _BITS) - 1) + 1
