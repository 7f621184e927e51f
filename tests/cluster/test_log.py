from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from kinbin_cluster import following
from kinbin_cluster.connecting import Connection, ended
from kinbin_cluster.errors import LogBehind, LogClosed, LogRefused, LogTruncated, LogUnavailable, NotThere
from kinbin_cluster.log import MAX_MESSAGE, Entry, Log
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings


def soon() -> float:
    """A deadline that a slow machine meets, too."""
    return time.monotonic() + 30


async def taken(log: Log, uid: str, after: int, count: int, stored: float | None = None) -> list[Entry]:
    """So many entries behind a sequence."""
    found: list[Entry] = []

    async def take() -> None:
        async for entry in log.read(uid, 0, after, stored):
            found.append(entry)
            if len(found) == count:
                return

    await asyncio.wait_for(take(), 60)
    return found


async def shard(log: Log) -> str:
    """The uid of a new collection whose shard 0 has a log."""
    uid = secrets.token_hex(6)
    await log.ensure_stream(uid, 0)
    return uid


async def test_edits_come_back_in_order_and_go_on(log: Log) -> None:
    """What was published is read in its order, each once, from any place on; and what comes later follows."""
    uid = await shard(log)
    for number in range(5):
        assert (await log.publish(uid, 0, b"%d" % number, f"m{number}", soon())).sequence == number + 1
    reading = log.read(uid, 0, 3)
    assert [(await anext(reading)).parts, (await anext(reading)).parts] == [[b"3"], [b"4"]]
    await log.publish(uid, 0, b"late", "late", soon())
    entry = await asyncio.wait_for(anext(reading), 30)
    assert (entry.first, entry.sequence, entry.parts) == (6, 6, [b"late"])
    assert abs(entry.time - time.time()) < 60


async def test_same_message_id_is_stored_once(log: Log) -> None:
    """An edit that is published again, in one part or in several, is told where it lies, and is not stored again."""
    uid = await shard(log)
    for parts in (b"one", [b"a", b"b", b"c"]):
        name = f"id {len(parts)} {type(parts).__name__}"
        first = await log.publish(uid, 0, parts, name, soon())
        again = await log.publish(uid, 0, parts, name, soon())
        assert (again.sequence, first.duplicate, again.duplicate) == (first.sequence, False, True)
    assert await log.last(uid, 0) == 4
    assert [entry.parts for entry in await taken(log, uid, 0, 2)] == [[b"one"], [b"a", b"b", b"c"]]


async def test_parts_lie_together_whoever_else_writes(log: Log) -> None:
    """Edits of several parts that are published at once are each one entry, with their parts in order."""
    uid = await shard(log)
    wanted = [[b"%d-%d" % (edit, part) for part in range(2 + edit % 5)] for edit in range(20)]
    await asyncio.gather(*(log.publish(uid, 0, parts, f"e{edit}", soon()) for edit, parts in enumerate(wanted)))
    found = await taken(log, uid, 0, len(wanted))
    assert sorted(entry.parts for entry in found) == sorted(wanted)
    assert [entry.first for entry in found] == [1, *(entry.sequence + 1 for entry in found[:-1])]


async def test_large_edits_are_read_back(log: Log) -> None:
    """Parts as large as they may be, more than one request of the reader asks for, come back byte for byte."""
    uid = await shard(log)
    parts = [bytes([part]) * MAX_MESSAGE for part in range(20)]
    await log.publish(uid, 0, parts, "large", soon())
    await log.publish(uid, 0, b"next", "next", soon())
    first, second = await taken(log, uid, 0, 2)
    assert first.parts == parts
    assert second.parts == [b"next"]
    with pytest.raises(LogRefused):
        await log.publish(uid, 0, bytes(MAX_MESSAGE + 1), "too large", soon())


