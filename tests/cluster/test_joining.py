"""Who joins a cluster has its key, a name and files that nobody has; what lacks that is refused before it changes anything."""

from __future__ import annotations

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
from kinbin_cluster.joining import held, key_print, see_that_key_is_theirs, see_that_name_is_free
from kinbin_cluster.node.server import run as run_node
from kinbin_cluster.picture import Node
from kinbin_cluster.registry import Registry
from kinbin_cluster.servers import NatsServers, Process
from kinbin_cluster.settings import ClusterSettings


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
        with pytest.raises(OtherKey, match="is not that of first, who live"):
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
