from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_format
from kinbin.errors import CorruptData, FormatMismatch
from kinbin.native.jit import strict
from kinbin.rows.record import four_are_sound, pack_rows, record_offsets
from kinbin.storage import format as fmt
from kinbin.storage.changes import change_key, decode_changes, encode_changes
from kinbin.storage.format import FORMAT_VERSION, FRESH_BANDS, Commit, Part, State

U64 = st.integers(0, 2**64 - 1)
IDS = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=60).map(lambda text: text.encode("utf-8", "replace")[:255])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
PARTS = [
    Part.HEADER, Part.OFFSETS, Part.ROW_NUMBERS, Part.CHECKS, Part.CONTENT, Part.CONTENT_ROWS, Part.BLOCK, Part.BAND, Part.DEAD,
    Part.BUCKETS, Part.DIRECTIONS, Part.FEATURES, Part.ENTRIES, Part.ERRORS, Part.NORMS, Part.CODES, Part.CODE_OFFSETS,
    Part.LINK_OFFSETS, Part.LINKS,
]  # fmt: skip
BLOCK_KEY, OFFSETS_KEY = fmt.run_key(7, Part.BLOCK), fmt.run_key(7, Part.OFFSETS)
ENTRY_KEY = fmt.sequence_key(9)

SALT = 0x5A17_5A17
"""What checksums begin with here."""
encode_item = partial(fmt.encode_item, salt=SALT)
decode_item = partial(fmt.decode_item, salt=SALT)
encode_owners = partial(fmt.encode_owners, salt=SALT)
decode_owners = partial(fmt.decode_owners, salt=SALT)
encode_commit = partial(fmt.encode_commit, salt=SALT)
decode_commit = partial(fmt.decode_commit, salt=SALT)
seal_value = partial(fmt.seal_value, salt=SALT)
open_value = partial(fmt.open_value, salt=SALT)

STATE = State(sequence=300, manifest=4, next_row=2**40 + 1, items=77, sealed=290, next_run=12, dropped=False, salt=SALT)


@strict
def are_sound_records(places, wide):  # type: ignore[no-untyped-def]
    """Whether each of four records has the check it was written with."""
    return four_are_sound(places, wide)


def commit_of(rows: int, dead: list[int], first_row: int = 5, seed: int = 0) -> Commit:
    """A journal entry with random content."""
    rng = np.random.default_rng(seed)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(rng.integers(3, 9, rows) * 8, out=offsets[1:])
    return Commit(
        first_row,
        np.array(sorted(dead), np.uint64),
        offsets,
        rng.integers(0, 2**64, rows, np.uint64),
        rng.integers(0, 2**16, (rows, FRESH_BANDS), np.uint16),
        rng.integers(0, 256, int(offsets[-1]), np.uint8),
    )


def unbound_value(part: bytes, body: bytes) -> bytes:
    """A run's value of format 1, whose checksum does not cover its key."""
    return struct.pack("<IHHQ", zlib.crc32(body), 1, part[0], len(body)) + body + bytes(max(0, 4080 - len(body)))


def flipped(value: bytes) -> list[bytes]:
    """The value with each one of its bits flipped in turn."""
    return [bytes([*value[: bit >> 3], value[bit >> 3] ^ 1 << (bit & 7), *value[(bit >> 3) + 1 :]]) for bit in range(8 * len(value))]


# -- what goes in comes out


NUMBERS = st.tuples(U64, U64, U64, U64, U64, U64)


@given(NUMBERS, st.booleans(), U64, st.none() | st.integers(0, 2**64 - 2), st.none() | st.integers(0, 2**64 - 2))
def test_states_come_back(numbers: tuple[int, ...], dropped: bool, renames: int, rows: int | None, transaction: int | None) -> None:
    """Every state of 64-bit numbers is decoded as it was encoded, by the second reader as well, with a salt and without."""
    for salt in (0, renames % 2**32):
        _check_state(State(*numbers, dropped, renames % 2**32, rows, transaction, salt))  # type: ignore[call-arg, arg-type]


def _check_state(state: State) -> None:
    value = fmt.encode_state(state)
    assert len(value) == (80 if state.salt else 76)
    for read in (fmt.decode_state(value), fmt.decode_state(memoryview(value))):
        assert dataclasses.astuple(read) == dataclasses.astuple(state)
    assert naive_format.state(value) == {**dataclasses.asdict(state), "dropped": int(state.dropped)}


