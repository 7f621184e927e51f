"""Orders of a campaign, given as controllers and operators give them: by the registry. And what the registry says afterwards."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from faults.running import Cluster
from kinbin_cluster import commands
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.log import Log
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Picture, Shard
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings

__all__ = ["ask_for_snapshots", "begin_move", "leads_to", "order_anew", "places_of", "settings_of", "told_wrong"]

T = TypeVar("T")
NAME = "faults"
"""Of the collection that a campaign writes to."""
_MOMENT = 5.0
_TRIES = 4


def settings_of(cluster: Cluster) -> ClusterSettings:
    """Of a command, which reaches the servers around all links."""
    return ClusterSettings(nats=cluster.nats.addresses, nats_replicas=cluster.nats.replicas)


def _done(cluster: Cluster, work: Callable[[Connection, Registry], Awaitable[T]]) -> T:
    """What a piece of work with a registry returns."""

    async def run() -> T:
        async with await Connection.open(settings_of(cluster), "faults") as connection:
            registry = Registry(connection)
            await registry.start()
            try:
                return await work(connection, registry)
            finally:
                await registry.stop()

    return asyncio.run(run())


def places_of(cluster: Cluster, uid: str) -> dict[int, Shard]:
    """Who holds each shard of a collection."""

    async def look(_: Connection, registry: Registry) -> dict[int, Shard]:
        return {number: shard for (known, number), shard in registry.picture.shards.items() if known == uid}

    return _done(cluster, look)


def leads_to(cluster: Cluster) -> tuple[str, int]:
    """The collection that the name of a campaign leads to: uid and shards."""

    async def look(_: Connection, registry: Registry) -> tuple[str, int]:
        found = registry.picture.collections[NAME]
        return found.uid, found.shards

    return _done(cluster, look)


def ask_for_snapshots(cluster: Cluster, uid: str) -> dict[int, str | None]:
    """Ask the holders of all shards for one. Returns them by shard; nobody where NATS did not take it."""

    async def ask(connection: Connection, registry: Registry) -> dict[int, str | None]:
        log, asked = Log(connection), {}
        for known, number in list(registry.picture.shards):
            if known == uid:
                last = await log.last(uid, number)
                shard = await registry.change_shard(uid, number, lambda held, last=last: replace(held, snapshot_asked=last))  # type: ignore[misc]
                asked[number] = shard.holder
        return asked

    try:
        return _done(cluster, ask)
    except ClusterError:
        return {}


def order_anew(cluster: Cluster, uid: str, node: str) -> int:
    """Have a node throw all its replicas of a collection away, and restore them. Returns how many it has."""

    async def order(_: Connection, registry: Registry) -> int:
        count = 0
        for (known, number), shard in list(registry.picture.shards.items()):
            if known == uid and node in shard.replicas:
                await registry.change_shard(uid, number, lambda held: replace(held, rebuild=tuple(dict.fromkeys((*held.rebuild, node)))))
                count += 1
        return count

    try:
        return _done(cluster, order)
    except ClusterError:
        return 0


def begin_move(cluster: Cluster, number: int, nodes: tuple[str, str]) -> bool:
    """Have a replica move from the first to the second of two nodes. Returns whether that was taken."""
    try:
        asyncio.run(commands.move(settings_of(cluster), NAME, number, nodes, bool, wait=False))
    except ClusterError:
        return False
    return True


def told_wrong(cluster: Cluster, uid: str) -> list[str]:
    """What the cluster says of itself that must not be: copies that differed, snapshots that cannot be restored, edits that came twice."""

    async def look(connection: Connection, registry: Registry) -> list[str]:
        picture, objects = registry.picture, Objects(connection)
        wrong = [f"{name}: {job}" for name, job in picture.jobs.items() if name.startswith(f"divergence.{uid}.")]
        named = [
            ((known, number), name) for known, number in picture.snapshots if known == uid for name in _named(picture, (known, number))
        ]
        for place, name in named:
            # One that was replaced a moment ago is named no more in a moment.
            if not await _is_whole(objects, name) and not await registry.wait_for(partial(_is_gone, place, name), _MOMENT):
                wrong.append(f"the snapshot {name} is named, and not there")
        for number in sorted(number for known, number in picture.shards if known == uid):
            twice = await _twice(Log(connection), uid, number)
            wrong += [f"{twice} edits lie twice in the log of shard {number}"] if twice else []
        return wrong

    told = ""
    for _ in range(_TRIES):
        try:
            return _done(cluster, look)
        except ClusterError as error:
            told = str(error)
    return [f"the cluster does not tell: {told}"]


async def _twice(log: Log, uid: str, shard: int) -> int:
    """How many edits a shard's log holds more than once. Each carries the moment in which a gateway took it, so no two are alike."""
    held = await log.state(uid, shard)
    seen: set[bytes] = set()
    count = 0
    if held.first <= held.last:
        async for entry in log.read(uid, shard, held.first - 1):
            digest = hashlib.sha256(b"".join(entry.parts)).digest()
            count += digest in seen
            seen.add(digest)
            if entry.sequence >= held.last:
                break
    return count


def _is_gone(place: tuple[str, int], name: str, picture: Picture) -> bool:
    return name not in _named(picture, place)


def _named(picture: Picture, place: tuple[str, int]) -> list[str]:
    held = picture.snapshots.get(place)
    return [] if held is None else [one.object for one in held.newest]


async def _is_whole(objects: Objects, name: str) -> bool:
    try:
        return await objects._complete(name)
    except ClusterError:
        return False
