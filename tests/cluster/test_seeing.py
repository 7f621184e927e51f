"""What nodes, gateways and commands tell of a real cluster: metrics, the document of its state, readiness, and moves that even its load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter
from typer.testing import CliRunner

from kinbin_cluster.dev import DevCluster
from kinbin_cluster.measures import GATEWAY_METRICS, NODE_METRICS
from kinbin_cluster.overview import ClusterOverview
from kinbin_service.cli import app

pytestmark = [pytest.mark.slow, pytest.mark.server]
LONG = 90.0
DOCUMENT = TypeAdapter(ClusterOverview)
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """One server, two nodes, a gateway, and a collection `things` of three shards with two replicas."""
    extra = {
        "KINBIN_CLUSTER_SNAPSHOT_MESSAGES": "5", "KINBIN_CLUSTER_LOST_SECONDS": "3", "KINBIN_CLUSTER_PUBLISH_SECONDS": "2",
        "KINBIN_CLUSTER_BEAT_SECONDS": "0.1",
    }  # fmt: skip
    with DevCluster(tmp_path_factory.mktemp("seen"), nodes=2, servers=1, extra=extra) as cluster:
        with client(cluster) as gateway:
            assert gateway.put("/v1/collections/things", json={"dim": 2, "cluster": {"shards": 3, "replicas": 2}}).status_code == 201
            for number in range(30):
                items = [{"id": f"i{number}-{one}", "vector": [number + 1, one + 1]} for one in range(5)]
                assert gateway.post("/v1/collections/things/index", json={"items": items}).status_code == 200
        yield cluster


def client(cluster: DevCluster) -> httpx.Client:
    """Of the gateway."""
    return httpx.Client(base_url=cluster.address, timeout=30)


def until(holds: Callable[[], Any]) -> Any:
    """What holds, as soon as it does."""
    deadline = time.monotonic() + LONG
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)
    return found


def samples(address: str, key: str | None = None) -> Samples:
    """What /metrics of a process tells."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    response = httpx.get(f"{address}/metrics", headers=headers, timeout=30).raise_for_status()
    families = text_string_to_metric_families(response.text)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for family in families for sample in family.samples}


def value(told: Samples, name: str, **labels: str) -> float | None:
    """One sample; None: there is none."""
    return told.get((f"kinbin_{name}", tuple(sorted(labels.items()))))


def overview(cluster: DevCluster) -> ClusterOverview:
    """The document of the gateway."""
    with client(cluster) as gateway:
        return DOCUMENT.validate_python(gateway.get("/v1/cluster").raise_for_status().json())


def whole(cluster: DevCluster) -> ClusterOverview:
    """The document, once every shard has its replicas and no node is behind."""

    def found() -> ClusterOverview | None:
        told = overview(cluster)
        return told if told["whole"] and all(node["lag"] == 0 or not node["shards"] for node in told["nodes"]) else None

    return until(found)  # type: ignore[no-any-return]


def write(gateway: httpx.Client, first: int = 0) -> int:
    """Write one item of each of 30 adds again, which are in all shards; the status."""
    items = [{"id": f"i{number}-{first % 5}", "vector": [number + 1, first % 5 + 1]} for number in range(30)]
    return gateway.post("/v1/collections/things/index", json={"items": items}).status_code


