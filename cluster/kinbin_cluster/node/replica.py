"""One replica of a shard on this node, as a task: its local collection is made or restored, and follows the log.

    (nothing) ─ restore the newest snapshot, or create ─▶ replaying ─ the log's end of that moment is applied ─▶ live

Everything that fails is told (`problem`) and tried again. Local data is thrown away in three cases alone: the log was truncated beyond
what is applied; somebody ordered it; the files are damaged and another replica is live.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kinbin
from kinbin_cluster.applying import Applier, applied_of, stored_of
from kinbin_cluster.connecting import ended, wholly
from kinbin_cluster.errors import ClusterError, LogBehind, LogTruncated
from kinbin_cluster.log import Log
from kinbin_cluster.measures import Lag, Rate
from kinbin_cluster.message import BadMessage, Edit
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Replica
from kinbin_cluster.registry import Registry
from kinbin_cluster.shards import local_name

__all__ = ["Means", "ShardReplica"]

RETRY_SECONDS = 1.0
"""After what failed."""
LOOK_SECONDS = 0.2

log = logging.getLogger("kinbin.cluster.node")


@dataclass(frozen=True, slots=True)
class Means:
    """What the replicas of a node share."""

    name: str
    """Of the node."""
    database: kinbin.Database
    registry: Registry
    log: Log
    objects: Objects
    ready: Callable[[], bool]
    """Whether the service takes requests: a replica that cannot be asked is not live."""
    counts: Counter[str] = field(default_factory=Counter)
    """What the node has done so far, by the names of its metrics."""


class _ThrowAway(Exception):
    """The local collection is of no use: it is dropped, and made anew."""


@dataclass(eq=False)
class ShardReplica:
    """See the head of this file. Lives on the event loop of the service; `run` ends only when it is cancelled."""

    means: Means
    uid: str
    shard: int
    state: str = "restoring"
    problem: str | None = None
    digest: tuple[int, str] | None = None
    """Sequence of the last mark that was digested, and the digest of the contents there."""
    applier: Applier | None = None
    collection: Any = None
    lag: Lag = field(default_factory=Lag)
    rate: Rate = field(default_factory=Rate)
    looked: float | None = None
    """When the end of the log was last looked at."""
    reads: int = 0
    read_seconds: float = 0.0
    opened: int | None = None
    """How far the local collection was when it was opened; None: it was made anew."""
    _thrown: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: set[str] = field(default_factory=set)
    """Work in the background: "mark", "compact"."""
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    @property
    def name(self) -> str:
        """Of the local collection."""
        return local_name(self.uid, self.shard)

    @property
    def applied(self) -> int:
        """The last sequence that is applied."""
        applier = self.applier  # read once: metrics ask in another thread
        return 0 if applier is None else applier.progress.applied

    def told(self) -> Replica:
        """What the node tells of it."""
        applier = self.applier
        stuck, items = (None, 0) if applier is None else (applier.problem, applier.items)
        lag, seconds = (None, None) if self.looked is None else self.behind()
        return Replica(
            self.applied,
            self.state,
            self.digest,
            items,
            self._bytes(),
            self.problem or stuck,
            self.opened,
            lag,
            seconds,
            round(self.rate.value, 4),
        )

    def behind(self) -> tuple[int, float]:
        """How many messages of the log are not applied, and for how long it has held one of these."""
        entries, seconds = self.lag.behind(time.monotonic(), self.applied)
        return entries, round(seconds, 3)

    def look(self, now: float, last: int) -> None:
        """The log ends with this sequence now."""
        self.looked = now
        self.lag.look(now, last, self.applied)
        self.rate.look(now, self.read_seconds + (0.0 if self.applier is None else self.applier.seconds))

    def read_for(self, seconds: float) -> None:
        """A gateway's request took so long."""
        self.reads += 1
        self.read_seconds += seconds

    def _bytes(self) -> int:
        with suppress(OSError):
            return (self.means.database.path / "collections" / self.name / "data.mdb").stat().st_blocks * 512
        return 0

    def throw_away(self) -> None:
        """Let it drop the local collection and begin anew."""
        self._thrown.set()

    async def run(self) -> None:
        """Make it, and keep it up to date, until the task is cancelled."""
        while True:
            try:
                await self._follow()
            except (_ThrowAway, LogTruncated) as reason:
                log.warning("%s: the local copy is made anew: %s", self.name, reason)
                self.state, self.problem = "restoring", str(reason)
                self.means.counts["node_copies_thrown_away"] += 1
                await self._thrown_away()
            except LogBehind as error:
                # What it holds is of another log: it answers no read and tells no verdict, and nothing is thrown away.
                self.state, self.applier = "restoring", None
                self._failed(error)
            except (ClusterError, kinbin.KinbinError, BadMessage, OSError) as error:
                self._failed(error)
            except Exception as error:
                log.exception("%s: the replica has failed", self.name)
                self._failed(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _failed(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.problem:
            log.warning("%s: %s", self.name, text)
        self.problem = text

    async def _follow(self) -> None:
        """Follow the log until something is wrong.

        Raises:
            _ThrowAway, LogTruncated: the local collection is of no use. Others: try again.
        """
        found = await self._of_files(self._found)
        self.collection = found or await self._made()
        applier = await self._of_files(Applier, self.collection, self._loop, self._reached)
        self.opened = None if found is None else applier.progress.applied
        self.state = "replaying" if self.state == "live" else self.state
        applier.start()
        going = asyncio.Event()
        parts = [self._read(applier, going), self._become_live(applier, going), self._thrown.wait(), applier.ended.wait()]
        tasks = [asyncio.create_task(one) for one in parts]
        reading, _, thrown, stopped = tasks
        try:
            await asyncio.wait({reading, thrown, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if thrown.done():
                raise _ThrowAway("that was ordered")
            if applier.failure is not None:
                raise self._judged(applier.failure)
            if reading.done():
                reading.result()
        finally:
            await wholly(_end(tasks, applier))

    async def _of_files(self, read: Callable[..., Any], *arguments: object) -> Any:
        """What a function reads of the local collection, in a thread. Damage that it meets is judged."""
        try:
            return await asyncio.to_thread(read, *arguments)
        except kinbin.CorruptData as error:
            raise self._judged(error) from error

    def _judged(self, failure: Exception) -> Exception:
        """What a failure of the thread that applies means."""
        if isinstance(failure, kinbin.CorruptData) and (others := self._others()):
            return _ThrowAway(f"its files are damaged, and {others[0]} has the shard: {failure}")
        return failure

    def _others(self) -> list[str]:
        """The other nodes whose copies of the shard are live."""
        answering = self.means.registry.picture.answering(self.uid, self.shard)
        return [one.name for one in answering if one.name != self.means.name and self._is_live(one.name)]

    def _is_live(self, node: str) -> bool:
        picture = self.means.registry.picture
        told = picture.replica(self.uid, self.shard, node)
        return picture.is_live(node) and told is not None and told.state == "live"

    async def _read(self, applier: Applier, going: asyncio.Event) -> None:
        """Feed what the log has behind what is applied. Nothing is answered by a copy that the log does not go on from."""

        def goes_on() -> None:
            if not going.is_set():
                self.state, self.problem, self.applier = "replaying", None, applier
                going.set()

        applied, stored = applier.progress.applied, await self._of_files(stored_of, self.collection)
        async for entry in self.means.log.read(self.uid, self.shard, applied, stored, goes_on):
            await applier.feed(entry)

    async def _become_live(self, applier: Applier, going: asyncio.Event) -> None:
        """It is live once all that the log holds now is applied, and it can be asked."""
        while True:
            with suppress(ClusterError):
                last = await self.means.log.last(self.uid, self.shard)
                await going.wait()
                while not await applier.progress.reached(last, 60.0):
                    pass
                while not self.means.ready():  # noqa: ASYNC110 - a thread of the service changes it
                    await asyncio.sleep(LOOK_SECONDS)
                self.state = "live"
                return
            await asyncio.sleep(LOOK_SECONDS)

    # ------------------------------------------------------------------------------------- the local collection

    def _found(self) -> Any:
        """The local collection; None: there is none."""
        try:
            return self.means.database.collection(self.name)
        except kinbin.CollectionNotFound:
            return None

    async def _thrown_away(self) -> None:
        """Remove the local collection. If that fails it is found as it was, and the same follows again."""
        # What others are compared by is told of the new copy alone.
        self.applier, self.collection, self.digest = None, None, None
        try:
            await asyncio.to_thread(self.means.database.drop_collection, self.name, damaged=True)
        except kinbin.CollectionNotFound:
            self._thrown.clear()
        except (kinbin.KinbinError, OSError) as error:
            self._failed(error)
        else:
            self._thrown.clear()

    async def _made(self) -> Any:
        """The local collection, restored from the newest snapshot that can be had, or created empty where there is none.

        Snapshots of a copy that was found to be wrong are taken only where no other node has the shard: it makes a sound one.
        """
        self.state = "restoring"
        picture = self.means.registry.picture
        held = picture.snapshots.get((self.uid, self.shard))
        snapshots = [] if held is None else held.sound or held.newest
        if snapshots and snapshots[0].doubted and (others := self._others()):
            raise ClusterError(f"the snapshots are of a copy that was wrong: {others[0]} is asked for a sound one")
        failed: Exception | None = None
        for snapshot in snapshots:
            try:
                return await self._restored(snapshot.object)
            except (ClusterError, kinbin.KinbinError, OSError) as error:
                self.means.counts["node_restore_failures"] += 1
                self._failed(error)
                failed = error
        if failed is not None:
            raise failed
        described = picture.collection_of(self.uid)
        if described is None:
            raise kinbin.CollectionNotFound(f"the registry has no collection {self.uid}")
        return await asyncio.to_thread(self.means.database.create_collection, self.name, exist_ok=True, **described.configuration)

    async def _restored(self, name: str) -> Any:
        folder = self.means.database.path
        with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder) as scratch:
            file = Path(scratch) / "snapshot"
            await self.means.objects.get(name, file)
            restored = await asyncio.to_thread(self.means.database.restore, file, self.name)
            self.means.counts["node_restores"] += 1
            return restored

    # ------------------------------------------------------------------------------------- what is done beside

    def _reached(self, edit: Edit, sequence: int) -> None:
        """In the thread that applies: a mark or a compaction was applied, and nothing behind it."""
        if edit.op in self._busy:
            # The next one comes. Digests of marks that others have long told are not waited for either.
            return
        if edit.op == "compact":
            self._beside(edit.op, self.collection.compact)
        elif self.state == "live":
            of = self.collection
            pinned = of.pinned()

            def digest() -> None:
                with pinned:
                    found = pinned.set_digest() if edit.more.get("of") == "set" else pinned.digest()
                if self.collection is of:
                    # Of a copy that was thrown away meanwhile it says nothing.
                    self.digest = sequence, found

            self._beside(edit.op, digest)

    def _beside(self, what: str, work: Callable[[], object]) -> None:
        self._busy.add(what)

        async def run() -> None:
            try:
                await asyncio.to_thread(work)
            except kinbin.KinbinError as error:
                log.warning("%s: %s has failed: %s", self.name, what, error)
                self.failed_at(error)
            finally:
                self._busy.discard(what)

        asyncio.run_coroutine_threadsafe(run(), self._loop)

    def failed_at(self, error: Exception) -> None:
        """Something beside the log has read the files, and failed: begin anew where they are damaged, and another node has the shard."""
        if isinstance(self._judged(error), _ThrowAway):
            self.throw_away()

    def snapshot(self, path: Path) -> int:
        """Write a snapshot to a new file; returns the sequence up to which it holds everything. Called in a thread."""
        with self.collection.pinned() as pinned:
            pinned.snapshot(path)
            return applied_of(pinned)


async def _end(tasks: list[asyncio.Task[Any]], applier: Applier) -> None:
    """End what follows a log, and then what applies it."""
    await asyncio.gather(*map(ended, tasks))
    await applier.stop()
