"""One server, or all parts of a cluster, under measurement: filled, asked, and weighed process by process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

from common import K, ids_of
from kinbin_client import Client
from kinbin_cluster.commands import Session, opened
from kinbin_cluster.dev import DevCluster
from kinbin_cluster.objects import Objects
from kinbin_cluster.picture import Collection, Picture
from kinbin_cluster.quick_message import MEDIA_TYPE, QuickQuery
from kinbin_cluster.quick_message import PATH as QUICK
from kinbin_cluster.settings import ClusterSettings
from load import Answered, Ask, asked_by, http_post
from patches import DIMENSION
from servers import serving, until_ready

__all__ = [
    "NAME",
    "Parts",
    "Weighed",
    "asked_in_turn",
    "asked_openly",
    "bodies",
    "carried",
    "cluster_of",
    "dropped",
    "filled",
    "is_linked",
    "moved",
    "node_bodies",
    "one_server",
    "rested",
    "settings_of",
    "shapes",
    "wait_until_linked",
    "wait_until_settled",
    "weighed",
]

NAME = "histograms"
CHUNK = 20_000
"""Rows that are made dense at a time."""
LINKED_FROM = 12_288
"""Rows of a shard that are linked in any case."""
FRESH = 4_096
"""Rows that a run has at least."""
AT_REST, SECOND = 0.15, 1.0
"""Seconds of processor that parts use in a second when nothing is to be done: nodes tell that they live."""
PATIENCE = 900.0
QUIET = {"KINBIN_ACCESS_LOG": "false"}


@dataclass(frozen=True, slots=True)
class Parts:
    """Where to ask, and the process ids by kind: `server`, or `gateway`, `node`, `log`. folders: where each kind keeps its files."""

    address: str
    pids: Mapping[str, Sequence[int]]
    folders: Mapping[str, Sequence[Path]]
    cluster: DevCluster | None = None

    @property
    def port(self) -> int:
        """Of the address."""
        return int(self.address.rsplit(":", 1)[1])

    def processor(self) -> dict[str, float]:
        """Seconds of processor that each kind has used since it started."""
        return {kind: sum(map(_used, pids)) for kind, pids in self.pids.items()}

    def own_bytes(self) -> dict[str, int]:
        """Memory that is no file's, of each kind."""
        return {kind: sum(map(_own, pids)) for kind, pids in self.pids.items()}

    def file_bytes(self, kind: str) -> int:
        """Blocks on disk."""
        return sum(map(_blocks, self.folders[kind]))


def _blocks(folder: Path) -> int:
    """Bytes of a folder whose files come and go."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(root) / name).stat().st_blocks * 512
    return total


def _used(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _own(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@contextmanager
def one_server(data: Path) -> Iterator[Parts]:
    """A server on a data directory."""
    with serving(data, data.with_suffix(".log"), access_log="false") as server:
        until_ready(server)
        yield Parts(f"http://127.0.0.1:{server.port}", {"server": [server.process.pid]}, {"server": [data]})


@contextmanager
def cluster_of(folder: Path, nodes: int, **settings: str) -> Iterator[Parts]:
    """A cluster with three NATS servers, a gateway and so many nodes."""
    with DevCluster(folder, nodes=nodes, extra=QUIET | settings) as cluster:
        pids = {
            "gateway": [part.pid for part in cluster.gateways.values()],
            "node": [part.pid for part in cluster.nodes.values()],
            "log": [process.pid for process in cluster.servers.processes],
        }
        folders = {"node": [cluster.folder / name for name in cluster.nodes], "log": [cluster.folder / "nats"]}
        yield Parts(cluster.address, pids, folders, cluster)


# ------------------------------------------------------------------------------------------ filling


def filled(parts: Parts, rows: Any, *, name: str = NAME, shards: int | None = None) -> float:
    """Make a collection, and add all rows, a client's own batches; seconds that the adds took until they were acknowledged."""
    layout = {} if shards is None else {"cluster": {"shards": shards, "replicas": 1}}
    body = json.dumps({"dim": DIMENSION, **layout}).encode()
    order = urllib.request.Request(f"{parts.address}/v1/collections/{name}", body, {"content-type": "application/json"}, method="PUT")
    with urllib.request.urlopen(order, timeout=60):
        pass
    seconds = 0.0
    with Client(parts.address) as client:
        collection = client.collection(name)
        for first in range(0, rows.shape[0], CHUNK):
            part = shapes(rows[first : first + CHUNK])
            started = time.perf_counter()
            collection.add(ids_of(first, first + len(part)), part)
            seconds += time.perf_counter() - started
    return seconds


