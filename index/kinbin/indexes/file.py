"""A payload index on disk: one file beside the store, replaced whole by a rename. Whoever finds it damaged does as if there were none.

Layout, little-endian: b"KBIX", crc32 u32 of all that follows, bytes of the header u64, the header (JSON), then arrays, each from a
multiple of 8 on. The header lists name, type and length of each, in order.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbin.indexes.columns import ORDERED, Column, Ordered, Points, Texts
from kinbin.indexes.index import Index
from kinbin.indexes.segment import Segment
from kinbin.storage.directories import sync_directory
from kinbin.storage.errors import translated

__all__ = ["load", "save", "saved_sequence"]

_MAGIC, _VERSION = b"KBIX", 1
_HEAD = struct.Struct("<4sIQ")
_Arrays = dict[str, NDArray[Any]]


def save(index: Index, path: Path) -> None:
    """Write an index of one segment. Durable on return; a crash leaves the file as it was, or as it is now."""
    ((segment, kept),) = index.parts
    assert not index.last, "only what is compacted is kept"
    assert kept.all(), "only what is compacted is kept"
    arrays: _Arrays = {"rows": segment.rows, **_of_texts("ids", segment.ids)}
    others = []
    for name, column in segment.columns.items():
        arrays.update(_of_column(name, column))
        others.append([[slot, values] for slot, values in column.others.items()])
    header = {
        "version": _VERSION, "kinds": {name: column.kind for name, column in segment.columns.items()}, "sequence": index.sequence,
        "mark": index.mark.hex(), "others": others, "arrays": [[name, one.dtype.str, len(one)] for name, one in arrays.items()],
    }  # fmt: skip
    told = json.dumps(header, separators=(",", ":")).encode()
    parts = [len(told).to_bytes(8, "little"), told, _padding(len(told))]
    for one in arrays.values():
        parts += [np.ascontiguousarray(one).tobytes(), _padding(one.nbytes)]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    draft = path.with_name(f".{path.name}")
    with translated():
        with draft.open("wb") as file:
            file.write(_MAGIC + crc.to_bytes(4, "little"))
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_directory(path.parent)


def saved_sequence(path: Path) -> int | None:
    """The commit that the file says it is of, unchecked; None: there is none that can be read."""
    try:
        with path.open("rb") as file:
            magic, _, size = _HEAD.unpack(file.read(_HEAD.size))
            return int(json.loads(file.read(min(size, 1 << 30)))["sequence"]) if magic == _MAGIC else None
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def load(path: Path) -> Index | None:
    """The index; None if there is none, or it cannot be used. Cost: 1 ns a byte."""
    try:
        data = path.read_bytes()
        magic, crc, size = _HEAD.unpack_from(data)
        if magic != _MAGIC or zlib.crc32(memoryview(data)[8:]) != crc:
            return None
        header = json.loads(data[_HEAD.size : _HEAD.size + size])
        if header["version"] != _VERSION:
            return None
        arrays: _Arrays = {}
        start = _HEAD.size + size + len(_padding(size))
        for name, dtype, count in header["arrays"]:
            arrays[name] = one = np.frombuffer(data, dtype, count, start)
            start += one.nbytes + len(_padding(one.nbytes))
        others = [dict(one) for one in header["others"]]
        columns = {name: _column(name, kind, arrays, told) for (name, kind), told in zip(header["kinds"].items(), others, strict=True)}
        segment = Segment(arrays["rows"], _texts("ids", arrays), columns)
        everything = np.ones(len(segment), np.bool_)
        return Index(header["kinds"], header["sequence"], bytes.fromhex(header["mark"]), len(segment), ((segment, everything),), {})
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _padding(size: int) -> bytes:
    return b"\0" * (-size % 8)


def _of_texts(name: str, texts: Texts) -> _Arrays:
    return {f"{name}.ends": texts.ends, f"{name}.blob": np.frombuffer(texts.blob, np.uint8)}


def _texts(name: str, arrays: Mapping[str, NDArray[Any]]) -> Texts:
    return Texts(arrays[f"{name}.ends"], arrays[f"{name}.blob"].tobytes())


def _of_column(name: str, column: Column) -> _Arrays:
    out: _Arrays = {f"{name}/present": np.packbits(column.present)}
    for held, ordered in column.ordered.items():
        key = f"{name}/{held}"
        out |= _of_texts(key, ordered.values) if isinstance(ordered.values, Texts) else {f"{key}.values": ordered.values}
        out |= {f"{key}.offsets": ordered.offsets, f"{key}.slots": ordered.slots}
    if column.points is not None:
        out |= {f"{name}/lat": column.points.lat, f"{name}/lon": column.points.lon, f"{name}/slots": column.points.slots}
    return out


def _column(name: str, kind: str, arrays: Mapping[str, NDArray[Any]], others: dict[int, list[Any]]) -> Column:
    present = np.unpackbits(arrays[f"{name}/present"], count=len(arrays["rows"])).view(np.bool_)
    ordered = {}
    for held in ORDERED[kind]:
        key = f"{name}/{held}"
        values = _texts(key, arrays) if held == "text" else arrays[f"{key}.values"]
        ordered[held] = Ordered(values, arrays[f"{key}.offsets"], arrays[f"{key}.slots"])
    points = Points(arrays[f"{name}/lat"], arrays[f"{name}/lon"], arrays[f"{name}/slots"]) if kind == "geo" else None
    return Column(kind, present, ordered, points, others)
