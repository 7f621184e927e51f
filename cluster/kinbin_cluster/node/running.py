"""A node's part in its cluster: it holds what the registry says, tells how far it is, and makes the snapshots that are asked of it.

Local collections that the registry does not know of any more are dropped, but not before they have been unknown for a while.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import kinbin
from kinbin_cluster.belonging import belong
from kinbin_cluster.connecting import Connection, ended
from kinbin_cluster.control import Controller
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.joining import held, key_print, see_that_key_is_theirs, see_that_name_is_free
from kinbin_cluster.log import Log
from kinbin_cluster.node.metrics import NodeMetrics
from kinbin_cluster.node.replica import Means, ShardReplica
from kinbin_cluster.node.watching import Watch
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Node, Shard, Snapshot
from kinbin_cluster.registry import Registry
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.shards import local_name, local_shard
from kinbin_service.service import Service

__all__ = ["RunningNode"]

CONNECT_SECONDS = 60.0
UNKNOWN_SECONDS = 30.0
"""So long the registry knows nothing of a local collection before it is dropped."""
LIST_SECONDS = 5.0
STATE_SECONDS = 0.03
"""Between two looks whether a replica's state has changed."""
_SNAPSHOTS = ".snapshots-"

log = logging.getLogger("kinbin.cluster.node")

Place = tuple[str, int]
"""uid and number of a shard."""


