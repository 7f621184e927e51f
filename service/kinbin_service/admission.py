"""Admission: a bounded queue before a bounded pool of threads.

1. All state is touched on the event loop only; threads run library calls and nothing else.
2. At most `threads` calls run; at most one fewer of them are writes, so that a bulk load never stops queries.
3. At most `queue_length` requests wait, in order of arrival; the next is refused at once (429).
4. Work that waited longer than the deadline is refused (503), and work whose client has left is
   dropped; neither is started. A write that was started is finished: it is then durable, though nobody heard of it.
   A search that was started is told when its client has left, and ends at its next look.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from kinbin_service.problems import Refusal

__all__ = ["Admission", "ClientGone"]

_UNWATCHED_SECONDS = 0.1
"""A search that takes no longer is not watched for its client's leaving: a task for each would cost more than it spares."""

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client left while its request was waiting; nobody reads an answer."""


class _Job:
    """One library call: waiting until `started`, then bound to be finished."""

    __slots__ = ("call", "done", "started", "writes")

    def __init__(self, call: Callable[[], Any], writes: bool, done: asyncio.Future[Any]) -> None:
        self.call = call
        self.writes = writes
        self.done = done
        self.started = False


class Admission:
    """The queue and its threads, for the event loop that it was made on."""

    def __init__(self, threads: int, queue_length: int, deadline_seconds: float) -> None:
        self.threads = threads
        self.write_threads = max(1, threads - 1)
        self.queue_length = queue_length
        self.deadline_seconds = deadline_seconds
        self.running = 0
        self.writing = 0
        self._waiting: deque[_Job] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kinbin-work")

    @property
    def waiting(self) -> int:
        """How many requests wait for a thread."""
        return len(self._waiting)

    async def run(
        self, call: Callable[[], Result], *, writes: bool, gone: Callable[[], Awaitable[object]], cancel: threading.Event | None = None
    ) -> Result:
        """The result of a call in a thread.

        `gone` returns when the client has left: a waiting call is dropped then, a running one is told by `cancel`, if it takes that.
        """
        job = _Job(call, writes, self._loop.create_future())
        if self._may_start(job):
            self._start(job)
        elif len(self._waiting) >= self.queue_length:
            raise Refusal("overloaded", "as many requests wait as may wait; try again", limit="queue_length")
        else:
            await self._wait(job, gone)
        result: Result = await (job.done if cancel is None else self._watched(job, gone, cancel))
        return result

    async def _watched(self, job: _Job, gone: Callable[[], Awaitable[object]], cancel: threading.Event) -> Any:
        """The result of a running call; `cancel` is set when its client leaves. Most end before anybody looks."""

        async def watch() -> None:
            await gone()
            cancel.set()

        watching: list[asyncio.Task[None]] = []
        later = self._loop.call_later(_UNWATCHED_SECONDS, lambda: watching.append(self._loop.create_task(watch())))
        try:
            return await job.done
        except asyncio.CancelledError:
            cancel.set()
            raise
        finally:
            later.cancel()
            for task in watching:
                task.cancel()

    async def close(self) -> None:
        """Wait for what runs, then end the threads. Requests that still wait are refused."""
        for job in self._waiting:
            if not job.done.done():
                job.done.set_exception(Refusal("stopping", "the service is stopping"))
        self._waiting.clear()
        await self._idle.wait()
        self._pool.shutdown()

    def _may_start(self, job: _Job) -> bool:
        return self.running < self.threads and not (job.writes and self.writing >= self.write_threads)

    def _start(self, job: _Job) -> None:
        job.started = True
        self.running += 1
        self.writing += job.writes
        self._idle.clear()
        self._pool.submit(job.call).add_done_callback(lambda ended: self._loop.call_soon_threadsafe(self._finish, job, ended))

    def _finish(self, job: _Job, ended: Future[Any]) -> None:
        self.running -= 1
        self.writing -= job.writes
        if not job.done.done():
            error = ended.exception()
            if error is None:
                job.done.set_result(ended.result())
            else:
                job.done.set_exception(error)
        self._start_waiting()
        if not self.running:
            self._idle.set()

    def _start_waiting(self) -> None:
        """Start what may start, in order of arrival: a read may pass writes that wait for other writes."""
        passed: list[_Job] = []
        while self._waiting and self.running < self.threads:
            job = self._waiting.popleft()
            if self._may_start(job):
                self._start(job)
            else:
                passed.append(job)
        self._waiting.extendleft(reversed(passed))

    async def _wait(self, job: _Job, gone: Callable[[], Awaitable[object]]) -> None:
        """Wait until a job is started; drop it when its deadline passes, its client leaves or this task is cancelled."""
        self._waiting.append(job)
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait((job.done, leaving), timeout=self.deadline_seconds, return_when=asyncio.FIRST_COMPLETED)
            if job.started or job.done.done():
                return
            if leaving.done():
                raise ClientGone
            raise Refusal("deadline", f"no thread was free within {self.deadline_seconds:g} seconds; try again", limit="deadline_seconds")
        finally:
            leaving.cancel()
            if not job.started and job in self._waiting:
                self._waiting.remove(job)
