from __future__ import annotations

import asyncio
import random
import secrets
from dataclasses import replace
from typing import Any, cast

import pytest
from nats.js.errors import KeyDeletedError, KeyNotFoundError

from kinbin_cluster import following
from kinbin_cluster.bucket import Bucket
from kinbin_cluster.connecting import Connection, ended, quoted, unquoted
from kinbin_cluster.errors import Exists, NotThere
from kinbin_cluster.picture import Collection, Gateway, Node, Picture, Replica, Snapshot
from kinbin_cluster.registry import BUCKET, Registry
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings
from service_app import eventually

LONG = 30.0


def collection(name: str | None = None, shards: int = 2) -> Collection:
    """A collection that nobody else has."""
    uid = secrets.token_hex(6)
    return Collection(name or f"ünder.{uid}", uid, shards, 2, {"kind": "minmax", "dim": 8}, 1.5)


@pytest.mark.parametrize("name", ["plain-Name_1", "a.b", ".", "=2E", "Größe*>", "名"])
def test_names_are_quoted(name: str) -> None:
    """A quoted name has no byte that means something to NATS, and comes back; other names are quoted otherwise."""
    assert unquoted(quoted(name)) == name
    assert set(quoted(name)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=")


class Raced:
    """A bucket of nats-py in which a record is found and then is not, as where the server that is asked does not know it yet."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    async def create(self, _key: str, _data: bytes) -> int:
        """Fails once."""
        if (error := self.error) is not None:
            self.error = None
            raise error
        return 7


@pytest.mark.parametrize("error", [KeyNotFoundError(), KeyDeletedError()])
async def test_a_record_that_comes_and_goes_is_asked_for_again(error: Exception) -> None:
    """Errors that the client of NATS makes itself have no code, and mean nothing for good."""
    bucket = Bucket(cast("Any", None), "raced")
    bucket._bucket = cast("Any", Raced(error))
    assert await bucket.create("key", b"data") == 7


async def test_collections_are_seen_by_all(registry: Registry, other: Registry) -> None:
    """A collection is in its maker's picture at once and in others' soon, with its shards; a second of its name is told of the first."""
    one = collection()
    await registry.create_collection(one, [["a", "b"], ["b", "c"]])
    assert registry.picture.collections[one.name] == one
    assert await other.wait_for(lambda picture: picture.resolved(one.name) == one, LONG)
    assert other.picture.shards[one.uid, 1].replicas == ("b", "c")
    assert other.picture.shards[one.uid, 1].holder == "b"
    again = collection(one.name)
    with pytest.raises(Exists) as caught:
        await other.create_collection(again, [["a", "b"], ["b", "c"]])
    assert caught.value.held == one
    assert await registry.wait_for(lambda picture: (again.uid, 0) not in picture.shards, LONG)
    await other.drop_collection(one.name)
    assert one.name not in other.picture.collections
    assert await registry.wait_for(lambda picture: (one.uid, 1) not in picture.shards and one.name not in picture.collections, LONG)
    with pytest.raises(NotThere):
        await registry.drop_collection(one.name)
    await registry.create_collection(again, [["a", "b"], ["b", "c"]])
    assert registry.picture.collections[one.name] == again


async def test_aliases_follow(registry: Registry, other: Registry) -> None:
    """An alias means its collection, another one after it was moved, and nothing after it, or its collection, is gone."""
    one, two = collection(), collection()
    for each in (one, two):
        await registry.create_collection(each, [["a"], ["b"]])
    await registry.set_alias("now", one.name)
    assert registry.picture.resolved("now") == one
    await registry.set_alias("now", two.name)
    assert registry.picture.resolved("now") == two
    assert await other.wait_for(lambda picture: picture.resolved("now") == two, LONG)
    await registry.drop_collection(two.name)
    assert await other.wait_for(lambda picture: "now" not in picture.aliases, LONG)
    with pytest.raises(NotThere):
        await registry.drop_alias("now")


async def test_changes_at_once_are_all_made(registry: Registry, other: Registry) -> None:
    """Changes of one record by several processes at once are all in it, and each is counted."""
    one = collection()
    await registry.create_collection(one, [["a"], ["b"]])

    async def add(by: Registry, name: str) -> None:
        await by.change_shard(one.uid, 0, lambda shard: shard if name in shard.joining else replace(shard, joining=(*shard.joining, name)))

    names = [f"n{number}" for number in range(12)]
    await asyncio.gather(*(add((registry, other)[number % 2], name) for number, name in enumerate(names)))
    assert await registry.wait_for(lambda picture: len(picture.shards[one.uid, 0].joining) == 12, LONG)
    shard = registry.picture.shards[one.uid, 0]
    assert sorted(shard.joining) == sorted(names)
    assert shard.epoch == 13


async def test_newest_two_snapshots_stay(registry: Registry) -> None:
    """Of the snapshots of a shard the newest two are kept, whatever order they are entered in; the others are handed back."""
    uid = secrets.token_hex(6)
    made = [Snapshot(sequence, f"o{sequence}", 1, "a", 0.0) for sequence in (10, 30, 20)]
    assert await registry.add_snapshot(uid, 0, made[0]) == []
    assert await registry.add_snapshot(uid, 0, made[1]) == []
    assert await registry.add_snapshot(uid, 0, made[2]) == [made[0]]
    assert await registry.add_snapshot(uid, 0, made[2]) == []
    assert await registry.wait_for(lambda picture: [one.sequence for one in picture.snapshots[uid, 0].newest] == [30, 20], LONG)


async def test_snapshots_that_are_doubted_make_room_for_a_sound_one(registry: Registry) -> None:
    """Those of a node that was wrong stay while there is no other; a sound one supersedes them, however old it is."""
    uid = secrets.token_hex(6)
    await registry.doubt_snapshots(uid, 0, ["b"])
    wrong = [Snapshot(sequence, f"o{sequence}", 1, "b", 0.0) for sequence in (10, 30)]
    for one in wrong:
        await registry.add_snapshot(uid, 0, one)
    await registry.doubt_snapshots(uid, 0, ["b"])
    assert await registry.wait_for(lambda picture: [one.doubted for one in picture.snapshots[uid, 0].newest] == [True, True], LONG)
    assert registry.picture.snapshots[uid, 0].sound == []
    sound = Snapshot(20, "o20", 1, "a", 0.0)
    assert {one.object for one in await registry.add_snapshot(uid, 0, sound)} == {"o10", "o30"}
    assert await registry.wait_for(lambda picture: picture.snapshots[uid, 0].newest == [sound], LONG)


async def test_a_registry_of_many_records(settings: ClusterSettings, registry: Registry) -> None:
    """More records than a reader asks for at a time are all there when it has begun, and it goes on with what comes, in one reading."""
    mine = secrets.token_hex(4)
    await asyncio.gather(*(registry.put_job(f"{mine}{number}", {"turn": 0}) for number in range(2 * following.BATCH + 10)))
    async with await Connection.open(settings, "many") as connection:
        begun = Counted(connection.js.add_consumer)
        connection.js.add_consumer = begun  # type: ignore[method-assign]
        late = Registry(connection)
        await late.start(seconds=LONG)
        try:
            assert sum(name.startswith(mine) for name in late.picture.jobs) == 2 * following.BATCH + 10
            for turn in range(1, following.BATCH + 10):
                await registry.put_job(f"{mine}0", {"turn": turn})
            assert await late.wait_for(lambda picture: picture.jobs[f"{mine}0"]["turn"] == following.BATCH + 9, LONG)
            assert begun.count == 1
        finally:
            await late.stop()


async def test_records_that_were_removed_are_forgotten(registry: Registry, other: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of them in NATS. Who has followed knows that they are gone, and so does who did not hear of it and begins anew."""
    one, kept = collection(), collection()
    for each in (one, kept):
        await registry.create_collection(each, [["a"], ["a"]])
        await registry.put_job(f"older.{each.uid}.0.a", {"at": 1.0})
        await registry.change_lease(f"settings.{each.uid}", lambda held: held or {"owner": "x", "count": 1})
    assert await other.wait_for(lambda picture: f"settings.{kept.uid}" in picture.leases, LONG)
    deaf = other._take
    monkeypatch.setattr(other, "_take", lambda message: "" if one.uid in message.subject or one.name in message.subject else deaf(message))
    await registry.drop_collection(one.name)
    await registry.clear(-60.0)  # the leases and jobs
    assert await registry.wait_for(lambda picture: f"settings.{one.uid}" not in picture.leases, LONG)
    await registry.clear(-60.0)
    assert one.name in other.picture.collections
    monkeypatch.setattr(other, "_take", deaf)
    with pytest.raises(KeyNotFoundError):
        await registry._bucket._held.get(f"collections.{quoted(one.name)}", revision=None)
    left = await registry._connection.js.stream_info(f"KV_{BUCKET}", subjects_filter=f"$KV.{BUCKET}.>")
    assert not [subject for subject in left.state.subjects or {} if one.uid in subject or one.name in subject]
    # It begins anew, as after a silence.
    assert other._watching is not None
    await ended(other._watching)
    other._watching = asyncio.create_task(other._watch())
    assert await other.wait_for(lambda picture: one.name not in picture.collections, LONG)
    for picture in (registry.picture, other.picture):
        assert picture.resolved(kept.name) == kept
        assert {f"settings.{kept.uid}"} <= picture.leases.keys()
        assert f"older.{kept.uid}.0.a" in picture.jobs
        assert (one.uid, 0) not in picture.shards
        assert f"older.{one.uid}.0.a" not in picture.jobs
    again = replace(one, uid=secrets.token_hex(6))
    await registry.create_collection(again, [["a"], ["a"]])
    assert await other.wait_for(lambda picture: picture.resolved(one.name) == again, LONG)


async def test_the_registry_is_read_again_after_any_error(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody thought of, while a record is taken in, is logged; what came meanwhile, and comes later, is in the picture."""
    name, take = f"e{secrets.token_hex(4)}", registry._take

    def failing(message: Any) -> str:
        if name in message.subject and not failed:
            failed.append(message)
            raise RuntimeError("nobody thought of it")
        return take(message)

    failed: list[Any] = []
    monkeypatch.setattr(registry, "_take", failing)
    await registry.put_job(name, {"turn": 1})
    assert await registry.wait_for(lambda picture: picture.jobs.get(name) == {"turn": 1}, LONG)
    assert failed
    await registry.put_job(name, {"turn": 2})
    assert await registry.wait_for(lambda picture: picture.jobs.get(name) == {"turn": 2}, LONG)


class Counted:
    """A call that is counted."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.count = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """It."""
        self.count += 1
        return self._call(*arguments, **options)


async def test_nodes_of_many_shards_are_heard(registry: Registry, other: Registry) -> None:
    """What a node of 10,000 replicas tells, no two alike, is more than NATS takes; packed it arrives whole."""
    name, rng = f"n{secrets.token_hex(3)}", random.Random(1)
    shards = {
        (rng.randbytes(6).hex(), number): Replica(
            rng.randrange(10**6), "live", (rng.randrange(10**6), rng.randbytes(16).hex()), rng.randrange(10**6), rng.randrange(10**9)
        )
        for number in range(10_000)
    }
    await registry.beat(name, shards)
    assert await other.wait_for(lambda picture: picture.is_live(name), LONG)
    assert all(other.picture.replica(*place, name) == told for place, told in shards.items())


async def test_what_nodes_tell_is_heard(registry: Registry, other: Registry) -> None:
    """A node that tells of itself lives, with what it has applied; a gateway, too."""
    name = f"n{secrets.token_hex(3)}"
    await registry.join(Node(name, "http://127.0.0.1:1", "rack"))
    await registry.change_node(name, lambda node: replace(node, draining=True))
    await registry.join(Node(name, "http://127.0.0.1:2", "rack"))
    assert await other.wait_for(lambda picture: picture.nodes.get(name) == Node(name, "http://127.0.0.1:2", "rack", draining=True), LONG)
    assert not other.picture.is_live(name)
    await registry.beat(name, {("abc", 3): Replica(7, "live", (5, "ff"), items=2)}, version="1")
    await registry.beat_gateway(Gateway("g.1:80", "http://127.0.0.1:3", "1"))
    assert await other.wait_for(lambda picture: picture.is_live(name), LONG)
    assert other.picture.replica("abc", 3, name) == Replica(7, "live", (5, "ff"), items=2)
    assert other.picture.told(name) == {"version": "1"}
    assert await other.wait_for(lambda picture: [one.name for one in picture.live_gateways()] == ["g.1:80"], LONG)


async def test_one_of_several_gets_a_lease(registry: Registry, other: Registry) -> None:
    """Of processes that take a lease at once one has it, and all know who."""

    def taken_by(name: str) -> Registry:
        return registry if name < "5" else other

    async def take(name: str) -> dict[str, object]:
        return await taken_by(name).change_lease("test", lambda held: held or {"by": name})

    found = await asyncio.gather(*(take(str(number)) for number in range(10)))
    assert len({str(one["by"]) for one in found}) == 1


def test_silence_counts_only_while_the_connection_stands() -> None:
    """Nodes are not taken for lost for the time in which nobody could be heard, and are after the set time in which they could be."""
    clock = [100.0]
    picture = Picture(3.0, lambda: clock[0])
    picture.nodes["a"] = Node("a", "http://127.0.0.1:1")
    picture.hear("a", b"{}")
    clock[0] += 2.9
    assert picture.is_live("a")
    clock[0] += 0.2
    assert not picture.is_live("a")
    assert picture.silent_for("b") is None


@pytest.mark.slow
async def test_picture_outlives_its_server(nats_one: NatsServers) -> None:
    """A picture holds while the server is away, nodes live on in it, and it is current again after it."""
    settings = ClusterSettings(nats=nats_one.addresses, nats_replicas=1, lost_seconds=60.0)
    async with await Connection.open(settings, "one") as connection, await Connection.open(settings, "two") as second:
        registry, writing = Registry(connection), Registry(second)
        await registry.start()
        await writing.start()
        await writing.join(Node("a", "http://127.0.0.1:1"))
        await writing.beat("a", {})
        assert await registry.wait_for(lambda picture: picture.is_live("a"), LONG)
        nats_one.processes[0].kill()
        await eventually(lambda: not connection.connected)
        stood = connection.clock()
        await asyncio.sleep(0.1)
        assert connection.clock() == stood
        assert registry.picture.is_live("a")
        nats_one.start()
        one = collection()
        await writing.create_collection(one, [["a"], ["a"]])
        assert await registry.wait_for(lambda picture: picture.resolved(one.name) == one, LONG)
        await registry.stop()
        await writing.stop()
