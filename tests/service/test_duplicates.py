"""Duplicates over HTTP: pairs and clusters, as one answer and as lines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import orjson
import pytest

from service_app import App, problem

PATH = "/v1/collections/photos"
LINES = {"accept": "application/x-ndjson"}


@pytest.fixture
async def photos(app: App, rng: np.random.Generator) -> App:
    """300 items, each of the last 100 nearly one of the first; the two named "same" are one vector."""
    await app.put(PATH, {"dim": 16, "kernel": "ngmm", "seed": 1})
    X = rng.gamma(0.3, size=(200, 16)) + 0.01
    X = np.concatenate([X, X[:100] * (1.0 + 0.02 * rng.random((100, 16)))])
    items = [{"id": f"{i:03}", "vector": row, "payload": {"early": i % 100 < 50}} for i, row in enumerate(X.tolist())]
    items += [{"id": f"same{i}", "vector": X[150].tolist()[::-1]} for i in range(2)]
    await app.post(f"{PATH}/index", {"items": items})
    return app


PAIRS = {(f"{i:03}", f"{i + 200:03}") for i in range(100)} | {("same0", "same1")}


async def lines(app: App, body: dict[str, Any]) -> list[Any]:
    """The lines of an answer."""
    response = await app.client.post(f"{PATH}/duplicates", json=body, headers=LINES)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
    return [orjson.loads(line) for line in response.content.splitlines()]


async def test_pairs_and_clusters_are_told_as_json_and_as_lines(photos: App) -> None:
    """Both forms tell the same, with what is promised of it; a limit is told as an answer that is not complete."""
    told = await photos.post(f"{PATH}/duplicates", {"min_score": 0.97, "miss": 1e-9})
    assert {(one["a"], one["b"]) for one in told["pairs"]} == PAIRS
    assert all(one["score"] >= 0.97 for one in told["pairs"])
    assert told["complete"] is True
    assert told["miss_probability"] <= 1e-9
    assert told["compared"] >= 100
    *listed, summary = await lines(photos, {"min_score": 0.97, "miss": 1e-9})
    assert sorted(listed, key=str) == sorted(told["pairs"], key=str)
    assert summary == {name: told[name] for name in ("miss_probability", "compared", "complete")}
    clusters = await photos.post(f"{PATH}/duplicates", {"min_score": 0.97, "miss": 1e-9, "as": "clusters"})
    assert [(one["keep"], one["ids"]) for one in clusters["clusters"]] == [(a, [a, b]) for a, b in sorted(PAIRS)]
    *listed, _ = await lines(photos, {"min_score": 0.97, "miss": 1e-9, "as": "clusters"})
    assert listed == clusters["clusters"]
    early = await photos.post(f"{PATH}/duplicates", {"min_score": 0.97, "miss": 1e-9, "filter": {"early": True}})
    assert {(one["a"], one["b"]) for one in early["pairs"]} == {(a, b) for a, b in PAIRS if a < "050"}
    for asked in ({"limit": 7}, {"limit": 7, "as": "clusters"}):
        cut = await photos.post(f"{PATH}/duplicates", {"min_score": 0.97, **asked})
        assert (len(cut.get("pairs") or cut["clusters"]), cut["complete"]) == (7, False)
        *listed, summary = await lines(photos, {"min_score": 0.97, **asked})
        assert (len(listed), summary["complete"]) == (7, False)


@pytest.mark.parametrize("headers", [{}, LINES])
async def test_bad_requests_are_refused(photos: App, headers: dict[str, str]) -> None:
    """What is malformed is refused before anything is sent, with its place, in both forms."""
    for body, pointer, says in [
        ({}, "#/min_score", "give min_score"),
        ({"min_score": 2}, "#/min_score", "from 0 to 1"),
        ({"min_score": 0.5, "as": "groups"}, "#/as", "pairs, clusters"),
        ({"min_score": 0.5, "miss": 1}, "#/miss", "a probability"),
        ({"min_score": 0.5, "form": "pairs"}, "#", "known are min_score, max_distance, as, miss"),
        ({"min_score": 0.5, "limit": 0}, "#/limit", "from 1 on"),
        ({"min_score": 0.5, "filter": {"a": {"$x": 1}}}, "#/filter/a/$x", "unknown operator '$x'"),
    ]:
        told = problem(await photos.client.post(f"{PATH}/duplicates", json=body, headers=headers))
        assert told["status"] == 422
        assert told["errors"][0]["pointer"] == pointer
        assert says in told["detail"]
    told = problem(await photos.client.post("/v1/collections/none/duplicates", json={"min_score": 0.5}, headers=headers))
    assert told["code"] == "collection_not_found"
    await photos.put("/v1/collections/both", {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}})
    told = problem(await photos.client.post("/v1/collections/both/duplicates", json={"min_score": 0.5}, headers=headers))
    assert (told["status"], told["code"]) == (422, "invalid_field")
    assert "field says which is meant" in told["detail"]


async def test_clusters_that_are_too_large_for_one_answer_are_refused(photos: App) -> None:
    """More ids than an answer may have items are over a limit; as lines they are told."""
    photos.service.settings = photos.service.settings.model_copy(update={"max_answer_items": 10})
    told = await photos.post(f"{PATH}/duplicates", {"min_score": 0.97, "as": "clusters"}, status=422)
    assert (told["code"], told["limit"]) == ("over_limit", "answer_items")
    assert len(await lines(photos, {"min_score": 0.97, "as": "clusters"})) > 50


async def test_lines_are_looked_for_one_search_at_a_time(photos: App) -> None:
    """While other work of minutes goes on a search for lines is refused, and afterwards it is not; one that fails lets go."""
    async with photos.service.long_work():
        told = problem(await photos.client.post(f"{PATH}/duplicates", json={"min_score": 0.97}, headers=LINES))
        assert (told["code"], told["limit"]) == ("overloaded", "long_work")
    assert (await photos.client.post(f"{PATH}/duplicates", json={"min_score": 7}, headers=LINES)).status_code == 422
    assert await lines(photos, {"min_score": 0.97})


async def test_a_service_that_stops_ends_the_lines(photos: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is at its work when the service stops ends with a line that says so; one that has told nothing is refused."""
    monkeypatch.setattr("kinbin_service.routes.duplicates._LINES", 1)
    monkeypatch.setattr("kinbin.duplicates.search._ROOM", 1)
    stopping = photos.service._long._cancel

    def stop(found: Any) -> dict[str, Any]:
        stopping.set()
        return {}

    monkeypatch.setattr("kinbin_service.routes.duplicates._told", stop)
    *_, last = await lines(photos, {"min_score": 0.97})
    assert last["error"]["code"] == "stopping"
    told = problem(await photos.client.post(f"{PATH}/duplicates", json={"min_score": 0.97}, headers=LINES))
    assert told["code"] == "stopping"


