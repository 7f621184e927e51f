"""The order of the gates (size, key, parse, validate, admit), and what each of them refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import orjson
import pytest

import kinbin
from service_app import App, HeldDatabase, eventually, problem, running_app

KEY = "correct-horse-battery-staple"
JSON = {"content-type": "application/json"}
GOOD = {"items": [{"id": "a", "vector": [1, 2, 3]}]}


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[App]:
    """An application with a key and small limits."""
    async with running_app(
        tmp_path / "data", api_key=KEY, max_index_body_bytes=4_096, max_query_body_bytes=2_048, max_body_bytes=1_024
    ) as running:
        yield running


async def test_the_size_gate_comes_before_the_key(locked: App) -> None:
    """A declared body over the limit is 413 even without a key, and names its limit."""
    refused = await locked.post("/index", b"[" * 5_000, status=413)
    assert (refused["code"], refused["limit"]) == ("body_too_large", "index_body_bytes")
    assert refused["detail"] == "a body has at most 4,096 bytes here"


@pytest.mark.parametrize(
    ("path", "limit", "name"),
    [("/index", 4_096, "index_body_bytes"), ("/query", 2_048, "query_body_bytes"), ("/v1/collections/a/get", 1_024, "body_bytes")],
)
async def test_every_route_has_its_own_size_limit(locked: App, path: str, limit: int, name: str) -> None:
    """A body of exactly the limit passes the gate, one more byte does not, declared or in chunks."""
    headers = {**JSON, "x-api-key": KEY}
    at_limit = b"{" + b" " * (limit - 1)
    assert problem(await locked.client.post(path, content=at_limit, headers=headers))["code"] == "bad_json"
    assert problem(await locked.client.post(path, content=at_limit + b" ", headers=headers))["limit"] == name

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(limit // 64 + 1):
            yield b" " * 64

    response = await locked.client.post(path, content=chunks(), headers=headers)
    assert response.status_code == 413
    assert problem(response)["limit"] == name


async def test_the_key_comes_before_parsing(locked: App) -> None:
    """Without the key, a body that is no JSON of a type that is not read is 401: nothing of it was looked at."""
    for headers in ({}, JSON, {"content-type": "text/plain"}, {**JSON, "content-encoding": "gzip"}):
        refused = problem(await locked.client.post("/index", content=b"\xff\xfe", headers=headers))
        assert (refused["status"], refused["code"]) == (401, "unauthorized")


async def test_the_body_is_not_read_without_the_key(locked: App) -> None:
    """The answer to a wrong key is given before the first chunk of the body is asked for."""
    asked = False

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal asked
        asked = True
        yield b"{}"

    response = await locked.client.post("/index", content=chunks(), headers={**JSON, "x-api-key": "wrong"})
    assert response.status_code == 401
    assert response.headers["connection"] == "close"
    assert not asked


async def test_parsing_comes_before_validation_and_validation_before_the_library(locked: App) -> None:
    """Bad JSON is 400 on a collection that is not there, a bad field 422, and only a good request 404."""
    headers = {**JSON, "x-api-key": KEY}
    path = "/v1/collections/nowhere/query"
    assert problem(await locked.client.post(path, content=b"{", headers=headers))["status"] == 400
    assert problem(await locked.client.post(path, content=b'{"k":0,"vector":[1]}', headers=headers))["status"] == 422
    assert problem(await locked.client.post(path, content=b'{"vector":[1]}', headers=headers))["status"] == 404


async def test_without_a_queue_requests_begin_at_once_or_are_refused(tmp_path: Path) -> None:
    """No room to wait: while a thread is free all is as ever; while none is, whatever comes is 429 before anybody reads it."""
    async with running_app(tmp_path / "data", threads=1, queue_length=0) as app:
        await app.post("/index", GOOD)
        held = HeldDatabase(app.service.database)
        app.service.database = held  # type: ignore[assignment]
        busy = asyncio.create_task(app.post("/query", {"vector": [1, 2, 3]}))
        await eventually(lambda: held.begun)
        for body in ({"vector": [1, 2, 3], "k": 0}, b"{", {"vector": [1, 2, 3]}):
            assert (await app.post("/query", body, status=429))["code"] == "overloaded"
        held.gate.set()
        await busy
        assert (await app.post("/query", {"vector": [1, 2, 3], "k": 0}, status=422))["code"] == "invalid_field"
        assert (await app.post("/query", b"{", status=400))["code"] == "bad_json"


@pytest.mark.parametrize("headers", [{"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}, {"x-api-key": KEY}])
async def test_the_key_is_taken_from_either_header(locked: App, headers: dict[str, str]) -> None:
    """The key opens every route as a bearer token or as X-API-Key."""
    assert (await locked.client.post("/index", json=GOOD, headers=headers)).status_code == 200
    for path in ("/v1/limits", "/docs", "/openapi.json", "/v1/collections"):
        assert (await locked.client.get(path, headers=headers)).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [{}, {"x-api-key": ""}, {"x-api-key": KEY[:-1]}, {"x-api-key": KEY + "x"}, {"authorization": KEY}, {"authorization": f"Basic {KEY}"},
     {"authorization": "Bearer"}, {"x-api-key": "Ã¼"}, {"authorization": "Bearer wrong", "x-api-key": KEY}],
)  # fmt: skip
async def test_without_the_key_nothing_but_health_and_documents_answers(locked: App, headers: dict[str, str]) -> None:
    """A missing or wrong key is 401 of one shape on every route, known or not; health checks, and the page for people, need none."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    bodies, details = set(), set()
    for method, path in (
        ("POST", "/index"),
        ("POST", "/query"),
        ("GET", "/v1/limits"),
        ("GET", "/docs/"),
        ("GET", "/nowhere"),
        ("DELETE", "/v1/collections/a"),
    ):
        response = await locked.client.request(method, path, headers=raw)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        bodies.add(response.content)
        details.add(problem(response)["detail"])
    assert len(bodies) == 1
    sent = headers.get("x-api-key") if "authorization" not in headers else "wrong" in headers["authorization"]
    how = "send the API key as Authorization: Bearer or as X-API-Key"
    assert details == {"the API key that was sent is not known to this server" if sent else how}
    for path in ("/healthz", "/livez", "/readyz", "/docs", "/openapi.json"):
        assert (await locked.client.get(path, headers=raw)).status_code == 200


