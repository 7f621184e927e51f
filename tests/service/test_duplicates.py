"""Duplicates over HTTP: pairs and clusters, as one answer and as lines."""

from __future__ import annotations

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
        ({"min_score": 0.5, "limit": 0}, "#/limit", "from 1 on"),
        ({"min_score": 0.5, "filter": {"a": {"$x": 1}}}, "#/filter", "unknown operator"),
    ]:
        told = problem(await photos.client.post(f"{PATH}/duplicates", json=body, headers=headers))
        assert told["status"] == 422
        assert told["errors"][0]["pointer"] == pointer
        assert says in told["detail"]
    told = problem(await photos.client.post("/v1/collections/none/duplicates", json={"min_score": 0.5}, headers=headers))
    assert told["code"] == "collection_not_found"


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
