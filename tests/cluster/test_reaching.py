"""Nodes that tell that they live, and that no gateway reaches: they are told of, count as not answering, and are given nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace

import orjson
import pytest

pytest.importorskip("nats", reason="the extra cluster is not installed")

from kinbin_cluster.balancing import plan
from kinbin_cluster.gateway.fanout import Fanout
from kinbin_cluster.gateway.reaching import FAILURES, Reaching
from kinbin_cluster.overview import overview
from kinbin_cluster.picture import Collection, Gateway, Node, Picture, Shard
from kinbin_cluster.servers import free_port

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def picture_of(address: str) -> Picture:
    """Two nodes that live, the second at this address; one shard on it, five on the first."""
    picture = Picture(3_600.0)
    picture.nodes = {"a": Node("a", "http://127.0.0.1:1"), "b": Node("b", address)}
    picture.collections = {"photos": Collection("photos", "u", 6, 1, {}, 0.0)}
    for number in range(6):
        name = "a" if number else "b"
        picture.shards["u", number] = Shard((name,), holder=name)
    for name in picture.nodes:
        held = {f"{uid}.{number}": {"state": "live", "items": 10} for uid, number, _ in picture.shards_of(name)}
        picture.hear(name, orjson.dumps({"shards": held}))
    return picture


async def test_a_node_that_is_not_reached_is_said_once_and_when_it_is_again(caplog: pytest.LogCaptureFixture) -> None:
    """One that fails once or twice is busy; after three times in a row it is told, until it answers; who does not live is not asked."""
    port = free_port()
    picture = picture_of(f"http://127.0.0.1:{port}")
    picture._heard.pop("a")
    fanout = Fanout(picture)
    reaching = Reaching(fanout)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(ANSWER)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    gone = asyncio.Event()

    with caplog.at_level(logging.WARNING, "kinbin.gateway"):
        for _ in range(FAILURES - 1):
            await reaching.look()
            assert reaching.unreached == ()
        for _ in range(2):
            await reaching.look()
            assert reaching.unreached == ("b",)
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            await reaching.look()
            assert reaching.unreached == ()
            fanout.close()
            await gone.wait()
    assert ["is not reached" in record.getMessage() for record in caplog.records] == [True, False]


def test_what_no_gateway_reaches_does_not_answer_and_is_given_nothing() -> None:
    """Its shard is unanswered, no shard is moved to it; while one gateway reaches it all is as before."""
    picture = picture_of("http://127.0.0.1:2")
    one, two = Gateway("one", "http://one"), Gateway("two", "http://two", unreached=("b",))
    for gateway in (one, two):
        picture.hear_gateway(gateway.to_json())
    assert overview(picture)["answering"]
    assert overview(picture)["nodes"][1]["unreached_by"] == ["two"]
    assert {move.target for move in plan(picture, "replicas").moves} == {"b"}
    picture.hear_gateway(replace(one, unreached=("b",)).to_json())
    told = overview(picture)
    assert not told["answering"]
    assert [shard["state"] for shard in told["collections"][0]["shards"]] == ["unanswered"] + ["well"] * 5
    assert plan(picture, "replicas").moves == ()
    assert [node.name for node in picture.reached()] == ["a"]
    picture.gateways.clear()
    assert overview(picture)["answering"]
