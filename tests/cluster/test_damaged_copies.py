"""A replica whose files turn out to be damaged is made anew where another node has the shard, wherever that is noticed. Without servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

import kinbin
from kinbin_cluster.applying import Applier, stored_of
from kinbin_cluster.connecting import ended
from kinbin_cluster.message import Edit
from kinbin_cluster.node import replica as replicas
from kinbin_cluster.node.replica import Means, ShardReplica
from kinbin_cluster.picture import Collection, Node, Picture, Shard, Snapshot, Snapshots
from kinbin_cluster.shards import local_name

UID = "0123456789ab"
DAMAGE = kinbin.CorruptData("the store's pages are damaged")


class Log:
    """A log that holds nothing; and a store of one snapshot."""

    def __init__(self, snapshot: Path) -> None:
        self._snapshot = snapshot

    async def get(self, name: str, path: Path) -> int:
        """It, whatever it is called."""
        return await asyncio.to_thread(lambda: path.write_bytes(self._snapshot.read_bytes()))

    async def last(self, uid: str, shard: int) -> int:
        """Of a shard."""
        return 0

    async def read(self, uid: str, shard: int, after: int, stored: float | None, goes_on: Callable[[], None]) -> AsyncIterator[Any]:
        """Nothing comes."""
        goes_on()
        await asyncio.Event().wait()
        yield None


class Registry:
    """What is known of nodes: this one is a, and b tells of its own copy."""

    def __init__(self, other: str) -> None:
        self.picture = Picture(3_600.0)
        self.picture.nodes = {name: Node(name, name) for name in ("a", "b")}
        self.picture.collections = {"photos": Collection("photos", UID, 1, 2, {"dim": 2}, 0.0)}
        self.picture.shards = {(UID, 0): Shard(("a", "b"), holder="b")}
        self.picture.hear("b", orjson.dumps({"shards": {f"{UID}.0": {"state": other}}}))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[kinbin.Database]:
    """That of a node whose replica holds an item."""
    with kinbin.open(tmp_path / "data") as opened:
        opened.create_collection(local_name(UID, 0), dim=2).add(["held"], [[1.0, 2.0]])
        yield opened


def failing(times: int, read: Callable[..., Any]) -> Callable[..., Any]:
    """A function that meets damage so many times."""
    left = [times]

    def meet(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise DAMAGE
        return read(*arguments)

    return meet


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - other threads change it
            await asyncio.sleep(0.01)


@asynccontextmanager
async def followed(
    database: kinbin.Database, other: str, snapshots: Sequence[dict[str, Any]] = ()
) -> AsyncIterator[tuple[Means, ShardReplica]]:
    """The replica follows its log inside the block. other: what node b tells of its own copy."""
    log: Any = Log(database.path.parent / "snapshot")
    registry: Any = Registry(other)
    registry.picture.snapshots[UID, 0] = Snapshots(tuple(snapshots))
    means = Means("a", database, registry, log, log, lambda: True)
    replica = ShardReplica(means, UID, 0)
    running = asyncio.create_task(replica.run())
    try:
        yield means, replica
    finally:
        await ended(running)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again soon."""
    monkeypatch.setattr(replicas, "RETRY_SECONDS", 0.01)


@pytest.mark.parametrize(("name", "read"), [("Applier", Applier), ("stored_of", stored_of)])
async def test_a_damaged_copy_is_made_anew(name: str, read: Any, database: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a node reads of the copy before it follows the log is damaged: the copy is thrown away, once, and the new one goes live."""
    monkeypatch.setattr(replicas, name, failing(1, read))
    async with followed(database, "live") as (means, replica):
        await until(lambda: replica.state == "live")
        assert means.counts["node_copies_thrown_away"] == 1
        assert database.collection(replica.name).count() == 0
        assert replica.problem is None


async def test_the_last_copy_is_kept(database: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no other node has the shard live, damage is told, and nothing is thrown away; once it can be read again, it goes on."""
    monkeypatch.setattr(replicas, "Applier", failing(5, Applier))
    async with followed(database, "replaying") as (means, replica):
        await until(lambda: replica.problem == str(DAMAGE))
        await until(lambda: replica.state == "live")
        assert means.counts["node_copies_thrown_away"] == 0
        assert database.collection(replica.name).count() == 1


async def test_damage_that_a_snapshot_meets(database: kinbin.Database) -> None:
    """A copy of which no snapshot can be made, as it is damaged, is made anew; what has nothing to do with its files changes nothing."""
    async with followed(database, "live") as (means, replica):
        await until(lambda: replica.state == "live")
        replica.failed_at(kinbin.StorageFull("no room for a snapshot"))
        assert not replica._thrown.is_set()
        replica.failed_at(DAMAGE)
        await until(lambda: means.counts["node_copies_thrown_away"] == 1)
        await until(lambda: replica.state == "live")
        assert database.collection(replica.name).count() == 0


async def test_snapshots_of_a_wrong_copy_are_taken_only_where_there_is_no_other(database: kinbin.Database, tmp_path: Path) -> None:
    """A copy that is made anew waits for a sound snapshot while another node has the shard, and is made of what there is otherwise."""
    database.collection(local_name(UID, 0)).snapshot(tmp_path / "snapshot")
    database.drop_collection(local_name(UID, 0))
    doubted = asdict(Snapshot(0, "doubted", 1, "c", 0.0, doubted=True))
    async with followed(database, "live", [doubted]) as (means, replica):
        await until(lambda: replica.problem is not None)
        assert "b is asked for a sound one" in str(replica.problem)
        assert replica.state == "restoring"
        means.registry.picture.hear("b", orjson.dumps({"shards": {f"{UID}.0": {"state": "replaying"}}}))
        await until(lambda: replica.state == "live")
        assert database.collection(replica.name).count() == 1


async def test_no_digest_is_told_of_a_copy_that_is_gone(database: kinbin.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was thrown away while it was digested is not what the new copy is compared by."""
    marked = Edit("mark", more={"name": "m", "of": "set"})
    async with followed(database, "live") as (_, replica):
        await until(lambda: replica.state == "live")
        replica._reached(marked, 7)
        await until(lambda: replica.digest is not None and not replica._busy)
        told, of = replica.digest, replica.collection
        assert told is not None
        assert told[0] == 7
        beside: list[Callable[[], object]] = []
        monkeypatch.setattr(replica, "_beside", lambda _, work: beside.append(work))
        replica._reached(marked, 8)
        replica.collection, replica.digest = object(), None
        beside[0]()
        assert replica.digest is None
        replica.collection = of
        replica._reached(marked, 9)
        beside[1]()
        assert replica.digest == (9, told[1])
