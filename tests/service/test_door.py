"""The door: what is refused before anything is made for it, and that it says what the gate would say."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from kinbin_service import server
from kinbin_service.app import create_app
from kinbin_service.connections import ServingConfig, _Joined
from kinbin_service.gate import Gate
from kinbin_service.service import Service
from kinbin_service.settings import Settings
from service_app import HeldDatabase, eventually

BODY = orjson.dumps({"vector": [1, 2, 3], "k": 1})
KEY = "correct-horse-battery-staple"


def request(body: bytes = BODY, *more: str, path: str = "/query", host: str = "localhost", version: str = "1.1") -> bytes:
    """A POST."""
    head = [f"POST {path} HTTP/{version}", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "", ""]).encode() + body


@dataclass
class Full:
    """A server all of whose threads are held, and in whose queue as many wait as may."""

    service: Service
    port: int

    async def told(self, *parts: bytes, count: int = 1, pause: float = 0.05) -> list[tuple[int, dict[str, str], bytes]]:
        """(status, headers, body) of so many answers on one connection, to what is sent in these parts."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for number, part in enumerate(parts):
                await asyncio.sleep(pause if number else 0)
                writer.write(part)
            return [await asyncio.wait_for(read(reader), 20) for _ in range(count)]
        finally:
            writer.close()


async def read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """One answer."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


@asynccontextmanager
async def full(data: Path, **settings: Any) -> AsyncIterator[Full]:
    """One, in this process."""
    wanted = Settings(data_dir=data, threads=2, queue_length=3, **settings)
    app = create_app(wanted)
    config = ServingConfig(wanted, app, log_config=None, timeout_graceful_shutdown=5)  # type: ignore[arg-type]
    listening = socket.create_server(("127.0.0.1", 0))
    running = server.DrainingServer(config)
    task = asyncio.create_task(running.serve(sockets=[listening]))
    await eventually(lambda: running.started)
    service: Service = app.state.service
    await eventually(lambda: service.state == "ready")
    one = Full(service, listening.getsockname()[1])
    key = (f"X-API-Key: {KEY}",) if "api_key" in settings else ()
    await one.told(request(orjson.dumps({"items": [{"id": "a", "vector": [1, 2, 3]}]}), *key, path="/index"))
    held = HeldDatabase(service.database)
    service.database = held  # type: ignore[assignment]
    waiting = [asyncio.create_task(one.told(request(BODY, *key))) for _ in range(5)]
    await eventually(lambda: service.admission.waiting == 3)
    try:
        yield one
    finally:
        held.gate.set()
        assert {status for [(status, _, _)] in await asyncio.gather(*waiting)} == {200}
        running.should_exit = True
        await task


async def test_the_door_says_what_the_gate_says(tmp_path: Path) -> None:
    """The same status, headers and body, but for id and time: one came with its body, the other's came later."""
    async with full(tmp_path / "data") as one:
        whole = request()
        (at_once,) = await one.told(whole)
        (later,) = await one.told(whole[:-5], whole[-5:])
        for status, headers, body in (at_once, later):
            assert (status, orjson.loads(body)["code"], headers["retry-after"]) == (429, "overloaded", "1")
            assert len(headers["x-request-id"]) == 16
        assert at_once[2] == later[2]
        assert {*at_once[1]} == {*later[1]}
        assert all(at_once[1][name] == later[1][name] for name in at_once[1] if name not in ("date", "x-request-id"))


async def test_nothing_is_made_for_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not come to the gate, and its connection is good for the next one; several that come together are answered in order."""
    async with full(tmp_path / "data") as one:
        with monkeypatch.context() as patched:
            patched.setattr(Gate, "__call__", None)
            told = await one.told(request(), request(b"{"), count=2)
            assert [status for status, _, _ in told] == [429, 429]
            assert all("connection" not in headers for _, headers, _ in told)
            (last,) = await one.told(request(BODY, "Connection: close"))
            assert (last[0], last[1]["connection"]) == (429, "close")
            (old,) = await one.told(request(version="1.0"))
            assert (old[0], old[1]["connection"]) == (429, "close")
        # Those behind the first are begun when it is answered: by the gate.
        told = await one.told(request() * 3, count=3)
        assert [(status, orjson.loads(body)["code"]) for status, _, body in told] == [(429, "overloaded")] * 3


async def test_what_the_gate_refuses_by_other_reasons_is_told_these(tmp_path: Path) -> None:
    """A missing key, another host and a body that is too large come before the queue; health has no queue."""
    async with full(tmp_path / "data", api_key=KEY, max_query_body_bytes=2_048) as one:
        for sent, status in (
            (request(), 401),
            (request(BODY, f"X-API-Key: {KEY}"), 429),
            (request(b"[" * 3_000, f"X-API-Key: {KEY}"), 413),
            (request(BODY, f"X-API-Key: {KEY}", path="/query?key=a"), 400),
            (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        ):
            assert (await one.told(sent))[0][0] == status, sent[:200]
    async with full(tmp_path / "data") as one:
        assert (await one.told(request(host="example.org")))[0][0] == 421


async def test_refusals_at_the_door_are_counted_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As those of the gate are."""
    async with full(tmp_path / "data") as one:
        caplog.clear()
        with caplog.at_level(logging.INFO, "kinbin.access"):
            ((_, headers, _),) = await one.told(request())
        (fields,) = (vars(record)["fields"] for record in caplog.records if record.name == "kinbin.access")
        assert fields["request_id"] == headers["x-request-id"]
        assert (fields["status"], fields["code"], fields["path"], fields["client"]) == (429, "overloaded", "/query", "127.0.0.1")
        ((_, _, told),) = await one.told(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b'kinbin_refusals_total{code="overloaded"} 1.0' in told
        assert b'kinbin_requests_total{method="other",route="other",status="429"} 1.0' in told


class Written:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.parts.append(data)

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self.closed

    def close(self) -> None:
        """Note that."""
        self.closed = True


async def test_head_and_body_of_an_answer_go_together() -> None:
    """In one call of the system; a head whose body takes longer goes when the loop goes on, and before the connection is closed."""
    for scenario, expected in (
        ("together", [b"headbody", b"more"]), ("later", [b"head", b"body", b"more"]), ("closed", [b"head"]), ("gone", [])
    ):  # fmt: skip
        written = Written()
        joined = _Joined(written, asyncio.get_running_loop())  # type: ignore[arg-type]
        joined.write(b"head")
        assert written.parts == []
        if scenario == "later":
            await asyncio.sleep(0)
            assert written.parts == [b"head"]
        if scenario == "gone":
            # uvloop refuses what is written then.
            written.closed = True
        if scenario == "closed":
            joined.close()
            assert joined.is_closing()
        else:
            joined.write(b"body")
            joined.write(b"more")
        await asyncio.sleep(0)
        assert written.parts == expected, scenario
