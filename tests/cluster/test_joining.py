"""Who joins a cluster has its key, a name and files that nobody has; what lacks that is refused before it changes anything."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from kinbin_cluster.dev import Part, locked
from kinbin_cluster.errors import OtherKey, Taken
from kinbin_cluster.gateway.server import run as run_gateway
from kinbin_cluster.gateway.service import told_of
from kinbin_cluster.joining import held, key_print, see_that_key_is_theirs, see_that_name_is_free
from kinbin_cluster.node.server import run as run_node
from kinbin_cluster.picture import Node
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers, Process
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.settings import Settings


def settings_of(nats: NatsServers, name: str, key: str) -> ClusterSettings:
    """Of a node with this name and key."""
    return ClusterSettings(nats=nats.addresses, nats_replicas=1, node=name, key=key, beat_seconds=0.1)


@pytest_asyncio.fixture
async def living(registry: Registry, nats_one: NatsServers) -> AsyncIterator[Registry]:
    """The registry, where a node `first` with the key `ours` has told of itself."""
    await registry.join(Node("first", "http://there:1"))
    await registry.beat("first", {}, key_print=key_print(settings_of(nats_one, "first", "ours"), registry.picture.cluster))
    assert await registry.wait_for(lambda picture: picture.is_live("first"), 60)
    yield registry
    await registry.remove_node("first")


async def test_another_key_is_refused(living: Registry, nats_one: NatsServers) -> None:
    """Who has another key than a node that lives, or none, does not join, and is told whose key differs."""
    await see_that_key_is_theirs(living, settings_of(nats_one, "second", "ours"))
    for key in ("others", ""):
        with pytest.raises(OtherKey, match="is not that of first: KINBIN"):
            await see_that_key_is_theirs(living, settings_of(nats_one, "second", key))


async def test_name_of_a_living_node_is_refused(living: Registry, nats_one: NatsServers) -> None:
    """A name is free when no node that lives tells by it."""
    await see_that_name_is_free(living, settings_of(nats_one, "second", "ours"))
    with pytest.raises(Taken, match="named first lives at http://there:1"):
        await see_that_name_is_free(living, settings_of(nats_one, "first", "ours"))


def test_files_of_a_living_node_are_refused(tmp_path: Path) -> None:
    """A directory is one node's while it runs, and free after it."""
    with held(tmp_path / "node"), pytest.raises(Taken, match="another node runs on the files"), held(tmp_path / "node"):
        pass
    with held(tmp_path / "node"):
        pass


@pytest.mark.parametrize("run", [run_node, run_gateway])
def test_nothing_starts_without_a_key(run: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes and gateways say at once that they need the key."""
    for name in ("KINBIN_CLUSTER_KEY", "KINBIN_CLUSTER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="needs the key between gateways and nodes: KINBIN_CLUSTER_KEY"):
        run()  # type: ignore[operator]


def test_a_folder_is_one_development_cluster_at_a_time(tmp_path: Path) -> None:
    """A second one on a folder is refused, also when who started the first is gone and its parts still run."""
    lock = locked(tmp_path)
    part = Process(["sleep", "60"], tmp_path / "log")
    part.kept = (lock.fileno(),)
    part.start()
    lock.close()
    try:
        with pytest.raises(RuntimeError, match="of a cluster run on"):
            locked(tmp_path)
    finally:
        part.kill()
    locked(tmp_path).close()


def test_a_part_does_not_start_where_something_listens(tmp_path: Path) -> None:
    """What answers at the port of a part would be taken for it: it is refused."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        part = Part("no.such.module", "gateway-0", tmp_path, {}, other.getsockname()[1])
        with pytest.raises(RuntimeError, match="something listens at"):
            part.start()
    assert not part.running


def test_a_gateway_is_named_by_its_host_and_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two on one host, and on one port of two hosts, have different names, and an address that others reach; a name that was set stays."""
    monkeypatch.setattr("socket.gethostname", lambda: "there.example")
    cluster = ClusterSettings(key="k")
    places = [("127.0.0.1", 8080), ("0.0.0.0", 8080), ("0.0.0.0", 8081)]
    told = [told_of(Settings(host=host, port=port), cluster) for host, port in places]
    assert [one.name for one in told] == ["there.example:8080", "there.example:8080", "there.example:8081"]
    assert [one.address for one in told[:2]] == ["http://127.0.0.1:8080", "http://there.example:8080"]
    assert told_of(Settings(host="127.0.0.1", port=0), cluster).name == f"there.example:pid-{os.getpid()}"
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere.example")
    assert told_of(Settings(host="0.0.0.0", port=8080), cluster).name == "elsewhere.example:8080"
    assert told_of(Settings(), ClusterSettings(node="front-1")).name == "front-1"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "reason"), [("node", "a node named first lives at http://there:1"), ("gateway", "is not that of first")])
async def test_who_cannot_join_says_why_in_one_line(
    living: Registry, nats_one: NatsServers, tmp_path: Path, kind: str, reason: str
) -> None:
    """A process whose name is taken, or whose key is another, ends with status 3, one line that says why, and no traceback."""
    beating = asyncio.create_task(_beating(living, nats_one))
    own = {name: value for name, value in os.environ.items() if not name.startswith("KINBIN_")}
    own |= {"KINBIN_CLUSTER_NATS": nats_one.addresses, "KINBIN_CLUSTER_NATS_REPLICAS": "1", "KINBIN_DATA_DIR": str(tmp_path / "data")}
    own |= {"KINBIN_PORT": "0", "KINBIN_CLUSTER_NODE": "first", "KINBIN_CLUSTER_KEY": "ours" if kind == "node" else "others"}
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", f"kinbin_cluster.{kind}", env=own, stderr=asyncio.subprocess.PIPE
        )
        told = (await process.communicate())[1].decode().splitlines()
    finally:
        beating.cancel()
        await asyncio.wait({beating})
    assert process.returncode == 3
    (line,) = [one for one in map(json.loads, told) if one["level"] in {"error", "critical"}]
    assert line["message"] == f"the {kind} does not start"
    assert reason in line["reason"]
    assert "Traceback" not in "".join(told)


async def _beating(registry: Registry, nats: NatsServers) -> None:
    """The node `first` goes on telling of itself."""
    mine = key_print(settings_of(nats, "first", "ours"), registry.picture.cluster)
    while True:
        await registry.beat("first", {}, key_print=mine)
        await asyncio.sleep(0.1)


_DEV = """
import kinbin_cluster.dev, types
class Cluster:
    servers = types.SimpleNamespace(processes=[])
    folder, gateways, parts, environment = "x", {}, [], {"KINBIN_CLUSTER_NATS": "a", "KINBIN_CLUSTER_NATS_REPLICAS": "1"}
    def __init__(self, *_, **__): pass
    def __enter__(self): return self
    def __exit__(self, *_): print("all ended", flush=True)
kinbin_cluster.dev.DevCluster = Cluster
from kinbin_service.cli import app
app(["cluster", "dev"])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_dev_ends_its_parts_however_it_is_ended(number: signal.Signals) -> None:
    """A signal of systemd, of docker or of a closed terminal ends all parts, as Ctrl-C does."""
    with subprocess.Popen([sys.executable, "-c", _DEV], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "ends all" not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.send_signal(number)
        assert "all ended" in process.communicate(timeout=60)[0]
