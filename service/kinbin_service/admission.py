"""Admission: a bounded queue before a bounded pool of threads.

1. At most `threads` calls run; at most one fewer of them are writes, so that a bulk load never stops queries, and at most
   `read_threads` are reads: more than there are processors take turns at these, and at Python's lock, and fewer are answered.
2. At most `queue_length` requests wait, in order of arrival; the next is refused at once (429), before its body is parsed.
3. Work that waited longer than the deadline is refused (503), and work whose client has left is
   dropped; neither is started. A write that was started is finished: it is then durable, though nobody heard of it.
   A search that was started is told when its client has left, and when it has run for `search_seconds` (503); it ends at its next look.
4. A thread that is done takes the next work of its kind itself, under one lock: under overload the event loop is busy with
   refusals, and threads that waited for it would stand idle.
5. A read that has run for a while lets one that waits go first, at its next look at whether it is still wanted, and goes on in its turn:
   a few long batches hold up nobody else. It goes on without a turn after a second, since what it holds may be what others wait for.
6. Where processors are short the event loop goes first, for a refusal is worth nothing late, and with it one read: beside a bulk load
   a single query would wait for whoever loads. Other reads, and writes, have threads of their own: one that has just written has used
   up what the scheduler gives it, and a query would wait for that.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import kinbin
from kinbin_service.priorities import FIRST, LOOP, READS, WRITES, Priority, prefer
from kinbin_service.problems import Refusal

__all__ = ["Admission", "Cancel", "ClientGone"]

_UNWATCHED_SECONDS = 0.1
"""A search that takes no longer is not watched for its client's leaving: a task for each would cost more than it spares."""

_TURN_SECONDS = 0.2
"""So long a read runs before it lets others go first: as long as a slice of a batch (`query/search.py`)."""
_LONGEST_PAUSE_SECONDS = 1.0
_MOST_PAUSED = 16
"""Reads that let others go first, and keep a thread; then they take turns among themselves."""

Result = TypeVar("Result")


class ClientGone(Exception):
    """The client left while its request was waiting; nobody reads an answer."""


class Cancel(threading.Event):
    """What a read looks at while it runs: it is set when nobody waits for the answer. With a look it may let others go first."""

    def __init__(self) -> None:
        super().__init__()
        self.turn: Callable[[], object] | None = None

    def is_set(self) -> bool:
        """Whether the read is to end."""
        if self.turn is not None:
            self.turn()
        return super().is_set()


class _Job:
    """One library call: waiting until `started`, then bound to be finished."""

    __slots__ = ("call", "cancel", "done", "number", "pool", "resumed", "since", "started", "thread", "writes")

    def __init__(self, call: Callable[[], Any], writes: bool, done: asyncio.Future[Any], cancel: threading.Event | None) -> None:
        self.call = call
        self.cancel = cancel
        self.thread = 0
        """That makes the call."""
        self.since = 0.0
        """When it began, or went on."""
        self.resumed: threading.Event | None = None
        """Of one that lets others go first: set when it is its turn."""
        self.writes = writes
        self.done = done
        """Touched on the event loop only."""
        self.number = 0
        """In the order of arrival, of those that wait."""
        self.pool: ThreadPoolExecutor | None = None
        """Whose threads it was started for."""
        self.started = False


