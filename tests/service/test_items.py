"""Items over HTTP: add, get, delete, scroll, count."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from service_app import App, judged

ITEMS = [
    {"id": "a", "vector": [0.25, 0, 2.5], "payload": {"year": 2020}},
    {"id": "b", "vector": [0, 1.5, 2], "payload": {"year": 2021, "tags": ["x", None]}},
    {"id": "c", "vector": [1, 1, -1]},
]


async def test_an_add_reports_new_updated_and_unchanged_items(app: App) -> None:
    """The answer to an add counts new, replaced and unchanged items, and all items afterwards."""
    first = await app.post("/index", {"items": ITEMS})
    assert {name: first[name] for name in ("indexed", "updated", "unchanged", "count")} == {
        "indexed": 3,
        "updated": 0,
        "unchanged": 0,
        "count": 3,
    }
    assert first["took_ms"] > 0
    second = await app.post("/index", {"items": [ITEMS[0], {"id": "b", "vector": [9, 0, 0]}, {"id": "d", "vector": [1, 2, 3]}]})
    assert {name: second[name] for name in ("indexed", "updated", "unchanged", "count")} == {
        "indexed": 1,
        "updated": 1,
        "unchanged": 1,
        "count": 4,
    }


async def test_the_first_dense_add_creates_the_default_collection_with_its_dimension(app: App) -> None:
    """`POST /index` with a dense vector creates `default`: kernel ngmm, of the vector's dimension."""
    await app.post("/index", {"items": ITEMS})
    described = await app.get("/v1/collections/default")
    assert (described["kernel"], described["dim"], described["count"]) == ("ngmm", 3, 3)


@pytest.mark.parametrize("vector", [{"indices": [3, 70001], "values": [1.5, 2]}, {"tokens": {"red": 3, "apple": 1}}])
async def test_the_first_sparse_add_creates_a_sparse_default_collection(app: App, vector: object) -> None:
    """`POST /index` with a sparse or token vector creates `default` without a dimension."""
    await app.post("/index", {"items": [{"id": "s", "vector": vector}]})
    assert (await app.get("/v1/collections/default"))["dim"] is None


async def test_a_refused_first_add_leaves_no_default_collection_behind(app: App) -> None:
    """A first add that is refused does not fix the dimension of `default`: the next first add may have another."""
    await app.post("/index", {"items": [{"id": "a", "vector": [1, 2]}, {"id": "b", "vector": [0, 0]}]}, status=422)
    assert (await app.get("/v1/collections"))["collections"] == []
    await app.post("/index", {"items": ITEMS})
    assert (await app.get("/v1/collections/default"))["dim"] == 3


async def test_get_returns_what_was_added(app: App) -> None:
    """Payloads come back as they were sent, vectors as float32 numbers, unknown ids as missing."""
    await app.post("/index", {"items": ITEMS})
    found = await app.post("/v1/collections/default/get", {"ids": ["b", "nobody", "c", "a"]})
    assert found["missing"] == ["nobody"]
    assert found["items"] == [
        {"id": "b", "payload": {"year": 2021, "tags": ["x", None]}, "vector": [0.0, 1.5, 2.0]},
        {"id": "c", "payload": None, "vector": [1.0, 1.0, -1.0]},
        {"id": "a", "payload": {"year": 2020}, "vector": [0.25, 0.0, 2.5]},
    ]


async def test_get_returns_only_what_is_included(app: App) -> None:
    """`include` decides whether payload and vector are in an item."""
    await app.post("/index", {"items": ITEMS})
    for include, fields in (([], {"id"}), (["payload"], {"id", "payload"}), (["vector"], {"id", "vector"})):
        found = await app.post("/v1/collections/default/get", {"ids": ["a"], "include": include})
        assert found["items"][0].keys() == fields


async def test_sparse_vectors_come_back_with_unbounded_feature_ids(app: App) -> None:
    """A sparse vector keeps feature ids up to 2**63 - 1 through JSON."""
    vector = {"indices": [3, 70001, 2**63 - 1], "values": [1.5, 2.0, 0.25]}
    await app.put("/v1/collections/sparse", {"kernel": "gmm"})
    await app.post("/v1/collections/sparse/index", {"items": [{"id": "s", "vector": vector}]})
    assert (await app.post("/v1/collections/sparse/get", {"ids": ["s"]}))["items"][0]["vector"] == vector


