"""Streams of lines on /index: any number of them, in batches that are durable one after the other.

    body ──▶ lines ──▶ batch (1,000 lines or 4 MiB) ──▶ admission ──▶ one transaction ──▶ receipt

The next piece of the body is read when the batch before is durable: a sender that is too fast waits (back-pressure), and no more than
two batches are in memory. Receipts are sums, and sent beside the reading: where nobody takes them they are replaced by later ones, so
that a client that reads only at the end holds nothing up. Where batches begin depends on the lines alone, so the same stream again has
the same batches, and their idempotency keys.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

import kinbin
from kinbin_service import connections
from kinbin_service.bodies import NDJSON, Account, content_encoding, content_type, too_large
from kinbin_service.documented import IDEMPOTENCY
from kinbin_service.problems import Entry, Place, Refusal, document, from_library
from kinbin_service.replies import encode, took_ms
from kinbin_service.routes.adding import Batch, lines_batch, told_skipped
from kinbin_service.routes.filling import added, fitted
from kinbin_service.routes.received import DEFAULT, options
from kinbin_service.schemas.requests import AddOptions
from kinbin_service.service import service_of

__all__ = ["Stream", "batch_key", "stream_index"]

BATCH_LINES = 1_000
BATCH_BYTES = 4_194_304
MOST_TOLD = 100
LOOK_SECONDS = 0.5
"""A stream of which nothing arrives looks so often whether its server stops."""
PATIENCE_SECONDS = 60.0
"""So long a batch waits for admission before the stream is ended."""
WAITS = frozenset({"overloaded", "deadline", "buffers_full"})
"""Refusals that pass: nobody but this stream waits for it."""


async def stream_index(request: Request, name: str, kind: type[Stream] | None = None) -> Response:
    """The answer to a stream; its body is read while it is sent. kind: what adds the batches; None: `Stream`."""
    content_type(request, (NDJSON,))
    if content_encoding(request) != "identity":
        raise Refusal("unsupported_encoding", "a stream travels as it is: without stream=true, requests of a batch each may be packed")
    _check_key(request.headers.get("idempotency-key"))
    return (kind or Stream)(request, name, options(request, AddOptions))


def _check_key(key: str | None) -> None:
    """Refuse what is no key of an add either; that of a batch is made of it."""
    most = IDEMPOTENCY["schema"]["maxLength"]
    if key is not None and not (0 < len(key) <= most and key.isascii() and key.isprintable()):
        text = f"an idempotency key is a string of 1 to {most} printable ASCII characters"
        raise Refusal("bad_parameter", text, [Entry("#/idempotency_key", text)])


def batch_key(key: str, lines: int) -> str:
    """The key of the batch behind so many lines: of one length, and nobody's own key by chance."""
    return f"stream-{hashlib.sha256(f'{lines}-{key}'.encode()).hexdigest()}"


