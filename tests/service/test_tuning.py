"""Tuning over HTTP: settings predicted, recall measured, a collection laid out anew."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbin import Collection
from service_app import App, eventually

PATH = "/v1/collections/points"


@pytest.fixture
def rows(rng: np.random.Generator) -> NDArray[np.float64]:
    """(400, 24) rows around 20 centres."""
    centres = rng.gamma(0.5, size=(20, 24))[np.arange(400) % 20]
    return (centres * rng.gamma(6.0, 1 / 6, centres.shape) + 1e-3).round(6)


@pytest.fixture
async def points(app: App, rows: NDArray[np.float64]) -> App:
    """An application with these rows in a collection of bands that are too long."""
    await app.put(PATH, {"dim": 24, "rows": 8, "bands": 6, "seed": 1})
    await app.post(f"{PATH}/index", {"items": [{"id": f"{i}", "vector": row} for i, row in enumerate(rows.tolist())]})
    app.service.database.collection("points").compact()
    return app


async def test_settings_are_predicted_and_taken(points: App) -> None:
    """What is suggested is rebuilt, described by the collection, and finds what was predicted; no body stands for the defaults."""
    told = await points.post(f"{PATH}/tune", {"k": 5, "sample": 300, "choices": [{"rows": 8, "bands": 6}, {"rows": 2, "bands": 100}]})
    assert [(one["rows"], one["bands"]) for one in told["bands"]] == [(8, 6), (2, 100)]
    assert told["current"]["measured_recall"] == pytest.approx(told["bands"][0]["recall"], abs=0.002)
    assert told["bands"][0]["recall"] < 0.9 < told["bands"][1]["recall"]
    assert (told["suggested"]["rows"], told["suggested"]["bands"]) == (2, 100)
    assert told["walks"] == []
    assert len(told["similarity_histogram"]["edges"]) == 65
    made = await points.post(f"{PATH}/rebuild", {"rows": 2, "bands": 100})
    assert (made["rows"], made["bands"], made["count"]) == (2, 100, 400)
    described = await points.get(PATH)
    assert (described["rows"], described["bands"]) == (2, 100)
    again = await points.post(f"{PATH}/tune", b"", headers={})
    assert (again["k"], again["sample"], again["target_recall"]) == (10, 200, 0.9)
    assert (again["current"]["rows"], again["current"]["bands"]) == (2, 100)
    assert (await points.post(f"{PATH}/rebuild", b"", headers={}))["rows"] is not None
    assert (await points.get(PATH))["rows"] is None


async def test_recall_is_measured_with_stored_rows_and_with_given_queries(points: App, rows: NDArray[np.float64]) -> None:
    """Both say recall, its lowest, the certificate's mean and milliseconds of every mode, or of those that are asked for."""
    told = await points.get(f"{PATH}/recall", params={"queries": 150, "k": 5, "modes": "bands,exact", "seed": 3})
    assert (told["queries"], told["k"], told["sampled"]) == (150, 5, True)
    assert [one["mode"] for one in told["modes"]] == ["bands", "exact"]
    bands, exact = told["modes"]
    assert exact["recall"] == exact["lowest"] == exact["certificate"] == 1.0
    assert 0.0 < bands["recall"] < 0.95
    assert 0.0 <= bands["certificate"] < bands["recall"]
    given = await points.post(f"{PATH}/recall", {"queries": (rows[:40] * 1.1).tolist(), "k": 5})
    assert (given["queries"], given["sampled"]) == (40, False)
    assert [one["mode"] for one in given["modes"]] == ["auto", "bands", "exact"]
    assert given["modes"][0]["recall"] >= 0.9
    assert all(one["milliseconds"] > 0.0 for one in given["modes"])


@pytest.mark.parametrize(
    ("path", "body", "pointer", "code"),
    [
        ("tune", {"choices": [{"rows": 9, "bands": 10}]}, "#/choices/0/rows", "invalid_field"),
        ("tune", {"choices": [{"rows": 1}]}, "#/choices/0/bands", "invalid_field"),
        ("tune", {"k": 101}, "#/k", "over_limit"),
        ("tune", {"k": 100, "sample": 201}, "#/sample", "over_limit"),
        ("tune", {"sample": "many"}, "#/sample", "invalid_field"),
        ("tune", {"target_recall": 1.5}, "#/target_recall", "invalid_field"),
        ("recall", {"queries": [[1.0, 2.0]]}, "#/queries/0", "dimension_mismatch"),
        ("recall", {"queries": [{"string": "a"}]}, "#/queries/0/string", "invalid_field"),
        ("recall", {"queries": [], "modes": ["fast"]}, "#/modes/0", "invalid_field"),
        ("recall", {"queries": [[1.0] * 24], "modes": ["links"]}, "#/modes", "bad_parameter"),
        ("recall", {}, "#/queries", "invalid_field"),
        ("rebuild", {"rows": 0}, "#/rows", "invalid_field"),
        ("rebuild", {"band": 3}, "#", "invalid_field"),
    ],
)
async def test_what_is_malformed_is_refused_with_its_place(points: App, path: str, body: Any, pointer: str, code: str) -> None:
    """422, and nothing is changed."""
    refused = await points.post(f"{PATH}/{path}", body, status=422)
    assert refused["code"] == code
    assert refused["errors"][0]["pointer"] == pointer
    assert (await points.get(PATH))["rows"] == 8


