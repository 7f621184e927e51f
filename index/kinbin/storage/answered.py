"""Answers of adds that came with an idempotency key, kept for a day beside the state record.

They are records of the tree `meta`, which readers that do not know them pass over: `key:` and 16 bytes of the key's digest hold the
answer, `due:`, the millisecond of its expiry (u64, big-endian) and the digest hold nothing, so that the oldest is found first, and
`answers` counts them. An answer is written by the transaction of its add, so there is never one without the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from kinbin.errors import CorruptData, InvalidInput
from kinbin.limits import limit
from kinbin.storage.headers import Fields
from kinbin.storage.lookups import META
from kinbin.storage.transactions import Reader, Writer

__all__ = ["DUE", "KEPT_SECONDS", "Answered", "check_due", "digest_of", "find", "put", "refuse_more"]

KEPT_SECONDS = 86_400.0
_PRUNED = 8
"""Answers past their time that a new one removes."""
_COUNT = b"answers"
DUE = b"due:"
"""Keys of the records that order answers by their time begin so."""
_DUE_BYTES = 28


@dataclass(frozen=True, slots=True)
class Answered:
    """What is kept of one add."""

    of: str
    """Digest of what was added, and how."""
    due: float
    """Until when, in seconds since 1970."""
    answer: dict[str, Any]


def digest_of(key: str) -> bytes:
    """What a key is stored as: its length says nothing then about what a record costs."""
    return hashlib.blake2b(key.encode(), digest_size=16, person=b"idempotency").digest()


def find(reader: Reader, key: bytes, now: float) -> Answered | None:
    """The answer that is kept for a key, unless its time is past."""
    what = "an answer that is kept for an idempotency key"
    found = reader.json(b"key:" + key, what)
    if found is None:
        return None
    fields = Fields(found, what)
    kept = Answered(fields.text("of"), fields.number("due"), fields.object("answer"))
    return kept if kept.due > now else None


def refuse_more(reader: Reader, now: float) -> None:
    """Refuse an add whose answer could not be kept: it might be done twice. Where some are past their time, it takes the place of them.

    Raises:
        InvalidInput: code "over_limit".
    """
    if _count(reader) >= limit("idempotency_keys") and not _past(reader, now, b"", 1):
        text = f"a collection remembers at most {limit('idempotency_keys')} idempotency keys of a day: add without, or later"
        raise InvalidInput.of("over_limit", text, field="idempotency_key", limit="idempotency_keys")


def put(writer: Writer, key: bytes, kept: Answered, now: float) -> None:
    """Keep an answer, and let go of a few whose time is past."""
    count = _count(writer) + 1
    before = writer.json(b"key:" + key, "an answer")
    if before is not None:
        due = Fields(before, "an answer").number("due")
        writer._delete(META, [_due(due, key)])
        count -= 1
    gone = _past(writer, now, key, _PRUNED)
    writer._delete(META, [name for due in gone for name in (due, b"key:" + due[12:])])
    writer.put_json(b"key:" + key, {"of": kept.of, "due": kept.due, "answer": kept.answer})
    writer._put(META, _due(kept.due, key), b"")
    writer.put_json(_COUNT, {"kept": max(0, count - len(gone))})


def check_due(key: bytes, value: bytes) -> None:
    """See that a record which orders answers by their time is one.

    Raises:
        CorruptData: it is not.
    """
    if len(key) != _DUE_BYTES or value:
        raise CorruptData("a record of an idempotency key is malformed")


def _count(reader: Reader) -> int:
    what = "the number of answers that are kept"
    found = reader.json(_COUNT, what)
    return 0 if found is None else Fields(found, what).whole("kept")


def _due(due: float, key: bytes) -> bytes:
    return DUE + int(due * 1_000).to_bytes(8, "big") + key


def _past(reader: Reader, now: float, but: bytes, most: int) -> list[bytes]:
    """Keys of the oldest records whose time is past, at most so many, without that of `but`."""
    last = _due(now, b"")
    # What a transaction that writes has removed is still in the trees.
    new = reader._new[META] if isinstance(reader, Writer) else {}
    places = reader._trees.scan(META, DUE)
    found: list[bytes] = []
    for name, _, _ in places:
        if len(found) == most or not name.startswith(DUE) or name[:12] > last:
            break
        if len(name) == _DUE_BYTES and name not in new and name[12:] != but:
            found.append(name)
    return found
