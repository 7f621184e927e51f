"""What a worker process holds while it serves: the database, its threads, its buffers, and whether it is ready."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Literal, TypeVar

from prometheus_client.registry import Collector
from starlette.requests import Request

import kinbin
from kinbin_service import connections
from kinbin_service.admission import Admission, Cancel, ClientGone
from kinbin_service.bodies import Buffers
from kinbin_service.collection_metrics import Stored, tell_losses
from kinbin_service.kernels import Kernels
from kinbin_service.large_json import LARGE_BYTES
from kinbin_service.long_work import LongWork
from kinbin_service.metrics import Metrics
from kinbin_service.problems import Refusal
from kinbin_service.settings import Settings
from kinbin_service.tracing import Tracing

__all__ = ["Service", "service_of"]

Result = TypeVar("Result")
State = Literal["starting", "ready", "stopping", "failed"]

_LOOK_SECONDS = 0.02
"""Between two looks whether kernels are loaded."""
PARSERS = 2
"""Threads that parse large bodies. Python runs one of them at a time; thanks to the second, 100 kB need not wait for 32 MiB."""
SAMPLE_SECONDS = 1.0
"""Between two looks at what a worker holds, for the metrics."""

log = logging.getLogger("kinbin.service")


class Service:
    """One worker's means. Made when the application starts, in the process and on the event loop that serve."""

    def __init__(self, settings: Settings, database: kinbin.Database, metrics: Metrics) -> None:
        self.settings = settings
        self.database = database
        self.metrics = metrics
        self.stored = Stored(database, settings.metrics_collections, settings.tls_cert_file)
        self.collectors: list[Collector] = [self.stored]
        """What /metrics tells beside what is counted."""
        self.state: State = "starting"
        self.admission = Admission(
            settings.threads, settings.queue_length, settings.deadline_seconds, settings.search_seconds, settings.read_threads
        )
        self._parsers = ThreadPoolExecutor(PARSERS, thread_name_prefix="kinbin-parse")
        self.buffers = Buffers(settings.max_buffered_bytes)
        self._long = LongWork()
        self._uploading = False
        self.kernels = Kernels()
        self.tracing = Tracing(settings)
        self._on_ready: Callable[[], object] = bool
        self._loop = asyncio.get_running_loop()
        self._warming = threading.Thread(target=self._warm_up, name="kinbin-warm-up")

    @classmethod
    @asynccontextmanager
    async def running(cls, settings: Settings, metrics: Metrics, ready: Callable[[], object] = bool) -> AsyncIterator[Service]:
        """Open the database, warm up in the background; at the end finish what was started and close.

        ready: called once when requests are taken.

        Requests are taken as soon as the kernels of small collections are there. The others are compiled meanwhile, by processes of
        low priority; a request that needs one of them waits for it in its own thread, or compiles it there. One of several workers
        accepts no connection before its kernels are loaded: the others answer meanwhile.
        """
        kinbin.set_upkeep(**settings.upkeep)
        database = await asyncio.to_thread(kinbin.open, settings.data_dir, settings.snapshots_dir)
        service = cls(settings, database, metrics)
        service._on_ready = ready
        service._warming.start()
        unwatch = kinbin.watch_commits(metrics.committed)
        sampling = asyncio.create_task(service._sample())
        try:
            if multiprocessing.parent_process() is not None:
                await service._until_loaded()
            yield service
        finally:
            service.state = "stopping"
            sampling.cancel()
            unwatch()
            service.kernels.stop()
            await service.long_work_ended()
            await service.admission.close()
            service._parsers.shutdown()
            await asyncio.to_thread(service._warming.join)
            # Who reads the log has a last look at what only this process could still have saved.
            await asyncio.to_thread(tell_losses, database)
            await asyncio.to_thread(database.close)

    async def work(
        self, request: Request, call: Callable[[], Result], *, writes: bool = False, cancel: threading.Event | None = None,
        watched: bool = True,
    ) -> Result:  # fmt: skip
        """Admit a request and run its library call in a thread; refused when the service is not ready or has too much to do.

        cancel: what a running read looks at; it is set when the client leaves, or its time is over. watched: look whether it leaves,
        which takes what is still to come of the body.
        """
        if self.state != "ready":
            raise self.unavailable()
        try:
            gone = (lambda: _left(request)) if watched else asyncio.Event().wait
            with self.tracing.work():
                return await self.admission.run(_given_up(call, cancel), writes=writes, gone=gone, cancel=cancel)
        except kinbin.SearchCancelled:
            raise ClientGone from None

    async def read(self, request: Request, call: Callable[[], Result]) -> Result:
        """The same of a read that may take long: it ends when its client leaves, or when its time is over (`search_deadline`)."""
        return await self.work(request, call, cancel=Cancel())

    def long_work(self, *, wait: bool = False) -> AbstractAsyncContextManager[Any]:
        """The right to do work of minutes (`LongWork.claimed`); refused when the service is not ready, or does such work already."""
        if self.state != "ready":
            raise self.unavailable()
        return self._long.claimed(wait=wait)

    @contextmanager
    def upload(self) -> Iterator[None]:
        """The right to send a file for such work: one at a time, as each fills the disk. It holds up no other work, however slow it is.

        Refused when the service is not ready, does such work, or takes such a file already.
        """
        if self.state != "ready":
            raise self.unavailable()
        self._long.check()
        if self._uploading:
            raise Refusal("overloaded", "this worker takes an uploaded snapshot just now; try again", limit="long_work")
        self._uploading = True
        try:
            yield
        finally:
            self._uploading = False

    async def long_work_ended(self) -> None:
        """Let work of minutes give up, and wait for it."""
        await self._long.close()

    async def parsed(self, size: int, parse: Callable[[], Result]) -> Result:
        """What a body of this many bytes is parsed to: at once if it is small, outside of the event loop if it is large."""
        if size <= LARGE_BYTES:
            return parse()
        return await self._loop.run_in_executor(self._parsers, parse)

    def unavailable(self) -> Refusal:
        """Why requests are not taken now."""
        if self.state == "stopping":
            return Refusal("stopping", "the service is stopping")
        if self.state == "failed":
            return Refusal("internal", "the kernels could not be compiled; the log says why")
        return Refusal("not_ready", f"the kernels are being loaded{self.kernels.count()}; try again")

    def background_fails(self) -> bool:
        """Whether sealing, merging or linking of some collection failed when this worker last tried; it tries again by itself."""
        return any(work["in_a_row"] for report in self.failures().values() for work in report.values())

    def failures(self) -> dict[str, dict[str, Any]]:
        """Of each collection that is open here, what failed in its background."""
        return self.database.background()

    def measures(self) -> dict[str, float]:
        """What this worker holds just now, by the names of gauges."""
        return {
            "workers_ready": self.state == "ready",
            "requests_waiting": self.admission.waiting,
            "requests_running": self.admission.running,
            "body_bytes": self.buffers.held,
            "connections": connections.opened(),
        }

    def closed(self) -> dict[str, int]:
        """Connections of this process that were closed early, by the code that they were told."""
        return dict(connections.closed)

    async def _sample(self) -> None:
        """Note what the worker holds, now and then, until the task is cancelled."""
        while True:
            try:
                self.metrics.sample(self)
            except Exception:
                log.exception("a look at the worker failed")
            await asyncio.sleep(SAMPLE_SECONDS)

    def _warm_up(self) -> None:
        """Compile or load every kernel (in a thread), first those that an empty or small collection needs."""
        try:
            self.kernels.warm_up(lambda: self._become("ready"))
        except Exception:
            log.exception("warm-up failed")
            self._become("failed")

    async def _until_loaded(self) -> None:
        """Return when all kernels are loaded; where some have to be compiled first, when those of small collections are."""

        def waiting() -> bool:
            return self.state == "starting" or (self.state == "ready" and bool(self.kernels.pending) and not self.kernels.compiling)

        while waiting():  # noqa: ASYNC110 - the thread that warms up changes it
            await asyncio.sleep(_LOOK_SECONDS)

    def _become(self, state: State) -> None:
        def change() -> None:
            if self.state == "starting":
                self.state = state
                log.info(state)
                if state == "ready":
                    self._on_ready()

        self._loop.call_soon_threadsafe(change)


def _given_up(call: Callable[[], Result], cancel: threading.Event | None) -> Callable[[], Result]:
    """A call whose reads look at an event."""
    if cancel is None:
        return call

    def looking() -> Result:
        with kinbin.cancelled_by(cancel):
            return call()

    return looking


async def _left(request: Request) -> None:
    """Return when the client of a request, whose body was read, has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def service_of(request: Request) -> Service:
    """The service that the application of a request runs."""
    service: Service = request.app.state.service
    return service