def test_a_node_tells_of_its_replicas(cluster: DevCluster) -> None:
    """By collection and shard: part, state, lag, items, reads, applied entries, snapshots; every metric is one of the table."""
    whole(cluster)
    with client(cluster) as gateway:
        assert {write(gateway, number) for number in range(8)} == {200}
        for _ in range(4):
            assert gateway.post("/v1/collections/things/count", json={}).json()["count"] == 150
            assert gateway.post("/v1/collections/things/query", json={"vector": [1, 2], "k": 3}).status_code == 200
    whole(cluster)

    def told() -> list[Samples] | None:
        every = [samples(node.address, cluster.key) for node in cluster.nodes.values()]
        return every if sum(value(one, "node_snapshots_total") or 0 for one in every) else None

    every = until(told)
    for shard in map(str, range(3)):
        place = {"collection": "things", "shard": shard}
        held = [one for one in every if value(one, "replica_items", **place) is not None]
        roles = [[role for role in ("holder", "replica") if value(one, "replica_role", **place, role=role)] for one in held]
        assert sorted(roles) == [["holder"], ["replica"]]
        assert sum(value(one, "replica_reads_total", **place) or 0 for one in held) >= 8
        assert sum(value(one, "replica_read_seconds_total", **place) or 0 for one in held) > 0
        for one in held:
            assert value(one, "replica_state", **place, state="live") == 1
            assert (value(one, "replica_lag_entries", **place), value(one, "replica_lag_seconds", **place)) == (0, 0)
            assert (value(one, "replica_entries_total", **place) or 0) >= 8
            assert (value(one, "replica_apply_seconds_total", **place) or 0) > 0
            assert value(one, "replica_stuck", **place) == 0
            assert value(one, "node_log_gap_seconds") is not None
        times = [at for one in held if (at := value(one, "shard_snapshot_time_seconds", **place)) is not None]
        assert len(times) <= 1
        assert all(0 < at <= time.time() + 60 for at in times)
    known = {f"kinbin_{one.name}{'_total' if one.kind == 'counter' else ''}" for one in NODE_METRICS}
    assert {name for name, _ in every[0] if name.startswith(("kinbin_replica_", "kinbin_shard_", "kinbin_node_"))} <= known


def test_a_gateway_tells_of_the_cluster_and_of_its_requests(cluster: DevCluster) -> None:
    """Nodes, shards that lack, and by shard what reads and writes came to; every metric of the table that needs no fault is there."""
    whole(cluster)
    with client(cluster) as gateway:
        assert gateway.post("/v1/collections/things/count", json={}).status_code == 200
        assert write(gateway) == 200
    told = samples(cluster.address)
    for name in ("shards_unanswered", "shards_lacking", "shards_moving", "resharding"):
        assert value(told, f"cluster_{name}") == 0, name
    assert value(told, "cluster_nats_connected") == 1
    assert value(told, "cluster_node_live", node="node-0") == 1
    for shard in map(str, range(3)):
        place = {"collection": "things", "shard": shard}
        assert value(told, "cluster_shard_replicas", **place) == 2
        for work in ("read", "write"):
            assert (value(told, "gateway_shard_requests_total", **place, work=work) or 0) >= 1
            assert (value(told, "gateway_shard_seconds_total", **place, work=work) or 0) > 0
            assert value(told, "gateway_shard_failures_total", **place, work=work) is not None
            assert value(told, "gateway_gap_seconds", **place, work=work) == 0
    names = {f"kinbin_{one.name}{'_total' if one.kind == 'counter' else ''}" for one in GATEWAY_METRICS}
    found = {name for name, _ in told if name.startswith(("kinbin_cluster_", "kinbin_gateway_"))}
    assert found <= names
    assert names - found == {"kinbin_cluster_divergence_time_seconds"}


def test_what_is_told_of_nodes_is_what_they_are(cluster: DevCluster) -> None:
    """The document has disk, items, lag and version of each node, holders and items of each shard; so says the gateway's contract."""
    told = whole(cluster)
    assert {"node-0", "node-1"} <= {node["name"] for node in told["nodes"]}
    copies = [copy for one in told["collections"] for shard in one["shards"] for copy in shard["copies"]]
    for node in told["nodes"]:
        own = [copy for copy in copies if copy["node"] == node["name"]]
        assert (node["live"], node["shards"], node["items"]) == (True, len(own), sum(copy["items"] for copy in own))
        assert 0 < (node["disk_free"] or 0) <= (node["disk_bytes"] or 0)
    (things,) = [one for one in told["collections"] if one["name"] == "things"]
    assert sum(shard["items"] for shard in things["shards"]) == 150
    for shard in things["shards"]:
        assert shard["holder"] in {copy["node"] for copy in shard["copies"]}
        assert {copy["state"] for copy in shard["copies"]} == {"live"}
    with client(cluster) as gateway:
        document = gateway.get("/openapi.json").json()
    assert document["paths"]["/v1/cluster"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/ClusterOverview"
    }
    assert {"NodeOverview", "CopyOverview", "ShardOverview"} <= document["components"]["schemas"].keys()