@given(NUMBERS, st.booleans())
def test_states_of_format_1_are_read(numbers: tuple[int, ...], dropped: bool) -> None:
    """A state record of format 1 has all but transaction and rows; the second reader agrees. One of another length is damage."""
    body = struct.pack("<HHQQQQQQI", 1, dropped, *numbers, 7)
    value = zlib.crc32(body).to_bytes(4, "little") + body
    state = fmt.decode_state(value)
    assert dataclasses.astuple(state) == (*numbers, dropped, 7, None, None, 0)
    assert naive_format.state(value) == {**dataclasses.asdict(state), "dropped": int(dropped)}
    longer = body + bytes(16)
    with pytest.raises(CorruptData):
        fmt.decode_state(zlib.crc32(longer).to_bytes(4, "little") + longer)


@given(JSON)
def test_json_comes_back(data: Any) -> None:
    """Every JSON value is decoded as it was encoded, by the second reader as well."""
    value = fmt.encode_json(data)
    assert fmt.decode_json(value, "it") == fmt.decode_json(memoryview(value), "it") == naive_format.data(value) == data


@given(st.lists(st.characters(categories=["Cs"]).map("a{}b".format), max_size=4))
def test_halves_of_surrogate_pairs_come_back(names: list[str]) -> None:
    """Names that are no UTF-8 are encoded, and so they are decoded: a collection that has one opens."""
    assert fmt.decode_json(fmt.encode_json({"names": names}), "it") == {"names": names}


@given(IDS, st.integers(0, 2**48 - 1), st.binary(max_size=300))
def test_items_come_back(key: bytes, row: int, payload: bytes) -> None:
    """Row and payload of every item are decoded as they were encoded, by the second reader as well."""
    value = encode_item(key, row, payload)
    assert (
        decode_item(key, value) == decode_item(memoryview(key), memoryview(value)) == naive_format.item(key, value, SALT) == (row, payload)
    )


@given(U64, st.lists(IDS, max_size=6))
def test_owners_come_back(row: int, ids: list[bytes]) -> None:
    """The ids of every row are decoded as they were encoded, by the second reader as well."""
    value = encode_owners(row, ids)
    assert decode_owners(row, value) == decode_owners(row, memoryview(value)) == ids
    assert naive_format.owners(fmt.row_key(row), value, SALT) == (row, ids)


@given(st.integers(0, 20), st.lists(U64, max_size=9, unique=True), st.integers(0, 2**48), st.integers(0, 99), st.booleans())
def test_commits_come_back(rows: int, dead: list[int], first_row: int, seed: int, gaps: bool) -> None:
    """Every journal entry is decoded as it was encoded, into arrays of the same types; the numbers of its rows, too."""
    commit = commit_of(rows, dead, first_row, seed)
    wanted = first_row + np.arange(rows, dtype=np.uint64) * np.uint64(1 + gaps)
    if gaps and rows:
        commit = dataclasses.replace(commit, numbers=wanted)
    again = decode_commit(ENTRY_KEY, memoryview(encode_commit(ENTRY_KEY, commit)))
    assert len(again) == rows
    np.testing.assert_array_equal(again.row_numbers(), wanted)
    assert (again.numbers is None) == (commit.numbers is None)
    for field in dataclasses.fields(Commit):
        left, right = getattr(commit, field.name), getattr(again, field.name)
        if left is None:
            continue
        np.testing.assert_array_equal(left, right)
        if field.name != "first_row":
            assert left.dtype == right.dtype
            assert left.shape == right.shape


@given(
    st.sampled_from(PARTS),
    st.binary(max_size=5000) | st.integers(4070, 4100).map(bytes),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
)
def test_values_of_runs_come_back(part: bytes, body: bytes, run: int, index: int) -> None:
    """The body of every run value comes back, and the value is long enough to have pages of its own."""
    key = fmt.run_key(run, part, index)
    value = seal_value(key, body)
    assert len(value) == max(4096, 16 + len(body))
    for verify in (True, False):
        assert bytes(open_value(key, memoryview(value), verify=verify)) == body
    assert naive_format.run_value(key, value, SALT) == (run, part.decode(), index, body)


