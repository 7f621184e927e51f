"""NATS servers for the tests of the cluster: real ones, on loopback, started once for a file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

pytest.importorskip("nats", reason="the extra cluster is not installed")
if shutil.which("nats-server") is None and not (Path(sys.executable).parent / "nats-server").exists():
    pytest.skip("there is no nats-server", allow_module_level=True)

from forking import popen
from kinbin_cluster import servers
from kinbin_cluster.connecting import Connection
from kinbin_cluster.log import Log
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers
from kinbin_cluster.settings import ClusterSettings


@pytest.fixture(scope="session", autouse=True)
def _forked() -> Iterator[None]:
    """Nodes and gateways are forks of a process that has loaded everything; servers of NATS are programs of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": popen}))
        yield


@pytest.fixture(scope="module")
def nats_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """One server: everything but the loss of servers."""
    servers = NatsServers(tmp_path_factory.mktemp("nats"), 1)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def nats_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """Three servers, of which one may go."""
    servers = NatsServers(tmp_path_factory.mktemp("nats"), 3)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture
def settings(nats_one: NatsServers) -> ClusterSettings:
    """Settings for the one server. Who was heard once lives for the whole test, however slow the machine is."""
    return ClusterSettings(nats=nats_one.addresses, nats_replicas=1, lost_seconds=60.0)


@pytest_asyncio.fixture
async def connection(settings: ClusterSettings) -> AsyncIterator[Connection]:
    """A connection to the one server."""
    async with await Connection.open(settings, "test") as connection:
        yield connection


@pytest.fixture
def log(connection: Connection) -> Log:
    """The log by that connection."""
    return Log(connection)


@pytest_asyncio.fixture
async def registry(connection: Connection) -> AsyncIterator[Registry]:
    """The registry by that connection, started."""
    registry = Registry(connection)
    await registry.start()
    yield registry
    await registry.stop()


@pytest_asyncio.fixture
async def other(settings: ClusterSettings) -> AsyncIterator[Registry]:
    """The registry as another process sees it, by a connection of its own."""
    async with await Connection.open(settings, "other") as connection:
        registry = Registry(connection)
        await registry.start()
        yield registry
        await registry.stop()
