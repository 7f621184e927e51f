from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from kinbin_cluster import control
from kinbin_cluster.connecting import Connection, ended
from kinbin_cluster.control import Controller
from kinbin_cluster.leases import Lease
from kinbin_cluster.log import Log
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Collection, Node, Picture, Replica, Snapshot
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings

LONG = 40.0


class Clock:
    """The time of all: it goes on as nodes are heard, so that a machine that is slow makes nobody silent."""

    now = 100.0


class Nodes:
    """Nodes that hold nothing and tell that they have applied whatever the log has."""

    def __init__(self, registry: Registry, log: Log, names: str, clock: Clock) -> None:
        self.registry, self.log, self.alive, self.clock = registry, log, set(names), clock
        self.digests: dict[str, tuple[int, str]] = {}
        self.behind: dict[str, int] = {}
        self.opened: dict[str, int] = {}
        self.instance = 1

    async def run(self) -> None:
        """Join, and tell, for ever."""
        for name in sorted(self.alive):
            await self.registry.join(Node(name, f"http://{name}"))
        for turn in itertools.count(1):
            names = sorted(self.alive)
            for name in names:
                told = {}
                for uid, number, _ in self.registry.picture.shards_of(name):
                    told[uid, number] = Replica(
                        self.behind.get(name, 1_000_000), "live", self.digests.get(name), opened=self.opened.get(name)
                    )
                await self.registry.beat(name, told, turn=turn, instance=self.instance)
            if await self.registry.wait_for(partial(_heard, names, turn), LONG):
                self.clock.now += 0.1
            await asyncio.sleep(0.02)


def _heard(names: list[str], turn: int, picture: Picture) -> bool:
    return all(picture.told(name).get("turn") == turn for name in names)


class Cluster:
    """A registry, a log, nodes and a controller, with a collection of one shard on a and b."""

    def __init__(self, connection: Connection, registry: Registry, nodes: Nodes) -> None:
        self.connection, self.registry, self.nodes = connection, registry, nodes
        self.log, self.objects = nodes.log, Objects(connection)
        self.uid = secrets.token_hex(6)
        self.place = (self.uid, 0)

    async def until(self, holds: Callable[[Picture], bool]) -> None:
        """Wait until something holds."""
        assert await self.registry.wait_for(holds, LONG), self.registry.picture.shards.get(self.place)

    def told(self, name: str) -> tuple[int, int | None] | None:
        """How far a node says that its copy is, and was when it was opened."""
        told = self.registry.picture.replica(*self.place, name)
        return None if told is None else (told.applied, told.opened)

    def controller(self, name: str) -> asyncio.Task[None]:
        """A controller that runs."""
        return asyncio.create_task(Controller(self.connection, self.registry, self.log, self.objects, name).run())


