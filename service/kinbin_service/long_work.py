"""Work of minutes, such as snapshots and duplicates: one at a time in a worker, in a thread of its own, so that queries keep theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kinbin_service.problems import Refusal

__all__ = ["LongWork"]

Run = Callable[[Callable[[threading.Event], Any]], asyncio.Future[Any]]


class LongWork:
    """Used on the event loop only. What is begun goes on when its client leaves, and is given up when the service stops."""

    def __init__(self) -> None:
        self._busy = False
        self._cancel = threading.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def claimed(self, *, wait: bool = False) -> AsyncIterator[Run]:
        """The right to do such work, for the block: what it gives runs a call in a thread; the call is told when to give up.

        Refused: another request has it. wait: until nobody has it.
        """
        while wait and self._busy:
            await self._idle.wait()
        self.check()
        self._busy = True
        self._idle.clear()
        running: list[asyncio.Future[Any]] = []

        def run(call: Callable[[threading.Event], Any]) -> asyncio.Future[Any]:
            running.append(asyncio.ensure_future(asyncio.to_thread(call, self._cancel)))
            return asyncio.shield(running[-1])

        def let_go(*_: object) -> None:
            self._busy = False
            self._idle.set()

        try:
            yield run
        finally:
            # Who waits for it may be gone before it ends.
            if running and not running[-1].done():
                running[-1].add_done_callback(let_go)
            else:
                let_go()

    def check(self) -> None:
        """Refuse where another request has the right."""
        if self._busy:
            text = "this worker is busy with a snapshot, a compaction, a rebuild or a search for duplicates; try again"
            raise Refusal("overloaded", text, limit="long_work")

    async def close(self) -> None:
        """Let what runs give up, and wait for it."""
        self._cancel.set()
        await self._idle.wait()
