"""Notes: records of a program's own in the tree `meta`, written by the very transaction of the edits that they tell of.

Their keys are `note:` and a name of the program's; what they hold is its own affair. Readers that know none pass over them, copies and
snapshots have them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from kinbin.errors import CorruptData, InvalidInput
from kinbin.storage.lookups import META
from kinbin.storage.transactions import Reader, Writer

__all__ = ["MOST_NAME", "NOTE", "check_notes", "note_named", "notes_from", "open_note", "put_notes"]

MOST_NAME = 64
"""Bytes of a note's name."""
MOST_BYTES = 1 << 24
"""Of a note."""
NOTE = b"note:"
"""Keys of notes begin so."""


def check_notes(notes: Mapping[bytes, bytes | None]) -> None:
    """See that notes can be kept.

    Raises:
        InvalidInput: code "bad_parameter".
    """
    for name, note in notes.items():
        right = isinstance(name, bytes) and 0 < len(name) <= MOST_NAME and (note is None or isinstance(note, bytes))
        if not right or len(note or b"") > MOST_BYTES:
            text = f"a note has a name of 1 to {MOST_NAME} bytes and at most {MOST_BYTES} bytes, or is None"
            raise InvalidInput.of("bad_parameter", text, field="notes")


def open_note(key: bytes, value: bytes, salt: int) -> bytes:
    """What a record holds.

    Raises:
        CorruptData: it fails its checksum.
    """
    note = value[4:]
    if len(value) < 4 or zlib.crc32(note, zlib.crc32(key, salt)) != int.from_bytes(value[:4], "little"):
        raise CorruptData("a note fails its checksum")
    return note


def note_named(reader: Reader, name: bytes) -> bytes | None:
    """One note; None: there is none of this name."""
    value = reader._get(META, NOTE + name)
    return None if value is None else open_note(NOTE + name, value, reader.salt)


def notes_from(reader: Reader, prefix: bytes) -> dict[bytes, bytes]:
    """The notes whose names begin so, in the order of their names."""
    found = {}
    for key, value in reader.scan_tree(META, NOTE + prefix):
        if not key.startswith(NOTE + prefix):
            break
        found[key[len(NOTE) :]] = open_note(key, value, reader.salt)
    return found


def put_notes(writer: Writer, notes: Mapping[bytes, bytes | None]) -> None:
    """Write notes, and remove those that are None."""
    for name, note in notes.items():
        if note is not None:
            key = NOTE + name
            writer._put(META, key, zlib.crc32(note, zlib.crc32(key, writer.salt)).to_bytes(4, "little") + note)
    writer._delete(META, [NOTE + name for name, note in notes.items() if note is None])
