"""What has to be decided by one: who holds which shard, what is too old, whose copy differs. It runs in every node; one of them acts.

| what | when | how |
|---|---|---|
| a holder that is silent | at once | another replica that lives is the holder |
| a node that is lost | after `replace_after_seconds` | others take its shards: `moves.settled` |
| drain, move | at once | the same |
| snapshots | so many messages or bytes after the last one | the holder is asked for one |
| truncation of logs | two snapshots are there | up to the older one, and as far as each live copy has applied; see `SLOW` |
| digests | every `digest_seconds` | a mark in the log; a copy that differs from the others is made anew, and reported |
| a node whose files are older than what it told | as it tells | it is reported, by whoever heard both |
| what is left of dropped collections | two minutes after it was first seen | logs, snapshots, records; see `FORGET` |

Nothing here needs a node to answer: orders are records of the registry, and nodes tell what they did. All changes are by compare-and-set
on what was seen, so that two who act at once do no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kinbin_cluster.digests import divergent, is_judged
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.leases import Lease
from kinbin_cluster.message import Edit, encoded
from kinbin_cluster.moves import View, settled
from kinbin_cluster.placement import another

if TYPE_CHECKING:
    from kinbin_cluster.connecting import Connection
    from kinbin_cluster.log import Log
    from kinbin_cluster.objects import Objects
    from kinbin_cluster.picture import Collection, Node, Shard
    from kinbin_cluster.registry import Registry
    from kinbin_cluster.settings import ClusterSettings

__all__ = ["Controller"]

_log = logging.getLogger("kinbin.cluster.control")

STEP = 0.5
"""Seconds between two steps."""

LOOK = 10.0
"""Seconds between two looks at the logs' sizes, and at what is left over."""

RELEASE = 5.0
"""So long a node keeps the copy of a shard that it has left: until every gateway has heard, and has its answers."""

LEFT_OVER = 120.0
"""What belongs to no collection for so long is removed; a collection that is being made has its logs before its record."""

SLOW = 8
"""A log is kept for copies that are behind its snapshots until it is so many times as long as what a snapshot is made after."""

FORGET = 3_600.0
"""So long NATS keeps that a record was removed."""

UNNAMED = 3_600.0
"""So long a file that no snapshot names stays: storing one takes less, and it is named once it is whole."""


