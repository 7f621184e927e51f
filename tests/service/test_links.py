"""Links over HTTP: a linked collection is walked, says that a walk has no bound, and gives one when it is asked to certify."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from service_app import App, judged

QUERY = "/v1/collections/photos/query"
NO_BOUND = "links give no bound; certify asks the bands for one"


@pytest.fixture
async def linked(app: App, rng: np.random.Generator) -> App:
    """An application with a linked collection "photos" of 1,200 items p0 … p1199 with payload {"half": 0 or 1}."""
    await app.put("/v1/collections/photos", {"dim": 24})
    centres = rng.gamma(0.5, size=(30, 24))[np.arange(1_200) % 30]
    rows = (centres * rng.gamma(6.0, 1 / 6, centres.shape) + 1e-3).round(6)
    items = [{"id": f"p{n}", "vector": row, "payload": {"half": n % 2}} for n, row in enumerate(rows.tolist())]
    await app.post("/v1/collections/photos/index", {"items": items})
    app.service.database.collection("photos").link()
    return app


async def stored(app: App, identifier: str) -> list[float]:
    """The vector of an item."""
    found = await app.post("/v1/collections/photos/get", {"ids": [identifier], "include": ["vector"]})
    vector: list[float] = found["items"][0]["vector"]
    return vector


async def test_a_walk_has_no_bound_and_says_why(linked: App) -> None:
    """Mode links answers by a walk: exact scores, no bound, the reason; by vector, by id and for many."""
    vector = await stored(linked, "p7")
    exact = await linked.post(QUERY, {"vector": vector, "k": 5, "mode": "exact"})
    answers = [
        await linked.post(QUERY, {**asked, "k": 5, "mode": "links"}) for asked in ({"vector": vector}, {"id": "p7", "include_self": True})
    ]
    answers += (await linked.post(QUERY, {"queries": [vector, vector], "k": 5, "mode": "links"}))["answers"]
    for answer in answers:
        assert (answer["mode"], answer["recall_lower_bound"], answer["no_bound"], answer["truncated"]) == ("links", None, NO_BOUND, [])
        assert answer["results"][0] == exact["results"][0]
        assert 5 <= answer["verified"] <= answer["candidates"]


@pytest.mark.parametrize("mode", ["links", "auto"])
async def test_certify_gives_a_bound(linked: App, mode: str) -> None:
    """A walk that the bands are asked to certify carries a number, in auto mode at least the target, and no reason."""
    answer = await linked.post(QUERY, {"id": "p7", "include_self": True, "k": 5, "mode": mode, "certify": True, "target_recall": 0.8})
    assert 0.0 <= answer["recall_lower_bound"] <= 1.0
    assert mode == "links" or answer["recall_lower_bound"] >= 0.8
    assert "no_bound" not in answer
    assert answer["results"][0]["id"] == "p7"


async def test_certify_changes_nothing_where_there_is_a_bound(linked: App) -> None:
    """Scans and bands have their bound anyway."""
    for mode in ("bands", "exact"):
        plain = await linked.post(QUERY, {"id": "p7", "k": 5, "mode": mode})
        certified = await linked.post(QUERY, {"id": "p7", "k": 5, "mode": mode, "certify": True})
        assert {**certified, "took_ms": 0} == {**plain, "took_ms": 0}
        assert plain["recall_lower_bound"] is not None


async def test_options_of_a_matrix_stand_in_the_address(linked: App) -> None:
    """Mode links and certify are parameters of the address with a matrix as the body, and refused there alike."""
    matrix = np.array([await stored(linked, "p7"), await stored(linked, "p8")], np.float32)
    stream = io.BytesIO()
    np.save(stream, matrix)

    async def send(options: str, status: int = 200) -> Any:
        headers = {"content-type": "application/x-npy"}
        return judged(await linked.client.post(f"{QUERY}?k=3&{options}", content=stream.getvalue(), headers=headers), status)

    for options, bounded in (("mode=links", False), ("mode=links&certify=false", False), ("mode=links&certify=true", True)):
        answers = (await send(options))["answers"]
        assert [answer["mode"] for answer in answers] == ["links", "links"]
        assert [answer["recall_lower_bound"] is not None for answer in answers] == [bounded, bounded]
    refused = await send("mode=links&certify=perhaps", 422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid_field", "#/certify")


async def test_filters_and_contents_come_with_a_walk(linked: App) -> None:
    """A filter, a least score and contents work on a walk as on every path."""
    asked = {"id": "p8", "include_self": True, "k": 4, "mode": "links", "filter": {"half": 0}, "include": ["payload"]}
    answer = await linked.post(QUERY, asked)
    assert answer["results"][0]["id"] == "p8"
    assert [hit["payload"] for hit in answer["results"]] == [{"half": 0}] * 4
    near = await linked.post(QUERY, {**asked, "min_score": 0.999})
    assert [hit["id"] for hit in near["results"]] == ["p8"]


async def test_a_collection_describes_its_links(linked: App) -> None:
    """The statistics of a collection over HTTP hold those of its links; null before they are built."""
    links = (await linked.get("/v1/collections/photos"))["stats"]["links"]
    assert (links["rows"], links["unlinked_rows"]) == (1_200, 0)
    assert links["calibration"][0].keys() == {"pool"} | {f"{of}@{k}" for of in ("recall", "hard") for k in (1, 10, 100)}
    await linked.put("/v1/collections/others", {"dim": 24})
    assert (await linked.get("/v1/collections/others"))["stats"]["links"] is None


async def test_without_links_the_bands_answer(app: App) -> None:
    """Mode links of a collection that is not linked is answered by bands, with their bound."""
    await app.post("/index", {"items": [{"id": f"i{n}", "vector": [1, n, 3]} for n in range(20)]})
    answer = await app.post("/query", {"id": "i7", "k": 1, "mode": "links", "include_self": True})
    assert (answer["mode"], answer["results"][0]["id"]) == ("bands", "i7")
    assert answer["recall_lower_bound"] > 0.9
