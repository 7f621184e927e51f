"""Collections over HTTP: create, describe, list, drop."""

from __future__ import annotations

from typing import Any

import pytest

from service_app import App, eventually, judged


async def test_put_creates_once_and_then_finds_it_alike(app: App) -> None:
    """PUT answers 201 when it created the collection and 200 when it exists alike."""
    made = await app.put("/v1/collections/photos", {"kernel": "gmm", "dim": 8}, status=201)
    assert (made["name"], made["kernel"], made["dim"], made["count"]) == ("photos", "gmm", 8, 0)
    assert (await app.put("/v1/collections/photos", {"kernel": "gmm", "dim": 8}, status=200))["name"] == "photos"


async def test_put_of_another_configuration_is_a_conflict(app: App) -> None:
    """PUT answers 409, and says what differs, when the collection exists with another configuration, and changes nothing."""
    await app.put("/v1/collections/photos", {"kernel": "gmm", "dim": 8})
    for other, differs in (
        ({"kernel": "ngmm", "dim": 8}, "kernel gmm, not ngmm"), ({"kernel": "gmm", "dim": 9}, "dim 8, not 9"),
        ({"kernel": "gmm"}, "dim 8, not None"), ({"kernel": "gmm", "dim": 8, "bands": 12}, "bands None, not 12"),
    ):  # fmt: skip
        refused = await app.put("/v1/collections/photos", other, status=409)
        assert refused["code"] == "collection_exists"
        assert refused["detail"] == f"the collection exists with {differs}; choose another name or drop it first"
    assert (await app.get("/v1/collections/photos"))["dim"] == 8


async def test_parameters_of_a_kernel_are_taken_and_told(app: App) -> None:
    """PUT takes the kernel's parameters, GET tells all of them, other ones are a conflict, and bad ones are refused by their field."""
    configuration = {"kernel": "exp_chi2", "dim": 2, "parameters": {"gamma": 2}}
    made = await app.put("/v1/collections/heat", configuration, status=201)
    assert made["parameters"] == {"gamma": 2.0}
    assert (await app.put("/v1/collections/heat", configuration, status=200))["parameters"] == {"gamma": 2.0}
    await app.put("/v1/collections/heat", {"kernel": "exp_chi2", "dim": 2}, status=409)
    assert (await app.put("/v1/collections/usual", {"kernel": "rbf", "dim": 2}, status=201))["parameters"] == {"gamma": 1.0}
    assert (await app.put("/v1/collections/none", {"dim": 2}, status=201))["parameters"] == {}
    for bad in ({"gamma": 0}, {"gama": 1}, {"gamma": "2"}, {"gamma": True}, {"gamma": None}, [1]):
        refused = await app.put("/v1/collections/bad", configuration | {"parameters": bad}, status=422)
        assert "parameters" in str(refused["errors"])
    await app.get("/v1/collections/bad", status=404)


async def test_parameters_may_be_words_and_lists(app: App) -> None:
    """Nested histograms are created with theirs, told with all of them, and answer vectors of counts, whose number follows."""
    configuration = {"kernel": "nested", "parameters": {"levels": 2, "base": "chi2", "epsilon": [0.25]}}
    made = await app.put("/v1/collections/pictures", configuration, status=201)
    assert made["dim"] == 2048
    assert made["parameters"] == {"levels": 2, "base": "chi2", "lambda": 1.0, "epsilon": [0.25]}
    await app.put("/v1/collections/pictures", configuration, status=200)
    items = [{"id": "a", "vector": {"indices": [0, 2000], "values": [3, 1]}}, {"id": "b", "vector": {"indices": [7], "values": [1]}}]
    await app.post("/v1/collections/pictures/index", {"items": items})
    found = await app.post("/v1/collections/pictures/query", {"id": "a", "include": ["vector"], "include_self": True})
    assert [one["id"] for one in found["results"]] == ["a", "b"]
    assert [sum(one["vector"]) for one in found["results"]] == [4.0, 1.0]
    for bad in ({"base": "l2"}, {"levels": 7}, {"epsilon": [0.1]}, {"base": ["tv"]}):
        refused = await app.put("/v1/collections/bad", {"kernel": "nested", "parameters": bad}, status=422)
        assert "parameters" in str(refused["errors"])