async def streamed(app: App, send: Callable[[Any, dict[str, Any]], Awaitable[None]]) -> None:
    """Ask for lines, and let `send` take the messages of the answer, with the scope of the request."""
    body = orjson.dumps({"min_score": 0.97})
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"accept", b"application/x-ndjson")]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "root_path": "",
    }
    scope |= {"path": f"{PATH}/duplicates", "raw_path": f"{PATH}/duplicates".encode(), "query_string": b"", "client": ("127.0.0.1", 1)}
    scope |= {"server": ("localhost", 80), "headers": [*headers, (b"content-length", b"%d" % len(body))]}
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    transport: Any = app.client._transport
    await transport.app(scope, receive, lambda message: send(scope, message))


async def test_a_reader_that_takes_nothing_lets_go(photos: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that nobody takes for so long are given up, and the next long work has its turn."""
    monkeypatch.setattr("kinbin_service.routes.duplicates._PATIENCE_SECONDS", 0.2)

    async def stall(_: Any, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async with asyncio.timeout(20):
        await streamed(photos, stall)
    async with photos.service.long_work():
        pass


async def test_lines_end_when_the_server_begins_to_stop(photos: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that the server waits for when it stops ends with a line that says so, long before it would be broken off."""
    monkeypatch.setattr("kinbin_service.routes.duplicates._LINES", 1)
    monkeypatch.setattr("kinbin.duplicates.search._ROOM", 1)
    parts = []

    async def take(scope: Any, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            parts.append(message["body"])
            scope["kinbin.stopping"] = True

    await streamed(photos, take)
    assert orjson.loads(parts[-1].splitlines()[-1])["error"]["code"] == "stopping"
    assert len(parts) < len(PAIRS)
