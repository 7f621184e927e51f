"""The registry: who is there and who holds what, in a key-value bucket of NATS; and what nodes tell every half second.

| key | record | written by |
|---|---|---|
| `nodes.{node}` | Node | the node when it starts, the controller |
| `collections.{name}` | Collection | gateways |
| `shards.{uid}.{shard}` | Shard | gateways when they make it, then the controller; drain and move by `kinbin cluster` |
| `snapshots.{uid}.{shard}` | Snapshots | the nodes that make them |
| `aliases.{name}` | Alias | gateways |
| `leases.{name}`, `jobs.{name}` | JSON | controllers; `kinbin cluster` |
| `cluster` | the id of this cluster | whoever starts first |

Each change is made by compare-and-set on the record's revision. Names in keys are quoted: what is not a letter, a digit, `-` or `_` is
`=` and two hex digits for each byte. Bucket `kinbin`: on as many servers as the log, on disk.

What nodes tell (`kinbin.beat.{node}`) is not stored: it goes past JetStream, so that nodes are known to live while the servers have no
quorum. Everything belongs to the connection's event loop, but for `picture`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import zstandard
from nats.errors import Error as NatsError

from kinbin_cluster.bucket import SECONDS, Bucket, Put
from kinbin_cluster.connecting import ended, quoted, unquoted, until_answered
from kinbin_cluster.errors import Aliased, Changed, Exists, LogUnavailable, NotThere
from kinbin_cluster.following import Reading, follow_latest
from kinbin_cluster.picture import Alias, Collection, Gateway, Node, Picture, Record, Replica, Shard, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nats.aio.msg import Msg

    from kinbin_cluster.connecting import Connection
    from kinbin_cluster.following import Message

__all__ = ["Registry"]

_log = logging.getLogger("kinbin.cluster.registry")

R = TypeVar("R", bound=Record)
BUCKET = "kinbin"
_HEARD_SECONDS = 2.5
"""Nodes and gateways tell more often that they live, as it is set by default."""
_PLAIN_BYTES, _MOST_TOLD_BYTES = 64 * 1_024, 64 * 1_048_576
"""Of what a node tells: it is compressed above the first, to 65 bytes a replica; servers take 1 MiB, so some 15,000 replicas."""


class Registry:
    """The registry by one connection. `await start()` before anything else; `picture` is current from then on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.picture = Picture(connection.settings.lost_seconds, connection.clock)
        connection.hears = partial(self.picture.hears_most, max(_HEARD_SECONDS, 3 * connection.settings.beat_seconds))
        self._revisions: dict[str, int] = {}
        self._gone: dict[str, tuple[int, float]] = {}
        """Of records that were deleted: the revision of the deletion, and when it was stored."""
        self._told = asyncio.Event()
        self._moved = asyncio.Condition()
        self._watching: asyncio.Task[None] | None = None
        self._bucket = Bucket(connection, BUCKET)

    # ------------------------------------------------------------------------------------- beginning and end

    async def start(self, *, seconds: float = 30.0) -> None:
        """Make the bucket unless it is there, and wait until all its records are in the picture. Raises LogUnavailable."""
        connection = self._connection
        await self._bucket.open(seconds)
        await connection.client.subscribe("kinbin.beat.*", cb=self._heard)
        await connection.client.subscribe("kinbin.gateway.*", cb=self._heard_gateway)
        self._watching = asyncio.create_task(self._watch(), name="kinbin registry")
        try:
            await asyncio.wait_for(self._told.wait(), seconds)
        except TimeoutError as error:
            await self.stop()
            raise LogUnavailable("NATS did not tell the registry's records in time") from error
        if not self.picture.cluster:
            await self._bucket.create("cluster", orjson.dumps({"id": secrets.token_hex(8)}))
            await self.wait_for(lambda picture: bool(picture.cluster), seconds)

    async def stop(self) -> None:
        """End the watching. The connection stays open."""
        if self._watching is not None:
            await ended(self._watching)
            self._watching = None

    async def servers(self, seconds: float = SECONDS) -> dict[str, bool]:
        """The NATS servers that hold the registry, as all logs may be held: see `Bucket.servers`."""
        return await self._bucket.servers(seconds)

    async def wait_for(self, holds: Callable[[Picture], bool], seconds: float) -> bool:
        """Wait until something holds of the picture; False if it does not in time. `holds` is asked after each change."""

        async def wait() -> None:
            async with self._moved:
                await self._moved.wait_for(lambda: holds(self.picture))

        try:
            await asyncio.wait_for(wait(), seconds)
        except TimeoutError:
            return holds(self.picture)
        return True

    # ------------------------------------------------------------------------------------- what is heard

    async def _watch(self) -> None:
        while True:
            try:
                there: set[str] = set()
                async for message in follow_latest(self._connection, f"KV_{BUCKET}"):
                    if message is Reading.BEGUN:
                        there.clear()
                    elif message is Reading.TOLD:
                        await self._drop_all_but(there)
                        self._told.set()
                    else:
                        there.add(self._take(message))
                    await self._announce()
            except NotThere:
                _log.error("the registry's bucket is gone from NATS")
                await asyncio.sleep(1.0)
            except Exception:  # noqa: BLE001 - it is logged, and read again
                # Who does not watch any more takes the cluster for what it was.
                _log.exception("the registry's records are read again from the beginning")
                await asyncio.sleep(1.0)

    def _take(self, message: Message) -> str:
        """Put a message into the picture; its key."""
        key = message.subject.removeprefix(f"$KV.{BUCKET}.")
        if message.sequence <= self._revisions.get(key, 0):
            return key
        self._revisions[key] = message.sequence
        gone = "KV-Operation" in message.headers
        if gone:
            self._gone[key] = message.sequence, message.time
        else:
            self._gone.pop(key, None)
        self._put_key(key, None if gone else message.data)
        return key

    async def _drop_all_but(self, there: set[str]) -> None:
        """What was deleted so long ago that nothing of it was told any more, now that all was told anew.

        Each is asked for: nodes throw away what the registry does not know.
        """
        for key in self._revisions.keys() - there:
            try:
                await self._bucket.get(key)
            except NotThere:
                self._put_key(key, None)
                del self._revisions[key]
                self._gone.pop(key, None)

    def _put_key(self, key: str, data: bytes | None) -> None:
        try:
            kind, *names = (unquoted(part) for part in key.split("."))
            self._put(kind, names, data)
        except (ValueError, TypeError, IndexError):
            _log.exception("the registry's record %s cannot be read", key)

    def _put(self, kind: str, names: list[str], data: bytes | None) -> None:
        picture = self.picture
        if kind == "cluster" and data is not None:
            picture.cluster = str(orjson.loads(data)["id"])
        elif kind in {"shards", "snapshots"}:
            place = (names[0], int(names[1]))
            if kind == "shards":
                _set(picture.shards, place, None if data is None else Shard.from_json(data))
            else:
                _set(picture.snapshots, place, None if data is None else Snapshots.from_json(data))
        elif kind == "nodes":
            _set(picture.nodes, names[0], None if data is None else Node.from_json(data))
        elif kind == "collections":
            _set(picture.collections, names[0], None if data is None else Collection.from_json(data))
        elif kind == "aliases":
            _set(picture.aliases, names[0], None if data is None else Alias.from_json(data))
        elif kind == "leases":
            _set(picture.leases, names[0], None if data is None else orjson.loads(data))
        elif kind == "jobs":
            _set(picture.jobs, names[0], None if data is None else orjson.loads(data))

    async def _heard(self, message: Msg) -> None:
        try:
            self.picture.hear(message.subject.rpartition(".")[2], _unpacked(message.data))
        except (ValueError, TypeError, AttributeError):
            _log.exception("what %s told cannot be read", message.subject)
        await self._announce()

    async def _heard_gateway(self, message: Msg) -> None:
        with contextlib.suppress(ValueError, TypeError):
            self.picture.hear_gateway(message.data)

    async def _announce(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    # ------------------------------------------------------------------------------------- what is told

    async def beat(self, node: str, shards: Mapping[tuple[str, int], Replica], **more: Any) -> None:
        """Tell that a node lives, how far its shards are, and `more` of itself (version, load). Never fails: the next one is near."""
        told = more | {"shards": {f"{uid}.{number}": asdict(replica) for (uid, number), replica in shards.items()}}
        with contextlib.suppress(NatsError, OSError):
            await self._connection.client.publish(f"kinbin.beat.{node}", _packed(orjson.dumps(told)))

    async def beat_gateway(self, gateway: Gateway) -> None:
        """Tell that a gateway lives."""
        with contextlib.suppress(NatsError, OSError):
            await self._connection.client.publish(f"kinbin.gateway.{quoted(gateway.name)}", gateway.to_json())

    async def join(self, node: Node) -> None:
        """Enter a node, or what changed about it. That it is draining stays as it is."""
        key = f"nodes.{quoted(node.name)}"
        if await self._bucket.create(key, node.to_json()) is None:
            await self.change_node(node.name, lambda held: replace(node, draining=held.draining))

    # ------------------------------------------------------------------------------------- collections and aliases

    async def create_collection(self, collection: Collection, placement: Sequence[Sequence[str]]) -> None:
        """Enter a collection, and for each of its shards who holds it. Its streams are there already.

        Raises Exists when there is one of the same name, with it; Aliased when the name is an alias; LogUnavailable.
        """
        for number, nodes in enumerate(placement):
            shard = Shard(replicas=tuple(nodes), holder=nodes[0], epoch=1, made=time.time())
            await self._bucket.create(_shard_key(collection.uid, number), shard.to_json())
        key, alias = f"collections.{quoted(collection.name)}", f"aliases.{quoted(collection.name)}"
        try:
            revision = await self._entered(key, collection)
            await self._hear_of(key, revision)
            if 0 < self._revisions.get(alias, 0) < revision and collection.name in self.picture.aliases:
                with contextlib.suppress(NotThere, Changed):
                    await self._bucket.delete(key, revision)
                raise Aliased(f"{collection.name} is an alias")
        except (Exists, Aliased):
            for number in range(len(placement)):
                await self._bucket.delete(_shard_key(collection.uid, number))
            raise

    async def _entered(self, key: str, collection: Collection) -> int:
        """The revision of a new collection's record. Raises Exists."""
        while (revision := await self._bucket.create(key, collection.to_json())) is None:
            with contextlib.suppress(NotThere):  # what was in the way was dropped meanwhile
                data, _ = await self._bucket.get(key)
                raise Exists(collection.name, Collection.from_json(data))
        return revision

    async def drop_collection(self, name: str, *, aliased: bool = True) -> Collection:
        """Remove a collection and its aliases. The controller removes its logs and snapshots, nodes what they hold.

        Of several calls one succeeds. aliased: False: not if an alias leads to it, also one that is set at the same time: either that
        finds no collection, or this finds the alias.

        Raises NotThere; Changed: it is another one by now; Aliased; LogUnavailable.
        """
        key = f"collections.{quoted(name)}"
        first: Collection | None = None
        while True:
            data, revision = await self._bucket.get(key)
            collection = Collection.from_json(data)
            if first is not None and collection.uid != first.uid:
                raise Changed(f"{name} is another collection by now")
            first = collection
            # Who sets an alias changes this record after it: up to this revision all of them are known, or the removal fails.
            if not await self._hear_of(key, revision):
                raise LogUnavailable(f"the registry's records did not come in time; {name} was not dropped")
            leading = [alias for alias, record in self.picture.aliases.items() if record.collection == name]
            if leading and not aliased:
                raise Aliased(f"the alias {leading[0]} leads to {name}")
            with contextlib.suppress(Changed):
                await self._bucket.delete(key, revision)
                break
        for alias in leading:
            await self._bucket.delete(f"aliases.{quoted(alias)}")
        for number in range(collection.shards):
            await self._bucket.delete(_shard_key(collection.uid, number))
        await self._seen(key)
        return collection

    async def change_collection(self, name: str, change: Callable[[Collection], Collection]) -> Collection:
        """Change the record of a name, which may lead to another collection then; see `change_shard`. Aliases of the name follow."""
        changed = await self._changed(f"collections.{quoted(name)}", Collection, change)
        await self._seen(f"collections.{quoted(name)}")
        return changed

    async def put_name(self, collection: Collection) -> None:
        """Enter a collection, whose shards are there, under one more name. Nothing happens when the name is taken."""
        key = f"collections.{quoted(collection.name)}"
        await self._bucket.create(key, collection.to_json())
        await self._seen(key)

    async def drop_name(self, name: str) -> None:
        """Remove a name of a collection that has another one; nothing happens when it is not there."""
        await self._bucket.delete(f"collections.{quoted(name)}")

    async def set_alias(self, alias: str, collection: str) -> None:
        """Give a collection another name, or give that name to another one; at once.

        Raises NotThere: there is no such collection, or it was dropped meanwhile; Exists: a collection has that name; LogUnavailable.
        Nothing is changed then.
        """
        key, named = f"aliases.{quoted(alias)}", f"collections.{quoted(alias)}"
        target, data = f"collections.{quoted(collection)}", Alias(collection).to_json()
        await self._bucket.get(target)
        put = await self._bucket.put(key, lambda _: data)
        try:
            # See `drop_collection`: a drop that has not heard of this alias fails from here on.
            await self._bucket.change(target, lambda held: held, touch=True)
            await self._hear_of(key, put.revision)
            if put.before is None and alias in self.picture.collections and self._revisions[named] < put.revision:
                raise Exists(alias, self.picture.collections[alias])
        except (NotThere, Exists):
            await self._undo(key, put)
            raise

    async def _undo(self, key: str, put: Put) -> None:
        """Make a record what it was, unless somebody else changed it since."""
        with contextlib.suppress(NotThere, Changed):
            if put.before is None:
                await self._bucket.delete(key, put.revision)
            else:
                await self._bucket.replace(key, put.before, put.revision)

    async def drop_alias(self, alias: str) -> None:
        """Remove an alias. Raises NotThere; Changed: it leads elsewhere since a moment ago, and is not removed."""
        key = f"aliases.{quoted(alias)}"
        _, revision = await self._bucket.get(key)
        await self._bucket.delete(key, revision)
        await self._seen(key)

    # ------------------------------------------------------------------------------------- changes of records

    async def change_node(self, name: str, change: Callable[[Node], Node]) -> Node:
        """Change the record of a node; see `change_shard`."""
        return await self._changed(f"nodes.{quoted(name)}", Node, change)

    async def remove_node(self, name: str) -> None:
        """Forget a node that is gone for good."""
        await self._bucket.delete(f"nodes.{quoted(name)}")

    async def change_shard(self, uid: str, shard: int, change: Callable[[Shard], Shard]) -> Shard:
        """Change who holds a shard, by compare-and-set; `epoch` is counted up.

        `change` is handed the record as it is, again when another change came between, and possibly its own result: so it has to be
        one that changes nothing the second time. Raises NotThere, LogUnavailable.
        """

        def counted(held: Shard) -> Shard:
            wanted = change(held)
            return held if wanted == held else replace(wanted, epoch=held.epoch + 1)

        return await self._changed(_shard_key(uid, shard), Shard, counted)

    async def remove_shard(self, uid: str, shard: int) -> None:
        """Forget a shard of a collection that is not there."""
        await self._bucket.delete(_shard_key(uid, shard))

    async def add_snapshot(self, uid: str, shard: int, snapshot: Snapshot) -> list[Snapshot]:
        """Enter a snapshot of a shard. Returns those that are superseded: all but the newest two, whose objects may be removed.

        A sound one supersedes all that are doubted.
        """
        dropped: list[Snapshot] = []

        def enter(held: bytes | None) -> bytes:
            every = {one.object: one for one in [*(Snapshots.from_json(held).newest if held else ()), snapshot]}
            ordered = sorted(every.values(), key=lambda one: one.sequence, reverse=True)
            kept = [one for one in ordered if not one.doubted][:2] or ordered[:2]
            dropped[:] = [one for one in ordered if one not in kept]
            return Snapshots(tuple(asdict(one) for one in kept)).to_json()

        await self._bucket.put(f"snapshots.{uid}.{shard}", enter)
        return dropped

    async def doubt_snapshots(self, uid: str, shard: int, nodes: Sequence[str]) -> None:
        """Note that copies of these nodes were found to differ from others: their snapshots serve only where there is no other way."""

        def doubt(held: bytes) -> bytes:
            record = Snapshots.from_json(held)
            return Snapshots(tuple(asdict(replace(one, doubted=one.doubted or one.node in nodes)) for one in record.newest)).to_json()

        with contextlib.suppress(NotThere):
            await self._bucket.change(f"snapshots.{uid}.{shard}", doubt)

    async def remove_snapshots(self, uid: str, shard: int) -> None:
        """Forget the snapshots of a shard."""
        await self._bucket.delete(f"snapshots.{uid}.{shard}")

    async def clear(self, seconds: float) -> None:
        """Remove leases and jobs of collections that are not there, and what deletions have left, once that is so many seconds old.

        Readers that are behind by less hear of deletions all the same, and so do those who begin anew.
        """
        uids = {collection.uid for collection in self.picture.collections.values()} | {uid for uid, _ in self.picture.shards}
        leases = [name for name in self.picture.leases if _uid(name, "settings") not in {*uids, None}]
        jobs = [name for name in self.picture.jobs if {_uid(name, "divergence"), _uid(name, "older")} - {*uids, None}]
        for key in [f"leases.{quoted(name)}" for name in leases] + [f"jobs.{quoted(name)}" for name in jobs]:
            with contextlib.suppress(NotThere):
                await self._bucket.delete(key)
        until = time.time() - seconds
        for key, (revision, stored) in list(self._gone.items()):
            if stored < until:
                await self._bucket.forget(key, revision)
                if self._gone.get(key) == (revision, stored):
                    del self._gone[key]

    async def put_job(self, name: str, job: dict[str, Any]) -> None:
        """Write how far a job of `kinbin cluster` is."""
        await self._bucket.put(f"jobs.{quoted(name)}", lambda _: orjson.dumps(job))

    async def change_lease(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Change a lease by compare-and-set: `change` is handed {} when there is none, and returns what it was handed to leave it."""
        key = f"leases.{quoted(name)}"
        first = change({})
        if first and await self._bucket.create(key, orjson.dumps(first)) is not None:
            return first
        return orjson.loads(await self._bucket.change(key, lambda data: orjson.dumps(change(orjson.loads(data)))))  # type: ignore[no-any-return]

    async def _changed(self, key: str, kind: type[R], change: Callable[[R], R]) -> R:
        return kind.from_json(await self._bucket.change(key, lambda data: change(kind.from_json(data)).to_json()))

    async def _seen(self, key: str) -> None:
        """Wait until this process's own picture has what was just written, so that it reads its own writes."""
        with contextlib.suppress(LogUnavailable):
            await self._hear_of(key, await until_answered(lambda: self._bucket.revision(key), 2.0), 2.0)

    async def _hear_of(self, key: str, revision: int, seconds: float = SECONDS) -> bool:
        """Wait until the picture has a record of this revision, and so all that was written before it, to any record."""
        return await self.wait_for(lambda _: self._revisions.get(key, 0) >= revision, seconds)


def _set(records: dict[Any, Any], key: Any, record: Any) -> None:
    """Put a record into a part of the picture, or take it out."""
    if record is None:
        records.pop(key, None)
    else:
        records[key] = record


def _packed(told: bytes) -> bytes:
    """What a node tells; compressed where it has so many shards that NATS might not take it."""
    return told if len(told) <= _PLAIN_BYTES else zstandard.ZstdCompressor(write_content_size=True).compress(told)


def _unpacked(told: bytes) -> bytes:
    """The same again. Raises ValueError."""
    if told[:4] != zstandard.FRAME_HEADER:
        return told
    size = zstandard.frame_content_size(told)
    if not 0 <= size <= _MOST_TOLD_BYTES:
        raise ValueError(f"a node tells {size} bytes")
    try:
        return zstandard.ZstdDecompressor().decompress(told, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _uid(name: str, kind: str) -> str | None:
    """The collection that a lease or a job of a kind is about; None: it is of another kind."""
    first, _, rest = name.partition(".")
    return rest.partition(".")[0] if first == kind else None


def _shard_key(uid: str, shard: int) -> str:
    return f"shards.{uid}.{shard}"
