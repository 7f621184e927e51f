"""Bytes on disk: the layout (index/FORMAT.md), but for what JSON records hold (`headers`). Values here never change.

Everything is little-endian but keys, which are big-endian so that they sort. Every record carries a
CRC-32, because LMDB has no checksums: a flipped bit in a page would otherwise be an answer.

A store has a salt (`headers.Identity`; 0: it was made before format 4). Checksums begin with it, then cover the record's key: so a record
in the place of another one, and one of another file, fail theirs.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kinbin.errors import CorruptData, FormatMismatch

__all__ = [
    "ENTRY_FORMAT",
    "FORMAT_VERSION",
    "MOST_ROWS",
    "VALUE_FORMAT",
    "Commit",
    "Part",
    "State",
    "begun",
    "decode_commit",
    "decode_item",
    "decode_json",
    "decode_owners",
    "decode_state",
    "encode_commit",
    "encode_item",
    "encode_json",
    "encode_owners",
    "encode_state",
    "is_item",
    "names_key",
    "open_value",
    "part_of",
    "read_head",
    "row_key",
    "row_of",
    "run_key",
    "seal_value",
    "sequence_key",
    "split_head",
]

FORMAT_VERSION = 4
"""Of a collection: what its state record says, and how. Earlier ones are read as well."""
_UNSALTED = 3
"""That of collections without a salt: the first commit to one of format 1 or 2 writes it."""
_OLDEST = 1
VALUE_FORMAT = 2
"""Of the values of runs: their checksum covers the key, which their header names. Values of format 1, without that, are read as well."""
_UNBOUND = 1
ENTRY_FORMAT = 3
"""Of journal entries: their checksum covers the key. That of formats 1 and 2 (with numbers) does not; they are read as well."""
_NUMBERED = 2
_HAS_NUMBERS = 1
"""A flag of format 3."""
FRESH_BANDS = 128
"""Keys stored with every fresh row (uint16 each)."""

_VALUE = struct.Struct("<IHHII")
VALUE_HEADER = _VALUE.size
"""Bytes before the body of a run's value: crc32 u32, format u16, part u16, body bytes u32, crc32 of the key u32 (format 1: 0)."""
SMALLEST_VALUE = 4096
"""Run values are at least so long: LMDB then keeps them on pages of their own, where they never move."""

_PREFIX = struct.Struct("<IH")
_STATE_1 = struct.Struct("<IHHQQQQQQI")
_STATE = struct.Struct("<IHHQQQQQQIQQ")
_SALT = struct.Struct("<I")
"""Behind the state, from format 4 on."""
_UNKNOWN = 2**64 - 1
_ITEM = struct.Struct("<IQ")
_COMMIT = struct.Struct("<IHHQIIQ")
MOST_ROWS = 2**48
"""More than any store can hold."""


class Part:
    """The kinds of values a run has; the byte stands in the key."""

    HEADER = b"h"
    """JSON: see `headers.RunHeader`, and `headers.LinkSetHeader` of a link set."""
    OFFSETS = b"o"
    """u32 × rows: offset of each row's record in its block."""
    ROW_NUMBERS = b"n"
    """u64 × rows, ascending: the row's number in the collection."""
    CHECKS = b"t"
    """u32 × rows: the check of each row's record, which so proves that it is the record of this row. Runs of format 2 have none."""
    CONTENT = b"c"
    """u64 × rows, ascending: content hashes."""
    CONTENT_ROWS = b"p"
    """u32 × rows: the local row of each content hash."""
    BLOCK = b"r"
    """Row records of 2**block_shift rows."""
    BAND = b"b"
    """One band: u32 × (2**slot_bits + 1) offsets, then u16 or u32 × rows postings."""
    DEAD = b"x"
    """Bits of DEAD_ROWS rows, set for rows that are deleted or replaced. The only part that changes."""

    # A link set is stored like a run, under a number of its own; it has HEADER and ROW_NUMBERS as well.
    BUCKETS = b"f"
    """u16 × slots: the byte of a code that each slot is folded into; nothing where codes are packed, or projections."""
    DIRECTIONS = b"d"
    """f32 × (slots + 1) × width, only of projections: the shift, then the direction of each slot."""
    FEATURES = b"u"
    """u64 × slots, ascending, only of projections: the feature of each slot; nothing where each feature is a slot."""
    ENTRIES = b"a"
    """u32: nodes that walks begin from."""
    ERRORS = b"e"
    """f32 × rows: what rounding may have taken from a code's distances."""
    NORMS = b"w"
    """f32 × rows: sums of absolute values, for kernels that do not normalise."""
    CODES = b"k"
    """Codes of 2**code_shift rows, behind CODE_PADDING bytes."""
    CODE_OFFSETS = b"q"
    """u32 × rows: quad (16 bytes) of each row's packed code in its block."""
    LINK_OFFSETS = b"s"
    """u32 × rows: word of each row's links in its block."""
    LINKS = b"g"
    """Links of 2**link_shift rows: number, links, number, links … (u32)."""


