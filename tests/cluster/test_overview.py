from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from gateway_nodes import running_cluster
from kinbin_cluster.overview import ClusterOverview, overview, reshards
from kinbin_cluster.picture import Collection, Node, Picture, Shard
from kinbin_service.key_file import line_of

LIVE: dict[str, Any] = {"applied": 9, "state": "live", "items": 5, "bytes": 100, "lag": 0}


def picture(shard: Shard, told: dict[str, dict[str, Any]], silent: str = "") -> Picture:
    """Nodes a to c and a collection of one shard with two replicas; what nodes told of it, the silent ones for the last time long ago."""
    now = 0.0
    made = Picture(5.0, lambda: now)
    made.collections["things"] = Collection("things", "u", 1, 2, {}, 0.0)
    made.shards["u", 0] = shard
    for name in "abc":
        made.nodes[name] = Node(name, f"http://{name}", zone=f"z{name}")
        now = 0.0 if name in silent else 10.0
        shards = {"u.0": told[name]} if name in told else {}
        made.hear(name, orjson.dumps({"shards": shards, "version": "1", "disk_bytes": 1_000, "disk_free": 400}))
    now = 12.0
    return made


@pytest.mark.parametrize(
    ("shard", "told", "silent", "state", "lacks"),
    [
        (Shard(("a", "b")), {"a": LIVE, "b": LIVE}, "", "well", 0),
        (Shard(("a", "b")), {"a": LIVE}, "", "lacking", 1),
        (Shard(("a", "b")), {"a": LIVE, "b": {**LIVE, "state": "replaying"}}, "", "lacking", 1),
        (Shard(("a", "b")), {"a": LIVE, "b": LIVE}, "b", "lacking", 1),
        (Shard(("a", "b")), {"a": LIVE, "b": LIVE}, "ab", "unanswered", 2),
        (Shard(("a", "b"), ("c",), ("b",)), {"a": LIVE, "b": LIVE, "c": {"state": "restoring"}}, "", "moving", 0),
        (Shard(("a",), ("c",)), {"a": LIVE, "c": {"state": "restoring"}}, "", "lacking", 1),
        (Shard(("a", "c"), (), ("b",)), {"a": LIVE, "b": LIVE, "c": LIVE}, "", "moving", 0),
    ],
)
def test_states_of_shards(shard: Shard, told: dict[str, dict[str, Any]], silent: str, state: str, lacks: int) -> None:
    """A shard is unanswered, lacking, moving or well by what its replicas tell now, and the whole is what its shards are."""
    found = overview(picture(shard, told, silent))
    one = found["collections"][0]["shards"][0]
    assert (one["state"], one["lacks"]) == (state, lacks)
    assert (found["answering"], found["whole"]) == (state != "unanswered", lacks == 0)


def test_nodes_and_copies_tell_lag_disk_and_what_is_wrong() -> None:
    """Nodes tell zone, disk, items and the lag of their furthest replica, copies their part, lag and problem; null: not known."""
    told = {"a": LIVE, "b": {**LIVE, "items": 3, "lag": 7, "lag_seconds": 2.5, "problem": "the disk is full"}}
    found = overview(picture(Shard(("a", "b"), ("c",), (), "a"), told))
    TypeAdapter(ClusterOverview).validate_python(found)
    nodes = {one["name"]: one for one in found["nodes"]}
    assert (nodes["b"]["zone"], nodes["b"]["shards"], nodes["b"]["items"], nodes["b"]["lag"]) == ("zb", 1, 3, 7)
    assert (nodes["c"]["disk_free"], nodes["c"]["lag"], nodes["c"]["live"]) == (400, None, True)
    shard = found["collections"][0]["shards"][0]
    assert (shard["holder"], shard["items"]) == ("a", 5)
    copies = {one["node"]: one for one in shard["copies"]}
    assert (copies["b"]["lag"], copies["b"]["lag_seconds"], copies["b"]["problem"]) == (7, 2.5, "the disk is full")
    assert (copies["c"]["role"], copies["c"]["state"], copies["c"]["lag"]) == ("joining", None, None)


def test_resharding_is_told_until_it_has_ended() -> None:
    """A collection that is being cut is named with what is filled; one that was, or was given up, is not."""
    made = picture(Shard(("a", "b")), {})
    job = {"state": "copying", "name": "things", "old": "u", "shards": 6, "into": "things-to-6-shards", "kept": "x"}
    made.jobs["reshard.things"] = job
    made.jobs["reshard.others"] = {"state": "none"}
    made.jobs["divergence.u.0"] = {"at": 1.0, "nodes": ["b"]}
    assert reshards(made) == [{"name": "things", "into": "things-to-6-shards", "shards": 6, "state": "copying"}]
    assert overview(made)["reshards"] == reshards(made)


def test_the_document_is_for_keys_of_all_collections(tmp_path: Path) -> None:
    """It names every collection: a key that reads some is refused, one for metrics too, and so is who has none."""
    keys = tmp_path / "keys"
    lines = [line_of("all", "all", "read"), line_of("some", "some", "read", ["mine"]), line_of("metrics", "metrics", "metrics")]
    keys.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with running_cluster(tmp_path / "cluster", 1, api_keys_file=keys) as cluster:
        cluster.create(kernel="ngmm", dim=2, shards=2)
        statuses = {name: cluster.ask("GET", "/v1/cluster", headers={"X-API-Key": name}).status for name in ("all", "some", "metrics", "x")}
        assert statuses == {"all": 200, "some": 403, "metrics": 403, "x": 401}
        told = cluster.ask("GET", "/v1/cluster", headers={"X-API-Key": "all"}).content
        assert [shard["state"] for shard in told["collections"][0]["shards"]] == ["well", "well"]
        cluster.gateway.admission.most = 0
        assert cluster.ask("GET", "/v1/cluster", headers={"X-API-Key": "all"}).status == 200