SETS: list[Any] = [["quick", "brown"], {"tokens": ["quick", "brown"]}, {"tokens": {"quick": 1, "brown": 1}}]


@pytest.mark.parametrize("form", SETS, ids=str)
async def test_a_list_of_strings_is_a_set(app: App, form: Any) -> None:
    """Tokens may come in a list, bare or by name; the first add of one makes a sparse collection, and all forms are one vector."""
    await app.post("/index", {"items": [{"id": "set", "vector": form}, {"id": "other", "vector": ["brown", "fox", "fox"]}]})
    assert (await app.get("/v1/collections/default"))["dim"] is None
    again = await app.post("/index", {"items": [{"id": "set", "vector": one} for one in SETS[:1]]})
    assert again["unchanged"] == 1
    for asked in SETS:
        answer = await app.post("/query", {"vector": asked})
        assert answer["results"][0] == {"id": "set", "score": 1.0}
    batch = await app.post("/query", {"queries": [*SETS, {"tokens": {"fox": 2, "brown": 1}}]})
    assert [one["results"][0]["id"] for one in batch["answers"]] == ["set", "set", "set", "other"]
    refused = await app.post("/query", {"queries": ["quick", "brown"]}, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("bad_vector", "#/queries/0")


async def test_insert_refuses_stored_ids_and_update_refuses_new_ones(app: App) -> None:
    """insert of a stored id and update of an unknown id are conflicts that name the position, and write nothing."""
    await app.post("/index", {"items": ITEMS})
    before = await app.state()
    for mode, items in (
        ("insert", [{"id": "new", "vector": [1, 2, 3]}, {"id": "a", "vector": [4, 5, 6]}]),
        ("update", [{"id": "a", "vector": [4, 5, 6]}, {"id": "new", "vector": [1, 2, 3]}]),
    ):
        refused = await app.post("/index", {"items": items, "mode": mode}, status=409)
        assert refused["code"] == "item_conflict"
        assert refused["errors"] == [{"pointer": "#/items/1/id", "detail": "conflicts with what is stored"}]
        what = "('a'); use mode update or upsert" if mode == "insert" else "('new'); use mode insert or upsert"
        assert what in refused["detail"]
        assert "nothing was written" in refused["detail"]
    assert await app.state() == before


async def test_a_retry_of_the_same_add_changes_nothing(app: App) -> None:
    """Sending the same items again reports them as unchanged and leaves what is stored alone."""
    await app.post("/index", {"items": ITEMS})
    before = await app.state()
    again = await app.post("/index", {"items": ITEMS})
    assert (again["indexed"], again["updated"], again["unchanged"], again["count"]) == (0, 0, 3, 3)
    assert await app.state() == before


REPEATABLE = [
    ("/v1/collections/default/index", {"items": [{"id": "a", "vector": [7, 0, 1]}, {"id": "n", "vector": [1, 1, 1]}]}),
    ("/v1/collections/default/index", {"items": [{"id": "b", "vector": [7, 0, 1], "payload": {"x": 1}}], "mode": "update"}),
    ("/v1/collections/default/delete", {"ids": ["a", "nobody"]}),
    ("/v1/collections/default/delete", {"filter": {"year": {"$gte": 2021}}}),
    ("/v1/collections/default/query", {"vector": [1, 2, 3]}),
    ("/v1/collections/default/get", {"ids": ["a"]}),
    ("/v1/collections/default/scroll", {}),
    ("/v1/collections/default/count", {}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), REPEATABLE)
async def test_what_may_be_sent_again_is_the_same_when_it_is_done_twice(path: str, body: dict[str, Any], app: App) -> None:
    """Every request that the document says may be repeated leaves what is stored as it was after the first."""
    await app.post("/index", {"items": ITEMS})
    await app.post(path, body)
    before = await app.state()
    await app.post(path, body)
    assert await app.state() == before


async def test_an_insert_that_was_done_is_refused_when_it_is_repeated(app: App) -> None:
    """A repeated insert is a conflict, which tells the client to look; nothing is changed by it."""
    body = {"items": ITEMS, "mode": "insert"}
    await app.post("/index", body)
    before = await app.state()
    assert (await app.post("/index", body, status=409))["code"] == "item_conflict"
    assert await app.state() == before


async def test_a_matrix_without_ids_is_stored_once_for_each_request(app: App) -> None:
    """Every request without ids makes new ones: the same rows are there as often as they were sent."""
    file = io.BytesIO()
    np.save(file, np.eye(3, dtype=np.float32))
    made = set()
    for _ in range(2):
        response = await app.client.post("/index", content=file.getvalue(), headers={"content-type": "application/x-npy"})
        made |= set(judged(response, 200)["ids"])
    assert (await app.state())["default"].keys() == made
    assert len(made) == 6


async def test_delete_by_ids_and_by_filter(app: App) -> None:
    """Delete removes the named items, or all that a filter matches; unknown ids are no error."""
    await app.post("/index", {"items": ITEMS})
    assert await app.post("/v1/collections/default/delete", {"ids": ["a", "nobody"]}) == {"deleted": 1, "count": 2, "atomic": True}
    assert await app.post("/v1/collections/default/delete", {"filter": {"year": 2021}}) == {"deleted": 1, "count": 1, "atomic": True}
    assert await app.post("/v1/collections/default/delete", {"ids": []}) == {"deleted": 0, "count": 1, "atomic": True}
    assert list((await app.state())["default"]) == ["c"]


async def test_delete_by_filter_keeps_what_no_longer_matches(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upsert that is acknowledged while a delete by filter is under way is not lost if its payload does not match."""
    await app.post("/index", {"items": ITEMS})
    collection: Any = app.service.database.collection("default")
    submit = collection._writes.submit

    def submit_after_another(apply: Any) -> Any:
        monkeypatch.undo()
        collection.add(["a"], [[1, 2, 3]], [{"year": 1999}])
        return submit(apply)

    monkeypatch.setattr(collection._writes, "submit", submit_after_another)
    assert await app.post("/v1/collections/default/delete", {"filter": {"year": {"$gte": 2020}}}) == {
        "deleted": 1,
        "count": 2,
        "atomic": True,
    }
    assert sorted((await app.state())["default"]) == ["a", "c"]


async def test_count_with_and_without_a_filter(app: App) -> None:
    """Count gives the number of all items, or of those that a filter matches."""
    await app.post("/index", {"items": ITEMS})
    assert await app.post("/v1/collections/default/count", {}) == {"count": 3}
    assert await app.post("/v1/collections/default/count", {"filter": {"year": {"$gte": 2021}}}) == {"count": 1}


async def test_scroll_visits_every_item_once_in_id_order(app: App) -> None:
    """Following `next` visits all items once, in the order of their ids, and ends with null."""
    await app.post("/index", {"items": [{"id": f"i{number:03d}", "vector": [1, number]} for number in range(25)]})
    seen: list[str] = []
    after: str | None = None
    while True:
        page = await app.post("/v1/collections/default/scroll", {"after": after, "limit": 10})
        seen += [item["id"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"i{number:03d}" for number in range(25)]


async def test_scroll_with_a_filter_returns_matching_items_only(app: App) -> None:
    """A filtered scroll holds the matching items and no others."""
    await app.post("/index", {"items": ITEMS})
    page = await app.post("/v1/collections/default/scroll", {"filter": {"year": {"$exists": True}}, "include": ["payload"]})
    assert [item["id"] for item in page["items"]] == ["a", "b"]


async def test_an_empty_batch_is_no_error_and_creates_nothing(app: App) -> None:
    """Adding no items answers with zeros; it does not create `default`, whose kind no vector told."""
    nothing = {"indexed": 0, "updated": 0, "unchanged": 0, "count": 0}
    assert (await app.post("/index", {"items": []})).items() >= nothing.items()
    assert (await app.get("/v1/collections"))["collections"] == []
    await app.post("/index", {"items": ITEMS})
    assert (await app.post("/index", {"items": []}))["count"] == 3
    assert (await app.post("/query", {"queries": []}))["answers"] == []
