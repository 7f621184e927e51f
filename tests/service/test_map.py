"""Maps over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from service_app import App

PATH = "/v1/collections/c"


@pytest.fixture
async def filled(app: App) -> App:
    """Two groups of histograms with their labels."""
    await app.put(PATH, {"kernel": "chi2", "dim": 4})
    vectors = [[9 + i, 1, 0, 0] if i % 2 else [0, 0, 1, 9 + i] for i in range(20)]
    items = [{"id": f"{i:02}", "vector": vector, "payload": {"label": i % 2, "more": "x"}} for i, vector in enumerate(vectors)]
    await app.post(f"{PATH}/index", {"items": items})
    return app


@pytest.mark.parametrize("method", ["kernel_pca", "spectral"])
async def test_a_map_is_drawn(method: str, filled: App) -> None:
    """Points come with the fields of payloads that were asked for, groups lie apart, and the same request draws the same map."""
    asked: dict[str, Any] = {"method": method, "fields": ["label"], "sample": 16, "seed": 7}
    told = await filled.post(f"{PATH}/map", asked)
    assert (told["method"], told["kernel"], told["sample"], told["rows"], len(told["points"])) == (method, "chi2", 16, 20, 16)
    assert {tuple(point["payload"]) for point in told["points"]} == {("label",)}
    sides = {(point["payload"]["label"], point["x"] > 0) for point in told["points"]}
    assert len(sides) == 2
    assert (told["explained"] is None) == (method == "spectral")
    again = await filled.post(f"{PATH}/map", asked)
    assert [point["id"] for point in again["points"]] == [point["id"] for point in told["points"]]
    assert [point["x"] for point in again["points"]] == pytest.approx([point["x"] for point in told["points"]], abs=1e-7)
    assert {point["payload"]["label"] for point in (await filled.post(f"{PATH}/map", {**asked, "filter": {"label": 1}}))["points"]} == {1}
    assert {point["payload"] for point in (await filled.post(f"{PATH}/map", {}))["points"]} == {None}


async def test_a_field_of_several(app: App) -> None:
    """Of several fields one is drawn, by its name."""
    await app.put(PATH, {"fields": {"x": {"dim": 2}, "y": {"kernel": "js", "dim": 2}}})
    items = [{"id": f"{i}", "vectors": {"x": [1, i], "y": [i, 1]}} for i in range(6)]
    await app.post(f"{PATH}/index", {"items": items})
    told = await app.post(f"{PATH}/map", {"field": "y"})
    assert (told["kernel"], told["sample"]) == ("js", 6)


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"sample": 0}, "invalid_field", "#/sample"),
        ({"sample": 2_001}, "over_limit", "#/sample"),
        ({"method": "umap"}, "invalid_field", "#/method"),
        ({"fields": ["a..b"]}, "bad_parameter", "#/fields"),
        ({"field": "x"}, "invalid_field", "#/field"),
        ({"fields": ["a"] * 65}, "over_limit", "#/fields"),
        ({"filter": {"$x": 1}}, "bad_filter", "#/filter/$x"),
        ({"seed": -1}, "invalid_field", "#/seed"),
    ],
)
async def test_what_is_refused(body: dict[str, Any], code: str, pointer: str, filled: App) -> None:
    """Bad requests are refused with a pointer to what is wrong."""
    refused = await filled.post(f"{PATH}/map", body, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == (code, pointer)