def test_balance_evens_the_load_with_a_new_node(cluster: DevCluster) -> None:
    """A node that comes takes its share of the rows when it is told to, and nothing before; then there is nothing left to even."""
    whole(cluster)
    node = cluster.add_node("node-2")
    node.start()
    node.wait()
    until(lambda: any(one["name"] == "node-2" and one["live"] for one in overview(cluster)["nodes"]))
    whole(cluster)

    def places() -> list[list[str]]:
        return [[copy["node"] for copy in shard["copies"]] for one in overview(cluster)["collections"] for shard in one["shards"]]

    def run(*arguments: str, code: int = 0) -> str:
        answer = CliRunner().invoke(app, ["cluster", "balance", *arguments], env=cluster.environment)
        assert answer.exit_code == code, answer.output
        return answer.stdout if code == 0 else answer.stderr

    before = places()
    told = orjson.loads(run("--json", "--by", "replicas"))
    assert [move["target"] for move in told["moves"]] == ["node-2", "node-2"]
    assert told["moved"] == 0
    assert places() == before
    assert "nothing was moved: --yes moves them" in run("--by", "replicas")
    assert "shards are weighed by rows, bytes, rate, replicas" in run("--by", "size", code=1)
    assert "is on node-2" in run("--by", "replicas", "--yes")
    counts = [sum(name in held for held in places()) for name in ("node-0", "node-1", "node-2")]
    assert max(counts) - min(counts) <= 1
    assert orjson.loads(run("--json", "--by", "replicas"))["moves"] == []
    with client(cluster) as gateway:
        assert gateway.post("/v1/collections/things/count", json={}).json()["count"] == 150


def test_what_fails_is_told(cluster: DevCluster) -> None:
    """Without the nodes of a shard reads are counted as missing, and their gap grows until one succeeds; without NATS writes fail."""
    whole(cluster)
    with client(cluster) as gateway:
        body = {"dim": 2, "cluster": {"shards": 1, "replicas": 1}}
        assert gateway.put("/v1/collections/alone", json=body).status_code == 201
        assert gateway.post("/v1/collections/alone/index", json={"items": [{"id": "a", "vector": [1, 1]}]}).status_code == 200
        told = whole(cluster)
        (alone,) = [one for one in told["collections"] if one["name"] == "alone"]
        holder = cluster.nodes[alone["shards"][0]["copies"][0]["node"]]
        ready = f"{holder.address}/readyz?replicas=live"
        until(lambda: httpx.get(ready, timeout=30).status_code == 200)
        holder.kill()
        until(lambda: gateway.post("/v1/collections/alone/count", json={}).status_code == 503)
        labels = {"collection": "alone", "shard": "0", "work": "read"}
        told_now = until(lambda: one if (value(one := samples(cluster.address), "gateway_gap_seconds", **labels) or 0) > 0 else None)
        assert (value(told_now, "gateway_shards_missing_total", outcome="refused") or 0) >= 1
        assert (value(told_now, "gateway_shard_failures_total", **labels) or 0) >= 1
        until(lambda: value(samples(cluster.address), "cluster_shards_unanswered") == 1)
        assert (value(samples(cluster.address), "cluster_shards_lacking") or 0) >= 1
        cluster.servers.stop()
        assert write(gateway) == 503
        told_now = samples(cluster.address)
        writes = {"collection": "things", "shard": "0", "work": "write"}
        assert (value(told_now, "gateway_shard_failures_total", **writes) or 0) >= 1
        until(lambda: value(samples(cluster.address), "cluster_nats_connected") == 0)
        cluster.servers.start()
        holder.start()
        until(lambda: _ready(ready))
        until(lambda: gateway.post("/v1/collections/alone/count", json={}).status_code == 200)
        assert value(samples(cluster.address), "gateway_gap_seconds", **labels) == 0


def _ready(address: str) -> bool:
    try:
        return httpx.get(address, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
