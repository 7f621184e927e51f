"""The only module that speaks HTTP: senders over httpx, its exceptions translated, flows driven.

Redirects are not followed, so that an API key goes to the given address only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.request import getproxies

import httpx

from kinbin_client._flows import Flow, Pause
from kinbin_client._own_writes import OwnWrites
from kinbin_client._requests import Request
from kinbin_client._responses import Reply
from kinbin_client._version import __version__
from kinbin_client.errors import (
    ClientClosed,
    ConnectionFailed,
    ConnectionLost,
    ConnectTimeout,
    InvalidArgument,
    KinbinClientError,
    Timeout,
    TransportError,
    UnexpectedResponse,
)

__all__ = [
    "DEFAULT_ADDRESS",
    "DEFAULT_TIMEOUT",
    "TRANSLATIONS",
    "AsyncSender",
    "Connection",
    "SyncSender",
    "TimeoutSetting",
    "drive",
    "drive_async",
    "translate",
]

T = TypeVar("T")

TimeoutSetting: TypeAlias = float | httpx.Timeout

DEFAULT_ADDRESS = "http://127.0.0.1:8080"
"""Where a client asks that is given no address."""
DEFAULT_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
"""Seconds to connect, and of silence while an answer is awaited."""

_broken = partial(UnexpectedResponse, status=0)
_not_sent = partial(Timeout, outcome_unknown=False)

TRANSLATIONS: dict[type[Exception], tuple[Callable[[str], KinbinClientError], str]] = {
    httpx.ConnectTimeout: (ConnectTimeout, "no connection in time"),
    httpx.PoolTimeout: (_not_sent, "every connection of the pool stayed busy"),
    httpx.ReadTimeout: (Timeout, "no answer in time"),
    httpx.WriteTimeout: (Timeout, "the request could not be sent in time"),
    httpx.TimeoutException: (Timeout, "not done in time"),
    httpx.ConnectError: (ConnectionFailed, "no connection"),
    httpx.ProxyError: (ConnectionFailed, "the proxy made no connection"),
    httpx.ReadError: (ConnectionLost, "the connection broke while the answer was awaited"),
    httpx.WriteError: (ConnectionLost, "the connection broke while the request was sent"),
    httpx.CloseError: (ConnectionLost, "the connection broke while it was closed"),
    httpx.NetworkError: (ConnectionLost, "the connection broke"),
    httpx.RemoteProtocolError: (ConnectionLost, "the server ended the connection or broke the protocol"),
    httpx.LocalProtocolError: (TransportError, "the request broke the protocol"),
    httpx.ProtocolError: (TransportError, "the protocol was broken"),
    httpx.UnsupportedProtocol: (InvalidArgument, "an address begins with http:// or https://"),
    httpx.InvalidURL: (InvalidArgument, "this is no address"),
    httpx.DecodingError: (_broken, "the body of the answer could not be decoded"),
    httpx.TooManyRedirects: (_broken, "the server redirects without end"),
    httpx.HTTPStatusError: (TransportError, "an event hook refused the answer"),
    httpx.CookieConflict: (TransportError, "the answer's cookies conflict"),
    httpx.StreamConsumed: (TransportError, "the transport gave the answer's body away before"),
    httpx.StreamClosed: (TransportError, "the transport closed the answer's body before it was read"),
    httpx.ResponseNotRead: (TransportError, "the transport's answer was not read"),
    httpx.RequestNotRead: (TransportError, "the request was not read"),
    httpx.StreamError: (TransportError, "the stream of a body broke"),
    httpx.TransportError: (TransportError, "the request failed on its way"),
    httpx.RequestError: (TransportError, "the request failed"),
    httpx.HTTPError: (TransportError, "the request failed"),
}
"""Every exception class of httpx, with what it becomes and what that means; the nearest base counts for others."""

_PART_BYTES = 1 << 20
HTTPX_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.CookieConflict, httpx.StreamError)
"""The roots of httpx's exceptions."""


def translate(error: Exception, address: str) -> KinbinClientError:
    """The client's error for one of httpx, to be raised from it."""
    make, meaning = next(TRANSLATIONS[base] for base in type(error).__mro__ if base in TRANSLATIONS)
    said = str(error)
    return make(f"{address}: {meaning}" + (f" ({said})" if said else ""))