async def test_truncated_log_says_where_it_begins(log: Log) -> None:
    """Who reads behind what was truncated is told the first sequence that is there; others read on."""
    uid = await shard(log)
    for number in range(6):
        await log.publish(uid, 0, b"%d" % number, f"m{number}", soon())
    await log.truncate(uid, 0, 4)
    with pytest.raises(LogTruncated) as caught:
        await taken(log, uid, 1, 1)
    assert caught.value.first == 4
    assert [entry.parts for entry in await taken(log, uid, 3, 2)] == [[b"3"], [b"4"]]
    state = await log.state(uid, 0)
    assert (state.first, state.last) == (4, 6)


async def test_log_that_ends_too_early_is_told(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that has applied more than the log holds is told so, once the servers have said so for a while."""
    monkeypatch.setattr(following, "BEHIND_SECONDS", 0.6)
    uid = await shard(log)
    await log.publish(uid, 0, b"1", "m1", soon())
    with pytest.raises(LogBehind) as caught:
        await taken(log, uid, 5, 1)
    assert caught.value.last == 1


@pytest.mark.parametrize("looks", [1, 3])
async def test_a_leader_that_is_cut_off_is_not_believed_at_once(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lack what the others have, or have something else in its place, until it gives up: who reads asks again."""
    asked: list[int] = []

    async def stream_info(_: str) -> Any:
        asked.append(1)
        return SimpleNamespace(state=SimpleNamespace(first_seq=1, last_seq=4 if len(asked) < looks else 9))

    async def get_msg(_: str, seq: int) -> Any:
        return SimpleNamespace(time=datetime.fromtimestamp(8.0 if len(asked) <= looks else 7.0, UTC))

    connection: Any = SimpleNamespace(js=SimpleNamespace(stream_info=stream_info, get_msg=get_msg))
    await following._check(connection, "s", 5, 7.0)
    assert len(asked) == looks + 1
    monkeypatch.setattr(following, "BEHIND_SECONDS", 0.0)
    with pytest.raises(LogBehind):
        await following._check(connection, "s", 10, 7.0)


async def test_a_log_with_another_entry_in_the_last_place_is_told(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has read an entry that the log does not have any more is told so, however many others it got since; who has these reads on."""
    monkeypatch.setattr(following, "BEHIND_SECONDS", 0.6)
    uid = await shard(log)
    for number in range(3):
        await log.publish(uid, 0, b"%d" % number, f"m{number}", soon())
    before = (await taken(log, uid, 0, 3))[-1]
    await log.delete_stream(uid, 0)
    await log.ensure_stream(uid, 0)
    for number in range(5):
        await log.publish(uid, 0, b"%d" % number, f"m{number}", soon())
    with pytest.raises(LogBehind, match="another entry at sequence 3"):
        await taken(log, uid, 3, 2, before.time)
    now = (await taken(log, uid, 0, 3))[-1]
    assert [entry.sequence for entry in await taken(log, uid, 3, 2, now.time)] == [4, 5]


async def test_deleted_log_is_not_there(log: Log) -> None:
    """A log that was deleted is in no list, cannot be asked or read, and refuses edits; deleting it again does nothing."""
    uid = await shard(log)
    assert (uid, 0) in await log.streams()
    await log.delete_stream(uid, 0)
    await log.delete_stream(uid, 0)
    assert (uid, 0) not in await log.streams()
    with pytest.raises(NotThere):
        await log.last(uid, 0)
    with pytest.raises(NotThere):
        await taken(log, uid, 0, 1)
    with pytest.raises(LogUnavailable):
        await log.publish(uid, 0, b"x", "x", time.monotonic() + 0.5)


async def test_closed_log_refuses_at_once(log: Log) -> None:
    """A log that takes no edits on purpose refuses them without waiting for the deadline; opened, it takes the same edit."""
    uid = await shard(log)
    await log.take(uid, 0, edits=False)
    with pytest.raises(LogClosed):
        await asyncio.wait_for(log.publish(uid, 0, b"x", "x", time.monotonic() + 3_600, lambda: True), 60)
    with pytest.raises(LogClosed):
        await asyncio.wait_for(log.publish(uid, 0, [b"x", b"y"], "xy", time.monotonic() + 3_600, lambda: True), 60)
    # Its end lies behind all edits, once however often it is asked for, and readers come to it.
    assert [await log.end(uid, 0, b"end", "end") for _ in range(2)] == [1, 1]
    assert [entry.parts for entry in await taken(log, uid, 0, 1)] == [[b"end"]]
    await log.take(uid, 0, edits=True)
    assert (await log.publish(uid, 0, b"x", "x", soon(), lambda: True)).sequence == 2


async def test_full_log_refuses(nats_one: NatsServers) -> None:
    """A log that is full refuses an edit for good, and keeps what it has."""
    settings = ClusterSettings(nats=nats_one.addresses, nats_replicas=1, max_log_bytes=1_048_576)
    async with await Connection.open(settings, "test") as connection:
        log = Log(connection)
        uid = await shard(log)
        for number in range(2):
            await log.publish(uid, 0, bytes(400_000), f"m{number}", soon())
        with pytest.raises(LogRefused):
            await log.publish(uid, 0, bytes(400_000), "one more", soon())
        assert await log.last(uid, 0) == 2


@pytest.mark.slow
async def test_log_outlives_its_servers(nats_three: NatsServers) -> None:
    """While servers are killed, one and then all, nothing acknowledged is lost or doubled, and a reader goes on by itself."""
    settings = ClusterSettings(nats=nats_three.addresses)
    async with await Connection.open(settings, "writer") as writing, await Connection.open(settings, "reader") as following:
        log = Log(writing)
        uid = await shard(log)
        acknowledged: list[bytes] = []
        read: list[bytes] = []
        progress = asyncio.Condition()
        over = asyncio.Event()

        async def write() -> None:
            number = 0
            while not over.is_set():
                parts = [b"%d" % number] if number % 3 else [b"%d" % number, b"more"]
                await log.publish(uid, 0, parts, f"m{number}", time.monotonic() + 60)
                acknowledged.append(parts[0])
                number += 1
                async with progress:
                    progress.notify_all()

        async def follow() -> None:
            async for entry in Log(following).read(uid, 0, 0):
                read.append(entry.parts[0])
                async with progress:
                    progress.notify_all()

        async def until(holds: Callable[[], bool]) -> None:
            async with progress:
                await asyncio.wait_for(progress.wait_for(holds), 60)

        async def more() -> None:
            wanted = len(acknowledged) + 20
            await until(lambda: len(acknowledged) >= wanted)

        tasks = [asyncio.create_task(write()), asyncio.create_task(follow())]
        await more()
        nats_three.processes[0].kill()
        await more()
        for process in nats_three.processes:
            process.kill()
        nats_three.start()
        await more()
        over.set()
        await tasks[0]
        await until(lambda: len(read) >= len(acknowledged))
        await ended(tasks[1])
        assert read == acknowledged


async def told_of(registry: Registry, live: str) -> None:
    """Wait until the registry tells of all three servers, and that these live."""
    wanted = {f"nats-{number}": str(number) in live for number in range(3)}
    async with asyncio.timeout(90):
        while True:
            # While another leader is elected nobody tells.
            with suppress(LogUnavailable):
                if await registry.servers(2.0) == wanted:
                    return
            await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_a_server_that_is_gone_is_told(nats_three: NatsServers) -> None:
    """The registry's servers are known by name, and which of them is away or behind; a log goes on meanwhile, so nothing else shows it."""
    async with await Connection.open(ClusterSettings(nats=nats_three.addresses), "looking") as connection:
        registry = Registry(connection)
        await registry.start()
        try:
            await told_of(registry, "012")
            nats_three.processes[1].kill()
            try:
                await told_of(registry, "02")
            finally:
                nats_three.start()
            await told_of(registry, "012")
        finally:
            await registry.stop()
