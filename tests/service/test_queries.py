"""Queries over HTTP: scores, bounds, contents, many vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from service_app import App

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "vector": [4, 0, 0, 0], "payload": {"colour": "red"}},
    {"id": "b", "vector": [3, 1, 0, 0], "payload": {"colour": "blue"}},
    {"id": "c", "vector": [0, 0, 2, 2]},
]


@pytest.fixture
async def filled(app: App) -> App:
    """An application with three items in `default`."""
    await app.post("/index", {"items": ITEMS})
    return app


def ngmm(u: Sequence[float], v: Sequence[float]) -> float:
    """The ngmm kernel of two non-negative vectors, by its definition."""
    a = [value / sum(u) for value in u]
    b = [value / sum(v) for value in v]
    return sum(map(min, a, b)) / sum(map(max, a, b))


async def test_a_query_returns_exact_scores_best_first(filled: App) -> None:
    """Scores are the exact kernel, in descending order, with everything that is known about the search."""
    answer = await filled.post("/query", {"vector": [4, 0, 0, 0], "k": 2})
    assert [hit["id"] for hit in answer["results"]] == ["a", "b"]
    for hit, vector in zip(answer["results"], ([4, 0, 0, 0], [3, 1, 0, 0]), strict=True):
        assert math.isclose(hit["score"], ngmm([4, 0, 0, 0], vector), rel_tol=1e-6)
    assert answer.keys() >= {"results", "recall_lower_bound", "mode", "candidates", "verified", "truncated", "took_ms"}
    assert ("no_bound" in answer) == (answer["recall_lower_bound"] is None)


async def test_results_have_only_what_is_included(filled: App) -> None:
    """Without include a result is id and score; payload and vector come when they are asked for."""
    plain = await filled.post("/query", {"vector": [4, 0, 0, 0], "k": 1})
    assert plain["results"][0].keys() == {"id", "score"}
    full = await filled.post("/query", {"vector": [4, 0, 0, 0], "k": 1, "include": ["payload", "vector"]})
    assert full["results"][0]["payload"] == {"colour": "red"}
    assert full["results"][0]["vector"] == [4.0, 0.0, 0.0, 0.0]


async def test_a_stored_item_can_be_the_query(filled: App) -> None:
    """A query by id is the query of that item's vector."""
    by_id = await filled.post("/query", {"id": "b", "k": 3, "mode": "exact", "include_self": True})
    by_vector = await filled.post("/query", {"vector": [3, 1, 0, 0], "k": 3, "mode": "exact"})
    scores = {hit["id"]: hit["score"] for hit in by_vector["results"]}
    assert by_id["results"]
    assert all(math.isclose(scores[hit["id"]], hit["score"], rel_tol=1e-9) for hit in by_id["results"])


async def test_a_query_by_an_unknown_id_is_not_found(filled: App) -> None:
    """A query by an id that is not stored is answered with 404 and the pointer of the id."""
    refused = await filled.post("/query", {"id": "nobody"}, status=404)
    assert refused["code"] == "unknown_id"
    assert refused["errors"][0]["pointer"] == "#/id"


async def test_many_queries_give_an_answer_each_in_their_order(filled: App) -> None:
    """The answers of a batch are those of its queries asked one by one."""
    vectors = [[4, 0, 0, 0], [0, 0, 2, 2], [3, 1, 0, 0]]
    batch = await filled.post("/query", {"queries": vectors, "k": 2, "mode": "exact", "include": ["payload"]})
    assert batch.keys() == {"answers", "took_ms"}
    for vector, answer in zip(vectors, batch["answers"], strict=True):
        single = await filled.post("/query", {"vector": vector, "k": 2, "mode": "exact", "include": ["payload"]})
        single.pop("took_ms")
        assert answer == single


