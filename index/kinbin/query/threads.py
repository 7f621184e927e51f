"""Large batches on several threads: kernels hold no GIL, so that parts of a batch run side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TypeVar

from kinbin.cancelling import cancelled_by, event_now
from kinbin.errors import InvalidInput
from kinbin.items.functions import asker_now, working_for

__all__ = ["parts", "run_together", "set_threads", "threads_set"]

MOST_THREADS = 64
_DEFAULT_MOST = 8
_QUERIES_EACH = 64
"""Fewer queries a thread are not worth the hand-over."""

Result = TypeVar("Result")


class _Pool:
    """Threads of this process beside the calling one; made when they are first needed, again after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: tuple[int, int, ThreadPoolExecutor] | None = None
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = min(cores, _DEFAULT_MOST)

    def executor(self) -> ThreadPoolExecutor:
        """The pool for the number of threads that is set."""
        with self._lock:
            key = os.getpid(), self.threads
            if self._made is None or self._made[:2] != key:
                # One that was replaced ends when its work is done; one from before a fork has no threads here.
                self._made = *key, ThreadPoolExecutor(max(1, self.threads - 1), thread_name_prefix="kinbin-query")
            return self._made[2]


_POOL = _Pool()


def set_threads(count: int) -> None:
    """Use at most so many threads of this process for one `query_batch` (all calls together: so many, and their callers).

    At first: the cores that the process may use, at most 8. Answers do not depend on it.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_THREADS:
        raise InvalidInput.of("bad_parameter", f"threads is a whole number from 1 to {MOST_THREADS}", field="threads")
    _POOL.threads = count


def threads_set() -> int:
    """How many threads one call may use."""
    return _POOL.threads


def parts(queries: int) -> list[slice]:
    """Into how many parts a batch is cut, and where."""
    count = max(1, min(_POOL.threads, queries // _QUERIES_EACH))
    cuts = [queries * i // count for i in range(count + 1)]
    return [slice(first, last) for first, last in pairwise(cuts)]


def run_together(tasks: list[Callable[[], Result]]) -> list[Result]:
    """Run tasks side by side, the first in the calling thread. Waits for all; raises what one of them raised.

    All of them look at the event that the calling thread looks at (`cancelled_by`).
    """
    executor = _POOL.executor()
    asker, event = asker_now(), event_now()

    def work(task: Callable[[], Result]) -> Result:
        with cancelled_by(event):
            return task()

    waiting = [executor.submit(working_for, asker, partial(work, task)) for task in tasks[1:]]
    try:
        first = tasks[0]()
    finally:
        for other in waiting:
            other.exception()
    return [first, *(other.result() for other in waiting)]
