"""Compressed bodies, both ways: gzip and zstd.

In: a body is received within its limit as it is, and then unpacked piece by piece, each of which is counted against the same limit
before the next is made: nothing is unpacked beyond it. Out: answers of some size are packed for who accepts that.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbin_service.problems import Refusal

__all__ = ["ENCODINGS", "Packing", "accepted", "pieces", "unpacked"]

ENCODINGS = ("zstd", "gzip")
"""In the order in which answers take them."""
PACKED_BYTES = 8_192
"""Smaller answers travel as they are: packing them takes longer than sending them."""
MEMBERS = 1_000
"""Of gzip, or frames of zstd, in one body: each takes time and memory, though nothing may be in it."""
_PIECE = 1_048_576
_STEP = 65_536
"""Bytes of a body that a piece is made of at the most."""
_ZSTD_STEP = 256
"""Bytes that are unpacked at once: a block of four bytes may stand for 128 KiB, so a step makes 8 MiB at the most."""
_WINDOW = 8_388_608
"""What a zstd frame may ask to keep in memory."""
_threads = ThreadPoolExecutor(2, thread_name_prefix="kinbin-unpack")
"""Of this process, begun when they are needed: bodies that take long do not hold what waits for other threads."""
_INLINE = 65_536
"""Answers up to so many bytes are packed on the event loop: a thread would take longer."""
_ITEM = re.compile(r"\s*([A-Za-z*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?")


def pieces(encoding: str, body: bytes) -> Iterator[bytes]:
    """A body unpacked, in pieces of at most 9 MiB, some of them empty, each made in milliseconds when it is asked for.

    Raises:
        Refusal: code "bad_encoding", it is not packed so, ends too early, or has too many members.
    """
    try:
        yield from _gunzipped(body) if encoding == "gzip" else _unpacked_zstd(body)
    except (zlib.error, zstandard.ZstdError) as error:
        text = f"the body is not {encoding}, as Content-Encoding says"
        if "too much memory" in str(error):
            text = f"a frame of zstd has a window of at most {_WINDOW:,} bytes: pack the body with a smaller one (without --long, --ultra)"
        raise Refusal("bad_encoding", text) from None


def _gunzipped(body: bytes) -> Iterator[bytes]:
    """Members one behind the other count as one."""
    view, at, members = memoryview(body), 0, 0
    while at < len(body):
        members = _one_more(members)
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            step = view[at : at + _STEP]
            piece = member.decompress(step, _PIECE)
            # Of the step, and never of the rest: members may be empty, and each would copy all that follows it.
            left = member.unused_data if member.eof else member.unconsumed_tail
            at += len(step) - len(left)
            if not piece and not step and not member.eof:
                raise zlib.error
            yield piece


def _unpacked_zstd(body: bytes) -> Iterator[bytes]:
    """Frames one behind the other count as one."""
    view, at, frames = memoryview(body), 0, 0
    maker = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    made: list[bytes] = []
    size, begun = 0, 0
    while at < len(body):
        frames = _one_more(frames)
        frame = maker.decompressobj()
        while not frame.eof:
            step = view[at : at + _ZSTD_STEP]
            if not step:
                raise zstandard.ZstdError
            made.append(frame.decompress(step))
            size += len(made[-1])
            # What follows the frame was in the last step.
            at += len(step) - len(frame.unused_data)
            if size >= _PIECE or at - begun >= _STEP:
                yield b"".join(made)
                made, size, begun = [], 0, at
    yield b"".join(made)


def _one_more(members: int) -> int:
    """Members or frames, with the one that begins."""
    if members == MEMBERS:
        raise Refusal("bad_encoding", f"a body has at most {MEMBERS:,} members of gzip, or frames of zstd: pack it as one")
    return members + 1


async def unpacked(encoding: str, body: bytes, take: Any, seconds: float, left: Callable[[], Awaitable[bool]]) -> bytes:
    """A body unpacked. take: is told the bytes of each piece, and refuses what is too much. left: whether the client has.

    Unpacking happens in threads of its own, piece by piece: it ends with its request, and holds up nothing else.

    Raises:
        Refusal: code "bad_encoding"; "body_timeout", it takes longer than `seconds`. ClientDisconnect.
    """
    made: list[bytes] = []
    source = pieces(encoding, body)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            while (piece := await loop.run_in_executor(_threads, next, source, None)) is not None:
                take(len(piece))
                made.append(piece)
                if await left():
                    raise ClientDisconnect
    except TimeoutError:
        raise Refusal("body_timeout", f"a body has to be unpacked within {seconds:g} seconds") from None
    return b"".join(made)


def accepted(header: str) -> str | None:
    """The encoding in which an answer travels, by an Accept-Encoding header; None: as it is."""
    weights: dict[str, float] = {}
    for part in header.lower().split(","):
        found = _ITEM.fullmatch(part)
        if found:
            weights[found[1]] = float(found[2] or 1)
    known = [name for name in ENCODINGS if weights.get(name, weights.get("*", 0.0)) > 0]
    return max(known, key=lambda name: weights.get(name, weights.get("*", 0.0)), default=None)


def packed(encoding: str, body: bytes) -> bytes:
    """An answer packed, quickly rather than tightly."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=1).compress(body)
    maker = zlib.compressobj(1, wbits=31)
    return maker.compress(body) + maker.flush()


class Packing:
    """ASGI middleware that packs answers which come in one piece and are large enough."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request through."""
        encoding = accepted(Headers(scope=scope).get("accept-encoding", "")) if scope["type"] == "http" else None
        if encoding is None:
            await self.app(scope, receive, send)
            return
        start: Message | None = None

        async def send_packed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                body = message.get("body", b"")
                headers = MutableHeaders(raw=start["headers"])
                if not message.get("more_body", False) and len(body) >= PACKED_BYTES and "content-encoding" not in headers:
                    body = packed(encoding, body) if len(body) <= _INLINE else await asyncio.to_thread(packed, encoding, body)
                    headers["content-encoding"] = encoding
                    headers["content-length"] = str(len(body))
                    headers.add_vary_header("Accept-Encoding")
                    message = {**message, "body": body}
                await send({**start, "headers": headers.raw})
                start = None
            await send(message)

        await self.app(scope, receive, send_packed)
