"""Writes on terms over HTTP: payloads, versions, skipped items, idempotency keys, deletes by filter, aliases, limits."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from service_app import App, judged, running_app

ITEMS: list[dict[str, Any]] = [
    {"id": "a", "vector": [0.25, 0, 2.5], "payload": {"year": 2020, "in": {"x": 1}}},
    {"id": "b", "vector": [0, 1.5, 2], "payload": {"year": 2021}},
    {"id": "c", "vector": [1, 1, -1]},
]
PAYLOAD, INDEX = "/v1/collections/default/payload", "/v1/collections/default/index"


async def versions(app: App, *ids: str) -> list[int]:
    """The versions of stored items."""
    found = await app.post("/v1/collections/default/get", {"ids": list(ids), "include": ["version"]})
    assert all(one.keys() == {"id", "version"} for one in found["items"])
    return [one["version"] for one in found["items"]]


async def test_payloads_are_replaced_and_patched(app: App) -> None:
    """POST …/payload replaces payloads, or merges patches into them, and counts what it changed; vectors stay."""
    await app.post("/index", {"items": ITEMS})
    before = (await app.state())["default"]
    done = await app.post(PAYLOAD, {"items": [{"id": "a", "payload": None}, {"id": "c", "payload": {"n": 1}}]})
    assert done == {"updated": 2, "unchanged": 0, "count": 3}
    patch = [{"id": "b", "payload": {"year": None, "in": {"y": 2}}}, {"id": "c", "payload": {"n": 1}}]
    assert await app.post(PAYLOAD, {"items": patch, "mode": "merge"}) == {"updated": 1, "unchanged": 1, "count": 3}
    after = (await app.state())["default"]
    assert {name: item["payload"] for name, item in after.items()} == {"a": None, "b": {"in": {"y": 2}}, "c": {"n": 1}}
    assert {name: item["vector"] for name, item in after.items()} == {name: item["vector"] for name, item in before.items()}


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer", "told"),
    [
        (
            {"items": [{"id": "a", "payload": {}}, {"id": "z", "payload": {}}]},
            409,
            "item_conflict",
            "#/items/1/id",
            "1 of 2 ids are not in the collection ('z'); add",
        ),
        ({"items": [{"id": "a", "payload": [1]}]}, 422, "invalid_field", "#/items/0/payload", "an object is expected, not a list"),
        ({"items": [{"id": "a"}]}, 422, "invalid_field", "#/items/0/payload", "required"),
        ({"items": [{"id": "a", "payload": {}, "vector": [1]}]}, 422, "invalid_field", "#/items/0", "unknown field"),
        ({"items": [{"id": "a", "payload": {}}], "mode": "patch"}, 422, "invalid_field", "#/mode", "one of replace, merge"),
        ({"items": [{"id": "a", "payload": {"x": "y" * 70_000}}]}, 422, "over_limit", "#/items/0/payload", "65536 bytes"),
        ({"items": [{"id": "a", "payload": {}, "if_version": -1}]}, 422, "invalid_field", "#/items/0/if_version", "greater than"),
        ({"items": [{"id": "a", "payload": {}, "if_version": 3}]}, 409, "version_conflict", "#/items/0/id", "another version"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
async def test_bad_payloads_are_refused(app: App, body: Any, status: int, code: str, pointer: str, told: str) -> None:
    """Each refusal has its status, code, place and reason, and nothing is written."""
    await app.post("/index", {"items": ITEMS})
    before = await app.state()
    refused = await app.post(PAYLOAD, body, status=status)
    assert (refused["code"], refused["errors"][0]["pointer"]) == (code, pointer)
    assert told in refused["detail"] + refused["errors"][0]["detail"]
    assert await app.state() == before


async def test_payloads_of_what_is_not_there_are_not_found(app: App) -> None:
    """A collection that is not there is 404."""
    assert (await app.post("/v1/collections/none/payload", {"items": []}, status=404))["code"] == "collection_not_found"


async def test_writes_are_conditional_on_versions(app: App) -> None:
    """if_version lets a write through that knows the stored version, or 0 where nothing is stored, and refuses any other."""
    await app.post("/index", {"items": ITEMS})
    a, b, _ = await versions(app, "a", "b", "c")
    before = await app.state()
    items = [
        {**ITEMS[0], "vector": [9, 9, 9], "if_version": a},
        {**ITEMS[1], "if_version": a},
        {"id": "new", "vector": [1, 2, 3], "if_version": 0},
    ]
    refused = await app.post("/index", {"items": items}, status=409)
    assert (refused["code"], refused["errors"]) == (
        "version_conflict", [{"pointer": "#/items/1/id", "detail": "conflicts with what is stored"}],
    )  # fmt: skip
    assert "get them and decide anew" in refused["detail"]
    assert await app.state() == before
    items[1]["if_version"] = b
    done = await app.post("/index", {"items": items})
    assert (done["indexed"], done["updated"], done["unchanged"]) == (1, 1, 1)
    assert (await app.post("/index", {"items": [items[2]]}, status=409))["code"] == "version_conflict"
    (now,) = await versions(app, "a")
    assert now != a
    await app.post(PAYLOAD, {"items": [{"id": "a", "payload": {}, "if_version": now}]})


async def test_deletes_are_conditional_on_versions(app: App) -> None:
    """A delete with if_versions removes all of its items or none, and points to one that has another version."""
    await app.post("/index", {"items": ITEMS})
    a, b, _ = await versions(app, "a", "b", "c")
    before = await app.state()
    at = "/v1/collections/default/delete"
    refused = await app.post(at, {"ids": ["a", "b"], "if_versions": [a, a]}, status=409)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("version_conflict", "#/ids/1")
    for body in ({"ids": ["a"], "if_versions": []}, {"ids": ["a"], "if_versions": [1.5]}, {"filter": {"n": 1}, "if_versions": [a]}):
        assert (await app.post(at, body, status=422))["errors"][0]["pointer"].startswith("#/if_versions")
    assert await app.state() == before
    assert (await app.post(at, {"ids": ["a", "b", "no"], "if_versions": [a, b, 0]}))["deleted"] == 2


async def test_bad_items_are_skipped_and_listed(app: App) -> None:
    """With on_error skip the good items are written; each bad one is listed with its place in the body, code and reason."""
    await app.post("/index", {"items": ITEMS[:1]})
    items: list[Any] = [
        {"id": "x", "vector": [1, 2, 3]}, {"id": "y"}, 7, {"id": "z", "vector": [0, 0, 0]}, {"id": "a", "vector": [1, 1, 1]},
        {"id": "x", "vector": [3, 2, 1]}, {"id": "w", "vector": "text"}, {"id": "v", "vector": [1, 2]}, {"id": "u", "vector": [5, 5, 5]},
        {"id": "t", "string": "text"},
    ]  # fmt: skip
    done = await app.post("/index", {"items": items, "mode": "insert", "on_error": "skip"})
    assert (done["indexed"], done["skipped"], done["count"]) == (2, 8, 3)
    assert [(one["pointer"], one["code"]) for one in done["problems"]] == [
        ("#/items/1/vector", "invalid_field"), ("#/items/2", "invalid_field"), ("#/items/3/vector", "zero_vector"),
        ("#/items/4/id", "item_conflict"), ("#/items/5/id", "duplicate_id"), ("#/items/6/vector", "bad_vector"),
        ("#/items/7/vector", "dimension_mismatch"), ("#/items/9", "invalid_field"),
    ]  # fmt: skip
    assert (await app.state())["default"].keys() == {"a", "u", "x"}
    good = await app.post("/index", {"items": ITEMS, "on_error": "skip"})
    assert (good["skipped"], good["problems"]) == (0, [])
    assert "skipped" not in await app.post("/index", {"items": ITEMS})


VECTOR, BOTH = {"vector": [1, 2, 3]}, {"vectors": {"a": [1, 1, 1], "b": [1, 0, 0]}}
OTHERS = [{"string": "abc"}, {"series": [1, 2]}, {"points": [[1, 2]]}] + [
    {"vectors": {name: [1, 1, 1] for name in names}} for names in ("a", "abc")
]


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize(
    ("configuration", "good", "others"),
    [
        ({"dim": 3}, VECTOR, OTHERS),
        ({"fields": {"a": {"dim": 3}, "b": {"dim": 3}}}, BOTH, [VECTOR, *OTHERS]),
        ({"items": "strings", "distance": "levenshtein"}, {"string": "abc"}, [VECTOR, BOTH, *OTHERS[1:]]),
    ],
)
async def test_items_that_carry_something_else_are_skipped_wherever_they_stand(
    app: App, first: int, configuration: Any, good: Any, others: list[Any]
) -> None:
    """It is the collection that says what items carry, not the first of them that is sound; a batch of none but such writes nothing."""
    await app.put("/v1/collections/c", configuration)
    for other in others:
        items: list[Any] = [{"id": f"good{n}", **good} for n in range(2)]
        items.insert(first, {"id": "bad", **other})
        done = await app.post("/v1/collections/c/index", {"items": items, "on_error": "skip"})
        assert (done["count"], done["skipped"]) == (2, 1), other
        assert [(one["pointer"], one["code"]) for one in done["problems"]] == [(f"#/items/{first}", "invalid_field")]
        assert done["problems"][0]["detail"].startswith("items of this collection carry ")
        none = await app.post("/v1/collections/c/index", {"items": [items[first]], "on_error": "skip"})
        assert (none["indexed"], none["skipped"], none["count"]) == (0, 1, 2)
        sent = b"\n".join(map(orjson.dumps, items))
        path, kind = "/v1/collections/c/index?on_error=skip&stream=true", {"content-type": "application/x-ndjson"}
        response = await app.client.post(path, content=sent, headers=kind)
        last = orjson.loads(response.content.splitlines()[-1])
        assert (last["done"], last["skipped"], last["problems"][0]["pointer"]) == (True, 1, f"#/items/{first}")
        assert last["problems"][0]["detail"].startswith(f"line {first + 1}: items of this collection carry ")


async def test_skipped_items_are_counted_where_they_stand(app: App) -> None:
    """The first add makes `default` of its vectors, whatever stands before them; an id that is there twice is told by its place."""
    items: list[Any] = [{"id": "bad", "string": "abc"}, {"id": "a", **VECTOR}, {"id": "a", **VECTOR}]
    done = await app.post("/index", {"items": items, "on_error": "skip"})
    assert (done["indexed"], done["skipped"], done["count"]) == (1, 2, 1)
    assert [one["pointer"] for one in done["problems"]] == ["#/items/0", "#/items/2/id"]
    assert "at #/items/1/id already" in done["problems"][1]["detail"]


async def test_bad_lines_are_skipped_and_numbered(app: App) -> None:
    """Lines that are no JSON are left out like any bad item, and named by their number."""
    lines = [orjson.dumps(ITEMS[0]), b"", b"{", orjson.dumps(ITEMS[1]), b'{"id": "n", "vector": [NaN]}']
    sent: dict[str, Any] = {"content": b"\n".join(lines), "headers": {"content-type": "application/x-ndjson"}}
    done = judged(await app.client.post("/index?on_error=skip", **sent), 200)
    assert (done["indexed"], done["skipped"]) == (2, 2)
    assert [(one["pointer"], one["code"], one["detail"][:7]) for one in done["problems"]] == [
        ("#/items/1", "bad_json", "line 3:"), ("#/items/3/vector/0", "non_finite", "line 5:"),
    ]  # fmt: skip
    assert judged(await app.client.post("/index", **sent), 400)["code"] == "bad_json"


async def test_a_body_of_bad_items_writes_nothing(app: App) -> None:
    """Where nothing good is left, nothing is written, and no collection is made for it."""
    items = [{"id": "a", "vector": [0, 0]}, {"id": "b", "vector": [1, 2, 3]}]
    done = await app.post("/index", {"items": items, "on_error": "skip"})
    assert (done["indexed"], done["skipped"], done["count"]) == (0, 2, 0)
    assert (await app.get("/v1/collections"))["collections"] == []
    refused = await app.post("/index", {"items": ITEMS, "on_error": "ignore"}, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid_field", "#/on_error")


async def keyed(app: App, key: str, body: Any, status: int = 200) -> httpx.Response:
    """The answer to an add that comes with a key: of JSON, or of a matrix in bytes."""
    media_type = "application/x-npy" if isinstance(body, bytes) else "application/json"
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    response = await app.client.post("/index", content=content, headers={"idempotency-key": key, "content-type": media_type})
    assert response.status_code == status, response.text
    return response


async def test_the_same_add_with_its_key_is_done_once(app: App) -> None:
    """An insert that comes again with its key is answered alike, and marked as a replay; with another body it is refused."""
    body = {"items": ITEMS, "mode": "insert"}
    first, again = await keyed(app, "key", body), await keyed(app, "key", body)
    counts = [{name: value for name, value in one.json().items() if name != "took_ms"} for one in (first, again)]
    assert counts[0] == counts[1] == {"indexed": 3, "updated": 0, "unchanged": 0, "count": 3}
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    before = await app.state()
    refused = judged(await keyed(app, "key", {"items": [*ITEMS, {"id": "d", "vector": [1, 2, 3]}], "mode": "insert"}, 409), 409)
    assert (refused["code"], "take a new key for each" in refused["detail"]) == ("key_reused", True)
    for bad in ("", "k" * 256):
        assert judged(await keyed(app, bad, body, 422), 422)["code"] == "bad_parameter"
    assert await app.state() == before


async def test_a_matrix_without_ids_is_added_once_under_its_key(app: App) -> None:
    """A matrix whose ids are made gets the same ids again with the same key, and others with another."""
    file = io.BytesIO()
    np.save(file, np.arange(1, 13, dtype=np.float32).reshape(4, 3))
    ids = [(await keyed(app, key, file.getvalue())).json()["ids"] for key in ("one", "one", "two")]
    assert (ids[0] == ids[1], len({*ids[0], *ids[2]})) == (True, 8)
    assert sorted((await app.state())["default"]) == sorted(ids[0] + ids[2])


async def test_keys_are_seen_by_other_workers_and_survive_restarts(tmp_path: Path) -> None:
    """A second process's service, and one that starts later, answer a key as the first one did."""
    body = {"items": ITEMS, "mode": "insert"}
    async with running_app(tmp_path) as one, running_app(tmp_path) as other:
        await keyed(one, "key", body)
        assert (await keyed(other, "key", body)).headers["idempotency-replayed"] == "true"
    async with running_app(tmp_path) as later:
        assert (await keyed(later, "key", body)).json()["indexed"] == 3