def shapes(counts: Any) -> NDArray[np.float32]:
    """Histograms as dense rows, divided by their sums: numbers of many digits, as features mostly are."""
    values = np.asarray(counts.toarray(), np.float32)
    return np.ascontiguousarray(values / values.sum(1, keepdims=True))


def wait_until_linked(parts: Parts, rows: int, name: str = NAME) -> float:
    """Seconds until all items are counted, and linked where shards are large enough to be. Raises RuntimeError with what is left."""
    started = time.perf_counter()
    with Client(parts.address, read_your_writes=False) as client:
        collection = client.collection(name)
        while not is_linked(stats := collection.stats(), rows):
            if time.perf_counter() - started > PATIENCE:
                raise RuntimeError(f"{rows:,} rows are not counted and linked after {PATIENCE:g} s: {_left_to_link(stats)}")
            time.sleep(0.1)
    return time.perf_counter() - started


def wait_until_settled(parts: Parts) -> None:
    """Return when all parts together use hardly any processor for a second: nothing is merged or linked. Raises RuntimeError."""
    give_up = time.perf_counter() + PATIENCE
    while time.perf_counter() < give_up:
        if sum(_difference(parts, lambda: time.sleep(SECOND)).values()) < AT_REST:
            return
    raise RuntimeError(f"the parts still work after {PATIENCE:g} s")


def is_linked(stats: Mapping[str, Any], rows: int) -> bool:
    """Whether so many items are counted, and nothing of them is left to link. stats: of a collection, at a server or a gateway.

    The newest rows of a shard wait until they are enough for a run, and one in 64 waits for the next merge: there may be as many for ever.
    """
    held = _by_shard(stats)
    return sum(one["count"] for one in held) == rows and all(map(_nothing_left, held))


def _by_shard(stats: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one["stats"] for one in stats["shards"]] if "shards" in stats else [stats]


def _nothing_left(stats: Mapping[str, Any]) -> bool:
    count, links = stats["count"], stats["links"]
    return count < LINKED_FROM or (links is not None and links["unlinked_rows"] <= FRESH + count / 64)


def _left_to_link(stats: Mapping[str, Any]) -> str:
    """For people: of each shard its items, and those without links."""
    told = [(one["count"], one["count"] if one["links"] is None else one["links"]["unlinked_rows"]) for one in _by_shard(stats)]
    return ", ".join(f"{unlinked:,} of {count:,} have no links" for count, unlinked in told)


def dropped(parts: Parts, names: Sequence[str]) -> None:
    """Remove collections."""
    with Client(parts.address) as client:
        for name in names:
            client.drop_collection(name)


# ------------------------------------------------------------------------------------------- asking


def bodies(queries: Any, name: str = NAME, **options: Any) -> list[bytes]:
    """Requests of one vector each."""
    vectors = [[float(str(value)) for value in query] for query in shapes(queries)]
    return [http_post(f"/v1/collections/{name}/query", json.dumps({"vector": one, "k": K, **options}).encode()) for one in vectors]


def asked_in_turn(port: int, requests: Sequence[bytes], seconds: float, connections: int = 1) -> Answered:
    """Each connection asks again when it is answered. Raises RuntimeError unless all answers are 200."""
    return _sound(asked_by(1, Ask(port, requests, connections, seconds)))


def asked_openly(port: int, requests: Sequence[bytes], seconds: float, rate: float, seed: int = 0) -> Answered:
    """At random moments, so many a second in the mean, whether or not others are answered."""
    rng = random.Random(seed)
    due, moment = [], rng.expovariate(rate)
    while moment < seconds:
        due.append(moment)
        moment += rng.expovariate(rate)
    return _sound(asked_by(1, Ask(port, requests, 32, seconds + 1.0, due=due)))


def _sound(answered: Answered) -> Answered:
    if not len(answered.status) or (answered.status != 200).any():
        raise RuntimeError(f"answers are {np.unique(answered.status).tolist()}")
    return answered


@dataclass(frozen=True, slots=True)
class Weighed:
    """Queries asked in turn: seconds of each; processor seconds a query of each kind of part, and of who asked; answers a second."""

    seconds: NDArray[np.float64]
    processor: Mapping[str, float]
    client: float
    rate: float


