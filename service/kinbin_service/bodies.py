"""Bodies: read within their limits, then parsed in one place. What cannot be parsed is refused with 400, 413, 415 or 422, never 500."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from starlette.requests import Request

from kinbin_service import large_json
from kinbin_service.compression import ENCODINGS, unpacked
from kinbin_service.objects import KEYS
from kinbin_service.problems import Entry, Refusal

__all__ = [
    "JSON", "MULTIPART", "NDJSON", "NPY", "SNAPSHOT", "Buffers", "content_type", "parse_good_lines", "parse_json",
    "parse_lines", "read_body",
]  # fmt: skip

JSON = "application/json"
NDJSON = "application/x-ndjson"
NPY = "application/x-npy"
MULTIPART = "multipart/form-data"
SNAPSHOT = "application/x-kinbin-snapshot"

NUMBER = re.compile(r"-?(Infinity|NaN|\d[\d.eE+-]*)")
TOKEN = re.compile(r'"((?:[^"\\]|\\.?)*+)("\s*:|"|\Z)|[\[\]{},]', re.DOTALL)  # an open string at the end is one token too
KNOWN_KEYS = frozenset({"items", "queries", "vector", "id", "ids", "indices", "values", "k", "target_recall", "min_score", *KEYS})
OPAQUE_KEYS = frozenset({"payload", "filter", "tokens"})
POINTER_CHARACTERS = 1_000_000


class Buffers:
    """The bytes of bodies that this worker holds, and how many it may hold. Used on the event loop only."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held = 0

    @contextmanager
    def account(self) -> Iterator[Account]:
        """An account for one request; what it took is given back at the end."""
        account = Account(self)
        try:
            yield account
        finally:
            self.held -= account.taken