async def test_a_filter_and_a_smallest_score_leave_items_out(filled: App) -> None:
    """Only items that match the filter and reach min_score are returned."""
    blue = await filled.post("/query", {"vector": [4, 0, 0, 0], "filter": {"colour": {"$eq": "blue"}}})
    assert [hit["id"] for hit in blue["results"]] == ["b"]
    near = await filled.post("/query", {"vector": [4, 0, 0, 0], "min_score": 0.9})
    assert [hit["id"] for hit in near["results"]] == ["a"]


async def test_sparse_and_token_queries(app: App) -> None:
    """Sparse and token vectors are queried in the forms in which they are added."""
    await app.put("/v1/collections/words", {"kernel": "ngmm"})
    items = [
        {"id": "fruit", "vector": {"tokens": {"red": 3, "apple": 1}}},
        {"id": "numbers", "vector": {"indices": [3, 70001], "values": [1.5, 2]}},
    ]
    await app.post("/v1/collections/words/index", {"items": items})
    by_tokens = await app.post("/v1/collections/words/query", {"vector": {"tokens": {"apple": 1, "red": 3}}, "k": 1})
    assert (by_tokens["results"][0]["id"], round(by_tokens["results"][0]["score"], 6)) == ("fruit", 1.0)
    by_features = await app.post("/v1/collections/words/query", {"vector": {"indices": [70001, 3], "values": [2, 1.5]}, "k": 1})
    assert (by_features["results"][0]["id"], round(by_features["results"][0]["score"], 6)) == ("numbers", 1.0)


@pytest.mark.parametrize(
    "body", [{"vector": [4, 0, 0, 0]}, {"id": "a", "include_self": True}, {"queries": [[4, 0, 0, 0]]}], ids=lambda body: next(iter(body))
)
async def test_contents_are_those_that_were_searched(body: dict[str, Any], filled: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is replaced or deleted while it is answered comes with the payload and vector that its score belongs to."""
    collection: Any = filled.service.database.collection("default")

    def search_then_replace(search: Callable[..., Any], *arguments: Any) -> Any:
        found = search(*arguments)
        monkeypatch.undo()
        collection.add(["a"], [[0, 0, 9, 9]], [{"colour": "green"}])
        collection.delete(["b", "c"])
        return found

    for name in ("search", "search_one"):
        search = getattr(collection._searcher, name)
        monkeypatch.setattr(collection._searcher, name, functools.partial(search_then_replace, search))
    answer = await filled.post("/query", {**body, "k": 3, "mode": "exact", "include": ["payload", "vector"]})
    hits = {hit.pop("id"): hit for hit in answer.get("answers", [answer])[0]["results"]}
    for item in ITEMS:
        assert hits[item["id"]]["payload"] == item.get("payload")
        assert hits[item["id"]]["vector"] == item["vector"]
    assert (await filled.post("/v1/collections/default/count", {}))["count"] == 1, "it has happened"


async def test_include_may_be_of_more_items_than_a_page_holds(app: App) -> None:
    """Contents of more results than a page holds are complete."""
    items = [{"id": f"i{number:04d}", "vector": [1, number], "payload": {"n": number}} for number in range(1_200)]
    await app.post("/index", {"items": items})
    batch = await app.post("/query", {"queries": [[1, 0], [0, 1]], "k": 1_000, "mode": "exact", "include": ["payload"]})
    for answer in batch["answers"]:
        assert len(answer["results"]) == 1_000
        assert all(hit["payload"] == {"n": int(hit["id"][1:])} for hit in answer["results"])


async def test_a_collection_that_is_not_there_is_not_found(app: App) -> None:
    """Every route of a collection answers 404 for one that does not exist, and does not repeat its name."""
    bodies = {"query": {"vector": [1]}, "get": {"ids": ["a"]}, "delete": {"ids": ["a"]}, "scroll": {}, "count": {}}
    for route, body in bodies.items():
        refused = await app.post(f"/v1/collections/sesame/{route}", body, status=404)
        assert refused["code"] == "collection_not_found"
        assert "sesame" not in str(refused)
    await app.post("/v1/collections/sesame/index", {"items": ITEMS}, status=404)
    await app.post("/query", {"vector": [1]}, status=404)
    await app.get("/v1/collections/sesame", status=404)
