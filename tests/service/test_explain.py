"""Why an item scores what it scores, over HTTP."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import pytest
from PIL import Image

from bundled import pictures
from service_app import App

PATH = "/v1/collections/c"


def added(told: dict[str, Any]) -> float:
    """All parts together."""
    return math.fsum(one["part"] for one in (*told["terms"], told["rest"], *told["constants"]))


async def test_terms_of_tokens(app: App) -> None:
    """Terms add up to the score of a query, tokens have their names, and bands are told with their curve."""
    await app.put(PATH, {"kernel": "minmax"})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "vector": {"tokens": {"red": 3, "apple": 1, "pie": 2}}}]})
    asked = {"vector": {"tokens": {"red": 2, "apple": 2}}}
    (hit,) = (await app.post(f"{PATH}/query", asked))["results"]
    told = await app.post(f"{PATH}/explain", {**asked, "id": "a", "s_curve": True, "feature_names": ["pie"]})
    assert told["score"] == hit["score"] == pytest.approx(3 / 7)
    assert (told["id"], told["kernel"], told["ascending"], told["outer"], told["factors"]) == ("a", "minmax", False, None, None)
    assert added(told) == pytest.approx(told["score"], abs=1e-9)
    assert [(one["name"], one["query"], one["item"], one["min"], one["max"]) for one in told["terms"]] == [
        ("red", 2, 3, 2, 3), ("apple", 2, 1, 1, 2), ("pie", 0, 2, 0, 2),
    ]  # fmt: skip
    assert (told["bands"]["rows"], told["bands"]["bands"]) == (1, 128)
    assert told["bands"]["s_curve"][-1] == [1.0, 1.0]
    assert told["no_bound"] is None
    assert told["walk"] is None
    short = await app.post(f"{PATH}/explain", {**asked, "id": "a", "limit": 1})
    assert (len(short["terms"]), short["rest"]["features"], short["rest"]["min"]) == (1, 2, 1)
    assert "s_curve" not in short["bands"]
    assert short["terms"][0].keys() == {"part", "feature", "name", "query", "item", "min", "max"}


async def test_declared_names(app: App) -> None:
    """Names that a collection, or a field, was created with are told by it and by its explanations; without any there is no such key."""
    told = await app.put(PATH, {"dim": 2, "feature_names": ["red", "blue"]})
    assert told["feature_names"] == {"0": "red", "1": "blue"}
    assert (await app.get(PATH))["feature_names"] == told["feature_names"]
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "vector": [1, 2]}]})
    explained = await app.post(f"{PATH}/explain", {"vector": [1, 2], "id": "a"})
    assert [one["name"] for one in explained["terms"]] == ["blue", "red"]
    assert "feature_names" not in await app.put("/v1/collections/plain", {"dim": 2})
    fields = {"x": {"dim": 1, "feature_names": {"0": "red"}}, "y": {"dim": 1}}
    told = await app.put("/v1/collections/several", {"fields": fields})
    assert told["fields"]["x"]["feature_names"] == {"0": "red"}
    assert "feature_names" not in told["fields"]["y"]
    refused = await app.put("/v1/collections/other", {"dim": 1, "feature_names": ["a", "b"]}, status=422)
    assert refused["errors"][0]["pointer"] == "#/feature_names"


async def test_factors_of_a_product(app: App) -> None:
    """Of a product there is a list of factors whose values make the score, and no terms beside it."""
    await app.put(PATH, {"kernel": "ngmm*rbf", "dim": 3, "parameters": {"rbf.gamma": 2.0}})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "vector": [1, 2, 0]}, {"id": "b", "vector": [1, 1, 1]}]})
    told = await app.post(f"{PATH}/explain", {"query_id": "b", "id": "a"})
    assert [one["kernel"] for one in told["factors"]] == ["ngmm", "rbf"]
    assert math.prod(one["value"] for one in told["factors"]) == pytest.approx(told["score"], abs=1e-9)
    assert (told["terms"], told["kernel"]) == ([], "ngmm*rbf")
    rbf = told["factors"][1]
    assert (rbf["outer"], rbf["parameters"]) == ("exp(-gamma * x / 2)", {"gamma": 2.0})
    assert math.exp(-2.0 * added(rbf) / 2) == pytest.approx(rbf["value"], abs=1e-9)


async def test_objects(app: App) -> None:
    """Strings are told by the changes that make one of the other, and have no bands."""
    await app.put(PATH, {"items": "strings", "kernel": "levenshtein"})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "string": "sitting"}]})
    told = await app.post(f"{PATH}/explain", {"string": "kitten", "id": "a"})
    assert (told["score"], told["ascending"], told["bands"]) == (3.0, True, None)
    assert "no bands" in told["no_bound"]
    assert [(one["what"], one["query"], one["item"], one["part"]) for one in told["terms"]] == [
        ("replace", "k", "s", 1.0), ("replace", "e", "i", 1.0), ("insert", None, "g", 1.0),
    ]  # fmt: skip


async def test_an_image(app: App) -> None:
    """An image is compared as a query compares it; what is no image in base64 is refused with its place."""
    first, second = (base64.b64encode(file_of(one)).decode() for one in pictures()[:2])
    await app.put(PATH, {"items": "images", "parameters": {"levels": 2, "base": "tv"}})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "image": first}]})
    (hit,) = (await app.post(f"{PATH}/query", {"image": second}))["results"]
    told = await app.post(f"{PATH}/explain", {"image": second, "id": "a"})
    assert told["score"] == hit["score"]
    for bad in ("%%", "AAAA"):
        refused = await app.post(f"{PATH}/explain", {"image": bad, "id": "a"}, status=422)
        assert (refused["code"], refused["errors"][0]["pointer"]) == ("bad_object", "#/image")


def file_of(pixels: Any) -> bytes:
    """An image as a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


