"""Nodes of a cluster as processes, for tests that speak to NATS themselves."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from kinbin_cluster.servers import Process, free_port
from kinbin_cluster.settings import ClusterSettings

__all__ = ["KEY", "NodeProcess", "until"]

KEY = "between-nodes-and-gateways"


class NodeProcess:
    """A node on a port of its own, which keeps port and data when it is started again."""

    def __init__(self, name: str, folder: Path, settings: ClusterSettings, **environment: str) -> None:
        self.name = name
        self.port = free_port()
        self.folder = folder / name
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KINBIN_")}
        own = {
            "KINBIN_DATA_DIR": str(self.folder), "KINBIN_HOST": "127.0.0.1", "KINBIN_PORT": str(self.port),
            "KINBIN_CLUSTER_NATS": settings.nats, "KINBIN_CLUSTER_NATS_REPLICAS": str(settings.nats_replicas),
            "KINBIN_CLUSTER_KEY": KEY, "KINBIN_CLUSTER_NODE": name, "KINBIN_CLUSTER_BEAT_SECONDS": "0.1",
        }  # fmt: skip
        self.process = Process([sys.executable, "-m", "kinbin_cluster.node"], folder / f"{name}.log", {**inherited, **own, **environment})

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """The answer to one request, with the internal key."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as client:
            sent = {"Authorization": f"Bearer {KEY}"} | {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, path, json=body, headers=sent)

    async def verdict(self, uid: str, shard: int, sequence: int, wait_ms: int = 30_000) -> dict[str, Any]:
        """What it tells of one entry."""
        asked = {"asked": [{"uid": uid, "shard": shard, "sequence": sequence}], "wait_ms": wait_ms}
        answer = await self.ask("POST", "/cluster/verdicts", asked)
        told: dict[str, Any] = answer.raise_for_status().json()["verdicts"][0]
        return told


async def until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until something holds; fails if it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        await asyncio.sleep(0.05)
