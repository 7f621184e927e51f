"""A second reader of Kinbin's files, written from index/FORMAT.md alone: slow, plain, and it imports nothing of Kinbin.

Every function checks all that FORMAT.md says about a record and raises ValueError where it does not hold.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import lmdb

TREES = ("meta", "items", "owners", "journal", "runs")
FORMATS = (1, 2, 3, 4)
UNKNOWN = 2**64 - 1
FRESH_BANDS = 128
SMALLEST = 4096
DEAD_ROWS = 32_768
MIX = 0x9E3779B97F4A7C15
MASK = 2**64 - 1

Row = tuple[float, list[int], list[float]]
"""Norm, features, values."""


def need(condition: bool, what: str) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError(what)


def checked(value: bytes, before: bytes = b"", salt: int = 0) -> bytes:
    """What stands behind a record's checksum, which begins with the salt, and covers what is to precede."""
    need(len(value) >= 4, "too short for a checksum")
    need(struct.unpack("<I", value[:4])[0] == zlib.crc32(before + value[4:], salt), "checksum")
    return value[4:]


def state(value: bytes) -> dict[str, int | None]:
    """The state record; what format 1 does not have is None, as are rows that are not counted; the salt of earlier formats is 0."""
    body = checked(value)
    names = (
        "format", "dropped", "sequence", "manifest", "next_row", "items", "sealed", "next_run", "renames", "transaction", "rows", "salt",
    )  # fmt: skip
    (version,) = struct.unpack_from("<H", body)
    need(version in FORMATS, "format")
    layout = {1: "<HHQQQQQQI", 2: "<HHQQQQQQIQQ", 3: "<HHQQQQQQIQQ", 4: "<HHQQQQQQIQQI"}[version]
    found = struct.unpack(layout, body)
    out: dict[str, int | None] = dict(zip(names, found + (UNKNOWN, UNKNOWN, 0)[len(found) - 9 :], strict=True))
    need((out["salt"] != 0) == (version == 4), "salt")
    del out["format"]
    return out | {name: None for name in ("transaction", "rows") if out[name] == UNKNOWN}


def data(value: bytes, key: bytes = b"", salt: int = 0) -> Any:
    """Configuration, manifest, body of a run's header. key: of a record; that of files without a salt is not covered."""
    return json.loads(checked(value, key if salt else b"", salt))


def item(key: bytes, value: bytes, salt: int = 0) -> tuple[int, bytes]:
    """Row number and payload."""
    body = checked(value, key, salt)
    return struct.unpack("<Q", body[:8])[0], body[8:]


def owners(key: bytes, value: bytes, salt: int = 0) -> tuple[int, list[bytes]]:
    """Row number and its ids."""
    body = checked(value, key, salt)
    ids = []
    while body:
        (size,) = struct.unpack("<H", body[:2])
        need(0 < size <= 255 and len(body) >= 2 + size, "length of an id")
        ids.append(body[2 : 2 + size])
        body = body[2 + size :]
    return struct.unpack(">Q", key)[0], ids


@dataclass
class Commit:
    """A journal entry."""

    sequence: int
    first_row: int
    dead: list[int]
    hashes: list[int]
    keys: list[tuple[int, ...]]
    rows: list[Row]
    numbers: list[int]


def commit(key: bytes, value: bytes, wide: bool, salt: int = 0) -> Commit:
    """A journal entry with its rows."""
    body = value[4:]
    version, flags, first_row, n, d, size = struct.unpack("<HHQIIQ", body[:28])
    need((version in (1, 2) and flags == 0 and not salt) or (version == 3 and flags in (0, 1)), "format")
    need(struct.unpack("<I", value[:4])[0] == zlib.crc32(key + body if version == 3 else body, salt), "checksum")
    place = 28

    def take(code: str, count: int) -> tuple[Any, ...]:
        nonlocal place
        layout = struct.Struct(f"<{count}{code}")
        out = layout.unpack_from(body, place)
        place += layout.size
        return out

    dead = list(take("Q", d))
    numbers = list(take("Q", n)) if version == 2 or flags else list(range(first_row, first_row + n))
    need(numbers[:1] in ([], [first_row]) and all(a < b for a, b in pairwise(numbers)), "numbers of new rows")
    offsets = take("q", n + 1)
    hashes = list(take("Q", n))
    keys = [take("H", FRESH_BANDS) for _ in range(n)]
    records = body[place:]
    need(len(records) == size == offsets[-1] and offsets[0] == 0, "size of the records")
    rows = []
    for start, stop in pairwise(offsets):
        row, length = row_record(records[start:], wide)
        need(length == stop - start, "size of a record")
        rows.append(row)
    return Commit(struct.unpack(">Q", key)[0], first_row, dead, hashes, keys, rows, numbers)


def row_record(record: bytes, wide: bool) -> tuple[Row, int]:
    """The row at the start of some bytes, and the length of its record."""
    norm, nnz, check = struct.unpack_from("<dII", record)
    need(nnz > 0, "an empty row")
    features = 8 * nnz if wide else (2 * nnz + 3) // 4 * 4
    length = (16 + features + 4 * nnz + 7) // 8 * 8
    need(len(record) >= length, "a row does not fit")
    h = (struct.unpack_from("<Q", record)[0] ^ nnz) * MIX & MASK
    for (word,) in struct.iter_unpack("<I", record[16:length]):
        h = (h ^ word) * MIX & MASK
        h ^= h >> 29
    need(check == h >> 32, "check of a row")
    values = struct.unpack_from(f"<{nnz}f", record, 16 + features)
    return (norm, list(struct.unpack_from(f"<{nnz}{'Q' if wide else 'H'}", record, 16)), list(values)), length


