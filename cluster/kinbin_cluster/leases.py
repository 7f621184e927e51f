"""One of several acts: a lease in the registry, renewed by who has it, and taken over when it was not renewed for a while.

Clocks are not compared: each process looks for how long by its own clock the record has not changed. Two may act at once for a moment,
as who has stalled does not know how long. So what they do has to be right all the same: changes are made by compare-and-set, or tell the
lease's `term`, and who has seen a later one refuses an earlier one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kinbin_cluster.connecting import ended
from kinbin_cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kinbin_cluster.registry import Registry

__all__ = ["Lease", "alone"]

_RENEW_SECONDS, _LOOK_SECONDS = 1.0, 0.05


class Lease:
    """A lease as one process sees it. Call `hold` every second; `seconds` of no change make it free."""

    def __init__(self, registry: Registry, name: str, owner: str, clock: Callable[[], float], *, seconds: float = 5.0) -> None:
        self._registry = registry
        self._name = name
        self._owner = owner
        self._clock = clock
        self._seconds = seconds
        self._seen: dict[str, Any] | None = None
        self._since = clock()
        self._until = 0.0
        self.term = 0
        """A number that who has the lease later has a greater one of. 0: this process never had it."""

    @property
    def sure(self) -> bool:
        """Whether this process has it, and nobody else can have taken it yet."""
        return time.monotonic() < self._until

    async def hold(self) -> bool:
        """Renew the lease, or take it where it is free. Whether this process has it now."""
        held = self._registry.picture.leases.get(self._name)
        if held != self._seen:
            self._seen, self._since = held, self._clock()
        if held is not None and held["owner"] not in {self._owner, ""} and self._clock() - self._since < self._seconds:
            return False
        before, began = held or {}, time.monotonic()
        # By the clock, so that it goes on from there where NATS was restored from a copy that is older than what shards have seen.
        wanted = {"owner": self._owner, "count": max(before.get("count", 0) + 1, int(time.time()))}
        try:
            has = await self._registry.change_lease(self._name, lambda now: wanted if now == before else now) == wanted
        except ClusterError:
            return False
        if has:
            self._until, self.term = began + self._seconds, wanted["count"]
        return has

    async def free(self) -> None:
        """Let others have it at once, if this process has it. Where the registry does not answer it becomes free by itself."""
        self._until = 0.0
        with contextlib.suppress(ClusterError):
            await self._registry.change_lease(self._name, lambda now: now | {"owner": ""} if now.get("owner") == self._owner else now)


@asynccontextmanager
async def alone(lease: Lease, seconds: float, refused: Callable[[], Exception]) -> AsyncIterator[Lease]:
    """Have a lease for the block, renewed each second; waits for it so long, and then raises what `refused` returns.

    Whoever cannot renew it, as NATS does not answer, goes on: see `Lease.sure`, and `Lease.term`.
    """
    until = time.monotonic() + seconds
    while not await lease.hold():
        if time.monotonic() > until:
            raise refused()
        await asyncio.sleep(_LOOK_SECONDS)

    async def keep() -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await lease.hold()

    keeping = asyncio.create_task(keep())
    try:
        yield lease
    finally:
        await ended(keeping)
        await lease.free()