def weighed(parts: Parts, requests: Sequence[bytes], seconds: float, connections: int = 1, port: int | None = None) -> Weighed:
    """Ask in turn, and tell what each kind of part used beyond what it uses at rest."""
    target = parts.port if port is None else port
    asked_in_turn(target, requests, 1.0, connections)
    wait_until_settled(parts)
    rest = _difference(parts, lambda: time.sleep(2.0))
    found: list[Answered] = []
    started = time.perf_counter()
    used = _difference(parts, lambda: found.append(asked_in_turn(target, requests, seconds, connections)))
    passed, answered = time.perf_counter() - started, found[0]
    count = len(answered.seconds)
    each = {kind: max(0.0, used[kind] - rest[kind] * passed / 2.0) / count for kind in used}
    return Weighed(answered.seconds, each, float(answered.processor.sum()) / count, answered.rate(float(answered.at.max())))


def rested(parts: Parts, requests: Sequence[bytes], seconds: float, rate: float) -> Weighed:
    """The same at random moments, so many a second: what a query takes of parts that rest between."""
    asked_openly(parts.port, requests, 1.0, rate)
    wait_until_settled(parts)
    rest = _difference(parts, lambda: time.sleep(2.0))
    found: list[Answered] = []
    used = _difference(parts, lambda: found.append(asked_openly(parts.port, requests, seconds, rate, 1)))
    answered = found[0]
    count = len(answered.seconds)
    each = {kind: max(0.0, used[kind] - rest[kind] * seconds / 2.0) / count for kind in used}
    return Weighed(answered.seconds, each, float(answered.processor.sum()) / count, count / seconds)


def _difference(parts: Parts, work: Callable[[], object]) -> dict[str, float]:
    before = parts.processor()
    work()
    return {kind: value - before[kind] for kind, value in parts.processor().items()}


# ------------------------------------------------------------------------------------------ moving


def settings_of(parts: Parts) -> ClusterSettings:
    """What orders to its cluster need."""
    assert parts.cluster is not None
    servers = parts.cluster.servers
    return ClusterSettings(nats=servers.addresses, nats_replicas=servers.replicas, key=SecretStr(parts.cluster.key))


def moved(parts: Parts, shard: int, name: str = NAME) -> float:
    """Order a shard with one replica on to a node that has it not; seconds until it answers there."""
    return asyncio.run(_moved(settings_of(parts), name, shard))


async def _moved(settings: ClusterSettings, name: str, shard: int) -> float:
    async with opened(settings) as session:
        place = (_found(session, name).uid, shard)
        (source,) = session.picture.shards[place].replicas
        target = next(node for node in session.picture.nodes if node != source)

        def live(picture: Picture) -> bool:
            copy = picture.replica(*place, target)
            return copy is not None and copy.state == "live"

        started = time.perf_counter()
        await session.registry.change_shard(*place, lambda held: replace(held, joining=(*held.joining, target), leaving=(source,)))
        if not await session.registry.wait_for(live, PATIENCE):
            raise RuntimeError(f"shard {shard} is not live on {target} after {PATIENCE:g} s")
        return time.perf_counter() - started


def _found(session: Session, name: str) -> Collection:
    collection = session.picture.resolved(name)
    if collection is None:
        raise RuntimeError(f"there is no collection {name}")
    return collection


def node_bodies(parts: Parts, queries: Any) -> tuple[list[bytes], int, list[bytes]]:
    """Queries as clients send them; the port of the node that has the first shard, and the same queries as a gateway sends them there."""
    uid, address = asyncio.run(_where(settings_of(parts)))
    assert parts.cluster is not None
    options = {"k": K}
    packed = [QuickQuery(uid, 0, options, row.astype(np.float64)).pack() for row in shapes(queries)]
    head = f"POST {QUICK} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {parts.cluster.key}\r\nContent-Type: {MEDIA_TYPE}\r\n"
    own = [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in packed]
    return bodies(queries), int(address.rsplit(":", 1)[1]), own


async def _where(settings: ClusterSettings) -> tuple[str, str]:
    async with opened(settings) as session:
        uid = _found(session, NAME).uid
        return uid, session.picture.nodes[session.picture.shards[uid, 0].replicas[0]].address


def carried(parts: Parts, folder: Path, size: int) -> dict[str, float]:
    """Bytes a second of a file into the snapshot store, and out of it."""
    file = folder / "carried"
    file.write_bytes(random.Random(0).randbytes(size))
    return asyncio.run(_carried(settings_of(parts), file, size))


async def _carried(settings: ClusterSettings, file: Path, size: int) -> dict[str, float]:
    async with opened(settings) as session:
        store = Objects(session.connection)
        started = time.perf_counter()
        await store.put("carried", file)
        there = time.perf_counter()
        await store.get("carried", file.with_suffix(".back"))
        return {"in": size / (there - started), "out": size / (time.perf_counter() - there)}
