"""Connections to NATS servers that do not answer."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from nats.js.errors import APIError

from kinbin_cluster import connecting
from kinbin_cluster.connecting import Connection
from kinbin_cluster.errors import LogUnavailable
from kinbin_cluster.servers import free_port
from kinbin_cluster.settings import ClusterSettings


@pytest.mark.parametrize(("code", "passes"), [(10_005, True), (10_176, True), (10_210, True), (10_077, True), (10_059, False)])
def test_what_may_be_gone_at_the_next_try(code: int, passes: bool) -> None:
    """Too few servers, batches of another leader or too many of them, no quorum: these are tried again; a refusal is told at once."""
    assert connecting.may_pass(APIError(code=400, err_code=code, description="not now")) is passes
    assert not connecting.may_pass(APIError(code=503, err_code=connecting.FULL, description="maximum bytes exceeded"))


async def test_what_passes_is_tried_again() -> None:
    """A batch that a server could not take among others is no refusal: the next try is answered."""
    answers = iter([APIError(code=500, err_code=10_210, description="too many"), APIError(code=400, err_code=10_176, description="none")])

    async def ask() -> str:
        for error in answers:
            raise error
        return "done"

    assert await connecting.until_answered(ask, 60.0) == "done"


async def test_a_user_that_is_refused_is_told_at_once() -> None:
    """What is wrong, and which settings to see; other tries would be answered alike."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.12.0","proto":1,"auth_required":true,"max_payload":1048576}\r\n')
        await reader.readline()
        writer.write(b"-ERR 'Authorization Violation'\r\n")
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set()

    port, ended = free_port(), asyncio.Event()
    async with await asyncio.start_server(refuse, "127.0.0.1", port):
        settings = ClusterSettings(nats=f"nats://127.0.0.1:{port}", nats_user="me", nats_password="no")
        async with asyncio.timeout(60):
            with pytest.raises(LogUnavailable, match="KINBIN_CLUSTER_NATS_USER"):
                await Connection.open(settings, "test", seconds=3_600)
            await ended.wait()


async def test_who_answers_is_told() -> None:
    """By their addresses: one that takes connections, one that does not."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    silent, there, gone = free_port(), free_port(), asyncio.Event()
    async with await asyncio.start_server(answer, "127.0.0.1", there):
        told = await connecting.who_answers(ClusterSettings(nats=f"nats://127.0.0.1:{silent},nats://127.0.0.1:{there}"))
        await gone.wait()
    assert told == f"nats://127.0.0.1:{silent} is silent, nats://127.0.0.1:{there} answers"


async def test_a_long_wait_is_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Before it is given up it is said who does not answer, and for how long that is tried."""
    monkeypatch.setattr(connecting, "TOLD_SECONDS", 0.2)
    address = f"nats://127.0.0.1:{free_port()}"
    with pytest.raises(LogUnavailable, match=address):
        await Connection.open(ClusterSettings(nats=address), "test", seconds=1.2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"no NATS server answers yet at {address}: tried for 1 s more"
    ]