@pytest_asyncio.fixture
async def cluster(nats_one: NatsServers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    """Nodes a to d, of which a and b hold a shard, and a controller that does not wait for long."""
    for name, seconds in (("STEP", 0.05), ("LOOK", 0.1), ("RELEASE", 0.3), ("LEFT_OVER", 0.5)):
        monkeypatch.setattr(control, name, seconds)
    settings = ClusterSettings(
        nats=nats_one.addresses, nats_replicas=1, lost_seconds=1.5, replace_after_seconds=0.5, snapshot_messages=4, digest_seconds=1_000
    )
    async with await Connection.open(settings, "test") as connection:
        clock = Clock()
        monkeypatch.setattr(connection, "clock", lambda: clock.now)
        registry = Registry(connection)
        made = Cluster(connection, registry, Nodes(registry, Log(connection), "abcd", clock))
        await registry.start()
        tasks = [asyncio.create_task(made.nodes.run()), made.controller("first")]
        await made.log.ensure_stream(made.uid, 0)
        await registry.create_collection(Collection("name " + made.uid, made.uid, 1, 2, {}, 0.0), [["a", "b"]])
        yield made
        await registry.drop_collection("name " + made.uid)
        for task in tasks:
            await ended(task)
        for name in "abcd":
            await registry.remove_node(name)
        await registry.stop()


async def test_lost_node_is_replaced(cluster: Cluster) -> None:
    """A node that stays silent loses its shard to another one, and the shard's holder is one that lives; coming back it is not lost."""
    await cluster.until(lambda picture: len(picture.live()) == 4)
    cluster.nodes.alive.discard("a")
    await cluster.until(lambda picture: picture.shards[cluster.place].holder != "a")
    await cluster.until(lambda picture: set(picture.shards[cluster.place].replicas) & {"c", "d"} != set())
    shard = cluster.registry.picture.shards[cluster.place]
    assert "a" not in shard.replicas
    assert "b" in shard.replicas
    assert cluster.registry.picture.nodes["a"].lost is not None
    cluster.nodes.alive.add("a")
    await cluster.until(lambda picture: picture.nodes["a"].lost is None)


async def test_drained_node_holds_nothing(cluster: Cluster) -> None:
    """A node that drains gives its shard to another, keeps its copy for a moment, and then holds nothing."""
    await cluster.until(lambda picture: len(picture.live()) == 4)
    await cluster.registry.change_node("b", lambda node: Node("b", node.address, draining=True))
    await cluster.until(lambda picture: "b" not in picture.shards[cluster.place].nodes)
    shard = cluster.registry.picture.shards[cluster.place]
    assert len(shard.replicas) == 2
    assert shard.holder == "a"


async def test_copies_that_differ_are_made_anew(cluster: Cluster) -> None:
    """Of copies whose digests differ at one sequence, not at others, the one that is not the holder's is ordered anew and written down."""
    await cluster.until(lambda picture: picture.shards[cluster.place].holder == "a")
    cluster.nodes.digests.update(a=(7, "one"), b=(6, "two"))
    await cluster.until(lambda picture: picture.replica(*cluster.place, "b") == Replica(1_000_000, "live", (6, "two")))
    assert cluster.registry.picture.shards[cluster.place].rebuild == ()
    cluster.nodes.digests["b"] = (7, "two")
    await cluster.until(lambda picture: picture.shards[cluster.place].rebuild == ("b",))
    shard = cluster.registry.picture.shards[cluster.place]
    assert shard.snapshot_asked >= 7
    await cluster.until(lambda picture: f"divergence.{cluster.uid}.0" in picture.jobs)
    assert cluster.registry.picture.jobs[f"divergence.{cluster.uid}.0"]["nodes"] == ["b"]


async def test_files_that_are_older_than_what_was_told_are_reported(cluster: Cluster) -> None:
    """A node that opens its files again and has less than it had told is written down, by whoever heard both; one that has all is not."""
    listening = Controller(cluster.connection, cluster.registry, cluster.log, cluster.objects, "listening")
    await cluster.until(lambda _: cluster.told("a") == cluster.told("b") == (1_000_000, None))
    await listening.look_back()
    cluster.nodes.opened, cluster.nodes.instance = {"a": 1_000_000, "b": 60}, 2
    await cluster.until(lambda _: cluster.told("a") == (1_000_000, 1_000_000) and cluster.told("b") == (1_000_000, 60))
    await listening.look_back()
    name = f"older.{cluster.uid}.0"
    await cluster.until(lambda picture: f"{name}.b" in picture.jobs)
    told = cluster.registry.picture.jobs[f"{name}.b"]
    assert (told["node"], told["sequence"], told["before"]) == ("b", 60, 1_000_000)
    assert f"{name}.a" not in cluster.registry.picture.jobs


async def test_mark_is_put_into_the_log(cluster: Cluster) -> None:
    """A mark is an edit of the log."""
    controller = Controller(cluster.connection, cluster.registry, cluster.log, cluster.objects, "other")
    assert await controller.mark(cluster.place) == 1
    assert await cluster.log.last(*cluster.place) == 1


async def test_log_is_truncated_behind_two_snapshots(cluster: Cluster) -> None:
    """After so many messages a snapshot is asked for; the log is cut behind the older of two, as far as each live copy has applied it."""
    for number in range(10):
        await cluster.log.publish(*cluster.place, b"x", f"{number}", time.monotonic() + 30)
    await cluster.until(lambda picture: picture.shards[cluster.place].snapshot_asked >= 4)
    cluster.nodes.behind["b"] = 3
    await cluster.until(lambda picture: picture.applied(*cluster.place).get("b") == 3)
    await cluster.registry.add_snapshot(*cluster.place, Snapshot(6, f"{cluster.uid}.0.6", 1, "a", 0.0))
    await cluster.registry.add_snapshot(*cluster.place, Snapshot(8, f"{cluster.uid}.0.8", 1, "a", 0.0))
    await _until_first(cluster, 4)
    cluster.nodes.behind["b"] = 1_000_000
    await _until_first(cluster, 7)
    assert await cluster.log.last(*cluster.place) == 10
    # One that does not go on holds the log only until that is too long.
    cluster.nodes.behind["b"] = 7
    await cluster.until(lambda picture: picture.applied(*cluster.place).get("b") == 7)
    for number in range(10, 10 + control.SLOW * 4):
        await cluster.log.publish(*cluster.place, b"x", f"{number}", time.monotonic() + 30)
    for sequence in (30, 35):
        await cluster.registry.add_snapshot(*cluster.place, Snapshot(sequence, f"{cluster.uid}.0.{sequence}", 1, "a", 0.0))
    await _until_first(cluster, 31)


async def _until_first(cluster: Cluster, first: int) -> None:
    """Wait until the log begins at a sequence; it may not go beyond."""
    deadline = time.monotonic() + LONG
    while (found := (await cluster.log.state(*cluster.place)).first) < first:
        assert time.monotonic() < deadline, found
    assert found == first


async def test_what_is_left_of_dropped_collections_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    """Logs, snapshots and records of a collection that is not there go; those of one that is there stay."""
    uid = secrets.token_hex(6)
    await cluster.log.ensure_stream(uid, 0)
    await cluster.registry.create_collection(Collection("gone " + uid, uid, 1, 2, {}, 0.0), [["a", "b"]])
    (tmp_path / "file").write_bytes(b"x")
    for one in (uid, cluster.uid):
        await cluster.objects.put(f"{one}.0.1", tmp_path / "file")
        await cluster.registry.add_snapshot(one, 0, Snapshot(1, f"{one}.0.1", 1, "a", 0.0))
    await cluster.registry.drop_collection("gone " + uid)
    await cluster.until(lambda picture: (uid, 0) not in picture.snapshots)
    deadline = time.monotonic() + LONG
    while (uid, 0) in await cluster.log.streams() or f"{uid}.0.1" in await cluster.objects.names():
        assert time.monotonic() < deadline
    assert cluster.place in await cluster.log.streams()
    assert f"{cluster.uid}.0.1" in await cluster.objects.names()
    assert cluster.place in cluster.registry.picture.snapshots


async def test_files_that_no_snapshot_names_go(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored of a collection that is there, and never entered, goes after a while; what a snapshot names stays."""
    monkeypatch.setattr(control, "UNNAMED", 0.5)
    (tmp_path / "file").write_bytes(b"x")
    named, unnamed = f"{cluster.uid}.0.1", f"{cluster.uid}.0.2"
    for name in (named, unnamed):
        await cluster.objects.put(name, tmp_path / "file")
    await cluster.registry.add_snapshot(*cluster.place, Snapshot(1, named, 1, "a", 0.0))
    deadline = time.monotonic() + LONG
    while unnamed in (names := await cluster.objects.names()):
        assert time.monotonic() < deadline
    assert named in names


async def test_lease_has_one_owner_and_is_taken_over(registry: Registry) -> None:
    """A lease that is renewed is its owner's alone; one that is not renewed for the set time goes to another, and the first knows."""
    clock = [0.0]
    name = f"test-{secrets.token_hex(4)}"
    one, two = (Lease(registry, name, owner, lambda: clock[0], seconds=5.0) for owner in ("one", "two"))

    async def seen(lease: Lease) -> None:
        assert await registry.wait_for(lambda picture: picture.leases.get(name, {}).get("count", 0) >= lease.term, LONG)

    assert await one.hold()
    await seen(one)
    assert not await two.hold()
    for _ in range(4):
        clock[0] += 4.0
        term = one.term
        assert await one.hold()
        assert one.term > term
        await seen(one)
        assert not await two.hold()
    clock[0] += 5.0
    assert await two.hold()
    assert two.term > one.term
    await seen(two)
    assert not await one.hold()