@given(st.sampled_from(["<u2", "<u4", "<u8"]), st.lists(st.integers(0, 2**16 - 1), max_size=50))
def test_arrays_are_stored_as_their_bytes(dtype: str, numbers: list[int]) -> None:
    """An array of any width, strided or not, is stored as its little-endian bytes."""
    array = np.array(numbers * 2, dtype)
    for body in (array, array[::2]):
        value = seal_value(OFFSETS_KEY, body)
        np.testing.assert_array_equal(np.frombuffer(open_value(OFFSETS_KEY, memoryview(value), verify=True), dtype), body)


@given(st.lists(U64, min_size=2, max_size=9))
def test_keys_sort_as_their_numbers(numbers: list[int]) -> None:
    """Keys made of numbers have the order of the numbers."""
    for key in (fmt.sequence_key, fmt.row_key):
        assert sorted(map(key, numbers)) == list(map(key, sorted(numbers)))
    small = [number >> 32 for number in numbers]
    pairs = list(zip(small, reversed(small), strict=True))
    assert sorted(fmt.run_key(run, b"r", index) for run, index in pairs) == [fmt.run_key(run, b"r", index) for run, index in sorted(pairs)]


def test_the_parts_have_keys_of_their_own() -> None:
    """No two kinds of parts share a byte, and each is one byte."""
    named = [value for name, value in vars(Part).items() if name.isupper()]
    assert sorted(named) == sorted(PARTS)
    assert len({*PARTS}) == len(PARTS)
    assert {len(part) for part in PARTS} == {1}


# -- damage

RECORDS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "state": (fmt.encode_state(STATE), fmt.decode_state),
    "manifest": (fmt.encode_json([1, 2, 30]), lambda value: fmt.decode_json(value, "the list")),
    "configuration": (fmt.encode_json({"kernel": "ngmm", "seed": "1"}), lambda value: fmt.decode_json(value, "it")),
    "item": (encode_item(b"a", 2**40 + 7, b'{"x":1}'), lambda value: decode_item(b"a", value)),
    "item without payload": (encode_item(b"a", 0, b""), lambda value: decode_item(b"a", value)),
    "owner": (encode_owners(2**40, [b"a"]), lambda value: decode_owners(2**40, value)),
    "owners": (encode_owners(3, [b"a", b"bcd"]), lambda value: decode_owners(3, value)),
    "commit": (encode_commit(ENTRY_KEY, commit_of(2, [1, 2**40])), lambda value: decode_commit(ENTRY_KEY, value)),
    "commit without rows": (encode_commit(ENTRY_KEY, commit_of(0, [1])), lambda value: decode_commit(ENTRY_KEY, value)),
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_flipped_bit_is_noticed(name: str) -> None:
    """A record with any one bit flipped is refused as corrupt."""
    value, decode = RECORDS[name]
    decode(value)
    for wrong in flipped(value):
        with pytest.raises(CorruptData, match="checksum"):
            decode(wrong)


@pytest.mark.parametrize("name", RECORDS)
def test_every_shorter_or_longer_record_is_noticed(name: str) -> None:
    """A record that was cut off anywhere, or has a byte too many, is refused as corrupt."""
    value, decode = RECORDS[name]
    for wrong in [value[:size] for size in range(len(value))] + [value + b"\0"]:
        with pytest.raises(CorruptData, match="checksum"):
            decode(wrong)


@pytest.mark.parametrize("bit", range(64))
def test_a_record_under_a_wrong_key_is_noticed(bit: int) -> None:
    """Owners of another row, and an item of another id, are refused: the checksum covers the key."""
    row = 2**40 + 7
    with pytest.raises(CorruptData):
        decode_owners(row ^ 1 << bit, encode_owners(row, [b"a"]))
    key = b"identity"
    wrong = (int.from_bytes(key, "big") ^ 1 << bit).to_bytes(8, "big")
    with pytest.raises(CorruptData):
        decode_item(wrong, encode_item(key, row, b""))
    with pytest.raises(CorruptData):
        decode_commit(wrong, encode_commit(key, commit_of(2, [1])))


