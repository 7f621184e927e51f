"""What a gateway holds while it serves: its picture of the cluster, the connections to nodes and to NATS, and its buffers.

It stands where a server has `kinbin_service.service.Service` (`app.state.service`), for the gate, the metrics and the routes that read
bodies. It holds no data: any number of gateways serve one cluster, and none knows of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Literal, TypeVar

import kinbin
from kinbin_cluster.connecting import Connection, ended
from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.gateway.reaching import Reaching
from kinbin_cluster.gateway.schemas import Schemas
from kinbin_cluster.gateway.warming import load_kernels
from kinbin_cluster.joining import see_that_key_is_theirs
from kinbin_cluster.log import Log
from kinbin_cluster.numbers import Numbers
from kinbin_cluster.picture import Gateway as Told
from kinbin_cluster.picture import Picture
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings
from kinbin_service import connections
from kinbin_service.bodies import Buffers
from kinbin_service.large_json import LARGE_BYTES
from kinbin_service.metrics import Metrics
from kinbin_service.problems import Refusal
from kinbin_service.settings import Settings, is_wildcard, reached_at
from kinbin_service.tracing import Tracing

__all__ = ["Gateway", "Room", "told_of"]

Result = TypeVar("Result")

PARSERS = 2
"""Threads that parse large bodies, as a server has them."""
BEAT_SECONDS = 1.0
SAMPLE_SECONDS = 1.0
"""Between two times that it tells the cluster of itself, and two looks at what it holds, for the metrics."""

log = logging.getLogger("kinbin.gateway")


class Room:
    """How many requests may be under way: as many as a server works on and lets wait. The next is refused (429)."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.running = 0
        self.waiting = 0
        """None does: nodes have the queues."""

    def check_room(self, *, writes: bool) -> None:  # noqa: ARG002 - as `Admission` has it
        """Refuse what is one too many."""
        if self.running >= self.most:
            raise Refusal("overloaded", "as many requests are under way as may be; try again", limit="queue_length")

    @contextmanager
    def enter(self) -> Iterator[None]:
        """The place of one request, for the block."""
        self.check_room(writes=False)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


class Gateway:
    """One gateway process. Made on the event loop that serves."""

    def __init__(self, settings: Settings, cluster_settings: ClusterSettings, picture: Picture, metrics: Metrics) -> None:
        """Without NATS: it reads by this picture, whoever keeps it, and writes nothing."""
        self.settings = settings
        self.cluster_settings = cluster_settings
        self.picture = picture
        self.metrics = metrics
        self.tracing = Tracing(settings)
        self.fanout = Fanout(picture, cluster_settings.internal_key, _trusting(cluster_settings))
        self.schemas = Schemas()
        self.buffers = Buffers(settings.max_buffered_bytes)
        self.admission = Room(settings.threads + settings.queue_length)
        self.writing = Room(settings.queue_length)
        """Of writes that wait for the log and for replicas: while the log is away they wait long, and reads go on."""
        self.publish_seconds = cluster_settings.publish_seconds
        self.registry: Registry | None = None
        self.log: Log | None = None
        self.connection: Connection | None = None
        self.numbers: Numbers | None = None
        self.stopping = False
        self.reaching = Reaching(self.fanout)
        self._parsers = ThreadPoolExecutor(PARSERS, thread_name_prefix="kinbin-parse")
        self._loop = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def running(
        cls, settings: Settings, cluster_settings: ClusterSettings, metrics: Metrics, ready: Callable[[], object] = bool
    ) -> AsyncIterator[Gateway]:
        """Connect to NATS, read the registry, and tell of itself until the end of the block. ready: called once when requests are taken.

        Raises LogUnavailable when NATS does not answer, OtherKey when nodes that live have another key.
        """
        loading = asyncio.create_task(asyncio.to_thread(load_kernels), name="kinbin gateway kernels")
        async with await Connection.open(cluster_settings, "gateway") as connection:
            registry = Registry(connection)
            await registry.start()
            try:
                await see_that_key_is_theirs(registry, cluster_settings)
            except BaseException:
                await registry.stop()
                raise
            gateway = cls(settings, cluster_settings, registry.picture, metrics)
            gateway.registry, gateway.log, gateway.numbers = registry, Log(connection), Numbers(connection)
            gateway.connection = connection
            beating = asyncio.create_task(gateway._beat(registry), name="kinbin gateway beat")
            try:
                async with gateway.serving():
                    await loading
                    ready()
                    yield gateway
            finally:
                await ended(beating)
                await registry.stop()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """What it does beside requests, for the block."""
        beside = [
            asyncio.create_task(self._sample(), name="kinbin gateway metrics"),
            asyncio.create_task(self.reaching.run(), name="kinbin gateway reaching"),
        ]
        try:
            yield
        finally:
            self.stopping = True
            await asyncio.gather(*map(ended, beside))
            self.fanout.close()
            self._parsers.shutdown()

    async def parsed(self, size: int, parse: Callable[[], Result]) -> Result:
        """What a body of this many bytes is parsed to: at once if it is small, outside of the event loop if it is large."""
        if size <= LARGE_BYTES:
            return parse()
        return await self._loop.run_in_executor(self._parsers, parse)

    @property
    def state(self) -> Literal["ready", "stopping"]:
        """Whether it takes requests."""
        return "stopping" if self.stopping else "ready"

    def measures(self) -> dict[str, float]:
        """What it holds just now, by the names of gauges."""
        return {
            "workers_ready": not self.stopping,
            "requests_waiting": 0,
            "requests_running": self.admission.running,
            "body_bytes": self.buffers.held,
            "connections": connections.opened(),
        }

    def closed(self) -> Mapping[str, int]:
        """Connections of this process that were closed early, by the code that they were told."""
        return dict(connections.closed)

    def failures(self) -> Mapping[str, Mapping[str, Any]]:
        """Nothing of a gateway works in the background."""
        return {}

    async def _sample(self) -> None:
        while True:
            try:
                self.metrics.sample(self)
            except Exception:
                log.exception("a look at the gateway failed")
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _beat(self, registry: Registry) -> None:
        told = told_of(self.settings, self.cluster_settings)
        while True:
            with contextlib.suppress(Exception):
                # Whatever keeps it from telling, requests go on.
                await registry.beat_gateway(replace(told, unreached=self.reaching.unreached))
            await asyncio.sleep(BEAT_SECONDS)


def told_of(settings: Settings, cluster_settings: ClusterSettings) -> Told:
    """What a gateway tells of itself. Unless its name was set it is of its host and its port, which no other one has at the same time."""
    mine = socket.gethostname()
    host = mine if is_wildcard(settings.host.strip("[]")) else settings.host
    reached = reached_at(host, settings.port, tls=settings.tls_cert_file is not None)
    # A port that the system chooses is not known here.
    where = f"{mine}:{settings.port}" if settings.port else f"{mine}:pid-{os.getpid()}"
    name = cluster_settings.node if "node" in cluster_settings.model_fields_set else where
    return Told(name, cluster_settings.address or reached, kinbin.__version__)


def _trusting(settings: ClusterSettings) -> ssl.SSLContext | None:
    """What nodes' certificates are checked by."""
    return ssl.create_default_context(cafile=settings.ca_file)
