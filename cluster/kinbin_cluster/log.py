"""The log: one stream of NATS JetStream for each shard. What it acknowledged lies on the disks of a quorum of its servers.

Stream `KB-{uid}-{shard}`, subject `kb.{uid}.{shard}`. Sequences of a shard begin at 1 and have no gaps. Everything belongs to the event
loop of the connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError, NoRespondersError
from nats.js.api import DiscardPolicy, StorageType, StoreCompression, StreamConfig
from nats.js.errors import APIError, NoStreamResponseError

from kinbin_cluster.connecting import code_of, may_pass, until_answered
from kinbin_cluster.errors import LogClosed, LogRefused, LogUnavailable, NotThere
from kinbin_cluster.following import follow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kinbin_cluster.connecting import Connection

__all__ = ["MAX_MESSAGE", "MAX_PARTS", "Entry", "Log", "Published", "State"]

MAX_MESSAGE = 1_048_576 - 4_096
"""Bytes of a message: what NATS takes by default, less what headers need."""

MAX_PARTS = 1_000
"""Messages of one atomic edit: the most that NATS takes as a batch."""

DUPLICATE_SECONDS = 120.0
"""So long the servers remember message ids."""

ANSWER_SECONDS = 2.0
"""An acknowledgement that takes longer is asked for again, with the same message id."""

_CLOSED = ".closed"
"""End of the subject of a log that takes no edits."""

CONTAINS_DUPLICATE, WRONG_LAST_ID, NAME_IN_USE = 10_201, 10_070, 10_058
"""Codes of the server."""


@dataclass(frozen=True, slots=True)
class Published:
    """Where an edit lies: the sequence of its last message. `duplicate`: it lay there before."""

    sequence: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """An edit of the log: what one call of `publish` was given.

    `first` and `sequence` are those of its first and its last message; the next entry begins right behind. `time` is the servers' clock
    when it was stored, in seconds.
    """

    first: int
    sequence: int
    time: float
    parts: list[bytes]


@dataclass(frozen=True, slots=True)
class State:
    """What a shard's log holds: its first and last sequence, and bytes."""

    first: int
    last: int
    bytes: int