async def test_a_field_of_several(app: App) -> None:
    """One field of several is told; its name is needed there, and refused where there is one vector."""
    await app.put(PATH, {"fields": {"x": {"kernel": "chi2", "dim": 2}, "y": {"dim": 2}}})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "vectors": {"x": [1, 2], "y": [1, 0]}}]})
    told = await app.post(f"{PATH}/explain", {"vector": [1, 0], "id": "a", "field": "x"})
    assert (told["kernel"], told["score"]) == ("chi2", pytest.approx(2 * (1 / 3) / (4 / 3)))
    refused = await app.post(f"{PATH}/explain", {"vector": [1, 0], "id": "a"}, status=422)
    assert refused["errors"][0]["pointer"] == "#/field"
    assert refused["detail"] == "items of this collection have several vectors: field says which is meant, of x, y"
    await app.put("/v1/collections/d", {"dim": 2})
    refused = await app.post("/v1/collections/d/explain", {"vector": [1, 0], "id": "a", "field": "x"}, status=422)
    assert refused["errors"][0]["pointer"] == "#/field"


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"id": "a"}, "invalid_field", "#"),
        ({"vector": [1, 0], "query_id": "a", "id": "a"}, "invalid_field", "#"),
        ({"query_id": "a"}, "invalid_field", "#/id"),
        ({"query_id": "no", "id": "a"}, "unknown_id", "#/query_id"),
        ({"query_id": "a", "id": "no"}, "unknown_id", "#/id"),
        ({"vector": [1], "id": "a"}, "dimension_mismatch", "#/vector"),
        ({"string": "x", "id": "a"}, "invalid_field", "#/string"),
        ({"vector": [1, 0], "id": "a", "limit": 1_001}, "over_limit", "#/limit"),
        ({"vector": [1, 0], "id": "a", "feature_names": {"x": "y"}}, "bad_parameter", "#/feature_names"),
        ({"vector": [1, 0], "id": "a", "feature_names": {"1": 5}}, "invalid_field", "#/feature_names/1"),
    ],
)
async def test_what_is_refused(body: dict[str, Any], code: str, pointer: str, app: App) -> None:
    """Bad requests are refused with a pointer to what is wrong."""
    await app.put(PATH, {"dim": 2})
    await app.post(f"{PATH}/index", {"items": [{"id": "a", "vector": [1, 0]}]})
    refused = await app.post(f"{PATH}/explain", body, status=404 if code == "unknown_id" else 422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == (code, pointer)
