"""Edits as the bytes of messages, and back. `cluster/LOG.md` specifies them.

Arrays travel as they lie in memory and nothing is validated twice: a gateway has checked the items (`kinbin.Schema`). What arrives is
held against its own lengths and bounds all the same, so that no bytes, whoever wrote them, lead a kernel outside of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import zstandard
from numpy.typing import NDArray

import kinbin
from kinbin_cluster.packed import PackedReader, PackedWriter

__all__ = ["MOST_BYTES", "OPERATIONS", "BadMessage", "Edit", "TooNew", "decoded", "encoded", "mark", "numbered"]

VERSION, NUMBERED = 1, 2
"""Of an entry; the second has the number of its first row in 8 bytes behind it."""
_FIRST = 9
"""Bytes before the frame of such an entry."""
OPERATIONS = ("add", "delete", "delete_by_filter", "set_payload", "patch_payload", "indexes", "limits", "compact", "mark")
MOST_BYTES = 1_000_000
"""Of a message: with its headers it stays below the 1 MiB that servers take."""
MOST_EDIT_BYTES = 1 << 28
"""Of an edit that is unpacked: ten times what one shard's part of the largest add needs in practice."""
_LEVEL = 1


class BadMessage(Exception):
    """The bytes are no edit that is understood here."""


class TooNew(BadMessage):
    """A later version of Kinbin wrote it: who cannot read it must not go on without it."""


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """What one message asks of one shard."""

    op: str
    """One of `OPERATIONS`."""
    ids: list[bytes] = field(default_factory=list)
    """n, UTF-8."""
    payloads: list[bytes] | None = None
    """n, canonical JSON; empty where there is none. None: no item has one."""
    rows: Mapping[str, kinbin.Rows] = field(default_factory=dict)
    """n canonical rows of each field, under "" those of items that have no fields."""
    mode: str = "upsert"
    on_error: str = "reject"
    versions: Sequence[int | None] | None = None
    """n; None: of no item a version is asked for."""
    positions: Sequence[int] | None = None
    """n places in the batch as it came to the gateway, which problems are told by; None: 0, 1 and so on."""
    idempotency_key: str | None = None
    now: float = 0.0
    """Seconds since 1970: as it is written by the gateway's clock, which nothing is decided by; as it is applied when the log stored it."""
    filter: Any = None
    """Of delete_by_filter, as JSON."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Of indexes: "add" {field: kind} and "drop" [field]; of limits: "items"; of a mark: "name"."""
    first: int | None = None
    """Of an add: the number of the row of the batch's first item (see `numbers`). None: rows get the next numbers of their shard."""


# --------------------------------------------------------------------------------------------- to bytes


def encoded(edit: Edit, most: int = MOST_BYTES) -> list[bytes]:
    """The messages of one edit: one, or parts of at most `most` bytes, which the log keeps together."""
    if edit.op not in OPERATIONS:
        raise ValueError(f"{edit.op!r} is no operation")
    packer = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True, write_content_size=True)
    begun = bytes((VERSION,)) if edit.first is None else _beginning(edit.first)
    whole = begun + packer.compress(_body(edit))
    return [whole[start : start + most] for start in range(0, len(whole), most)]


def numbered(messages: Sequence[bytes], first: int) -> list[bytes]:
    """The messages of an edit that has a number, with another number."""
    return [_beginning(first) + messages[0][_FIRST:], *messages[1:]]


def _beginning(first: int) -> bytes:
    return bytes((NUMBERED,)) + first.to_bytes(_FIRST - 1, "little")


def _body(edit: Edit) -> bytes:
    out = PackedWriter()
    out.texts(edit.ids)
    if edit.payloads is not None:
        out.texts(edit.payloads)
    if edit.versions is not None:
        out.array([-1 if one is None else one for one in edit.versions], "<i8")
    if edit.positions is not None:
        out.array(edit.positions, "<u4")
    fields = [(name, len(rows), *_put_rows(out, rows)) for name, rows in edit.rows.items()]
    head = {
        "op": edit.op, "n": len(edit.ids), "payloads": edit.payloads is not None, "versions": edit.versions is not None,
        "positions": edit.positions is not None, "fields": fields, "mode": edit.mode, "on_error": edit.on_error,
        "key": edit.idempotency_key, "now": edit.now, "filter": edit.filter, "more": dict(edit.more),
    }  # fmt: skip
    told = orjson.dumps(head, option=orjson.OPT_SORT_KEYS)
    return len(told).to_bytes(4, "little") + told + out.finish()


