"""Local mode: requests are answered in this process, by the service's own application on a directory, without a network.

The one module that reaches the service, by its name and when a client of a path is made: the client itself stands alone. Every request,
flow and parser is that of HTTP, and so is every answer and refusal.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import httpx

from kinbin_client._flows import Flow
from kinbin_client._requests import Request
from kinbin_client._responses import Reply
from kinbin_client._transport import DEFAULT_ADDRESS, AsyncSender, Connection, SyncSender, drive, drive_async
from kinbin_client.errors import ClientClosed, InvalidArgument, Timeout

__all__ = ["AsyncLocalSender", "LocalSender", "async_sender", "sync_sender"]

SERVICE = "kinbin_service.local"
_INSTALL = "pip install --find-links dist 'kinbin[service,client]'"


def sync_sender(connection: Connection, transport: httpx.BaseTransport | None, path: str | os.PathLike[str] | None) -> SyncSender:
    """The sender of a client of a connection, or of a path."""
    return SyncSender(connection, transport) if path is None else LocalSender(_Place.of(path, connection, transport))


def async_sender(connection: Connection, transport: httpx.AsyncBaseTransport | None, path: str | os.PathLike[str] | None) -> AsyncSender:
    """The same on an event loop."""
    return AsyncSender(connection, transport) if path is None else AsyncLocalSender(_Place.of(path, connection, transport))


@dataclass(frozen=True, slots=True, repr=False)
class _Place(Connection):
    """A directory in the place of an address: `address` is its path."""

    @classmethod
    def of(cls, path: str | os.PathLike[str], connection: Connection, transport: object) -> _Place:
        """InvalidArgument where there is an address, a key or a transport as well, or where the service is not installed."""
        if connection.address != DEFAULT_ADDRESS or connection.has_key or transport is not None:
            raise InvalidArgument("a client has a path or an address: with path leave out url, api_key and transport")
        place = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        if not isinstance(place, str) or not place:
            raise InvalidArgument(f"path is the directory of a database, not {type(path).__name__}")
        _module()
        return cls(place, connection.headers, connection.timeout, connection.verify, has_key=False)

    def __repr__(self) -> str:
        return f"path={self.address!r}"

    def seconds(self, request: Request) -> float | None:
        """How long the answer to a request is awaited."""
        if request.timeout is not None:
            return request.timeout
        return self.timeout.read if isinstance(self.timeout, httpx.Timeout) else self.timeout


def _module() -> Any:
    try:
        return importlib.import_module(SERVICE)
    except ImportError as error:
        text = f"a client of a path works with the library and its service in this process: {_INSTALL} ({error})"
        raise InvalidArgument(text) from error


class _Opened:
    """The service on a directory, opened once and closed once."""

    def __init__(self, place: _Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._service: Any = None
        self.closed = False

    def service(self) -> Any:
        """It, opened by the first call; InvalidArgument where the directory is none that can be used."""
        with self._lock:
            if self.closed:
                raise ClientClosed
            if self._service is None:
                try:
                    self._service = _module().LocalService(self.place.address)
                except Exception as error:
                    raise InvalidArgument(f"{self.place.address}: no database can be opened here: {error}") from error
            return self._service

    def ready(self) -> Any | None:
        """It, if it is open: without the lock, which an opening holds for long."""
        return None if self.closed else self._service

    def ask(self, service: Any, request: Request) -> Any:
        """The future of an answer."""
        headers = {**self.place.headers, **request.headers}
        try:
            return service.ask(request.method, request.path, headers, request.body if request.file is None else request.file)
        except RuntimeError:
            raise ClientClosed from None

    def late(self, seconds: float | None) -> Timeout:
        """What a caller is told whose answer did not come; the work may go on to its end."""
        return Timeout(f"{self.place.address}: no answer within {seconds:g} s")

    def close(self) -> None:
        """Close it, if it was opened."""
        with self._lock:
            self.closed, service = True, self._service
        if service is not None:
            service.close()


class LocalSender(SyncSender):
    """Has requests answered by the service in this process. Opens the database at once. Safe for threads."""

    def __init__(self, place: _Place) -> None:
        self.connection = place
        self.kinds = {}
        self._opened = _Opened(place)
        self._opened.service()

    def send(self, request: Request) -> Reply:
        """The reply to a request, whatever its status; ClientClosed, also where another thread closes meanwhile."""
        service, seconds = self._opened.service(), self._opened.place.seconds(request)
        asked = self._opened.ask(service, request)
        try:
            return Reply(*asked.result(seconds))
        except TimeoutError:
            raise self._opened.late(seconds) from None
        except CancelledError:
            raise ClientClosed from None
        finally:
            # Of one that nobody waits for any more (Ctrl-C, too): searches end then.
            asked.cancel()

    def lines(self, flow: Flow[None]) -> Generator[bytes, None, None]:
        """The lines of the answer that a flow ends with: it comes as one."""
        replies: list[Reply] = []

        def send(request: Request) -> Reply:
            replies.append(self.send(request))
            return replies[-1]

        drive(flow, send)
        yield from replies[-1].body.split(b"\n")[:-1]

    def close(self) -> None:
        """Close the database."""
        self._opened.close()


class AsyncLocalSender(AsyncSender):
    """The same beside an event loop, which waits for nothing: the database is opened by the first request, in a thread."""

    def __init__(self, place: _Place) -> None:
        self.connection = place
        self.kinds = {}
        self._opened = _Opened(place)

    async def send(self, request: Request) -> Reply:
        """The reply to a request, whatever its status; ClientClosed, also where another task closes meanwhile."""
        service = self._opened.ready() or await asyncio.to_thread(self._opened.service)
        asked, seconds = self._opened.ask(service, request), self._opened.place.seconds(request)
        try:
            async with asyncio.timeout(seconds):
                return Reply(*await asyncio.wrap_future(asked))
        except TimeoutError:
            raise self._opened.late(seconds) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ClientClosed from None

    async def lines(self, flow: Flow[None]) -> AsyncGenerator[bytes, None]:
        """The lines of the answer that a flow ends with: it comes as one."""
        replies: list[Reply] = []

        async def send(request: Request) -> Reply:
            replies.append(await self.send(request))
            return replies[-1]

        await drive_async(flow, send)
        for line in replies[-1].body.split(b"\n")[:-1]:
            yield line

    async def close(self) -> None:
        """Close the database."""
        await asyncio.to_thread(self._opened.close)
