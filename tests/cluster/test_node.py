"""Nodes as processes: they follow the log, tell verdicts, wait for reads, come back from kills, and restore what they lack."""

from __future__ import annotations

import asyncio
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

import kinbin
from kinbin_cluster import commands
from kinbin_cluster.control import STEP
from kinbin_cluster.log import Log
from kinbin_cluster.message import Edit, encoded, mark
from kinbin_cluster.picture import Collection, Picture
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli.cluster import _lines
from node_process import NodeProcess, until

SCHEMA = kinbin.Schema(kernel="minmax", dim=3, seed=9)
NAMES = ("a", "b")


@pytest.fixture(scope="module")
def nodes(nats_one: NatsServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, NodeProcess]]:
    """Two nodes, that run."""
    folder, settings = tmp_path_factory.mktemp("nodes"), ClusterSettings(nats=nats_one.addresses, nats_replicas=1)
    started = {name: NodeProcess(name, folder, settings) for name in NAMES}
    try:
        for node in started.values():
            node.process.start()
        yield started
    finally:
        for node in started.values():
            node.process.stop()


@dataclass(frozen=True)
class Shard:
    """The only shard of a new collection, on both nodes."""

    uid: str
    log: Log
    registry: Registry
    nodes: dict[str, NodeProcess]

    @property
    def path(self) -> str:
        """Of the local collections."""
        return f"/v1/collections/c{self.uid}-0"

    async def write(self, edit: Edit | bytes, name: str) -> int:
        """Publish an edit; returns its sequence."""
        parts = [edit] if isinstance(edit, bytes) else encoded(replace(edit, now=1_700_000_000.0))
        return (await self.log.publish(self.uid, 0, parts, f"{self.uid}-{name}", time.monotonic() + 60)).sequence

    async def add(self, ids: list[str], first: float = 1.0, **terms: Any) -> int:
        """Publish an add."""
        checked = SCHEMA.check(ids, [[first + i, 1.0, 2.0] for i in range(len(ids))])
        return await self.write(Edit("add", checked.ids, checked.payloads, checked.rows, **terms), f"{ids}{first}{terms}")

    async def verdicts(self, sequence: int) -> list[dict[str, Any]]:
        """Of both nodes."""
        return list(await asyncio.gather(*(node.verdict(self.uid, 0, sequence) for node in self.nodes.values())))

    async def live(self, *names: str) -> None:
        """Wait until replicas are live, and know all that was written."""
        last = await self.log.last(self.uid, 0)

        def holds() -> bool:
            told = [self.registry.picture.replica(self.uid, 0, name) for name in names or NAMES]
            return all(one is not None and one.state == "live" and one.applied >= last for one in told)

        await until(holds)

    async def snapshot(self, sequence: int) -> None:
        """Ask for a snapshot that holds everything up to a sequence, and wait until it is there."""
        await self.registry.change_shard(self.uid, 0, lambda held: replace(held, holder="a", snapshot_asked=sequence))
        await until(lambda: (self.uid, 0) in self.registry.picture.snapshots)

    async def digests(self) -> set[str]:
        """Those of both replicas behind a new mark; one that is not live when it comes to the mark waits for the next one."""
        picture = self.registry.picture
        told: list[Any] = []
        for _ in range(30):
            sequence = await self.write(mark(), f"mark-{time.monotonic_ns()}")

            def both(_: Picture, sequence: int = sequence) -> bool:
                replicas = [picture.replica(self.uid, 0, name) for name in NAMES]
                told[:] = [one.digest[1] for one in replicas if one is not None and one.digest is not None and one.digest[0] == sequence]
                return len(told) == len(NAMES)

            if await self.registry.wait_for(both, 3.0):
                return set(told)
        raise AssertionError("no mark was told of by both replicas")


MakeShard = Callable[[], Awaitable[Shard]]


