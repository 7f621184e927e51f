"""The snapshot store: files in NATS, each a stream of its own, on as many servers as the log.

The messages of a file are its bytes in order, and one more, empty, with its SHA-256 in the header `Kinbin-End`: a file whose writer ended
too early has none, and counts as not there. Stream `KO-{name}`, subject `ko.{name}`, the name quoted as in the registry.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from nats.errors import Error as NatsError
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError

from kinbin_cluster.connecting import may_pass, quoted, unquoted, until_answered
from kinbin_cluster.errors import ClusterError, Damaged, LogRefused, LogUnavailable, NotThere
from kinbin_cluster.following import follow

if TYPE_CHECKING:
    from pathlib import Path

    from kinbin_cluster.connecting import Connection

__all__ = ["Objects"]

CHUNK = 512 * 1_024
"""Bytes of a message."""

PREFIX = "KO-"
SECONDS = 30.0
"""How long one message, or the end of a file, is tried for."""


class Objects:
    """Files by name: letters, digits, `-`, `_` and `.`. Everything belongs to the connection's event loop; files are read in threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._js = connection.js

    async def put(self, name: str, path: Path) -> int:
        """Store a file, in place of what had its name. Returns its bytes. Raises LogUnavailable, LogRefused; OSError.

        Until it returns the file is not there for others. Cost: each byte to a quorum's disks.
        """
        await self.delete(name)
        try:
            return await self._put(name, path)
        except Exception:
            # What there is of it is nobody's, and takes the room of the logs.
            with suppress(ClusterError):
                await self.delete(name)
            raise

    async def _put(self, name: str, path: Path) -> int:
        config = StreamConfig(
            name=_stream(name), subjects=[_subject(name)], storage=StorageType.FILE, num_replicas=self._connection.settings.nats_replicas,
            duplicate_window=120.0, discard=DiscardPolicy.NEW, deny_delete=True,
        )  # fmt: skip
        await until_answered(lambda: self._js.add_stream(config), SECONDS)
        tried, size, digest = secrets.token_hex(8), 0, hashlib.sha256()
        with await asyncio.to_thread(path.open, "rb") as file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                digest.update(chunk)
                await self._send(name, chunk, {"Nats-Msg-Id": f"{tried}.{size}"})
                size += len(chunk)
        await self._send(name, b"", {"Nats-Msg-Id": f"{tried}.end", "Kinbin-End": digest.hexdigest()})
        return size

    async def get(self, name: str, path: Path) -> int:
        """Write a stored file to a path. Returns its bytes. Raises NotThere, Damaged (its bytes are not what was stored); OSError."""
        if not await self._complete(name):
            raise NotThere(f"there is no whole file {name}")
        size, digest = 0, hashlib.sha256()
        with await asyncio.to_thread(path.open, "wb") as file:
            async for message in follow(self._connection, _stream(name), 0):
                if (wanted := message.headers.get("Kinbin-End")) is not None:
                    if wanted != digest.hexdigest():
                        raise Damaged(f"the file {name} is not what was stored")
                    return size
                digest.update(message.data)
                size += await asyncio.to_thread(file.write, message.data)
        raise NotThere(f"the file {name} ends too early")

    async def names(self, prefix: str = "") -> list[str]:
        """The names of the files that begin so, also of those whose writer has not ended, in order. Raises LogUnavailable."""

        async def ask() -> list[str]:
            found: list[str] = []
            offset = 0
            while page := await self._js.streams_info(offset=offset):
                found += [info.config.name or "" for info in page]
                offset += len(page)
            return found

        streams = await until_answered(ask, SECONDS)
        stored = [unquoted(stream.removeprefix(PREFIX)) for stream in streams if stream.startswith(PREFIX)]
        return sorted(name for name in stored if name.startswith(prefix))

    async def delete(self, name: str) -> None:
        """Remove a file; nothing happens when it is not there. Raises LogUnavailable."""

        async def remove() -> None:
            await self._js.delete_stream(_stream(name))

        try:
            await until_answered(remove, SECONDS)
        except NotThere:
            return

    async def _complete(self, name: str) -> bool:
        async def last() -> bool:
            state = (await self._js.stream_info(_stream(name))).state
            if state.last_seq == 0:
                return False
            message = await self._js.get_msg(_stream(name), seq=state.last_seq)
            return "Kinbin-End" in (message.headers or {})

        return await until_answered(last, SECONDS)

    async def _send(self, name: str, data: bytes, headers: dict[str, str]) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                await self._js.publish(_subject(name), data, timeout=5.0, stream=_stream(name), headers=headers)
            except APIError as error:
                if not may_pass(error):
                    raise LogRefused(f"NATS refused a part of {name}: {error.description}") from error
                last: Exception = error
            except (TimeoutError, OSError, NatsError) as error:
                last = error
            else:
                return
            if time.monotonic() > deadline:
                raise LogUnavailable(f"NATS did not take a part of {name} in time: {str(last) or type(last).__name__}") from last
            await asyncio.sleep(0.1)


def _stream(name: str) -> str:
    return PREFIX + quoted(name)


def _subject(name: str) -> str:
    return f"ko.{quoted(name)}"