class Controller:
    """What one node does to control the cluster. `await run()` for as long as the node runs."""

    def __init__(
        self, connection: Connection, registry: Registry, log: Log, objects: Objects, name: str, counts: Counter[str] | None = None
    ) -> None:
        """counts: where divergences are counted, by the name of their metric."""
        self._counts: Counter[str] = Counter() if counts is None else counts
        self._connection = connection
        self._registry = registry
        self._log = log
        self._objects = objects
        self._settings: ClusterSettings = connection.settings
        self._lease = Lease(registry, "control", name, connection.clock)
        self._first: dict[Hashable, float] = {}
        self._marked: dict[tuple[str, int], float] = {}
        self._looked = 0.0
        self._told: dict[tuple[str, int, str], tuple[Any, int]] = {}
        """Of each copy (uid, shard, node): which opening of its files was last heard of, and how far it was."""
        self._began: float | None = None

    async def run(self) -> None:
        """Act while this node has the lease; for ever. A step that fails is tried again with the next one."""
        while True:
            try:
                await self.look_back()
                if await self._lease.hold():
                    await self.step()
                else:
                    self._began = None
            except ClusterError as error:
                _log.info("a step is put off: %s", error)
            except Exception:  # noqa: BLE001 - the next step has to come whatever befell this one, and the log says what
                _log.exception("a step failed")
            await asyncio.sleep(STEP)

    async def step(self) -> None:
        """Do what is due."""
        now = self._connection.clock()
        if self._began is None:
            self._began = now
        if now - self._began < 2 * self._settings.lost_seconds:
            return  # who is silent is not known yet
        await self._nodes()
        for place, shard in list(self._registry.picture.shards.items()):
            collection = self._registry.picture.collection_of(place[0])
            if collection is not None:
                await self._settle(place, shard, collection)
                await self._compare(place, shard)
        if now - self._looked >= LOOK:
            self._looked = now
            for place in list(self._registry.picture.shards):
                await self._shorten(place)
            await self._clear()
        await self._mark()

    # ------------------------------------------------------------------------------------- nodes and shards

    async def _nodes(self) -> None:
        """Write down who is lost, and who is back."""
        picture = self._registry.picture
        for name, node in list(picture.nodes.items()):
            if picture.is_live(name) != (node.lost is None):
                live = picture.is_live(name)
                _log.warning("node %s is %s", name, "back" if live else "silent")
                await self._registry.change_node(name, _back if live else _lost)

    async def _settle(self, place: tuple[str, int], shard: Shard, collection: Collection) -> None:
        """Take the next step of a shard."""
        view = self._view(place, shard, collection)
        if settled(shard, view) == shard:
            return
        _log.info("shard %s.%d: %s", *place, settled(shard, view))
        await self._registry.change_shard(*place, lambda held: settled(held, view) if held == shard else held)

    def _view(self, place: tuple[str, int], shard: Shard, collection: Collection) -> View:
        picture = self._registry.picture
        live = picture.live()
        deadline = time.time() - self._settings.replace_after_seconds
        known = {name: node for name, node in picture.nodes.items() if node.lost is None or node.lost > deadline}
        names = frozenset(node.name for node in live)
        ready = {}
        for name in shard.nodes:
            told = picture.replica(*place, name)
            if name in names and told is not None and told.state == "live":
                ready[name] = told.applied

        def one_more(held: tuple[str, ...]) -> str | None:
            load = Counter(name for other in picture.shards.values() for name in (*other.replicas, *other.joining))
            found = another(*place, [picture.nodes[name] for name in held if name in picture.nodes], picture.reached(), load)
            return None if found is None else found.name

        return View(
            target=collection.replicas,
            live=names,
            gone=frozenset(shard.nodes) - known.keys(),
            draining=frozenset(name for name, node in picture.nodes.items() if node.draining),
            applied=ready,
            released=frozenset(
                name for name in shard.leaving if name not in shard.replicas and self._long((place, name, shard.replicas), RELEASE)
            ),
            another=one_more,
        )

    def _long(self, what: Hashable, seconds: float) -> bool:
        """Whether something was first seen so long ago, by this process."""
        now = self._connection.clock()
        return now - self._first.setdefault(what, now) >= seconds

    # ------------------------------------------------------------------------------------- digests

    async def _mark(self) -> None:
        """Put a mark into each log whose last one is old, so that its replicas compute their digests there."""
        now = self._connection.clock()
        picture = self._registry.picture
        closed = {one.uid for one in picture.collections.values() if one.closed}  # their logs take nothing
        for place in [place for place in picture.shards if place[0] not in closed]:
            if now - self._marked.setdefault(place, now) >= self._settings.digest_seconds:
                self._marked[place] = now
                await self.mark(place)

    async def mark(self, place: tuple[str, int]) -> int:
        """Put a mark into the log of a shard. Returns its sequence."""
        name = f"mark-{time.time_ns()}"
        parts = encoded(Edit("mark", now=time.time(), more={"name": name}))
        return (await self._log.publish(*place, parts, name, time.monotonic() + 5.0)).sequence

    async def _compare(self, place: tuple[str, int], shard: Shard) -> None:
        """Have copies whose digest at the last mark differs from the others' made anew."""
        picture = self._registry.picture
        told = {name: picture.replica(*place, name) for name in shard.replicas if name not in shard.rebuild}
        digests = {name: replica.digest for name, replica in told.items() if replica is not None and replica.digest is not None}
        newest = max((digest[0] for digest in digests.values()), default=0)
        compared = {name: str(digest[1]) for name, digest in digests.items() if digest[0] == newest}
        if not is_judged(compared, filter(picture.is_live, told), len(shard.replicas)):
            return
        wrong = divergent(shard.holder, compared)
        if not wrong:
            return
        # Copies are made anew from the holder's snapshots: one that is wrong is to make no more, what it made is not taken where there is
        # another way, and a right one makes the next now.
        right = sorted(set(compared) - set(wrong))
        holder = right[0] if shard.holder in wrong and right else shard.holder
        self._marked[place] = self._connection.clock() - self._settings.digest_seconds  # so that the new copies are compared, too
        self._counts["node_divergences"] += len(wrong)
        _log.error("shard %s.%d: the copies of %s differ at sequence %d, and are made anew", *place, ", ".join(wrong), newest)
        await self._registry.put_job(
            f"divergence.{place[0]}.{place[1]}", {"at": time.time(), "sequence": newest, "nodes": wrong, "holder": shard.holder}
        )
        await self._registry.doubt_snapshots(*place, wrong)
        await self._registry.change_shard(*place, lambda held: _judged(held, wrong, holder, newest) if held == shard else held)

    # ------------------------------------------------------------------------------------- disks

    async def look_back(self) -> None:
        """Report each copy that was opened with less than it had told to have on disk: its disk lost that, or is an old copy.

        What it lacks it reads from the log again; nothing is ordered. Every controller does so, with the lease or without: the one that
        acts now may not have heard how far the copy was.
        """
        picture = self._registry.picture
        for (uid, number), shard in list(picture.shards.items()):
            for name in shard.nodes:
                told = picture.replica(uid, number, name)
                if told is None or told.state == "restoring":
                    continue
                opening = picture.told(name).get("instance"), told.opened
                last, before = self._told.get((uid, number, name), (opening, 0))
                if opening != last and told.opened is not None and told.opened < before:
                    _log.error("%s opened its copy of shard %s.%d at %d, and had applied %d", name, uid, number, told.opened, before)
                    job = {"at": time.time(), "node": name, "sequence": told.opened, "before": before}
                    await self._registry.put_job(f"older.{uid}.{number}.{name}", job)
                self._told[uid, number, name] = opening, told.applied

    # ------------------------------------------------------------------------------------- logs and leftovers

    async def _shorten(self, place: tuple[str, int]) -> None:
        """Ask for a snapshot where the log behind the newest one is long, and truncate the log behind the older of two."""
        picture, settings = self._registry.picture, self._settings
        shard = picture.shards.get(place)
        if shard is None:
            return
        state = await self._log.state(*place)
        record = picture.snapshots.get(place)
        snapshots = record.sound if record is not None else []
        newest = snapshots[0].sequence if snapshots else 0
        due = state.last - newest >= settings.snapshot_messages or (state.bytes >= settings.snapshot_bytes and state.last > newest)
        if due and shard.snapshot_asked <= newest:
            await self._registry.change_shard(*place, lambda held: replace(held, snapshot_asked=max(held.snapshot_asked, state.last)))
        if len(snapshots) == 2:
            # A copy that does not go on, or is slower than the writes, would fill the servers' disks: it begins with a snapshot then.
            long = state.bytes >= SLOW * settings.snapshot_bytes or state.last - state.first >= SLOW * settings.snapshot_messages
            waited_for = [] if long else picture.applied(*place).values()
            before = 1 + min([snapshots[1].sequence, *waited_for])
            if before > state.first:
                await self._log.truncate(*place, before)

    async def _clear(self) -> None:
        """Remove what belongs to no collection."""
        picture = self._registry.picture
        uids = {collection.uid for collection in picture.collections.values()}
        await self._left_over([place for place in picture.shards if place[0] not in uids], "record", self._registry.remove_shard)
        await self._left_over([place for place in picture.snapshots if place[0] not in uids], "snapshots", self._registry.remove_snapshots)
        kept = uids | {uid for uid, _ in picture.shards}
        await self._left_over([place for place in await self._log.streams() if place[0] not in kept], "log", self._log.delete_stream)
        await self._registry.clear(FORGET)
        named = {one.object for record in picture.snapshots.values() for one in record.newest}
        for name in await self._objects.names():
            of_nobody = name.split(".")[0] not in kept
            # What a node that was killed had begun to store, or could not store to the end, nobody names.
            if name not in named and self._long(("object", name), LEFT_OVER if of_nobody else UNNAMED):
                _log.info("the file %s, which no snapshot names, is removed", name)
                await self._objects.delete(name)

    async def _left_over(self, places: Iterable[tuple[str, int]], kind: str, remove: Callable[..., object]) -> None:
        for place in places:
            if self._long((kind, place), LEFT_OVER):
                _log.info("the %s of shard %s.%d, which belongs to no collection, is removed", kind, *place)
                done = remove(*place)
                if asyncio.iscoroutine(done):
                    await done


def _judged(shard: Shard, wrong: Sequence[str], holder: str | None, sequence: int) -> Shard:
    """A shard some of whose copies are wrong. A right holder is asked for a snapshot of a later state than that."""
    asked = max(shard.snapshot_asked, sequence)
    return replace(shard, rebuild=tuple(dict.fromkeys((*shard.rebuild, *wrong))), holder=holder, snapshot_asked=asked)


def _lost(node: Node) -> Node:
    return node if node.lost is not None else replace(node, lost=time.time())


def _back(node: Node) -> Node:
    return replace(node, lost=None)