@dataclass(frozen=True, slots=True)
class Connection:
    """To where and how: the address, checked, and what goes with every request. Its repr shows no key."""

    address: str
    headers: Mapping[str, str]
    timeout: TimeoutSetting
    verify: bool | SSLContext
    has_key: bool

    @classmethod
    def to(
        cls, url: str, api_key: str | None, timeout: TimeoutSetting, verify: bool | SSLContext, headers: Mapping[str, str] | None
    ) -> Connection:
        """Check the arguments of a client; InvalidArgument (never quoting a secret) for what cannot be used."""
        # Packing takes longer than a fast network does: who has a slow one asks for it by `headers`.
        sent = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"kinbin-client/{__version__}"}
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        if api_key is not None:
            if not (api_key and api_key.isascii() and api_key.isprintable() and api_key == api_key.strip()):
                raise InvalidArgument("an API key is one line of printable ASCII characters, without spaces around it")
            sent["authorization"] = f"Bearer {api_key}"
        return cls(_checked_address(url), sent, timeout, verify, api_key is not None)

    def __repr__(self) -> str:
        return f"{self.address!r}, api_key={'***' if self.has_key else None!r}"

    def options(self) -> dict[str, Any]:
        """The arguments for a client of httpx."""
        return {
            "base_url": self.address,
            "headers": dict(self.headers),
            "timeout": self.timeout,
            "verify": self._verified(),
            "follow_redirects": False,
        }

    def _verified(self) -> bool | SSLContext:
        """Whom TLS trusts. Where none is spoken nobody: reading the certificates of all authorities takes 30 ms of a processor."""
        if self.verify is True and self.address.startswith("http://") and not getproxies():
            return SSLContext(PROTOCOL_TLS_CLIENT)
        return self.verify


