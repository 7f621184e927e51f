"""Payload indexes, facets and ordered pages over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from service_app import App

PATH = "/v1/collections/photos"


@pytest.fixture
async def photos(app: App) -> App:
    """A collection with an index of year, and three items."""
    await app.put(PATH, {"dim": 2, "indexes": {"year": "number"}})
    payloads = [{"year": 2020, "tag": ["a", "b"]}, {"year": 2021, "tag": "a"}, {"tag": True}]
    await app.post(f"{PATH}/index", {"items": [{"id": f"{i}", "vector": [1, i], "payload": one} for i, one in enumerate(payloads)]})
    return app


def kinds(told: dict[str, Any]) -> dict[str, str]:
    """The kinds of the indexes that are told of."""
    return {name: one["kind"] for name, one in told["fields"].items()}


async def test_indexes_are_declared_changed_and_described(photos: App) -> None:
    """What is declared is in the collection's stats, is changed in one request, and the same again changes nothing."""
    assert (await photos.get(PATH))["stats"]["indexes"]["fields"].keys() == {"year"}
    for _ in range(2):
        told = await photos.post(f"{PATH}/indexes", {"add": {"tag": "keyword", "seen": "datetime"}})
        assert kinds(told["indexes"]) == {"year": "number", "tag": "keyword", "seen": "datetime"}
    told = await photos.post(f"{PATH}/indexes", {"add": {"year": "keyword"}, "drop": ["year", "seen"]})
    assert kinds(told["indexes"]) == {"year": "keyword", "tag": "keyword"}
    assert (await photos.post(f"{PATH}/indexes", {"drop": ["year", "tag"]}))["indexes"] is None
    assert await photos.put(PATH, {"dim": 2, "indexes": {"where": "geo"}}, status=200)
    assert (await photos.get(PATH))["stats"]["indexes"]["fields"].keys() == {"where"}


async def test_facets_and_ordered_pages(photos: App) -> None:
    """Values come with exact counts, pages in the order of a field, on indexed fields and others."""
    told = await photos.post(f"{PATH}/facets", {"field": "tag", "filter": {"year": {"$exists": True}}})
    expected: dict[str, Any] = {"field": "tag", "distinct": 2, "items": 2}
    assert told == {**expected, "values": [{"value": "a", "count": 2}, {"value": "b", "count": 1}]}
    told = await photos.post(f"{PATH}/facets", {"field": "tag", "limit": 1})
    assert told == {"field": "tag", "values": [{"value": "a", "count": 2}], "distinct": 3, "items": 3}
    first = await photos.post(f"{PATH}/scroll", {"order_by": "year", "descending": True, "limit": 1})
    assert [item["id"] for item in first["items"]] == ["1"]
    again = await photos.post(f"{PATH}/scroll", {"order_by": "year", "descending": True, "limit": 1, "after": first["next"]})
    assert ([item["id"] for item in again["items"]], again["next"]) == (["0"], None)
    assert (await photos.post(f"{PATH}/count", {"filter": {"tag": {"$prefix": "b"}}}))["count"] == 1


@pytest.mark.parametrize(
    ("path", "body", "pointer", "says"),
    [
        ("indexes", {"add": {"year": "float"}}, "#/add", "the kind of an index is one of number, keyword, datetime, geo"),
        ("indexes", {"add": {"a..b": "number"}}, "#/add", "names a field of payloads"),
        ("indexes", {"add": {"year": "keyword"}}, "#/add", "'year' is indexed as number; drop that index first"),
        ("indexes", {"drop": ["tag"]}, "#/drop", "drop names a field that has an index (indexed are year)"),
        ("indexes", {"drop": "year"}, "#/drop", "a list is expected"),
        ("indexes", {"added": {}}, "#", "unknown field"),
        ("facets", {}, "#/field", "required"),
        ("facets", {"field": ""}, "#/field", "names a field of payloads"),
        ("facets", {"field": "a", "limit": 0}, "#/limit", "a whole number from 1 on"),
        ("facets", {"field": "a", "filter": {"year": {"$geo_box": {}}}}, "#/filter/year/$geo_box", "$geo_box takes"),
        ("scroll", {"order_by": "$year"}, "#/order_by", "names a field of payloads"),
        ("scroll", {"descending": True}, "#/descending", "goes with order_by"),
        ("scroll", {"order_by": "year", "after": "eA"}, "#/after", "with the same order"),
    ],
)
async def test_malformed_requests_are_refused(photos: App, path: str, body: Any, pointer: str, says: str) -> None:
    """Each is refused with 422, names its field and what was expected, and changes nothing."""
    refused = await photos.post(f"{PATH}/{path}", body, status=422)
    assert says in str(refused), refused
    assert [one["pointer"] for one in refused["errors"]][:1] == [pointer], refused
    assert (await photos.get(PATH))["stats"]["indexes"]["fields"]["year"]["kind"] == "number"


@pytest.mark.parametrize("path", ["indexes", "facets"])
async def test_a_collection_that_is_not_there(app: App, path: str) -> None:
    """Both routes answer 404 then."""
    body = {"field": "a"} if path == "facets" else {}
    assert (await app.post(f"{PATH}/{path}", body, status=404))["code"] == "collection_not_found"


async def test_payloads_of_items_with_several_vectors_are_indexed(app: App) -> None:
    """A collection with several vectors has indexes from the start and later, and facets and order."""
    fields = {"one": {"dim": 2}, "two": {"dim": 2}}
    await app.put(PATH, {"fields": fields, "indexes": {"year": "number"}})
    await app.post(f"{PATH}/indexes", {"add": {"tag": "keyword"}})
    assert (await app.get(PATH))["stats"]["indexes"]["fields"].keys() == {"year", "tag"}
    items = [{"id": f"{i}", "vectors": {"one": [1, i], "two": [i, 1]}, "payload": {"year": -i}} for i in range(3)]
    await app.post(f"{PATH}/index", {"items": items})
    assert (await app.post(f"{PATH}/facets", {"field": "year"}))["distinct"] == 3
    assert [item["id"] for item in (await app.post(f"{PATH}/scroll", {"order_by": "year"}))["items"]] == ["2", "1", "0"]
