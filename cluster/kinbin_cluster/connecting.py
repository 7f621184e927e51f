"""One connection to NATS, that the log, the registry and the object store of a process share. Reconnects for ever, silently.

Everything here belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import ssl
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from kinbin_cluster.errors import LogRefused, LogUnavailable, NotThere

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from types import TracebackType

    from nats.aio.client import Server
    from nats.js import JetStreamContext

    from kinbin_cluster.settings import ClusterSettings

__all__ = ["NO_STREAM", "Connection", "code_of", "ended", "may_pass", "quoted", "unquoted", "until_answered", "who_answers", "wholly"]

T = TypeVar("T")

_log = logging.getLogger("kinbin.cluster.nats")
_asyncio = logging.getLogger("asyncio")
_REFUSED = "authorization violation"

NO_STREAM = 10_059
NOT_NOW = frozenset({10_005, 10_008, 10_009, 10_023, 10_158, 10_176, 10_210})
"""Codes of what may be gone at the next try: too few servers yet, no leader, a duplicate whose first message is still on its way; a batch
whose beginning another leader had, or more batches at once than there may be."""

FULL = 10_077
"""A message could not be stored: for want of a quorum, or because the stream is full."""

SUSPECT_SECONDS = 3.5
"""A server by which the log acknowledges nothing for so long is left for another one. Without any fault it takes milliseconds."""

TOLD_SECONDS = 2.0
"""A connection that takes longer than this to be made is told of: whoever waits would think that nothing is done."""

PENDING = 32 * 1_048_576
"""Bytes that may wait for a connection that is being made again."""


class Connection:
    """A connection that is open. Use `await Connection.open(settings, "gateway")`, or `async with`."""

    def __init__(self, client: Client, settings: ClusterSettings) -> None:
        self.client = client
        self.settings = settings
        self.js: JetStreamContext = client.jetstream(timeout=2.0)
        self._cut: float | None = None
        self._blind = 0.0
        self._well = time.monotonic()
        """When the log last acknowledged something by this connection, or it went to another server."""
        self._suspected: dict[str, float] = {}
        """By the address of a server, when it was left as it was suspected."""
        self.hears: Callable[[], bool] = lambda: True
        """Whether most of the others are heard of. The registry knows."""

    @classmethod
    async def open(cls, settings: ClusterSettings, name: str, *, seconds: float = 15.0) -> Self:
        """Connect to any of the servers.

        `name` is what NATS shows the connection as. Raises LogUnavailable when none of the servers answers in time.
        """
        held: list[Self] = []
        errors: list[Exception] = []
        refused = asyncio.Event()

        async def lost() -> None:
            if held and held[0]._cut is None:
                held[0]._cut = time.monotonic()
            _log.info("the connection to NATS is lost")

        async def again() -> None:
            if held and held[0]._cut is not None:
                held[0]._blind += time.monotonic() - held[0]._cut
                held[0]._cut = None
            _log.info("connected to NATS again")

        async def failed(error: Exception) -> None:
            errors[:] = [error]
            _log.debug("NATS: %s", error)
            if _REFUSED in str(error).lower() and not held:
                refused.set()  # the next try is answered alike

        _asyncio.addFilter(_says_something)

        client = Client()
        connecting = asyncio.create_task(
            client.connect(
                settings.servers,
                name=f"kinbin {name}",
                error_cb=failed,
                disconnected_cb=lost,
                reconnected_cb=again,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.1,  # type: ignore[arg-type]
                reconnect_to_server_handler=lambda servers, _: _chosen(servers, held[0]._suspected if held else {}),
                connect_timeout=1,
                ping_interval=1,
                max_outstanding_pings=3,
                pending_size=PENDING,
                tls=_tls(settings),
                user=settings.nats_user,
                password=settings.password,
                user_credentials=None if settings.nats_credentials_file is None else str(settings.nats_credentials_file),
            )
        )
        try:
            await _connected(connecting, client, refused, ", ".join(settings.servers), seconds)
        except (TimeoutError, OSError, NatsError) as error:
            with contextlib.suppress(TimeoutError, OSError, NatsError):
                await asyncio.wait_for(client.close(), 1.0)
            raise LogUnavailable(_why_not(errors[-1] if errors else error, settings)) from error
        held.append(cls(client, settings))
        return held[0]

    @property
    def connected(self) -> bool:
        """Whether the connection stands, as far as is known: that a server is silent shows after four seconds."""
        return self._cut is None

    def clock(self) -> float:
        """Seconds that the connection stood, from an arbitrary begin: it stops while nothing can be heard."""
        return (self._cut or time.monotonic()) - self._blind

    def acknowledged(self) -> None:
        """The log has acknowledged something: this server is not cut off from the others."""
        self._well = time.monotonic()

    async def suspect(self, since: float) -> None:
        """What was sent to the log at a time (of `time.monotonic`) is not acknowledged: go to another server if nothing is for long.

        A server that is cut off from the others answers pings, and takes what it cannot store. Who hears of the others waits for longer:
        then it is rather a log's leader that is cut off, and the servers elect another one.
        """
        patience = SUSPECT_SECONDS * (2 if self.hears() else 1)
        if time.monotonic() - max(since, self._well) >= patience and not self.client.is_reconnecting:
            self._well = time.monotonic()
            url = self.client.connected_url
            if url is not None:
                self._suspected[url.netloc] = self._well
            _log.warning("the log acknowledges nothing by %s: another server is asked", url.netloc if url is not None else "this server")
            await self.client.force_reconnect()

    async def close(self) -> None:
        """End the connection. What was published and not yet sent is dropped."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _chosen(servers: Sequence[Server], suspected: Mapping[str, float]) -> tuple[Server, float]:
    """The server to connect to, and seconds to wait before: of those that were not tried in vain the one that was suspected longest ago."""
    best = min(servers, key=lambda one: (one.reconnects, suspected.get(one.uri.netloc, 0.0), secrets.randbelow(1 << 30)))
    return best, 0.1 if best.reconnects else 0.0


