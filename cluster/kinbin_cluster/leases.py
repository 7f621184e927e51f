"""One of several acts: a lease in the registry, renewed by who has it, and taken over when it was not renewed for a while.

Clocks are not compared: each process looks for how long by its own clock the record has not changed. Two may act at once for a moment,
so what they do has to be right all the same: changes are made by compare-and-set.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kinbin_cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinbin_cluster.registry import Registry

__all__ = ["Lease"]


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

    async def hold(self) -> bool:
        """Renew the lease, or take it where it is free. Whether this process has it now."""
        held = self._registry.picture.leases.get(self._name)
        if held != self._seen:
            self._seen, self._since = held, self._clock()
        if held is not None and held["owner"] not in {self._owner, ""} and self._clock() - self._since < self._seconds:
            return False
        before = held or {}
        wanted = {"owner": self._owner, "count": before.get("count", 0) + 1}
        try:
            return await self._registry.change_lease(self._name, lambda now: wanted if now == before else now) == wanted
        except ClusterError:
            return False

    async def free(self) -> None:
        """Let others have it at once, if this process has it. Where the registry does not answer it becomes free by itself."""
        with contextlib.suppress(ClusterError):
            await self._registry.change_lease(self._name, lambda now: now | {"owner": ""} if now.get("owner") == self._owner else now)
