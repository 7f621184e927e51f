"""Connections: how many may be open, and how long the head of a request may take and be. Under uvicorn, above the gate's layer.

1. A connection over the limit is told so (503) and closed, before anything of it is read.
2. The head of a request has `header_seconds` to arrive, from the opening of its connection or from its first byte, and HEAD_BYTES. Bodies
   have limits of their own (`bodies.read_body`), idle connections uvicorn's.
3. What is neither head nor body has HEAD_BYTES too, from the last byte of a body on: trailers, and extensions of a chunk. Trailers are
   left out: the application would take them for headers, which were judged before.
4. What is no HTTP is told so (400), as a problem document like any other, and the connection is closed.
5. A connection whose answer is on its way is never closed by this.
6. The head of an answer goes with the first part of its body, in one call of the system: it costs more than most of what is before it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import uvicorn
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kinbin_service.problems import CODES, MEDIA_TYPE, document
from kinbin_service.settings import Settings
from kinbin_service.tls import Certificate

__all__ = ["DOOR", "HEAD_BYTES", "Connection", "ServingConfig", "closed", "drop", "opened", "stopping"]

DOOR = "kinbin.door"
"""Where connections find what refuses requests before they are begun (`door.Door`): in the state of the application's lifespan."""

HEAD_BYTES = 65_536
"""Address and headers of a request; as many its trailers."""

closed: Counter[str] = Counter()
"""Connections of this process that were closed for a reason of this module, by the code that they were told."""
_open: set[Connection] = set()

_STOPPING = "kinbin.stopping"
"""In the scope of a request that the server waits for when it stops."""

DETAILS = {
    "bad_request": "this is no request of HTTP/1.1, or has a header that may not be sent",
    "too_many_connections": "as many connections are open as may be; try again",
    "head_timeout": "the address and the headers of a request took too long to arrive",
    "head_too_large": f"the address and the headers of a request have at most {HEAD_BYTES:,} bytes, and so have its trailers",
}


def opened() -> int:
    """How many connections this process has."""
    return len(_open)


def drop(scope: Scope) -> bool:
    """Break the connection of a request off, with what was not sent yet; whether there is one."""
    for connection in _open:
        if connection.cycle is not None and connection.cycle.scope is scope:
            connection.transport.abort()
            return True
    return False


def stopping(scope: Scope) -> bool:
    """Whether the server has begun to stop, and waits for the answer to this request."""
    return _STOPPING in scope


class ServingConfig(uvicorn.Config):
    """uvicorn's configuration, with what `Connection` and TLS need of the settings. It is sent to workers as it is."""

    def __init__(self, settings: Settings, app: str, **options: Any) -> None:
        if settings.tls_cert_file is not None:
            options["ssl_context_factory"] = _tls
        super().__init__(app, http=Connection, **options)
        self.settings = settings


def _tls(config: uvicorn.Config, _default: Any) -> Any:
    """The context that a process listens with; from now on it follows SIGHUP."""
    assert isinstance(config, ServingConfig)
    assert config.settings.tls_cert_file is not None
    certificate = Certificate(config.settings.tls_cert_file, config.settings.tls_key_file)
    certificate.reload_at_hangup()
    return certificate.context