@pytest_asyncio.fixture
async def make(log: Log, registry: Registry, nodes: dict[str, NodeProcess]) -> AsyncIterator[MakeShard]:
    """Makes the only shard of a new collection, live on both nodes, which run whatever the test before did to them."""
    made = []
    for node in nodes.values():
        node.process.start()
    await until(lambda: {one.name for one in registry.picture.live()} >= set(NAMES))

    async def new() -> Shard:
        uid = secrets.token_hex(6)
        await log.ensure_stream(uid, 0)
        await registry.create_collection(Collection(uid, uid, 1, 2, SCHEMA.options, time.time()), [list(NAMES)])
        made.append(uid)
        shard = Shard(uid, log, registry, nodes)
        await shard.live()
        return shard

    yield new
    for uid in made:
        await registry.drop_collection(uid)


@pytest_asyncio.fixture
async def shard(make: MakeShard) -> Shard:
    """One shard."""
    return await make()


async def test_both_replicas_apply_and_tell_alike(shard: Shard) -> None:
    """What is done and what is refused has one verdict on both nodes, and one digest."""
    first = await shard.add(["x", "y"])
    again = await shard.add(["y", "z"], mode="insert")
    skipped = await shard.add(["y", "z"], mode="insert", on_error="skip", positions=[5, 6])
    broken = await shard.write(b"\x01nothing", "broken")
    one, other = await shard.verdicts(first)
    assert one == other
    assert one["done"] | {"applied": 0} == {
        "indexed": 2, "updated": 0, "unchanged": 0, "count": 2, "skipped": 0, "problems": [], "replayed": False, "applied": 0,
        "next_row": 2,
    }  # fmt: skip
    one, other = await shard.verdicts(again)
    assert one["refused"] == other["refused"]
    assert (one["refused"]["code"], one["refused"]["ids"]) == ("item_conflict", ["y"])
    one, _ = await shard.verdicts(skipped)
    assert [problem["position"] for problem in one["done"]["problems"]] == [5]
    one, _ = await shard.verdicts(broken)
    assert one["refused"]["code"] == "bad_request"
    one, other = await shard.verdicts(0)
    assert one["count"] == other["count"] == 3
    assert len(await shard.digests()) == 1


async def test_verdicts_are_of_what_is_here_and_applied(shard: Shard) -> None:
    """What is not applied yet, of a replica that is not here, or malformed is told as that, at once."""
    node = shard.nodes["a"]
    last = await shard.add(["x"])
    assert "done" in await node.verdict(shard.uid, 0, last)
    assert (await node.verdict(shard.uid, 0, last + 1, wait_ms=0))["lagging"]
    assert (await node.verdict("0" * 12, 0, 1))["missing"]
    assert (await node.ask("POST", "/cluster/verdicts", {"asked": 1})).json()["code"] == "bad_request"
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{node.port}") as stranger:
        assert (await stranger.post("/cluster/verdicts", json={"asked": []})).status_code == 401


async def test_reads_wait_for_a_sequence(shard: Shard) -> None:
    """A read that names a sequence sees it, or is told that the replica lags; every answer tells how far the replica was."""
    node = shard.nodes["b"]
    last = await shard.add(["x", "y"])
    seen = await node.ask("POST", f"{shard.path}/count", {}, X_Kinbin_After=str(last), X_Kinbin_Wait_Ms="30000")
    assert (seen.json(), seen.headers["x-kinbin-applied"]) == ({"count": 2}, f"{last}-{last}")
    late = await node.ask("POST", f"{shard.path}/count", {}, X_Kinbin_After=str(last + 1), X_Kinbin_Wait_Ms="1")
    assert (late.status_code, late.json()["code"]) == (503, "lagging")
    waiting = asyncio.create_task(node.ask("POST", f"{shard.path}/count", {}, X_Kinbin_After=str(last + 1), X_Kinbin_Wait_Ms="30000"))
    await shard.add(["z"], 7.0)
    assert (await waiting).json() == {"count": 3}
    wrong = await node.ask("POST", f"{shard.path}/count", {}, X_Kinbin_After="x")
    assert wrong.json()["code"] == "invalid_field"


