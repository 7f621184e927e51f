"""A collection is cut into other shards while it is written to; broken off it is as it was, and begun again it comes to its end."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

pytest.importorskip("nats", reason="the extra cluster is not installed")

from kinbin_cluster import copying, registry, resharding, rounds
from kinbin_cluster.commands import Refused, opened
from kinbin_cluster.dev import DevCluster
from kinbin_cluster.errors import ClusterError
from kinbin_cluster.message import Edit, encoded
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.server]
NAMES = (f"c{number}" for number in itertools.count())
LONG = 90.0
Contents = dict[str, tuple[list[float], Any]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """One server, two nodes and a gateway; snapshots are made after few messages."""
    extra = {"KINBIN_CLUSTER_SNAPSHOT_MESSAGES": "20", "KINBIN_CLUSTER_PUBLISH_SECONDS": "3", "KINBIN_CLUSTER_BEAT_SECONDS": "0.1"}
    with DevCluster(tmp_path_factory.mktemp("reshard"), nodes=2, servers=1, extra=extra) as cluster:
        yield cluster


@pytest.fixture
def gateway(cluster: DevCluster) -> Iterator[httpx.Client]:
    """Of its gateway."""
    with httpx.Client(base_url=cluster.address, timeout=30) as client:
        yield client


def filled(gateway: httpx.Client, count: int, **options: Any) -> tuple[str, Contents]:
    """A new collection of two shards with so many items; its name, and what it holds."""
    name = next(NAMES)
    made = gateway.put(f"/v1/collections/{name}", json={"dim": 2, "cluster": {"shards": 2, "replicas": 1}, **options})
    assert made.status_code == 201, made.text
    contents: Contents = {f"i{number}": ([float(number), 1.0], {"n": number}) for number in range(count)}
    assert write(gateway, name, contents) == 200
    return name, contents


def write(gateway: httpx.Client, name: str, contents: Contents, statuses: set[int] | None = None) -> int:
    """Add items; returns the status. As clients do, it sends them again as long as the answer is 503; statuses: all that came meanwhile."""
    items = [{"id": key, "vector": vector, "payload": payload} for key, (vector, payload) in contents.items()]
    return done(gateway, f"/v1/collections/{name}/index", {"items": items}, statuses)


def done(gateway: httpx.Client, path: str, body: Any, statuses: set[int] | None = None) -> int:
    """The status of a write, sent again as long as it is 503."""
    deadline = time.monotonic() + LONG
    while (status := gateway.post(path, json=body).status_code) == 503 and time.monotonic() < deadline:
        if statuses is not None:
            statuses.add(status)
        time.sleep(0.02)
    return status


def until(holds: Callable[[], object]) -> None:
    """Wait until something holds: each gateway hears of a change by itself."""
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def held(gateway: httpx.Client, name: str) -> Contents:
    """All items of a collection."""
    asked = {"limit": 1_000, "include": ["payload", "vector"]}
    items = gateway.post(f"/v1/collections/{name}/scroll", json=asked).raise_for_status().json()["items"]
    return {one["id"]: (one["vector"], one.get("payload")) for one in items}


def all_of(gateway: httpx.Client, name: str) -> Iterator[dict[str, Any]]:
    """All items of a collection, page by page."""
    after = None
    while True:
        asked = {"limit": 1_000, **({"after": after} if after else {})}
        page = gateway.post(f"/v1/collections/{name}/scroll", json=asked).raise_for_status().json()
        yield from page["items"]
        if (after := page["next"]) is None:
            return


def settings_of(cluster: DevCluster) -> ClusterSettings:
    """Of a command."""
    return ClusterSettings(nats=cluster.servers.addresses, nats_replicas=1)


def reshard(cluster: DevCluster, name: str, shards: int, **options: Any) -> dict[str, Any]:
    """What the command's function returns."""
    return asyncio.run(resharding.reshard(settings_of(cluster), name, shards, lambda _: None, **options))


def has_shards(gateway: httpx.Client, name: str, count: int) -> bool:
    """Whether a collection has so many, as the gateway has heard by now."""
    answer = gateway.get(f"/v1/collections/{name}")
    if answer.status_code == 503:
        # No node has opened all of them yet.
        return False
    return bool(answer.raise_for_status().json()["cluster"]["shards"] == count)


