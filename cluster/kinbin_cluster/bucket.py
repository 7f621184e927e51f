"""Records in a key-value bucket of NATS, each changed by compare-and-set on its revision. One event loop.

An answer of NATS may be lost, and what it was about done all the same. Who asks again is told the same: a record that is there with the
same bytes was created or changed so, and a deletion is known by an id of its own. So a conflict is always somebody else's doing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig, StorageType
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError

from kinbin_cluster.connecting import code_of, may_pass, until_answered
from kinbin_cluster.errors import Changed, LogRefused, LogUnavailable, NotThere

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.js.api import RawStreamMsg
    from nats.js.kv import KeyValue

    from kinbin_cluster.connecting import Connection

__all__ = ["SECONDS", "Bucket", "Put"]

SECONDS = 10.0
"""How long a change is tried."""
_WRONG_REVISION = frozenset({10_071, 10_164})
"""Codes of NATS: the record has another revision than was expected."""
_BUCKET_IS_THERE = 10_058
_ID = "Nats-Msg-Id"


class Put(NamedTuple):
    """A record that was written."""

    before: bytes | None
    """What it was; None: it was not there."""
    revision: int


class Bucket:
    """A bucket, by one connection. `await open()` before anything else. Everything raises LogUnavailable, and LogRefused."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._name = name
        self._bucket: KeyValue | None = None

    async def open(self, seconds: float) -> None:
        """Make it unless it is there."""
        replicas = self._connection.settings.nats_replicas
        config = KeyValueConfig(bucket=self._name, storage=StorageType.FILE, replicas=replicas, history=1)

        async def opened() -> KeyValue:
            try:
                return await self._connection.js.create_key_value(config)
            except APIError as error:
                if code_of(error) != _BUCKET_IS_THERE:
                    raise
                return await self._connection.js.key_value(self._name)

        self._bucket = await until_answered(opened, seconds)

    async def servers(self, seconds: float) -> dict[str, bool]:
        """The NATS servers that hold the bucket, by name: whether each lives and has all of it. Empty where one server is alone."""
        info = await until_answered(partial(self._connection.js.stream_info, f"KV_{self._name}"), seconds)
        if info.cluster is None or not info.cluster.leader:
            return {}
        others = {str(peer.name): bool(peer.current) and not peer.offline for peer in info.cluster.replicas or ()}
        return {info.cluster.leader: True, **others}

    async def get(self, key: str, seconds: float = SECONDS) -> tuple[bytes, int]:
        """A record and its revision. Raises NotThere."""

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

    async def create(self, key: str, data: bytes) -> int | None:
        """Write a record that is not there; its revision. None when there is another one."""

        async def create() -> int | None:
            try:
                return await self._held.create(key, data)
            except KeyWrongLastSequenceError:
                try:
                    held, revision = await self.get(key)
                except NotThere:
                    raise TimeoutError(f"{key} was removed meanwhile") from None
                return revision if held == data else None  # this very call, whose answer was lost

        return await until_answered(create, SECONDS)

    async def change(self, key: str, change: Callable[[bytes], bytes], *, touch: bool = False) -> bytes:
        """The bytes of a record after a change. Nothing is written that changes nothing; with `touch` it is, so that the revision is new.

        Raises NotThere.
        """
        deadline = time.monotonic() + SECONDS
        while True:
            held, revision = await self.get(key, max(0.1, deadline - time.monotonic()))
            wanted = change(held)
            if wanted == held and not touch:
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

    async def put(self, key: str, change: Callable[[bytes | None], bytes]) -> Put:
        """Write a record, whether it is there or not. change: handed what is there, or None; again when another change came between."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                before, last = await self.get(key)
            except NotThere:
                wanted = change(None)
                if (made := await self.create(key, wanted)) is not None:
                    return Put(None, made)
            else:
                wanted = change(before)
                if wanted == before:
                    return Put(before, last)
                if (made := await self.replace(key, wanted, last)) is not None:
                    return Put(before, made)
            if time.monotonic() > deadline:
                raise LogUnavailable(f"the registry's {key} could not be changed in time")
            await asyncio.sleep(0.02)

    async def replace(self, key: str, data: bytes, last: int) -> int | None:
        """Write a record of this revision; its new one. None when it has another one by now."""

        async def replace() -> int | None:
            try:
                return await self._held.update(key, data, last=last)
            except KeyWrongLastSequenceError:
                try:
                    held, revision = await self.get(key)
                except NotThere:
                    return None
                return revision if held == data else None  # this very call, whose answer was lost

        return await until_answered(replace, SECONDS)

    async def delete(self, key: str, last: int | None = None) -> None:
        """Remove a record; with `last` only if it has this revision. Raises NotThere, Changed: somebody else removed it, or changed it."""
        mine = f"{key} {secrets.token_hex(8)}"
        headers = {"KV-Operation": "DEL", _ID: mine}
        if last is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(last)

        async def delete() -> bool:
            try:
                await self._connection.js.publish(f"$KV.{self._name}.{key}", headers=headers)
            except APIError as error:
                if code_of(error) not in _WRONG_REVISION:
                    raise
                newest = await self._newest(key)
                return (newest.headers or {}).get(_ID) == mine  # this very call, whose answer was lost
            return True

        if not await until_answered(delete, SECONDS):
            await self.get(key)
            raise Changed(f"{key} changed meanwhile")

    async def forget(self, key: str, revision: int) -> None:
        """Remove what a deletion of this revision has left of a record. Who reads all records anew does not hear of it any more."""

        async def purge() -> None:
            await self._connection.js.purge_stream(f"KV_{self._name}", seq=revision + 1, subject=f"$KV.{self._name}.{key}")

        await until_answered(purge, SECONDS)

    async def revision(self, key: str) -> int:
        """Of the last message about a record, be it there or not."""
        return (await self._newest(key)).seq or 0

    async def _newest(self, key: str) -> RawStreamMsg:
        return await self._connection.js.get_last_msg(f"KV_{self._name}", f"$KV.{self._name}.{key}")

    @property
    def _held(self) -> KeyValue:
        assert self._bucket is not None, "the bucket is not open"
        return self._bucket