DEAD_ROWS = 32_768
CODE_PADDING = 32
"""Zeros before the codes of a block: they then begin on a cache line."""


@dataclass(frozen=True, slots=True)
class State:
    """What a commit changes first of all; readers compare `sequence` and `manifest` with what they know."""

    sequence: int = 0
    """Number of the last commit."""
    manifest: int = 0
    """Changes when the list of runs does."""
    next_row: int = 0
    items: int = 0
    sealed: int = 0
    """Commits up to this one have no journal entry any more: their rows are in runs."""
    next_run: int = 1
    dropped: bool = False
    """The collection is being removed: nothing may be written."""
    renames: int = 0
    """Changes when the ids of a row that stays alive do."""
    rows: int | None = 0
    """Living rows. None: not known (format 1, until its next edit), or not counted (the first store of a collection with fields)."""
    transaction: int | None = field(default=None, compare=False)
    """The transaction that wrote the record; the store sets it. None: format 1."""
    salt: int = field(default=0, compare=False)
    """What checksums begin with; 0: none. The identity says it as well."""

    def with_(self, **changes: Any) -> State:
        """A copy with some fields changed."""
        return replace(self, **changes)


def _corrupt(what: str) -> CorruptData:
    return CorruptData(f"{what} fails its checksum")


def _refuse_other_format(version: int, least: int, most: int) -> None:
    if not least <= version <= most:
        raise FormatMismatch(f"the files have format {version}, this Kinbin reads format {most}")


def begun(salt: int, key: bytes) -> int:
    """What the checksum of a record of the first tree begins with: the salt and its key. Without a salt it covers the value alone."""
    return zlib.crc32(key, salt) if salt else 0


def encode_state(state: State, transaction: int | None = None) -> bytes:
    """State as 80 bytes, 76 without a salt. transaction: that it names, if not the state's own."""
    transaction = state.transaction if transaction is None else transaction
    body = _STATE.pack(
        0,
        FORMAT_VERSION if state.salt else _UNSALTED,
        int(state.dropped),
        state.sequence,
        state.manifest,
        state.next_row,
        state.items,
        state.sealed,
        state.next_run,
        state.renames % 2**32,
        _UNKNOWN if transaction is None else transaction,
        _UNKNOWN if state.rows is None else state.rows,
    )[4:]
    body += _SALT.pack(state.salt) if state.salt else b""
    # Whoever knows no salt has to see that this is a newer format, and no damage.
    return struct.pack("<I", zlib.crc32(body)) + body


def decode_state(value: bytes | memoryview) -> State:
    """The state, checked.

    Raises:
        FormatMismatch, CorruptData.
    """
    # Checksum and version keep their places in every format, whatever the length: so a newer one is told from damage.
    if len(value) < _PREFIX.size or zlib.crc32(value[4:]) != int.from_bytes(value[:4], "little"):
        raise _corrupt("the collection's state record")
    version = _PREFIX.unpack_from(value)[1]
    _refuse_other_format(version, _OLDEST, FORMAT_VERSION)
    salted = version > _UNSALTED
    if len(value) != (_STATE_1.size if version == _OLDEST else _STATE.size + salted * _SALT.size):
        raise _corrupt("the collection's state record")
    transaction, rows, salt = _UNKNOWN, _UNKNOWN, _SALT.unpack_from(value, _STATE.size)[0] if salted else 0
    if version != _OLDEST:
        _, _, dropped, sequence, manifest, next_row, items, sealed, next_run, renames, transaction, rows = _STATE.unpack_from(value)
    else:
        _, _, dropped, sequence, manifest, next_row, items, sealed, next_run, renames = _STATE_1.unpack(value)
    return State(
        sequence, manifest, next_row, items, sealed, next_run, bool(dropped), renames,
        None if rows == _UNKNOWN else rows, None if transaction == _UNKNOWN else transaction, salt,
    )  # fmt: skip


def encode_json(data: Any, before: int = 0) -> bytes:
    """JSON behind its checksum (configuration, list of runs, run headers). before: what that begins with (`begun`)."""
    body = json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return struct.pack("<I", zlib.crc32(body, before)) + body


def decode_json(value: bytes | memoryview, what: str, before: int = 0) -> Any:
    """The data of `encode_json`, checked."""
    if len(value) < 4 or zlib.crc32(value[4:], before) != int.from_bytes(value[:4], "little"):
        raise _corrupt(what)
    try:
        return orjson.loads(value[4:])
    except ValueError:
        pass
    try:
        # What Python writes and orjson does not read: halves of surrogate pairs in names.
        return json.loads(bytes(value[4:]))
    except ValueError:
        raise _corrupt(what) from None


