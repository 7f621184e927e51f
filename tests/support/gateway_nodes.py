"""A gateway over plain servers in one process, with no NATS: what reads need of nodes is their REST, and a picture that stands still.

Everything runs on an event loop in a thread of its own, so that plain test functions, and Hypothesis, can ask.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeVar

import httpx
import orjson

import kinbin
from kinbin_cluster.applying import apply
from kinbin_cluster.gateway.app import create_app as create_gateway
from kinbin_cluster.gateway.cutting import add_parts
from kinbin_cluster.gateway.service import Gateway
from kinbin_cluster.message import decoded
from kinbin_cluster.node.quick import Quick
from kinbin_cluster.picture import Alias, Collection, Node, Picture, Shard
from kinbin_cluster.settings import ClusterSettings
from kinbin_cluster.shards import local_name
from kinbin_cluster.verdicts import Verdicts
from kinbin_service.app import create_app
from kinbin_service.connections import ServingConfig
from kinbin_service.metrics import Metrics
from kinbin_service.server import DrainingServer
from kinbin_service.settings import Settings
from service_app import eventually

__all__ = ["Answered", "Cluster", "StandIn", "running_cluster"]

Result = TypeVar("Result")


class Answered(NamedTuple):
    """An answer."""

    status: int
    content: Any
    headers: httpx.Headers


class StandIn:
    """What lies between a node's application and its server: tells how far the node is, and can hold requests up, or fail them."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.applied = 1
        self.seen: list[tuple[str, str | None]] = []
        """Path and X-Kinbin-After of each request."""
        self.held = asyncio.Event()
        """Requests wait until it is set."""
        self.held.set()
        self.holds: Callable[[str], bool] = lambda _: True
        """Which paths wait for it."""
        self.fails: Callable[[str], tuple[int, str] | None] = lambda _: None
        """Status and code of the problem that a path is answered with; None: it is passed on."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """As a node does it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        self.seen.append((scope["path"], headers.get(b"x-kinbin-after", b"").decode() or None))
        if self.holds(scope["path"]):
            await self.held.wait()
        failure = self.fails(scope["path"])
        if failure is not None:
            await _fail(send, *failure)
            return

        async def telling(message: Any) -> None:
            if message["type"] == "http.response.start" and not scope["path"].startswith("/cluster/"):
                applied = f"{self.applied}-{self.applied}".encode()
                message["headers"] = [*message.get("headers", ()), (b"x-kinbin-applied", applied)]
            await send(message)

        await self.app(scope, receive, telling)


class _Replicas:
    """What the short way of queries sees of a node: all of its collections are replicas, as far as the stand-in says."""

    def __init__(self, stand_in: StandIn, database: kinbin.Database) -> None:
        self._stand_in = stand_in
        self._database = database

    def get(self, place: tuple[str, int]) -> Any:
        """The replica of a shard."""
        if local_name(*place) not in self._database.collections():
            return None
        applied = self._stand_in.applied
        progress = SimpleNamespace(applied=applied, begun=applied, reached=_reached)
        return SimpleNamespace(applier=SimpleNamespace(progress=progress), read_for=lambda _: None)


async def _reached(_sequence: int, _seconds: float) -> bool:
    return True


async def _fail(send: Any, status: int, code: str) -> None:
    body = orjson.dumps({"type": "x", "title": "x", "status": status, "code": code, "detail": "x", "errors": [], "limit": None})
    head = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


