"""Streams of lines: receipts while the body is sent, back-pressure, resuming, and what ends them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from kinbin_service import connections
from kinbin_service.routes import streaming
from service_app import App, HeldDatabase, eventually, judged, running_app

LINES = {"content-type": "application/x-ndjson"}


def line(n: int, **more: Any) -> bytes:
    """The line of one item."""
    return orjson.dumps({"id": f"i{n}", "vector": [1.0 + n, 2.0, 3.0], **more}) + b"\n"


def receipts(content: bytes) -> list[dict[str, Any]]:
    """The lines of an answer."""
    return [orjson.loads(one) for one in content.splitlines()]


class Duplex:
    """A request whose body is sent while its answer is read, as the application sees it."""

    def __init__(self, app: App, path: str = "/index", query: str = "stream=true", room: int = 0, **headers: str) -> None:
        """room: messages of the answer that may wait to be read; 0: any number."""
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.got: asyncio.Queue[dict[str, Any]] = asyncio.Queue(room)
        named = {"host": "localhost", "transfer-encoding": "chunked", **LINES, **headers}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": [(k.encode(), v.encode()) for k, v in named.items()], "client": ("127.0.0.1", 1),
            "server": ("localhost", 80), "scheme": "http", "root_path": "",
        }  # fmt: skip
        self.scope: dict[str, Any] = scope
        application: Any = app.client._transport.app  # type: ignore[attr-defined]
        self.task = asyncio.create_task(application(scope, self.sent.get, self.got.put))

    def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a part of the body."""
        self.sent.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def stop(self) -> None:
        """The server begins to stop, and waits for this request."""
        self.scope[connections._STOPPING] = True

    async def receipt(self, status: int = 200) -> dict[str, Any]:
        """The next receipt."""
        async with asyncio.timeout(20):
            while (message := await self.got.get())["type"] != "http.response.body":
                assert message["status"] == status
        answer: dict[str, Any] = orjson.loads(message["body"])
        return answer


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten lines."""
    monkeypatch.setattr(streaming, "BATCH_LINES", 10)


async def test_a_receipt_comes_while_the_body_is_sent(app: App, small: None) -> None:
    """Each batch is durable, found and told before the next line is sent; the last receipt says that it is the end."""
    stream = Duplex(app)
    for batch in range(3):
        stream.send(b"".join(line(n) for n in range(10 * batch, 10 * batch + 10)))
        told = await stream.receipt()
        assert (told["lines"], told["indexed"], told["count"]) == (10 * batch + 10,) * 3
        assert await app.post("/v1/collections/default/count", {}) == {"count": 10 * batch + 10}
    stream.send(line(30).rstrip(), more=False)
    while not (last := await stream.receipt()).get("done"):
        pass
    assert {key: last[key] for key in ("lines", "indexed", "updated", "unchanged", "skipped", "count", "done")} == {
        "lines": 31, "indexed": 31, "updated": 0, "unchanged": 0, "skipped": 0, "count": 31, "done": True,
    }  # fmt: skip
    await stream.task


async def test_a_stream_is_cut_into_the_same_batches_however_it_arrives(app: App, small: None) -> None:
    """Wherever pieces of the body end, lines are whole, blank ones are counted, and under a key each batch is done once."""
    body = b"\n" + b"".join(line(n) for n in range(12)) + b"\n \n" + b"".join(line(n) for n in range(12, 35))
    for size in (7, 64, 100_000):
        stream = Duplex(app, "/index", "mode=insert&stream=true", 0, **{"idempotency-key": "mine"})
        for start in range(0, len(body), size):
            stream.send(body[start : start + size])
        stream.send(b"", more=False)
        while not (last := await stream.receipt()).get("done"):
            assert "error" not in last
        assert (last["lines"], last["indexed"], last["count"]) == (38, 35, 35)
    assert sorted((await app.state())["default"]) == sorted(f"i{n}" for n in range(35))


async def test_a_client_that_reads_only_at_the_end_holds_nothing_up(app: App, small: None) -> None:
    """Receipts that nobody takes are replaced by later ones: the body is read to its end all the same."""
    stream = Duplex(app, room=1)
    for n in range(200):
        stream.send(line(n), more=n < 199)
    async with asyncio.timeout(30):
        while not stream.sent.empty():  # noqa: ASYNC110 - the application empties it
            await asyncio.sleep(0.01)
    told = [await stream.receipt()]
    while not told[-1].get("done"):
        told.append(await stream.receipt())
    assert len(told) < 5
    assert (told[-1]["lines"], told[-1]["count"]) == (200, 200)
    await stream.task


async def test_a_bad_line_ends_the_stream_and_what_was_durable_stays(app: App, small: None) -> None:
    """The last receipt holds the problem, named by its line, and how many lines are durable; sending the rest with `after` resumes."""
    body = b"".join(line(n) for n in range(25)) + b"{\n" + b"".join(line(n) for n in range(26, 40))
    answer = await app.client.post("/index?stream=true", content=body, headers=LINES)
    last = receipts(answer.content)[-1]
    assert (answer.status_code, last["lines"], last["error"]["code"]) == (200, 20, "bad_json")
    assert last["error"]["detail"].startswith("line 26: ")
    assert await app.post("/v1/collections/default/count", {}) == {"count": 20}
    rest = b"".join(line(n) for n in range(20, 40))
    done = receipts((await app.client.post("/index?stream=true&after=20", content=rest, headers=LINES)).content)[-1]
    assert (done["lines"], done["indexed"], done["count"], done["done"]) == (40, 20, 40, True)


async def test_a_server_that_stops_ends_streams_that_wait_for_lines(app: App, small: None) -> None:
    """No stream holds the stop up: a last line says how many lines are durable, and where to go on."""
    stream, unheard = Duplex(app), Duplex(app)
    stream.send(b"".join(line(n) for n in range(13)))
    assert (await stream.receipt())["lines"] == 10
    for one in (stream, unheard):
        one.stop()
    stream.send(line(13))
    last = await stream.receipt()
    assert (last["lines"], last["count"], last["error"]["code"]) == (10, 10, "stopping")
    await stream.task
    # Nothing of the other was added: it is refused as any request is.
    assert (await unheard.receipt(503))["code"] == "stopping"
    await unheard.task
    assert await app.post("/v1/collections/default/count", {}) == {"count": 10}


async def test_a_batch_that_a_stopping_server_waits_for_no_longer_may_be_there(app: App, small: None) -> None:
    """The last line says so, and does not count it."""
    stream = Duplex(app)
    stream.send(b"".join(line(n) for n in range(10)))
    assert (await stream.receipt())["lines"] == 10
    app.service.database = held = HeldDatabase(app.service.database)  # type: ignore[assignment]
    stream.send(b"".join(line(n) for n in range(10, 20)))
    await eventually(lambda: held.begun)
    stream.stop()
    stream.task.cancel()
    last = await stream.receipt()
    assert (last["lines"], last["error"]["code"]) == (10, "outcome_unknown")
    held.gate.set()
    await stream.task


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [("/query", {"vector": [1, 2, 3]}, "stopping"), ("/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]}, "outcome_unknown")],
)
async def test_what_a_stopping_server_waits_for_no_longer_is_told(app: App, path: str, body: dict[str, Any], code: str) -> None:
    """503, by whose code a client knows whether anything may have been done; one that was cancelled otherwise is not answered."""
    await app.post("/index", {"items": [{"id": "b", "vector": [1, 2, 3]}]})
    app.service.database = held = HeldDatabase(app.service.database)  # type: ignore[assignment]
    for stops in (True, False):
        request = Duplex(app, path, "", 0, **{"content-type": "application/json"})
        request.send(orjson.dumps(body), more=False)
        await eventually(lambda: len(held.begun) > (not stops))  # noqa: B023 - called within the turn
        if stops:
            request.stop()
        request.task.cancel()
        if stops:
            assert (await request.receipt(503))["code"] == code
            await request.task
        else:
            with pytest.raises(asyncio.CancelledError):
                await request.task
    held.gate.set()


async def test_bad_items_of_a_stream_are_skipped_and_told_at_its_end(app: App, small: None) -> None:
    """With on_error skip the stream goes on, and its last receipt lists what was left out, by line."""
    body = b"".join(line(n) if n % 8 else b"[]\n" for n in range(1, 33))
    answer = await app.client.post("/index?stream=true&on_error=skip", content=body, headers=LINES)
    last = receipts(answer.content)[-1]
    assert (last["done"], last["indexed"], last["skipped"], last["lines"]) == (True, 28, 4, 32)
    assert [one["detail"].partition(":")[0] for one in last["problems"]] == ["line 8", "line 16", "line 24", "line 32"]


@pytest.mark.parametrize(
    ("path", "headers", "body", "status", "code"),
    [
        ("/index?stream=true", {"content-type": "application/json"}, b"{}", 415, "unsupported_media_type"),
        ("/index?stream=true", {**LINES, "content-encoding": "gzip"}, b"", 415, "unsupported_encoding"),
        ("/index?stream=true&after=-1", LINES, line(0), 422, "invalid_field"),
        ("/index?stream=true&after=" + "9" * 40, LINES, line(0), 422, "invalid_field"),
        ("/index?after=1", LINES, line(0), 422, "invalid_field"),
        ("/index?stream=false&after=0", LINES, line(0), 422, "invalid_field"),
        ("/index?stream=yes", LINES, line(0), 422, "invalid_field"),
        ("/index?stream=true", {**LINES, "idempotency-key": "k" * 256}, line(0), 422, "bad_parameter"),
        ("/index?stream=true", {**LINES, "idempotency-key": ""}, b"", 422, "bad_parameter"),
        ("/v1/collections/none/index?stream=true", LINES, b"", 404, "collection_not_found"),
        ("/v1/collections/none/index?stream=true", LINES, b"\n \n", 404, "collection_not_found"),
        ("/index?stream=true", LINES, b"{\n", 400, "bad_json"),
        ("/index?stream=true", LINES, b'{"id": "a"}\n', 422, "invalid_field"),
        ("/v1/collections/none/index?stream=true", LINES, line(0), 404, "collection_not_found"),
    ],
)
async def test_a_stream_that_begins_badly_is_refused(
    app: App, path: str, headers: dict[str, str], body: bytes, status: int, code: str
) -> None:
    """Before anything is durable a refusal has its status, as of any add, and nothing is written."""
    assert judged(await app.client.post(path, content=body, headers=headers), status)["code"] == code
    assert await app.state() == {}
    assert app.service.buffers.held == 0


async def test_the_longest_key_lasts_to_the_end(app: App, small: None) -> None:
    """A key of any length that an add may have is one of a stream, whose batches take no key that others send."""
    body = b"".join(line(n) for n in range(25))
    for key in ("k" * 255, "a"):
        for _ in range(2):
            answer = await app.client.post("/index?stream=true", content=body, headers={**LINES, "idempotency-key": key})
            assert receipts(answer.content)[-1]["done"]
    for key in ("a", "a-0", "a-10"):
        await app.post("/index", {"items": [{"id": "other", "vector": [1, 2, 3]}]}, headers={"idempotency-key": key})
    assert await app.post("/v1/collections/default/count", {}) == {"count": 26}


async def test_a_stream_of_nothing_tells_what_there_is(app: App, small: None) -> None:
    """Without an item every receipt has the number of those that are stored; the collection that an add creates may be missing."""
    assert receipts((await app.client.post("/index?stream=true", headers=LINES)).content)[-1]["count"] == 0
    assert await app.state() == {}
    await app.post("/index", {"items": [{"id": "one", "vector": [1, 2, 3]}]})
    for body in (b"", b"\n", b"\n" * 30):
        told = receipts((await app.client.post("/index?stream=true", content=body, headers=LINES)).content)
        assert {one["count"] for one in told} == {1}
        assert (told[-1]["done"], told[-1]["lines"], told[-1]["indexed"]) == (True, len(body), 0)


async def test_a_stream_has_no_limit_and_its_lines_have(tmp_path: Path, small: None) -> None:
    """A body beyond the limit of an add is taken as a stream, in memory of a few batches; a line beyond it is refused."""
    async with running_app(tmp_path, max_index_body_bytes=20_000, max_buffered_bytes=100_000) as app:
        body = b"".join(line(n, payload={"text": "x" * 1_000}) for n in range(300))
        assert judged(await app.client.post("/index", content=body, headers=LINES), 413)["limit"] == "index_body_bytes"
        stream = Duplex(app)
        most = 0
        for start in range(0, len(body), 8_000):
            stream.send(body[start : start + 8_000], more=start + 8_000 < len(body))
        while not (last := await stream.receipt()).get("done"):
            assert "error" not in last
            most = max(most, app.service.buffers.held)
        assert (last["lines"], last["count"]) == (300, 300)
        assert 0 < most <= 40_000
        await stream.task
        assert app.service.buffers.held == 0
        long = await app.client.post("/index?stream=true", content=b"x" * 30_000, headers=LINES)
        assert judged(long, 413)["code"] == "body_too_large"


async def test_a_client_that_leaves_ends_the_stream(app: App, small: None) -> None:
    """Whole batches that arrived before a client left are stored; the rest is not, and no memory is held."""
    stream = Duplex(app)
    stream.send(b"".join(line(n) for n in range(15)))
    assert (await stream.receipt())["lines"] == 10
    stream.sent.put_nowait({"type": "http.disconnect"})
    async with asyncio.timeout(20):
        await stream.task
    assert await app.post("/v1/collections/default/count", {}) == {"count": 10}
    assert app.service.buffers.held == 0
