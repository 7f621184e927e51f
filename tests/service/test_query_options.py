"""What a query may say besides what it is about: each option does over REST what it does in the library, and its refusals."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from service_app import App, judged

N = 40
IDS = [f"i{number:02d}" for number in range(N)]
VECTORS = np.random.default_rng(3).gamma(0.5, 1, (N, 4)) + 0.01
CANARY = "canary-3c1d"


@pytest.fixture
async def filled(app: App) -> App:
    """An application with items in `default`."""
    items = [
        {"id": name, "vector": vector.tolist(), "payload": {"n": n, "shot": f"s{n % 7}"}}
        for n, (name, vector) in enumerate(zip(IDS, VECTORS, strict=True))
    ]
    await app.post("/index", {"items": items})
    return app


def ids(answer: dict[str, Any]) -> list[str]:
    """The ids of an answer."""
    return [hit["id"] for hit in answer["results"]]


async def test_a_query_by_id_leaves_the_item_out(filled: App) -> None:
    """The item itself is answered with include_self only, and excluded items never are."""
    whole = ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), "k": N}))
    assert ids(await filled.post("/query", {"id": "i05", "k": N})) == [name for name in whole if name != "i05"]
    assert ids(await filled.post("/query", {"id": "i05", "k": N, "include_self": True})) == whole
    left = ids(await filled.post("/query", {"id": "i05", "k": 5, "exclude": [whole[2], "nobody"]}))
    assert left == [name for name in whole if name not in {"i05", whole[2]}][:5]


async def test_pages_by_offset(filled: App) -> None:
    """An offset leaves out so many of the nearest, of one query, of many, and of a matrix."""
    whole = ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), "k": N}))
    page = {"k": 10, "offset": 10}
    assert ids(await filled.post("/query", {"vector": VECTORS[5].tolist(), **page})) == whole[10:20]
    many = await filled.post("/query", {"queries": VECTORS[5:7].tolist(), **page, "exclude": [whole[0]]})
    assert ids(many["answers"][0]) == whole[11:21]


async def test_many_queries_with_options_of_their_own(filled: App) -> None:
    """Each entry is answered as it is alone; options beside `queries` hold for those that lack them, plain vectors included."""
    shared = {"k": 4, "filter": {"n": {"$lt": 30}}, "include": ["payload.n"]}
    entries: list[Any] = [
        VECTORS[1].tolist(),
        {"vector": VECTORS[2].tolist(), "k": 2, "min_score": 0.4},
        {"id": "i03", "include_self": True, "filter": None, "include": []},
        {"positive": ["i04", VECTORS[5].tolist()], "negative": ["i06"], "exclude": ["i01"], "debug": True},
        {"indices": [0, 2], "values": [1, 2]},
        {"id": "i07", "group_by": {"field": "shot", "groups": 2, "size": 2}},
        {"id": "i07", "cursor": ""},
    ]
    many = await filled.post("/query", {"queries": entries, **shared})
    assert many.keys() == {"answers", "took_ms"}
    for entry, answer in zip(entries, many["answers"], strict=True):
        body = entry if isinstance(entry, dict) and "indices" not in entry else {"vector": entry}
        alone = await filled.post("/query", {**shared, **body})
        for one in (alone, answer):
            one.pop("took_ms", None)
            if "debug" in one:
                assert [step.pop("ms") >= 0 for step in one["debug"]["steps"]]
        assert answer == alone
    assert await filled.post("/query", {"queries": [{"id": "i01"}], "k": 1, "mode": "exact"}) | {"took_ms": 0}


async def test_examples_are_scored_as_the_library_does(filled: App) -> None:
    """Positive and negative examples, ids and vectors, give the library's answer; they are left out unless they are kept."""
    library: Any = filled.service.database.collection("default")
    positive, negative = ["i04", VECTORS[5].tolist()], ["i06"]
    for options in ({}, {"include_self": True, "min_score": -0.1}, {"exclude": ["i01"], "filter": {"n": {"$gt": 3}}}):
        answer = await filled.post("/query", {"positive": positive, "negative": negative, "k": 6, **options})
        own = library.query_examples(positive, negative, k=6, **options)
        assert [(hit["id"], hit["score"]) for hit in answer["results"]] == list(zip(own.ids, own.scores.tolist(), strict=True))
        assert answer["recall_lower_bound"] == own.recall_lower_bound


