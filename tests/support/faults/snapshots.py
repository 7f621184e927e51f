"""Snapshots asked for now, as a controller asks for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from faults.running import Cluster
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.log import Log
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings

__all__ = ["ask_for_snapshots"]


def ask_for_snapshots(cluster: Cluster, stream: str) -> bool:
    """Ask the holders of all shards of a stream's collection for one; False: NATS did not take it."""
    return asyncio.run(_ask(ClusterSettings(nats=cluster.nats.addresses, nats_replicas=cluster.nats.replicas), stream.split("-")[1]))


async def _ask(settings: ClusterSettings, uid: str) -> bool:
    try:
        async with await Connection.open(settings, "faults") as connection:
            registry, log = Registry(connection), Log(connection)
            await registry.start()
            try:
                for known, shard in list(registry.picture.shards):
                    if known == uid:
                        last = await log.last(uid, shard)
                        await registry.change_shard(uid, shard, lambda held, last=last: replace(held, snapshot_asked=last))  # type: ignore[misc]
            finally:
                await registry.stop()
    except ClusterError:
        return False
    return True
