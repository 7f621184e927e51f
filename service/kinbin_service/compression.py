"""Compressed bodies, both ways: gzip and zstd.

In: a body is received within its limit as it is, and then unpacked piece by piece, each of which is counted against the same limit
before the next is made: nothing is unpacked beyond it. Out: answers of some size are packed for who accepts that.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator
from typing import Any

import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinbin_service.problems import Refusal

__all__ = ["ENCODINGS", "Packing", "accepted", "pieces", "unpacked"]

ENCODINGS = ("zstd", "gzip")
"""In the order in which answers take them."""
PACKED_BYTES = 8_192
"""Smaller answers travel as they are: packing them takes longer than sending them."""
_PIECE = 1_048_576
_ZSTD_STEP = 256
"""Bytes that are unpacked at once: a block of four bytes may stand for 128 KiB, so a step makes 8 MiB at the most."""
_WINDOW = 8_388_608
"""What a zstd frame may ask to keep in memory."""
_INLINE = 65_536
"""Answers up to so many bytes are packed on the event loop: a thread would take longer."""
_ITEM = re.compile(r"\s*([A-Za-z*-]+)\s*(?:;\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*)?")


def pieces(encoding: str, body: bytes) -> Iterator[bytes]:
    """A body unpacked, in pieces of at most 8 MiB, each made when it is asked for.

    Raises:
        Refusal: code "bad_encoding", it is not packed so, or ends too early.
    """
    try:
        yield from _gunzipped(body) if encoding == "gzip" else _unpacked_zstd(body)
    except (zlib.error, zstandard.ZstdError):
        raise Refusal("bad_encoding", f"the body is not {encoding}, as Content-Encoding says") from None


def _gunzipped(body: bytes) -> Iterator[bytes]:
    """Members one behind the other count as one."""
    rest = body
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(rest, _PIECE)
            rest = member.unconsumed_tail
            if piece:
                yield piece
            elif not rest and not member.eof:
                raise zlib.error
        rest = member.unused_data


def _unpacked_zstd(body: bytes) -> Iterator[bytes]:
    """Frames one behind the other count as one."""
    view = memoryview(body)
    while view:
        frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
        while not frame.eof:
            if not view:
                raise zstandard.ZstdError
            step, view = view[:_ZSTD_STEP], view[_ZSTD_STEP:]
            piece = frame.decompress(step)
            if piece:
                yield piece
        # What follows the frame was in the last step.
        left = len(frame.unused_data)
        view = memoryview(body)[len(body) - len(view) - left :]


async def unpacked(encoding: str, body: bytes, take: Any) -> bytes:
    """A body unpacked. take: is told the bytes of each piece, and refuses what is too much. Unpacking happens in a thread."""
    made: list[bytes] = []
    source = pieces(encoding, body)
    while (piece := await asyncio.to_thread(next, source, None)) is not None:
        take(len(piece))
        made.append(piece)
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