@pytest.mark.parametrize("other", [(7, Part.BLOCK, 1), (8, Part.BLOCK, 0), (7, Part.BLOCK, 2**32 - 1), (2**31, Part.BLOCK, 0)], ids=repr)
@pytest.mark.parametrize("verify", [True, False])
def test_a_run_value_under_a_wrong_key_is_noticed(other: tuple[int, bytes, int], verify: bool) -> None:
    """Of another run, or of another index, with or without a look at its body; of format 1, whose header names no key, it is not."""
    value = seal_value(BLOCK_KEY, b"some body")
    wrong = fmt.run_key(*other)
    with pytest.raises(CorruptData, match="part 'r' of a run stands in the place of another"):
        open_value(wrong, memoryview(value), verify=verify)
    with pytest.raises(CorruptData, match="checksum"):
        # Neither does the checksum hold if the header is made to name that key.
        open_value(wrong, memoryview(value[:12] + struct.pack("<I", zlib.crc32(wrong, SALT)) + value[16:]), verify=True)
    before = unbound_value(Part.BLOCK, b"some body")
    assert bytes(fmt.open_value(wrong, memoryview(before), 0, verify=verify)) == b"some body"
    with pytest.raises(CorruptData, match="in the place of another"):
        open_value(wrong, memoryview(before), verify=verify)


@pytest.mark.parametrize("salt", [0, SALT ^ 1, SALT + 1])
def test_records_of_other_files_are_noticed(salt: int) -> None:
    """What is sound where checksums begin with another salt, or with none, is damage here, of every kind of record."""
    key, commit = b"identity", commit_of(2, [1])
    refused: list[Callable[[], object]] = [
        lambda: decode_item(key, fmt.encode_item(key, 7, b"{}", salt)),
        lambda: decode_owners(7, fmt.encode_owners(7, [b"a"], salt)),
        lambda: decode_commit(key, fmt.encode_commit(key, commit, salt)),
        lambda: open_value(BLOCK_KEY, memoryview(fmt.seal_value(BLOCK_KEY, b"body", salt)), verify=False),
        lambda: fmt.decode_json(fmt.encode_json([1], fmt.begun(salt, b"manifest")), "it", fmt.begun(SALT, b"manifest")),
        lambda: fmt.decode_json(fmt.encode_json([1], fmt.begun(SALT, b"links")), "it", fmt.begun(SALT, b"manifest")),
        lambda: decode_changes(encode_changes([(b"a", 1)], fmt.begun(salt, change_key(1))), fmt.begun(SALT, change_key(1))),
        lambda: decode_changes(encode_changes([(b"a", 1)], fmt.begun(SALT, change_key(2))), fmt.begun(SALT, change_key(1))),
    ]
    for one in refused:
        with pytest.raises(CorruptData):
            one()


@pytest.mark.parametrize("body", [b"", b"some body", bytes(range(256)) * 16], ids=["empty", "short", "long"])
def test_every_flipped_bit_of_a_run_value_is_noticed(body: bytes) -> None:
    """A run value with any one bit of header or body flipped is refused when it is verified; behind the body there is nothing to lose."""
    value = seal_value(BLOCK_KEY, body)
    shown = value[: 16 + len(body) + 8]
    for place, wrong in enumerate(start + value[len(shown) :] for start in flipped(shown)):
        if place < 8 * (16 + len(body)):
            with pytest.raises(CorruptData, match="part 'r' of a run"):
                open_value(BLOCK_KEY, memoryview(wrong), verify=True)
        else:
            assert bytes(open_value(BLOCK_KEY, memoryview(wrong), verify=True)) == body


