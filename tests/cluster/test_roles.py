"""What keys of each role may do at a gateway and at a node: what they may do at one server."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

pytest.importorskip("nats", reason="the extra cluster is not installed")

from gateway_nodes import Cluster, running_cluster
from kinbin_cluster.gateway.contract import contract
from kinbin_cluster.node.quick import Quick
from kinbin_cluster.quick_message import PATH
from kinbin_service.gate import OPEN_PATHS
from kinbin_service.key_file import line_of
from kinbin_service.settings import Settings

ROLES = ("metrics", "read", "write", "admin")
OF = "/v1/collections/{name}"
NEEDED = {
    "metrics": {("get", "/metrics")},
    "read": {
        ("get", "/v1/cluster"), ("get", "/v1/limits"), ("get", "/v1/collections"), ("get", OF), ("get", f"{OF}/limits"),
        ("get", f"{OF}/recall"),
        ("post", "/query"), *(("post", f"{OF}/{word}") for word in ("query", "get", "scroll", "count", "facets", "explain")),
        *(("post", f"{OF}/{word}") for word in ("map", "duplicates", "tune", "recall")),
    },
    "write": {("post", "/index"), *(("post", f"{OF}/{word}") for word in ("index", "delete", "payload"))},
}  # fmt: skip
"""The least role of each route of a gateway; of all others it is admin."""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with a key of each role, and one that reads a single collection."""
    path = tmp_path / "keys"
    lines = [line_of(f"{role}-key", f"the-{role}", role, ()) for role in ROLES]
    path.write_text("\n".join([*lines, line_of("one-key", "one", "read", ("mine",))]) + "\n", encoding="utf-8")
    return path


def status(cluster: Cluster, method: str, path: str, key: str) -> int:
    """What a request without a body is answered with."""
    return cluster.ask(method.upper(), path, headers={"Authorization": f"Bearer {key}"}).status


def test_roles_hold_on_gateways(tmp_path: Path, keys: Path) -> None:
    """Each route takes its role and those above it, and refuses those below with 403; a key of one collection opens no other."""
    with running_cluster(tmp_path, 1, api_keys_file=keys) as cluster:
        for path, methods in contract()["paths"].items():
            for method in methods:
                least = next((role for role, routes in NEEDED.items() if (method, path) in routes), "admin")
                asked = path.replace("{name}", "mine").replace("{id}", "x")
                for role in ROLES if path not in OPEN_PATHS else ():
                    refused = status(cluster, method, asked, f"{role}-key") == 403
                    assert refused == (ROLES.index(role) < ROLES.index(least)), (method, path, role)
        assert status(cluster, "post", "/v1/collections/mine/count", "one-key") != 403
        assert status(cluster, "post", "/v1/collections/other/count", "one-key") == 403
        assert status(cluster, "get", "/v1/collections/mine", "no-key") == 401


async def test_the_short_way_of_nodes_takes_the_key_between_gateways_and_nodes(keys: Path) -> None:
    """It asks for any shard, so that keys of lesser roles do not open it: 401 without a key, 403 with another one than an admin's."""
    quick = Quick(FastAPI(), Settings(api_keys_file=keys, api_key="internal"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=quick), base_url="http://localhost") as client:
        for role in (*ROLES[:-1], "one"):
            refused = await client.post(PATH, content=b"", headers={"Authorization": f"Bearer {role}-key"})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), role
        assert (await client.post(PATH, content=b"")).status_code == 401
