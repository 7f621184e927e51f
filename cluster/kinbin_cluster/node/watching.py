"""What a node looks at beside its work: where the logs of its shards end, which NATS servers live, and how much room its disk has."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress

from kinbin_cluster.errors import ClusterError
from kinbin_cluster.node.replica import Means, ShardReplica

__all__ = ["Watch"]

LOOK_SECONDS = 2.0
"""Between two looks. A node of more than `AT_ONCE` x 10 replicas looks less often: a fifth of a second for each `AT_ONCE` of them."""
AT_ONCE = 8
"""Logs that are asked for at once."""
SECONDS = 3.0
"""Longest wait for one."""

log = logging.getLogger("kinbin.cluster.node")


class Watch:
    """Belongs to the event loop of the service. `await run()` for as long as the node runs."""

    def __init__(self, means: Means, replicas: Mapping[tuple[str, int], ShardReplica]) -> None:
        self._means = means
        self._replicas = replicas
        self._answered = time.monotonic()
        self.disk: dict[str, int] = {}
        """`disk_bytes` and `disk_free` of the folder of collections; empty before the first look."""
        self.servers: dict[str, bool] = {}
        """NATS servers by name, as the registry last told of them: whether each lives and has all of it."""

    @property
    def gap(self) -> float:
        """Seconds since NATS last told the end of a log. Without replicas nothing is asked, and it is 0."""
        return max(0.0, time.monotonic() - self._answered) if self._replicas else 0.0

    async def run(self) -> None:
        """Look, again and again."""
        while True:
            try:
                await self.look()
            except Exception:
                log.exception("a look at the logs has failed")
            await asyncio.sleep(max(LOOK_SECONDS, len(self._replicas) / AT_ONCE / 5))

    async def look(self) -> None:
        """Look at all logs and at the disk, once."""
        if not self._replicas:
            self._answered = time.monotonic()
        with suppress(OSError):
            usage = await asyncio.to_thread(shutil.disk_usage, self._means.database.path)
            self.disk = {"disk_bytes": usage.total, "disk_free": usage.free}
        # Without a quorum nobody tells: what was known stays, and the gap grows.
        with suppress(ClusterError):
            self.servers = await self._means.registry.servers(SECONDS)
        room = asyncio.Semaphore(AT_ONCE)

        async def one(replica: ShardReplica) -> None:
            async with room:
                # A log that does not tell leaves the replica as it was seen: what is not applied grows older.
                with suppress(ClusterError):
                    last = await self._means.log.last(replica.uid, replica.shard, seconds=SECONDS)
                    self._answered = time.monotonic()
                    replica.look(self._answered, last)

        await asyncio.gather(*(one(replica) for replica in list(self._replicas.values())))