def encode_item(key: bytes, row: int, payload: bytes, salt: int) -> bytes:
    """An item's record: its row and its payload (JSON, or nothing). The checksum covers the id as well."""
    body = row.to_bytes(8, "little") + payload
    return zlib.crc32(body, zlib.crc32(key, salt)).to_bytes(4, "little") + body


def is_item(key: bytes | memoryview, row: int) -> bool:
    """Whether a record is one of an item, by its key and by what stands where items have their row.

    Checksums of other records are made as those of items are. Ids of a row stand where its number would be too large; keys of commits, of
    what these touched, and of what is due have numbers, of which each begins with a byte that no id has.
    """
    return row < MOST_ROWS and 0 not in key


def decode_item(key: bytes | memoryview, value: bytes | memoryview, salt: int) -> tuple[int, bytes]:
    """Row and payload, checked."""
    if len(value) >= _ITEM.size:
        crc, row = _ITEM.unpack_from(value)
        if is_item(key, row) and zlib.crc32(value[4:], zlib.crc32(key, salt)) == crc:
            return row, bytes(value[_ITEM.size :])
    raise _corrupt("an item's record")


def encode_owners(row: int, ids: Sequence[bytes], salt: int) -> bytes:
    """The ids that share a row, in the order they came. The checksum covers the row's number as well."""
    one = len(ids[0]).to_bytes(2, "little") + ids[0] if len(ids) == 1 else None
    body = b"".join(len(key).to_bytes(2, "little") + key for key in ids) if one is None else one
    return zlib.crc32(body, zlib.crc32(row_key(row), salt)).to_bytes(4, "little") + body


def decode_owners(row: int, value: bytes | memoryview, salt: int) -> list[bytes]:
    """The ids of `encode_owners`, checked."""
    body = bytes(value)[4:]
    if len(value) < 4 or zlib.crc32(body, zlib.crc32(row_key(row), salt)) != int.from_bytes(value[:4], "little"):
        raise _corrupt("the list of a row's ids")
    if len(body) > 2 and body[1] == 0 and len(body) == 2 + body[0]:
        # Most rows have one id, and every answer asks for it.
        return [body[2:]]
    ids, place = [], 0
    while place < len(body):
        size = int.from_bytes(body[place : place + 2], "little")
        ids.append(body[place + 2 : place + 2 + size])
        place += 2 + size
    if place != len(body) or b"" in ids:
        raise _corrupt("the list of a row's ids")
    return ids


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit adds and takes away: an entry of the journal.

    n rows are new; `dead` rows stop being answered.
    """

    first_row: int
    """The number of the first of them; where none is new, the next one that may be."""
    dead: NDArray[np.uint64]
    """(d,) row numbers, of fresh rows and of rows in runs."""
    offsets: NDArray[np.int64]
    """(n+1,) of each row's record in `records`."""
    hashes: NDArray[np.uint64]
    """(n,) content hashes."""
    keys: NDArray[np.uint16]
    """(n, 128) fresh band keys."""
    records: NDArray[np.uint8]
    """Row records, end to end."""
    numbers: NDArray[np.uint64] | None = None
    """(n,) of the new rows, ascending; None: first_row and those behind it, without gaps."""

    def __len__(self) -> int:
        return len(self.hashes)

    def row_numbers(self) -> NDArray[np.uint64]:
        """(n,) numbers of the new rows."""
        if self.numbers is not None:
            return self.numbers
        return np.arange(self.first_row, self.first_row + len(self), dtype=np.uint64)


def encode_commit(key: bytes, commit: Commit, salt: int) -> bytes:
    """A journal entry. The checksum covers its key as well."""
    parts: tuple[tuple[Any, str], ...] = (
        (commit.dead, "<u8"), ((), "<u8") if commit.numbers is None else (commit.numbers, "<u8"), (commit.offsets, "<i8"),
        (commit.hashes, "<u8"), (commit.keys, "<u2"), (commit.records, "u1"),
    )  # fmt: skip
    # Arrays of just this type are joined as they are.
    body = b"".join([np.ascontiguousarray(array, dtype).data for array, dtype in parts])
    flags = 0 if commit.numbers is None else _HAS_NUMBERS
    head = _COMMIT.pack(0, ENTRY_FORMAT, flags, commit.first_row, len(commit), len(commit.dead), len(commit.records))[4:]
    return zlib.crc32(body, zlib.crc32(head, zlib.crc32(key, salt))).to_bytes(4, "little") + head + body


