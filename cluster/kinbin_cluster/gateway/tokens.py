"""Tokens: what an answer to a write carries, so that a read after it sees it.

A token holds the collection's uid and, of some shards, the sequence of their logs that a read has to have applied: base64url, without
padding, of the JSON [uid, [[shard, sequence], …]]. Clients of this project join tokens by that form; to all others it is opaque.
It is no secret and gives no right: a token of another collection is refused, one of a sequence that is not there waits in vain.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from kinbin_service.problems import Refusal

__all__ = ["HEADER", "Token"]

HEADER = "X-Kinbin-After"
"""Of a read at a gateway, with a token; of a gateway's read at a node, with a sequence."""
_LONGEST = 8_192
_LARGEST = 1 << 63


@dataclass(frozen=True, slots=True)
class Token:
    """How far the shards of a collection have to have applied their logs."""

    uid: str
    sequences: Mapping[int, int]
    """By shard; shards that are not named may be as far as they are."""

    def text(self) -> str:
        """The opaque text."""
        data = orjson.dumps([self.uid, sorted(self.sequences.items())])
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Token:
        """The token of a text.

        Raises:
            Refusal: code "bad_parameter".
        """
        try:
            if len(text) > _LONGEST:
                raise ValueError
            data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
            uid, pairs = orjson.loads(data)
            sequences = dict(pairs)
            whole = all(type(one) is int and 0 <= one < _LARGEST for pair in sequences.items() for one in pair)
            if not isinstance(uid, str) or not whole:
                raise ValueError
        except (TypeError, ValueError, binascii.Error):
            raise Refusal("bad_parameter", f"{HEADER} is the token of an answer to a write, unchanged") from None
        return cls(uid, sequences)

    def joined(self, other: Token) -> Token:
        """What both ask for."""
        assert self.uid == other.uid
        both = {shard: max(self.sequences.get(shard, 0), other.sequences.get(shard, 0)) for shard in {*self.sequences, *other.sequences}}
        return Token(self.uid, both)
