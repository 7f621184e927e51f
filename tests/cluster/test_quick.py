"""The short way of a query: which take it, its bytes, and what a node refuses on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from kinbin_cluster.gateway.quick import quick_of
from kinbin_cluster.node.quick import Quick
from kinbin_cluster.picture import Collection
from kinbin_cluster.quick_message import PATH, QuickQuery, numbers_of
from kinbin_service.settings import Settings

VECTORS = Collection("a", "0123456789ab", 3, 1, {"kernel": "ngmm", "dim": 3}, 0.0)


@given(st.lists(st.floats(-1e15, 1e15) | st.integers(-(2**53), 2**53), min_size=1, max_size=9), st.booleans())
def test_bytes_hold_what_json_holds(values: list[float], sparse: bool) -> None:
    """Numbers, indices and options come out of the bytes as they went in, to the bit."""
    body: dict[str, Any] = {"vector": values, "k": 3, "filter": {"a": "ä"}}
    if sparse:
        body["vector"] = {"indices": [i * 2**58 for i in range(len(values))], "values": values}
    quick = quick_of(VECTORS, body)
    assert quick is not None
    got = QuickQuery.unpack(quick.pack(2))
    assert (got.uid, got.shard, got.options) == (VECTORS.uid, 2, {"k": 3, "filter": {"a": "ä"}})
    assert got.values.tolist() == [float(value) for value in values]
    assert (None if got.indices is None else got.indices.tolist()) == (body["vector"]["indices"] if sparse else None)


NOT_SOUND: list[dict[str, Any]] = [
    {"k": True}, {"k": 0}, {"k": 1_001}, {"k": 2.0}, {"target_recall": 0}, {"target_recall": "1"}, {"min_score": True}, {"mode": "x"},
    {"filter": []}, {"certify": 1}, {"include": ["payload", "x"]}, {"include": "payload"}, {"exclude": [1]}, {"exclude": [""]},
    {"offset": 0}, {"cursor": ""}, {"group_by": {}}, {"id": "a"}, {"kk": 1}, {"max_distance": 1}, {"vector": None}, {"vector": []},
    {"vector": ["a"]}, {"vector": [True, 1]}, {"vector": [2**53 + 1]}, {"vector": [[1]]}, {"vector": {"tokens": ["a"]}},
    {"vector": {"indices": [1], "values": [1, 2]}}, {"vector": {"indices": [-1], "values": [1]}},
    {"vector": {"indices": [True], "values": [1]}},
    {"vector": {"indices": [2**63], "values": [1]}}, {"vector": {"indices": [], "values": []}}, {"vector": {"indices": [1]}},
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_SOUND, ids=str)
def test_what_might_be_refused_goes_the_ordinary_way(body: dict[str, Any]) -> None:
    """What the models of the service may have a word to say on is left to them."""
    assert quick_of(VECTORS, {"vector": [1, 2.5, 3], **body}) is None


@pytest.mark.parametrize("configuration", [{"items": "strings"}, {"items": "images"}, {"fields": {"a": {}}}])
def test_other_items_go_the_ordinary_way(configuration: dict[str, Any]) -> None:
    """Objects, and items of several fields, have routes that tell them apart."""
    assert quick_of(Collection("a", "0123456789ab", 3, 1, configuration, 0.0), {"vector": [1, 2]}) is None


def test_arrays_of_large_bodies_are_taken_as_they_are() -> None:
    """A vector that the parser of large bodies made an array of is no list, and is not copied."""
    array = np.array([1.0, 2.0])
    assert numbers_of(array) is array
    assert numbers_of(np.array([[1.0]])) is None


@pytest.mark.parametrize("data", [b"", b"\x02\0\0\0{}", b"\x05\0\0\0hello", QuickQuery("u", 0, {}, np.ones(3)).pack()[:-1]], ids=len)
def test_other_bytes_are_no_query(data: bytes) -> None:
    """Bytes that were cut off, or are something else, are refused."""
    with pytest.raises(ValueError, match="the "):
        QuickQuery.unpack(data)


async def refused(body: bytes, settings: Settings, state: str = "ready", **headers: str) -> tuple[int, str]:
    """Status and code of what a node without replicas answers."""
    app = FastAPI()
    app.state.service = SimpleNamespace(state=state, unavailable=lambda: None)
    app.state.node = SimpleNamespace(replicas={})
    transport = httpx.ASGITransport(app=Quick(app, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.post(PATH, content=body, headers=headers)
    return response.status_code, response.json()["code"]


async def test_a_node_takes_no_query_without_the_key() -> None:
    """Whoever has not the key between gateways and nodes is refused before the body is read, as at the gate."""
    whole = QuickQuery("0123456789ab", 0, {}, np.ones(3)).pack()
    keyed = Settings(api_key="internal")
    assert await refused(whole, keyed) == (401, "unauthorized")
    assert await refused(whole, keyed, Authorization="Bearer other") == (401, "unauthorized")
    assert await refused(whole, keyed, Authorization="Bearer internal") == (404, "collection_not_found")
    assert await refused(whole, Settings(), Host="elsewhere.example") == (421, "unknown_host")


async def test_a_node_refuses_what_is_too_large_or_no_query() -> None:
    """Bodies over the limit of queries, and bytes that are no query, are refused by problem documents."""
    assert await refused(bytes(2_000), Settings(max_query_body_bytes=1_024)) == (413, "body_too_large")
    assert await refused(b"{}", Settings()) == (400, "bad_request")