def run_value(key: bytes, value: bytes, salt: int = 0) -> tuple[int, str, int, bytes]:
    """Run, part, index and body."""
    run, part, index = struct.unpack(">IcI", key)
    crc, version, kind, size, named = struct.unpack_from("<IHHII", value)
    body = value[16 : 16 + size]
    need(version in ((2,) if salt else (1, 2)) and kind == part[0], "header of a run's value")
    before = key if version == 2 else b""
    need(named == zlib.crc32(before, salt), "key of a run's value")
    need(len(value) == max(SMALLEST, 16 + size) and not any(value[16 + size :]), "length of a run's value")
    need(zlib.crc32(before + body, salt) == crc, "checksum of a run's value")
    return run, part.decode(), index, body


@dataclass
class Run:
    """A run, read whole."""

    header: dict[str, Any] = field(default_factory=dict)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def numbers(self, part: str, code: str) -> list[int]:
        """A part that is a list of numbers."""
        return [number for (number,) in struct.iter_unpack(f"<{code}", self.parts[part, 0])]

    def rows(self, wide: bool) -> dict[int, Row]:
        """Row number → row, dead ones included."""
        out = {}
        shift = self.header["block_shift"]
        for local, (number, offset) in enumerate(zip(self.numbers("n", "Q"), self.numbers("o", "I"), strict=True)):
            record = self.parts["r", local >> shift][offset:]
            out[number] = row_record(record, wide)[0]
            if self.header.get("checks"):
                need(struct.unpack_from("<I", record, 12)[0] == self.numbers("t", "I")[local], "listed check of a row")
        need(len(out) == self.header["rows"] and list(out) == sorted(out), "rows of a run")
        return out

    def dead(self) -> set[int]:
        """Local rows that are dead."""
        out = set()
        for (part, index), body in self.parts.items():
            if part == "x":
                need(len(body) == DEAD_ROWS // 8, "length of dead bits")
                out |= {index * DEAD_ROWS + bit for bit in range(DEAD_ROWS) if body[bit >> 3] >> (bit & 7) & 1}
        return out

    def bucket(self, band: int, key: int) -> list[int]:
        """Local rows in the slot of a band that a key belongs to."""
        slots = 1 << self.header["slot_bits"]
        table = self.parts["b", band]
        offsets = struct.unpack_from(f"<{slots + 1}I", table)
        code = "H" if self.header["posting_bytes"] == 2 else "I"
        postings = struct.unpack_from(f"<{self.header['rows']}{code}", table, 4 * (slots + 1))
        need(offsets[0] == 0 and offsets[-1] == self.header["rows"], "offsets of a band")
        need(len(table) == 4 * (slots + 1) + self.header["posting_bytes"] * self.header["rows"], "length of a band")
        slot = key >> (32 - self.header["slot_bits"])
        return list(postings[offsets[slot] : offsets[slot + 1]])


@dataclass
class Files:
    """Everything in a collection's files."""

    state: dict[str, int | None]
    configuration: dict[str, Any]
    manifest: list[int]
    items: dict[str, tuple[int, bytes]]
    owners: dict[int, list[bytes]]
    journal: list[Commit]
    runs: dict[int, Run]

    @property
    def wide(self) -> bool:
        """Whether rows have 64-bit features."""
        dim = self.configuration["dim"]
        return dim is None or dim > 65_536

    def living(self) -> dict[int, Row]:
        """Row number → row, of all rows that can be answered."""
        out: dict[int, Row] = {}
        for number in self.manifest:
            run = self.runs[number]
            dead = run.dead()
            for local, (row, content) in enumerate(run.rows(self.wide).items()):
                if local not in dead:
                    out[row] = content
        for entry in self.journal:
            out.update(zip(entry.numbers, entry.rows, strict=True))
        for entry in self.journal:
            for row in entry.dead:
                out.pop(row, None)
        return out

    def vectors(self) -> dict[str, dict[int, float]]:
        """Id → vector."""
        rows = self.living()
        return {key: dict(zip(*rows[row][1:], strict=True)) for key, (row, _) in self.items.items()}


def dump(folder: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """Every key and value of a closed collection, by tree."""
    out = {}
    with lmdb.open(str(folder), readonly=True, lock=False, max_dbs=len(TREES), map_size=1 << 30) as env:
        for name in TREES:
            tree = env.open_db(name.encode(), create=False)
            with env.begin(db=tree) as transaction, transaction.cursor() as cursor:
                out[name] = [(bytes(key), bytes(value)) for key, value in cursor]
    return out


def read(folder: Path) -> Files:
    """Read and check the files of a closed collection."""
    records = dump(folder)
    meta = dict(records["meta"])
    known = state(meta[b"state"])
    need(meta.keys() - {b"identity"} == {b"state", b"config", b"manifest"}, "records of the collection")
    need((b"identity" in meta) == (known["transaction"] is not None), "identity")
    salt = known["salt"] or 0
    need(salt == (data(meta[b"identity"]).get("salt", 0) if b"identity" in meta else 0), "salt")
    configuration = data(meta[b"config"], b"config", salt)
    wide = configuration["dim"] is None or configuration["dim"] > 65_536
    runs: dict[int, Run] = {}
    for key, value in records["runs"]:
        number, part, index, body = run_value(key, value, salt)
        run = runs.setdefault(number, Run())
        run.parts[part, index] = body
        if part == "h":
            run.header = data(body)
    return Files(
        known,
        configuration,
        data(meta[b"manifest"], b"manifest", salt),
        {key.decode(): item(key, value, salt) for key, value in records["items"]},
        dict(owners(key, value, salt) for key, value in records["owners"]),
        [commit(key, value, wide, salt) for key, value in records["journal"]],
        runs,
    )
