"""The numbers of rows, by which items with the same score are in one order over all shards: one counter for a cluster.

    take ──▶ the counter grows by n ──▶ an add's rows are numbered from there ──▶ each shard applies it ──▶ pass_by what they became

A shard numbers rows upwards: an add that arrives behind one of greater numbers gets numbers behind those (`Together.add`). Before an add
is answered the counter is beyond all numbers that its rows have. So what begins after that answer, at any gateway, comes behind it.

The counter is a stream of NATS, whose messages are sums (`Nats-Incr`); it keeps the last. A sum that nobody heard of leaves a gap.
Everything belongs to the event loop of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import orjson
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError

from kinbin_cluster.connecting import may_pass
from kinbin_cluster.errors import LogUnavailable

if TYPE_CHECKING:
    from kinbin_cluster.connecting import Connection

__all__ = ["STREAM", "Numbers"]

STREAM, _SUBJECT = "KB_NUMBERS", "kb.numbers"
_ANSWER_SECONDS = 1.0
"""An answer that takes longer is asked for again: numbers that nobody gets are lost."""
_PAUSE_SECONDS = 0.05


class Numbers:
    """The counter, as one process reaches it. Those who ask while an answer is on its way share the next question."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seen = 0
        """The counter is at least so far."""
        self._waiting: list[tuple[int, asyncio.Future[int]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def take(self, count: int, deadline: float) -> int:
        """The first of `count` numbers, all of them greater than those that anybody was given before this was called.

        deadline: by `time.monotonic`. Raises LogUnavailable.

        Cost: an acknowledgement of a quorum, however many ask at once.
        """
        if not count:
            return self._seen
        answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, answered))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_on(), name="kinbin numbers")
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await answered
        except TimeoutError:
            raise LogUnavailable("NATS did not tell the numbers of rows in time") from None

    async def pass_by(self, number: int, deadline: float) -> None:
        """Return when all numbers that are given from now on are `number` or greater. Raises LogUnavailable.

        Cost: nothing, unless a shard has numbered rows beyond what this process has seen of the counter.
        """
        if number > self._seen:
            await self.take(number - self._seen, deadline)

    async def _ask_on(self) -> None:
        """Ask until nobody waits."""
        try:
            while waiting := [one for one in self._waiting if not one[1].done()]:
                self._waiting = []
                more = sum(count for count, _ in waiting)
                try:
                    first = await self._grown(more) - more
                except (TimeoutError, OSError, NatsError) as error:
                    if isinstance(error, APIError) and not may_pass(error):
                        _fail(waiting, LogUnavailable(f"NATS keeps no numbers of rows: {error.description}"))
                    self._waiting = waiting + self._waiting
                    if isinstance(error, NoRespondersError):
                        await self._made()
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                self._seen = max(self._seen, first + more)
                for count, answered in waiting:
                    if not answered.done():
                        answered.set_result(first)
                    first += count
        finally:
            self._asking = None

    async def _grown(self, more: int) -> int:
        """The counter after it has grown by so many."""
        headers = {"Nats-Incr": f"+{more}"}
        answered = orjson.loads((await self._connection.client.request(_SUBJECT, b"", timeout=_ANSWER_SECONDS, headers=headers)).data)
        if "error" in answered:
            raise APIError(**{name: answered["error"].get(name) for name in ("code", "err_code", "description")})
        return int(answered["val"])

    async def _made(self) -> None:
        """Make the counter, unless it is there: nobody takes messages for it, or nobody does just now."""
        config = StreamConfig(
            name=STREAM, subjects=[_SUBJECT], storage=StorageType.FILE, num_replicas=self._connection.settings.nats_replicas,
            max_msgs_per_subject=1, discard=DiscardPolicy.OLD, deny_delete=True, allow_direct=True, allow_msg_counter=True,
        )  # fmt: skip
        # Whatever keeps it from being made, it is asked again.
        with contextlib.suppress(TimeoutError, OSError, NatsError):
            await self._connection.js.add_stream(config)


def _fail(waiting: list[tuple[int, asyncio.Future[int]]], error: Exception) -> None:
    for _, answered in waiting:
        if not answered.done():
            answered.set_exception(error)