class Cluster:
    """Nodes, a gateway, and one server with the same items, which is the oracle. Asked from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.picture = Picture(3_600.0)
        self.nodes: dict[str, StandIn] = {}
        self.databases: dict[str, kinbin.Database] = {}
        self.gateway: Gateway
        self.gateway_client: httpx.AsyncClient
        self.oracle_client: httpx.AsyncClient
        self.oracle: kinbin.Database
        self._made = self._numbers = 0

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What some work on the loop gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(110)

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Answered:
        """What the gateway answers to JSON, or to `content=` bytes."""
        return self.run(_asked(self.gateway_client, method, path, body, more))

    def ask_one(self, method: str, path: str, body: Any = None, **more: Any) -> Answered:
        """What the one server answers to the same."""
        return self.run(_asked(self.oracle_client, method, path, body, more))

    def reached(self, node: str) -> Any:
        """A node, as the gateway reaches it."""

        async def found() -> Any:
            return self.gateway.fanout.node(self.picture.nodes[node].address)

        return self.run(found())

    def begin(self, method: str, path: str, body: Any = None) -> Future[Answered]:
        """Ask the gateway, and go on meanwhile."""
        return asyncio.run_coroutine_threadsafe(_asked(self.gateway_client, method, path, body, {}), self._loop)

    def create(self, shards: int = 3, replicas: int = 1, **options: Any) -> str:
        """A collection on the nodes, in turn, and on the one server; its name."""
        self._made += 1
        name, uid = f"c{self._made}", f"{self._made:012x}"
        schema = kinbin.Schema(**{"seed": 7, **options})
        self.picture.collections[name] = Collection(name, uid, shards, replicas, schema.options, 0.0)
        names = sorted(self.nodes)
        for shard in range(shards):
            holders = tuple(names[(shard + i) % len(names)] for i in range(replicas))
            self.picture.shards[uid, shard] = Shard(holders, holder=holders[0])
            for holder in holders:
                self.databases[holder].create_collection(local_name(uid, shard), **schema.options)
        self.oracle.create_collection(name, **schema.options)
        self.beat()
        return name

    def alias(self, alias: str, name: str) -> None:
        """Another name of a collection, at the gateway."""
        self.picture.aliases[alias] = Alias(name)

    def add(self, name: str, ids: Sequence[str], vectors: Any, payloads: Sequence[Any] | None = None) -> None:
        """Add items, with the numbers that a gateway gives their rows."""
        collection = self.picture.collections[name]
        self.oracle.collection(name).add(ids, vectors, payloads=payloads)
        checked = kinbin.Schema(**collection.configuration).check(ids, vectors, payloads)
        for part in add_parts(checked, collection.shards, {}):
            entry = 1, decoded(part.numbered(self._numbers).messages)
            for holder in self.picture.shards[collection.uid, part.shard].replicas:
                local = self.databases[holder].collection(local_name(collection.uid, part.shard))
                apply(local, [entry], Verdicts({}))
        self._numbers += len(ids)
        self.beat()

    def beat(self) -> None:
        """Tell the picture that all nodes live, with all their shards live."""
        for name in self.nodes:
            shards = {f"{uid}.{number}": {"applied": 1, "state": "live"} for uid, number, _ in self.picture.shards_of(name)}
            self.picture.hear(name, orjson.dumps({"shards": shards}))


async def _asked(client: httpx.AsyncClient, method: str, path: str, body: Any, more: dict[str, Any]) -> Answered:
    given: dict[str, Any] = {"json": body} if body is not None else {}
    response = await client.request(method, path, **{**given, **more})
    is_json = "json" in response.headers.get("content-type", "")
    return Answered(response.status_code, orjson.loads(response.content) if is_json else response.text, response.headers)


@contextmanager
def running_cluster(folder: Path, nodes: int = 3, **settings: Any) -> Iterator[Cluster]:
    """A cluster of so many nodes and a gateway with these settings, for the block."""
    # Kernels are compiled before the first test; those that are used are loaded when they are.
    warm_up, kinbin.warm_up = kinbin.warm_up, lambda *_, **__: None
    loop = asyncio.new_event_loop()
    cluster = Cluster(loop)
    begun, ending = threading.Event(), asyncio.Event()
    failures: list[BaseException] = []

    async def live() -> None:
        async with AsyncExitStack() as stack:
            for i in range(nodes):
                await stack.enter_async_context(_node(cluster, f"n{i}", folder / f"n{i}"))
            app = create_app(Settings(data_dir=folder / "one"))
            await stack.enter_async_context(app.router.lifespan_context(app))
            await eventually(lambda: app.state.service.state == "ready", 110.0)
            cluster.oracle, cluster.oracle_client = app.state.service.database, await stack.enter_async_context(_client(app))
            gateway = create_gateway(Settings(**settings), ClusterSettings(), running=lambda metrics: _standing(cluster, metrics, settings))
            await stack.enter_async_context(gateway.router.lifespan_context(gateway))
            cluster.gateway, cluster.gateway_client = gateway.state.service, await stack.enter_async_context(_client(gateway))
            begun.set()
            await ending.wait()

    def work() -> None:
        try:
            loop.run_until_complete(live())
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            begun.set()
            loop.close()

    thread = threading.Thread(target=work, name="test-cluster")
    thread.start()
    begun.wait()
    try:
        if failures:
            raise failures[0]
        yield cluster
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ending.set)
        thread.join()
        kinbin.warm_up = warm_up


def _client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost", timeout=60.0)


@asynccontextmanager
async def _standing(cluster: Cluster, metrics: Metrics, settings: dict[str, Any]) -> Any:
    gateway = Gateway(Settings(**settings), ClusterSettings(), cluster.picture, metrics)
    async with gateway.serving():
        yield gateway


@asynccontextmanager
async def _node(cluster: Cluster, name: str, folder: Path) -> Any:
    """A server on a port of its own."""
    settings = Settings(data_dir=folder, port=0)
    app = create_app(settings)
    stand_in = StandIn(Quick(app, settings))
    config = ServingConfig(settings, stand_in, lifespan="on", log_config=None, timeout_graceful_shutdown=1)  # type: ignore[arg-type]
    listening = socket.create_server(("127.0.0.1", 0))
    server = DrainingServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await eventually(lambda: server.started and app.state.service.state == "ready", 110.0)
    cluster.nodes[name], cluster.databases[name] = stand_in, app.state.service.database
    app.state.node = SimpleNamespace(replicas=_Replicas(stand_in, app.state.service.database))
    cluster.picture.nodes[name] = Node(name, f"http://127.0.0.1:{listening.getsockname()[1]}")
    try:
        yield
    finally:
        stand_in.held.set()
        server.should_exit = True
        await serving
