"""The counter by which rows of all shards are numbered: nobody is given a number twice, nor one that is less than somebody had before."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

import kinbin
from faults.running import KEY, Cluster, until
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import LogUnavailable
from kinbin_cluster.gateway.cutting import add_parts
from kinbin_cluster.gateway.tokens import Token
from kinbin_cluster.log import Log
from kinbin_cluster.numbers import STREAM, Numbers
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.shards import shard_of

pytestmark = pytest.mark.server
LONG = 60.0


def later() -> float:
    """A deadline that is far away."""
    return time.monotonic() + LONG


@pytest.mark.asyncio
async def test_no_number_is_given_twice(settings: ClusterSettings, connection: Connection) -> None:
    """Many ask at once, by two connections: the ranges are apart, and one that is asked for after an answer lies behind it."""
    async with await Connection.open(settings, "other") as other:
        both = Numbers(connection), Numbers(other)
        counts = [1 + number % 7 for number in range(60)]
        firsts = await asyncio.gather(*(both[i % 2].take(count, later()) for i, count in enumerate(counts)))
        ranges = sorted(zip(firsts, counts, strict=True))
        assert all(first + count <= behind for (first, count), (behind, _) in itertools.pairwise(ranges))
        last = 0
        for turn in range(12):
            first = await both[turn % 2].take(5, later())
            assert first >= last
            last = first + 5
        await both[0].pass_by(last + 1_000, later())
        assert await both[1].take(1, later()) >= last + 1_000
        assert await both[0].take(0, later()) >= 0


@pytest.mark.asyncio
async def test_one_message_is_kept(connection: Connection) -> None:
    """However many numbers are taken, and they go on behind what is kept."""
    numbers = Numbers(connection)
    before = await numbers.take(3, later())
    for _ in range(5):
        await numbers.take(2, later())
    assert (await connection.js.stream_info(STREAM)).state.messages == 1
    assert await Numbers(connection).take(1, later()) >= before + 13


@pytest.mark.asyncio
async def test_without_servers_it_is_not_told(tmp_path: Path) -> None:
    """Who asks is told when his time is over that there is no answer, and one who has time gets one when they are back."""
    servers = NatsServers(tmp_path, 1)
    servers.start()
    try:
        async with await Connection.open(ClusterSettings(nats=servers.addresses, nats_replicas=1), "test") as connection:
            numbers = Numbers(connection)
            first = await numbers.take(10, later())
            servers.processes[0].kill()
            waiting = asyncio.create_task(numbers.take(1, later()))
            with pytest.raises(LogUnavailable):
                await numbers.take(1, time.monotonic() + 0.3)
            await asyncio.to_thread(servers.start)
            assert await waiting >= first + 10
    finally:
        servers.stop()


IDS = [f"i{number}" for number in range(60)]
EXTRA = [f"x{number}" for number in range(20)]


def add(client: httpx.Client, gateway: str, some: list[str]) -> str:
    """Add items, each with a vector of its own; all have the same score. Returns the collection's uid."""
    vectors = [[1.0] + [float(one == other) for other in IDS + EXTRA] for one in some]
    items = [{"id": one, "vector": vector} for one, vector in zip(some, vectors, strict=True)]
    return Token.read(client.post(f"{gateway}/v1/collections/c/index", json={"items": items}).raise_for_status().json()["token"]).uid


def order(client: httpx.Client, gateway: str) -> list[str]:
    """All items as a gateway answers them."""
    asked = {"vector": [1.0] + [0.0] * len(IDS + EXTRA), "k": len(IDS + EXTRA), "mode": "exact"}
    answer = client.post(f"{gateway}/v1/collections/c/query", json=asked).raise_for_status().json()
    return [one["id"] for one in answer["results"]]


def rows_of(client: httpx.Client, cluster: Cluster, uid: str, shard: int) -> list[Any]:
    """The row numbers of a shard's items, as each node tells them; [None] where its replica is not there yet."""
    asked = {"uid": uid, "shard": shard, "ids": [one for one in IDS if shard_of(one, 3) == shard]}
    headers = {"Authorization": f"Bearer {KEY}"}
    answers = [client.post(f"{node.address}/cluster/rows", json=asked, headers=headers) for node in cluster.nodes]
    return [[None] if one.status_code == 404 else one.raise_for_status().json()["rows"] for one in answers]


def all_there(client: httpx.Client, cluster: Cluster, uid: str, shard: int) -> bool:
    """Whether every replica of a shard has all of its items."""
    return None not in itertools.chain(*rows_of(client, cluster, uid, shard))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_adds_through_several_gateways(tmp_path: Path) -> None:
    """One client's adds by gateways in turn are in their order; adds at once in one order for both replicas, behind and before others.

    What is answered behind rows of much greater numbers is before what comes later, in whichever shard.
    """
    often = {"KINBIN_CLUSTER_BEAT_SECONDS": "0.1"}
    with Cluster(tmp_path, node_count=2, gateway_count=2, servers=1, more=often) as cluster, httpx.Client(timeout=60) as client:
        gateways = [one.address for one in cluster.gateways]
        options = {"kernel": "minmax", "dim": 1 + len(IDS + EXTRA), "cluster": {"shards": 3, "replicas": 2}}
        client.put(f"{gateways[0]}/v1/collections/c", json=options).raise_for_status()
        until(lambda: client.get(f"{gateways[1]}/v1/collections/c").status_code == 200, LONG, "the other gateway does not know it")
        for turn in range(10):
            add(client, gateways[turn % 2], IDS[3 * turn : 3 * turn + 3])
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda turn: add(client, gateways[turn % 2], IDS[3 * turn : 3 * turn + 3]), range(10, 18)))
        add(client, gateways[1], IDS[54:57])
        uid = add(client, gateways[0], IDS[57:])
        for shard in range(3):
            until(partial(all_there, client, cluster, uid, shard), LONG, "a replica is behind")
            first, second = rows_of(client, cluster, uid, shard)
            assert first == second
        found = order(client, gateways[0])
        assert found[:30] == IDS[:30]
        assert found[54:] == IDS[54:]
        assert sorted(found) == sorted(IDS)
        assert all(order(client, gateways[turn % 2]) == found for turn in range(12))
        first, behind = [one for one in EXTRA if shard_of(one, 3) == 0][:2]
        last = next(one for one in EXTRA if shard_of(one, 3) == 1)
        asyncio.run(far_ahead(cluster, uid, first))
        add(client, gateways[0], [behind])
        add(client, gateways[1], [last])
        until(lambda: order(client, gateways[0])[60:] == [first, behind, last], LONG, "what came last is not the last")


async def far_ahead(cluster: Cluster, uid: str, identifier: str) -> None:
    """Write one item to shard 0 under a number that the counter comes to much later."""
    vector = [1.0] + [float(identifier == other) for other in IDS + EXTRA]
    checked = kinbin.Schema(kernel="minmax", dim=len(vector)).check([identifier], [vector])
    (part,) = add_parts(checked, 3, {})
    async with await Connection.open(ClusterSettings(nats=cluster.nats.addresses, nats_replicas=1), "test") as connection:
        await Log(connection).publish(uid, part.shard, part.numbered(10**9).messages, part.message_id, later())
