"""The items of a collection into the logs of another one, whose shards are others, while the first one is written to.

    snapshot, log of a shard ──▶ local replica, which follows ──▶ rounds: what differs from what was written ──▶ logs of the new shards

Each old shard has a replica here, as a node has it (`node.replica`). A round (`rounds`) writes items as they are, not edits: terms of
writes were decided by the old shard, and are not decided again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import kinbin
from kinbin_cluster.commands import Refused, Session
from kinbin_cluster.connecting import ended
from kinbin_cluster.gateway.cutting import edits_by_id, same_for_all
from kinbin_cluster.message import Edit
from kinbin_cluster.node.replica import Means, ShardReplica
from kinbin_cluster.numbers import Numbers
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Collection
from kinbin_cluster.rounds import Known, Round
from kinbin_cluster.shards import local_name

__all__ = ["MODULUS", "Copy"]

MODULUS = 1 << 128
"""Of sums of digests: see `kinbin.pinned.Pinned.set_digest`."""
_PUBLISH_SECONDS = 60.0
_LOOK_SECONDS, _TELL_SECONDS = 0.02, 5.0


@dataclass(eq=False)
class Copy:
    """`async with Copy(...)`: the old collection's replicas live in a database of this folder until the block ends."""

    session: Session
    old: Collection
    folder: Path
    tell: Callable[[str], object]
    new: Collection | None = None
    """Where rounds write to."""
    _known: list[Known] = field(default_factory=list)
    _replicas: list[ShardReplica] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _begun: list[int] = field(default_factory=list)
    """Of each old shard, the number behind the last of the rows that were there in the last round."""
    _indexes: dict[str, str] = field(default_factory=dict)
    """As the new collection has them."""

    async def __aenter__(self) -> Self:
        session = self.session
        self._database = await asyncio.to_thread(kinbin.open, self.folder)
        objects = Objects(session.connection)
        means = Means("command", self._database, session.registry, session.log, objects, lambda: True)
        self._numbers = Numbers(session.connection)
        self._known = [{} for _ in range(self.old.shards)]
        self._replicas = [ShardReplica(means, self.old.uid, number) for number in range(self.old.shards)]
        self._tasks = [asyncio.create_task(replica.run()) for replica in self._replicas]
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*map(ended, self._tasks))
        await asyncio.to_thread(self._database.close)

    @property
    def count(self) -> int:
        """Items that were written."""
        return sum(map(len, self._known))

    @property
    def digest(self) -> int:
        """The sum of their digests."""
        return sum(int.from_bytes(one, "big") for known in self._known for one in known.values()) % MODULUS

    async def caught_up(self, seconds: float | None = None, ends: Sequence[int] = ()) -> None:
        """Wait until the replicas have applied what the old logs hold now; ends: of each, at least so far.

        Raises Refused when they have not in time, and when the collection was dropped; ClusterError.
        """
        began = told = time.monotonic()
        for number, replica in enumerate(self._replicas):
            last = max(await self.session.log.last(self.old.uid, number), ends[number] if ends else 0)
            while replica.state != "live" or replica.applied < last:
                now = time.monotonic()
                if self.session.picture.collection_of(self.old.uid) is None:
                    raise Refused(f"{self.old.name} was dropped meanwhile")
                if seconds is not None and now - began > seconds:
                    raise Refused(f"shard {number} was not read to its end in {seconds:.0f} s: {replica.problem or 'try again'}")
                if now - told > _TELL_SECONDS:
                    told = now
                    self.tell(f"shard {number}: {replica.problem or f'{replica.applied} of {last} messages read'}")
                await asyncio.sleep(_LOOK_SECONDS)

    def configuration(self) -> dict[str, Any]:
        """What creates a collection as the old one is now, with the indexes that it has by now."""
        configuration = dict(self.old.configuration)
        if configuration.get("fields"):
            # It is made with those that the old one was made with; what changed since comes with the settings.
            self._indexes = dict(configuration.get("indexes") or {})
        else:
            self._indexes = self._indexes_now()
            configuration["indexes"] = self._indexes or None
        return configuration

    def _indexes_now(self) -> dict[str, str]:
        told = self._replicas[0].collection.stats().get("indexes") or {"fields": {}}
        return {name: one["kind"] for name, one in told["fields"].items()}

    # ------------------------------------------------------------------------------------- rounds

    async def round(self) -> int:
        """Write what changed since the last round, the oldest rows first. Returns how many items were written or deleted."""
        written, told = 0, time.monotonic()
        collections = [self._database.collection(local_name(self.old.uid, number)) for number in range(self.old.shards)]
        with ExitStack() as opened:
            pins = [opened.enter_context(await asyncio.to_thread(collection.pinned)) for collection in collections]
            found = Round(pins, self._known, self._begun)
            edits = found.edits()
            while (edit := await asyncio.to_thread(next, edits, None)) is not None:
                await self._publish(edit)
                written += len(edit.ids)
                if time.monotonic() - told > _TELL_SECONDS:
                    told = time.monotonic()
                    self.tell(f"{written} of {sum(pinned.count for pinned in pins)} items written")
            self._known, self._begun = found.now, [pinned.next_row for pinned in pins]
        return written

    async def limit(self) -> None:
        """Give the new collection the limit of items that the old one has now. Behind the last round: shares would refuse items of it."""
        assert self.new is not None
        limits = [replica.collection.limits()["items"] for replica in self._replicas]
        if None in limits:
            return
        for number in range(self.new.shards):
            share = sum(limits) // self.new.shards + (number < sum(limits) % self.new.shards)
            await self._publish(Edit("limits", more={"items": share}), number)

    async def indexes(self) -> None:
        """Give the new collection the indexes that the old one has now."""
        indexes = self._indexes_now()
        if indexes != self._indexes:
            drop = [name for name, kind in self._indexes.items() if indexes.get(name) != kind]
            add = {name: kind for name, kind in indexes.items() if self._indexes.get(name) != kind}
            self._indexes = indexes
            await self._publish(Edit("indexes", more={"add": add, "drop": drop}))

    async def _publish(self, edit: Edit, only: int | None = None) -> None:
        assert self.new is not None
        new, log = self.new, self.session.log
        parts = edits_by_id(edit, new.shards) if edit.ids else same_for_all(edit, new.shards)
        until = time.monotonic() + _PUBLISH_SECONDS
        chosen = [part for part in parts if only in {None, part.shard}]
        if edit.first is not None:
            # One edit after the other: each one's rows come behind those of all before.
            first = await self._numbers.take(len(edit.ids), until)
            chosen = [part.numbered(first) for part in chosen]
        await asyncio.gather(*(log.publish(new.uid, part.shard, part.messages, part.message_id, until) for part in chosen))
