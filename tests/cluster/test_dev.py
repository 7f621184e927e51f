"""All parts together: servers, nodes, a gateway and the commands, as `kinbin cluster dev` starts them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

from kinbin_client import Client
from kinbin_cluster import commands
from kinbin_cluster.dev import DevCluster
from kinbin_cluster.settings import ClusterSettings
from kinbin_service.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.server]
LONG = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Three nodes, a gateway, and one NATS server, which is enough where no server is lost."""
    extra = {
        "KINBIN_CLUSTER_REPLACE_AFTER_SECONDS": "2", "KINBIN_CLUSTER_LOST_SECONDS": "3", "KINBIN_CLUSTER_SNAPSHOT_MESSAGES": "5",
        "KINBIN_CLUSTER_BEAT_SECONDS": "0.1",
    }  # fmt: skip
    with DevCluster(tmp_path_factory.mktemp("cluster"), nodes=3, servers=1, extra=extra) as cluster, pytest.MonkeyPatch.context() as patch:
        # They tell of themselves five times as often as usual, so that commands need not listen for as long.
        patch.setattr(commands, "SILENCE", 0.3)
        yield cluster


@pytest.fixture(scope="module")
def filled(cluster: DevCluster) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A collection `things` of 200 items in three shards, and its vectors."""
    vectors = np.random.default_rng(7).random((200, 16), dtype=np.float32)
    with Client(cluster.address) as client:
        client.create_collection("things", kernel="minmax", dim=16)
        for begin in range(0, 200, 20):
            client.collection("things").add([f"i{row}" for row in range(begin, begin + 20)], vectors[begin : begin + 20])
    until(cluster, lambda told: told["whole"] and not any(copy["lag"] for copy in copies_of(told)))
    return vectors


def run(cluster: DevCluster, *arguments: str, code: int = 0) -> str:
    """What a command prints."""
    answer = CliRunner().invoke(app, ["cluster", *arguments], env=cluster.environment)
    assert answer.exit_code == code, answer.output
    return answer.stdout if code == 0 else answer.stderr


def status(cluster: DevCluster) -> dict[str, Any]:
    """What `kinbin cluster status` tells."""
    return asyncio.run(commands.status(ClusterSettings(nats=cluster.servers.addresses, nats_replicas=1)))


def until(cluster: DevCluster, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Status, as soon as something holds of it."""
    deadline = time.monotonic() + LONG
    while not holds(told := status(cluster)):
        assert time.monotonic() < deadline, told
    return told


def copies_of(told: dict[str, Any]) -> list[dict[str, Any]]:
    """All copies of all shards."""
    return [copy for shard in told["collections"][0]["shards"] for copy in shard["copies"]]


def nodes_of(told: dict[str, Any]) -> list[set[str]]:
    """The nodes of each shard's copies."""
    return [{copy["node"] for copy in shard["copies"]} for shard in told["collections"][0]["shards"]]


def all_there(cluster: DevCluster, vectors: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """Every item is found at the gateway, first among the nearest of its own vector."""
    with Client(cluster.address) as client:
        things = client.collection("things")
        assert things.stats()["count"] == len(vectors)
        found = [things.query(vector, k=1, mode="exact") for vector in vectors[::20]]
        assert [next(iter(answer)).id for answer in found] == [f"i{row}" for row in range(0, 200, 20)]


def test_status_tells_of_all_parts(cluster: DevCluster, filled: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """Status names each node, gateway and copy, and is well when all have applied what was written; people read the same in lines."""
    told = until(cluster, lambda told: told["whole"] and told["gateways"])
    assert [node["name"] for node in told["nodes"]] == ["node-0", "node-1", "node-2"]
    assert all(node["live"] for node in told["nodes"])
    assert [gateway["address"] for gateway in told["gateways"]] == [cluster.address]
    shards = told["collections"][0]["shards"]
    assert [len(nodes) for nodes in nodes_of(told)] == [2, 2, 2]
    assert sum(shard["copies"][0]["items"] for shard in shards) == 200
    assert told["controller"] in {"node-0", "node-1", "node-2"}
    assert orjson.loads(run(cluster, "status", "--json"))["collections"][0]["uid"] == told["collections"][0]["uid"]
    lines = run(cluster, "status")
    assert "collection things: 3 shards, 2 replicas of each" in lines
    all_there(cluster, filled)


def test_copies_are_alike(cluster: DevCluster, filled: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """Replicas compute the same digest at the same place of the log."""
    assert run(cluster, "check", "things").count("2 replicas alike") == 3


def test_shard_is_moved_and_nothing_fails_meanwhile(cluster: DevCluster, filled: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """A shard is moved by a command; what cannot be moved is refused in one line."""
    before = nodes_of(until(cluster, lambda told: told["whole"]))[0]
    (target,) = {"node-0", "node-1", "node-2"} - before
    source = min(before)
    moved = orjson.loads(run(cluster, "move", "things", "0", "--from", source, "--to", target, "--json"))
    assert moved == {"collection": "things", "shard": 0, "from": source, "to": target, "waited": True}
    assert nodes_of(status(cluster))[0] == before - {source} | {target}
    assert "moves from one of these" in run(cluster, "move", "things", "0", "--from", source, "--to", target, code=1)
    assert "no shard 9" in run(cluster, "move", "things", "9", "--from", source, "--to", target, code=1)
    assert "no node nobody" in run(cluster, "drain", "nobody", code=1)
    all_there(cluster, filled)
    assert run(cluster, "check", "things").count("2 replicas alike") == 3


def test_lost_node_is_replaced_and_another_drained(cluster: DevCluster, filled: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """A node that is killed is replaced by others, which restore snapshots and replay the log; items are all there, on two nodes each."""
    cluster.nodes["node-0"].kill()
    all_there(cluster, filled)
    told = until(cluster, lambda told: told["whole"] and all("node-0" not in nodes for nodes in nodes_of(told)))
    assert [len(nodes) for nodes in nodes_of(told)] == [2, 2, 2]
    all_there(cluster, filled)
    assert run(cluster, "check", "things").count("2 replicas alike") == 3
    assert orjson.loads(run(cluster, "forget", "node-0", "--json")) == {"node": "node-0", "forgotten": True}
    assert "lives" in run(cluster, "forget", "node-1", code=1)
    cluster.nodes["node-0"].start()
    cluster.nodes["node-0"].wait()
    until(cluster, lambda told: any(node["name"] == "node-0" and node["live"] for node in told["nodes"]))
    assert orjson.loads(run(cluster, "drain", "node-1", "--json")) == {"node": "node-1", "draining": True, "waited": True}
    assert all("node-1" not in nodes for nodes in nodes_of(status(cluster)))
    all_there(cluster, filled)
    assert run(cluster, "drain", "node-1", "--cancel") == "node-1 takes shards again\n"
    assert not any(node["draining"] for node in status(cluster)["nodes"])
