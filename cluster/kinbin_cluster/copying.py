"""The items of a collection into the logs of another one, whose shards are others, while the first one is written to.

    snapshot, log of a shard ──▶ local replica, which follows ──▶ rounds: what differs from what was written ──▶ logs of the new shards

Each old shard has a replica here, as a node has it (`node.replica`). A round writes items as they are, not edits: terms of writes were
decided by the old shard, and are not decided again. Of each item that was written its digest is kept, so a round writes what changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import kinbin
from kinbin_cluster.commands import Refused, Session
from kinbin_cluster.connecting import ended
from kinbin_cluster.gateway.cutting import edits_by_id, same_for_all
from kinbin_cluster.message import Edit
from kinbin_cluster.node.replica import Means, ShardReplica
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Collection
from kinbin_cluster.shards import local_name

__all__ = ["MODULUS", "Copy"]

MODULUS = 1 << 128
"""Of sums of digests: see `kinbin.pinned.Pinned.set_digest`."""
_ITEMS, _IDS = 500, 10_000
"""Of one edit: items with their rows, and ids that are deleted."""
_PUBLISH_SECONDS = 60.0
_LOOK_SECONDS, _TELL_SECONDS = 0.02, 5.0

Known = dict[bytes, bytes]
"""Digests of items, by id. About 200 bytes an item."""


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
    _limit: int | None = None
    _indexes: dict[str, str] = field(default_factory=dict)
    """As the new collection has them."""

    async def __aenter__(self) -> Self:
        session = self.session
        self._database = await asyncio.to_thread(kinbin.open, self.folder)
        objects = Objects(session.connection)
        means = Means("command", self._database, session.registry, session.log, objects, lambda: True)
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

    async def caught_up(self, seconds: float | None = None) -> None:
        """Wait until the replicas have applied what the old logs hold now. Raises Refused when they have not in time; ClusterError."""
        began = told = time.monotonic()
        for number, replica in enumerate(self._replicas):
            last = await self.session.log.last(self.old.uid, number)
            while replica.state != "live" or replica.applied < last:
                now = time.monotonic()
                if seconds is not None and now - began > seconds:
                    raise Refused(f"shard {number} was not read to its end in {seconds:.0f} s: {replica.problem or 'try again'}")
                if now - told > _TELL_SECONDS:
                    told = now
                    self.tell(f"shard {number}: {replica.problem or f'{replica.applied} of {last} messages read'}")
                await asyncio.sleep(_LOOK_SECONDS)

    def configuration(self) -> dict[str, Any]:
        """What creates a collection as the old one is now, with the indexes that it has by now."""
        configuration = dict(self.old.configuration)
        self._indexes = self._indexes_now()
        if not configuration.get("fields"):
            configuration["indexes"] = self._indexes or None
        return configuration

    def _indexes_now(self) -> dict[str, str]:
        told = self._replicas[0].collection.stats().get("indexes") or {"fields": {}}
        return {name: one["kind"] for name, one in told["fields"].items()}

    # ------------------------------------------------------------------------------------- rounds

    async def round(self) -> int:
        """Write what changed since the last round. Returns how many items were written or deleted."""
        return sum([await self._round(number) for number in range(self.old.shards)])

    async def _round(self, number: int) -> int:
        known, now = self._known[number], Known()
        written, told = 0, time.monotonic()
        collection = self._database.collection(local_name(self.old.uid, number))
        with await asyncio.to_thread(collection.pinned) as pinned:
            edits = _changes(pinned, known, now)
            while (edit := await asyncio.to_thread(next, edits, None)) is not None:
                await self._publish(edit)
                written += len(edit.ids)
                if time.monotonic() - told > _TELL_SECONDS:
                    told = time.monotonic()
                    self.tell(f"shard {number}: {written} of {pinned.count} items written")
        self._known[number] = now
        return written

    async def settings(self) -> None:
        """Give the new collection the limit and the indexes that the old one has now."""
        assert self.new is not None
        limits = [replica.collection.limits()["items"] for replica in self._replicas]
        limit = None if None in limits else sum(limits)
        if limit != self._limit:
            self._limit = limit
            for number in range(self.new.shards):
                share = None if limit is None else limit // self.new.shards + (number < limit % self.new.shards)
                await self._publish(Edit("limits", more={"items": share}), number)
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
        await asyncio.gather(*(log.publish(new.uid, part.shard, part.messages, part.message_id, until) for part in chosen))


def _changes(pinned: Any, known: Known, now: Known) -> Iterator[Edit]:
    """The edits that make what is known what a pinned collection holds, which `now` becomes."""
    for items in pinned.contents():
        changed = [i for i, key in enumerate(items.ids) if known.get(key) != items.digests[i]]
        now.update(zip(items.ids, items.digests, strict=True))
        for start in range(0, len(changed), _ITEMS):
            some = changed[start : start + _ITEMS]
            payloads = [items.payloads[i] for i in some]
            yield Edit("add", [items.ids[i] for i in some], payloads if any(payloads) else None, pinned.rows(items.numbers[some]))
    gone = [key for key in known if key not in now]
    for start in range(0, len(gone), _IDS):
        yield Edit("delete", gone[start : start + _IDS])
