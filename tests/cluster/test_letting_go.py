"""A node lets go of a replica whose transaction takes long: it goes on meanwhile, and begins no second one on the same files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

import kinbin
from kinbin_cluster.connecting import ended
from kinbin_cluster.node import running
from kinbin_cluster.node.replica import Means
from kinbin_cluster.node.running import RunningNode
from kinbin_cluster.picture import Node, Picture, Shard
from kinbin_cluster.settings import ClusterSettings

PLACE = ("0123456789ab", 0)


class Replica:
    """A replica that takes as long to end as it is told."""

    made = 0
    ends: asyncio.Event

    def __init__(self, means: Means, uid: str, shard: int) -> None:
        type(self).made += 1
        self.name, self.state, self.applied = f"c{uid}-{shard}", "live", 0

    async def run(self) -> None:
        """Until it may end, however often it is cancelled."""
        while not self.ends.is_set():
            try:
                await self.ends.wait()
            except asyncio.CancelledError:
                continue


async def test_a_node_that_lets_go_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at the registry come one after the other while the old replica ends; the same shard is held anew once it has ended."""
    monkeypatch.setattr(running, "ShardReplica", Replica)
    monkeypatch.setattr(Replica, "ends", asyncio.Event(), raising=False)
    picture = Picture(3_600.0)
    picture.nodes, picture.shards = {"a": Node("a", "a")}, {PLACE: Shard(("a",), holder="a")}
    with kinbin.open(tmp_path) as database:
        registry: Any = SimpleNamespace(picture=picture)
        node = RunningNode(Means("a", database, registry, registry, registry, lambda: True), ClusterSettings(node="a"))
        node._look()
        await asyncio.sleep(0)
        del picture.shards[PLACE]
        node._look()
        picture.shards[PLACE] = Shard(("a",), holder="a")
        node._look()
        assert (Replica.made, list(node.replicas)) == (1, [])
        Replica.ends.set()
        async with asyncio.timeout(60):
            while not node.replicas:
                await asyncio.sleep(0.01)
                node._look()
        assert Replica.made == 2
        await ended(node._tasks[PLACE])