async def test_groups_and_chosen_contents(filled: App) -> None:
    """Groups name their results, which come group by group with the fields of payloads that were chosen."""
    by = {"field": "shot", "groups": 3, "size": 2}
    answer = await filled.post("/query", {"id": "i05", "group_by": by, "include": ["payload.shot"]})
    assert [one for group in answer["groups"] for one in group["ids"]] == ids(answer)
    assert len(answer["groups"]) == 3
    for hit in answer["results"]:
        (group,) = [group for group in answer["groups"] if hit["id"] in group["ids"]]
        assert hit["payload"] == {"shot": group["value"]}
    got = await filled.post("/v1/collections/default/get", {"ids": ["i09"], "include": ["payload.n"]})
    assert got["items"] == [{"id": "i09", "payload": {"n": 9}}]


async def test_pages_by_cursor_end_with_a_write(filled: App) -> None:
    """Pages by cursor are one answer; the last has null, and after a write the next page is a conflict."""
    whole = ids(await filled.post("/query", {"id": "i05", "k": N}))
    found: list[str] = []
    cursor = last = ""
    while cursor is not None:
        page = await filled.post("/query", {"id": "i05", "k": 15, "cursor": cursor})
        found, cursor, last = found + ids(page), page["next"], cursor
    assert found == whole
    await filled.post("/index", {"items": [{"id": "new", "vector": [1, 1, 1, 1]}]})
    expired = await filled.post("/query", {"id": "i05", "k": 15, "cursor": last}, status=409)
    assert (expired["code"], expired["detail"]) == (
        "cursor_expired", "the collection has changed since the page before: begin again, with an empty cursor",
    )  # fmt: skip


async def test_debug_tells_what_was_done(filled: App) -> None:
    """debug carries counts and the time of each step, of one query, of many and of a matrix; without it there is none."""
    plain = await filled.post("/query", {"id": "i05"})
    told = await filled.post("/query", {"id": "i05", "debug": True})
    assert "debug" not in plain
    assert told["debug"].keys() == {"candidates", "verified", "truncated", "steps"}
    assert [step["step"] for step in told["debug"]["steps"]][: len(told["steps"])] == told["steps"]
    assert all(0 <= step["ms"] < 60_000 for step in told["debug"]["steps"])
    many = await filled.post("/query", {"queries": VECTORS[:2].tolist(), "debug": True})
    stream = io.BytesIO()
    np.save(stream, VECTORS[:2])
    headers = {"content-type": "application/x-npy"}
    matrix = judged(await filled.client.post("/query?debug=true&offset=1", content=stream.getvalue(), headers=headers), 200)
    assert all("debug" in answer for answer in (*many["answers"], *matrix["answers"]))
    assert ids(matrix["answers"][0]) == ids(many["answers"][0])[1:] + ids(matrix["answers"][0])[-1:]


