from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from kinbin_cluster.node.reads import Replicated
from kinbin_cluster.node.running import RunningNode
from kinbin_cluster.picture import Picture, Shard


def node(**replicas: str) -> RunningNode:
    """A node `a` that is to hold shards 0 and 1 of u; its replicas by number and state."""
    picture = Picture(60.0)
    picture.shards["u", 0] = Shard(("a", "b"))
    picture.shards["u", 1] = Shard(("b",), ("a",))
    picture.shards["u", 2] = Shard(("b",))
    held = {("u", int(number[1:])): SimpleNamespace(state=state) for number, state in replicas.items()}
    made: Any = SimpleNamespace(means=SimpleNamespace(name="a", registry=SimpleNamespace(picture=picture)), replicas=held)
    made.not_live = lambda: RunningNode.not_live(made)
    return made  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("replicas", "waiting"),
    [({}, 2), ({"s0": "live"}, 1), ({"s0": "live", "s1": "replaying"}, 1), ({"s0": "live", "s1": "live"}, 0), ({"s2": "live"}, 2)],
)
async def test_a_node_is_ready_for_an_update_once_all_of_its_replicas_answer(replicas: dict[str, str], waiting: int) -> None:
    """`/readyz?replicas=live` is refused while a shard that the node is to hold does not answer there; `/readyz` is not."""
    found = node(**replicas)
    asked = httpx.AsyncClient(transport=httpx.ASGITransport(Replicated(PlainTextResponse("ready"), lambda _: found)), base_url="http://a")
    async with asked as client:
        answer = await client.get("/readyz?replicas=live")
        plain = await client.get("/readyz")
    assert plain.status_code == 200
    assert answer.status_code == (503 if waiting else 200)
    if waiting:
        assert answer.json()["code"] == "not_ready"
        assert answer.json()["detail"] == f"{waiting} of this node's replicas are not live yet"
