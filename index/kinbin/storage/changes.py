"""What a store keeps for payload indexes: which are declared, and which items each commit since then touched (index/FORMAT.md).

A log of ids lies in the tree `meta`, a record for each commit, written by the commit itself and only while indexes are declared. It
names items, not what they hold: whoever brings an index up to date reads the items as they are now. Whoever has put an index on disk
removes the records before it. Records hold random bytes, so that an index knows by their hash that the log is still the one it followed.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbin.errors import CorruptData
from kinbin.storage.headers import Fields

__all__ = ["CHANGES", "INDEXES", "Changes", "Declared", "change_key", "count_of", "decode_changes", "encode_changes", "mark_of"]

INDEXES = b"indexes"
"""Key of what is declared."""
CHANGES = b"changes"
"""Keys of the log begin so; the commit's number follows, in 8 bytes."""
MARK_BYTES = 8
_HEAD = struct.Struct("<IHHI8x")
_VERSION = 1
_NEW = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Declared:
    """The indexes of a collection."""

    kinds: dict[str, str]
    """By field."""
    mark: bytes
    """Random, made anew by each change of the declarations."""

    @classmethod
    def of(cls, kinds: Mapping[str, str]) -> Declared:
        """New declarations."""
        return cls(dict(kinds), secrets.token_bytes(MARK_BYTES))

    @classmethod
    def decode(cls, data: object) -> Declared:
        """From JSON.

        Raises:
            CorruptData: a field is absent or malformed.
        """
        fields = Fields(data, "the list of payload indexes")
        kinds = fields.object("kinds")
        try:
            mark = bytes.fromhex(fields.text("mark"))
        except ValueError:
            mark = b""
        if len(mark) != MARK_BYTES or not all(isinstance(kind, str) for kind in kinds.values()):
            raise fields.refuse("mark", "that of payload indexes")
        return cls(kinds, mark)

    def encode(self) -> dict[str, Any]:
        """As JSON."""
        return {"kinds": self.kinds, "mark": self.mark.hex()}


@dataclass(frozen=True, slots=True)
class Changes:
    """The items that one commit touched."""

    mark: bytes
    items: list[tuple[bytes, int | None]]
    """Each with the row that it had before; None: it is new."""


def change_key(sequence: int) -> bytes:
    """Key of a commit's record."""
    return CHANGES + sequence.to_bytes(8, "big")


def encode_changes(items: list[tuple[bytes, int | None]], before: int) -> bytes:
    """A record of the log: crc32 u32, version u16, 0 u16, n u32, 8 random bytes; then rows before u64 × n, bytes of ids u16 × n, ids.

    before: what the checksum begins with (`format.begun`).
    """
    rows = np.fromiter((_NEW if row is None else row for _, row in items), "<u8", len(items))
    sizes = np.fromiter((len(key) for key, _ in items), "<u2", len(items))
    body = rows.tobytes() + sizes.tobytes() + b"".join(key for key, _ in items)
    head = _HEAD.pack(0, _VERSION, 0, len(items))[4:-MARK_BYTES] + secrets.token_bytes(MARK_BYTES)
    return zlib.crc32(body, zlib.crc32(head, before)).to_bytes(4, "little") + head + body


def mark_of(value: bytes) -> bytes:
    """By what a record is told from that of the same commit in another history. Damaged ones have a mark as well."""
    return hashlib.blake2b(value, digest_size=MARK_BYTES).digest()


def count_of(value: bytes) -> int:
    """How many items a record names, unchecked."""
    return int(_HEAD.unpack_from(value)[3]) if len(value) >= _HEAD.size else 0


def decode_changes(value: bytes, before: int) -> Changes:
    """The record, checked.

    Raises:
        CorruptData: it is damaged, or of another version.
    """
    if len(value) >= _HEAD.size and zlib.crc32(memoryview(value)[4:], before) == int.from_bytes(value[:4], "little"):
        _, version, _, count = _HEAD.unpack_from(value)
        start = _HEAD.size + 10 * count
        if version == _VERSION and len(value) >= start:
            rows = np.frombuffer(value, "<u8", count, _HEAD.size).tolist()
            ends = np.cumsum(np.frombuffer(value, "<u2", count, _HEAD.size + 8 * count), dtype=np.int64) + start
            if (int(ends[-1]) if count else start) == len(value):
                stops = ends.tolist()
                keys = [value[a:b] for a, b in zip([start, *stops[:-1]], stops, strict=True)] if count else []
                return Changes(mark_of(value), [(key, None if row == _NEW else row) for key, row in zip(keys, rows, strict=True)])
    raise CorruptData("a record of what commits changed is damaged", "payload indexes are built anew")