class Admission:
    """The queue and its threads, for the event loop that it was made on."""

    def __init__(
        self, threads: int, queue_length: int, deadline_seconds: float, search_seconds: float = 30.0, read_threads: int | None = None
    ) -> None:
        """read_threads: None: as many as there are."""
        self.threads = threads
        self.write_threads = max(1, threads - 1)
        self.read_threads = threads if read_threads is None else min(threads, read_threads)
        self.queue_length = queue_length
        self.deadline_seconds = deadline_seconds
        self.search_seconds = search_seconds
        self.running = 0
        self.writing = 0
        self._waiting: dict[bool, deque[_Job]] = {False: deque(), True: deque()}
        """Reads, and writes, in order of arrival."""
        self._paused: deque[_Job] = deque()
        """Reads that let others go first, in order of their turns."""
        self._arrived = 0
        self._lock = threading.Lock()
        """Around the six above, `_first_is_free`, and what is started."""
        self._unheard = 0
        """Calls whose end the event loop has not seen."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop = asyncio.get_running_loop()
        base = os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else 0
        prefer(LOOP, base)
        self._first = self._pool("kinbin-first-read", 1, FIRST, base)
        self._first_is_free = True
        # Begun by a thread that has less it would have less for ever: most users may not raise it.
        self._first.submit(bool)
        # Those that let others go first keep their threads.
        self._reads = self._pool("kinbin-read", self.read_threads + _MOST_PAUSED, READS, base)
        self._writes = self._pool("kinbin-write", self.write_threads, WRITES, base)

    @staticmethod
    def _pool(name: str, threads: int, priority: Priority, base: int) -> ThreadPoolExecutor:
        """Threads that are begun when they are needed: those that answer one after the other are then one, whose caches are warm."""
        return ThreadPoolExecutor(threads, thread_name_prefix=name, initializer=prefer, initargs=(priority, base))

    def _submit(self, job: _Job) -> None:
        assert job.pool is not None
        job.pool.submit(self._work, job)

    @property
    def waiting(self) -> int:
        """How many requests wait for a thread."""
        return sum(len(jobs) for jobs in self._waiting.values())

    def check_room(self, *, writes: bool) -> None:
        """Refuse what can neither begin at once nor wait."""
        if self.waiting >= self.queue_length and not self._may_begin(writes):
            raise Refusal("overloaded", "as many requests wait as may wait; try again", limit="queue_length")

    async def run(
        self, call: Callable[[], Result], *, writes: bool, gone: Callable[[], Awaitable[object]], cancel: threading.Event | None = None
    ) -> Result:
        """The result of a call in a thread.

        `gone` returns when the client has left: a waiting call is dropped then, a running one is told by `cancel`, if it takes that
        (and raises `kinbin.SearchCancelled`).
        """
        job = _Job(call, writes, self._loop.create_future(), cancel)
        with self._lock:
            if not self._begin(job):
                self.check_room(writes=writes)
                # Begins a thread where none is free: one that another pool's thread began, to hand the job on, would have its
                # priority, and most users may not raise it.
                (self._writes if writes else self._reads).submit(bool)
                self._arrived = job.number = self._arrived + 1
                self._waiting[writes].append(job)
        if job.started:
            self._unheard += 1
            self._idle.clear()
            self._submit(job)
        else:
            await self._wait(job, gone)
        result: Result = await (job.done if cancel is None else self._watched(job, gone, cancel))
        return result

    async def _watched(self, job: _Job, gone: Callable[[], Awaitable[object]], cancel: threading.Event) -> Any:
        """The result of a running call; `cancel` is set when its client leaves, or its time is over. Most end before anybody looks."""
        expired = False

        async def watch() -> None:
            await gone()
            cancel.set()

        def expire() -> None:
            nonlocal expired
            expired = True
            cancel.set()

        watching: list[asyncio.Task[None]] = []
        ending = self._loop.call_later(self.search_seconds, expire)
        later = self._loop.call_later(_UNWATCHED_SECONDS, lambda: watching.append(self._loop.create_task(watch())))
        try:
            return await job.done
        except kinbin.SearchCancelled:
            if not expired:
                raise
            detail = f"it took longer than {self.search_seconds:g} seconds and was given up: ask for less at once"
            raise Refusal("search_deadline", detail, limit="search_seconds") from None
        except asyncio.CancelledError:
            cancel.set()
            raise
        finally:
            later.cancel()
            ending.cancel()
            for task in watching:
                task.cancel()

    async def close(self) -> None:
        """Wait for what runs, then end the threads. Requests that still wait are refused."""
        with self._lock:
            waiting = [job for jobs in self._waiting.values() for job in jobs]
            for jobs in self._waiting.values():
                jobs.clear()
        for job in waiting:
            if not job.done.done():
                job.done.set_exception(Refusal("stopping", "the service is stopping"))
        await self._idle.wait()
        for pool in (self._first, self._reads, self._writes):
            pool.shutdown()

    def _may_begin(self, writes: bool) -> bool:
        room = self.writing < self.write_threads if writes else self.running - self.writing < self.read_threads
        return room and self.running < self.threads

    def _begin(self, job: _Job) -> bool:
        """Note that a job is started, if it may be. Under the lock."""
        if not self._may_begin(job.writes):
            return False
        job.started = True
        job.pool = self._writes if job.writes else self._first if self._first_is_free else self._reads
        self._first_is_free &= job.pool is not self._first
        self.running += 1
        self.writing += job.writes
        return True

    def _work(self, job: _Job | None) -> None:
        """Make calls in a thread, until none that may be made waits."""
        while job is not None:
            result: Any = None
            error: BaseException | None = None
            job.thread, job.since = threading.get_ident(), time.perf_counter()
            if isinstance(job.cancel, Cancel):
                job.cancel.turn = partial(self._let_go_first, job)
            try:
                result = job.call()
            except BaseException as raised:  # noqa: BLE001 - it is raised where the result is awaited
                error = raised
            ended, (job, others) = job, self._next(job)
            # Heard of before any of them can end.
            self._loop.call_soon_threadsafe(self._hear, ended, result, error, len(others) + (job is not None))
            for other in others:
                self._submit(other)

    def _next(self, ended: _Job) -> tuple[_Job | None, list[_Job]]:
        """What is started now that a job has ended, in order of arrival: a read may pass writes that wait for other writes.

        The first that is for the pool of the thread that asks is its own; others are for threads that are free.
        """
        with self._lock:
            self._first_is_free |= ended.pool is self._first
            self.running -= 1
            self.writing -= ended.writes
            started: list[_Job] = []
            while ready := [jobs for jobs in (*self._waiting.values(), self._paused) if jobs and self._may_begin(jobs[0].writes)]:
                job = min(ready, key=lambda jobs: jobs[0].number).popleft()
                if job.resumed is None:
                    self._begin(job)
                    started.append(job)
                else:
                    self._resume(job)
        own = next((job for job in started if job.pool is ended.pool), None)
        return own, [job for job in started if job is not own]

    def _let_go_first(self, job: _Job) -> None:
        """Let another read go first, if this one has run for a while: one that waits, or one that let others go; returns in its turn."""
        # Other threads of the same search look as well.
        late = time.perf_counter() - job.since >= _TURN_SECONDS
        if not late or not (self._waiting[False] or self._paused) or threading.get_ident() != job.thread:
            return
        other: _Job | None = None
        with self._lock:
            self.running -= 1
            begins = bool(self._waiting[False]) and len(self._paused) < _MOST_PAUSED
            if not (begins or self._paused) or not self._may_begin(writes=False):
                self.running += 1
                return
            if begins:
                other = self._waiting[False].popleft()
                self._begin(other)
            else:
                self._resume(self._paused.popleft())
            job.resumed = resumed = threading.Event()
            self._arrived = job.number = self._arrived + 1
            self._paused.append(job)
        if other is not None:
            # Heard of before it can end.
            self._loop.call_soon_threadsafe(self._hear_of_one_more)
            self._submit(other)
        resumed.wait(_LONGEST_PAUSE_SECONDS)
        with self._lock:
            if job in self._paused:
                self._paused.remove(job)
                self._resume(job)
        job.since = time.perf_counter()

    def _resume(self, job: _Job) -> None:
        """Let a job go on that let others go first. Under the lock."""
        self.running += 1
        assert job.resumed is not None
        job.resumed.set()
        job.resumed = None

    def _hear_of_one_more(self) -> None:
        self._unheard += 1

    def _hear(self, job: _Job, result: Any, error: BaseException | None, begun: int) -> None:
        """Pass on how a call ended; begun: calls that were started in its place."""
        if not job.done.done():
            if error is None:
                job.done.set_result(result)
            else:
                job.done.set_exception(error)
        self._unheard += begun - 1
        if not self._unheard:
            self._idle.set()

    async def _wait(self, job: _Job, gone: Callable[[], Awaitable[object]]) -> None:
        """Wait until a job is started; drop it when its deadline passes, its client leaves or this task is cancelled."""
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait((job.done, leaving), timeout=self.deadline_seconds, return_when=asyncio.FIRST_COMPLETED)
            if job.done.done() or not self._withdrawn(job):
                return
            if leaving.done():
                raise ClientGone
            raise Refusal("deadline", f"no thread was free within {self.deadline_seconds:g} seconds; try again", limit="deadline_seconds")
        finally:
            leaving.cancel()
            self._withdrawn(job)

    def _withdrawn(self, job: _Job) -> bool:
        """Take a job back; False if it was started."""
        with self._lock:
            if not job.started and job in self._waiting[job.writes]:
                self._waiting[job.writes].remove(job)
            return not job.started