async def test_products_of_kernels_have_one_name(app: App) -> None:
    """A product is created by its parts in any order, has their parameters, and what cannot be a part is refused."""
    made = await app.put("/v1/collections/both", {"kernel": "rbf*ngmm", "dim": 2, "parameters": {"rbf.gamma": 3}}, status=201)
    assert (made["kernel"], made["parameters"]) == ("ngmm*rbf", {"rbf.gamma": 3.0})
    for bad in ("cosine*ngmm", "ngmm*ngmm", "ngmm*mm_acos", "ngmm*gmm*acos*chi2", "ngmm*", "ngmm*nothing"):
        refused = await app.put("/v1/collections/bad", {"kernel": bad, "dim": 2}, status=422)
        assert "kernel" in refused["detail"]


async def test_a_description_holds_the_configuration_and_never_the_seed(app: App) -> None:
    """GET reports the configuration, the size and the index, but not the seed, which an attacker could use."""
    await app.put("/v1/collections/photos", {"kernel": "ngmm", "dim": 3, "bands": 16, "rows": 2, "seed": 987_654_321})
    await app.post("/v1/collections/photos/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
    described = await app.get("/v1/collections/photos")
    assert (described["bands"], described["rows"], described["count"]) == (16, 2, 1)
    assert described["stats"]["count"] == 1
    assert "seed" not in described
    assert "987654321" not in str(described)


async def test_a_description_tells_what_fails_in_the_background(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """GET reports failures of the worker's background threads: how many, how many in a row, and the last one; health names none."""
    await app.put("/v1/collections/photos", {"dim": 3})
    quiet = {"failures": 0, "in_a_row": 0, "last_failure": None}
    assert (await app.get("/healthz"))["background"] == "ok"
    assert (await app.get("/v1/collections/photos"))["stats"]["background"] == {"upkeep": quiet, "links": quiet, "indexes": quiet}
    collection: Any = app.service.database.collection("photos")

    def fail(quiet: bool) -> bool:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(collection._upkeep_thread, "_step", fail)
    await app.post("/v1/collections/photos/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
    await eventually(lambda: collection.stats()["background"]["upkeep"]["failures"])
    background = (await app.get("/v1/collections/photos"))["stats"]["background"]
    assert background["links"] == quiet
    assert background["upkeep"]["in_a_row"] >= 1
    assert (await app.get("/healthz"))["background"] == (await app.get("/readyz"))["background"] == "failing"
    assert background["upkeep"]["last_failure"].items() >= {"error": "ZeroDivisionError", "detail": "planted"}.items()


async def test_collections_are_listed_sorted(app: App) -> None:
    """GET /v1/collections lists all names in order."""
    for name in ("zebra", "ant", "m-1_x"):
        await app.put(f"/v1/collections/{name}", {})
    assert await app.get("/v1/collections") == {"collections": ["ant", "m-1_x", "zebra"]}


async def test_a_dropped_collection_is_gone(app: App) -> None:
    """DELETE drops a collection and its items; a second DELETE finds none."""
    await app.put("/v1/collections/photos", {"dim": 3})
    await app.post("/v1/collections/photos/index", {"items": [{"id": "a", "vector": [1, 2, 3]}]})
    assert judged(await app.client.delete("/v1/collections/photos"), 200) == {"dropped": "photos"}
    assert judged(await app.client.delete("/v1/collections/photos"), 404)["code"] == "collection_not_found"
    await app.post("/v1/collections/photos/query", {"vector": [1, 2, 3]}, status=404)
    await app.put("/v1/collections/photos", {"dim": 5}, status=201)
    assert (await app.get("/v1/collections/photos"))["count"] == 0


async def test_names_that_could_leave_the_data_directory_are_refused(app: App) -> None:
    """Dots, escapes, capitals, control characters and long names never become a collection."""
    for name in ("..", "%2e%2e", "%2e%2e%2fetc", "a%00b", "UPPER", "a b", "-x", "x" * 64, "é", "%ff"):
        response = await app.client.put(f"/v1/collections/{name}", json={})
        assert response.status_code in (404, 405, 422), (name, response.status_code)
        assert response.headers["content-type"] == "application/problem+json"
    assert (await app.get("/v1/collections"))["collections"] == []


async def test_a_kernel_by_the_name_it_has_elsewhere(app: App) -> None:
    """The refusal says what it is called here."""
    for body, meant in (({"kernel": "chi-squared"}, "chi2"), ({"items": "strings", "distance": "edit_distance"}, "levenshtein")):
        assert f"did you mean '{meant}'?" in (await app.put("/v1/collections/c", body, status=422))["detail"]
