"""Collections with several fields over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

import kinbin
from service_app import App

FIELDS: dict[str, Any] = {"colour": {"kernel": "chi2", "dim": 4}, "words": {}}
ITEMS: list[dict[str, Any]] = [
    {"id": "a", "vectors": {"colour": [4, 0, 0, 1], "words": ["red", "apple"]}, "payload": {"n": 1}},
    {"id": "b", "vectors": {"colour": [0, 3, 1, 0], "words": {"tokens": {"red": 2}}}},
    {"id": "c", "vectors": {"colour": [0, 0, 2, 2], "words": {"indices": [3, 70001], "values": [1.5, 2]}}, "payload": {"n": 3}},
]
QUERY: dict[str, Any] = {"vectors": {"colour": [3, 1, 0, 0], "words": ["red"]}}


@pytest.fixture
async def filled(app: App) -> App:
    """An application with three items in a collection `p`."""
    made = await app.put("/v1/collections/p", {"fields": FIELDS})
    assert made["kernel"] is None
    assert {name: config["kernel"] for name, config in made["fields"].items()} == {"colour": "chi2", "words": "ngmm"}
    assert (await app.post("/v1/collections/p/index", {"items": ITEMS}))["indexed"] == 3
    return app


async def test_answers_are_those_of_the_library(filled: App, tmp_path: Path) -> None:
    """Sums, products, stored items and many queries answer over HTTP what the library answers, with the same parts."""
    with kinbin.open(tmp_path / "library") as db:
        db.create_collection("p", fields=FIELDS)
        c = db.fields_collection("p")
        words = [kinbin.Tokens(["red", "apple"]), kinbin.Tokens({"red": 2}), kinbin.Sparse([3, 70001], [1.5, 2])]
        c.add(["a", "b", "c"], {"colour": [item["vectors"]["colour"] for item in ITEMS], "words": words}, [{"n": 1}, None, {"n": 3}])
        x = {"colour": [3, 1, 0, 0], "words": kinbin.Tokens(["red"])}
        weights = {"colour": 0.25, "words": 2.0}
        for body, found in (
            (QUERY, c.query(x)),
            (QUERY | {"weights": weights, "min_score": 0.1}, c.query(x, weights, min_score=0.1)),
            (QUERY | {"combine": "product", "mode": "exact"}, c.query(x, combine="product", mode="exact")),
            ({"id": "b"}, c.query_id("b")),
            ({"id": "b", "include_self": True, "exclude": ["a"]}, c.query_id("b", include_self=True, exclude=["a"])),
            ({"id": "b", "fields": ["words"]}, c.query_id("b", fields=["words"])),
            ({"vectors": {"words": ["apple"]}, "filter": {"n": 1}}, c.query({"words": kinbin.Tokens(["apple"])}, filter={"n": 1})),
        ):
            answer = await filled.post("/v1/collections/p/query", body)
            assert [hit["id"] for hit in answer["results"]] == found.ids
            for got, hit in zip(answer["results"], found, strict=True):
                assert got["score"] == pytest.approx(hit.score, abs=1e-9)
                assert got["parts"] == pytest.approx(hit.parts, abs=1e-9)
            assert answer["recall_lower_bound"] == found.recall_lower_bound
    many = await filled.post("/v1/collections/p/query", {"queries": [QUERY, {"vectors": ITEMS[2]["vectors"]}], "weights": weights})
    alone = await filled.post("/v1/collections/p/query", QUERY | {"weights": weights})
    assert many["answers"][0]["results"] == alone["results"]
    assert many["answers"][1]["results"][0]["id"] == "c"
    assert many["answers"][1]["results"][0]["parts"] == pytest.approx({"colour": 1.0, "words": 1.0}, abs=1e-6)


async def test_items_come_back_as_they_were_sent(filled: App) -> None:
    """get, scroll and include give vectors by field; lines are items as well; delete and count do as elsewhere."""
    lines = b"\n".join(orjson.dumps(item | {"id": f"{item['id']}2"}) for item in ITEMS)
    added = await filled.post("/v1/collections/p/index", lines, headers={"content-type": "application/x-ndjson"})
    assert added["count"] == 6
    got = await filled.post("/v1/collections/p/get", {"ids": ["c2", "nobody"]})
    assert got["missing"] == ["nobody"]
    assert got["items"] == [ITEMS[2] | {"id": "c2"}]
    page = await filled.post("/v1/collections/p/scroll", {"limit": 2, "include": ["vector"]})
    assert [item["vectors"]["colour"] for item in page["items"]] == [[4, 0, 0, 1]] * 2
    answer = await filled.post("/v1/collections/p/query", QUERY | {"include": ["vector", "payload"], "k": 1})
    assert answer["results"][0]["id"] in ("b", "b2")
    assert answer["results"][0]["vectors"]["colour"] == ITEMS[1]["vectors"]["colour"]
    assert (await filled.post("/v1/collections/p/delete", {"ids": ["a2", "b2", "c2"]}))["count"] == 3
    assert (await filled.post("/v1/collections/p/count", {"filter": {"n": 3}}))["count"] == 1
    assert (await filled.get("/v1/collections/p"))["stats"]["fields"]["colour"]["count"] == 3
    assert (await filled.put("/v1/collections/p", {"fields": FIELDS}, status=200))["count"] == 3
    await filled.put("/v1/collections/p", {"fields": {"colour": FIELDS["colour"]}}, status=409)


def _item(**vectors: Any) -> dict[str, Any]:
    return {"items": [ITEMS[0], {"id": "z", "vectors": vectors}]}


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "one vector": ("index", {"items": [{"id": "z", "vector": [1, 2, 3, 4]}]}, "bad_parameter", "#/vectors"),
    "a field less": ("index", _item(colour=[1, 2, 3, 4]), "bad_vector", "#/items/1/vectors"),
    "none of the fields": ("index", {"items": [{"id": "z", "vectors": {"x": [1]}}]}, "bad_parameter", "#/vectors"),
    "a zero vector": ("index", _item(colour=[0, 0, 0, 0], words=["a"]), "zero_vector", "#/items/1/vectors/colour"),
    "no vector": ("index", _item(colour=5, words=["a"]), "bad_vector", "#/items/1/vectors/colour"),
    "an unknown key": ("index", {"items": [ITEMS[0], ITEMS[1] | {"vector": [1]}]}, "invalid_field", "#/items/1"),
    "a plain query": ("query", {"vector": [1, 2, 3, 4]}, "bad_parameter", "#/vectors"),
    "an unknown field": ("query", {"vectors": {"colours": [1, 2, 3, 4]}}, "bad_parameter", "#/vectors"),
    "a wrong dimension": ("query", {"vectors": {"colour": [1, 2, 3, 4, 5]}}, "dimension_mismatch", "#/vectors/colour"),
    "weights of a product": ("query", QUERY | {"combine": "product", "weights": {"colour": 1, "words": 1}}, "bad_parameter", "#/weights"),
    "a negative weight": ("query", QUERY | {"weights": {"colour": -1, "words": 1}}, "invalid_field", "#/weights/colour"),
    "a way to combine": ("query", QUERY | {"combine": "mean"}, "invalid_field", "#/combine"),
    "two things": ("query", QUERY | {"id": "a"}, "invalid_field", "#"),
    "a distance": ("query", QUERY | {"max_distance": 1}, "invalid_field", "#"),
    "an unknown id": ("query", {"id": "nobody", "combine": "sum"}, "unknown_id", "#/id"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refusals_name_the_place(filled: App, name: str) -> None:
    """What is wrong is told with its code and a pointer to the field's vector; nothing is written."""
    path, body, code, pointer = REFUSED[name]
    problem = await filled.post(f"/v1/collections/p/{path}", body, status=404 if code == "unknown_id" else 422)
    assert problem["code"] == code
    assert problem["errors"][0]["pointer"].startswith(pointer), problem
    assert (await filled.post("/v1/collections/p/count", {}))["count"] == 3


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        ({"colour": [1, 2, 3, 4]}, "this one lacks words: all have the same fields"),
        ({"colour": [1, 2, 3, 4], "words": ["a"], "x": [1]}, "the first has no x: all have the same fields"),
    ],
)
async def test_the_field_that_differs_is_named(filled: App, vectors: dict[str, Any], text: str) -> None:
    """Items, or queries, of one request have the same fields; the refusal says which one differs."""
    problem = await filled.post("/v1/collections/p/index", _item(**vectors), status=422)
    assert problem["errors"] == [{"pointer": "#/items/1/vectors", "detail": text}]


