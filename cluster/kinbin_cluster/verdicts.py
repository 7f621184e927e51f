"""Verdicts: what the library made of each entry of a shard's log, as plain data.

They are notes of the shard's collection, a record for each transaction, written by it; so whoever has applied an entry can tell its
verdict, after a crash and after a restore as well. The last 10,000 are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

import kinbin
from kinbin_cluster.message import BadMessage

__all__ = ["KEPT", "KEPT_BYTES", "NOTES", "Verdict", "Verdicts", "told"]

KEPT = 10_000
"""Verdicts of a shard that are kept at least,"""
KEPT_BYTES = 16 * 1_048_576
"""unless their notes have more bytes than that."""
NOTES = b"v"
"""Names of the notes begin so; the sequence of the first entry of the transaction follows, in 8 bytes."""

Verdict = dict[str, Any]
"""`done`: the library's result, by the names of its fields; or `refused`: code, detail, ids, problems."""


def told(outcome: object) -> Verdict:
    """The verdict of what the library made of an edit: a result, None, or the error that it was refused with."""
    if isinstance(outcome, BadMessage):
        return {"refused": {"code": "bad_request", "detail": str(outcome), "ids": [], "problems": []}}
    if isinstance(outcome, kinbin.KinbinError):
        problems = [asdict(one) for one in getattr(outcome, "problems", ())]
        return {
            "refused": {
                "code": outcome.code,
                "detail": str(outcome),
                "ids": list(getattr(outcome, "ids", None) or ()),
                "problems": problems,
            }
        }
    if outcome is None:
        return {"done": {}}
    done = asdict(outcome)  # type: ignore[call-overload]
    done.pop("made", None)
    return {"done": done}


class _Group(NamedTuple):
    """What one transaction noted."""

    name: bytes
    sequences: list[int]
    bytes: int


class Verdicts:
    """The verdicts of one shard, in memory as they are noted. Changed by the thread that applies, read by any."""

    def __init__(self, notes: Mapping[bytes, bytes], kept: int = KEPT) -> None:
        """notes: of the collection, those whose names begin with `NOTES`."""
        self._kept = kept
        self._known: dict[int, Verdict] = {}
        self._groups: deque[_Group] = deque()
        self._bytes = 0
        for name, note in sorted(notes.items()):
            self._remember(name, orjson.loads(note), len(note))

    def of(self, sequence: int) -> Verdict | None:
        """The verdict of an entry; None: it is not known, or not any more."""
        return self._known.get(sequence)

    def noting(self, verdicts: Sequence[tuple[int, Verdict]]) -> dict[bytes, bytes | None]:
        """The notes that keep the verdicts of a transaction, and let go of the oldest."""
        note = orjson.dumps(verdicts)
        notes: dict[bytes, bytes | None] = {_name(verdicts[0][0]): note}
        count, size = len(self._known) + len(verdicts), self._bytes + len(note)
        for group in self._groups:
            if count - len(group.sequences) < self._kept and size <= KEPT_BYTES:
                break
            notes[group.name] = None
            count, size = count - len(group.sequences), size - group.bytes
        return notes

    def noted(self, verdicts: Sequence[tuple[int, Verdict]], notes: Mapping[bytes, bytes | None]) -> None:
        """They are on disk now, with these notes."""
        while self._groups and self._groups[0].name in notes:
            gone = self._groups.popleft()
            self._bytes -= gone.bytes
            for sequence in gone.sequences:
                del self._known[sequence]
        name = _name(verdicts[0][0])
        self._remember(name, verdicts, len(notes[name] or b""))

    def _remember(self, name: bytes, verdicts: Sequence[Sequence[Any]], size: int) -> None:
        self._known.update((sequence, verdict) for sequence, verdict in verdicts)
        self._groups.append(_Group(name, [sequence for sequence, _ in verdicts], size))
        self._bytes += size


def _name(sequence: int) -> bytes:
    return NOTES + sequence.to_bytes(8, "big")