class _Joined:
    """The transport that one answer is written to: its head is kept until the first part of its body comes, or the loop goes on.

    Whatever else is asked of it the connection's own one does.
    """

    __slots__ = ("_head", "_later", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head: bytes | None = None
        self._later: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Write, or keep what comes first in a turn of the loop. Nobody reads what is written to a connection that is gone."""
        if self._transport.is_closing():
            return
        if self._later is None:
            self._head = data
            self._later = self._loop.call_soon(self._flush)
        elif self._head is not None:
            head, self._head = self._head, None
            self._transport.write(head + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Write what is kept, and close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            if not self._transport.is_closing():
                self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    config: ServingConfig

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        """Set while the head of a request is awaited."""
        self._head_bytes = 0
        """What came of a head whose end has not come, in whole reads."""
        self._parsed_bytes = 0
        """Address and headers of the head that was parsed last, with their separators."""
        self._in_head = False
        self._extra_bytes = 0
        """What came since the last byte of a body, in whole reads."""
        self._late: str | None = None
        """Why what came behind whole requests is refused; told once these are answered."""
        self._begun: Any = None
        """The cycle of the request that was begun last."""
        self._reading = False
        self._held: tuple[Any, Any] | None = None
        """A request that is begun when what came with its head was read: it may be refused at the door."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take the connection, or refuse it."""
        super().connection_made(transport)
        _open.add(self)
        if len(_open) > self.config.settings.max_connections:
            self._refuse("too_many_connections")
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it. Of requests that came together the one that is answered is not the last one, which is all that uvicorn tells."""
        if self._begun is not None and not self._begun.response_complete:
            self._begun.disconnected = True
            self._begun.message_event.set()
        _open.discard(self)
        self._end_timer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops: answers that are under way, or wait for one, can know."""
        # Of requests that came together the one that is answered is not the last one, which is what uvicorn tells.
        for cycle in (self.cycle, self._begun, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.scope[_STOPPING] = True
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self.transport.is_closing() or self._late is not None:
            return
        self._head_bytes += len(data)
        self._extra_bytes += len(data)
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self.transport.is_closing():
            self._held = None
            return
        self._begin_held()
        if (self._timer is not None and self._head_bytes > HEAD_BYTES) or (not self._in_head and self._extra_bytes > HEAD_BYTES):
            self._refuse("head_too_large")

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's text is plain
        """What came is no HTTP, or has too large a head: say so as everything else is said."""
        self._refuse("head_too_large" if self._in_head and self._parsed_bytes > HEAD_BYTES else "bad_request")

    def on_message_begin(self) -> None:
        """The first byte of a request came."""
        super().on_message_begin()
        self._in_head = True
        self._parsed_bytes = 0
        if self._timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """A part of the address came."""
        self._parsed(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header came, or a trailer, which is left out."""
        if self._in_head:
            self._parsed(len(name) + len(value) + len(": \r\n"))
            super().on_header(name, value)
        else:
            self._extra_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        self._end_timer()
        self._in_head = False
        self._extra_bytes = 0
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not None and self.cycle is not before:
            # It is not begun yet, but by the loop.
            self.cycle.transport = _Joined(self.transport, self.loop)  # type: ignore[assignment]

    def on_chunk_header(self) -> None:
        """A chunk of a body begins, or the trailers."""
        self._extra_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A part of a body came."""
        self._extra_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of the request is there; what is too much in its trailers is refused behind it."""
        if self._extra_bytes <= HEAD_BYTES:
            self._extra_bytes = 0
        super().on_message_complete()

    def _parsed(self, length: int) -> None:
        """Count a piece of a head. One read may hold all of it, so that its end is no sign that it is small enough."""
        self._parsed_bytes += length
        if self._parsed_bytes > HEAD_BYTES:
            # Ends the parser, and comes back as `send_400_response`.
            raise ValueError(DETAILS["head_too_large"])

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._timer = self.loop.call_later(self.config.settings.header_seconds, self._too_late)

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The head of the next request is late, the answer to this one is under way.
            self._await_head()
        elif self._head_bytes or self.cycle is not None:
            self._refuse("head_timeout")
        else:
            # Nothing ever came: browsers open connections ahead of need.
            closed["head_timeout"] += 1
            self._end_timer()
            self.transport.close()

    def on_response_complete(self) -> None:
        """An answer is sent; after the last one goes what was refused behind its request."""
        super().on_response_complete()
        if self._late is not None and self._begun.response_complete and not self.transport.is_closing():
            self._tell(self._late)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._begun = cycle
        door = self.app_state.get(DOOR)
        if self._reading and door is not None and door.is_shut():
            self._held = cycle, app
        else:
            super()._start_asgi_task(cycle, app)

    def _begin_held(self) -> None:
        """Refuse the request that is held, if all of it is there and the door refuses it; else begin it."""
        if self._held is None:
            return
        (cycle, app), self._held = self._held, None
        told = None if cycle.more_body else self.app_state[DOOR].refused(cycle.scope)
        if told is None:
            super()._start_asgi_task(cycle, app)
            return
        headers = [*cycle.default_headers, *told.headers, *(() if cycle.keep_alive else ((b"connection", b"close"),))]
        head = b"".join([STATUS_LINE[told.status], *(b"%s: %s\r\n" % one for one in headers), b"\r\n"])
        cycle.response_started = cycle.response_complete = True
        self.transport.write(head + told.body)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _refuse(self, code: str) -> None:
        """Tell why, and close: behind the answers to whole requests that came before. An answer to what is refused breaks off."""
        whole = self.cycle is not None and not self.cycle.more_body
        if self.pipeline or (whole and not self.cycle.response_complete):
            if not whole:
                # What is refused is in the body of the last of them, which is not begun.
                self.pipeline.popleft()
            self._late = code
            self._end_timer()
            self.flow.pause_reading()
        else:
            self._tell(code)

    def _tell(self, code: str) -> None:
        closed[code] += 1
        self._end_timer()
        if not self._in_head and self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        body = document(code, DETAILS[code])
        head = [f"HTTP/1.1 {CODES[code].status} {CODES[code].title}", f"content-type: {MEDIA_TYPE}", f"content-length: {len(body)}"]
        if CODES[code].status == 503:
            head.append("retry-after: 1")
        self.transport.write("\r\n".join([*head, "connection: close", "", ""]).encode() + body)
        self.transport.close()
