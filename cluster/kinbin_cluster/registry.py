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
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError

from kinbin_cluster.connecting import ended, may_pass, quoted, unquoted, until_answered
from kinbin_cluster.errors import Changed, Exists, LogRefused, LogUnavailable, NotThere
from kinbin_cluster.following import follow_latest
from kinbin_cluster.picture import Alias, Collection, Gateway, Node, Picture, Record, Replica, Shard, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nats.aio.msg import Msg
    from nats.js.kv import KeyValue

    from kinbin_cluster.connecting import Connection
    from kinbin_cluster.following import Message

__all__ = ["Registry"]

_log = logging.getLogger("kinbin.cluster.registry")

R = TypeVar("R", bound=Record)
BUCKET = "kinbin"
SECONDS = 10.0
"""How long a change is tried."""


class Registry:
    """The registry by one connection. `await start()` before anything else; `picture` is current from then on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.picture = Picture(connection.settings.lost_seconds, connection.clock)
        self._revisions: dict[str, int] = {}
        self._told = asyncio.Event()
        self._moved = asyncio.Condition()
        self._watching: asyncio.Task[None] | None = None
        self._bucket: KeyValue | None = None

    # ------------------------------------------------------------------------------------- beginning and end

    async def start(self, *, seconds: float = 30.0) -> None:
        """Make the bucket unless it is there, and wait until all its records are in the picture. Raises LogUnavailable."""
        connection = self._connection
        config = KeyValueConfig(bucket=BUCKET, storage=StorageType.FILE, replicas=connection.settings.nats_replicas, history=1)
        self._bucket = await until_answered(lambda: _bucket(connection, config), seconds)
        await connection.client.subscribe("kinbin.beat.*", cb=self._heard)
        await connection.client.subscribe("kinbin.gateway.*", cb=self._heard_gateway)
        self._watching = asyncio.create_task(self._watch(), name="kinbin registry")
        try:
            await asyncio.wait_for(self._told.wait(), seconds)
        except TimeoutError as error:
            await self.stop()
            raise LogUnavailable("NATS did not tell the registry's records in time") from error
        if not self.picture.cluster:
            await self._create("cluster", orjson.dumps({"id": secrets.token_hex(8)}))
            await self.wait_for(lambda picture: bool(picture.cluster), seconds)

    async def stop(self) -> None:
        """End the watching. The connection stays open."""
        if self._watching is not None:
            await ended(self._watching)
            self._watching = None

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
                async for message in follow_latest(self._connection, f"KV_{BUCKET}"):
                    if message is None:
                        self._told.set()
                    else:
                        self._take(message)
                    await self._announce()
            except NotThere:
                _log.error("the registry's bucket is gone from NATS")
                await asyncio.sleep(1.0)

    def _take(self, message: Message) -> None:
        key = message.subject.removeprefix(f"$KV.{BUCKET}.")
        if message.sequence <= self._revisions.get(key, 0):
            return
        self._revisions[key] = message.sequence
        gone = "KV-Operation" in message.headers
        kind, *names = (unquoted(part) for part in key.split("."))
        try:
            self._put(kind, names, None if gone else message.data)
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
            self.picture.hear(message.subject.rpartition(".")[2], message.data)
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
            await self._connection.client.publish(f"kinbin.beat.{node}", orjson.dumps(told))

    async def beat_gateway(self, gateway: Gateway) -> None:
        """Tell that a gateway lives."""
        with contextlib.suppress(NatsError, OSError):
            await self._connection.client.publish(f"kinbin.gateway.{quoted(gateway.name)}", gateway.to_json())

    async def join(self, node: Node) -> None:
        """Enter a node, or what changed about it. That it is draining stays as it is."""
        key = f"nodes.{quoted(node.name)}"
        if not await self._create(key, node.to_json()):
            await self.change_node(node.name, lambda held: replace(node, draining=held.draining))

    # ------------------------------------------------------------------------------------- collections and aliases

    async def create_collection(self, collection: Collection, placement: Sequence[Sequence[str]]) -> None:
        """Enter a collection, and for each of its shards who holds it. Its streams are there already.

        Raises Exists when there is one of the same name, with it; LogUnavailable.
        """
        for number, nodes in enumerate(placement):
            shard = Shard(replicas=tuple(nodes), holder=nodes[0], epoch=1, made=time.time())
            await self._create(_shard_key(collection.uid, number), shard.to_json())
        key = f"collections.{quoted(collection.name)}"
        if await self._create(key, collection.to_json()):
            await self._seen(key)
            return
        for number in range(len(placement)):
            await self._delete(_shard_key(collection.uid, number))
        data, _ = await self._get(key)
        raise Exists(collection.name, Collection.from_json(data))

    async def drop_collection(self, name: str) -> Collection:
        """Remove a collection and its aliases. The controller removes its logs and snapshots, nodes what they hold. Raises NotThere."""
        key = f"collections.{quoted(name)}"
        data, revision = await self._get(key)
        collection = Collection.from_json(data)
        await self._delete(key, revision)
        for alias in [alias for alias, record in self.picture.aliases.items() if record.collection == name]:
            await self._delete(f"aliases.{quoted(alias)}")
        for number in range(collection.shards):
            await self._delete(_shard_key(collection.uid, number))
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
        await self._create(key, collection.to_json())
        await self._seen(key)

    async def drop_name(self, name: str) -> None:
        """Remove a name of a collection that has another one; nothing happens when it is not there."""
        await self._delete(f"collections.{quoted(name)}")

    async def set_alias(self, alias: str, collection: str) -> None:
        """Give a collection another name, or give that name to another one; at once. Raises LogUnavailable."""
        key, data = f"aliases.{quoted(alias)}", Alias(collection).to_json()
        if not await self._create(key, data):
            await self._change(key, lambda _: data)
        await self._seen(key)

    async def drop_alias(self, alias: str) -> None:
        """Remove an alias. Raises NotThere."""
        key = f"aliases.{quoted(alias)}"
        _, revision = await self._get(key)
        await self._delete(key, revision)
        await self._seen(key)

    # ------------------------------------------------------------------------------------- changes of records

    async def change_node(self, name: str, change: Callable[[Node], Node]) -> Node:
        """Change the record of a node; see `change_shard`."""
        return await self._changed(f"nodes.{quoted(name)}", Node, change)

    async def remove_node(self, name: str) -> None:
        """Forget a node that is gone for good."""
        await self._delete(f"nodes.{quoted(name)}")

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
        await self._delete(_shard_key(uid, shard))

    async def add_snapshot(self, uid: str, shard: int, snapshot: Snapshot) -> list[Snapshot]:
        """Enter a snapshot of a shard. Returns those that are superseded: all but the newest two, whose objects may be removed."""
        key = f"snapshots.{uid}.{shard}"
        if await self._create(key, Snapshots((asdict(snapshot),)).to_json()):
            return []
        dropped: list[Snapshot] = []

        def enter(held: Snapshots) -> Snapshots:
            every = {one.object: one for one in [*held.newest, snapshot]}
            ordered = sorted(every.values(), key=lambda one: one.sequence, reverse=True)
            dropped[:] = ordered[2:]
            return Snapshots(tuple(asdict(one) for one in ordered[:2]))

        await self._changed(key, Snapshots, enter)
        return dropped

    async def remove_snapshots(self, uid: str, shard: int) -> None:
        """Forget the snapshots of a shard."""
        await self._delete(f"snapshots.{uid}.{shard}")

    async def put_job(self, name: str, job: dict[str, Any]) -> None:
        """Write how far a job of `kinbin cluster` is."""
        key, data = f"jobs.{quoted(name)}", orjson.dumps(job)
        if not await self._create(key, data):
            await self._change(key, lambda _: data)

    async def change_lease(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Change a lease by compare-and-set: `change` is handed {} when there is none, and returns what it was handed to leave it."""
        key = f"leases.{quoted(name)}"
        first = change({})
        if first and await self._create(key, orjson.dumps(first)):
            return first
        return orjson.loads(await self._change(key, lambda data: orjson.dumps(change(orjson.loads(data)))))  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------- the bucket

    async def _changed(self, key: str, kind: type[R], change: Callable[[R], R]) -> R:
        return kind.from_json(await self._change(key, lambda data: change(kind.from_json(data)).to_json()))

    async def _change(self, key: str, change: Callable[[bytes], bytes]) -> bytes:
        """The bytes of a record after a change. Nothing is written that changes nothing."""
        deadline = time.monotonic() + SECONDS
        while True:
            held, revision = await self._get(key, max(0.1, deadline - time.monotonic()))
            wanted = change(held)
            if wanted == held:
                return held
            try:
                await self._held.update(key, wanted, last=revision)
            except KeyWrongLastSequenceError as error:
                last: Exception = error
            except APIError as error:
                if not may_pass(error):
                    raise LogRefused(f"NATS refused a change of {key}: {error.description}") from error
                last = error
            except (TimeoutError, OSError, NatsError) as error:
                last = error
            else:
                return wanted
            if time.monotonic() > deadline:
                raise LogUnavailable(f"the registry's {key} could not be changed in time: {str(last) or type(last).__name__}") from last
            await asyncio.sleep(0.02)

    async def _create(self, key: str, data: bytes) -> bool:
        """Write a record that is not there. False when there is another one."""

        async def create() -> bool:
            try:
                await self._held.create(key, data)
            except KeyWrongLastSequenceError:
                try:
                    return (await self._get(key))[0] == data  # this very call, whose answer was lost
                except NotThere:
                    raise TimeoutError(f"{key} was removed meanwhile") from None
            return True

        return await until_answered(create, SECONDS)

    async def _delete(self, key: str, last: int | None = None) -> None:
        async def delete() -> None:
            try:
                await self._held.delete(key, last=last)
            except APIError as error:
                if error.err_code in {10_071, 10_164}:
                    if not await self._there(key):
                        return
                    raise Changed(f"{key} changed meanwhile") from error
                raise

        await until_answered(delete, SECONDS)

    async def _there(self, key: str) -> bool:
        try:
            await self._get(key)
        except NotThere:
            return False
        return True

    async def _get(self, key: str, seconds: float = SECONDS) -> tuple[bytes, int]:
        async def get() -> tuple[bytes, int] | None:
            try:
                entry = await self._held.get(key)
            except KeyNotFoundError:
                return None
            return entry.value or b"", entry.revision or 0

        found = await until_answered(get, seconds)
        if found is None:
            raise NotThere(f"the registry has no {key}")
        return found

    async def _seen(self, key: str) -> None:
        """Wait until this process's own picture has what was just written, so that it reads its own writes."""
        with contextlib.suppress(LogUnavailable):
            revision = await until_answered(lambda: self._revision(key), 2.0)
            await self.wait_for(lambda _: self._revisions.get(key, 0) >= revision, 2.0)

    async def _revision(self, key: str) -> int:
        message = await self._connection.js.get_last_msg(f"KV_{BUCKET}", f"$KV.{BUCKET}.{key}")
        return message.seq or 0

    @property
    def _held(self) -> KeyValue:
        assert self._bucket is not None, "the registry is not started"
        return self._bucket


async def _bucket(connection: Connection, config: KeyValueConfig) -> KeyValue:
    try:
        return await connection.js.create_key_value(config)
    except APIError as error:
        if error.err_code != 10_058:
            raise
        return await connection.js.key_value(config.bucket)


def _set(records: dict[Any, Any], key: Any, record: Any) -> None:
    """Put a record into a part of the picture, or take it out."""
    if record is None:
        records.pop(key, None)
    else:
        records[key] = record


def _shard_key(uid: str, shard: int) -> str:
    return f"shards.{uid}.{shard}"
