"""Bad input: what each kind is answered with, that the answer repeats none of it, and that nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest

import kinbin
from kinbin.limits import LIMITS, Limit
from processor_time import at_most
from service_app import App, problem

CANARY = "canary-7f3a"
"""Appears in what is sent, and must not appear in what is answered."""


@dataclass(frozen=True)
class Bad:
    """A body and what it must be answered with: status, code, pointer of the first entry, a part of the detail."""

    body: bytes | dict[str, Any]
    status: int
    code: str
    pointer: str | None = None
    detail: str = ""
    limit: str | None = None

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)


def item(vector: Any, **fields: Any) -> dict[str, Any]:
    """An add of a good item and of one with this vector (or these fields)."""
    return {"items": [{"id": "good", "vector": [1, 2, 3]}, {"id": CANARY, "vector": vector, **fields}]}


def raw(vector: str) -> bytes:
    """The same as bytes, for vectors that are not JSON."""
    return b'{"items":[{"id":"good","vector":[1,2,3]},{"id":"x","vector":' + vector.encode() + b"}]}"


VECTOR = "#/items/1/vector"

ADDS: dict[str, Bad] = {
    # Numbers that are not finite.
    "NaN": Bad(raw("[1,NaN,3]"), 422, "non_finite", VECTOR + "/1", "not finite"),
    "Infinity": Bad(raw("[1,2,Infinity]"), 422, "non_finite", VECTOR + "/2", "not finite"),
    "-Infinity": Bad(raw("[-Infinity,2,3]"), 422, "non_finite", VECTOR + "/0", "not finite"),
    "1e999": Bad(raw("[1,2,1e999]"), 422, "non_finite", VECTOR + "/2", "not finite"),
    "-1e999": Bad(raw("[1,2,-1e999]"), 422, "non_finite", VECTOR + "/2", "not finite"),
    "an integer of 400 digits": Bad(raw("[1,2," + "1" * 400 + "]"), 422, "non_finite", VECTOR + "/2", "not finite"),
    "an integer of 4301 digits": Bad(raw("[1,2," + "1" * 4_301 + "]"), 422, "non_finite", VECTOR + "/2", "not finite"),
    "infinite sparse value": Bad(raw('{"indices":[1],"values":[1e999]}'), 422, "non_finite", VECTOR + "/values/0", "not finite"),
    "NaN in a payload": Bad(b'{"items":[{"id":"x","vector":[1,2,3],"payload":{"deep":[NaN]}}]}', 422, "non_finite", "#/items/0/payload"),
    # Things that are not numbers.
    "the string nan": Bad(item([1, "nan", 3]), 422, "bad_vector", VECTOR),
    "a number as a string": Bad(item([1, "1.5", 3]), 422, "bad_vector", VECTOR),
    "all numbers as strings": Bad(item(["1", "2", "3"]), 422, "bad_vector", VECTOR),
    "true as a number": Bad(item([1, True, 3]), 422, "bad_vector", VECTOR),
    "all booleans": Bad(item([True, False, True]), 422, "bad_vector", VECTOR),
    "null as a number": Bad(item([1, None, 3]), 422, "bad_vector", VECTOR),
    "an object as a number": Bad(item([1, {}, 3]), 422, "bad_vector", VECTOR),
    "a nested vector": Bad(item([[1, 2, 3]]), 422, "bad_vector", VECTOR),
    "a ragged vector": Bad(item([1, [2], 3]), 422, "bad_vector", VECTOR),
    "a string as a vector": Bad(item(CANARY), 422, "bad_vector", VECTOR, "a vector is a list of numbers"),
    "null as a vector": Bad(item(None), 422, "bad_vector", VECTOR, "a vector is a list of numbers"),
    "a number as a vector": Bad(item(1), 422, "bad_vector", VECTOR, "a vector is a list of numbers"),
    "an unknown form": Bad(item({"dense": [1, 2, 3]}), 422, "bad_vector", VECTOR, "a vector is a list of numbers"),
    "indices without values": Bad(item({"indices": [1]}), 422, "bad_vector", VECTOR),
    "a field too many": Bad(item({"indices": [1], "values": [1], CANARY: 1}), 422, "bad_vector", VECTOR),
    "values that are no list": Bad(item({"indices": [1], "values": CANARY}), 422, "bad_vector", VECTOR),
    "tokens that are one string": Bad(item({"tokens": CANARY}), 422, "bad_vector", VECTOR, "a vector is a list of numbers"),
    "tokens in a list": Bad(item({"tokens": ["a"]}), 422, "bad_vector", VECTOR, "need a collection without a dimension"),
    "strings and then numbers": Bad(item([CANARY, 1]), 422, "bad_vector", VECTOR, "tokens are strings, one of these is int"),
    "numbers and then strings": Bad(item([1, CANARY]), 422, "bad_vector", VECTOR, "values are numbers, one of these is a string"),
    "a mode nearly known": Bad({**item([1, 2, 3]), "mode": "upset"}, 422, "invalid_field", "#/mode", "; did you mean 'upsert'?"),
    "a field nearly known": Bad(
        item([1, 2, 3], payloads={}), 422, "invalid_field", "#/items/1", "unknown field 'payloads'; did you mean 'payload'? known are id, "
    ),
    "indices of another length": Bad(item({"indices": [0, 1], "values": [1]}), 422, "bad_vector", VECTOR),
    "a fractional index": Bad(item({"indices": [0.5], "values": [1]}), 422, "bad_vector", VECTOR),
    "a boolean index": Bad(item({"indices": [True], "values": [1]}), 422, "bad_vector", VECTOR),
    "a string index": Bad(item({"indices": ["1"], "values": [1]}), 422, "bad_vector", VECTOR),
    "a boolean value": Bad(item({"indices": [1], "values": [True]}), 422, "bad_vector", VECTOR),
    "a string value": Bad(item({"indices": [1], "values": ["1"]}), 422, "bad_vector", VECTOR),
    # Numbers that cannot be.
    "too large a value": Bad(item([1, 2, 1e16]), 422, "out_of_range", VECTOR),
    "a zero vector": Bad(item([0, 0, 0]), 422, "zero_vector", VECTOR),
    "a vector of negative zeros": Bad(item([0, -0.0, 0]), 422, "zero_vector", VECTOR),
    "a vector of denormals": Bad(item([1e-320, 0, 0]), 422, "zero_vector", VECTOR),
    "too short a vector": Bad(item([1, 2]), 422, "dimension_mismatch", VECTOR),
    "too long a vector": Bad(item([1, 2, 3, 4]), 422, "dimension_mismatch", VECTOR),
    "an empty vector": Bad(item([]), 422, "dimension_mismatch", VECTOR),
    "a feature beyond the dimension": Bad(item({"indices": [3], "values": [1]}), 422, "dimension_mismatch", VECTOR),
    "a feature twice": Bad(item({"indices": [1, 1], "values": [1, 2]}), 422, "duplicate_feature", VECTOR),
    # Ids.
    "an id twice": Bad(
        {"items": [{"id": CANARY, "vector": [1, 2, 3]}] * 2}, 422, "duplicate_id", "#/items/1/id", "the same id is at #/items/0/id"
    ),
    "an empty id": Bad(item([1, 2, 3], id=""), 422, "bad_id", "#/items/1/id"),
    "NUL in an id": Bad(item([1, 2, 3], id="a\0b"), 422, "bad_id", "#/items/1/id"),
    "a control character in an id": Bad(item([1, 2, 3], id="a\x1bb"), 422, "bad_id", "#/items/1/id"),
    "too long an id": Bad(item([1, 2, 3], id="é" * 128), 422, "bad_id", "#/items/1/id"),
    "a lone surrogate in an id": Bad(b'{"items":[{"id":"\\ud800","vector":[1,2,3]}]}', 422, "bad_id", "#/items/0/id", "surrogate"),
    "a low surrogate in an id": Bad(b'{"items":[{"id":"\\udc00","vector":[1,2,3]}]}', 422, "bad_id", "#/items/0/id", "surrogate"),
    "a lone surrogate in a payload": Bad(
        b'{"items":[{"id":"a","vector":[1,2,3],"payload":{"id":"\\ud83d"}}]}', 422, "bad_string", "#/items/0/payload", "surrogate"
    ),
    "a fraction as an id": Bad(item([1, 2, 3], id=7.5), 422, "invalid_field", "#/items/1/id", "a string or a 64-bit integer"),
    # The envelope.
    "an unknown field": Bad({"items": [], CANARY: 1}, 422, "invalid_field", "#", "unknown field; known are items, mode"),
    "an unknown field of an item": Bad(item([1, 2, 3], **{CANARY: 1}), 422, "invalid_field", "#/items/1", "known are id, vector, payload"),
    "no vector": Bad({"items": [{"id": "a"}]}, 422, "invalid_field", "#/items/0/vector", "required"),
    "no id": Bad({"items": [{"vector": [1, 2, 3]}]}, 422, "invalid_field", "#/items/0/id", "required"),
    "no items": Bad({}, 422, "invalid_field", "#/items", "required"),
    "items that are no list": Bad({"items": CANARY}, 422, "invalid_field", "#/items", "items: a list is expected, not a string"),
    "an item that is no object": Bad(
        {"items": [CANARY]}, 422, "invalid_field", "#/items/0",
        "an object with the fields id, vector, payload, if_version is expected, not a string",
    ),
    "a body that is a list": Bad(b"[]", 422, "invalid_field", "#", "with the fields items, mode, on_error is expected, not a list"),
    "a body that is null": Bad(b"null", 422, "invalid_field", "#", "is expected, not null"),
    "a body that is a string": Bad(orjson.dumps(CANARY), 422, "invalid_field", "#", "is expected, not a string"),
    "an unknown mode": Bad({**item([1, 2, 3]), "mode": CANARY}, 422, "invalid_field", "#/mode", "mode is one of upsert, insert, update"),
    "too many items": Bad({"items": [{"id": "a", "vector": [1]}] * 10_001}, 422, "over_limit", "#/items", "at most 10000", "batch_items"),
    # Payloads.
    "a payload that is a list": Bad(
        item([1, 2, 3], payload=[CANARY]), 422, "invalid_field", "#/items/1/payload", "payload: an object is expected, not a list"
    ),
    "too deep a payload": Bad(
        b'{"items":[{"id":"a","vector":[1,2,3],"payload":{"a":' + b"[" * 40 + b"]" * 40 + b"}}]}",
        422, "bad_payload", "#/items/0/payload", "levels deep",
    ),
    "too large a payload": Bad(
        item([1, 2, 3], payload={"a": CANARY * 10_000}), 422, "over_limit", "#/items/1/payload", "", "payload_bytes"
    ),
    # Not JSON.
    "an empty body": Bad(b"", 400, "bad_json", "#", "not JSON"),
    "half a body": Bad(b'{"items":[{"id":"' + CANARY.encode(), 400, "bad_json", "#", "not JSON"),
    "a trailing comma": Bad(b'{"items":[],}', 400, "bad_json", "#", "not JSON"),
    "two values": Bad(b"{} {}", 400, "bad_json", "#", "not JSON"),
    "nested too deeply": Bad(b"[" * 100_000, 400, "bad_json", "#", "nested too deeply"),
    "nested too deeply, and closed": Bad(b'{"items":' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400, "bad_json", "#", "nested too deeply"),
    "bad UTF-8": Bad(b'{"items":[{"id":"\xff\xfe","vector":[1,2,3]}]}', 400, "bad_json", "#", "not UTF-8"),
    "an encoded surrogate": Bad(b'{"items":[{"id":"\xed\xa0\x80","vector":[1,2,3]}]}', 400, "bad_json", "#", "not UTF-8"),
    "UTF-16": Bad('{"items":[]}'.encode("utf-16"), 400, "bad_json", "#"),
    "UTF-32": Bad('{"items":[]}'.encode("utf-32"), 400, "bad_json", "#"),
    "a byte order mark": Bad(b"\xef\xbb\xbf{}", 400, "bad_json", "#", "not JSON"),
    "a NUL in a string": Bad(b'{"items":[{"id":"a\0"}]}', 400, "bad_json", "#", "not JSON"),
}  # fmt: skip


@pytest.fixture
async def filled(app: App) -> App:
    """An application with one item of dimension 3 in `default`."""
    await app.post("/index", {"items": [{"id": "stored", "vector": [3, 2, 1], "payload": {"kept": True}}]})
    return app


@pytest.mark.parametrize("name", ADDS)
async def test_bad_adds_are_refused_whole(filled: App, name: str) -> None:
    """Each kind of bad add gets its status, code and pointer; the good item of the batch is not written either."""
    bad = ADDS[name]
    before = await filled.state()
    with at_most(5):
        refused = await filled.post("/index", bad.content, status=bad.status)
    check(refused, bad)
    assert await filled.state() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDS)
async def test_bad_first_adds_create_nothing(app: App, name: str) -> None:
    """On an empty database a bad add is refused just as well, and no collection appears."""
    bad = ADDS[name]
    await app.post("/index", bad.content, status=bad.status)
    assert await app.state() == {}


FOREIGN = ("Value error", "Input should", "Field required", "dictionary", "after validation", "match pattern")


def check(refused: dict[str, Any], bad: Bad) -> None:
    """What is expected of a refusal."""
    assert refused["code"] == bad.code, refused
    assert bad.detail in refused["detail"], refused
    assert refused["limit"] == bad.limit
    if bad.pointer:
        assert refused["errors"][0]["pointer"] == bad.pointer, refused
        assert refused["errors"][0]["detail"]
    assert CANARY not in str(refused)
    assert not any(word in str(refused) for word in FOREIGN), "the validator's own words"


QUERIES: dict[str, Bad] = {
    "nothing asked": Bad({}, 422, "invalid_field", "#", "exactly one of vector, id and queries"),
    "two things asked": Bad({"vector": [1, 2, 3], "id": CANARY}, 422, "invalid_field", "#", "exactly one of vector, id and queries"),
    "k of zero": Bad({"vector": [1, 2, 3], "k": 0}, 422, "invalid_field", "#/k", "k is a whole number from 1 on"),
    "too large a k": Bad({"vector": [1, 2, 3], "k": 1_001}, 422, "over_limit", "#/k", "k: at most 1000", "k"),
    "an enormous k": Bad(b'{"vector":[1,2,3],"k":' + b"9" * 300 + b"}", 422, "invalid_field", "#/k"),
    "k as a string": Bad({"vector": [1, 2, 3], "k": "10"}, 422, "invalid_field", "#/k", "k is a whole number from 1 on"),
    "k as true": Bad({"vector": [1, 2, 3], "k": True}, 422, "invalid_field", "#/k", "k is a whole number from 1 on"),
    "a fractional k": Bad({"vector": [1, 2, 3], "k": 1.5}, 422, "invalid_field", "#/k", "k is a whole number from 1 on"),
    "target_recall as a string": Bad(
        {"vector": [1, 2, 3], "target_recall": "0.9"},
        422,
        "invalid_field",
        "#/target_recall",
        "target_recall is a number above 0 and at most 1",
    ),
    "target_recall as true": Bad(
        {"vector": [1, 2, 3], "target_recall": True},
        422,
        "invalid_field",
        "#/target_recall",
        "target_recall is a number above 0 and at most 1",
    ),
    "too large a target_recall": Bad(
        {"vector": [1, 2, 3], "target_recall": 1.01},
        422,
        "invalid_field",
        "#/target_recall",
        "target_recall is a number above 0 and at most 1",
    ),
    "an infinite min_score": Bad(b'{"vector":[1,2,3],"min_score":1e999}', 422, "non_finite", "#/min_score", "not finite"),
    "an unknown mode": Bad(
        {"vector": [1, 2, 3], "mode": CANARY}, 422, "invalid_field", "#/mode", "mode is one of auto, bands, links, exact"
    ),
    "certify as a string": Bad({"vector": [1, 2, 3], "certify": CANARY}, 422, "invalid_field", "#/certify", "certify is true or false"),
    "certify as a number": Bad({"vector": [1, 2, 3], "certify": 1}, 422, "invalid_field", "#/certify", "certify is true or false"),
    "certify as null": Bad({"vector": [1, 2, 3], "certify": None}, 422, "invalid_field", "#/certify", "certify is true or false"),
    "an unknown include": Bad(
        {"vector": [1, 2, 3], "include": [CANARY]}, 422, "invalid_field", "#/include/0", "include lists some of vector, payload"
    ),
    "an unknown field": Bad({"vector": [1, 2, 3], CANARY: 1}, 422, "invalid_field", "#", "unknown field"),
    "a mistyped field": Bad({"vectr": [1]}, 422, "invalid_field", "#", "unknown field 'vectr'; did you mean 'vector'? known are vector, "),
    "a field of a grouping": Bad(
        {"id": "a", "group_by": {"field": "n", "x": 2}},
        422,
        "invalid_field",
        "#/group_by",
        "unknown field 'x'; known are field, groups, size",
    ),
    "too many queries": Bad({"queries": [0] * 10_001}, 422, "over_limit", "#/queries", "at most 10000", "batch_queries"),
    "too large an answer": Bad(
        {"queries": [[1, 2, 3]] * 1_001, "k": 1_000}, 422, "over_limit", "#/k", "k times queries is at most 1,000,000", "answer_items"
    ),
    "too large an answer with contents": Bad(
        {"queries": [[1, 2, 3]] * 1_001, "include": ["payload"]},
        422,
        "over_limit",
        "#/k",
        "k times queries is at most 10,000",
        "answer_contents",
    ),
    "NaN": Bad(b'{"vector":[1,2,NaN]}', 422, "non_finite", "#/vector/2", "not finite"),
    "a zero vector": Bad({"vector": [0, 0, 0]}, 422, "zero_vector", "#/vector", "similarity to it is undefined"),
    "a string in a vector": Bad({"vector": [1, 2, CANARY]}, 422, "bad_vector", "#/vector"),
    "true in a vector": Bad({"vector": [1, 2, True]}, 422, "bad_vector", "#/vector"),
    "the wrong dimension": Bad({"vector": [1, 2]}, 422, "dimension_mismatch", "#/vector"),
    "a string as a vector": Bad({"vector": CANARY}, 422, "bad_vector", "#/vector", "a vector is a list of numbers"),
    "a bad query of many": Bad({"queries": [[1, 2, 3], [0, 0, 0]]}, 422, "zero_vector", "#/queries/1"),
    "a string among many queries": Bad({"queries": [[1, 2, 3], CANARY]}, 422, "bad_vector", "#/queries/1"),
    "null among many queries": Bad({"queries": [[1, 2, 3], None]}, 422, "bad_vector", "#/queries/1"),
    "queries of two lengths": Bad({"queries": [[1, 2, 3], [1, 2]]}, 422, "dimension_mismatch", "#/queries/1"),
    "a filter that is a list": Bad(
        {"vector": [1, 2, 3], "filter": [CANARY]}, 422, "invalid_field", "#/filter", "filter is an object with at least one field"
    ),
    "an operator nearly known": Bad(
        {"vector": [1, 2, 3], "filter": {"a": {"gte": 1}}}, 422, "bad_filter", "#/filter/a/gte", "mean '$gte'?"
    ),
    "an unknown operator": Bad(
        {"vector": [1, 2, 3], "filter": {"year": {"$near": CANARY}}}, 422, "bad_filter", "#/filter/year/$near", "unknown operator '$near'; "
    ),
    "an unknown operator with a near one": Bad(
        {"vector": [1, 2, 3], "filter": {"$or": [{"a": 1}, {"a/b~": {"$near": 3}}]}},
        422,
        "bad_filter",
        "#/filter/$or/1/a~1b~0/$near",
        "; did you mean '$ne'?",
    ),
    "a value of the wrong kind": Bad(
        {"vector": [1, 2, 3], "filter": {"a": {"$in": CANARY}}}, 422, "bad_filter", "#/filter/a/$in", "$in takes"
    ),
    "a value that is a list": Bad({"vector": [1, 2, 3], "filter": {"a": [CANARY]}}, 422, "bad_filter", "#/filter/a", "$eq takes"),
    "too deep a filter": Bad(
        b'{"vector":[1,2,3],"filter":' + b'{"$not":' * 20 + b'{"a":1}' + b"}" * 20 + b"}", 422, "over_limit", "#/filter", "", "filter_depth"
    ),
    "too many terms": Bad({"vector": [1, 2, 3], "filter": {"a": {"$in": [1] * 300}}}, 422, "over_limit", "#/filter", "", "filter_terms"),
    "not JSON": Bad(b'{"vector":[1,2', 400, "bad_json", "#", "not JSON"),
}


@pytest.mark.parametrize("name", QUERIES)
async def test_bad_queries_are_refused(filled: App, name: str) -> None:
    """Each kind of bad query gets its status, code, pointer and limit."""
    bad = QUERIES[name]
    check(await filled.post("/query", bad.content, status=bad.status), bad)


OTHERS: dict[str, tuple[str, Bad]] = {
    "get without ids": ("get", Bad({}, 422, "invalid_field", "#/ids", "required")),
    "get of a number": ("get", Bad({"ids": ["a", 7.5]}, 422, "invalid_field", "#/ids/1", "a string or a 64-bit integer")),
    "get of too many": ("get", Bad({"ids": ["a"] * 10_001}, 422, "over_limit", "#/ids", "at most 10000", "batch_items")),
    "get of a lone surrogate": ("get", Bad(b'{"ids":["a","\\ud800"]}', 422, "bad_id", "#/ids/1", "surrogate")),
    "delete of nothing": ("delete", Bad({}, 422, "invalid_field", "#", "exactly one of ids and filter")),
    "delete of both": ("delete", Bad({"ids": [], "filter": {}}, 422, "invalid_field", "#", "exactly one of ids and filter")),
    "delete of too many": ("delete", Bad({"ids": ["a"] * 10_001}, 422, "over_limit", "#/ids", "at most 10000", "batch_items")),
    "delete by a bad filter": ("delete", Bad({"filter": {"$nor": []}}, 422, "bad_filter", "#/filter/$nor")),
    "scroll of too many": ("scroll", Bad({"limit": 1_001}, 422, "over_limit", "#/limit", "limit: at most 1000", "page")),
    "scroll of none": ("scroll", Bad({"limit": 0}, 422, "invalid_field", "#/limit", "limit is a whole number from 1 on")),
    "scroll from a forged cursor": ("scroll", Bad({"after": CANARY}, 422, "bad_parameter", "#/after")),
    "count with a bad filter": ("count", Bad({"filter": {"a": {"$regex": CANARY}}}, 422, "bad_filter", "#/filter/a/$regex")),
    "a payload with a vector": (
        "payload",
        Bad(
            {"items": [{"id": "a", "payload": {}, "vector": [1]}]},
            422,
            "invalid_field",
            "#/items/0",
            "unknown field 'vector'; known are id, payload, if_version",
        ),
    ),
    "more items than there are numbers": (
        "limits",
        Bad(b'{"items":9223372036854775808}', 422, "invalid_field", "#/items", "items: should be less than or equal to"),
    ),
    "choices that are lists": (
        "tune",
        Bad({"choices": [[3, 128]]}, 422, "invalid_field", "#/choices/0", "an object with the fields rows, bands is expected, not a list"),
    ),
    "no choices": ("tune", Bad({"choices": []}, 422, "invalid_field", "#/choices", "choices: has at least one entry")),
    "count with an unknown field": ("count", Bad({CANARY: 1}, 422, "invalid_field", "#", "known are filter")),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_bad_requests_to_the_other_routes_are_refused(filled: App, name: str) -> None:
    """get, delete, scroll and count refuse bad bodies, and delete nothing."""
    route, bad = OTHERS[name]
    before = await filled.state()
    method = "PUT" if route == "limits" else "POST"
    headers = {"content-type": "application/json"}
    answer = await filled.client.request(method, f"/v1/collections/default/{route}", content=bad.content, headers=headers)
    assert answer.status_code == bad.status
    check(problem(answer), bad)
    assert await filled.state() == before


CONFIGURATIONS: dict[str, Bad] = {
    "an unknown kernel": Bad(
        {"kernel": CANARY}, 422, "invalid_field", "#/kernel", f"kernel is one of {', '.join(kinbin.KERNELS)}, a product"
    ),
    "a kernel of a field": Bad(
        {"fields": {"colour": {"kernel": "chi"}}}, 422, "invalid_field", "#/fields/colour/kernel", "kernel is one of minmax, "
    ),
    "a kernel nearly known": Bad({"kernel": "ngm"}, 422, "invalid_field", "#/kernel", "; did you mean 'ngmm'?"),
    "a dimension of zero": Bad({"dim": 0}, 422, "invalid_field", "#/dim", "greater than or equal to 1"),
    "too large a dimension": Bad({"dim": 4_194_305}, 422, "over_limit", "#/dim", "dim: at most 4194304", "dimension"),
    "a dimension as a string": Bad({"dim": "3"}, 422, "invalid_field", "#/dim", "valid integer"),
    "a dimension as true": Bad({"dim": True}, 422, "invalid_field", "#/dim", "valid integer"),
    "an unknown sampler": Bad({"sampler": CANARY}, 422, "invalid_field", "#/sampler", f"sampler is one of {', '.join(kinbin.SAMPLERS)}"),
    "a negative seed": Bad({"seed": -1}, 422, "invalid_field", "#/seed", "greater than or equal to 0"),
    "an unknown field": Bad({CANARY: 1}, 422, "invalid_field", "#", "unknown field"),
    "not JSON": Bad(b"kernel=ngmm", 400, "bad_json", "#", "not JSON"),
}


FIELDS = {
    "items": {"items": 3},
    "ids": {"ids": [None]},
    "limit": {"limit": 0},
    "after": {"after": 3},
    "dim": {"dim": 0},
    "seed": {"seed": -1},
}
"""A body whose one wrong field is this one."""
ROUTES = {"items": "index", "ids": "get", "limit": "scroll", "after": "scroll"}


@pytest.mark.parametrize("field", FIELDS)
async def test_the_detail_names_the_field(filled: App, field: str) -> None:
    """Who reads the first line of a refusal only, as a command line prints it, learns which field is meant."""
    name = "/v1/collections/default"
    if field in ROUTES:
        refused = await filled.post(f"{name}/{ROUTES[field]}", FIELDS[field], status=422)
    else:
        refused = await filled.put(name, FIELDS[field], status=422)
    assert refused["detail"].startswith((f"{field}: should be", f"{field}: a", f"{field} is a"))
    assert "Input" not in refused["detail"]


@pytest.mark.parametrize("name", CONFIGURATIONS)
async def test_bad_configurations_are_refused(app: App, name: str) -> None:
    """PUT refuses bad configurations, and creates nothing."""
    bad = CONFIGURATIONS[name]
    response = await app.client.put("/v1/collections/photos", content=bad.content, headers={"content-type": "application/json"})
    assert response.status_code == bad.status
    check(problem(response), bad)
    assert await app.state() == {}


async def test_negative_values_are_refused_in_a_minmax_collection(app: App) -> None:
    """A collection of the minmax kernel takes no negative values, neither to add nor to query."""
    await app.put("/v1/collections/counts", {"kernel": "minmax", "dim": 3})
    refused = await app.post("/v1/collections/counts/index", item([1, -2, 3]), status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("negative_value", VECTOR)
    refused = await app.post("/v1/collections/counts/query", {"vector": [1, -2, 3]}, status=422)
    assert (refused["code"], refused["errors"][0]["pointer"]) == ("negative_value", "#/vector")


async def test_the_first_eight_bad_items_are_listed(filled: App) -> None:
    """A batch of many bad vectors names the first of them, at most eight, each by its own pointer."""
    items = [{"id": f"i{number}", "vector": [0, 0, 0] if number % 2 else [1, 2, 3]} for number in range(40)]
    refused = await filled.post("/index", {"items": items}, status=422)
    pointers = [entry["pointer"] for entry in refused["errors"]]
    assert pointers == [f"#/items/{number}/vector" for number in range(1, 1 + 2 * len(pointers), 2)]
    assert 2 <= len(pointers) <= 8


async def test_a_huge_batch_of_wrong_types_is_refused_fast_and_briefly(filled: App) -> None:
    """Half a megabyte of wrong types is answered in a moment, with less than 2 kB."""
    for body in (
        {"items": [{"id": "a", "vector": ["x"] * 120_000}]},
        {"items": [{"id": number} for number in range(9_000)]},
        {"vector": ["x"] * 120_000},
    ):
        with at_most(3):
            await filled.post("/query" if "vector" in body else "/index", body, status=422)


async def test_each_unknown_field_is_told_once(filled: App) -> None:
    """Of several unknown fields each that is a word has its entry, with what may be meant; those that are none share one."""
    refused = await filled.post("/query", {"vectr": [1], "zz": 1, f"{CANARY} 1": 1, f"{CANARY} 2": 2}, status=422)
    told = [entry["detail"] for entry in refused["errors"]]
    assert [one[:24] for one in told] == ["unknown field 'vectr'; d", "unknown field 'zz'; know", "unknown field; known are"]
    assert "did you mean 'vector'?" in told[0]


async def test_the_last_of_equal_keys_counts(filled: App) -> None:
    """Of a key that occurs twice in an object, the last one counts, as the document says."""
    await filled.post("/index", b'{"items":[{"id":"first","id":"last","vector":[9],"vector":[1,2,3]}]}')
    assert set((await filled.state())["default"]) == {"stored", "last"}


def test_the_limits_of_these_tests_are_those_of_the_library() -> None:
    """The numbers in the tables above are the library's limits."""
    assert {name: LIMITS[name].value for name in ("batch_items", "batch_queries", "k", "page", "dimension")} == {
        "batch_items": 10_000,
        "batch_queries": 10_000,
        "k": 1_000,
        "page": 1_000,
        "dimension": 4_194_304,
    }


async def test_an_add_over_the_limit_of_nonzeros_is_refused_whole(filled: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request is one transaction: what the library would cut into several is refused, and nothing of it is stored."""
    monkeypatch.setitem(LIMITS, "batch_nonzeros", Limit("batch_nonzeros", 5, "", ""))
    before = await filled.state()
    refused = await filled.post("/index", {"items": [{"id": f"i{n}", "vector": [1, 2, 3]} for n in range(2)]}, status=422)
    assert (refused["code"], refused["limit"]) == ("over_limit", "batch_nonzeros")
    assert await filled.state() == before
