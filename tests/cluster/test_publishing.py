"""What a write of several parts answers: all done, refused in part, not acknowledged, or not told yet. Without servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

import kinbin
from kinbin_cluster import leases
from kinbin_cluster.errors import LogClosed, LogRefused, LogUnavailable
from kinbin_cluster.gateway import changing, publishing
from kinbin_cluster.gateway.cutting import Part
from kinbin_cluster.gateway.publishing import Written, written
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.gateway.tokens import Token
from kinbin_cluster.gateway.verdicts import error_of, verdict_of
from kinbin_cluster.leases import Lease
from kinbin_cluster.log import Published
from kinbin_cluster.measures import Worked
from kinbin_cluster.picture import Collection, Node, Picture, Shard
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.metrics import Metrics
from kinbin_service.problems import Place, Refusal
from kinbin_service.settings import Settings

UID = "0123456789ab"
COLLECTION = Collection("photos", UID, 3, 2, {}, 0.0)
CONFLICT = {
    "refused": {"code": "item_conflict", "detail": "1 of 2 ids are in the collection already ('b'); nothing was written", "ids": ["b"]}
}


def done(count: int, **more: Any) -> dict[str, Any]:
    """A verdict of what was done."""
    return {"done": {"indexed": 1, "updated": 0, "unchanged": 0, "count": count, **more}}


@dataclass
class World:
    """A log and two nodes that answer as they are told to."""

    verdicts: dict[int, dict[str, Any]]
    """By shard."""
    failing: dict[int, Exception] = field(default_factory=dict)
    """Of publishing, by shard."""
    silent: set[str] = field(default_factory=set)
    """Nodes that take a question and never answer."""
    dropped: bool = False
    """Whether the collection is there no more."""
    another: bool = False
    """Whether another collection has its name."""
    closed: list[bool] = field(default_factory=list)
    """What the log was told of it."""
    asked: list[tuple[str, int, int]] = field(default_factory=list)
    work: Worked = field(default_factory=Worked)
    published: list[str] = field(default_factory=list)
    """Message ids, in order."""
    before: bool = False
    """Whether the log has the messages of a sending before."""

    async def publish(
        self, uid: str, shard: int, payload: list[bytes], message_id: str, deadline: float, closed: Callable[[], bool]
    ) -> Published:
        """As the log does."""
        self.closed.append(closed())
        if shard in self.failing:
            raise self.failing[shard]
        self.published.append(message_id)
        # What comes again, under another id, lies behind.
        first = message_id == f"id-{shard}"
        return Published((100 if first else 200) + shard, duplicate=first and self.before)

    async def post(self, address: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes] | None:
        """As the fanout does."""
        (asked,) = orjson.loads(body)["asked"]
        self.asked.append((address, asked["shard"], asked["sequence"]))
        if address in self.silent:
            await asyncio.Event().wait()
        told = {"count": 5} if not asked["sequence"] else self.verdicts.get(asked["sequence"], self.verdicts.get(asked["shard"]))
        told = told or {"lagging": True}
        return 200, orjson.dumps({"verdicts": [{**asked, **told}]})

    @property
    def nodes(self) -> Any:
        """Picture and fanout."""
        picture = Picture(3.0)
        picture.nodes = {name: Node(name, name) for name in ("n1", "n2")}
        picture.collections = {} if self.dropped else {COLLECTION.name: COLLECTION}
        if self.another:
            picture.collections = {COLLECTION.name: replace(COLLECTION, uid="ba9876543210")}
        picture.shards = {(UID, shard): Shard(("n1", "n2"), holder="n1") for shard in range(3)}
        return picture, self

    async def write(self, *shards: int, keyed: bool = False) -> Written:
        """A write of an item or more for each of these shards."""
        parts = [Part(shard, [b""], f"id-{shard}", 1, keyed) for shard in shards]
        log: Any = self
        return await written(log, self.nodes, COLLECTION, parts, Place("items", ("a", "b", "c")), 5.0)


async def test_a_write_sums_up_what_its_shards_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are sums over shards, shards without a part tell what they hold, and the token names the sequences of the parts."""
    monkeypatch.setattr(publishing, "COUNT_SECONDS", 60.0)
    found = await World({0: done(7), 2: done(9, updated=4)}).write(0, 2)
    assert (found.sum("indexed"), found.sum("updated"), found.count) == (2, 4, 7 + 9 + 5)
    assert Token.read(found.token) == Token(UID, {0: 100, 2: 102})
    assert not found.atomic
    assert (await World({1: done(2)}).write(1)).atomic