def decode_commit(key: bytes, value: bytes | memoryview, salt: int) -> Commit:
    """The commit, checked; its arrays are copies."""
    data = bytes(value)
    if len(data) < _COMMIT.size:
        raise _corrupt("a journal entry")
    _, version, flags, first_row, rows, dead, size = _COMMIT.unpack_from(data)
    # Files with a salt have no entries of earlier formats.
    before = zlib.crc32(key, salt) if salt or version >= ENTRY_FORMAT else 0
    if zlib.crc32(memoryview(data)[4:], before) != int.from_bytes(data[:4], "little"):
        raise _corrupt("a journal entry")
    _refuse_other_format(version, 1, ENTRY_FORMAT)
    numbered = rows if version == _NUMBERED or (version == ENTRY_FORMAT and flags & _HAS_NUMBERS) else 0
    if len(data) != _COMMIT.size + 8 * (dead + numbered + rows + 1) + rows * (8 + 2 * FRESH_BANDS) + size:
        raise _corrupt("a journal entry")
    place = _COMMIT.size

    def take(dtype: str, count: int) -> NDArray[Any]:
        nonlocal place
        array = np.frombuffer(data, dtype, count, place)
        place += array.nbytes
        return array

    gone = take("<u8", dead)
    numbers = take("<u8", rows) if numbered else None
    offsets = take("<i8", rows + 1)
    hashes = take("<u8", rows)
    keys = take("<u2", rows * FRESH_BANDS).reshape(rows, FRESH_BANDS)
    return Commit(first_row, gone, offsets, hashes, keys, take("u1", size), numbers)


def seal_value(key: bytes, body: bytes | NDArray[Any], salt: int) -> bytes:
    """A run's value: header, body, zeros up to the smallest length that LMDB keeps in one place."""
    data = body if isinstance(body, bytes) else np.ascontiguousarray(body).tobytes()
    of_key = zlib.crc32(key, salt)
    header = _VALUE.pack(zlib.crc32(data, of_key), VALUE_FORMAT, part_of(key)[0], len(data), of_key)
    return b"".join((header, data, b"\0" * max(0, SMALLEST_VALUE - VALUE_HEADER - len(data))))


def open_value(key: bytes, value: memoryview, salt: int, *, verify: bool, bound: bool = False) -> memoryview:
    """The body of a run's value; its checksum is computed only when asked for (0.5 ns a byte).

    bound: of a run whose values all name their keys; one that does not is of an older run.

    Raises:
        CorruptData: it is damaged, or the value of another key.
    """
    crc, of_key, size = read_head(key, value, salt, bound=bound)
    body = value[VALUE_HEADER : VALUE_HEADER + size]
    if len(body) != size or (verify and zlib.crc32(body, of_key) != crc):
        raise _corrupt(_part(key))
    return body


def names_key(value: bytes | memoryview) -> bool:
    """Whether a run's value is of the format in which it names its key."""
    return len(value) >= VALUE_HEADER and split_head(value)[1] == VALUE_FORMAT


def split_head(value: bytes | memoryview) -> tuple[int, int, int, int, int]:
    """The header of a run's value, unproved: checksum, format, part, bytes of the body, name of the key (its CRC-32, behind the salt)."""
    return _VALUE.unpack_from(value)


def read_head(key: bytes, value: bytes | memoryview, salt: int, *, bound: bool = False) -> tuple[int, int, int]:
    """What the header of a run's value says: its checksum, what that begins with, and the bytes of the body.

    Raises:
        CorruptData: it is damaged, or of the value of another key.
    """
    if len(value) >= VALUE_HEADER:
        crc, version, kind, size, named = split_head(value)
        of_key = zlib.crc32(key, salt) if version == VALUE_FORMAT else 0
        if version in (VALUE_FORMAT, _UNBOUND) and kind == part_of(key)[0]:
            # Files with a salt have no values of the format without names.
            if named != of_key or ((bound or salt) and version != VALUE_FORMAT):
                raise CorruptData(f"{_part(key)} stands in the place of another")
            return crc, of_key, size
    raise _corrupt(_part(key))


def _part(key: bytes) -> str:
    return f"a part {part_of(key).decode(errors='replace')!r} of a run"


def part_of(key: bytes) -> bytes:
    """The part of a run that has a key."""
    return key[4:5]


def sequence_key(sequence: int) -> bytes:
    """Key of a journal entry."""
    return sequence.to_bytes(8, "big")


def row_key(row: int) -> bytes:
    """Key of a row's owners."""
    return row.to_bytes(8, "big")


def row_of(key: bytes) -> int:
    """The row whose owners stand under a key.

    Raises:
        CorruptData: it is no such key.
    """
    if len(key) != 8:
        raise _corrupt("the key of a row's ids")
    return int.from_bytes(key, "big")


def run_key(run: int, part: bytes, index: int = 0) -> bytes:
    """Key of a part of a run."""
    return run.to_bytes(4, "big") + part + index.to_bytes(4, "big")