@pytest.mark.parametrize("name", ["api_key", "api-key", "apikey", "key", "token", "access_token", "API_KEY", "X-API-Key", "%61pi_key"])
async def test_a_key_in_the_address_is_refused(locked: App, name: str) -> None:
    """A key in the query string is 400, even when it is right, even when it is in the header as well."""
    for headers in ({}, {"x-api-key": KEY}):
        refused = problem(await locked.client.get(f"/v1/limits?{name}={KEY}", headers=headers))
        assert (refused["status"], refused["code"]) == (400, "key_in_query")
        assert KEY not in str(refused)


async def test_no_key_is_needed_where_none_is_set(app: App) -> None:
    """Without a configured key every route is open, and a key in the address is refused all the same."""
    await app.get("/v1/limits")
    assert problem(await app.client.get("/v1/limits?api_key=x"))["code"] == "key_in_query"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "unsupported_media_type"),
        ({"content-type": "text/plain"}, "unsupported_media_type"),
        ({"content-type": "application/x-www-form-urlencoded"}, "unsupported_media_type"),
        ({"content-type": "multipart/mixed; boundary=x"}, "unsupported_media_type"),
        ({"content-type": "application/x-npz"}, "unsupported_media_type"),
        ({"content-type": "application/octet-stream"}, "unsupported_media_type"),
        ({"content-type": "application/json; charset=utf-16"}, "unsupported_media_type"),
        ({"content-type": "application/json", "content-encoding": "br"}, "unsupported_encoding"),
        ({"content-type": "application/json", "content-encoding": "gzip, zstd"}, "unsupported_encoding"),
        ({"content-type": "application/x-npy", "content-encoding": "deflate"}, "unsupported_encoding"),
    ],
)
async def test_other_content_types_and_encodings_are_refused(app: App, headers: dict[str, str], code: str) -> None:
    """Every body that is not plain JSON, NDJSON or npy is 415, and says what is read instead."""
    response = await app.client.post("/index", content=orjson.dumps(GOOD), headers=headers)
    assert response.status_code == 415
    assert problem(response)["code"] == code
    assert await app.state() == {}


async def test_queries_take_no_lines_and_the_other_routes_json_only(app: App) -> None:
    """NDJSON is for adds, npy for adds and queries."""
    for path, content_type in (
        ("/query", "application/x-ndjson"),
        ("/v1/collections/a/get", "application/x-npy"),
        ("/v1/collections/a/delete", "application/x-ndjson"),
    ):
        response = await app.client.post(path, content=b"{}", headers={"content-type": content_type})
        assert response.status_code == 415


@pytest.mark.parametrize(
    "content_type", ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"']
)
async def test_json_content_types_are_read(app: App, content_type: str) -> None:
    """The content type is compared without case, and may say that it is UTF-8."""
    assert (await app.client.post("/index", content=orjson.dumps(GOOD), headers={"content-type": content_type})).status_code == 200