async def test_kernels_of_fields_have_parameters(app: App) -> None:
    """A field's kernel may be a product, has parameters, and may be hashed by any sampler of its own; GET tells all of it."""
    fields = {
        "a": {"kernel": "rbf", "parameters": {"gamma": 2}, "dim": 2, "sampler": "sign"},
        "b": {"kernel": "rbf*gmm", "parameters": {"rbf.gamma": 3}, "dim": 2},
        "c": {"dim": 2},
    }
    made = await app.put("/v1/collections/p", {"fields": fields}, status=201)
    assert made["parameters"] is None
    told = {name: (one["kernel"], one["parameters"]) for name, one in made["fields"].items()}
    assert told == {"a": ("rbf", {"gamma": 2.0}), "b": ("gmm*rbf", {"rbf.gamma": 3.0}), "c": ("ngmm", {})}
    assert made["fields"]["a"]["sampler"] == "sign"
    assert (await app.put("/v1/collections/p", {"fields": fields}, status=200))["fields"] == made["fields"]
    await app.put("/v1/collections/p", {"fields": fields | {"a": {"kernel": "rbf", "dim": 2, "sampler": "sign"}}}, status=409)
    x = {name: [1, 0] for name in fields}
    await app.post("/v1/collections/p/index", {"items": [{"id": "x", "vectors": x}]})
    answer = await app.post("/v1/collections/p/query", {"vectors": {name: [0, 1] for name in fields}})
    assert answer["results"][0]["parts"] == pytest.approx({"a": np.exp(-2.0), "b": 0.0, "c": 0.0}, abs=1e-6)
    for bad in ({"kernel": "rbf", "parameters": {"gama": 1}}, {"kernel": "rbf", "parameters": {"gamma": "2"}}, {"parameters": [1]}):
        refused = await app.put("/v1/collections/q", {"fields": {"a": bad}}, status=422)
        assert "parameters" in str(refused["errors"])
    for other in ({"kernel": "gmm*cosine"}, {"kernel": "nothing"}, {"kernel": "cosine", "sampler": "gcws"}, {"sampler": "any"}):
        await app.put("/v1/collections/q", {"fields": {"a": other}}, status=422)
    await app.put("/v1/collections/q", {"fields": fields, "parameters": {}}, status=422)