def refused(gateway: httpx.Client, name: str, status: int, code: str) -> bool:
    """Whether a write is refused so."""
    answer = gateway.post(f"/v1/collections/{name}/delete", json={"ids": ["nobody"]})
    return (answer.status_code, answer.json().get("code")) == (status, code)


@contextmanager
def written_to(gateway: httpx.Client, name: str, contents: Contents) -> Iterator[set[int]]:
    """Inside, items are added, changed and deleted all the time; `contents` keeps what is acknowledged. Yields the statuses."""
    ends, statuses, rng = threading.Event(), set[int](), random.Random(3)

    def run() -> None:
        for number in itertools.count():
            if ends.is_set():
                return
            new: Contents = {f"w{number}": ([1.0, number + 1.0], None), rng.choice(list(contents)): ([2.0, number + 1.0], {"w": number})}
            statuses.add(write(gateway, name, new, statuses))
            contents.update(new)
            gone = rng.choice(list(contents))
            statuses.add(done(gateway, f"/v1/collections/{name}/delete", {"ids": [gone]}, statuses))
            contents.pop(gone)

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield statuses
    finally:
        ends.set()
        writer.join()


def left_over(gateway: httpx.Client, name: str) -> list[str]:
    """Collections that were made on the way, by their names."""
    return [one for one in gateway.get("/v1/collections").json()["collections"] if one.startswith(f"{name}-")]