class Stream(Response):
    """One stream. Before its first batch is durable, a refusal is answered like any other."""

    media_type = NDJSON

    def __init__(self, request: Request, name: str, chosen: AddOptions) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._request = request
        self._name = name
        self._chosen = chosen
        self._key = request.headers.get("idempotency-key")
        self._sums: dict[str, Any] = {"lines": chosen.after, "indexed": 0, "updated": 0, "unchanged": 0, "skipped": 0, "count": 0}
        self._problems: list[Any] = []
        self._counted = False
        self._receipt: tuple[bytes, bool] = b"", False
        self._told = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read, add and send receipts until the lines end, or one of them is refused."""
        started = time.perf_counter()
        sending: asyncio.Task[None] | None = None
        try:
            with service_of(self._request).buffers.account() as account:
                async for body, lines in self._batches(receive, account):
                    await self._patiently(partial(self._add, body))
                    self._sums["lines"] += lines
                    self._tell(self._sums)
                    sending = sending or asyncio.create_task(self._send(send))
            if not self._counted:
                await self._patiently(self._count)
            end: dict[str, Any] = {"done": True}
        except (Refusal, kinbin.KinbinError) as error:
            if sending is None:
                raise
            end = {"error": self._problem(error)}
        except BaseException as error:
            if sending is None or not (isinstance(error, asyncio.CancelledError) and connections.stopping(scope)):
                if sending is not None:
                    sending.cancel()
                raise
            # The server waits no longer for the batch.
            text = "the service stops: the batch behind the last receipt may be there or not"
            end = {"error": self._problem(Refusal("outcome_unknown", text))}
        skipped = {"problems": self._problems} if self._chosen.on_error == "skip" else {}
        self._tell({**self._sums, **skipped, **end, "took_ms": took_ms(started)}, last=True)
        await (sending or self._send(send))

    async def _add(self, body: bytes) -> None:
        """One batch, parsed and added in a thread."""
        if not body.strip():
            if not self._counted:
                await self._count()
            return

        key = None if self._key is None else batch_key(self._key, self._sums["lines"])
        done, bad = await self.added(body, key)
        for name in ("indexed", "updated", "unchanged"):
            self._sums[name] += getattr(done, name)
        self._sums |= {"count": done.count, "skipped": self._sums["skipped"] + bad["skipped"]}
        self._problems += bad["problems"][: MOST_TOLD - len(self._problems)]
        self._counted = True

    async def _count(self) -> None:
        """What a collection holds to which nothing was added yet; refused where there is none, but for the one that an add creates."""
        self._sums["count"] = await self.counted()
        self._counted = True

    # -- what a gateway does otherwise

    def batch(self, body: bytes) -> Batch:
        """The lines of a batch, read. In a thread."""
        batch = lines_batch(body, self._chosen, self._sums["lines"])
        self._request.state.place = Place("items", batch.ids or (), batch.lines)
        return batch

    async def added(self, body: bytes, key: str | None) -> tuple[kinbin.AddResult, dict[str, Any]]:
        """Add one batch: what it did, and what was left out. key: by which it may come again."""
        service = service_of(self._request)

        def add() -> tuple[kinbin.AddResult, dict[str, Any]]:
            batch = fitted(service.database, self._name, self.batch(body))
            self._request.state.place = Place("items", batch.ids or (), batch.lines)
            done = added(service.database, self._name, batch, batch.terms(key))
            return done, told_skipped(done, batch)

        return await service.work(self._request, add, writes=True, watched=False)

    async def counted(self) -> int:
        """How many items the collection has; 0 of one that an add creates."""
        service = service_of(self._request)

        def count() -> int:
            try:
                return int(service.database.collection(self._name).count())
            except kinbin.CollectionNotFound:
                if self._name == DEFAULT:
                    return 0
                raise

        return await service.work(self._request, count, watched=False)

    # -- reading

    async def _batches(self, receive: Receive, account: Account) -> AsyncIterator[tuple[bytes, int]]:
        """Batches of whole lines, and how many lines each has; the account holds what is in memory."""
        held: list[bytes] = []
        size = 0
        async for line in self._lines(receive, account):
            held.append(line)
            size += len(line)
            if len(held) == BATCH_LINES or size >= BATCH_BYTES:
                yield b"".join(held), len(held)
                account.give(size)
                held, size = [], 0
        if held:
            yield b"".join(held), len(held)

    async def _lines(self, receive: Receive, account: Account) -> AsyncIterator[bytes]:
        """Lines with their ends. A line has at most as many bytes as the body of an add that is no stream."""
        most = service_of(self._request).settings.max_index_body_bytes
        rest: list[bytes] = []
        length = 0
        async for chunk in self._chunks(receive, account):
            first, end, more = chunk.partition(b"\n")
            rest.append(first + end)
            length += len(first) + len(end)
            if length > most:
                raise too_large("index_body_bytes", most)
            if not end:
                continue
            yield b"".join(rest)
            *whole, last = more.split(b"\n")
            for line in whole:
                yield line + b"\n"
            rest, length = [last] if last else [], len(last)
        if rest:
            yield b"".join(rest)

    async def _chunks(self, receive: Receive, account: Account) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        more = True
        while more:
            message = await self._next(receive)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if chunk:
                await self._patiently(partial(_take, account, len(chunk)))
                yield chunk

    async def _next(self, receive: Receive) -> Message:
        """The next piece. Refused where none comes for too long; a server that stops takes no more."""
        seconds = service_of(self._request).settings.body_seconds
        ends = time.monotonic() + seconds
        # One call for all looks: one that is broken off may have taken a piece along.
        receiving = asyncio.ensure_future(receive())
        try:
            while not receiving.done():
                self._go_on()
                rest = ends - time.monotonic()
                if rest <= 0:
                    raise Refusal("body_timeout", f"nothing of the stream arrived for {seconds:g} seconds")
                await asyncio.wait({receiving}, timeout=min(rest, LOOK_SECONDS))
            self._go_on()
            return receiving.result()
        finally:
            receiving.cancel()

    def _go_on(self) -> None:
        """Refuse to take more where the server stops."""
        if connections.stopping(self._request.scope):
            raise Refusal("stopping", "the service is stopping: send the lines behind the last receipt again")

    async def _patiently(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call until it is not refused for what passes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return await call()
            except Refusal as refusal:
                if refusal.code not in WAITS or time.monotonic() > deadline:
                    raise
            self._go_on()
            await asyncio.sleep(0.05)

    # -- telling

    def _tell(self, content: dict[str, Any], *, last: bool = False) -> None:
        """Send this next, in the place of what was not sent yet."""
        self._receipt = encode(content) + b"\n", last
        self._told.set()

    async def _send(self, send: Send) -> None:
        """Send what is told until the last of it."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        last = False
        while not last:
            await self._told.wait()
            self._told.clear()
            line, last = self._receipt
            await send({"type": "http.response.body", "body": line, "more_body": not last})

    def _problem(self, error: Refusal | kinbin.KinbinError) -> Any:
        """The problem document of what ended the stream."""
        place = getattr(self._request.state, "place", Place())
        refusal = error if isinstance(error, Refusal) else from_library(error, place)
        return orjson.loads(document(refusal.code, refusal.detail, refusal.errors, refusal.limit))


async def _take(account: Account, size: int) -> None:
    account.take(size)