def _checked_address(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except (TypeError, *HTTPX_ERRORS):
        raise InvalidArgument("this is no address; it looks like http://127.0.0.1:8080") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidArgument("an address begins with http:// or https:// and a host")
    if parsed.userinfo:
        raise InvalidArgument("an address holds no user name or password: give the API key as api_key")
    if parsed.query or parsed.fragment:
        raise InvalidArgument("an address has no query string and no fragment: what stands there is written to logs")
    return str(parsed).rstrip("/")


class SyncSender:
    """Sends requests and blocks. Safe for threads."""

    own: OwnWrites | None = None
    """What the client wrote, if its reads wait for that."""

    def __init__(self, connection: Connection, transport: httpx.BaseTransport | None) -> None:
        self.connection = connection
        self.kinds: dict[str, str] = {}
        """Of collections that are known to the client, what their items are."""
        self._http = httpx.Client(transport=transport, **connection.options())

    def send(self, request: Request) -> Reply:
        """The reply to a request, whatever its status; ClientClosed, or a translated error of httpx."""
        if self._http.is_closed:
            raise ClientClosed
        try:
            return _reply_of(self._http.send(_build(self._http, request, _parts)))
        except HTTPX_ERRORS as error:
            raise translate(error, self.connection.address) from error

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end."""
        return drive(flow if self.own is None else self.own.during(flow), self.send)

    def lines(self, flow: Flow[None]) -> Generator[bytes, None, None]:
        """The lines of the answer that a flow ends with, as they come. The flow is shown its head, and errors whole."""
        opened: list[httpx.Response] = []

        def send(request: Request) -> Reply:
            if self._http.is_closed:
                raise ClientClosed
            try:
                response = self._http.send(_build(self._http, request, _parts), stream=True)
                if not response.is_success:
                    response.read()
                    return _reply_of(response)
            except HTTPX_ERRORS as error:
                raise translate(error, self.connection.address) from error
            opened.append(response)
            return Reply(response.status_code, {}, b"")

        drive(flow, send)
        with closing(opened[-1]) as response:
            split = _Split()
            try:
                for part in response.iter_bytes():
                    yield from split.lines(part)
            except HTTPX_ERRORS as error:
                raise translate(error, self.connection.address) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncSender:
    """Sends requests on the event loop on which it was first used."""

    own: OwnWrites | None = None
    """What the client wrote, if its reads wait for that."""

    def __init__(self, connection: Connection, transport: httpx.AsyncBaseTransport | None) -> None:
        self.connection = connection
        self.kinds: dict[str, str] = {}
        """Of collections that are known to the client, what their items are."""
        self._http = httpx.AsyncClient(transport=transport, **connection.options())

    async def send(self, request: Request) -> Reply:
        """The reply to a request, whatever its status; ClientClosed, or a translated error of httpx."""
        if self._http.is_closed:
            raise ClientClosed
        try:
            return _reply_of(await self._http.send(_build(self._http, request, _parts_async)))
        except HTTPX_ERRORS as error:
            raise translate(error, self.connection.address) from error

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end."""
        return await drive_async(flow if self.own is None else self.own.during(flow), self.send)

    async def lines(self, flow: Flow[None]) -> AsyncGenerator[bytes, None]:
        """The lines of the answer that a flow ends with, as they come. The flow is shown its head, and errors whole."""
        opened: list[httpx.Response] = []

        async def send(request: Request) -> Reply:
            if self._http.is_closed:
                raise ClientClosed
            try:
                response = await self._http.send(_build(self._http, request, _parts_async), stream=True)
                if not response.is_success:
                    await response.aread()
                    return _reply_of(response)
            except HTTPX_ERRORS as error:
                raise translate(error, self.connection.address) from error
            opened.append(response)
            return Reply(response.status_code, {}, b"")

        await drive_async(flow, send)
        async with aclosing(opened[-1]) as response:
            split = _Split()
            try:
                async for part in response.aiter_bytes():
                    for line in split.lines(part):
                        yield line
            except HTTPX_ERRORS as error:
                raise translate(error, self.connection.address) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class _Split:
    """Cuts what comes into lines, at newlines only: strings in JSON may hold other separators."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def lines(self, part: bytes) -> list[bytes]:
        """Those that end in this part."""
        first, *others = part.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        whole, self._rest = b"".join(self._rest), [others.pop()]
        return [whole, *others]


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


def drive(flow: Flow[T], send: Callable[[Request], Reply], sleep: Callable[[float], object] = time.sleep) -> T:
    """Do what a flow asks for, blocking, and return its result."""
    step = _advance(flow)
    while not isinstance(step, _Done):
        if isinstance(step, Pause):
            sleep(step.seconds)
            step = _advance(flow)
            continue
        try:
            reply = send(step)
        except KinbinClientError as error:
            step = _advance(flow, error=error)
        else:
            step = _advance(flow, reply)
    return step.value


async def drive_async(flow: Flow[T], send: Callable[[Request], Any], sleep: Callable[[float], Any] = asyncio.sleep) -> T:
    """Do what a flow asks for on the event loop, and return its result."""
    step = _advance(flow)
    while not isinstance(step, _Done):
        if isinstance(step, Pause):
            await sleep(step.seconds)
            step = _advance(flow)
            continue
        try:
            reply = await send(step)
        except KinbinClientError as error:
            step = _advance(flow, error=error)
        else:
            step = _advance(flow, reply)
    return step.value


def _advance(flow: Flow[T], reply: Reply | None = None, error: KinbinClientError | None = None) -> Request | Pause | _Done[T]:
    try:
        return flow.send(reply) if error is None else flow.throw(error)
    except StopIteration as stop:
        return _Done(stop.value)


def _build(http: httpx.Client | httpx.AsyncClient, request: Request, parts: Callable[[Path], Any]) -> httpx.Request:
    timeout = httpx.USE_CLIENT_DEFAULT if request.timeout is None else request.timeout
    if request.file is not None or request.timeout is not None or len(http.cookies) > 0 or not request.path.isascii():
        content = request.body if request.file is None else parts(request.file)
        return http.build_request(request.method, request.path, content=content, headers=dict(request.headers), timeout=timeout)
    # What httpx makes of it, without putting address and headers together anew: that takes as long as sending it.
    url, headers = _address(http.base_url, request.path), {**http.headers, **request.headers}
    return httpx.Request(request.method, url, content=request.body, headers=headers, extensions={"timeout": http.timeout.as_dict()})


@lru_cache(maxsize=256)
def _address(base: httpx.URL, path: str) -> httpx.URL:
    """Where a request goes."""
    return base.copy_with(raw_path=base.raw_path + path.lstrip("/").encode("ascii"))


def _parts(file: Path) -> Iterator[bytes]:
    """A file, part by part."""
    with file.open("rb") as opened:
        while part := opened.read(_PART_BYTES):
            yield part


async def _parts_async(file: Path) -> AsyncIterator[bytes]:
    """The same beside an event loop: the disk may be slow."""
    with await asyncio.to_thread(file.open, "rb") as opened:
        while part := await asyncio.to_thread(opened.read, _PART_BYTES):
            yield part


def _reply_of(response: httpx.Response) -> Reply:
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content)
