"""How far a replica has applied its shard's log: set by the thread that applies, awaited on the event loop of the service."""

from __future__ import annotations

import asyncio
import contextlib

__all__ = ["Progress"]


class Progress:
    """Made, awaited and told of on one event loop; `begin` and `end` may be called in any one other thread."""

    def __init__(self, applied: int, loop: asyncio.AbstractEventLoop) -> None:
        self.applied = applied
        """Everything up to this sequence is on disk, and seen by every read that begins now."""
        self.begun = applied
        """Nothing beyond this sequence is seen by any read."""
        self._loop = loop
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()

    def begin(self, sequence: int) -> None:
        """The transaction that applies everything up to a sequence may be seen from now on."""
        self.begun = sequence

    def end(self, sequence: int) -> None:
        """It is on disk."""
        self.applied = sequence
        # The loop may have ended, and with it all who wait.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake)

    def give_up(self) -> None:
        """Whoever waits need not: the replica is going."""
        for _, future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def reached(self, sequence: int, seconds: float) -> bool:
        """Wait until a sequence is applied, for so long at most. Returns whether it is."""
        if self.applied < sequence and seconds > 0:
            future: asyncio.Future[None] = self._loop.create_future()
            waiting = (sequence, future)
            self._waiting.add(waiting)
            try:
                # Not `wait_for`, which may lose that its caller is cancelled.
                await asyncio.wait({future}, timeout=seconds)
            finally:
                self._waiting.discard(waiting)
        return self.applied >= sequence

    def _wake(self) -> None:
        for sequence, future in self._waiting:
            if sequence <= self.applied and not future.done():
                future.set_result(None)