def test_a_run_value_never_reaches_beyond_itself() -> None:
    """Unverified as well, a value of another part, format or size than its header says is refused."""
    for value in (seal_value(BLOCK_KEY, bytes(5000)), unbound_value(Part.BLOCK, bytes(5000))):
        band = seal_value(fmt.run_key(7, Part.BAND), bytes(5000))
        longer = value[:8] + struct.pack("<I", 2**32 - 1) + value[12:]
        for wrong in (value[:15], value[:-1], b"", band, value[:4] + b"\3" + value[5:], longer):
            with pytest.raises(CorruptData):
                open_value(BLOCK_KEY, memoryview(wrong), verify=False)


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("nnz", [1, 2, 3, 6])
def test_every_flipped_bit_of_a_row_is_noticed(wide: bool, nnz: int) -> None:
    """A row's record with any one bit flipped fails its check, or does not fit; the second reader agrees."""
    indptr = np.array([0, nnz], np.int64)
    features = np.arange(nnz, dtype=np.uint64) * np.uint64(9 if not wide else 2**33 + 5)
    values = np.linspace(-2, 3, nnz, dtype=np.float32) + np.float32(0.25)
    offsets = record_offsets(indptr, wide)
    record = np.zeros(int(offsets[-1]), np.uint8)
    norm = float(np.abs(values.astype(float)).sum())
    pack_rows(indptr, features, values, np.array([norm]), wide, offsets, record)
    assert naive_format.row_record(record.tobytes(), wide) == ((norm, features.tolist(), values.tolist()), len(record))

    def sound(data: np.ndarray[Any, np.dtype[np.uint8]]) -> bool:
        return bool(are_sound_records(((np.uint64(data.ctypes.data), len(data)),) * 4, wide))

    assert sound(record)
    assert not sound(record[:-8])
    for wrong in flipped(record.tobytes()):
        assert not sound(np.frombuffer(wrong, np.uint8).copy())
        with pytest.raises((ValueError, struct.error)):
            naive_format.row_record(wrong, wide)


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_a_flipped_bit_in_one_of_four_rows_is_noticed(wide: bool) -> None:
    """Records of four sizes, checked at once: whichever is damaged or does not fit its room, wherever in the four it stands."""
    records = []
    for nnz in (5, 1, 2, 4):
        offsets = record_offsets(np.array([0, nnz], np.int64), wide)
        record = np.zeros(int(offsets[-1]), np.uint8)
        values = np.linspace(1, 3, nnz, dtype=np.float32)
        pack_rows(
            np.array([0, nnz], np.int64), np.arange(nnz, dtype=np.uint64), values, np.array([float(values.sum())]), wide, offsets, record
        )
        records.append(record)

    def sound(four: list[np.ndarray[Any, np.dtype[np.uint8]]]) -> bool:
        return bool(are_sound_records(tuple((np.uint64(one.ctypes.data), len(one)) for one in four), wide))

    for turn in range(4):
        four = records[turn:] + records[:turn]
        assert sound(four)
        assert sound([four[0]] * 4)
        assert not sound([four[0][:-8], *four[1:]])
        assert not sound([four[0][:8], *four[1:]])
        for wrong in flipped(records[0].tobytes()):
            assert not sound([np.frombuffer(wrong, np.uint8).copy() if one is records[0] else one for one in four])


# -- versions


@pytest.mark.parametrize("version", [5, 9, 65_535])
def test_another_format_is_named_with_both_numbers(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """A state record or journal entry of another format is refused as that, not as damage, and the text has both numbers."""
    with monkeypatch.context() as patch:
        patch.setattr(fmt, "FORMAT_VERSION", version)
        patch.setattr(fmt, "ENTRY_FORMAT", version)
        state, commit = fmt.encode_state(STATE), encode_commit(ENTRY_KEY, commit_of(1, []))
    with pytest.raises(FormatMismatch, match=f"format {version}, this Kinbin reads format {FORMAT_VERSION}$"):
        fmt.decode_state(state)
    with pytest.raises(FormatMismatch, match=f"format {version}, this Kinbin reads format 3$"):
        decode_commit(ENTRY_KEY, commit)


@pytest.mark.parametrize("size", [6, 59, 61, 300])
def test_a_newer_format_may_have_any_length(size: int) -> None:
    """Whatever the length of a newer format's state record: it is told from damage by its first six bytes."""
    body = struct.pack("<H", 5) + bytes(range(1, 251))[: size - 6]
    value = zlib.crc32(body).to_bytes(4, "little") + body
    with pytest.raises(FormatMismatch, match="format 5, this Kinbin reads format 4"):
        fmt.decode_state(value)


def test_ids_of_a_row_are_never_an_item() -> None:
    """The record of a row's ids, found in the place of an item, is refused, though its checksum is right."""
    for ids in ([b"item-0000"], [b"a", b"b", b"c", b"d"], [b"abcd", b"efgh"], ["é".encode() * 20]):
        record = encode_owners(7, ids)
        with pytest.raises(CorruptData):
            decode_item(fmt.row_key(7), record)
    assert decode_item(b"i", encode_item(b"i", 2**48 - 1, b"{}")) == (2**48 - 1, b"{}")