async def test_a_part_that_is_refused_says_what_became_of_the_others() -> None:
    """A conflict in one shard is that conflict, at its place in the batch, and tells how many parts were written all the same."""
    with pytest.raises(Refusal) as refused:
        await World({0: done(7), 1: CONFLICT}).write(0, 1)
    assert refused.value.code == "item_conflict"
    assert refused.value.errors[0].pointer == "#/items/1/id"
    assert "1 of the write's 2 parts (one a shard) were written" in refused.value.detail
    assert "nothing was written" not in refused.value.detail


async def test_a_write_that_is_refused_everywhere_is_the_refusal_of_one_node() -> None:
    """Where no part was done, the text is the library's."""
    with pytest.raises(Refusal) as refused:
        await World({1: CONFLICT}).write(1)
    assert refused.value.detail == CONFLICT["refused"]["detail"]


@pytest.mark.parametrize(
    ("failing", "code", "text"),
    [
        (LogUnavailable("no quorum"), "outcome_unknown", "1 of the write's 2 parts (one a shard) were not acknowledged"),
        (LogRefused("the stream is full"), "storage_full", "the stream is full"),
    ],
)
async def test_a_part_that_the_log_does_not_take(failing: Exception, code: str, text: str) -> None:
    """What is not acknowledged may be written or not, and what the log refuses is not: each has a code of its own."""
    with pytest.raises(Refusal) as refused:
        await World({0: done(7), 1: done(8)}, failing={1: failing}).write(0, 1)
    assert refused.value.code == code
    assert text in refused.value.detail


async def test_what_no_replica_tells_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that lies in the log and whose result nobody tells is durable, and its outcome unknown."""
    monkeypatch.setattr(publishing, "VERDICT_SECONDS", 0.2)
    with pytest.raises(Refusal) as refused:
        await World({0: done(7)}).write(0, 1)
    assert refused.value.code == "outcome_unknown"
    assert "durable" in refused.value.detail


async def test_what_replicas_have_forgotten_is_asked_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyed part that the log had long before is appended once more, and the shard tells by its key; one without a key never is."""
    monkeypatch.setattr(publishing, "VERDICT_SECONDS", 60.0)
    world = World({0: {"unknown": True}, 200: done(7, replayed=True)})
    found = await world.write(0, keyed=True)
    assert (found.sum("indexed"), found.replayed) == (1, True)
    assert Token.read(found.token) == Token(UID, {0: 200})
    assert len(set(world.published)) == 2
    world = World({0: {"unknown": True}, 200: done(7)})
    with pytest.raises(Refusal) as refused:
        await world.write(0)
    assert refused.value.code == "outcome_unknown"
    assert world.published == ["id-0"]


async def test_a_key_whose_add_was_refused_is_free() -> None:
    """The log has the message, and what came of it is a refusal: the add is decided anew, as by one server. The first time it is not."""
    world = World({1: CONFLICT, 201: done(7)}, before=True)
    assert (await world.write(1, keyed=True)).sum("indexed") == 1
    for before, keyed in ((False, True), (True, False)):
        world = World({1: CONFLICT, 201: done(7)}, before=before)
        with pytest.raises(Refusal) as refused:
            await world.write(1, keyed=keyed)
        assert (refused.value.code, world.published) == ("item_conflict", ["id-1"])
    world = World({1: done(7), 201: done(9)}, before=True)
    assert (await world.write(1, keyed=True)).replayed
    assert world.published == ["id-1"]