async def test_nodes_take_no_writes(shard: Shard) -> None:
    """Every way of writing that a server has is refused on a node: its replicas would differ."""
    node = shard.nodes["a"]
    tried = [
        ("POST", f"{shard.path}/index"), ("POST", f"{shard.path}/delete"), ("DELETE", shard.path), ("PUT", f"{shard.path}/limits"),
        ("POST", f"{shard.path}/payload"), ("PUT", "/v1/collections/own"), ("PUT", "/v1/aliases/own"), ("POST", f"{shard.path}/compact"),
        ("POST", "/index"), ("PUT", f"{shard.path}/indexes"), ("POST", f"{shard.path}/snapshots"), ("POST", f"{shard.path}/tune/apply"),
    ]  # fmt: skip
    codes = [(await node.ask(method, path, {})).json()["code"] for method, path in tried]
    assert codes == ["not_in_cluster"] * len(tried)
    there = await node.ask("POST", "/v1/collections/c000000000000-0/count", {})
    assert there.json()["code"] == "collection_not_found"


@pytest.mark.slow
async def test_nodes_refuse_what_is_of_a_whole_server(shard: Shard) -> None:
    """Snapshots, restores and aliases are refused in the form of every error, by any method, without a look at the body."""
    node = shard.nodes["a"]
    tried = [
        ("GET", f"{shard.path}/snapshots"), ("GET", f"{shard.path}/snapshots/x"), ("DELETE", f"{shard.path}/snapshots/x"),
        ("POST", f"{shard.path}/snapshots/x/verify"), ("POST", "/v1/restore"), ("POST", "/v1/restore?name=x"), ("GET", "/v1/aliases"),
        ("DELETE", "/v1/aliases/x"),
    ]  # fmt: skip
    for method, path in tried:
        answer = await node.ask(method, path, None if method in {"GET", "DELETE"} else {})
        assert answer.headers["content-type"] == "application/problem+json", (method, path)
        assert (answer.status_code, answer.json()["code"]) == (501, "not_in_cluster"), (method, path)
        assert "ask a gateway" in answer.json()["detail"]
    for path in ("/v1/nothing", "/cluster/verdicts"):
        answer = await node.ask("GET", path)
        assert answer.json()["code"] in {"not_found", "method_not_allowed"}


async def _inserts(shard: Shard, start: int, stop: int) -> int:
    """Insert an item each; returns the last sequence."""
    last = 0
    for i in range(start, stop):
        last = await shard.add([f"{i}"], 1.0 + i, mode="insert")
    return last


async def test_a_replica_is_restored_when_the_log_does_not_reach_back(shard: Shard) -> None:
    """A snapshot that is asked for is stored; behind it the log may be cut, and a replica is made of the two alone."""
    last = await _inserts(shard, 0, 10)
    await shard.live()
    await shard.snapshot(last)
    place = (shard.uid, 0)
    assert shard.registry.picture.snapshots[place].newest[0].sequence == last
    await shard.log.truncate(shard.uid, 0, last + 1)
    await shard.add(["late"], 99.0)
    ordered = await shard.registry.change_shard(shard.uid, 0, lambda held: replace(held, rebuild=("b",)))
    # The order itself may not have been heard of yet: what clears it has a later epoch.
    await until(lambda: shard.registry.picture.shards[place].epoch > ordered.epoch)
    assert shard.registry.picture.shards[place].rebuild == ()
    await shard.live()
    assert len(await shard.digests()) == 1
    one, other = await shard.verdicts(last)
    assert one["done"] == other["done"]
    count = await shard.nodes["b"].ask("POST", f"{shard.path}/count", {})
    assert count.json() == {"count": 11}


@pytest.mark.slow
async def test_a_killed_node_comes_back(make: MakeShard) -> None:
    """It applies each entry once, restores what the log does not reach back to, and makes anew what is damaged, as another node has it."""
    going, cut, damaged = [await make() for _ in range(3)]
    node = going.nodes["b"]
    first = await going.add(["0"], mode="insert")
    for shard in (cut, damaged):
        await _inserts(shard, 0, 5)
        await shard.live()
    writing = asyncio.create_task(_inserts(going, 1, 60))
    await node.verdict(going.uid, 0, first + 5)
    node.process.kill()
    lasts = {going.uid: await writing, cut.uid: await _inserts(cut, 5, 20), damaged.uid: await _inserts(damaged, 5, 6)}
    await cut.snapshot(lasts[cut.uid])
    await cut.log.truncate(cut.uid, 0, lasts[cut.uid] + 1)
    with (node.folder / "collections" / f"c{damaged.uid}-0" / "data.mdb").open("r+b") as file:
        file.seek(8_192)
        file.write(bytes(65_536))
    node.process.start()
    for shard, count in ((going, 60), (cut, 20), (damaged, 6)):
        assert len(await shard.digests()) == 1
        one, other = await shard.verdicts(lasts[shard.uid])
        assert one["done"] == other["done"]
        assert one["done"]["count"] == count
    one, other = await going.verdicts(first)
    assert one["done"] == other["done"]
    assert one["done"]["indexed"] == 1