class Log:
    """The streams of all shards, by one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._js = connection.js

    async def ensure_stream(self, uid: str, shard: int, *, seconds: float = 15.0) -> None:
        """Make the stream of a shard, unless it is there. Raises LogUnavailable."""
        settings = self._connection.settings
        config = StreamConfig(
            name=_stream(uid, shard),
            subjects=[_subject(uid, shard)],
            storage=StorageType.FILE,
            compression=StoreCompression.NONE,
            num_replicas=settings.nats_replicas,
            duplicate_window=DUPLICATE_SECONDS,
            discard=DiscardPolicy.NEW,
            max_bytes=settings.max_log_bytes,
            deny_delete=True,
            allow_atomic=True,
            allow_direct=True,
        )

        async def make() -> None:
            try:
                await self._js.add_stream(replace(config))
            except APIError as error:
                if code_of(error) != NAME_IN_USE:
                    raise

        await until_answered(make, seconds)

    async def take(self, uid: str, shard: int, *, edits: bool, seconds: float = 15.0) -> None:
        """Let a shard's log take edits, or none: from then on a publish raises LogUnavailable, whoever does it. Others go on reading.

        The stream's subject is another one meanwhile. What a server had taken before may still be stored: see `end`. It is asked for even
        where it is so already: a request before, whose answer was lost, may not be done yet, and this one comes behind it.
        Raises LogUnavailable, NotThere.
        """
        subject = _subject(uid, shard) + ("" if edits else _CLOSED)

        async def change() -> None:
            config = (await self._js.stream_info(_stream(uid, shard))).config
            await self._js.update_stream(replace(config, subjects=[subject]))

        await until_answered(change, seconds)

    async def end(self, uid: str, shard: int, payload: bytes, message_id: str, *, seconds: float = 15.0) -> int:
        """Append to a log that takes no edits (`take`), behind all that were on their way to it; the sequence.

        The change of the subject goes another way than edits do: one that a server had taken before may be stored after it. This cannot
        be stored before any of them, as it goes theirs. Raises LogUnavailable, NotThere.
        """
        subject, headers = _subject(uid, shard) + _CLOSED, {"Nats-Msg-Id": message_id}

        async def publish() -> int:
            return (await self._js.publish(subject, payload, stream=_stream(uid, shard), headers=headers)).seq

        return await until_answered(publish, seconds)

    async def publish(
        self, uid: str, shard: int, payload: bytes | Sequence[bytes], message_id: str, deadline: float,
        closed: Callable[[], bool] = lambda: False,
    ) -> Published:  # fmt: skip
        """Append an edit, and wait until a quorum of the servers has it on disk. Several parts lie in the log together, or not at all.

        message_id: a second publish with the same id, within two minutes, appends nothing and tells where the first one lies.
        deadline: by `time.monotonic`. Until then it is sent again with the same id.
        closed: whether the log takes no edits on purpose; asked where no server takes them, as when the stream's leader is not elected yet.
        Raises LogUnavailable (the outcome is unknown), LogRefused (nothing was appended), LogClosed (so, and `closed` says why).
        """
        parts = _parts(payload)
        sent, began = False, time.monotonic()
        last: Exception | None = None
        while (left := deadline - time.monotonic()) > 0:
            answer = min(left, ANSWER_SECONDS + len(parts) / 50)
            try:
                if len(parts) == 1:
                    done = await self._one(uid, shard, parts[0], message_id, answer)
                else:
                    done = await self._several(uid, shard, parts, message_id, answer)
            except APIError as error:
                last = error
                if not may_pass(error):
                    if sent:
                        break
                    raise LogRefused(f"NATS refused an edit: {error.description}") from error
            except MaxPayloadError as error:
                raise LogRefused(f"the NATS servers take no message of {max(map(len, parts))} bytes: raise max_payload") from error
            except (NoRespondersError, NoStreamResponseError) as error:
                # It was given to nobody.
                last = error
                if closed() and not sent:
                    raise LogClosed("the log takes no edits any more") from error
                if closed():
                    break
                await self._connection.suspect(began)
            except (TimeoutError, OSError, NatsError) as error:
                last, sent = error, True
                await self._connection.suspect(began)
            else:
                self._connection.acknowledged()
                return done
            await asyncio.sleep(min(0.05, max(0.0, deadline - time.monotonic())))
        raise LogUnavailable(f"NATS did not acknowledge an edit in time: {last or 'no time was left'}") from last

    async def _one(self, uid: str, shard: int, part: bytes, message_id: str, seconds: float) -> Published:
        answer = await self._js.publish(
            _subject(uid, shard), part, timeout=seconds, stream=_stream(uid, shard), headers={"Nats-Msg-Id": message_id}
        )
        return Published(answer.seq, bool(answer.duplicate))

    async def _several(self, uid: str, shard: int, parts: list[bytes], message_id: str, seconds: float) -> Published:
        """An atomic batch. Its last message carries the id, so that a batch that is there is known by it."""
        subject, client = _subject(uid, shard), self._connection.client
        batch = secrets.token_hex(12)
        for number, part in enumerate(parts, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            if 1 < number < len(parts):
                await client.publish(subject, part, headers=headers)
                continue
            if number == len(parts):
                headers |= {"Nats-Batch-Commit": "1", "Nats-Msg-Id": message_id, "Nats-Expected-Stream": _stream(uid, shard)}
            answered = await client.request(subject, part, timeout=seconds, headers=headers)
            if not answered.data:
                continue
            answer = orjson.loads(answered.data)
            if "error" not in answer:
                return Published(int(answer["seq"]), duplicate=False)
            if answer["error"].get("err_code") == CONTAINS_DUPLICATE:
                return await self._found(uid, shard, message_id, seconds)
            raise APIError.from_error(answer["error"])
        raise TimeoutError("the end of a batch was not acknowledged")

    async def _found(self, uid: str, shard: int, message_id: str, seconds: float) -> Published:
        """Where the message of an id lies. A message of the same id tells, and its other condition keeps it from being stored itself."""
        headers = {"Nats-Msg-Id": message_id, "Nats-Expected-Last-Msg-Id": f"never {secrets.token_hex(6)}"}
        try:
            answer = await self._js.publish(_subject(uid, shard), b"", timeout=seconds, stream=_stream(uid, shard), headers=headers)
        except APIError as error:
            if code_of(error) == WRONG_LAST_ID:
                raise TimeoutError("the id was forgotten meanwhile") from error
            raise
        return Published(answer.seq, duplicate=True)

    async def read(
        self, uid: str, shard: int, after: int, stored: float | None = None, goes_on: Callable[[], object] = bool
    ) -> AsyncIterator[Entry]:
        """The entries behind a sequence (one that an entry ended with, or 0), in order, each once; then waits for what comes.

        stored: the `time` of the entry that ended there, which has to be the same; None: not known. goes_on: called each time that the log
        was seen to go on from there. Goes on after failures of servers and of the connection.
        Raises LogTruncated, LogBehind, and NotThere when the stream is gone.
        """
        parts: list[bytes] = []
        first, batch = after + 1, ""
        async for message in follow(self._connection, _stream(uid, shard), after, stored, goes_on):
            of = message.headers.get("Nats-Batch-Id", "")
            if not parts or of != batch:
                parts, first, batch = [], message.sequence, of
            parts.append(message.data)
            if not of or "Nats-Batch-Commit" in message.headers:
                yield Entry(first, message.sequence, message.time, parts)
                parts = []

    async def state(self, uid: str, shard: int, *, seconds: float = 5.0) -> State:
        """What a shard's log holds, as its leader knows it. Raises LogUnavailable, NotThere."""

        async def ask() -> State:
            held = (await self._js.stream_info(_stream(uid, shard))).state
            return State(held.first_seq, held.last_seq, held.bytes)

        return await until_answered(ask, seconds)

    async def last(self, uid: str, shard: int, *, seconds: float = 5.0) -> int:
        """The last sequence of a shard's log; 0 when nothing was written. Raises LogUnavailable, NotThere."""
        return (await self.state(uid, shard, seconds=seconds)).last

    async def truncate(self, uid: str, shard: int, before: int, *, seconds: float = 15.0) -> None:
        """Forget what lies before a sequence. Raises LogUnavailable, NotThere."""

        async def purge() -> None:
            await self._js.purge_stream(_stream(uid, shard), seq=before)

        await until_answered(purge, seconds)

    async def delete_stream(self, uid: str, shard: int, *, seconds: float = 15.0) -> None:
        """Remove a shard's log; nothing happens when it is not there. Raises LogUnavailable."""

        async def delete() -> None:
            await self._js.delete_stream(_stream(uid, shard))

        try:
            await until_answered(delete, seconds)
        except NotThere:
            return

    async def streams(self, *, seconds: float = 5.0) -> list[tuple[str, int]]:
        """The shards (uid and number) that have a log. Raises LogUnavailable."""

        async def ask() -> list[tuple[str, int]]:
            found, offset = [], 0
            while page := await self._js.streams_info(offset=offset):
                found += [info.config.name or "" for info in page]
                offset += len(page)
            cut = [name.split("-") for name in found if name.startswith("KB-") and name.count("-") == 2]
            return [(uid, int(shard)) for _, uid, shard in cut]

        return await until_answered(ask, seconds)


def _parts(payload: bytes | Sequence[bytes]) -> list[bytes]:
    """The messages of an edit. Raises LogRefused where NATS does not take them."""
    parts = [payload] if isinstance(payload, bytes) else list(payload)
    if not 1 <= len(parts) <= MAX_PARTS or max(map(len, parts)) > MAX_MESSAGE:
        raise LogRefused(f"an edit has 1 to {MAX_PARTS} parts of at most {MAX_MESSAGE} bytes")
    return parts


def _stream(uid: str, shard: int) -> str:
    return f"KB-{uid}-{shard}"


def _subject(uid: str, shard: int) -> str:
    return f"kb.{uid}.{shard}"