@pytest.mark.parametrize("failing", [{}, {1: LogRefused("there is no such stream")}, {1: LogUnavailable("no answer")}])
async def test_a_write_to_what_is_dropped_meanwhile_says_so(failing: dict[int, Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """When the collection is dropped while it is written to, nobody is waited for, and the answer is that it is not there."""
    monkeypatch.setattr(publishing, "VERDICT_SECONDS", 3_600.0)
    async with asyncio.timeout(60):
        with pytest.raises(kinbin.CollectionNotFound):
            await World({0: done(7)}, failing=failing, dropped=True).write(0, 1)


@pytest.mark.parametrize(
    ("world", "code", "text"),
    [
        (World({}, failing={0: LogClosed("x"), 1: LogClosed("x")}), "storage_busy", "nothing was written"),
        (World({}, failing={0: LogClosed("x"), 1: LogClosed("x")}, another=True), "storage_busy", "nothing was written"),
        (World({0: done(7)}, failing={1: LogClosed("x")}), "outcome_unknown", "1 of the write's 2 parts (one a shard) were not written"),
        (World({}, failing={1: LogClosed("x")}, another=True), "outcome_unknown", "look for it before you send it again"),
    ],
)
async def test_a_write_to_what_is_cut_into_other_shards_meanwhile(
    world: World, code: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused as one that comes while writes pause where nothing of it was written; else it says that it may be there."""
    monkeypatch.setattr(publishing, "VERDICT_SECONDS", 3_600.0)
    async with asyncio.timeout(60):
        with pytest.raises(Refusal) as refused:
            await world.write(0, 1)
    assert refused.value.code == code
    assert text in refused.value.detail
    assert world.closed == [world.another, world.another]


async def test_another_replica_tells_where_the_first_is_silent() -> None:
    """A replica that takes the question and never answers is not waited for: the next one tells."""
    world = World({1: done(3)}, silent={"n1"})
    found = await verdict_of(world.nodes, UID, 1, 100, time.monotonic() + 60)
    assert found is not None
    assert found.done == done(3)["done"]
    assert {address for address, _, _ in world.asked} == {"n1", "n2"}


def test_refusals_come_back_as_the_library_raised_them() -> None:
    """A verdict's problem is the error of one node: its type, ids, and problems."""
    conflict = error_of({"code": "version_conflict", "detail": "x", "ids": ["a"]})
    assert isinstance(conflict, kinbin.VersionConflict)
    assert conflict.ids == ("a",)
    told: list[dict[str, Any]] = [{"code": "over_limit", "detail": "full", "position": None, "field": None, "limit": "collection_items"}]
    full = error_of({"code": "over_limit", "detail": "full", "problems": told})
    assert isinstance(full, kinbin.InvalidInput)
    assert full.problems == (kinbin.Problem(**told[0]),)
    assert isinstance(error_of({"code": "key_reused", "detail": "x"}), kinbin.KeyReused)


class Leases:
    """A registry of leases, which takes a while to answer; the service that has it."""

    def __init__(self) -> None:
        self.picture = Picture(3.0)
        self.registry = self
        self.connection = self
        self.clock = time.monotonic

    async def change_lease(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """By compare-and-set."""
        await asyncio.sleep(0.002)
        self.picture.leases[name] = changed = change(self.picture.leases.get(name, {}))
        return changed


async def test_settings_are_changed_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever gateways are asked: shards take them in one order. Who waits for long is told so; other collections do not wait."""
    monkeypatch.setattr(leases, "_LOOK_SECONDS", 0.002)
    service, inside, most, terms = Leases(), 0, 0, list[int]()

    async def change() -> None:
        nonlocal inside, most
        async with changing.changing(service, COLLECTION) as lease:
            terms.append(lease.term)
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(change() for _ in range(8)))
    assert most == 1
    assert terms == sorted(set(terms))
    monkeypatch.setattr(changing, "_SECONDS", 0.01)
    async with changing.changing(service, COLLECTION):
        with pytest.raises(Refusal) as refused:
            await change()
        async with changing.changing(service, replace(COLLECTION, uid="ba9876543210")):
            pass
    assert refused.value.code == "storage_busy"


async def test_a_lease_is_renewed_as_long_as_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes it from who works for longer than it lasts; who cannot renew it knows that others may have it, and is not stopped."""
    monkeypatch.setattr(leases, "_RENEW_SECONDS", 0.01)
    service: Any = Leases()
    mine, other = (Lease(service, "one", name, time.monotonic, seconds=0.5) for name in ("mine", "other"))
    assert not mine.sure
    async with leases.alone(mine, 60, AssertionError):
        began, until = mine.term, time.monotonic() + 1.0
        while time.monotonic() < until:
            assert not await other.hold()
            await asyncio.sleep(0.005)
        assert mine.sure
        assert mine.term > began
        monkeypatch.setattr(service, "change_lease", unavailable)
        async with asyncio.timeout(60):
            while mine.sure:  # noqa: ASYNC110 - time passes
                await asyncio.sleep(0.01)


async def unavailable(*_: object) -> dict[str, Any]:
    """NATS does not answer."""
    raise LogUnavailable("no quorum")


async def test_writes_that_wait_keep_no_read_out() -> None:
    """However many writes wait for a log that is away, reads find room; one write more than may wait is refused."""
    settings = Settings(data_dir=Path("unused"), queue_length=2)
    gateway = Gateway(settings, ClusterSettings(), Picture(3.0), Metrics())
    try:
        with gateway.writing.enter(), gateway.writing.enter():
            gateway.admission.check_room(writes=False)
            with pytest.raises(Refusal) as refused, gateway.writing.enter():
                pass
            assert refused.value.code == "overloaded"
    finally:
        gateway.fanout.close()