@pytest.mark.parametrize(
    ("body", "pointer", "limit"),
    [
        ({"sample": 5_001, "k": 1}, "#/sample", "tuned_rows"),
        ({"k": 101}, "#/k", "tuned_k"),
        ({"choices": [{"rows": 1, "bands": 1}] * 1_001}, "#/choices", "tuned_choices"),
    ],
)
async def test_a_limit_that_is_passed_is_named(points: App, body: dict[str, Any], pointer: str, limit: str) -> None:
    """The one of this request, not of others that have a field of the name."""
    refused = await points.post(f"{PATH}/tune", body, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"], refused["limit"]) == ("over_limit", pointer, limit)
    refused = await points.get(f"{PATH}/recall", params={"queries": 5_001}, status=422)
    assert (refused["code"], refused["limit"]) == ("over_limit", "tuned_rows")


@pytest.mark.parametrize("given", [{"queries": 0}, {"modes": "fast"}, {"k": "x"}, {"sample": 3}, {"modes": ""}, {"queries": [5, 6]}])
async def test_what_is_malformed_in_the_address_is_refused(points: App, given: dict[str, Any]) -> None:
    """422."""
    await points.get(f"{PATH}/recall", params=given, status=422)


async def test_there_is_nothing_to_measure_without_neighbours(app: App) -> None:
    """An empty collection, and one whose rows have nothing in common, have no recall: null, and not 1."""
    await app.put(PATH, {"dim": 3})
    for queries in (0, 2):
        told = await app.get(f"{PATH}/recall", params={"modes": "auto,exact"})
        assert told["queries"] == queries
        assert [(one["recall"], one["lowest"]) for one in told["modes"]] == [(None, None)] * 2
        await app.post(f"{PATH}/index", {"items": [{"id": "a", "vector": [1, 0, 0]}, {"id": "b", "vector": [0, 1, 0]}]})


async def test_collections_without_bands(app: App) -> None:
    """Strings are not tuned, their recall is measured; of several fields one has to be named; what is not there is 404."""
    await app.put(PATH, {"items": "strings", "distance": "levenshtein"})
    await app.post(f"{PATH}/index", {"items": [{"id": f"{i}", "string": f"word {i}"} for i in range(20)]})
    assert "tune is about bands" in (await app.post(f"{PATH}/tune", {}, status=422))["detail"]
    assert "rebuild is about bands" in (await app.post(f"{PATH}/rebuild", {}, status=422))["detail"]
    told = await app.post(f"{PATH}/recall", {"queries": [{"string": "word"}], "k": 3})
    assert [one["recall"] for one in told["modes"]] == [1.0, 1.0]
    await app.put("/v1/collections/both", {"fields": {"one": {"dim": 2}, "two": {"dim": 2}}})
    for path in ("tune", "rebuild"):
        refused = await app.post(f"/v1/collections/both/{path}", {}, status=422)
        assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid_field", "#/field")
        assert "of one, two" in refused["detail"]
        assert "leave field out" in (await app.post(f"{PATH}/{path}", {"field": "one"}, status=422))["detail"]
        assert (await app.post(f"/v1/collections/none/{path}", {}, status=404))["code"] == "collection_not_found"
    refused = await app.post("/v1/collections/both/recall", {"queries": [{"indices": [0], "values": [1.0]}]}, status=422)
    assert "with stored items" in refused["detail"]


async def test_one_rebuild_at_a_time(points: App, monkeypatch: pytest.MonkeyPatch, rows: NDArray[np.float64]) -> None:
    """While one is under way a second is refused with 429, and queries are answered."""
    import asyncio

    begun, gate, rebuild = threading.Event(), threading.Event(), Collection.rebuild

    def held(collection: Collection, *asked: Any) -> Any:
        begun.set()
        assert gate.wait(60)
        return rebuild(collection, *asked)

    monkeypatch.setattr(Collection, "rebuild", held)
    first = asyncio.create_task(points.post(f"{PATH}/rebuild", {"rows": 3, "bands": 30}))
    await eventually(begun.is_set)
    assert (await points.post(f"{PATH}/rebuild", {"rows": 4, "bands": 30}, status=429))["code"] == "overloaded"
    assert (await points.post(f"{PATH}/query", {"vector": rows[7].tolist(), "k": 1}))["results"][0]["id"] == "7"
    gate.set()
    assert (await first)["rows"] == 3