async def test_strings_are_asked_alike(app: App) -> None:
    """Objects are examples and entries under their key; what items do not carry is refused where it stands."""
    await app.put("/v1/collections/words", {"items": "strings", "distance": "levenshtein"})
    items = [{"id": one, "string": one} for one in ("kitten", "sitting", "mitten", "knitting")]
    await app.post("/v1/collections/words/index", {"items": items})
    path = "/v1/collections/words/query"
    answer = await app.post(path, {"positive": [{"string": "bitten"}, "kitten"], "k": 1})
    assert answer["results"] == [{"id": "mitten", "distance": 1.0}]
    many = await app.post(path, {"queries": [{"string": "bitten", "k": 1, "exclude": ["kitten"]}, {"string": "sitting"}], "k": 2})
    assert [len(one["results"]) for one in many["answers"]] == [1, 2]
    refused = await app.post(path, {"queries": [{"string": "a", "k": 1}, [1, 2]]}, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("invalid_field", "#/queries/1/vector")
    refused = await app.post(path, {"positive": ["kitten", [1, 2]]}, status=422)
    assert refused["detail"] == 'items of this collection carry "string", not "vector"'


async def test_several_fields_take_options_but_no_examples(app: App) -> None:
    """Collections of several vectors take exclusions, pages and groups; examples and entries are refused in words."""
    await app.put("/v1/collections/p", {"fields": {"a": {"dim": 2}, "b": {"dim": 2}}})
    items = [{"id": f"i{n}", "vectors": {"a": [1, n + 1], "b": [n + 1, 2]}, "payload": {"n": n % 2}} for n in range(9)]
    await app.post("/v1/collections/p/index", {"items": items})
    whole = ids(await app.post("/v1/collections/p/query", {"id": "i3", "k": 9, "fields": ["a"]}))
    assert len(whole) == 8
    page = await app.post("/v1/collections/p/query", {"id": "i3", "k": 3, "fields": ["a"], "cursor": "", "exclude": [whole[0]]})
    assert ids(page) == whole[1:4]
    assert page["next"]
    grouped = await app.post("/v1/collections/p/query", {"id": "i3", "fields": ["a"], "group_by": {"field": "n"}})
    assert sorted(group["value"] for group in grouped["groups"]) == [0, 1]
    for body in ({"positive": ["i1"]}, {"queries": [{"id": "i1"}]}):
        refused = await app.post("/v1/collections/p/query", body, status=422)
        assert "takes neither examples nor queries" in refused["detail"]


IDS_TEXT = "exclude is a list of ids, each a string that is not empty or a 64-bit integer"
REFUSED: dict[str, tuple[dict[str, Any], str, str, str, str | None]] = {
    "exclude that is a string": ({"exclude": CANARY}, "invalid_field", "#/exclude", IDS_TEXT, None),
    "an exclusion of numbers": ({"exclude": [7.5]}, "invalid_field", "#/exclude/0", IDS_TEXT, None),
    "an empty exclusion": ({"exclude": [""]}, "bad_parameter", "#/exclude", IDS_TEXT, None),
    "too many exclusions": ({"exclude": ["a"] * 1_001}, "over_limit", "#/exclude", "exclude: at most 1000", "exclude"),
    "include_self as text": ({"include_self": "yes"}, "invalid_field", "#/include_self", "include_self is true or false", None),
    "include_self of a vector": ({"include_self": True}, "invalid_field", "#", "include_self comes with id", None),
    "an offset below none": ({"offset": -1}, "invalid_field", "#/offset", "offset is a whole number from 0 on", None),
    "an offset that is true": ({"offset": True}, "invalid_field", "#/offset", "offset is a whole number from 0 on", None),
    "a cursor that is a number": ({"cursor": 3}, "invalid_field", "#/cursor", "cursor is a string, or null", None),
    "a cursor that is none": ({"cursor": CANARY}, "bad_parameter", "#/cursor", "cursor is the next of an earlier page", None),
    "a cursor and an offset": ({"cursor": "", "offset": 1}, "bad_parameter", "#/cursor", "without an offset", None),
    "a grouping without a field": ({"group_by": {}}, "invalid_field", "#/group_by/field", "required", None),
    "a grouping of more": ({"group_by": {"field": "a", CANARY: 1}}, "invalid_field", "#/group_by", "unknown field", None),
    "groups of none": ({"group_by": {"field": "a", "size": 0}}, "invalid_field", "#/group_by/size", "greater than or equal to 1", None),
    "too many groups": ({"group_by": {"field": "a", "groups": 1_001}}, "over_limit", "#/group_by", "at most 1000", "k"),
    "an empty name of a field": ({"group_by": {"field": "a..b"}}, "bad_parameter", "#/group_by", "group_by is an object as", None),
    "debug as text": ({"debug": "yes"}, "invalid_field", "#/debug", "debug is true or false", None),
    "an unknown content": (
        {"include": [CANARY]},
        "invalid_field",
        "#/include/0",
        "include lists some of vector, payload, payload.FIELD",
        None,
    ),
    "too many contents": ({"include": [f"payload.{n}" for n in range(65)]}, "over_limit", "#/include", "at most 64", "include"),
    "examples beside a vector": ({"positive": ["i01"]}, "invalid_field", "#", "give exactly one of vector, id and queries", None),
    "negative alone": ({"negative": ["i01"]}, "invalid_field", "#", "negative comes with positive", None),
    "too large an offset": ({"offset": 10_001}, "over_limit", "#/offset", "offset: at most 10000", "offset"),
}


async def test_bad_options_are_refused(filled: App) -> None:
    """Each is answered with its code, place, text and limit, and nothing of what was sent."""
    for label, (body, code, pointer, detail, limit) in REFUSED.items():
        refused = await filled.post("/query", {"vector": [1, 2, 3, 4], **body}, status=422)
        assert (refused["code"], refused["errors"][0]["pointer"], refused["limit"]) == (code, pointer, limit), label
        assert detail in refused["detail"], label
        assert CANARY not in str(refused), label


@pytest.mark.parametrize("option", ["exclude", "include_self"])
async def test_a_matrix_takes_no_ids(option: str, filled: App) -> None:
    """Ids have no place in an address: as a parameter they are unknown."""
    response = await filled.client.post(f"/query?{option}=a", content=b"", headers={"content-type": "application/x-npy"})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_field")


EXAMPLES: dict[str, tuple[dict[str, Any], int, str, str, str]] = {
    "no example": ({"positive": []}, 422, "invalid_field", "#/positive", "at least one entry"),
    "an unknown example": ({"positive": ["i01", CANARY]}, 404, "unknown_id", "#/positive/1", "no item of this collection has the id"),
    "an unknown negative": ({"positive": ["i01"], "negative": [CANARY]}, 404, "unknown_id", "#/negative/0", "no item of this collection"),
    "an example of another dimension": ({"positive": ["i01", [1, 2]]}, 422, "dimension_mismatch", "#/positive/1", ""),
    "an example that is a number": ({"positive": [7.5]}, 422, "bad_vector", "#/positive/0", "a vector is a list of numbers"),
    "an example of another kind": ({"positive": [{"string": "x"}]}, 422, "invalid_field", "#/positive/0/string", 'carry "vector"'),
    "too many examples": ({"positive": ["i01"] * 101}, 422, "over_limit", "#/positive", "at most 100"),
    "an unknown id of many": ({"queries": [{"id": "i01"}, {"id": CANARY}]}, 404, "unknown_id", "#/queries/1/id", "no item of this"),
    "an entry of two things": ({"queries": [{"id": "a", "vector": [1]}]}, 422, "invalid_field", "#/queries/0", "give exactly one of"),
    "an entry of nothing": ({"queries": [{"k": 3}]}, 422, "invalid_field", "#/queries/0", "give exactly one of"),
    "an unknown field of an entry": ({"queries": [{"id": "a", CANARY: 1}]}, 422, "invalid_field", "#/queries/0", "unknown field"),
    "a bad option of an entry": ({"queries": [{"id": "a", "k": 0}]}, 422, "invalid_field", "#/queries/0/k", "k is a whole number"),
    "a k beyond of an entry": ({"queries": [{"id": "a", "k": 1_001}]}, 422, "over_limit", "#/queries/0/k", "at most 1000"),
    "a bad vector of an entry": ({"queries": [{"vector": [1, 2, 3], "k": 1}]}, 422, "dimension_mismatch", "#/queries/0/vector", ""),
    "a bad grouping of an entry": (
        {"queries": [{"id": "a", "group_by": {"field": "a."}}]}, 422, "bad_parameter", "#/queries/0/group_by", "group_by is an object",
    ),
    "an example of an entry": ({"queries": [{"positive": ["i01", CANARY]}]}, 404, "unknown_id", "#/queries/0/positive/1", "no item"),
    "too many hits": ({"queries": [{"id": "i01", "k": 1_000, "include": ["payload"]}] * 11}, 422, "over_limit", "#/k", "at most 10,000"),
}  # fmt: skip


async def test_bad_examples_and_entries_are_refused(filled: App) -> None:
    """Each is answered with its status, code and text, and a pointer to where it stands; nothing of it is repeated."""
    for label, (body, status, code, pointer, detail) in EXAMPLES.items():
        refused = await filled.post("/query", body, status=status)
        assert (refused["code"], refused["errors"][0]["pointer"]) == (code, pointer), label
        assert detail in refused["detail"], label
        assert CANARY not in str(refused), label