def test_nothing_is_lost_while_it_is_written_to(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Edits that come meanwhile are in the new shards; its alias follows; the old one is kept as it was, and takes no writes."""
    name, contents = filled(gateway, 300)
    gateway.post(f"/v1/collections/{name}/indexes", json={"add": {"n": "number"}}).raise_for_status()
    gateway.put("/v1/aliases/led", json={"collection": name}).raise_for_status()
    with written_to(gateway, "led", contents) as statuses:
        told = reshard(cluster, "led", 5)
        until(lambda: has_shards(gateway, "led", 5))
    assert statuses <= {200, 503}
    assert held(gateway, name) == held(gateway, "led") == contents
    assert 0 < told["paused_seconds"] < resharding._PAUSE_SECONDS
    assert len(held(gateway, told["kept"])) == told["items"]
    assert refused(gateway, told["kept"], 501, "not_in_cluster")
    indexes = gateway.post(f"/v1/collections/{name}/indexes", json={"add": {"m": "number"}}).json()["indexes"]
    assert set(indexes["fields"]) == {"n", "m"}


def test_ties_keep_their_order_while_it_is_written_to(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Items with the same score are in the order in which they were last written, before it and behind it and whenever that was."""
    name, ids, rng = next(NAMES), [f"i{number}" for number in range(40)], random.Random(5)
    dim = 1 + 2 * len(ids)
    gateway.put(
        f"/v1/collections/{name}", json={"kernel": "minmax", "dim": dim, "cluster": {"shards": 2, "replicas": 1}}
    ).raise_for_status()
    order: list[str] = []
    turns, ends = dict.fromkeys(ids, 0), threading.Event()

    def change(some: list[str]) -> None:
        contents: Contents = {}
        for one in some:
            vector = [0.0] * dim
            turns[one] += 1
            vector[0] = vector[1 + 2 * ids.index(one) + turns[one] % 2] = 1.0
            contents[one] = vector, None
        assert write(gateway, name, contents) == 200
        order[:] = [one for one in order if one not in some] + some

    def run() -> None:
        while not ends.is_set():
            change(rng.sample(ids, rng.randint(1, 4)))

    def found() -> list[str]:
        asked = {"vector": [1.0] + [0.0] * (dim - 1), "k": len(ids), "mode": "exact"}
        answer = gateway.post(f"/v1/collections/{name}/query", json=asked).raise_for_status().json()
        return [one["id"] for one in answer["results"]]

    change(ids)
    assert found() == order
    writer = threading.Thread(target=run)
    writer.start()
    try:
        reshard(cluster, name, 5)
        until(lambda: has_shards(gateway, name, 5))
    finally:
        ends.set()
        writer.join()
    assert found() == order
    change(rng.sample(ids, 7))
    change(rng.sample(ids, 7))
    assert found() == order


def test_the_command_tells_and_drops(cluster: DevCluster, gateway: httpx.Client) -> None:
    """People read each step; limits hold; with --drop-old no old name is left; a collection that is not there is refused in a line."""
    name, contents = filled(gateway, 40)
    gateway.put(f"/v1/collections/{name}/limits", json={"items": 40}).raise_for_status()
    answer = CliRunner().invoke(app, ["cluster", "reshard", name, "--shards", "1", "--drop-old"], env=cluster.environment)
    assert answer.exit_code == 0, answer.output
    assert "round 1: 40 items written" in answer.stdout
    assert "40 items are alike" in answer.stdout
    assert "writes were refused for" in answer.stdout
    until(lambda: has_shards(gateway, name, 1))
    assert held(gateway, name) == contents
    assert write(gateway, name, {"more": ([1.0, 2.0], None)}) == 422
    until(lambda: not left_over(gateway, name))
    answer = CliRunner().invoke(app, ["cluster", "reshard", "nobody", "--shards", "1"], env=cluster.environment)
    assert (answer.exit_code, "there is no collection nobody" in answer.stderr) == (1, True)


def test_writers_never_hear_that_it_is_not_there(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Beside cuts that drop what it was, a write is done, or refused for the time being, and then nothing of it is there."""
    name, _ = filled(gateway, 20)
    ends, told = threading.Event(), list[tuple[list[str], int, dict[str, Any]]]()

    def run(writer: int) -> None:
        with httpx.Client(base_url=cluster.address, timeout=60) as client:
            for number in itertools.count():
                if ends.is_set():
                    return
                ids = [f"w{writer}-{number}-{one}" for one in range(3)]
                items = [{"id": one, "vector": [1.0, number + 1.0]} for one in ids]
                answer = client.post(f"/v1/collections/{name}/index", json={"items": items})
                told.append((ids, answer.status_code, answer.json()))

    writers = [threading.Thread(target=run, args=(writer,)) for writer in range(8)]
    for one in writers:
        one.start()
    try:
        for shards in (3, 2):
            reshard(cluster, name, shards, drop_old=True)
            until(lambda shards=shards: has_shards(gateway, name, shards))  # type: ignore[misc]
    finally:
        ends.set()
        for one in writers:
            one.join()
    there = {one["id"] for one in all_of(gateway, name)}
    assert {status for _, status, _ in told} <= {200, 503}
    assert {one for ids, status, _ in told if status == 200 for one in ids} <= there
    assert not {one for ids, status, body in told if status == 503 and "nothing was written" in body["detail"] for one in ids} & there


def test_items_of_several_fields(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Every field of an item is taken over."""
    name = next(NAMES)
    fields = {"a": {"dim": 2}, "b": {"dim": 3, "kernel": "chi2"}}
    gateway.put(f"/v1/collections/{name}", json={"fields": fields, "cluster": {"shards": 2, "replicas": 1}}).raise_for_status()
    items = [{"id": str(n), "vectors": {"a": [n + 1.0, 1], "b": [1, n, 2.0]}} for n in range(30)]
    gateway.post(f"/v1/collections/{name}/index", json={"items": items}).raise_for_status()
    asked = {"limit": 100, "include": ["vector"]}
    before, _, after = (
        gateway.post(f"/v1/collections/{name}/scroll", json=asked).json()["items"],
        reshard(cluster, name, 3),
        gateway.post(f"/v1/collections/{name}/scroll", json=asked).json()["items"],
    )
    assert len(before) == 30
    assert after == before


def _leaves_one_out(changes: Callable[..., Any]) -> Callable[..., Any]:
    def less(*arguments: Any) -> Iterator[Any]:
        for edit in changes(*arguments):
            some = [i for i, key in enumerate(edit.ids) if key != b"i7"]
            if edit.op == "add" and some:
                rows = {name: one.take(some) for name, one in edit.rows.items()}
                places = list(range(len(some)))
                yield Edit("add", [edit.ids[i] for i in some], [edit.payloads[i] for i in some], rows, positions=places, first=0)

    return less


def test_what_differs_is_found_and_the_old_one_takes_writes_again(
    cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One item that is not copied is found before any name changes; the old collection goes on, and another run does it."""
    name, contents = filled(gateway, 20)
    with monkeypatch.context() as patch:
        patch.setattr(rounds.Round, "edits", _leaves_one_out(rounds.Round.edits))
        with pytest.raises(Refused, match="19 items and the old ones 20"):
            reshard(cluster, name, 3)
    new: Contents = {"later": ([5.0, 5.0], None)}
    assert write(gateway, name, new) == 200
    assert has_shards(gateway, name, 2)
    reshard(cluster, name, 3)
    until(lambda: has_shards(gateway, name, 3))
    assert held(gateway, name) == contents | new


def _before(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, act: Callable[[], object], *, stalled: bool = False) -> None:
    """Do something before a step of the command, once; stalled: meanwhile the command does nothing else either."""
    step: Callable[..., Any] = getattr(owner, name)
    acts = iter([act])

    async def acting(*arguments: Any, **options: Any) -> Any:
        for one in acts:
            if stalled:
                with ThreadPoolExecutor() as threads:
                    threads.submit(one).result()
            else:
                await asyncio.to_thread(one)
        return await step(*arguments, **options)

    monkeypatch.setattr(owner, name, acting)


def test_what_is_stored_behind_the_end_of_a_closed_log_is_seen(
    cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that a server took before it heard of the pause may come late, and be acknowledged: the names stay, and writes go on."""
    name, _ = filled(gateway, 20)
    compared = resharding._compared

    async def late(session: Any, copy: Any) -> None:
        await compared(session, copy)
        (payload,) = encoded(Edit("mark", now=time.time(), more={"name": "late"}))
        await session.log.end(copy.old.uid, 0, payload, "late")

    monkeypatch.setattr(resharding, "_compared", late)
    with pytest.raises(Refused, match="shard 0 was written to though it takes no writes"):
        reshard(cluster, name, 3)
    assert write(gateway, name, {"later": ([1.0, 1.0], None)}) == 200
    assert "later" in held(gateway, name)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(
    ("owner", "step"),
    [(copying.Copy, "caught_up"), (resharding, "_rounds"), (resharding, "_paused"), (resharding, "_compared"), (resharding, "_swapped"),
     (registry.Registry, "put_name")],
)  # fmt: skip
def test_dropped_meanwhile(
    owner: Any, step: str, anew: bool, cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends and says so; nothing of it is left; one that has the name by then takes writes, and holds its own items alone."""
    name, _ = filled(gateway, 20)
    path = f"/v1/collections/{name}"

    def drop() -> None:
        gateway.delete(path).raise_for_status()
        if anew:
            gateway.put(path, json={"dim": 2, "cluster": {"shards": 2, "replicas": 1}}).raise_for_status()
            assert write(gateway, name, {"own": ([1.0, 1.0], None)}) == 200

    _before(monkeypatch, owner, step, drop)
    began = time.monotonic()
    with pytest.raises((Refused, ClusterError)):
        reshard(cluster, name, 3)
    assert time.monotonic() - began < LONG
    until(lambda: not left_over(gateway, name))
    if anew:
        assert write(gateway, name, {"later": ([1.0, 1.0], None)}) == 200
        assert set(held(gateway, name)) == {"own", "later"}
    else:
        until(lambda: gateway.get(path).status_code == 404)
        filled_again = gateway.put(path, json={"dim": 2, "cluster": {"shards": 2, "replicas": 1}})
        assert filled_again.status_code == 201


@pytest.mark.parametrize(("step", "shards"), [("_rounds", 4), ("_compared", 4), ("_swapped", 3)])
def test_a_command_that_stalled_changes_nothing(
    step: str, shards: int, cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose lease another one has taken meanwhile: it opens no log, and the name leads where the other one has led it, or both would."""
    name, contents = filled(gateway, 20)
    later: Contents = {"later": ([9.0, 1.0], None)}

    def another() -> None:
        monkeypatch.undo()
        asyncio.run(steal(cluster, name))
        # Behind the comparison it brings the names of the first to their end, and what it was asked for is not begun.
        reshard(cluster, name, 4)
        assert write(gateway, name, later) == 200

    _before(monkeypatch, resharding, step, another, stalled=True)
    with nullcontext() if step == "_swapped" else pytest.raises((Refused, ClusterError)):
        reshard(cluster, name, 3)
    until(lambda: has_shards(gateway, name, shards))
    assert held(gateway, name) == contents | later
    reshard(cluster, name, 2)
    until(lambda: has_shards(gateway, name, 2))
    assert held(gateway, name) == contents | later


def test_indexes_of_several_fields_come_along(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Those that were declared, and dropped, since the collection was made."""
    name = next(NAMES)
    path = f"/v1/collections/{name}"
    body = {"fields": {"x": {"dim": 2}, "y": {"dim": 2}}, "indexes": {"a": "keyword"}, "cluster": {"shards": 2, "replicas": 1}}
    gateway.put(path, json=body).raise_for_status()
    gateway.post(f"{path}/indexes", json={"add": {"b": "number"}, "drop": ["a"]}).raise_for_status()
    items = [{"id": "i", "vectors": {"x": [1, 2], "y": [2, 1]}, "payload": {"a": "z", "b": 1}}]
    assert done(gateway, f"{path}/index", {"items": items}) == 200
    reshard(cluster, name, 3)
    until(lambda: has_shards(gateway, name, 3))
    assert gateway.get(path).json()["stats"]["indexes"]["fields"].keys() == {"b"}


def test_a_collection_that_is_nearly_full(cluster: DevCluster, gateway: httpx.Client) -> None:
    """Shares of its limit refuse no item that it has, however the new shards fill; the limit holds afterwards."""
    name, contents = filled(gateway, 60)
    gateway.put(f"/v1/collections/{name}/limits", json={"items": 60}).raise_for_status()
    reshard(cluster, name, 7)
    until(lambda: has_shards(gateway, name, 7))
    assert held(gateway, name) == contents
    refused = gateway.post(f"/v1/collections/{name}/index", json={"items": [{"id": f"n{i}", "vector": [1, 1]} for i in range(60)]})
    assert (refused.status_code, refused.json()["code"]) == (422, "over_limit")


async def steal(cluster: DevCluster, name: str) -> None:
    """Let the lease of a command go, as if it had not been renewed."""
    async with opened(settings_of(cluster)) as session:
        await session.registry.change_lease(f"reshard.{name}", lambda held: held | {"owner": ""} if held else held)


class Killed(BaseException):
    """Nothing is put right after it."""


def test_killed_while_names_change_it_is_brought_to_its_end(
    cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once contents were compared the old one takes no writes (503), it cannot be given up any more, and another run ends it."""
    name, contents = filled(gateway, 20)

    async def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(resharding, "_swapped", killed)
        with pytest.raises(Killed):
            reshard(cluster, name, 3)
    until(lambda: refused(gateway, name, 503, "storage_busy"))
    with pytest.raises(Refused, match="without --cancel"):
        asyncio.run(resharding.cancel(settings_of(cluster), name, lambda _: None))
    reshard(cluster, name, 3)
    until(lambda: has_shards(gateway, name, 3))
    assert held(gateway, name) == contents
    assert write(gateway, name, {"later": ([5.0, 5.0], None)}) == 200


def test_killed_in_the_pause_it_is_given_up(cluster: DevCluster, gateway: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed while writes pause leaves the old one closed, logs too; --cancel opens it and drops the new one."""
    name, contents = filled(gateway, 20)

    async def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        _before(patch, resharding, "_compared", lambda: patch.setattr(resharding, "_opened", killed))
        patch.setattr(resharding, "_digest", killed)
        with pytest.raises(Killed):
            reshard(cluster, name, 3)
    until(lambda: refused(gateway, name, 503, "storage_busy"))
    asyncio.run(resharding.cancel(settings_of(cluster), name, lambda _: None))
    new: Contents = {"later": ([5.0, 5.0], None)}
    assert write(gateway, name, new) == 200
    assert held(gateway, name) == contents | new
    until(lambda: not left_over(gateway, name))