async def _connected(connecting: asyncio.Task[None], client: Client, refused: asyncio.Event, where: str, seconds: float) -> None:
    """Wait until a client is connected; a wait that is long is told. Raises what it raises, and TimeoutError; nothing goes on then.

    refused: set where no other try is of any use.
    """
    at_once = min(TOLD_SECONDS, seconds)
    giving_up = asyncio.create_task(refused.wait())
    either: set[asyncio.Task[Any]] = {connecting, giving_up}
    done, _ = await asyncio.wait(either, timeout=at_once, return_when=asyncio.FIRST_COMPLETED)
    if not done:
        _log.warning("no NATS server answers yet at %s: tried for %.0f s more", where, seconds - at_once)
        await asyncio.wait(either, timeout=seconds - at_once, return_when=asyncio.FIRST_COMPLETED)
    giving_up.cancel()
    if not connecting.done():
        # It tries again for ever, and where a server refuses the password it loses that it was cancelled.
        client.options["max_reconnect_attempts"] = 1
        await ended(connecting)
        raise TimeoutError("no answer in time")
    connecting.result()


def _tls(settings: ClusterSettings) -> ssl.SSLContext | None:
    if settings.nats_ca_file is None and settings.nats_cert_file is None:
        return None
    context = ssl.create_default_context(cafile=settings.nats_ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.nats_cert_file is not None:
        context.load_cert_chain(settings.nats_cert_file, settings.nats_key_file)
    return context


async def ended(task: asyncio.Task[Any]) -> None:
    """End a task, and wait until it has ended; what it raised is left in it.

    It is cancelled again and again: in Python 3.11 `asyncio.wait_for` can lose a cancellation that comes as its result does.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.1)


async def wholly(cleaning: Coroutine[Any, Any, None]) -> None:
    """Clean up to the end, however often the task that does it is cancelled meanwhile, as `ended` does; then it is cancelled."""
    task, cancelled = asyncio.create_task(cleaning), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def code_of(error: APIError) -> int | None:
    """NATS' code of a refusal; None: those that the client makes itself, for a key that is not there, have none."""
    return getattr(error, "err_code", None)


def may_pass(error: APIError) -> bool:
    """Whether the next try may do what this one was refused."""
    if code_of(error) == FULL:
        return "exceeded" not in (error.description or "")
    # One without a status is the client's own: what NATS holds changed between two of its questions.
    return code_of(error) in NOT_NOW or (getattr(error, "code", 500) or 0) >= 500


async def who_answers(settings: ClusterSettings) -> str:
    """Which of the servers take connections, for people."""

    async def one(address: str) -> str:
        place = urlsplit(address)
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(place.hostname, place.port or 4222)
        except (TimeoutError, OSError):
            return f"{address} is silent"
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return f"{address} answers"

    return ", ".join(await asyncio.gather(*map(one, settings.servers)))


def _why_not(error: BaseException, settings: ClusterSettings) -> str:
    """What is said where no server takes a connection."""
    text = f"no NATS server takes this connection at {', '.join(settings.servers)}: {str(error) or type(error).__name__}"
    if _REFUSED in text.lower() or isinstance(error, BrokenPipeError | ConnectionResetError):
        # Over TLS the refusal may be lost, and the connection is closed.
        text += "; see KINBIN_CLUSTER_NATS_USER and KINBIN_CLUSTER_NATS_PASSWORD (or _FILE), or the certificate"
    return text


def _says_something(record: logging.LogRecord) -> bool:
    """Whether a line of asyncio says anything: nats-py makes it warn of each TLS connection that is closed."""
    return "eof_received" not in str(record.msg)


async def until_answered(ask: Callable[[], Awaitable[T]], seconds: float) -> T:
    """What a request answers, asked again until it does. Raises LogUnavailable, LogRefused, and NotThere for a missing stream."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except NotFoundError as error:
            if code_of(error) == NO_STREAM:
                raise NotThere("there is no such stream") from error
            last: Exception = error
        except APIError as error:
            if "non-clustered" in (error.description or ""):
                raise LogRefused("NATS is one server alone, which keeps no copies: set KINBIN_CLUSTER_NATS_REPLICAS=1") from error
            if not may_pass(error):
                raise LogRefused(f"NATS refused: {error.description}") from error
            last = error
        except (TimeoutError, OSError, NatsError) as error:
            last = error
        if time.monotonic() > deadline:
            raise LogUnavailable(f"NATS did not answer in time: {str(last) or type(last).__name__}") from last
        await asyncio.sleep(0.1)


def quoted(name: str) -> str:
    """A name as a part of a key, a subject or a stream's name."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: "".join(f"={byte:02X}" for byte in found[0].encode()), name)


def unquoted(name: str) -> str:
    """The name of such a part."""
    return re.sub(rb"=([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), name.encode()).decode()