def _put_rows(out: PackedWriter, rows: kinbin.Rows) -> tuple[int, int]:
    """Write rows; returns how many nonzeros there are, and how many bytes each feature id has: 0 where every row's are 0, 1 and so on."""
    sizes = np.diff(rows.indptr)
    width = _width(rows, sizes)
    out.array(sizes, "<u4")
    if width:
        out.array(rows.features, f"<u{width}")
    out.array(rows.values, "<f4")
    out.array(rows.norms, "<f8")
    return len(rows.values), width


def _width(rows: kinbin.Rows, sizes: NDArray[np.int64]) -> int:
    total = len(rows.features)
    # Ascending from 0 on, the last of a row says whether all are there.
    if (rows.features[rows.indptr[1:] - 1] == sizes - 1).all() if len(sizes) and (sizes > 0).all() else not total:
        return 0
    most = int(rows.features.max()) if total else 0
    return 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8


# ------------------------------------------------------------------------------------------- from bytes


def decoded(parts: Sequence[bytes]) -> Edit:
    """The edit of an entry of the log.

    Raises:
        BadMessage; TooNew, for versions and operations that are not known here.

    Cost: 2 µs a row of 512 numbers.
    """
    whole = b"".join(parts)
    if whole[:1] not in (bytes((VERSION,)), bytes((NUMBERED,))):
        raise TooNew("the message is of no version that is known here: this node is too old for what the gateway writes")
    has_number = whole[0] == NUMBERED
    first = int.from_bytes(whole[1:_FIRST], "little") if has_number else None
    body = memoryview(whole)[_FIRST if has_number else 1 :]
    try:
        size = zstandard.frame_content_size(body)
        if not 0 <= size <= MOST_EDIT_BYTES:
            raise BadMessage(f"the edit has {size} bytes")
        return _edit(zstandard.ZstdDecompressor().decompress(body, max_output_size=size), first)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, zstandard.ZstdError) as error:
        raise BadMessage(f"the message is malformed: {error}") from None


def _edit(data: bytes, first: int | None) -> Edit:
    start = 4 + int.from_bytes(data[:4], "little")
    head = orjson.loads(data[4:start])
    n = head["n"]
    if head["op"] not in OPERATIONS:
        raise TooNew(f"the operation {head['op']!r} is not known here: this node is too old for what the gateway writes")
    given = PackedReader(data, start)
    ids = given.texts(n)
    payloads = given.texts(n) if head["payloads"] else None
    versions = [None if one < 0 else one for one in given.array(n, "<i8").tolist()] if head["versions"] else None
    positions = given.array(n, "<u4").tolist() if head["positions"] else None
    rows = {name: _rows(given, count, nonzeros, width) for name, count, nonzeros, width in head["fields"]}
    given.end()
    if any(len(one) != n for one in rows.values()):
        raise BadMessage("there are not as many rows as ids")
    return Edit(
        head["op"], ids, payloads, rows, head["mode"], head["on_error"], versions, positions, head["key"], head["now"], head["filter"],
        head["more"], first,
    )  # fmt: skip


def _rows(given: PackedReader, count: int, nonzeros: int, width: int) -> kinbin.Rows:
    sizes = given.array(count, "<u4").astype(np.int64)
    indptr = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=indptr[1:])
    if int(indptr[-1]) != nonzeros or (count and int(sizes.min()) < 1) or int(sizes.max(initial=0)) > kinbin.LIMITS["nonzeros"].value:
        raise BadMessage("rows have other lengths than they say")
    if width:
        features = given.array(nonzeros, f"<u{width}").astype(np.uint64)
        inner = features[1:] > features[:-1]
        # Where a row begins, the feature before is another row's.
        inner[indptr[1:-1] - 1] = True
        if not inner.all() or int(features.max(initial=0)) > kinbin.LIMITS["feature_id"].value:
            raise BadMessage("features of a row do not ascend")
    else:
        features = (np.arange(nonzeros) - np.repeat(indptr[:-1], sizes)).astype(np.uint64)
    values = given.array(nonzeros, "<f4").astype(np.float32)
    norms = given.array(count, "<f8").astype(np.float64)
    if not (np.isfinite(values).all() and np.isfinite(norms).all() and (norms >= 0).all()):
        raise BadMessage("values of a row are not finite")
    return kinbin.Rows(indptr, features, values, norms)


def mark(name: str = "") -> bytes:
    """The message of a mark: each replica tells the digest of its contents right behind it."""
    return encoded(Edit("mark", more={"name": name}))[0]
