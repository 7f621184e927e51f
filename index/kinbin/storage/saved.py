"""What is saved of a damaged file, record by record: each is proved by its checksum, with one flipped bit put right where that is asked."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kinbin.errors import CorruptData, FormatMismatch, KinbinError
from kinbin.storage import format as fmt
from kinbin.storage.answered import DUE
from kinbin.storage.changes import CHANGES, Declared
from kinbin.storage.correction import corrected
from kinbin.storage.format import Commit
from kinbin.storage.headers import Identity, numbers
from kinbin.storage.notes import NOTE
from kinbin.storage.quota import Quota

__all__ = ["PartKey", "Saved", "save_commit", "save_item", "save_meta", "save_owners"]

PartKey = tuple[int, bytes, int]
"""Run, part, index."""


@dataclass
class Saved:
    """The records that verify. `lost` tells in sentences what did not."""

    config: object = None
    """JSON of the configuration; None: lost."""
    manifest: list[int] | None = None
    indexes: Declared | None = None
    """The payload indexes that were declared."""
    quota: Quota = field(default_factory=Quota)
    """What the collection may hold."""
    items: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """Id → row and payload."""
    owners: dict[int, list[bytes]] = field(default_factory=dict)
    commits: dict[int, Commit] = field(default_factory=dict)
    """Journal entries by number."""
    parts: dict[PartKey, tuple[int, int]] = field(default_factory=dict)
    """Where the values of runs lie: first page, bytes. Their checksums are not looked at yet."""
    doubtful_items: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """The same as items, from pages that no tree reaches: true only if their row lives and nothing else names it."""
    doubtful_owners: dict[int, list[bytes]] = field(default_factory=dict)
    stale_parts: dict[PartKey, tuple[int, int]] = field(default_factory=dict)
    """The same as parts, from pages that are free: of runs that are listed, whose values lie on pages in use."""
    newest_known: bool = True
    """Whether both meta pages are whole and follow each other. Else this may be the state before the last commit."""
    metas_lost: bool = False
    """Whether neither meta page could be read: this is the last state of which a record was found."""
    lacking: set[bytes] = field(default_factory=set)
    """The trees of which not all entries were reached, or proved."""
    disputed: set[PartKey] = field(default_factory=set)
    """Values of runs of which records that no tree reaches say different things. None of these is taken."""
    earlier: bool = False
    """Whether a tree leads to pages that are listed as free: what is only there may be of an earlier state."""
    unsure: bool = False
    """Whether rows are taken that no tree reaches, while it is not known which pages are free."""
    free_known: bool = True
    """Whether the list of free pages is whole. Else pages that no tree reaches may be old ones, and what was deleted may stand there."""
    identity: Identity | None = None
    """Whose files these are; None: that is lost, or not said."""
    counted: int | None = None
    """Items that there are, as the state record says; None: it is lost."""
    entries_lost: int = 0
    """Entries of leaves that no checksum proves."""
    sequence: int | None = None
    """The commit that the state record tells of; None: it is lost."""
    sealed: int | None = None
    """The last commit whose rows are in runs, as that record says."""
    state_reached: bool = False
    """Whether that record is the one that the tree leads to."""
    state_transaction: int | None = None
    """The transaction that it names."""
    transaction: int | None = None
    """The last one, as meta pages say; None: they say none."""
    written_for: int | None = None
    """Of a field: the commit of the items that it was last written for; None: it is lost, or none."""
    adds_lost: int = 0
    """Those among them that are the rows of an add, not sealed into a run yet: one checksum proves all of them."""
    pages_lost: int = 0
    """Pages that trees lead to, and that cannot be read or are not those that were written there."""

    def is_open_edit(self, key: bytes) -> bool:
        """Whether a key is that of a commit whose rows are in no run yet, as far as is known: the journal has those alone."""
        return self.sequence is None or self.sealed is None or self.sealed < int.from_bytes(key, "big") <= self.sequence

    @property
    def state_is_last(self) -> bool:
        """Whether the state record that was found is that of the last transaction, as far as can be known."""
        return self.state_reached or (self.transaction is not None and self.state_transaction == self.transaction)


def _proved(message: bytes, crc: int, before: int, *, right: bool) -> bytes | None:
    """The message, if its checksum proves it; right: with a flipped bit put right."""
    return corrected(message, crc, before) if right else message if zlib.crc32(message, before) == crc else None


def save_item(key: bytes, value: bytes, salt: int, into: dict[bytes, tuple[int, bytes]], *, right: bool) -> bool:
    """An item. Returns whether it was saved; right: put a flipped bit right."""
    message, crc = key + value[4:], int.from_bytes(value[:4], "little")
    if len(value) < 12:
        return False
    proved = _proved(message, crc, salt, right=right)
    if proved is None:
        return False
    key, body = proved[: len(key)], proved[len(key) :]
    row = int.from_bytes(body[:8], "little")
    if not fmt.is_item(key, row):
        return False
    into.setdefault(key, (row, body[8:]))
    return True


def save_owners(key: bytes, value: bytes, salt: int, into: dict[int, list[bytes]], *, right: bool) -> bool:
    """The ids of a row. Returns whether it was saved; right: put a flipped bit right."""
    message, crc = key + value[4:], int.from_bytes(value[:4], "little")
    if len(key) != 8 or len(value) < 4:
        return False
    proved = _proved(message, crc, salt, right=right)
    if proved is None:
        return False
    row = int.from_bytes(proved[:8], "big")
    if row >= fmt.MOST_ROWS:
        # An item whose id has as many bytes: its checksum is made alike.
        return False
    sealed = zlib.crc32(proved, salt).to_bytes(4, "little") + proved[8:]
    try:
        ids = fmt.decode_owners(row, sealed, salt)
    except CorruptData:
        return False
    into.setdefault(row, ids)
    return True


def save_commit(key: bytes, value: bytes, salt: int, out: Saved, *, right: bool) -> bool:
    """A journal entry. Returns whether it was saved; right: put a flipped bit right."""
    crc = int.from_bytes(value[:4], "little")
    # Entries of earlier formats have a checksum that does not cover their key.
    for before in ((key,) if salt else (key, b"")) if len(key) == 8 and len(value) > 4 else ():
        message = _proved(before + value[4:], crc, salt, right=right)
        if message is None:
            continue
        known = message[: len(before)] or key
        with suppress(CorruptData, FormatMismatch, ValueError):
            # Bytes of another kind, in which a checksum happens to be right, are no entry.
            commit = fmt.decode_commit(known, zlib.crc32(message, salt).to_bytes(4, "little") + message[len(before) :], salt)
            out.commits.setdefault(int.from_bytes(known, "big"), commit)
            return True
    return False


def save_meta(key: bytes, value: bytes, salt: int, out: Saved, *, right: bool, stray: bool = False, only: bytes | None = None) -> bool:
    """A record of the first tree. Returns whether it was saved; right: put a flipped bit right."""
    if (key.startswith(CHANGES) and len(key) > len(CHANGES)) or (key.startswith(DUE) and not value) or key.startswith(NOTE):
        # Derived, or of keys that the new collection does not know, or a note of just these items: it is not taken over.
        return True
    crc = int.from_bytes(value[:4], "little")
    plain = _proved(value[4:], crc, 0, right=right) if len(value) >= 4 else None
    if key == b"state" and plain is not None:
        # All that it says is worked out from the other records; how many items there were tells whether all were found.
        with suppress(KinbinError):
            state = fmt.decode_state(_sealed(plain))
            # Of records that no tree reaches all but the last are old.
            if out.sequence is None or (stray and not out.state_reached and state.sequence > out.sequence):
                out.counted, out.sequence, out.sealed, out.state_reached = state.items, state.sequence, state.sealed, not stray
                out.state_transaction = state.transaction
        return True
    keyed = _proved(key + value[4:], crc, salt, right=right) if salt and len(value) >= 4 else None
    if keyed is not None:
        key = keyed[: len(key)]
    body = plain if keyed is None else keyed[len(key) :]
    if body is None:
        return False
    try:
        data = fmt.decode_json(_sealed(body), "a record")
        if salt and keyed is None and not (isinstance(data, dict) and "secret" in data):
            # Only the identity has a checksum without the salt: this is a record of other files.
            return False
        if key == b"commit" and isinstance(data, int) and only is None and out.written_for is None:
            out.written_for = data
        # The key of a record may be damaged: its content tells what it is.
        if isinstance(data, dict):
            _take_object(data, out, others=only is None)
        elif isinstance(data, list) and only is None and key not in (b"links", b"moved"):
            out.manifest = numbers(data, "the list of runs") if out.manifest is None else out.manifest
    except CorruptData:
        return False
    return isinstance(data, list | dict | int)


def _sealed(body: bytes) -> bytes:
    """A record of the first tree as it is without a salt."""
    return zlib.crc32(body).to_bytes(4, "little") + body


def _take_object(data: dict[str, Any], out: Saved, *, others: bool) -> None:
    """Save a JSON object, if it is of a kind that is saved. others: than what the collection was created with."""
    if "hash_version" in data:
        out.config = data if out.config is None else out.config
    elif not others:
        return
    elif "secret" in data:
        out.identity = Identity.decode(data) if out.identity is None else out.identity
    elif data.keys() == {"kinds", "mark"}:
        out.indexes = Declared.decode(data) if out.indexes is None else out.indexes
    elif data.keys() == {"items", "bytes"}:
        out.quota = Quota.decode(data) if out.quota == Quota() else out.quota