@pytest.mark.slow
async def test_a_node_on_an_old_copy_of_its_disk_is_told(shard: Shard, settings: ClusterSettings, tmp_path: Path) -> None:
    """It applies what the log has since then, so that replicas are alike; `status` says that its files went back."""
    node = shard.nodes["b"]
    await _inserts(shard, 0, 5)
    await shard.live()
    node.process.kill()
    shutil.copytree(node.folder, tmp_path / "copy")
    node.process.start()
    last = await _inserts(shard, 5, 10)
    await shard.live()
    # Who reports it has to have heard how far the copy was: the other node looks once a step.
    await asyncio.sleep(3 * STEP)
    node.process.kill()
    shutil.rmtree(node.folder)
    shutil.copytree(tmp_path / "copy", node.folder)
    node.process.start()
    name = f"older.{shard.uid}.0.b"
    await until(lambda: name in shard.registry.picture.jobs)
    told = await commands.status(settings)
    found = told["older_files"][f"{shard.uid}.0.b"]
    assert found["sequence"] < last <= found["before"]
    assert f"node b: its files were at {found['sequence']} when it had told of {found['before']}" in "\n".join(_lines(told))
    assert len(await shard.digests()) == 1
    one, other = await shard.verdicts(last)
    assert one["done"] == other["done"]
    assert one["done"]["count"] == 10


async def test_a_replica_of_another_log_answers_nothing(shard: Shard) -> None:
    """Where the log has other entries than were applied, as after a backup of its servers, its copies say so and keep what they have."""
    last = await _inserts(shard, 0, 3)
    await shard.live()
    shard.nodes["b"].process.kill()
    await shard.log.delete_stream(shard.uid, 0)
    await shard.log.ensure_stream(shard.uid, 0)
    await _inserts(shard, 20, 25)
    shard.nodes["b"].process.start()
    picture = shard.registry.picture

    def told() -> bool:
        copies = [picture.replica(shard.uid, 0, name) for name in NAMES]
        return all(one is not None and f"another entry at sequence {last}" in (one.problem or "") for one in copies)

    await until(told)
    for node in shard.nodes.values():
        assert (await node.verdict(shard.uid, 0, last, 0)).get("missing")
        assert (await node.ask("POST", f"{shard.path}/count", {})).json()["code"] == "collection_not_found"
        assert (node.folder / "collections" / f"c{shard.uid}-0" / "data.mdb").exists()


async def test_a_name_or_key_that_is_wrong_is_refused(
    nodes: dict[str, NodeProcess], registry: Registry, settings: ClusterSettings, tmp_path: Path
) -> None:
    """A process with the name of a node that lives, or with another key, ends before it changes anything, and says why."""
    # They listen for 24 s where nobody is heard, and end as soon as somebody is.
    beats = {"KINBIN_CLUSTER_BEAT_SECONDS": "10"}
    second = NodeProcess("a", tmp_path, settings, **beats)
    stranger = NodeProcess("c", tmp_path, settings, **beats, KINBIN_CLUSTER_KEY="another key")
    assert await registry.wait_for(lambda picture: len(picture.live()) == 2, 90)
    try:
        for one in (second, stranger):
            one.process.start()
        await until(lambda: not second.process.running and not stranger.process.running)
    finally:
        for one in (second, stranger):
            one.process.stop()
    assert f"a node named a lives at http://127.0.0.1:{nodes['a'].port}" in second.process.said(20_000)
    # It ends at the first node that it hears.
    assert re.search(r"the key between gateways and nodes is not that of (a|b|a, b): KINBIN", stranger.process.said(20_000))
    assert (await nodes["a"].ask("GET", "/cluster/node")).status_code == 200