async def test_options_in_the_address_of_a_json_body_are_refused(app: App) -> None:
    """`?k=5` beside a JSON body is 422, not silently ignored."""
    await app.post("/index", GOOD)
    refused = await app.post("/query?k=5", {"vector": [1, 2, 3]}, status=422)
    assert refused["detail"] == "with a JSON body, options are fields of the body"


async def test_unknown_routes_and_methods_are_problems_too(app: App) -> None:
    """404 of an unknown route and 405 of an unknown method are problem documents; 405 names the methods."""
    for path in ("/nowhere", "/index/", "/v1/collections/a/nowhere", "/dashboard/nowhere", "/no-such-route"):
        assert (await app.get(path, status=404))["code"] == "not_found"
    for path in ("/index", "/v1/restore"):
        response = await app.client.get(path)
        assert (response.status_code, problem(response)["code"], response.headers["allow"]) == (405, "method_not_allowed", "POST")


async def test_bodies_under_way_have_a_common_limit(tmp_path: Path) -> None:
    """When bodies that are being received fill the memory for them, the next is 503 at once; afterwards all is well."""
    async with running_app(tmp_path / "data", max_buffered_bytes=8_192) as app:
        await app.post("/index", GOOD)
        go_on = asyncio.Event()

        async def slow_body() -> AsyncIterator[bytes]:
            yield b'{"vector":[1,2,3]' + b" " * 6_000
            await go_on.wait()
            yield b"}"

        slow = asyncio.create_task(app.client.post("/query", content=slow_body(), headers=JSON))
        await eventually(lambda: app.service.buffers.held > 6_000)
        refused = await app.post("/query", b'{"vector":[1,2,3]' + b" " * 4_000 + b"}", status=503)
        assert refused["code"] == "buffers_full"
        await app.post("/query", {"vector": [1, 2, 3]})
        go_on.set()
        assert (await slow).status_code == 200
        await eventually(lambda: app.service.buffers.held == 0)


async def test_a_body_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """A sender that stops in the middle of a body gets 408, and its share of the memory is free again."""
    async with running_app(tmp_path / "data", body_seconds=0.05) as app:

        async def stuck() -> AsyncIterator[bytes]:
            yield b'{"vector":'
            await asyncio.sleep(5)

        response: httpx.Response = await app.client.post("/query", content=stuck(), headers=JSON)
        assert (response.status_code, problem(response)["code"]) == (408, "body_timeout")
        assert app.service.buffers.held == 0


async def test_an_unforeseen_failure_tells_a_request_id_only(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug answers 500 with the request id; the traceback is in the log under the same id, and nowhere else."""

    def broken() -> list[str]:
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(app.service.database, "collections", broken)
    response = await app.client.get("/v1/collections")
    failed = problem(response)
    assert (failed["status"], failed["code"]) == (500, "internal")
    assert response.headers["x-request-id"] in failed["detail"]
    assert "secret" not in response.text
    record = next(record for record in caplog.records if record.message == "request failed")
    assert record.__dict__["fields"] == {"request_id": response.headers["x-request-id"]}
    assert "secret of the inside" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (kinbin.StorageFull("disk full at a secret path"), 507, "storage_full"),
        (kinbin.StorageBusy("secret"), 503, "storage_busy"),
        (kinbin.CorruptData("secret"), 500, "corrupt_data"),
        (kinbin.FormatMismatch("secret"), 500, "format_mismatch"),
        (kinbin.Closed("secret"), 503, "closed"),
    ],
)
async def test_trouble_of_the_store_reaches_the_client_as_its_status(
    app: App, monkeypatch: pytest.MonkeyPatch, error: kinbin.KinbinError, status: int, code: str
) -> None:
    """A full disk is 507, a busy store 503, damage 500: each with its code, and without the text of the inside."""
    await app.post("/index", GOOD)

    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(kinbin.Collection, "add", broken)
    refused = await app.post("/index", GOOD, status=status)
    assert refused["code"] == code
    assert "secret" not in str(refused)
    assert (await app.post("/query", {"vector": [1, 2, 3]}))["results"][0]["id"] == "a"


async def test_damage_reaches_the_client_with_its_collection(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the library knows whose files are damaged, the client is told, with what to do, and the log in one line."""
    await app.post("/index", GOOD)
    damage = kinbin.CorruptData("a row is damaged")
    damage.collection = "default"

    def broken(*_: object, **__: object) -> None:
        raise damage

    monkeypatch.setattr(kinbin.Collection, "add", broken)
    refused = await app.post("/index", GOOD, status=500)
    assert refused["detail"] == f"collection 'default': a row is damaged ({kinbin.CorruptData.advice})"
    (logged,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert (logged.message, logged.exc_info) == (refused["detail"], None)