async def test_a_collection_of_one_vector_has_no_fields(app: App) -> None:
    """Vectors by field are refused where items have one vector, and a matrix where they have several."""
    await app.put("/v1/collections/one", {"dim": 4})
    await app.put("/v1/collections/p", {"fields": FIELDS})
    await app.post("/v1/collections/one/index", {"items": ITEMS}, status=422)
    await app.post("/v1/collections/one/query", QUERY, status=422)
    await app.put("/v1/collections/both", {"fields": FIELDS, "dim": 3}, status=422)
    import io

    file = io.BytesIO()
    np.save(file, np.ones((2, 4), np.float32))
    for path in ("index", "query"):
        await app.post(f"/v1/collections/p/{path}", file.getvalue(), status=422, headers={"content-type": "application/x-npy"})


async def test_one_field_is_tuned_rebuilt_and_searched_for_duplicates(app: App, tmp_path: Path) -> None:
    """With `field` a call is about the vectors of that field, and answers what the library answers; recall is of combined scores."""
    rng = np.random.default_rng(3)
    colour, words = rng.random((60, 4)) + 0.01, rng.random((60, 3)) + 0.01
    colour[30:40] = colour[:10] * 1.01
    fields: dict[str, dict[str, Any]] = {"colour": {"kernel": "ngmm", "dim": 4}, "words": {"dim": 3}}
    await app.put("/v1/collections/p", {"fields": fields, "seed": 5})
    items: list[dict[str, Any]] = [
        {"id": f"{i:02}", "vectors": {"colour": colour[i].tolist(), "words": words[i].tolist()}} for i in range(60)
    ]
    await app.post("/v1/collections/p/index", {"items": items})
    with kinbin.open(tmp_path / "library") as db:
        db.create_collection("p", fields=fields, seed=5)
        c = db.fields_collection("p")
        c.add([one["id"] for one in items], {"colour": colour, "words": words})
        near = [(one.a, one.b, one.score) for one in c.duplicates(0.97, field="colour", miss=0)]
        recall = c.recall(60, k=3)
    assert len(near) >= 10
    found = await app.post("/v1/collections/p/duplicates", {"min_score": 0.97, "miss": 0, "field": "colour"})
    assert sorted((one["a"], one["b"], one["score"]) for one in found["pairs"]) == sorted(near)
    told = await app.get("/v1/collections/p/recall", params={"queries": 60, "k": 3})
    assert [(one["mode"], one["recall"]) for one in told["modes"]] == [(one.mode, one.recall) for one in recall.modes]
    tuned = await app.post("/v1/collections/p/tune", {"k": 3, "sample": 10, "field": "words", "choices": [{"rows": 2, "bands": 30}]})
    assert [(one["rows"], one["bands"]) for one in tuned["bands"]] == [(2, 30)]
    made = await app.post("/v1/collections/p/rebuild", {"rows": 2, "bands": 30, "field": "words"})
    assert (made["rows"], made["bands"], made["count"]) == (2, 30, 60)
    for body, pointer in (({"min_score": 0.9}, "#/field"), ({"max_distance": 0.1, "field": "colour"}, "#/max_distance")):
        refused = await app.post("/v1/collections/p/duplicates", body, status=422)
        assert refused["errors"][0]["pointer"] == pointer