class RunningNode:
    """See the head of this file. Everything belongs to the event loop of the service."""

    def __init__(self, means: Means, settings: ClusterSettings) -> None:
        self.means = means
        self.settings = settings
        self.replicas: dict[Place, ShardReplica] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._ending: dict[Place, asyncio.Task[None]] = {}
        """Replicas that are let go: a transaction at hand may take seconds."""
        self._unknown: dict[str, float] = {}
        """Local collections that the registry does not know, since when."""
        self._rebuilding: set[Place] = set()
        self._snapshotting: dict[Place, asyncio.Task[None]] = {}
        self._dropping: asyncio.Task[None] | None = None
        self._being_dropped: frozenset[str] = frozenset()
        self._rebuilt: asyncio.Task[None] | None = None
        self._instance = secrets.token_hex(8)
        """Tells this process from others that have its name."""
        self._instances = {self._instance}
        self.watch = Watch(means, self.replicas)
        self._looked = 0.0
        """When local collections were listed."""

    @classmethod
    @asynccontextmanager
    async def running(cls, service: Service, settings: ClusterSettings, address: str) -> AsyncIterator[RunningNode]:
        """Join the cluster with a service's database, and follow it until the end of the block.

        Raises:
            LogUnavailable: NATS does not answer.
            Taken, OtherKey: a node that lives has the name, or the files, or another key.
        """
        async with AsyncExitStack() as stack:
            stack.enter_context(held(service.settings.data_dir))
            connection = await Connection.open(settings, f"node {settings.node}", seconds=CONNECT_SECONDS)
            stack.push_async_callback(connection.close)
            registry, journal = Registry(connection), Log(connection)
            await registry.start(seconds=CONNECT_SECONDS)
            stack.push_async_callback(registry.stop)
            node = cls(
                Means(settings.node, service.database, registry, journal, Objects(connection), lambda: service.state == "ready"), settings
            )
            stack.push_async_callback(node._stop)
            await asyncio.to_thread(belong, service.settings.data_dir, registry.picture.cluster)
            await see_that_key_is_theirs(registry, settings)
            await see_that_name_is_free(registry, settings)
            await registry.join(Node(settings.node, settings.address or address, settings.zone, settings.weight))
            controller = Controller(connection, registry, journal, node.means.objects, settings.node, node.means.counts)
            tasks = [asyncio.create_task(one) for one in (node._beat(), controller.run(), node.watch.run())]
            stack.push_async_callback(_ended, tasks)
            service.collectors.append(NodeMetrics(node, service.settings.metrics_collections))
            yield node

    def not_live(self) -> int:
        """How many shards that this node is to hold do not answer here yet. What only leaves counts as well, while it is held."""
        wanted = {(uid, shard) for uid, shard, _ in self.means.registry.picture.shards_of(self.means.name)}
        return len(wanted - {place for place, replica in self.replicas.items() if replica.state == "live"})

    async def _beat(self) -> None:
        """Do what the registry says, and tell how far it is, again and again."""
        mine = key_print(self.settings, self.means.registry.picture.cluster)
        while True:
            try:
                self._listen()
                self._look()
                shards = {place: replica.told() for place, replica in self.replicas.items()}
                await self.means.registry.beat(
                    self.means.name, shards, version=kinbin.__version__, instance=self._instance, key_print=mine, **self.watch.disk
                )
            except Exception:
                log.exception("a look at the registry has failed")
            await self._pause()

    async def _pause(self) -> None:
        """Until the next beat is due, or a replica's state has changed: gateways read from those alone that they know to be live."""
        before = {place: replica.state for place, replica in self.replicas.items()}
        due = time.monotonic() + self.settings.beat_seconds
        while (left := due - time.monotonic()) > 0:
            await asyncio.sleep(min(STATE_SECONDS, left))
            if {place: replica.state for place, replica in self.replicas.items()} != before:
                return

    def _listen(self) -> None:
        """Say it when another process tells as this node: both would be asked by one address, and change one record."""
        told = self.means.registry.picture.told(self.means.name).get("instance", self._instance)
        if told not in self._instances:
            self._instances.add(told)
            log.error("another process tells as node %s, too: end one of the two, and start the other again", self.means.name)

    def _look(self) -> None:
        picture = self.means.registry.picture
        wanted = {(uid, shard): record for uid, shard, record in picture.shards_of(self.means.name)}
        for place, record in wanted.items():
            if place not in self.replicas and place not in self._ending and local_name(*place) not in self._being_dropped:
                self.replicas[place] = replica = ShardReplica(self.means, *place)
                self._tasks[place] = asyncio.create_task(replica.run(), name=f"kinbin replica {replica.name}")
            if place in self.replicas:
                self._rebuild(place, record)
                self._snapshot(place, record)
        for place in [place for place in self.replicas if place not in wanted]:
            self._forget(place)
        self._drop_unknown({replica.name for replica in self.replicas.values()} | {local_name(*place) for place in self._ending})

    def _forget(self, place: Place) -> None:
        """Follow the log of a shard no more; its files are dropped later. The node goes on telling meanwhile that it lives."""
        replica, task = self.replicas.pop(place), self._tasks.pop(place)
        log.info("%s: this node holds no replica of it any more", replica.name)
        self._ending[place] = ending = asyncio.create_task(ended(task))
        ending.add_done_callback(lambda _: self._ending.pop(place, None))

    def _drop_unknown(self, known: set[str]) -> None:
        now = time.monotonic()
        if now - self._looked < LIST_SECONDS:
            return
        self._looked = now
        local = {name for name in self.means.database.collections() if local_shard(name) is not None} - known
        self._unknown = {name: self._unknown.get(name, now) for name in local}
        old = [name for name, since in self._unknown.items() if now - since >= UNKNOWN_SECONDS]
        # A registry that has lost everything does not know this node either.
        if old and self.means.name in self.means.registry.picture.nodes and (self._dropping is None or self._dropping.done()):
            self._being_dropped = frozenset(old)
            self._dropping = asyncio.create_task(self._drop_all(old))

    async def _drop_all(self, names: list[str]) -> None:
        try:
            for name in names:
                try:
                    await asyncio.to_thread(self.means.database.drop_collection, name, damaged=True)
                except kinbin.KinbinError as error:
                    log.warning("%s: could not be dropped: %s", name, error)
        finally:
            self._being_dropped = frozenset()

    # ------------------------------------------------------------------------------------- orders

    def _rebuild(self, place: Place, record: Shard) -> None:
        """Throw a replica away where that was ordered, once; say so when it is live again."""
        replica = self.replicas[place]
        if self.means.name not in record.rebuild:
            self._rebuilding.discard(place)
        elif place not in self._rebuilding:
            self._rebuilding.add(place)
            replica.state = "restoring"
            replica.throw_away()
        elif replica.state == "live":
            self._rebuilt = self._rebuilt or asyncio.create_task(self._tell_rebuilt(place))

    async def _tell_rebuilt(self, place: Place) -> None:
        mine = self.means.name
        try:
            await self.means.registry.change_shard(
                *place, lambda held: replace(held, rebuild=tuple(name for name in held.rebuild if name != mine))
            )
        except ClusterError as error:
            log.warning("a rebuilt replica is not told of yet: %s", error)
        finally:
            self._rebuilt = None

    def _snapshot(self, place: Place, record: Shard) -> None:
        """Make a snapshot where this node is asked for one."""
        replica = self.replicas[place]
        held = self.means.registry.picture.snapshots.get(place)
        newest = held.sound[0].sequence if held is not None and held.sound else 0
        due = record.snapshot_asked > newest and record.holder == self.means.name
        if due and replica.state == "live" and replica.applied >= record.snapshot_asked and place not in self._snapshotting:
            self._snapshotting[place] = task = asyncio.create_task(self._make_snapshot(place, replica))
            task.add_done_callback(lambda _: self._snapshotting.pop(place, None))

    async def _make_snapshot(self, place: Place, replica: ShardReplica) -> None:
        """Write it, store it, enter it, and remove those that nobody needs now."""
        file = self.means.database.path / f"{_SNAPSHOTS}{secrets.token_hex(8)}"
        try:
            sequence = await asyncio.to_thread(replica.snapshot, file)
            name = f"{place[0]}.{place[1]}.{sequence}.{secrets.token_hex(4)}"
            size = await self.means.objects.put(name, file)
            made = Snapshot(sequence, name, size, self.means.name, time.time())
            for old in await self.means.registry.add_snapshot(*place, made):
                await self.means.objects.delete(old.object)
            self.means.counts["node_snapshots"] += 1
            log.info("%s: a snapshot holds everything up to %d", replica.name, sequence)
        except (ClusterError, kinbin.KinbinError, OSError) as error:
            self.means.counts["node_snapshot_failures"] += 1
            log.warning("%s: no snapshot was made: %s", replica.name, error)
            replica.failed_at(error)
            await asyncio.sleep(self.settings.beat_seconds)
        finally:
            await asyncio.to_thread(file.unlink, missing_ok=True)

    async def _stop(self) -> None:
        beside = [one for one in (self._rebuilt, self._dropping) if one is not None]
        await _ended([*self._tasks.values(), *self._snapshotting.values(), *beside])
        await asyncio.gather(*self._ending.values())


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """End tasks, all at once."""
    await asyncio.gather(*map(ended, tasks))


def leftover_files(folder: Path) -> list[Path]:
    """Files of snapshots and restores that an earlier process did not finish."""
    return [*folder.glob(f"{_SNAPSHOTS}*"), *folder.glob(".restoring-*")]