class Account:
    """The share of one request in the buffers."""

    def __init__(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.taken = 0

    def take(self, size: int) -> None:
        """Count further bytes; refused when all requests together hold too many."""
        if self.buffers.held + size > self.buffers.capacity:
            raise Refusal("buffers_full", "the bodies being received fill the memory set aside for them; try again")
        self.buffers.held += size
        self.taken += size

    def give(self, size: int) -> None:
        """Count bytes that are not held any more."""
        self.buffers.held -= size
        self.taken -= size


async def read_body(request: Request, account: Account, limit_name: str, limit_bytes: int, seconds: float) -> bytes:
    """The whole body, unpacked. Refused: longer than its limit (as soon as that is known), too slow, or no room for it."""
    encoding = content_encoding(request)
    received = io.BytesIO()
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit_bytes:
                    raise too_large(limit_name, limit_bytes)
                account.take(len(chunk))
                received.write(chunk)
    except TimeoutError:
        raise Refusal("body_timeout", f"a body has to arrive within {seconds:g} seconds") from None
    # Its own bytes, not a copy: putting 32 MiB together at the end would hold everything up for 15 ms.
    body = received.getvalue()
    if encoding == "identity":
        return body
    made = 0

    def take(more: int) -> None:
        nonlocal made
        made += more
        if made > limit_bytes:
            raise too_large(limit_name, limit_bytes)
        account.take(more)

    return await unpacked(encoding, body, take, seconds, request.is_disconnected)


def content_encoding(request: Request) -> str:
    """How a body is packed; anything but gzip and zstd is refused."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if encoding != "identity" and encoding not in ENCODINGS:
        raise Refusal("unsupported_encoding", f"send the body as it is, or with Content-Encoding {' or '.join(ENCODINGS)}")
    return encoding


def too_large(limit_name: str, limit_bytes: int) -> Refusal:
    """The refusal of a body over its limit."""
    return Refusal("body_too_large", f"a body has at most {limit_bytes:,} bytes here", limit=limit_name)


def content_type(request: Request, allowed: tuple[str, ...]) -> str:
    """The media type of a body, one of `allowed`; anything else, and an encoding that is not read, is refused."""
    content_encoding(request)
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = re.search(r"charset\s*=\s*\"?([^\";\s]+)", parameters, re.IGNORECASE)
    if media_type.strip().lower() not in allowed or (charset and charset[1].lower() not in ("utf-8", "utf8", "us-ascii")):
        raise Refusal("unsupported_media_type", f"send {' or '.join(allowed)} (text in UTF-8)")
    return media_type.strip().lower()


def parse_json(body: bytes) -> Any:
    """The JSON value of a body. Of a key that occurs twice in an object, the last one counts.

    Of a body over 64 KiB, vectors that are lists of numbers are arrays already.
    """
    try:
        return large_json.loads(body)
    except orjson.JSONDecodeError as error:
        raise _explain(body, error) from None


def parse_lines(body: bytes, after: int = 0) -> tuple[list[Any], list[int]]:
    """The JSON values of the lines of a body, and the number of the line of each, from 1 on; blank lines are skipped.

    Pointers count the values: "#/items/3". after: lines that came before this body.
    """
    values: list[Any] = []
    numbers: list[int] = []
    for number, line in enumerate(io.BytesIO(body), after + 1):
        if not line.strip():
            continue
        try:
            values.append(large_json.compacted(orjson.loads(line)))
        except orjson.JSONDecodeError as error:
            refusal = _explain(line, error, f"#/items/{len(values)}")
            raise Refusal(refusal.code, f"line {number}: {refusal.detail}", refusal.errors) from None
        numbers.append(number)
    return values, numbers


def parse_good_lines(body: bytes, after: int = 0) -> tuple[list[Any], list[int], dict[int, Refusal]]:
    """The same, where lines that are not JSON count as null, with what is wrong with each, by its place among the values."""
    values: list[Any] = []
    numbers: list[int] = []
    faults: dict[int, Refusal] = {}
    for number, line in enumerate(body.split(b"\n"), after + 1):
        if line.strip():
            try:
                values.append(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                refusal = _explain(line, error, "#/items/0")
                entries = [Entry(one.pointer, f"line {number}: {one.detail}") for one in refusal.errors]
                faults[len(values)] = Refusal(refusal.code, f"line {number}: {refusal.detail}", entries)
                values.append(None)
            numbers.append(number)
    return values, numbers, faults


def _explain(body: bytes, error: orjson.JSONDecodeError, root: str = "#") -> Refusal:
    """What is wrong with a text that is not JSON: a number that is not finite (422), a lone surrogate (422), or the syntax (400)."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return Refusal("bad_json", "the body is not UTF-8", [Entry(root, "not UTF-8")])
    at = error.pos
    if "surrogate" in error.msg:
        pointer = pointer_at(text, at, root)
        code = "bad_id" if pointer.endswith("/id") or "/ids" in pointer else "bad_string"
        return Refusal(code, f"a string holds half of a surrogate pair, at character {at}", [Entry(pointer, "not Unicode")])
    start = at - 1 if text[at - 1 : at] == "-" else at
    number = NUMBER.match(text, start)
    if number and (number[1] in ("Infinity", "NaN") or "infinity" in error.msg):
        return Refusal("non_finite", f"a number is not finite, at character {at}", [Entry(pointer_at(text, at, root), "not finite")])
    reason = "nested too deeply" if "depth" in error.msg else "not JSON"
    return Refusal("bad_json", f"{reason}, at character {at}", [Entry(root, reason)])


def pointer_at(text: str, at: int, root: str = "#") -> str:
    """The JSON pointer of the value at a character, as far as its keys are Kinbin's own; `root` when that is far into the text."""
    if at > POINTER_CHARACTERS:
        return root
    path: list[str | int] = []
    for token in TOKEN.finditer(text, 0, at):
        mark = token[0]
        if mark == "[":
            path.append(0)
        elif mark == "{":
            path.append("")
        elif mark in ("]", "}"):
            path.pop()
        elif mark == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
        elif token[2].endswith(":"):
            path[-1] = token[1]
    pointer = root
    for step in path:
        if isinstance(step, int) or step in KNOWN_KEYS or step in OPAQUE_KEYS:
            pointer += f"/{step}"
        if isinstance(step, str) and step not in KNOWN_KEYS:
            break
    return pointer
