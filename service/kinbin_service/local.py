"""The service inside of a program's own process, without a network: what the Python client asks in its local mode.

    a thread of the program                    the thread "kinbin-local", with an event loop
    LocalService.ask(...)  ──── request ────▶  the application of app.py, its gate included
         Future            ◀──── answer ─────

1. Answers, limits and refusals are a server's, since it is the same application. There is no key, and no server's settings: variables of
   the environment are not read.
2. `ask` may be called from any thread. A body is not copied; one in a file is read part by part, as it is asked for.
3. `close` tells the requests at hand that their client has left, waits for them, and closes the database. What was acknowledged is durable
   before: a program that ends without it loses nothing.
4. Not across a fork: the thread stays behind in the parent.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from starlette.types import Message, Scope

from kinbin_service.app import create_app
from kinbin_service.settings import Settings

__all__ = ["LocalAnswer", "LocalService"]

_LOOK_SECONDS = 0.002
"""Between two looks whether kernels are loaded."""
_PART_BYTES = 1 << 20
"""Of a body in a file."""


class LocalAnswer(NamedTuple):
    """An answer: its status, its headers by name in small letters, and its body."""

    status: int
    headers: dict[str, str]
    body: bytes


class _LocalSettings(Settings):
    """Settings that only their maker sets: what the environment says of a server's keys and limits is not meant for a program."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature of pydantic
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,  # noqa: ARG003
        **named: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given, and nothing else."""
        return (init_settings,)

    @property
    def upkeep(self) -> dict[str, float | None]:
        """Nothing: the program's own `kinbin.set_upkeep` stays as it is."""
        return {}


class LocalService:
    """The application on a data directory, and the thread that runs it. Safe for threads.

    Making one opens the database and loads the kernels of small collections: a second or two; the first time on a machine they are
    compiled, which takes a minute. Other processes, servers included, may have the same directory open.

    Raises:
        kinbin.KinbinError, OSError: the directory cannot be used. RuntimeError: the kernels could not be compiled; the log says why.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._app = create_app(_LocalSettings(data_dir=Path(path), access_log=False))
        self._loop = asyncio.new_event_loop()
        self._gone = asyncio.Event()
        self._running: set[asyncio.Task[LocalAnswer]] = set()
        self._started: Future[None] = Future()
        # A daemon, so that a program that forgets to close ends all the same.
        self._thread = threading.Thread(target=self._run, name="kinbin-local", daemon=True)
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def ask(self, method: str, target: str, headers: Mapping[str, str], body: bytes | Path | None = None) -> Future[LocalAnswer]:
        """Send a request. Cancelling the future ends the work, as far as a client that leaves does.

        target: path and query, percent-encoded. The future has concurrent.futures.CancelledError if the service was closed meanwhile.

        Raises:
            RuntimeError: it was closed before.
        """
        size = body.stat().st_size if isinstance(body, Path) else len(body or b"")
        exchange = _Exchange(_scope(method, target, headers, size), body, self._gone)
        asking = self._ask(exchange)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:
            asking.close()
            raise

    def close(self) -> None:
        """End what is under way and close the database; again does nothing."""
        if self._thread.is_alive():
            # An error: its loop has just ended by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._gone.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            # The thread that waits is told.
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        async with self._app.router.lifespan_context(self._app):
            service = self._app.state.service
            while service.state == "starting":  # noqa: ASYNC110 - the thread that warms up changes it
                await asyncio.sleep(_LOOK_SECONDS)
            if service.state == "failed":
                raise RuntimeError("the kernels could not be compiled; the log says why")
            self._started.set_result(None)
            await self._gone.wait()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def _ask(self, exchange: _Exchange) -> LocalAnswer:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            if self._gone.is_set():
                raise asyncio.CancelledError
            await self._app(exchange.scope, exchange.receive, exchange.send)
            if not exchange.status:
                # The gate answers nothing where the client has left, which here means: closed.
                raise asyncio.CancelledError
            return LocalAnswer(exchange.status, exchange.headers, b"".join(exchange.answered))
        finally:
            self._running.discard(task)


class _Exchange:
    """One request and its answer, as ASGI hands them over."""

    def __init__(self, scope: Scope, body: bytes | Path | None, gone: asyncio.Event) -> None:
        self.scope = scope
        self.status = 0
        self.headers: dict[str, str] = {}
        self.answered: list[bytes] = []
        self._gone = gone
        self._whole = body if not isinstance(body, Path) else None
        self._parts = _parts(body) if isinstance(body, Path) else None
        self._sent = False

    async def receive(self) -> Message:
        """The body; behind it, that the client has left, once that is so."""
        if self._sent:
            await self._gone.wait()
            return {"type": "http.disconnect"}
        part = self._whole if self._parts is None else await asyncio.to_thread(next, self._parts, None)
        self._sent = self._parts is None or part is None
        return {"type": "http.request", "body": part or b"", "more_body": not self._sent}

    async def send(self, message: Message) -> None:
        """Take a piece of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            self.answered.append(message.get("body", b""))


def _parts(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while part := opened.read(_PART_BYTES):
            yield part


def _scope(method: str, target: str, headers: Mapping[str, str], size: int) -> Scope:
    path, _, query = target.partition("?")
    listed = {"host": "localhost", **{name.lower(): value for name, value in headers.items()}, "content-length": str(size)}
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "scheme": "http",
        "method": method, "path": unquote(path), "raw_path": path.encode("ascii"), "query_string": query.encode("ascii"), "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in listed.items()],
        "client": None, "server": ("localhost", None),
    }  # fmt: skip