async def test_a_delete_says_whether_it_was_one_transaction(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """`atomic` is true of deletes by ids and of few matches, and false where a filter went in slices."""
    await app.post("/index", {"items": [{"id": f"i{i}", "vector": [1 + i, 2, 3], "payload": {"n": i}} for i in range(8)]})
    delete = "/v1/collections/default/delete"
    assert await app.post(delete, {"ids": ["i0"]}) == {"deleted": 1, "count": 7, "atomic": True}
    assert await app.post(delete, {"filter": {"n": {"$lt": 3}}}) == {"deleted": 2, "count": 5, "atomic": True}
    monkeypatch.setattr("kinbin.writes.limit", lambda _: 2)
    assert await app.post(delete, {"filter": {"n": {"$lt": 7}}}) == {"deleted": 4, "count": 1, "atomic": False}


async def test_aliases_are_set_swapped_listed_and_dropped(app: App) -> None:
    """All routes take an alias; a swap is seen by the next request."""
    for name in ("one", "two"):
        await app.put(f"/v1/collections/{name}", {"dim": 3})
        await app.post(f"/v1/collections/{name}/index", {"items": [{"id": name, "vector": [1, 2, 3]}]})
    assert await app.put("/v1/aliases/live", {"collection": "one"}, status=200) == {"alias": "live", "collection": "one"}
    assert (await app.post("/v1/collections/live/query", {"vector": [1, 2, 3]}))["results"][0]["id"] == "one"
    await app.post("/v1/collections/live/index", {"items": [{"id": "new", "vector": [3, 2, 1]}]})
    assert (await app.get("/v1/collections/live"))["name"] == "one"
    await app.put("/v1/aliases/live", {"collection": "two"}, status=200)
    assert await app.post("/v1/collections/live/count", {}) == {"count": 1}
    assert await app.get("/v1/aliases") == {"aliases": {"live": "two"}}
    assert (await app.get("/v1/collections"))["collections"] == ["one", "two"]
    assert judged(await app.client.delete("/v1/aliases/live"), 200) == {"dropped": "live"}
    await app.get("/v1/collections/live", status=404)


async def test_bad_aliases_are_refused(app: App) -> None:
    """Names that are taken, targets that are missing, and drops of what aliases lead to are refused, and nothing changes."""
    for name in ("one", "two"):
        await app.put(f"/v1/collections/{name}", {"dim": 3})
    await app.put("/v1/aliases/live", {"collection": "one"}, status=200)
    for method, path, body, status, code in (
        ("PUT", "/v1/aliases/two", {"collection": "one"}, 409, "alias_conflict"),
        ("PUT", "/v1/aliases/more", {"collection": "live"}, 409, "alias_conflict"),
        ("PUT", "/v1/aliases/more", {"collection": "none"}, 404, "collection_not_found"),
        ("PUT", "/v1/aliases/More", {"collection": "one"}, 422, "bad_name"),
        ("PUT", "/v1/aliases/more", {"collection": 7}, 422, "invalid_field"),
        ("PUT", "/v1/aliases/more", {}, 422, "invalid_field"),
        ("PUT", "/v1/collections/live", {"dim": 3}, 409, "alias_conflict"),
        ("DELETE", "/v1/collections/one", None, 409, "alias_conflict"),
        ("DELETE", "/v1/collections/live", None, 409, "alias_conflict"),
        ("DELETE", "/v1/aliases/one", None, 404, "alias_not_found"),
    ):
        assert judged(await app.client.request(method, path, json=body), status)["code"] == code, (method, path)
    refused = judged(await app.client.delete("/v1/collections/one"), 409)
    assert refused["detail"].endswith("these lead to it: live")
    assert await app.get("/v1/aliases") == {"aliases": {"live": "one"}}
    assert (await app.get("/v1/collections"))["collections"] == ["one", "two"]


async def test_a_collection_takes_no_more_than_it_may(app: App) -> None:
    """Limits are set and shown; an add that would pass one is refused with its name, and nothing is written."""
    await app.put("/v1/collections/few", {"dim": 3})
    path = "/v1/collections/few/limits"
    assert await app.get(path) == {"items": None, "bytes": None, "count": 0}
    assert await app.put(path, {"items": 2}, status=200) == {"items": 2, "bytes": None, "count": 0}
    refused = await app.post("/v1/collections/few/index", {"items": ITEMS}, status=422)
    assert (refused["code"], refused["limit"]) == ("over_limit", "collection_items")
    assert "at most 2 items, and would have 3" in refused["detail"]
    await app.post("/v1/collections/few/index", {"items": ITEMS[:2]})
    await app.put(path, {"bytes": 1_000}, status=200)
    assert (await app.post("/v1/collections/few/index", {"items": ITEMS}, status=422))["limit"] == "collection_bytes"
    for bad in ({"items": -1}, {"items": "2"}, {"items": True}, {"rows": 2}):
        assert (await app.put(path, bad, status=422))["code"] == "invalid_field"
    assert await app.get(path) == {"items": None, "bytes": 1_000, "count": 2}
    assert (await app.get("/v1/collections/none/limits", status=404))["code"] == "collection_not_found"
