"""Reading a stream of NATS from a place on, for ever, whatever happens to its servers.

A pull consumer without acknowledgements lives in the memory of one server. When that server dies, or nothing is heard of it for three
heartbeats, another one is made behind the last message that was handed out: each message is handed out once, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import orjson
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from kinbin_cluster.connecting import NO_STREAM, code_of
from kinbin_cluster.errors import LogBehind, LogTruncated, NotThere

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

    from kinbin_cluster.connecting import Connection

__all__ = ["Message", "Reading", "follow", "follow_latest"]

_log = logging.getLogger("kinbin.cluster.nats")

BATCH = 256
BATCH_BYTES = 16 * 1_048_576
EXPIRES = 30.0
HEARTBEAT = 1.0
SILENT = 3.2
"""Messages and bytes that one request asks for; seconds that it stands; seconds between heartbeats; silence after which it is made anew."""

BEHIND_SECONDS = 12.0
"""A leader without the others gives up after ten."""

COMPLETED = "Batch Completed"
"""What a server says behind the last message of a request."""

NANOSECONDS = 1_000_000_000
SAME = 3e-6
"""Seconds that two tellings of a message's time may differ by: one is rounded to microseconds."""


class Reading(Enum):
    """What `follow_latest` tells between messages."""

    BEGUN = auto()
    """The last message of each subject follows, from the beginning."""
    TOLD = auto()
    """All of them have come."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a stream. `time` is the server's clock when it was stored, in seconds; `pending` counts those that lie behind it."""

    sequence: int
    time: float
    subject: str
    headers: dict[str, str]
    data: bytes
    pending: int


async def follow(
    connection: Connection, stream: str, after: int, stored: float | None = None, goes_on: Callable[[], object] = bool
) -> AsyncIterator[Message]:
    """The messages of a stream behind a sequence, and then each that comes.

    stored: the time of the message `after`, as it was when it was read; None: not known. goes_on: called each time that the stream was
    seen to go on from there. Raises LogTruncated when messages behind `after` are gone, LogBehind when the stream ends before it or has
    another message there, NotThere when the stream is gone.
    """
    place = after
    while True:
        try:
            await _check(connection, stream, place, stored)
            goes_on()
            config = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=place + 1)
            async for message in _consumed(connection, stream, config):
                if message.sequence <= place:
                    continue
                if message.sequence != place + 1:
                    break  # a gap: look whether the log was truncated meanwhile, or ask again
                place, stored = message.sequence, message.time
                yield message
        except (TimeoutError, OSError, NatsError) as error:
            _gone(stream, error)
        await asyncio.sleep(0.1)


async def follow_latest(connection: Connection, stream: str) -> AsyncIterator[Message | Reading]:
    """BEGUN, the last message of each subject, TOLD, then each message that comes; from the beginning again after a failure.

    Raises NotThere when the stream is gone.
    """
    while True:
        try:
            config = ConsumerConfig(deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, filter_subjects=[">"])
            told = (await connection.js.stream_info(stream)).state.messages == 0
            yield Reading.BEGUN
            if told:
                yield Reading.TOLD
            async for message in _consumed(connection, stream, config):
                yield message
                if not told and message.pending == 0:
                    told = True
                    yield Reading.TOLD
        except (TimeoutError, OSError, NatsError) as error:
            _gone(stream, error)
        await asyncio.sleep(0.1)


def _gone(stream: str, error: Exception) -> None:
    if isinstance(error, NotFoundError) and code_of(error) == NO_STREAM:
        raise NotThere(f"there is no stream {stream}") from error
    _log.debug("reading of %s begins anew: %s", stream, error)


async def _check(connection: Connection, stream: str, place: int, stored: float | None) -> None:
    """Whether the stream still has all that follows a place, and there what it had.

    A leader that is cut off from the other servers answers for as long as it takes itself for one, and may lack what they have, or have
    something else there. So it is believed only when it is told so for `BEHIND_SECONDS`.
    """
    until = time.monotonic() + BEHIND_SECONDS
    while (behind := await _behind(connection, stream, place, stored)) is not None:
        if time.monotonic() > until:
            raise behind
        await asyncio.sleep(0.5)


async def _behind(connection: Connection, stream: str, place: int, stored: float | None) -> LogBehind | None:
    """How the stream differs from what was read of it up to a place; None: it does not. Raises LogTruncated."""
    state = (await connection.js.stream_info(stream)).state
    if state.first_seq > place + 1:
        raise LogTruncated(state.first_seq)
    if state.last_seq < place:
        return LogBehind(state.last_seq)
    if stored is not None and state.first_seq <= place:
        held = (await connection.js.get_msg(stream, seq=place)).time
        if held is not None and abs(held.timestamp() - stored) > SAME:
            return LogBehind(state.last_seq, place)
    return None


async def _consumed(connection: Connection, stream: str, config: ConsumerConfig) -> AsyncIterator[Message]:
    """The messages of a new consumer, until it is silent; ends then."""
    client, js = connection.client, connection.js
    config.ack_policy = AckPolicy.NONE
    config.mem_storage = True
    config.num_replicas = 1
    config.inactive_threshold = EXPIRES
    info = await js.add_consumer(stream, config=config)
    inbox = client.new_inbox()
    heard = await client.subscribe(inbox, pending_msgs_limit=-1, pending_bytes_limit=-1)
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{info.name}"
    try:
        async for message in _pulled(connection, heard, subject, inbox):
            yield message
    finally:
        with contextlib.suppress(TimeoutError, OSError, NatsError):
            await heard.unsubscribe()
        with contextlib.suppress(TimeoutError, OSError, NatsError):
            await js.delete_consumer(stream, info.name)


async def _pulled(connection: Connection, heard: Subscription, subject: str, inbox: str) -> AsyncIterator[Message]:
    ask = orjson.dumps({
        "batch": BATCH, "max_bytes": BATCH_BYTES, "expires": int(EXPIRES * NANOSECONDS), "idle_heartbeat": int(HEARTBEAT * NANOSECONDS),
    })  # fmt: skip
    while True:
        await connection.client.publish(subject, ask, reply=inbox)
        asked, got = time.monotonic(), 0
        while got < BATCH:
            try:
                message = await heard.next_msg(timeout=SILENT)
            except TimeoutError:
                return
            headers = message.headers or {}
            status, described = headers.get("Status"), headers.get("Description", "")
            if status is None:
                got += 1
                yield _message(message)
            elif status == "100":
                if time.monotonic() - asked > EXPIRES + SILENT:
                    return
            elif status == "409" and described == COMPLETED and headers.get("Nats-Pending-Messages") == "0":
                continue  # of the request before, all of whose messages came: this one was sent then
            elif status in {"404", "408"} or (status == "409" and ("Exceeds" in described or described == COMPLETED)):
                break  # nothing more for this request: the next one
            else:
                return


def _message(message: Msg) -> Message:
    # $JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<nanoseconds>.<pending>, with two more in front of
    # the stream where there are domains.
    parts = message.reply.split(".")
    return Message(
        sequence=int(parts[-4]) if len(parts) == 9 else int(parts[7]),
        time=(int(parts[-2]) if len(parts) == 9 else int(parts[9])) / NANOSECONDS,
        subject=message.subject,
        headers=message.headers or {},
        data=message.data,
        pending=int(parts[-1]) if len(parts) == 9 else int(parts[10]),
    )
