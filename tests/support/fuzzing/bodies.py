"""Valid requests, harmed: what parsers, limits and schemas meet when a client is broken or means harm. Seeded, without I/O."""

from __future__ import annotations

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from fuzzing.contract import Contract, Operation

__all__ = ["NAMES", "Asked", "harmed"]

NAMES = ("photos", "words", "both", "default", "missing", "UPPER", "a" * 300, "%00", "...", "é", " ", "live")
"""Collections and aliases that are there, and others."""
JSON, NPY, LINES = "application/json", "application/x-npy", "application/x-ndjson"
TYPES = (
    JSON,
    NPY,
    LINES,
    "multipart/form-data; boundary=x",
    "text/plain",
    "",
    "application/x-kinbin-snapshot",
    "application/json; charset=x",
)
SPANS = (
    b"NaN", b"Infinity", b"-1e999", b"1e-400", b"18446744073709551616", b"-9223372036854775809", b"\\ud800", b"\\u0000", b"\x00",
    b"\xff\xfe", b'"', b"[", b"]", b"{", b"}", b",", b":", b"[" * 3_000, b'{"a":' * 1_500, b"null", b"true", b"1" * 400, b"\r\n\r\n",
    b"--x\r\n", b"\xf0\x9f\x92\xa9",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**64, -(2**63) - 1, 0.5, -0.0, 1e308, 5e-324, 1e39, "", "a", "\u0000", "\ud83d",
    "x" * 3_000, [], {}, [[]], [None], ["a", 1], {"": None}, {"$gt": []}, {"$and": [{}]}, {"indices": [1], "values": []},
    {"tokens": {"a": -1}}, [0, 0, 0], {"indices": [2**63], "values": [1]}, [1e39] * 3, ["a"] * 300,
    {"$or": [{"year": {"$in": list(range(200))}}]},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as it is sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    operation: Operation | None


def harmed(contract: Contract, rng: random.Random, snapshots: Sequence[str] = ()) -> Asked:
    """A request that is nearly a valid one. snapshots: ids that may be there."""
    operation = rng.choice([one for one in contract.operations if one.bodies] if rng.random() < 0.85 else contract.operations)
    kind, body = _body(operation, rng)
    headers = _headers(kind, rng)
    if headers.get("content-encoding") in ("gzip", "deflate") and rng.random() < 0.8:
        packed = gzip.compress(body, mtime=0) if headers["content-encoding"] == "gzip" else zlib.compress(body)
        body = packed if rng.random() < 0.7 else _bytes(packed, rng)
    path = operation.path.replace("{name}", _in_path(rng.choice(NAMES) if rng.random() < 0.3 else rng.choice(NAMES[:4])))
    path = path.replace("{id}", _in_path(rng.choice([*snapshots, "missing", "...", "%"])))
    if rng.random() < 0.4:
        path += "?" + _parameters(rng)
    method = operation.method if rng.random() < 0.97 else rng.choice(["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])
    return Asked(method, path, headers, body, contract.of(method, path))


def _in_path(name: str) -> str:
    return name if name.startswith("%") and len(name) > 1 else quote(name, safe="")


def _body(operation: Operation, rng: random.Random) -> tuple[str, bytes]:
    """A media type and a harmed body."""
    if not operation.bodies:
        return "", b"" if rng.random() < 0.7 else _bytes(b"{}", rng)
    kind = rng.choice(list(operation.bodies))
    whole: dict[str, Callable[[], bytes]] = {
        JSON: lambda: _json(operation, rng),
        NPY: lambda: _npy(rng),
        LINES: lambda: b"\n".join(_json(operation, rng, "items") for _ in range(rng.randrange(4))),
        "multipart/form-data": lambda: _form(rng),
    }
    made = whole.get(kind, lambda: rng.randbytes(rng.randrange(200)))()
    return kind, made if rng.random() < 0.5 else _bytes(made, rng)


def _json(operation: Operation, rng: random.Random, key: str | None = None) -> bytes:
    """An example of an operation (or of the elements of one of its arrays) with some of its values replaced, left out or moved."""
    value = json.loads(json.dumps(rng.choice(operation.bodies.get(JSON) or ({},))))
    if key is not None and isinstance(value, dict) and value.get(key):
        value = rng.choice(value[key])
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        value = _changed(value, rng)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _changed(value: Any, rng: random.Random) -> Any:
    """The same with one place of it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        what = rng.random()
        if what < 0.12:
            return {other: one for other, one in value.items() if other != name}
        if what < 0.24:
            return {**value, rng.choice(("", "k", "id", "vector", "filter", "x" * 200)): rng.choice(VALUES)}
        return {**value, name: _changed(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value + value[place : place + 1] * rng.choice((1, 3, 50))
        return [*value[:place], _changed(value[place], rng), *value[place + 1 :]]
    return rng.choice(VALUES)


def _npy(rng: random.Random) -> bytes:
    """A matrix of a width and a type that may or may not fit."""
    stream = io.BytesIO()
    shape = rng.choice([(2, 3), (1, 3), (5, 3), (2, 4), (0, 3), (3,), (2, 3, 1), (200, 3)])
    matrix: Any = np.array([rng.choice((0.5, 1.0, 7.0, -1.0)) for _ in range(int(np.prod(shape)))]).reshape(shape)
    if matrix.size and rng.random() < 0.2:
        matrix.flat[0] = rng.choice((np.nan, np.inf, 1e300))
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = matrix.astype(rng.choice(("<f4", "<f8", ">f4", "<i8", "<f2", "<c8")), order=rng.choice("CF"))
    np.save(stream, matrix)
    return stream.getvalue()


def _form(rng: random.Random) -> bytes:
    """A form of images that are none."""
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n' + rng.randbytes(40)
        for _ in range(rng.randrange(3))
    ]
    return b"\r\n".join([*parts, b'--x\r\nContent-Disposition: form-data; name="items"\r\n\r\n[{"id":"a"}]', b"--x--\r\n"])


def _bytes(body: bytes, rng: random.Random) -> bytes:
    """A body with some of its bytes changed, cut out, doubled or put in."""
    out = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 4, 40)))
        what = rng.randrange(5)
        if what == 0:
            out[at:at] = rng.choice(SPANS)
        elif what == 1:
            out[at:end] = rng.randbytes(end - at)
        elif what == 2:
            del out[at:end]
        elif what == 3:
            out[at:at] = out[at:end] * rng.choice((1, 20))
        else:
            del out[at:]
    return bytes(out)


def _headers(kind: str, rng: random.Random) -> dict[str, str]:
    headers = {"content-type": kind + ("; boundary=x" if kind.startswith("multipart") else "") if rng.random() < 0.9 else rng.choice(TYPES)}
    more = {
        "content-encoding": ("gzip", "zstd", "deflate", "identity", "br", ""),
        "x-kinbin-ids": ("a,b", '["a","b"]', "[", "a,a", ",", "x" * 600, '[1,"1"]', "\x7f"),
        "idempotency-key": ("k", "k", "", "x" * 300, "é"),
        "accept": (
            "application/x-ndjson",
            "application/vnd.kinbin.columns+json",
            "application/vnd.kinbin.columns+json;q=0",
            "text/html",
            ";;,",
        ),
        "accept-encoding": ("gzip", "zstd", "br;q=0, *", "gzip;q=x"),
        "range": ("bytes=0-9", "bytes=5-", "bytes=-1", "bytes=9-1", "lines=1", "bytes=0-1,3-4"),
        "if-none-match": ("*", '"x"'),
        "origin": ("http://127.0.0.1", "null"),
        "x-request-id": ("r1", "x" * 400, "\t"),
    }
    for name, values in more.items():
        if rng.random() < 0.08:
            headers[name] = rng.choice(values)
    return headers


def _parameters(rng: random.Random) -> str:
    names = (
        "k",
        "mode",
        "include",
        "target_recall",
        "min_score",
        "stream",
        "on_error",
        "queries",
        "seed",
        "limit",
        "verify",
        "name",
        "x",
        "exist_ok",
    )
    values = ("", "1", "-1", "0", "1e9", "NaN", "true", "exact", "upsert", "payload,vector", "%00", "%ff", "a" * 500, "3", "0.5")
    return "&".join(f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randrange(1, 4)))
